package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/server"
)

func TestServeHasTheSequenceBesideTheFeed(t *testing.T) {
	for _, netHTTP := range []bool{false, true} {
		t.Run(fmt.Sprintf("net-http=%t", netHTTP), func(t *testing.T) {
			dir := t.TempDir()
			feeds, data := filepath.Join(dir, "feeds.weir"), filepath.Join(dir, "data")
			numbered(10, 20).write(t, feeds)
			t.Run("on", func(t *testing.T) {
				p := serveHere(t, server.Config{NetHTTP: netHTTP}, data, "--feeds", feeds)
				p.want("/feed/1?size=2", 200, "[21,22]")
				p.want("/current", 200, `{"index":0,"value":"0"}`)
				p.want("/next", 200, `{"index":1,"value":"1"}`)
				p.want("/next", 200, `{"index":2,"value":"1"}`)
				p.want("/fib/10", 200, `{"index":10,"value":"55"}`)
				p.want("/health", 200)
			})
			t.Run("again", func(t *testing.T) {
				p := serveHere(t, server.Config{NetHTTP: netHTTP}, data)
				p.want("/current", 200, `{"index":2,"value":"1"}`)
				p.want("/feed/1", 404)
			})
			t.Run("off", func(t *testing.T) {
				p := serveHere(t, server.Config{NetHTTP: netHTTP}, data, "--sequence=false")
				p.want("/current", 404)
				p.want("/fib/10", 404)
				p.want("/health", 200)
			})
			t.Run("elsewhere", func(t *testing.T) {
				file := filepath.Join(dir, "f")
				p := serveHere(t, server.Config{NetHTTP: netHTTP}, data, "--sequence-file", file)
				p.want("/next", 200, `{"index":1,"value":"1"}`)
				if _, err := os.Stat(file); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// What the issue that asked for the sequence measures, in small: a walk up, the same way back, and the
// place is kept by the process after it.
func TestSequenceServesAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	p := startCommand(t, []string{"sequence", "--port", "0", "--file", file, "--seconds", "3"})
	p.want("/feed/1", 404)
	for n := 1; n <= 50; n++ {
		p.want("/next", 200, fmt.Sprintf(`{"index":%d,"value":"`, n))
	}
	p.want("/previous", 200, `{"index":49,"value":"7778742049"}`)
	status, body := ask(t, "GET", "http://"+p.admin+"/admin/sequence", "")
	var found struct {
		Cache struct{ Direct, Close, Miss uint64 }
	}
	if err := json.Unmarshal([]byte(body), &found); err != nil || status != 200 ||
		found.Cache.Direct+found.Cache.Close+found.Cache.Miss != 51 {
		t.Errorf("/admin/sequence after 51 answers: %d %s", status, body)
	}
	p.cmd.Process.Signal(os.Interrupt) //nolint:errcheck // it lives
	p.wait(0)
	client.CloseIdleConnections()

	p = startCommand(t, []string{"sequence", "--port", "0", "--file", file})
	p.want("/current", 200, `{"index":49,"value":"7778742049"}`)
	p.cmd.Process.Signal(os.Interrupt) //nolint:errcheck // it lives
	p.wait(0)
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name, _, _ := strings.Cut(e.Name(), "."); name != "f" {
			t.Errorf("beside the file there is %s", e.Name())
		}
	}
}
