package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A command line that is wrong wherever it is run ends with 2 and says where help is, a failure with 1.
func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{"rows.csv": "user,item\n1,2\n",
		"arms.csv": "item,alpha,beta\na,1,1\n", "bad.csv": "user,item\n1,-2\n2,3\n", "text": "no snapshot"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const serve = "serve --data data --listen 127.0.0.1:0 --admin= "
	for code, lines := range [][]string{
		0: {
			"", "--help", "help", "help load ui", "version", "generate --users 3 --items 2 -o feeds.weir",
			"import rows.csv -o feeds.weir", "import-arms arms.csv -o arms.weir",
			"inspect feeds.weir", "load --help",
		},
		1: {
			"generate -o nowhere/feeds.weir", "import missing.csv -o feeds.weir",
			"import rows.csv --user-column who -o feeds.weir",
			"import --item-ids number bad.csv -o feeds.weir", "import rows.csv -o nowhere/feeds.weir",
			"import-arms missing.csv -o arms.weir", "import-arms rows.csv -o arms.weir",
			"inspect missing.weir", "inspect text", "inspect --user 99 feeds.weir",
			serve + "--feeds missing.weir", serve + "--feeds text", serve + "--bandit-arms missing.weir",
			serve + "--bandit-arms text", "serve --listen 127.0.0.1:0 --admin= --data text",
			serve + "--bandit-store feast+https://127.0.0.1:1 --bandit-store-ca missing.pem",
			serve + "--listen 192.0.2.1:1",
			serve + "--tls-listen 127.0.0.1:0 --tls-cert missing.pem --tls-key missing.pem",
			serve + "--feeds feeds.weir --fallback missing",
			"sequence --port 0 --admin= --file nowhere/at/all", "mock --listen 192.0.2.1:1",
			"load compare missing.json missing.json", "load --plan missing.json",
			"load agent --listen 192.0.2.1:1",
			"load http://127.0.0.1:1/ --rate 10/s --duration 1s --quiet",
		},
		2: {
			"nothing", "--nothing", "help nothing", "help load nothing", "version extra", "version --nothing",
			"generate", "generate -o -", "generate extra -o x.weir", "generate --nothing -o x.weir",
			"generate --users -1 -o x.weir", "generate --users 4294967296 -o x.weir",
			"generate --items 65536 -o x.weir",
			"generate --items -1 -o x.weir", "generate --items 6 --max-item 5 -o x.weir",
			"generate --max-item 4294967296 -o x.weir",
			"import", "import rows.csv", "import rows.csv -o -", "import rows.csv -o x.weir --memory 1MiB",
			"import rows.csv -o x.weir --max-bad -1", "import rows.csv -o x.weir --user-ids words",
			"import rows.csv -o x.weir --header maybe", "import rows.csv -o x.weir --on-duplicate-user sum",
			"import rows.csv -o x.weir --fallback 65536",
			"import rows.csv -o x.weir --rank-column a --score-column b",
			"import-arms", "import-arms arms.csv", "import-arms arms.csv -o -",
			"import-arms arms.csv -o x.weir --prior 0,1",
			"import-arms arms.csv -o x.weir --on-duplicate merge",
			"import-arms arms.csv -o x.weir --max-bad -1",
			"inspect", "inspect a b", "inspect --verify --json feeds.weir", "inspect --item a feeds.weir",
			"serve extra", serve + "--nothing", serve + "--loops 0", serve + "--log-level loud",
			serve + "--tls-listen 127.0.0.1:0",
			serve + "--data=", serve + "--listen=", serve + "--listen nonsense",
			serve + "--admin 127.0.0.1:99999", serve + "--fallback rows.csv",
			serve + "--feed-fallback bandit", serve + "--lock-memory",
			serve + "--feeds feeds.weir --sync-interval 0", serve + "--feeds feeds.weir --feeds-watch 0",
			serve + "--feeds feeds.weir --feed-fallback best",
			serve + "--feeds feeds.weir --feed-fallback bandit --bandit=false",
			serve + "--sequence-sync 0", serve + "--sequence-sync -1s", serve + "--sequence-max-index 0",
			serve + "--sequence-computations 99999",
			serve + "--bandit-prior 1", serve + "--bandit-learn users", serve + "--bandit-half-life 1ms",
			serve + "--bandit-max-items 0", serve + "--bandit-model=",
			serve + "--bandit-on-store-error ignore",
			serve + "--bandit-store-chunk 7", serve + "--bandit-store ftp://127.0.0.1",
			serve + "--bandit-store feast+http://127.0.0.1:1 --bandit-store-chunk 0",
			serve + "--bandit-store feast+http://127.0.0.1:1 --bandit-store-chunk -1",
			serve + "--bandit-store feast+http://127.0.0.1:1 --bandit-arms arms.weir",
			"sequence extra", "sequence --port 99999", "sequence --port 0 --admin= --seconds 0",
			"sequence --port 0 --admin= --file a --sequence-max-index 0",
			"mock extra", "mock --clock fast", "mock --step 0s", "load", "load a b",
			"load http://127.0.0.1:1/ --mode fast", "load http://127.0.0.1:1/ --rate 1/s --connections 2",
			"load http://127.0.0.1:1/ --fail-when fast",
			"load compare", "load compare a.json b.json --fail-over some", "load agent extra",
			"load ui extra", "load nothing --nothing",
		},
	} {
		for _, line := range lines {
			var stderr strings.Builder
			ctx, stop := context.WithTimeout(t.Context(), 30*time.Second) // one that is not refused serves
			defer stop()
			cmd := exec.CommandContext(ctx, "weir", strings.Fields(line)...)
			cmd.Stderr = &stderr
			before := everyFile(t, dir)
			err := cmd.Run()
			if after := everyFile(t, dir); code == 2 && after != before {
				t.Errorf("weir %s: there is\n%s, there was\n%s", line, after, before)
			}
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if got := cmd.ProcessState.ExitCode(); got != code ||
				(code == 2) != strings.Contains(stderr.String(),
					"--help' for the flags and their defaults.") {
				t.Errorf("weir %s: code %d, want %d\n%s", line, got, code, &stderr)
			}
		}
	}
}

// everyFile lists what is in a directory and below it.
func everyFile(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		all.WriteString(path + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// Two servers on one address are a mistake that leaves nothing to clean up.
func TestAnAddressThatIsTakenLeavesNoFiles(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	data := filepath.Join(t.TempDir(), "data")
	for _, format := range []string{"text", "json"} {
		var stderr strings.Builder
		cmd := exec.Command("weir", "serve", "--listen", ln.Addr().String(), "--admin=", "--data", data,
			"--log-format", format)
		cmd.Stderr = &stderr
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 1 ||
			!strings.Contains(stderr.String(), "address already in use") {
			t.Errorf("%v:\n%s", err, &stderr)
		}
		if _, err := os.Stat(data); err == nil {
			t.Error("a data directory was made")
		}
		for line := range strings.Lines(stderr.String()) {
			if format == "json" && !json.Valid([]byte(line)) {
				t.Errorf("a line of the log is no JSON: %s", line)
			}
		}
	}
}
