package mock

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"weir/internal/server"
)

// Whatever a URL says is understood, or refused with a reason; and the reader of the fast lane understands
// what net/url and Set do.
func FuzzFeedURL(f *testing.F) {
	for _, s := range [][2]string{
		{"1.rss", ""}, {"18446744073709551615.json", "items=5&delay=50ms"},
		{"7.atom", "malformed=truncated%3A0.1&error=.5&status=404"},
		{"0.rss", "gzip=always&br=off&etag=weak&lastmod=0&ttl=15m&churn=0.1"}, {"3.json", "charset=koi8-r"},
		{"3.json", "malformed=bomb"},
		{"", "=&&"}, {"x.rss", "items=%zz"}, {"1.rss", "items=1&items=2"}, {"1.rss", "hang=1e-9&jitter=1h"},
		{"01.xml", "body=1+1"},
	} {
		f.Add(s[0], s[1])
	}
	s := stepped(f)
	f.Fuzz(func(t *testing.T, name, query string) {
		var q query_
		err := s.parse(&q, []byte(name), &server.Request{Query: []byte(query)})
		if err != nil {
			if err.Error() == "" {
				t.Error("an empty reason")
			}
		} else if err := q.knobs.check(); err != nil {
			t.Fatalf("%q is taken and %v", query, err)
		}
		if strings.Contains(query, ";") {
			return // is part of a value by the URL standard, and an error of net/url
		}
		want := Defaults()
		values, wrong := url.ParseQuery(query)
		for name, v := range values {
			if wrong == nil && len(v) == 1 {
				wrong = want.Set(name, v[0])
			} else if wrong == nil {
				wrong = unknown(name)
			}
		}
		if wrong == nil {
			wrong = want.together()
		}
		var name_ query_
		if name_.parseName([]byte(name)) != nil || name_.format == JSON {
			return
		}
		if (err == nil) != (wrong == nil) {
			t.Fatalf("%q: %v, by net/url and Set: %v", query, err, wrong)
		}
		if err == nil && q.knobs != want {
			t.Errorf("%q: %+v, by net/url and Set: %+v", query, q.knobs, want)
		}
	})
}

type query_ = query

func FuzzKnobsJSON(f *testing.F) {
	for _, s := range []string{`{}`, `{"items":5,"error":0.01}`, `{"delay":"50ms","lastmod":false}`,
		`{"items":5,"items":5}`, `{"malformed":"html:0.5"}`, `[1]`, `{"hang":1e-5}`, `{"\u0069tems":3}`,
		`{"items":1e1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		k := Defaults()
		if err := json.Unmarshal(text, &k); err != nil {
			if k != Defaults() {
				t.Errorf("refused with %v, and changed", err)
			}
			return
		}
		if err := k.check(); err != nil {
			t.Fatal(err)
		}
		again, back := mustJSON(k), Defaults()
		if err := json.Unmarshal(again, &back); err != nil || back != k {
			t.Errorf("%s became %+v: %v", again, back, err)
		}
	})
}

func FuzzRequestFields(f *testing.F) {
	f.Add("gzip, br;q=0.5, *;q=0", `W/"abc", "tag"`, "Thu, 01 Jan 2026 00:00:00 GMT")
	f.Add("", "*", "")
	f.Add(";;,,q=", `"`, "tomorrow")
	f.Add("identity;q=0", `"a,b"`, "Thursday, 01-Jan-26 00:00:00 GMT")
	page := &rendered{tag: "tag", lastModified: "Thu, 01 Jan 2026 00:00:00 GMT", modified: epoch.Unix()}
	f.Fuzz(func(t *testing.T, accept, match, since string) {
		for _, k := range []Knobs{{}, {Gzip: Never}, {Brotli: Never}, {Gzip: Never, Brotli: Never}} {
			switch c := k.negotiate([]byte(accept)); {
			case c == gzipped && (k.Gzip == Never || !strings.Contains(strings.ToLower(accept), "gzip") &&
				!strings.Contains(accept, "*")),
				c == brotlied && (k.Brotli == Never || !strings.Contains(strings.ToLower(accept), "br") &&
					!strings.Contains(accept, "*")),
				c == pretended:
				t.Errorf("Accept-Encoding: %q gives %s with %+v", accept, codingNames[c], k)
			}
		}
		if matches([]byte(match), page.tag) && !strings.Contains(match, page.tag) &&
			!strings.Contains(match, "*") {
			t.Errorf("If-None-Match: %q is taken for %q", match, page.tag)
		}
		notSince([]byte(since), page)
	})
}
