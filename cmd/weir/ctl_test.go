package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"weir/internal/server"
)

// ctlOf runs weir ctl with arguments against a server, and returns what it prints.
func ctlOf(t *testing.T, address string, args ...string) (string, error) {
	t.Helper()
	root, said := newRoot(), new(bytes.Buffer)
	root.SetOut(said)
	root.SetErr(said)
	root.SetArgs(append([]string{"ctl", "--admin", address}, args...))
	err := root.ExecuteContext(t.Context())
	return said.String(), err
}

func TestCtlAsksAndChangesARunningServer(t *testing.T) {
	dir := t.TempDir()
	lists := filepath.Join(dir, "feeds.weir")
	numbered(10, 5).write(t, lists, 900)
	p := serveHere(t, server.Config{Log: newLog(t.Output(), "text", slog.LevelInfo)},
		filepath.Join(dir, "data"), "--feeds", lists)
	for _, c := range []struct {
		line string
		says []string
	}{
		{"status", []string{"server    ready", "feed      ready"}},
		{"settings", []string{"NAME ", "feeds-min-share         0.5"}},
		{"set bandit-max-items=7 feeds-min-share=0.25", []string{"bandit-max-items is 7\n",
			"share is 0.25\n"}},
		{"settings", []string{"0.25", "weir ctl"}},
		{"reset bandit-max-items", []string{"what the flags say"}},
		{"undo", []string{"undone"}},
		{"set bandit-sync=2s", []string{"bandit-sync is 2s\n"}},
		{"get /health/ready", []string{"a power loss takes those of the last 2s"}},
		{"settings --json", []string{`{"settings":[{`, `"by":"weir ctl"`, `"undone_by":"weir ctl"`}},
		{"position 3 2", []string{"set"}},
		{"user 3 --size 2", []string{"position   2\n", "next       18 19\n", "length     5"}},
		{"restart 3", []string{"at the beginning"}},
		{"user 3 --json", []string{`"position":0`}},
		{"forget-user 3", []string{"forgotten"}},
		{"feeds", []string{"users ", "generation "}},
		{"reload feeds", []string{"generation  2"}},
		{"survey", []string{"running"}},
		{"arms --level item", []string{"LEVEL  ITEM  SEGMENT  USER  PULLS  MEAN"}},
		{"forget-arm --all true", []string{"forgotten  0"}},
		{"index 9", []string{"set"}},
		{"sequence", []string{"index "}},
		{"sources", []string{"URL "}},
		{"errors", []string{"GROUP  LEVEL"}},
		{"clear", []string{"cleared"}},
		{"log --text reload", []string{" info  feed     feed reload path=…/feeds.weir generation=2"}},
		{"log --service feed -n 1 --json", []string{`"service":"feed"`}},
		{"get /metrics", []string{"weir_build_info"}},
		{"get admin/feeds --json", []string{`{"generation":2`}},
	} {
		said, err := ctlOf(t, p.admin, strings.Fields(c.line)...)
		if wantSays(t, "weir ctl "+c.line, said, c.says...); err != nil {
			t.Errorf("weir ctl %s: %v", c.line, err)
		}
	}
}

func TestCtlSaysWhatToChange(t *testing.T) {
	p := serveHere(t, server.Config{}, filepath.Join(t.TempDir(), "data"))
	for line, c := range map[string]struct {
		usage bool
		says  string
	}{
		"sttus":                      {true, "did you mean status?"},
		"set bandit-max-item=3":      {false, "did you mean bandit-max-items?"},
		"set bandit-max-items=0":     {false, "bandit-max-items: --bandit-max-items must be a whole"},
		"set bandit-max-items":       {true, "as NAME=VALUE"},
		"set":                        {true, "settings, as NAME=VALUE"},
		"set a=1 a=2":                {true, "each once"},
		"reset bandit-max-items":     {false, "has not been changed"},
		"undo":                       {false, "no change is left"},
		"user":                       {true, "takes ID"},
		"position 1 many":            {true, "POSITION must be a whole number"},
		"reload all":                 {true, "expected feeds or arms"},
		"log --level loud":           {false, "level must be debug"},
		"get /nothing":               {false, "nothing"},
		"feeds":                      {false, "nothing at this path"},
		"forget-arm":                 {false, "item"},
		"status --token-file absent": {false, "--token-file"},
		"status --admin 127.0.0.1:1": {false, "is weir serve running"},
		"status --admin %":           {false, "expected host:port"},
	} {
		_, err := ctlOf(t, p.admin, strings.Fields(line)...)
		var usage *server.FlagError
		if err == nil || !strings.Contains(err.Error(), c.says) || errors.As(err, &usage) != c.usage {
			t.Errorf("weir ctl %s: %v, want an error of the command line (%t) that says %q", line, err,
				c.usage, c.says)
		}
	}
}

