package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/internal/systest"
)

// stop sends SIGTERM and waits for an orderly end.
func stop(t testing.TB, p *process) {
	t.Helper()
	client.CloseIdleConnections()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.wait(0)
}

// versions returns lists of which every other user's stays from version to version, and the others' is
// another one each time. No item is in two lists.
func versions(version, users, perList int) lists {
	l := make(lists, users)
	for u := range uint64(users) {
		v := uint64(version)
		if u%2 == 0 {
			v = 0
		}
		for i := range perList {
			l[u] = append(l[u], (v*uint64(users)+u)*uint64(perList)+uint64(i)+1)
		}
	}
	return l
}

// TestNewListsAreTakenUpUnderLoad swaps by each of the three ways while clients ask. No request fails,
// and no item comes twice.
func TestNewListsAreTakenUpUnderLoad(t *testing.T) {
	const users, perList, swaps, clients = 40, 20_000, 8, 6
	hangup := func(t *testing.T, p *process) {
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Error(err)
		}
	}
	post := func(t *testing.T, p *process) {
		if status, body := ask(t, "POST", "http://"+p.admin+"/admin/feeds/reload", ""); status != 200 {
			t.Errorf("reload: %d %s", status, body)
		}
	}
	for _, c := range []struct {
		name    string
		flags   []string
		trigger func(*testing.T, *process)
	}{
		{"SIGHUP", []string{"--feeds-watch", "-1s"}, hangup},
		{"POST", []string{"--feeds-watch", "-1s"}, post},
		{"POST net-http", []string{"--feeds-watch", "-1s", "--net-http"}, post},
		{"rename", []string{"--feeds-watch", "5ms"}, func(*testing.T, *process) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			feeds := filepath.Join(dir, "feeds.weir")
			versions(0, users, perList).write(t, feeds)
			p := start(t, append(c.flags, "--feeds", feeds, "--data", filepath.Join(dir, "data"))...)
			given := make([]atomic.Uint32, (swaps+1)*users*perList+1)
			var answers atomic.Int64
			var load sync.WaitGroup
			over := make(chan struct{})
			for i := range clients {
				load.Go(func() {
					f := newFeeder()
					defer f.close()
					for n := i; ; n++ {
						select {
						case <-over:
							return
						default:
						}
						status, body, err := f.next(p.public, uint64(n%users), 1+n%5)
						if err != nil || status != 200 {
							t.Errorf("a request failed: %d %s %v", status, body, err)
							return
						}
						for _, item := range items(t, body) {
							if given[item].Add(1) > 1 {
								t.Errorf("item %d came twice", item)
							}
						}
						answers.Add(1)
					}
				})
			}
			for v := 1; v <= swaps && !t.Failed(); v++ {
				before := answers.Load()
				systest.Eventually(t, "answers",
					func() bool { return answers.Load() > before+100 || t.Failed() })
				versions(v, users, perList).write(t, feeds)
				c.trigger(t, p)
				p.reaches("weir_feed_generation", float64(v+1))
			}
			close(over)
			load.Wait()
			for u := range uint64(users) {
				v := uint64(swaps)
				if u%2 == 0 {
					v = 0
				}
				count := 0
				for i := range uint64(perList) {
					count += int(given[(v*users+u)*perList+i+1].Load())
				}
				if pos := p.position(u); pos != count {
					t.Errorf("user %d is at %d and was given %d items of the present list", u, pos, count)
				}
			}
			stop(t, p)
		})
	}
}

