package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/config"
	"weir/internal/systest"
)

// command is a command of a document's indented blocks, and what it is shown to print.
type command struct{ line, output string }

// commands returns what follows a $ in the blocks of a text. A command goes on in lines that are indented
// further.
func commands(text string) (all []command) {
	said := false
	for line := range strings.Lines(text) {
		line, indented := strings.CutPrefix(line, "    ")
		started, ok := strings.CutPrefix(line, "$ ")
		switch {
		case !indented:
			said = false
		case ok:
			all, said = append(all, command{line: started}), true
		case said && strings.HasPrefix(line, "      ") && all[len(all)-1].output == "":
			all[len(all)-1].line += line
		case said:
			all[len(all)-1].output += line
		}
	}
	return all
}

var (
	measured = regexp.MustCompile(`\bin [0-9.]+ s\b`)
	sampled  = regexp.MustCompile(`[0-9]\.[0-9]{6,}`)
	numbers  = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)
	names    = regexp.MustCompile(`"[^"]*"([],}])`)
)

// shape is what is the same of an output each time: all of it but times, and where there are samples or
// fallback items, the names of its members.
func shape(output string) string {
	output = measured.ReplaceAllString(strings.TrimSpace(output), "in T s")
	if sampled.MatchString(output) || strings.Contains(output, `"fallback":3`) {
		output = names.ReplaceAllString(numbers.ReplaceAllString(output, "N"), "S$1")
	}
	return output
}

// The README's commands do what it says, one after the other, in one directory. A server that is started
// takes the place of the one before.
func TestTheReadmeIsTrue(t *testing.T) {
	systest.LongRun(t, "it runs all of the README")
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	demo := "weir generate --users 100000 --items 200 -o demo.weir && exec weir serve --feeds demo.weir " +
		"--data demo"
	readme := strings.Replace(string(text), "    make run\n", "    $ "+demo+"\n", 1)
	ports := strings.NewReplacer("8080", freePort(t), "8081", freePort(t))
	stop := func() {}
	defer func() { stop() }()
	for i, c := range commands(readme) {
		file, isFile := strings.CutPrefix(strings.TrimSpace(c.line), "cat ")
		serves := strings.Contains(c.line, "weir serve") || strings.Contains(c.line, "weir sequence")
		if !strings.Contains(c.line, "--listen") && strings.Contains(c.line, "weir serve") {
			c.line = strings.TrimSpace(c.line) + " --listen :8080"
		}
		if serves {
			c.line = strings.TrimSpace(c.line) + " --admin 127.0.0.1:8081"
		}
		loads := strings.HasPrefix(c.line, "weir load")
		if loads {
			c.line = strings.TrimSpace(c.line) + " --duration 1s"
		}
		line := ports.Replace(c.line)
		switch {
		case isFile: // that the reader has written
			if err := os.WriteFile(file, []byte(c.output), 0o666); err != nil {
				t.Fatal(err)
			}
		case serves:
			stop()
			stop = background(t, line, "http://127.0.0.1:"+ports.Replace("8080")+"/health")
		default:
			out, err := exec.Command("bash", "-c", "curl() { command curl -sS \"$@\"; }\n"+
				line).CombinedOutput()
			if loads { // a second has other figures, and may fail a condition
				if err != nil && err.Error() != "exit status 1" ||
					!strings.Contains(string(out), "\n  latency ") {
					t.Errorf("%s: %v\n%s", c.line, err, out)
				}
				continue
			}
			if err != nil || shape(string(out)) != shape(c.output) {
				t.Errorf("command %d, %v:\n%s%s\nthe README has\n%s", i, err, line, out, c.output)
			}
		}
	}
}

// background starts a server and waits until it is healthy. The function it returns ends it.
func background(t *testing.T, line, health string) (stop func()) {
	t.Helper()
	if !strings.Contains(line, "exec ") {
		line = "exec " + line
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "bash", "-c", line)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	systest.Eventually(t, line+" to be healthy",
		func() bool { return exec.Command("curl", "-sf", health).Run() == nil })
	return func() {
		cancel()
		cmd.Wait() //nolint:errcheck // of the interrupt
		if code := cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("%s ends with %d:\n%s", line, code, &said)
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// Command lines of weir in all documents are such that its commands take them.
func TestDocumentsShowOnlyCommandLinesThatAreTaken(t *testing.T) {
	line := regexp.MustCompile(`(?m)^    (?:here)?(?:\$ )?((?:[^\n$]*\| )?weir [a-z-]+[^\n]*)`)
	found := 0
	for path, text := range documents(t) {
		for _, m := range line.FindAllStringSubmatch(text, -1) {
			found++
			quoted := "weir() { printf '%s\\0' \"$@\" >&3; }\n" +
				strings.ReplaceAll(strings.TrimSuffix(strings.TrimSpace(m[1]), "&"), " ... ", " ")
			args := filepath.Join(t.TempDir(), "args")
			if out, err := exec.Command("bash", "-c", quoted+" 3>"+args).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", quoted, err, out)
			}
			split, err := os.ReadFile(args)
			if err != nil {
				t.Fatal(err)
			}
			root := newRoot()
			idle(root)
			root.SetArgs(strings.Split(strings.TrimSuffix(string(split), "\x00"), "\x00"))
			if err := root.Execute(); err != nil {
				t.Errorf("%s has %s: %v", path, m[1], err)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d command lines were found", found)
	}
}

// Settings that documents show are settings.
func TestDocumentsShowOnlySettingsThatAreTaken(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```toml\n(.*?)```")
	found := 0
	for path, text := range documents(t) {
		for _, m := range blocks.FindAllStringSubmatch(text, -1) {
			found++
			file := filepath.Join(t.TempDir(), "weir.toml")
			if err := os.WriteFile(file, []byte(m[1]), 0o600); err != nil {
				t.Fatal(err)
			}
			serve, _, err := newRoot().Find([]string{"serve"})
			if err != nil {
				t.Fatal(err)
			}
			sources := config.Sources{File: file}
			if from, err := sources.Fill(serve.Flags()); err != nil || len(from) == 0 {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if found == 0 {
		t.Error("no settings found")
	}
}

// idle has a command and those below take their arguments and do nothing.
func idle(cmd *cobra.Command) {
	cmd.RunE = func(*cobra.Command, []string) error { return nil }
	for _, c := range cmd.Commands() {
		idle(c)
	}
}
