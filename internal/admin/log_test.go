package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/disk"
)

// kept returns a log from info on, and what is kept of it.
func kept() (*slog.Logger, *Log) {
	return Keep(slog.New(slog.NewTextHandler(new(strings.Builder), nil)))
}

func TestLinesAreFoundByLevelServiceAndText(t *testing.T) {
	log, l := kept()
	feed := log.With("service", "feed", "shard", 7)
	log.Debug("not written, and not kept")
	log.Info("weir is serving", "listen", ":8080")
	feed.Info("reload", "took", 1500*time.Millisecond)
	feed.WithGroup("lists").Warn("few users", "share", 0.5, slog.Group("were", "users", 10))
	log.Error("it failed", "error", errors.New("for No reason"))
	for _, c := range []struct {
		level         slog.Level
		service, text string
		after         uint64
		limit         int
		want          string // the numbers
	}{
		{slog.LevelDebug, "", "", 0, 100, "[1 2 3 4]"},
		{slog.LevelWarn, "", "", 0, 100, "[3 4]"},
		{slog.LevelDebug, "feed", "", 0, 100, "[2 3]"},
		{slog.LevelDebug, "kernel", "", 0, 100, "[1 4]"},
		{slog.LevelDebug, "", "no REASON", 0, 100, "[4]"},
		{slog.LevelDebug, "", "users=10", 0, 100, "[3]"},
		{slog.LevelDebug, "", "shard=7", 0, 100, "[2 3]"},
		{slog.LevelDebug, "", "", 2, 100, "[3 4]"},
		{slog.LevelDebug, "", "", 0, 1, "[4]"},
		{slog.LevelError, "feed", "", 0, 100, "[]"},
	} {
		numbers := []uint64{}
		shown := l.find(c.level, c.service, c.text, c.after, c.limit)
		for _, line := range shown.Lines {
			numbers = append(numbers, line.Seq)
		}
		if fmt.Sprint(numbers) != c.want || shown.Last != 4 {
			t.Errorf("%+v: %v, last %d", c, numbers, shown.Last)
		}
	}
	if got, want := fmt.Sprint(l.find(slog.LevelWarn, "feed", "", 0, 1).Lines[0].Attrs),
		"[{shard 7} {lists.share 0.5} {lists.were.users 10}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if again, same := Keep(log); again != log || same != l {
		t.Error("a log that is kept is kept twice")
	}
}

func TestErrorsAreGroupedByTheirCause(t *testing.T) {
	log, l := kept()
	feed := log.With("service", "feed")
	full := &fs.PathError{Op: "write", Path: "/tmp/a/b", Err: syscall.ENOSPC}
	for i := range 20 {
		feed.Error("cannot save", "user", i, "error", fmt.Errorf("wrapped: %w", full))
		feed.Warn("odd", "error", fmt.Errorf("row %d of %q", i, fmt.Sprint("file", i)))
	}
	feed.Error("cannot save", "error", errors.New("another reason"))
	log.Error("cannot save", "error", full)
	log.Info("all is well")
	shown := l.errors(0)
	if len(shown.Groups) != 4 || shown.Held != 42 {
		t.Fatalf("%d groups: %+v", len(shown.Groups), shown)
	}
	if g := shown.Groups[3]; g.Count != 20 && shown.Groups[2].Count != 20 {
		t.Errorf("%+v", g)
	}
	for _, g := range shown.Groups {
		if g.Count != 20 {
			continue
		}
		if len(g.Samples) != mostSamples || g.First.After(g.Last) || g.Service != "feed" ||
			g.Samples[0].Time.Before(g.Samples[1].Time) {
			t.Errorf("%+v", g)
		}
		want := map[string]string{"error": "no space left on device", "warn": `row # of "…"`}[g.Level]
		if g.Kind != want {
			t.Errorf("the kind is %q, want %q", g.Kind, want)
		}
		if all := l.errors(g.Group).Groups; len(all) != 1 || len(all[0].Samples) != 20 {
			t.Errorf("all of a group are %d", len(all))
		}
	}
	if n := l.Clear(shown.Groups[0].Group); n != 1 || len(l.errors(0).Groups) != 3 || l.errors(0).Held != 41 {
		t.Errorf("%d cleared", n)
	}
	if n := l.Clear(0); n != 3 || len(l.errors(0).Groups) != 0 {
		t.Errorf("%d cleared", n)
	}
	log.Warn("it goes on")
	if len(l.errors(0).Groups) != 1 {
		t.Error("after clearing nothing is taken in")
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	log, l := kept()
	for i := range mostLines + 100 {
		log.Error(fmt.Sprintf("message %c%c%c", 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26),
			"long", strings.Repeat("x", 10*mostText))
	}
	many := make([]any, 0, 200)
	for i := range 100 {
		many = append(many, fmt.Sprint("name", i), i)
	}
	log.Error("many", many...)
	lines := l.find(slog.LevelDebug, "", "", 0, 1<<30).Lines
	shown := l.errors(0)
	if len(lines) != mostLines || shown.Held != mostErrors || len(shown.Groups) != mostErrors ||
		len(l.groups) != mostErrors {
		t.Errorf("%d lines, %d errors in %d groups", len(lines), shown.Held, len(shown.Groups))
	}
	if n := len(lines[0].Attrs[0].Value); n > mostText+3 {
		t.Errorf("a value has %d bytes", n)
	}
	if n := len(lines[len(lines)-1].Attrs); n != mostAttrs {
		t.Errorf("a line has %d values", n)
	}
}

func TestSecretsAndPathsAreNotKept(t *testing.T) {
	log, l := kept()
	dir := t.TempDir()
	_, err := os.Open(filepath.Join(dir, "missing.weir"))
	_, urlErr := url.Parse(string([]byte("http://ada:hunter2@feeds.example.org/a\x7f?key=s3cret")))
	log.Error("cannot read "+dir+"/inner/x.toml", "error", err, "path", dir+"/feeds.weir",
		"admin_token", "abc123", "header", "Authorization: Bearer abc123.def", "url",
		"https://ada:hunter2@feeds.example.org/rss?key=s3cret", "config", `password = "hunter2"`, "route",
		"GET /feed/{user}", "wrong", urlErr, "data", slog.GroupValue(slog.String("Password", "hunter2")))
	line := l.find(slog.LevelDebug, "", "", 0, 1).Lines[0]
	text := fmt.Sprint(line, l.errors(0))
	for _, secret := range []string{"hunter2", "abc123", "s3cret", filepath.Dir(dir), "/" +
		filepath.Base(dir)} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in %s", secret, text)
		}
	}
	for _, kept := range []string{"cannot read …/x.toml", "…/missing.weir: no such file",
		"{path …/feeds.weir}", "GET /feed/{user}",
		"https://" + hidden + "@feeds.example.org/rss?" + hidden} {
		if !strings.Contains(text, kept) {
			t.Errorf("%q is not in %s", kept, text)
		}
	}
}