func TestABrokenFileIsRefusedAndWhatServesServesOn(t *testing.T) {
	dir := t.TempDir()
	feeds := filepath.Join(dir, "feeds.weir")
	numbered(10, 20).write(t, feeds)
	p := start(t, "--feeds", feeds, "--data", filepath.Join(dir, "data"), "--feeds-watch", "5ms")
	whole, err := os.ReadFile(feeds)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(whole)
	bad[4200] ^= 1
	if err := os.WriteFile(feeds+".bad", bad, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(feeds+".bad", feeds); err != nil {
		t.Fatal(err)
	}
	systest.Eventually(t, "the refusal in the log",
		func() bool { return strings.Contains(p.logs.String(), "generation 1 serves on") })
	wantSays(t, "the log", p.logs.String(), "block 0 of the lists", feeds)
	p.want("/feed/1?size=2", 200, "[21,22]")
	p.want("/health", 200)
	// By hand as well; and the reason comes back.
	status, body := ask(t, "POST", "http://"+p.admin+"/admin/feeds/reload", "")
	if status != http.StatusConflict {
		t.Errorf("reload: %d %s", status, body)
	}
	wantSays(t, "reload", body, "block 0 of the lists", "generation 1 serves on")
	p.reaches("weir_feed_reloads_total", 2)
	stop(t, p)
	// It is refused at start, too, as far as it can be known at once; a broken list is found later.
	p = start(t, "--feeds", feeds, "--data", filepath.Join(dir, "data"), "--feeds-watch", "5ms")
	systest.Eventually(t, "the damage to be found",
		func() bool { _, body := p.get("/health"); return strings.Contains(body, "the snapshot is damaged") })
	p.want("/health", 200, `"feed":{"status":"degraded","reason":"the snapshot is damaged`)
	numbered(10, 20).write(t, feeds)
	systest.Eventually(t, "readiness after the repair",
		func() bool { _, body := p.get("/health"); return strings.HasPrefix(body, `{"status":"ready"`) })
	p.want("/feed/1?size=2", 200, "[23,24]")
	stop(t, p)
}

func TestAFileChangedInPlaceIsAnAlarm(t *testing.T) {
	dir := t.TempDir()
	feeds := filepath.Join(dir, "feeds.weir")
	numbered(10, 20).write(t, feeds)
	p := start(t, "--feeds", feeds, "--data", filepath.Join(dir, "data"), "--feeds-watch", "5ms")
	f, err := os.OpenFile(feeds, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("more"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	p.reaches("weir_feed_changed_in_place", 1)
	systest.Eventually(t, "a line in the log",
		func() bool { return strings.Contains(p.logs.String(), "changed in place") })
	p.want("/feed/1?size=2", 200, "[21,22]")
	if n, _ := p.metric("weir_feed_generation"); n != 1 {
		t.Errorf("generation %v serves", n)
	}
	stop(t, p)
	if n := strings.Count(p.logs.String(), `"level":"ERROR"`); n != 1 {
		t.Errorf("%d errors are logged, want 1:\n%s", n, p.logs)
	}
}

// TestATruncatedSnapshotAnswers503AndTheProcessLives cuts a snapshot off under the map.
func TestATruncatedSnapshotAnswers503AndTheProcessLives(t *testing.T) {
	for _, lane := range []string{"--net-http=false", "--net-http=true"} {
		dir := t.TempDir()
		feeds := filepath.Join(dir, "feeds.weir")
		l := numbered(1000, 1000)
		l.write(t, feeds)
		p := start(t, lane, "--feeds", feeds, "--data", filepath.Join(dir, "data"))
		p.reaches("weir_feed_warmed_ratio", 1)
		p.want("/feed/999?size=1", 200, "[999001]")
		p.want("/feed/998?size=1&peek=1", 200)
		if err := os.Truncate(feeds, 64<<10); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/feed/999", "/feed/999?peek=1", "/feed/999/position"} {
			p.want(path, 503, `"status":503`, "cannot be read")
		}
		p.want("/feed/1?size=2", 503, "feed is down")
		p.want("/health", 503, `"feed":{"status":"down","reason":"mapped data cannot be read`)
		for path, want := range map[string]int{"/health/ready": 503, "/health/live": 200} {
			if status, body := ask(t, "GET", "http://"+p.admin+path, ""); status != want {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
		stop(t, p)
		wantSays(t, "the log", p.logs.String(), "a mapped file was truncated")
		// With the snapshot back, all is where it was.
		l.write(t, feeds)
		p = start(t, lane, "--feeds", feeds, "--data", filepath.Join(dir, "data"))
		p.want("/feed/1?size=1", 200, "[1001]")
		if pos := p.position(999); pos < 1 || pos > 11 { // what was in flight may be lost, never repeated
			t.Errorf("position %d", pos)
		}
		stop(t, p)
	}
}

// TestLogsAreJSONWithoutSecrets runs with everything logged that can be.
func TestLogsAreJSONWithoutSecrets(t *testing.T) {
	dir := t.TempDir()
	feeds := filepath.Join(dir, "feeds.weir")
	numbered(10, 20).write(t, feeds)
	cert, key := certificate(t, dir, "one")
	p := start(t, "--feeds", feeds, "--data", filepath.Join(dir, "data"), "--log-level", "debug",
		"--tls-listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
	for _, request := range []string{
		"GET /feed/1?token=hunter2", "GET /feed/hunter2", "GET /feed/1/position", "GET /feed/77",
		"GET /hunter2", "POST /feed/1", "BREW /hunter2", "GET /health",
	} {
		raw(t, p.public, request+" HTTP/1.1\r\nHost: weir\r\nConnection: close\r\nAuthorization: Bearer "+
			"hunter2\r\nCookie: id=hunter2\r\n\r\n")
	}
	raw(t, p.public, "PUT /feed/1/position HTTP/1.1\r\nHost: weir\r\nConnection: close\r\nContent-Length: "+
		"7\r\n\r\nhunter2")
	raw(t, p.public, "GET /feed/1 HTTP/1.1\r\nHost: weir\r\nAuthorization : hunter2\r\n\r\n")
	// Something that is no TLS at all is for the debug log.
	raw(t, p.public, "GET /feed/1 HTTP/1.0\r\nAuthorization: hunter2\r\n\r\n")
	stop(t, p)
	text := p.logs.String()
	wantSays(t, "the log", text, "feed is open", "weir is serving", "weir has stopped", "too few items")
	pem, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range append(strings.Fields(string(pem))[4:8], "hunter2", "PRIVATE KEY") {
		if strings.Contains(text, secret) {
			t.Errorf("the log holds the secret %q:\n%s", secret, text)
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		var fields struct {
			Time       time.Time
			Level, Msg string
		}
		if err := json.Unmarshal([]byte(line), &fields); err != nil || fields.Time.IsZero() ||
			fields.Level == "" || fields.Msg == "" {
			t.Errorf("the line %q is no record in JSON: %v", line, err)
		}
	}
}

func TestSIGHUPReadsTheCertificateAgain(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir, "one")
	p := start(t, "--data", filepath.Join(dir, "data"), "--tls-listen", "127.0.0.1:0", "--tls-cert", cert,
		"--tls-key", key)
	get := func() error {
		c := trusting(t, cert)
		defer c.CloseIdleConnections()
		resp, err := c.Get("https://" + p.tls + "/health")
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	if err := get(); err != nil {
		t.Fatal(err)
	}
	hangup := func() {
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	certificate(t, dir, "two")
	hangup()
	systest.Eventually(t, "the new certificate", func() bool { return get() == nil })
	good, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cert, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	hangup()
	systest.Eventually(t, "the refusal in the log",
		func() bool { return strings.Contains(p.logs.String(), "the old one is used on") })
	if err := os.WriteFile(cert, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := get(); err != nil {
		t.Errorf("after the refusal: %v", err)
	}
	stop(t, p)
}

func TestDirectoriesThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	feeds := filepath.Join(dir, "feeds.weir")
	numbered(10, 20).write(t, feeds)
	data := filepath.Join(dir, "data")
	p := start(t, "--feeds", feeds, "--data", data)
	p.want("/feed/1?size=5", 200)

	// Two servers.
	fails(t, []string{"--feeds", feeds, "--data", data}, data, "is in use by process "+
		strconv.Itoa(p.cmd.Process.Pid), "another")
	p.want("/feed/1?size=1", 200, "[26]")
	stop(t, p)

	// A file.
	fails(t, []string{"--feeds", feeds, "--data", feeds}, feeds, "not a directory", "--data")

	// Another version of the directory, of its cells, of its keys.
	for file, change := range map[string]func([]byte) []byte{
		"format":         func([]byte) []byte { return []byte("99\n") },
		"feed/ids.cells": func(b []byte) []byte { b[8], b[4096+8] = 99, 99; return b },
		"feed/keys.log":  func(b []byte) []byte { b[8] = 99; return b },
	} {
		path := filepath.Join(data, file)
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed := change(bytes.Clone(before))
		if err := os.WriteFile(path, changed, 0o644); err != nil {
			t.Fatal(err)
		}
		fails(t, []string{"--feeds", feeds, "--data", data}, path, "version", "99")
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, changed) {
			t.Errorf("%s was changed although it was refused", file)
		}
		if err := os.WriteFile(path, before, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// No snapshot, and what is none.
	fails(t, []string{"--feeds", filepath.Join(dir, "nowhere"), "--data", data}, "nowhere", "no such file")
	fails(t, []string{"--feeds", filepath.Join(data, "format"), "--data", data},
		"not a weir snapshot", "weir import")
	// After all of that nothing is lost.
	p = start(t, "--feeds", feeds, "--data", data)
	p.want("/feed/1?size=1", 200, "[27]")
	stop(t, p)
}

func TestAFullAndAReadOnlyDisk(t *testing.T) {
	files := t.TempDir()
	few, many := filepath.Join(files, "few.weir"), filepath.Join(files, "many.weir")
	numbered(100, 20).write(t, few)
	numbered(100_000, 1).write(t, many)
	disk := systest.Disk(t, "512k")
	data := filepath.Join(disk, "data")
	fails(t, []string{"--feeds", many, "--data", data}, "no space left", "make room on the disk of "+data)
	p := start(t, "--feeds", few, "--data", data)
	p.want("/feed/1?size=5", 200, "[21,22,23,24,25]")
	stop(t, p)
	fails(t, []string{"--feeds", many, "--data", data}, "no space left")

	systest.MakeReadOnly(t, disk)
	fails(t, []string{"--feeds", few, "--data", data}, "read-only", data)
	fails(t, []string{"--feeds", few, "--data", filepath.Join(disk, "new")}, "read-only",
		filepath.Join(disk, "new"), "--data")
	systest.Resize(t, disk, "8m") // and writable
	p = start(t, "--feeds", few, "--data", data)
	p.want("/feed/1?size=1", 200, "[26]")
	stop(t, p)
}

// What is on a full disk serves on after a restart, however the process before ended.
func TestARestartOnAFullDisk(t *testing.T) {
	feeds := filepath.Join(t.TempDir(), "feeds.weir")
	numbered(1000, 20).write(t, feeds)
	disk := systest.Disk(t, "4m")
	args := []string{"--feeds", feeds, "--data", filepath.Join(disk, "data")}
	p := start(t, args...)
	p.want("/feed/1?size=5", 200, "[21,22,23,24,25]")
	p.want("/next", 200)
	ask(t, "POST", "http://"+p.public+"/events", `{"item":"a","reward":1}`)
	filler, err := os.Create(filepath.Join(disk, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	for size := 1 << 16; size > 0; {
		if _, err := filler.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	for i, end := range []func(){p.kill, func() { stop(t, p) }} {
		end()
		p = start(t, args...)
		p.want("/feed/1?size=1", 200, fmt.Sprintf("[%d]", 26+i))
		if n, _ := p.metric("weir_bandit_learned_arms"); n != 1 {
			t.Errorf("%v arms are known", n)
		}
		p.want("/current", 200, "1")
	}
	stop(t, p)
}

func TestRestartsWithOtherSnapshots(t *testing.T) {
	dir := t.TempDir()
	feeds, data := filepath.Join(dir, "feeds.weir"), filepath.Join(dir, "data")
	serve := func(l lists) *process {
		l.write(t, feeds)
		return start(t, "--feeds", feeds, "--data", data)
	}
	p := serve(numbered(10, 20))
	p.want("/feed/3?size=5", 200, "[61,62,63,64,65]")
	p.want("/feed/9?size=5", 200)
	p.want("/feed/5000?size=1", 500, "no feed items") // beyond the snapshot
	p.want("/feed/5000/position", 404)
	stop(t, p)
	// Fewer users: the others wait.
	p = serve(numbered(5, 20))
	p.want("/feed/3?size=1", 200, "[66]")
	p.want("/feed/9", 500)
	stop(t, p)
	// More of them, and some with other lists.
	more := numbered(20_000, 20)
	more[3][19] = 1 << 30
	p = serve(more)
	p.want("/feed/3?size=1", 200, "[61]")
	p.want("/feed/9?size=1", 200, "[186]")
	p.want("/feed/19999?size=1", 200, "[399981]")
	stop(t, p)
	p = serve(more)
	p.want("/feed/3?size=1", 200, "[62]")
	p.want("/feed/19999?size=1", 200, "[399982]")
	stop(t, p)
}

// TestSIGTERMUnderLoadLosesNothing stops servers in the middle of answers: what a client was not given
// its position is not behind of.
func TestSIGTERMUnderLoadLosesNothing(t *testing.T) {
	for round := range 6 {
		lane := fmt.Sprintf("--net-http=%t", round%3 == 2)
		dir := t.TempDir()
		feeds, data := filepath.Join(dir, "feeds.weir"), filepath.Join(dir, "data")
		const clients, perList = 16, 60_000
		numbered(clients, perList).write(t, feeds)
		p := start(t, lane, "--feeds", feeds, "--data", data)
		var given [clients]int
		var answers atomic.Int64
		var load sync.WaitGroup
		for i := range clients {
			load.Go(func() {
				f := newFeeder()
				defer f.close()
				for {
					// The client sends a POST once and never again.
					status, body, err := f.next(p.public, uint64(i), 3)
					if err != nil {
						return // it is closed, or nobody listens any more
					}
					if status != 200 {
						t.Errorf("%d %s", status, body)
						return
					}
					given[i] += len(items(t, body))
					answers.Add(1)
				}
			})
		}
		systest.Eventually(t, "answers", func() bool { return answers.Load() > int64(200*(round+1)) })
		signal := syscall.SIGTERM
		if round%2 == 1 {
			signal = syscall.SIGINT
		}
		if err := p.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		p.wait(0)
		load.Wait()
		wantSays(t, "the log", p.logs.String(), "weir has stopped")
		p = start(t, "--feeds", feeds, "--data", data)
		for i, n := range given {
			if pos := p.position(uint64(i)); pos != n {
				t.Errorf("%s: user %d is at %d and was given %d items", lane, i, pos, n)
			}
		}
		stop(t, p)
	}
}

// Data are for their user alone.
func TestDataFilesAreForTheirUserAlone(t *testing.T) {
	dir := t.TempDir()
	feeds, data := filepath.Join(dir, "feeds.weir"), filepath.Join(dir, "data")
	numbered(100, 20).write(t, feeds)
	p := start(t, "--feeds", feeds, "--data", data)
	p.want("/feed/1", 200)
	ask(t, "POST", "http://"+p.public+"/events", `{"item":"a","reward":1}`)
	stop(t, p)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has permissions %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// Whoever opens lists to others keeps them open.
	if err := os.Chmod(feeds, 0o640); err != nil {
		t.Fatal(err)
	}
	numbered(100, 20).write(t, feeds)
	if info, err := os.Stat(feeds); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("lists that were replaced have permissions %v, error %v", info.Mode(), err)
	}
}
