package server

import (
	"net/url"
	"strings"
	"testing"
)

// FuzzQuery compares NextQuery and unescape with net/url, which allocates, pair by pair.
func FuzzQuery(f *testing.F) {
	for _, q := range []string{"", "a", "a=b", "a=b&c=d", "&&a=&=b&", "a=%20+%2b&%C3%A9=é", "a=%", "a=%2",
		"a=%zz&b=c", "a=b=c", "%00=%ff"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		r := Request{decoded: []byte("what was decoded before must stay")}
		before := string(r.decoded)
		q := []byte(query)
		for pair := range strings.SplitSeq(query, "&") {
			if pair == "" {
				continue
			}
			k, v, _ := strings.Cut(pair, "=")
			wantKey, errKey := url.QueryUnescape(k)
			wantValue, errValue := url.QueryUnescape(v)
			key, value, rest, more, ok := r.NextQuery(q)
			if !more {
				t.Fatalf("%q: the pair %q was not found", query, pair)
			}
			if wantOK := errKey == nil && errValue == nil; ok != wantOK {
				t.Fatalf("%q: pair %q taken %t, net/url %t", query, pair, ok, wantOK)
			}
			if ok && (string(key) != wantKey || string(value) != wantValue) {
				t.Fatalf("%q: got %q=%q, net/url %q=%q", query, key, value, wantKey, wantValue)
			}
			q = rest
		}
		if _, _, _, more, ok := r.NextQuery(q); more || !ok {
			t.Fatalf("%q: more than net/url finds, in %q", query, q)
		}
		if !strings.HasPrefix(string(r.decoded), before) {
			t.Fatal("earlier decoded bytes were written over")
		}

		want, err := url.PathUnescape(query)
		got, ok := r.unescape([]byte(query), false)
		if ok != (err == nil) || ok && string(got) != want {
			t.Fatalf("path %q: got %q, %t; net/url %q, %v", query, got, ok, want, err)
		}
	})
}

// Decoded values stay valid while others are decoded: a handler holds several of them.
func TestDecodedValuesOutliveLaterOnes(t *testing.T) {
	var r Request
	q := []byte("a=" + strings.Repeat("%41", 100) + "&b=" + strings.Repeat("%42", 5000))
	_, first, rest, _, _ := r.NextQuery(q)
	_, second, _, _, _ := r.NextQuery(rest)
	if string(first) != strings.Repeat("A", 100) || string(second) != strings.Repeat("B", 5000) {
		t.Errorf("got %q and %.10q...", first, second)
	}
	first = append(first, '!') // must not reach into the second
	if second[0] != 'B' {
		t.Errorf("appending to one value changed another; %q", first)
	}
}

func TestHeaderFindsTheFirstFieldOfAName(t *testing.T) {
	r := Request{header: []byte(
		"Host: weir\r\nX: \t one \t\r\nx: two\r\nEmpty:\r\nX-Longer: three\r\nLast:four\r\n")}
	for name, want := range map[string]string{"host": "weir", "X": "one", "EMPTY": "", "x-longer": "three",
		"Last": "four", "X-": "", "Hos": "", "Host:": ""} {
		if got := r.Header(name); string(got) != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if r.Header("Empty") == nil {
		t.Error("an empty field looks like none")
	}
	if r.Header("Absent") != nil || new(Request).Header("Host") != nil {
		t.Error("an absent field was found")
	}
}

func TestProblemsQuoteWhatTheyAreTold(t *testing.T) {
	var w Response
	w.reset()
	w.Field("X", "dropped")
	w.Body = append(w.Body, "dropped"...)
	w.Problem(422, "a \"quoted\"\nline <script>")
	want := `{"type":"about:blank","title":"Unprocessable Entity","status":422,"detail":"a \"quoted\"\nline \u003cscript\u003e","error":"a \"quoted\"\nline \u003cscript\u003e"}`
	if string(w.Body) != want || w.ContentType != problemType || w.Status != 422 {
		t.Errorf("got %d %s %s", w.Status, w.ContentType, w.Body)
	}
	if strings.Contains(string(w.header), "dropped") {
		t.Errorf("the fields of what the problem replaces are still there: %q", w.header)
	}
}

// A handler that appends to a value it was given gets memory of its own.
func TestDecodedValuesEndWhereTheyEnd(t *testing.T) {
	r := Request{params: [maxParams][]byte{[]byte("%41"), []byte("%42")}}
	if !r.decodeParams() {
		t.Fatal("escapes were refused")
	}
	if longer := append(r.Param(0), '!'); string(longer) != "A!" || string(r.Param(1)) != "B" {
		t.Errorf("got %q, and then %q for the next", longer, r.Param(1))
	}
}
