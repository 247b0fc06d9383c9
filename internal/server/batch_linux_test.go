package server

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// aheadOf adds a route that answers its wildcard and notes what it is told of.
func aheadOf(s *Server, told *[]string) {
	s.Handle(Route{
		Pattern: "GET /ahead/{word}",
		Handler: done(func(w *Response, r *Request) { w.Body = append(w.Body, r.Param(0)...) }),
		Prefetch: func(stripe int, params [][]byte) {
			for _, p := range params {
				*told = append(*told, string(p))
			}
			*told = append(*told, fmt.Sprint("of ", stripe))
		},
	})
}

func TestARouteIsToldOfSeveralRequestsThatCome(t *testing.T) {
	d := newHandDriven(t, Config{})
	var told []string
	aheadOf(d.s, &told)
	c1, _ := d.connect()
	c2, _ := d.connect()
	c3, _ := d.connect()
	tests := []struct {
		name    string
		sent    [3]string
		told    []string
		answers [3][]string
	}{
		{"one alone", [3]string{get("/ahead/a")}, nil, [3][]string{{"a"}}},
		{
			"of three connections", [3]string{get("/ahead/a"), get("/fast/b"), get("/ahead/c?q=1")},
			[]string{"a", "c", "of 0"}, [3][]string{{"a"}, {"GET b "}, {"c"}},
		},
		{
			"of one pipeline, up to what is for another route",
			[3]string{get("/ahead/a") + get("/ahead/b") + get("/fast/c") + get("/ahead/d")},
			[]string{"a", "b", "of 0"}, [3][]string{{"a", "b", "GET c ", "d"}},
		},
		{
			"with one that is not whole", [3]string{get("/ahead/a") + "GET /ahead/b HTTP/1.1\r\n", "\r\n",
				get("/ahead/c")},
			[]string{"a", "b", "c", "of 0"}, [3][]string{{"a"}, {}, {"c"}},
		},
	}
	for _, test := range tests {
		told = nil
		for i, c := range []*client{c1, c2, c3} {
			if test.sent[i] != "" {
				c.send(test.sent[i])
			}
		}
		d.turn()
		if !slices.Equal(told, test.told) {
			t.Errorf("%s: told of %q, want %q", test.name, told, test.told)
		}
		for i, c := range []*client{c1, c2, c3} {
			for _, want := range test.answers[i] {
				c.expect("GET", 200, want)
			}
			c.quiet()
		}
	}
}

func TestOfALongPipelineTheBeginningIsLookedAt(t *testing.T) {
	d := newHandDriven(t, Config{})
	var told []string
	aheadOf(d.s, &told)
	c, _ := d.connect()
	c.send(strings.Repeat(get("/ahead/a"), maxPrefetch+3))
	d.turn()
	if want := append(slices.Repeat([]string{"a"}, maxPrefetch), "of 0"); !slices.Equal(told, want) {
		t.Errorf("told of %q", told)
	}
	for range maxPrefetch + 3 {
		c.expect("GET", 200, "a")
	}
}

func TestAPanicAheadHarmsNoRequest(t *testing.T) {
	d := newHandDriven(t, Config{})
	d.s.Handle(Route{
		Pattern:  "GET /ahead/{word}",
		Handler:  done(func(w *Response, r *Request) { w.Body = append(w.Body, r.Param(0)...) }),
		Prefetch: func(int, [][]byte) { panic("on purpose") },
	})
	c, _ := d.connect()
	c.send(get("/ahead/a") + get("/ahead/b"))
	d.turn()
	c.expect("GET", 200, "a")
	c.expect("GET", 200, "b")
	if n := d.s.panics.Value(); n != 1 {
		t.Errorf("%d panics are counted, want 1", n)
	}
}

// One turn has connections of every kind, more of them than are read together, and some with more than
// there is room for.
func TestWhatIsReadTogetherIsAnsweredApart(t *testing.T) {
	d := newHandDriven(t, Config{})
	body := strings.Repeat("b", 40<<10) // of which two do not leave room for a third
	post := fmt.Sprintf("POST /fast/p HTTP/1.1\r\nHost: weir\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body)
	kinds := []struct {
		sent  string
		check func(c *client)
	}{
		{get("/fast/a"), func(c *client) { c.expect("GET", 200, "GET a ") }},
		{get("/fast/b") + get("/fast/c"),
			func(c *client) { c.expect("GET", 200, "GET b "); c.expect("GET", 200, "GET c ") }},
		{post, func(c *client) { c.expect("POST", 200, "POST p "+body) }},
		{"GET /fast/half HTTP/1.1\r\n", func(c *client) {
			c.quiet()
			c.send("Host: weir\r\n\r\n")
			d.turn()
			c.expect("GET", 200, "GET half ")
		}},
		{"no HTTP\r\n\r\n", func(c *client) {
			if resp, _ := c.response("GET"); resp.StatusCode != 400 {
				t.Errorf("status %d, want 400", resp.StatusCode)
			}
		}},
		{"", func(c *client) {
			if _, err := io.ReadAll(c); err != nil {
				t.Error(err)
			}
		}},
	}
	var clients []*client
	for i := range 3*maxBatch + 1 {
		c, _ := d.connect()
		if kind := kinds[i%len(kinds)]; kind.sent == "" {
			c.CloseWrite()
		} else {
			c.send(kind.sent)
		}
		clients = append(clients, c)
	}
	d.turn()
	d.turn() // for what did not fit into one read
	for i, c := range clients {
		kinds[i%len(kinds)].check(c)
	}
}

func TestRoutesThatCannotLookAheadAreBugs(t *testing.T) {
	fast, ahead := Handler(noHandler), func(int, [][]byte) {}
	for _, r := range []Route{
		{Pattern: "GET /a", Handler: fast, Prefetch: ahead},
		{Pattern: "GET /a/{b}/c", Handler: fast, Prefetch: ahead},
		{Pattern: "GET /a/{b}/{c}", Handler: fast, Prefetch: ahead},
		{Pattern: "GET /a/{b...}", Handler: fast, Prefetch: ahead},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is taken", r.Pattern)
				}
			}()
			new(router).add(&route{Route: r})
		}()
	}
}

func FuzzLookingAhead(f *testing.F) {
	f.Add([]byte(get("/ahead/a") + get("/ahead/b?q")))
	f.Add([]byte("GET /ahead/"))
	f.Add([]byte("GET /ahead/a\r\n\r\nGET /ahead//\n\n"))
	r := &route{Route: Route{Pattern: "GET /ahead/{word}", Handler: noHandler,
		Prefetch: func(int, [][]byte) {}}}
	new(router).add(r)
	f.Fuzz(func(t *testing.T, data []byte) {
		params := r.paramsOf(nil, data)
		if len(params) > maxPrefetch {
			t.Errorf("%d requests are looked at", len(params))
		}
		for i, p := range params {
			if bytes.ContainsAny(p, " ?/") {
				t.Errorf("parameter %d is %q", i, p)
			}
		}
	})
}
