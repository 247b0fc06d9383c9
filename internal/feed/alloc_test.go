//go:build !race

package feed

import (
	"path/filepath"
	"testing"

	"weir/internal/server"
)

// TestARequestAllocatesNothing goes the way of a request step by step, and for users nobody knows as a
// whole, which includes the random fill.
func TestARequestAllocatesNothing(t *testing.T) {
	eachShape(t, func(t *testing.T, as shape, names bool) {
		dir := t.TempDir()
		l := numbered(5, 60_000)
		l.write(t, filepath.Join(dir, "feeds.weir"), as, names, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
		f := open(t, dir)
		<-f.current.Load().warmed
		var s scratch
		var body []byte
		r := &server.Request{Method: "GET", Query: []byte("size=7&meta=1&peek=0&x=y")}
		w := new(server.Response)
		id := []byte("3")
		if n := testing.AllocsPerRun(1000, func() {
			q, ok := parseQuery(w, r)
			g := f.pin(0)
			defer g.unpin(0)
			v := visit{f: f.Feed, g: g, id: id}
			err := v.find()
			if err == nil {
				err = v.read()
			}
			if !ok || !v.found || err != nil {
				t.Fatal(ok, v.found, err)
			}
			at, err := v.move(&q)
			if err != nil || at.to-at.from != 7 {
				t.Fatal(at, err)
			}
			s.items = v.list.Append(s.items[:0], at.from, at.to)
			body = appendItems(body[:0], g, s.items, nil)
		}); n != 0 {
			t.Errorf("a request allocates %v times", n)
		}
		if as != named {
			return // the empty id, all that a test can ask for, is refused
		}
		if n := testing.AllocsPerRun(1000, func() {
			w.Body = w.Body[:0]
			f.next(w, r)
		}); n != 0 || len(w.Body) < 20 {
			t.Errorf("a random fill allocates %v times, for %s", n, w.Body)
		}
	})
}
