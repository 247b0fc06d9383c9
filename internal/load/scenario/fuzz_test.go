package scenario

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"weir/internal/load/client"
)

// whole fails unless wire is one request and nothing else, for the host that it names.
func whole(t *testing.T, wire []byte) *http.Request {
	t.Helper()
	r := bufio.NewReader(bytes.NewReader(wire))
	req, err := http.ReadRequest(r)
	if err != nil {
		t.Fatalf("%q cannot be read: %v", wire, err)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil || r.Buffered() > 0 || len(req.TransferEncoding) > 0 {
		t.Fatalf("%q: error %v, %d bytes left over, coding %q: expected one whole request", wire, err,
			r.Buffered(), req.TransferEncoding)
	}
	if hosts := strings.Count(strings.ToLower(string(wire[:len(wire)-len(body)])), "\r\nhost:"); hosts != 1 ||
		req.Host != "127.0.0.1:8080" {
		t.Fatalf("%q has %d hosts, %q", wire, hosts, req.Host)
	}
	if req.Header.Get("Content-Type") == "application/json" && !json.Valid(body) {
		t.Fatalf("%q: the body is no JSON", wire)
	}
	return req
}

// here lets only addresses be targets, so that nobody's names are looked up.
func here(f *testing.F) {
	look := resolve
	f.Cleanup(func() { resolve = look })
	resolve = func(ctx context.Context, origin string, owned []string) (client.Target, error) {
		if !strings.HasPrefix(origin, "http://127.0.0.1:8080") {
			return client.Target{}, errors.New("another host")
		}
		return look(ctx, origin, owned)
	}
}

// FuzzRequests gives Open any two files. It refuses them, naming one, or makes whole requests of them.
func FuzzRequests(f *testing.F) {
	here(f)
	for _, spec := range everything {
		if spec.RequestsText != "" {
			f.Add(spec.RequestsText, spec.VarsText, false)
		}
	}
	f.Add(`{"url":"/{{a}}?{{{b}}}","headers":{"X":"{{a}}"},"body":{"a":"{{a}}","b":"{{{b}}}"}}`,
		"a,b\nx,1\n", true)
	f.Add(`{"url":"{{{b}}}/x","body":"{\"a\":{{a}},\"b\":\"\\\"{{b}}\"}"}`, "a,b\n[1],/\n", true)
	f.Add(`{"url":"/","weight":0.5,"method":"PATCH"}`, "a\n", false)
	f.Fuzz(func(t *testing.T, lines, csv string, random bool) {
		s := Spec{Requests: "lines", RequestsText: lines, Target: "http://127.0.0.1:8080/base", VarsText: csv}
		if csv != "" {
			s.Vars = "columns"
			s.VarsOrder = map[bool]string{true: "random"}[random]
		}
		sc, err := Open(t.Context(), s, nil)
		if err != nil {
			if lines != "" && !strings.Contains(err.Error(), "lines") &&
				!strings.Contains(err.Error(), "columns") {
				t.Fatalf("%v does not say which file", err)
			}
			return
		}
		source := sc.Source(0, 1)
		for range 10 {
			wire, _ := source.Next(nil)
			whole(t, wire)
		}
	})
}

// FuzzURL gives Open any URL pattern, method, header and body from a command line.
func FuzzURL(f *testing.F) {
	here(f)
	f.Add("/a b", "GET", "A: b", "")
	f.Add("/{feed}?{user}#x", "POST", "Content-Type: x", `{"a":1}`)
	f.Add("//%41/ä?\"", "", "Host: x", "{{a}}")
	f.Add("/\r\nX: y", "GET / HTTP/1.1\r\n", "A: b\r\nC: d", "\r\n")
	f.Fuzz(func(t *testing.T, path, method, header, body string) {
		if !strings.HasPrefix(path, "/") {
			path = "/" + path
		}
		if strings.HasPrefix(body, "@") {
			body = ""
		}
		for _, s := range []Spec{
			{URL: origin + path, Method: method, Headers: []string{header}, Body: body},
			{URL: origin + path, Method: method, Body: body, Vars: "v", VarsText: "a\n1\n"},
			{Scenario: "poll", Target: origin, Users: 2, Feeds: 1, FeedURL: path, Headers: []string{header}},
			{Scenario: "feed", Target: origin, Method: method, Headers: []string{header}},
			{Scenario: "predict", Target: origin, MaxItem: 3, Items: 2, Headers: []string{header}},
		} {
			sc, err := Open(t.Context(), s, nil)
			if err != nil {
				continue
			}
			source := sc.Source(0, 1)
			for range 3 {
				wire, _ := source.Next(nil)
				whole(t, wire)
			}
		}
	})
}

// FuzzTemplate holds that a template is its text taken apart, nothing lost.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{"", "{{a}}", "x{{{a}}}y{{ b }}", "{{{{a}}}}", "{{{a}}", "{{a}", "{{a\n}}",
		"{{}}", "{{{", "{{a{b}}", "{{a}}}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := parseTemplate(text)
		if err != nil {
			return
		}
		if len(parsed.texts) != len(parsed.variables)+1 {
			t.Fatalf("%q: %d texts and %d variables", text, len(parsed.texts), len(parsed.variables))
		}
		rest := text
		for i, before := range parsed.texts {
			var ok bool
			if rest, ok = strings.CutPrefix(rest, before); !ok {
				t.Fatalf("%q: %q is not before %q", text, before, rest)
			}
			if i == len(parsed.variables) {
				break
			}
			v := parsed.variables[i]
			braces := map[bool]int{false: 2, true: 3}[v.raw]
			if rest, ok = strings.CutPrefix(rest, strings.Repeat("{", braces)); !ok {
				t.Fatalf("%q: no braces before %q", text, rest)
			}
			inner, after, ok := strings.Cut(rest, strings.Repeat("}", braces))
			if !ok || strings.TrimSpace(inner) != v.name || strings.ContainsAny(v.name, "{}\r\n") {
				t.Fatalf("%q: %q is no %q", text, inner, v.name)
			}
			rest = after
		}
		if rest != "" {
			t.Fatalf("%q: %q is lost", text, rest)
		}
	})
}
