package httpcache_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"weir/internal/filter/httpcache"
)

func TestAnotherCacheHasWhatWasExported(t *testing.T) {
	answers := func(a *answer, r *http.Request) {
		switch r.URL.Path {
		case "/old":
			a.status = 302
			a.set("Location: /new")
		case "/large":
			a.body = strings.Repeat("x", 9<<20)
		default:
			a.set(`ETag: "1"`, "X-Name: \xe9")
			a.body = "body \xff"
		}
	}
	inBubble(t, httpcache.Options{Poller: true}, answers,
		func(t *testing.T, from *httpcache.Cache, up *upstream) {
			const old = "http://user:secret@feeds.test/old"
			to, err := httpcache.Open(t.TempDir(), httpcache.Options{Fetch: up, Poller: true})
			if err != nil {
				t.Fatal(err)
			}
			defer to.Close()
			get(t, from, old)
			get(t, from, "http://feeds.test/large")
			data, err := from.Export(old)
			if err != nil {
				t.Fatal(err)
			}
			if err := to.Import(data); err != nil {
				t.Fatal(err)
			}
			want, _ := from.Peek(old)
			defer want.Release()
			got, ok := to.Peek(old)
			if !ok {
				t.Fatal("it is not there")
			}
			defer got.Release()
			if got.URL != "http://feeds.test/new" || got.Version != want.Version || !got.Fetched.Equal(want.Fetched) ||
				!got.Checked.Equal(want.Checked) || got.Header.Get("X-Name") != "\xe9" ||
				string(got.Body()) != "body \xff" {
				t.Errorf("%+v, want %+v", got, want)
			}
			if _, ok := to.Peek("http://feeds.test/old"); ok {
				t.Error("who has no password gets it")
			}
			if _, err := from.Export("http://feeds.test/none"); !errors.Is(err, httpcache.ErrNotStored) {
				t.Errorf("what is not stored: %v", err)
			}
			if _, err := from.Export("http://feeds.test/large"); !errors.Is(err, httpcache.ErrTooLarge) {
				t.Errorf("what is large: %v", err)
			}
			whole := 0
			for i := range data {
				if err := to.Import(data[:i]); err == nil {
					whole++
				}
				data[i] ^= 1
				if err := to.Import(data); err == nil {
					t.Errorf("with byte %d of %d wrong it is taken", i, len(data))
				}
				data[i] ^= 1
			}
			if whole != 2 { // nothing, and the redirect alone
				t.Errorf("%d parts of it are taken", whole)
			}
		})
}