func TestAPanicIsKeptWithTheTopOfItsStack(t *testing.T) {
	log, l := kept()
	var nowhere *Line
	err := disk.Guard(func() error { return errors.New(nowhere.Message) })
	log.Error("BUG: a handler panicked", "error", err)
	g := l.errors(0).Groups[0]
	line := g.Samples[0]
	if len(line.Stack) == 0 || !strings.HasPrefix(line.Stack[0], "admin.TestAPanicIsKept") ||
		!strings.Contains(line.Stack[0], "log_test.go:") || len(line.Stack) > mostFrames ||
		!strings.HasPrefix(g.Kind, "panic in admin.TestAPanic") ||
		!strings.HasPrefix(line.Attrs[0].Value, "panic: runtime error") ||
		strings.Contains(fmt.Sprint(g), ".go:0") {
		t.Errorf("%+v", g)
	}
	if text := fmt.Sprint(g); strings.Contains(text, "goroutine ") || strings.Contains(text,
		"internal/admin/") {
		t.Errorf("more than the top of the stack is kept: %s", text)
	}
}

func TestListenersHearEveryLineAndOfErrorsOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, l := kept()
		var heard strings.Builder
		l.Listen(func(kind string, v any) {
			if line, ok := v.(Line); ok {
				kind += fmt.Sprint(line.Seq)
			}
			heard.WriteString(kind + " ")
		})
		log.Info("a")
		log.Error("b")
		log.Error("c")
		time.Sleep(1500 * time.Millisecond)
		l.Clear(0)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if heard.String() != "log1 log2 log3 errors errors " {
			t.Error(heard.String())
		}
	})
}

func TestLinesOfManyGoroutinesAreAllKept(t *testing.T) {
	log, l := kept()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 100 {
				log.With("service", fmt.Sprint(i)).Warn("one")
				l.errors(0)
			}
		})
	}
	all.Wait()
	if shown := l.errors(0); len(shown.Groups) != 8 || shown.Groups[3].Count != 100 {
		t.Errorf("%+v", shown.Groups)
	}
}

func TestWhatIsNotWrittenCostsNothing(t *testing.T) {
	log, _ := kept()
	if n := testing.AllocsPerRun(100, func() { log.Debug("below the level", "number", 1) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzCleanedTextsHoldNoPath(f *testing.F) {
	f.Add("open /tmp/a: b")
	f.Add("x=/home/ada/.ssh/id,y (/etc/passwd)")
	f.Add("http://host/home/x?token=1 /tmp//\"/etc/y\"")
	clean := newCleaner()
	f.Fuzz(func(t *testing.T, text string) {
		once := clean("before " + text + " /home/somebody/secrets/file")
		if strings.Contains(once, "/home/somebody") {
			t.Errorf("%q is cleaned to %q", text, once)
		}
	})
}
