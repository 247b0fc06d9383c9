package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/server"
	"weir/internal/systest"
)

// execute runs a command line in this process and returns what it prints.
func execute(t testing.TB, args ...string) (stdout string, err error) {
	t.Helper()
	var out bytes.Buffer
	cmd := newRoot()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(new(bytes.Buffer))
	err = cmd.Execute()
	return out.String(), err
}

func TestLearnedArmsAreExportedFromARunningServerAndFromAStoppedOne(t *testing.T) {
	dir := t.TempDir()
	data, arms := filepath.Join(dir, "data"), filepath.Join(dir, "arms.weir")
	importArms(t, arms, "items.csv", "item,alpha,beta\nemma,3,4\n")
	const query = `{"items":["emma"],"user":"ada"`
	var pair string // its posterior
	t.Run("running", func(t *testing.T) {
		p := serveHere(t, server.Config{}, data, "--bandit-arms", arms, "--bandit-learn", "pair")
		p.post("/events", `[{"item":"emma","reward":1,"user":"ada"},{"item":7,"reward":0}]`,
			`{"accepted":2,"duplicates":0}`)
		pair = p.posterior(query)
		if got, err := execute(t, "arms", "export", "--admin", p.admin, "-o", "-"); err != nil ||
			strings.Count(got, "\n") != 3 ||
			!strings.HasPrefix(got, `{"item":"emma","alpha":4,"beta":4}`+"\n") {
			t.Fatalf("%s %v", got, err)
		}
		if _, err := execute(t, "arms", "export", "--admin", p.admin, "-o",
			dir+"/running.arrow"); err != nil {
			t.Fatal(err)
		}
		if _, err := execute(t, "arms", "export", "--data", data, "-o", dir+"/locked.csv"); err == nil {
			t.Error("the directory of a running server was read")
		}
	})
	if _, err := execute(t, "arms", "export", "--data", data, "--bandit-arms", arms, "-o",
		dir+"/stopped.csv"); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"running.arrow", "stopped.csv"} {
		if _, err := execute(t, "import-arms", filepath.Join(dir, file), "-o", arms); err != nil {
			t.Fatal(err)
		}
		p := serveHere(t, server.Config{}, filepath.Join(dir, file+".data"), "--bandit-arms", arms)
		systest.Eventually(t, "arms", func() bool { status, _ := p.get("/health"); return status == 200 })
		p.wantPosterior(`{"items":["emma"]`, `[{"alpha":4,"beta":4,"mean":0.5,"source":"item"}]`)
		p.wantPosterior(query, pair)
		if err := os.Remove(arms); err != nil {
			t.Fatal(err)
		}
		importArms(t, arms, "items.csv", "item,alpha,beta\nemma,3,4\n")
	}
}

func TestArmsExportRefusesWhatMakesNoSense(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ says, args string }{
		{"-o FILE", ""},
		{"--admin", "-o x --admin :no:where"},
		{"none of the others can be", "-o x --admin 127.0.0.1:1 --data " + dir},
		{"no events were taken there", "-o x --data " + dir},
		{"must be jsonl, csv or arrow", "-o x --format xml"},
		{"is weir serve running", "-o " + dir + "/x --admin 127.0.0.1:1"},
	} {
		if _, err := execute(
			t, append([]string{"arms", "export"}, strings.Fields(c.args)...)...); err == nil ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.args, err, c.says)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}