func TestCtlSendsItsToken(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer opensesame" {
			server.WriteProblem(w, http.StatusUnauthorized, "log in")
			return
		}
		w.Write([]byte(`{"status":"down","services":{"feed":{"status":"down","reason":"no disk"}}}`))
	}))
	defer s.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("opensesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := ctlOf(t, s.URL+"/", "status", "--token-file", token); err != nil ||
		!strings.Contains(said, "feed      down  no disk") {
		t.Errorf("%s, %v", said, err)
	}
	if _, err := ctlOf(t, s.URL, "status"); err == nil || !strings.Contains(err.Error(), "--token-file") {
		t.Error(err)
	}
}

func TestCtlFollowsTheLogUntilItIsInterrupted(t *testing.T) {
	p := serveHere(t, server.Config{Log: newLog(t.Output(), "text", slog.LevelInfo)},
		filepath.Join(t.TempDir(), "data"))
	out, in := io.Pipe()
	root := newRoot()
	root.SetOut(in)
	root.SetArgs([]string{"ctl", "--admin", p.admin, "log", "-f", "--text", "a setting has changed"})
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		err := root.ExecuteContext(ctx)
		in.Close()
		ended <- err
	}()
	lines := bufio.NewScanner(out)
	for i := range 3 {
		if _, err := ctlOf(t, p.admin, "set", fmt.Sprintf("bandit-max-items=%d", i+1)); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("value=%d", i+1); !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Fatalf("line %d is %q, %v; want %q", i, lines.Text(), lines.Err(), want)
		}
	}
	interrupt()
	if lines.Scan() {
		t.Errorf("another line is %q", lines.Text())
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestCtlStatusFailsWhenTheServerIsDown(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		w.Write([]byte(`{"status":"down","services":{"feed":{"status":"down"}}}`))
	}))
	defer s.Close()
	if said, err := ctlOf(t, s.URL, "status"); err == nil || !strings.Contains(said, "server  down") {
		t.Errorf("%s, %v", said, err)
	}
}

func TestCtlCompletesTheNamesOfSettings(t *testing.T) {
	p := serveHere(t, server.Config{}, filepath.Join(t.TempDir(), "data"))
	said, err := ctlOf(t, p.admin)
	if err != nil || !strings.Contains(said, "Ask a running server") {
		t.Errorf("%s, %v", said, err)
	}
	root, out := newRoot(), new(bytes.Buffer)
	root.SetOut(out)
	root.SetArgs([]string{cobra.ShellCompRequestCmd, "ctl", "--admin", p.admin, "set", ""})
	if err := root.ExecuteContext(t.Context()); err != nil ||
		!strings.Contains(out.String(), "bandit-max-items=\n") {
		t.Errorf("%s, %v", out, err)
	}
}

var wildcards = regexp.MustCompile(`\{[^}]*\}`)

// Every route that the table names is described.
func TestCtlKnowsOnlyRoutesThatAreDescribed(t *testing.T) {
	described := map[string]bool{}
	for path, p := range readAPI(t).Paths {
		for method := range p.Methods {
			described[strings.ToUpper(method)+" "+wildcards.ReplaceAllString(path, "{}")] = true
		}
	}
	for _, c := range ctlCommands {
		paths := []string{c.path}
		for _, word := range c.words {
			paths = append(paths, wildcards.ReplaceAllString(c.path, word))
		}
		if len(paths) > 1 {
			paths = paths[1:]
		}
		for _, path := range paths {
			if route := c.method + " " + wildcards.ReplaceAllString(path, "{}"); !described[route] {
				t.Errorf("weir ctl %s: %s is not described", c.use, route)
			}
		}
	}
}
