package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/server"
)

// startUI runs weir load ui and returns its address, and what stops it and returns its error.
func startUI(t *testing.T, args ...string) (address string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	root := newRoot()
	root.SetArgs(append([]string{"load", "ui", "--listen", "127.0.0.1:0"}, args...))
	root.SetOut(in)
	ended := make(chan error, 1)
	go func() {
		err := root.ExecuteContext(ctx)
		in.CloseWithError(err) //nolint:errcheck // never fails
		ended <- err
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		cancel()
		t.Fatalf("it says %q: %v", line, err)
	}
	_, rest, _ := strings.Cut(line, "load UI on ")
	address, _, _ = strings.Cut(rest, ",")
	return address, func() error { cancel(); return <-ended }
}

func TestLoadUIMakesARunAndKeepsItsResultWhenItIsStopped(t *testing.T) {
	target := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "ok")
		})) //nolint:errcheck
	defer target.Close()
	history := filepath.Join(t.TempDir(), "results")
	address, stop := startUI(t, "--history", history)
	page, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(page.Body)
	page.Body.Close() //nolint:errcheck
	if err != nil || page.StatusCode != 200 || !strings.Contains(string(text), "<title>weir load</title>") {
		t.Errorf("the page is answered %d %.100s, %v", page.StatusCode, text, err)
	}
	events, err := http.Get(address + "api/events")
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close() //nolint:errcheck
	started, err := http.Post(address+"api/runs", "application/json",
		strings.NewReader(`{"url":"`+target.URL+`","rate":"50/s","duration":"10m"}`))
	if err != nil {
		t.Fatal(err)
	}
	started.Body.Close() //nolint:errcheck
	if started.StatusCode != 201 {
		t.Fatalf("a start is answered %d", started.StatusCode)
	}
	points := 0
	for lines := bufio.NewScanner(events.Body); points < 3 && lines.Scan(); {
		if lines.Text() == "event: point" {
			points++
		}
	}
	if points < 3 {
		t.Error("the stream of events ended")
	}
	if err := stop(); err != nil {
		t.Errorf("stopped, it says %v", err)
	}
	results, err := filepath.Glob(filepath.Join(history, "*.json"))
	if err != nil || len(results) != 1 {
		t.Errorf("the history has %v, %v", results, err)
	}
}

func TestLoadUIMakesUpAToken(t *testing.T) {
	address, stop := startUI(t, "--history", t.TempDir(), "--token", "new")
	at, token, ok := strings.Cut(address, "#token=")
	if !ok || len(token) < 16 {
		t.Fatalf("the address is %s, expected a token in it", address)
	}
	for _, c := range []struct {
		token  string
		status int
	}{{"", 401}, {"Bearer " + token, 200}} {
		r, err := http.NewRequest("GET", at+"api/run", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", c.token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close() //nolint:errcheck
		if answer.StatusCode != c.status {
			t.Errorf("%q is answered %d, expected %d", c.token, answer.StatusCode, c.status)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestLoadUIRefusesWhatIsNotSafe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  []string
		says  string
		usage bool // exits with 2
	}{
		{[]string{"--listen", "0.0.0.0:0"}, "--token", true},
		{[]string{"--token", "short"}, "at least 16", true},
		{[]string{"--files", file}, "--files", false},
		{[]string{"--history", file}, "--history", false},
		{[]string{"--keep", "-1"}, "--keep", true},
		{[]string{"--keep", "0"}, "--keep", true},
		{[]string{"--agents", "box1"}, "--agents", true},
		{[]string{"--listen", "nonsense"}, "--listen", false},
	} {
		root := newRoot()
		root.SetArgs(append([]string{"load", "ui", "--listen", "127.0.0.1:0", "--history", t.TempDir()},
			c.args...))
		root.SetOut(io.Discard)
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // if it starts after all, it ends
		err := root.ExecuteContext(ctx)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: the error is %v, expected one about %s", c.args, err, c.says)
		}
		var usage *server.FlagError
		if errors.As(err, &usage) != c.usage {
			t.Errorf("%q: the error is a %T; whether it is about the command line: %v expected", c.args, err,
				c.usage)
		}
	}
}
