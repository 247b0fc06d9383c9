package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ask returns the first n requests of a file of requests and a CSV file.
func ask(t *testing.T, lines, csv string, n int) []string {
	t.Helper()
	s := Spec{Requests: "r.jsonl", RequestsText: lines, Target: origin, VarsText: csv}
	if csv != "" {
		s.Vars = "v.csv"
	}
	return take(open(t, s).Source(0, 1), n)
}

func TestARequestIsWrittenAsItIsDescribed(t *testing.T) {
	const host = " HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n"
	for _, c := range []struct{ line, csv, want string }{
		{`{"url":"/a"}`, "", "GET /a" + host + "\r\n"},
		{`{"url":"http://localhost:81"}`, "", "GET / HTTP/1.1\r\nHost: localhost:81\r\n\r\n"},
		{`{"url":"/a","method":"DELETE"}`, "", "DELETE /a" + host + "\r\n"},
		{`{"url":"/a","method":"POST"}`, "", "POST /a" + host + "Content-Length: 0\r\n\r\n"},
		{`{"url":"/a","body":"x=1"}`, "", "POST /a" + host + "Content-Length: 3\r\n\r\nx=1"},
		{`{"url":"/a","body":""}`, "", "POST /a" + host + "Content-Length: 0\r\n\r\n"},
		{`{"url":"/a","body":null}`, "", "GET /a" + host + "\r\n"},
		{`{"url":"/a","body":{"b": [1]}}`, "", "POST /a" + host +
			"Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{\"b\": [1]}"},
		{`{"url":"/a","body":"{\"b\":1}"}`, "", "POST /a" + host +
			"Content-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"b\":1}"},
		{`{"url":"/a","body":[1],"method":"PUT","headers":{"content-type":"x/y"}}`, "", "PUT /a" + host +
			"content-type: x/y\r\nContent-Length: 3\r\n\r\n[1]"},
		{`{"url":"/a","headers":{"B":" 2 ","A":["0","1"]}}`, "", "GET /a" + host +
			"A: 0\r\nA: 1\r\nB: 2\r\n\r\n"},
		{`{"url":"/a b/ä?q=\"ü c\"#gone"}`, "", "GET /a%20b/%C3%A4?q=%22%C3%BC%20c%22" + host + "\r\n"},
		{`{"url":"//x/y"}`, "", "GET //x/y" + host + "\r\n"},

		// Variables.
		{`{"url":"/{{a}}/{{ b c }}?{{a}}"}`, "a,b c\n/ ?ä,~x\n", "GET /%2F%20%3F%C3%A4/~x?%2F%20%3F%C3%A4" +
			host + "\r\n"},
		{`{"url":"/x{{{a}}}{{a}}"}`, "a\n/y?z=%20\n", "GET /x/y?z=%20%2Fy%3Fz%3D%2520" + host + "\r\n"},
		{`{"url":"{{{a}}}"}`, "a\n//y?z=1\n", "GET //y?z=1" + host + "\r\n"},
		{`{"url":"{{{a}}}/more?{{a}}"}`, "a\n/y\n", "GET /y/more?%2Fy" + host + "\r\n"},
		{`{"url":"http://localhost:81/{{a}}"}`, "a\ny\n", "GET /y HTTP/1.1\r\nHost: localhost:81\r\n\r\n"},
		{`{"url":"/","headers":{"A":"<{{a}}|{{{a}}}>"}}`, "a\n\"x, y\"\n", "GET /" + host +
			"A: <x, y|x, y>\r\n\r\n"},
		{`{"url":"/","body":"{{a}} {{{a}}}&"}`, "a\n\"\"\"\"\n", "POST /" + host +
			"Content-Length: 4\r\n\r\n\" \"&"},
		{`{"url":"/","body":{"t":"<{{a}}>"}}`, "a\n\"\"\"\\\n\"\n", "POST /" + host +
			"Content-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"t\":\"<\\\"\\\\\\n>\"}"},
		{`{"url":"/","body":{"n":"{{{n}}}","t":"{{n}}","u":"\"{{n}}"}}`, "n\n-1.5\n", "POST /" + host +
			"Content-Type: application/json\r\nContent-Length: 34\r\n\r\n" +
			"{\"n\":-1.5,\"t\":\"-1.5\",\"u\":\"\\\"-1.5\"}"},
		{`{"url":"/","body":"{\"n\":{{n}},\"t\":\"{{t}}\"}"}`, "n,t\n[1],\"\"\"\"\n", "POST /" + host +
			"Content-Type: application/json\r\nContent-Length: 18\r\n\r\n{\"n\":[1],\"t\":\"\\\"\"}"},
		{`{"url":"/","body":"{\"a\":{\"b\":{{n}}}}"}`, "n\n1\n", "POST /" + host +
			"Content-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"a\":{\"b\":1}}"},
		{`{"url":"/","body":"{{{n}}:{{n}}}"}`, "n\n1\n", "POST /" + host + "Content-Length: 5\r\n\r\n{1:1}"},
		{`{"url":"/","body":["{{{n}}}","{{{n}}}","\"{{{n}}}",{"{{n}}":0}]}`, "n\n1\n", "POST /" + host +
			"Content-Type: application/json\r\nContent-Length: 19\r\n\r\n[1,1,\"\\\"1\",{\"1\":0}]"},
		{`{"url":"/","body":{"{{{n}}}":"{{n}}"}}`, "n\n\"\"\"\"\n", "POST /" + host +
			"Content-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"\\\"\":\"\\\"\"}"},

		// What is no variable.
		{`{"url":"/","body":"{{ {{a {{\n}} }} {{x{y}} {{{{"}`, "", "POST /" + host +
			"Content-Length: 28\r\n\r\n{{ {{a {{\n}} }} {{x{y}} {{{{"},
	} {
		csv, line := c.csv, c.line
		if csv == "" && strings.Contains(line, "{{") {
			csv, line = "a\nx\n", line+"\n"+`{"url":"/{{a}}"}`
		}
		if got := ask(t, line, csv, 1)[0]; got != c.want {
			t.Errorf("%s\n is %q\nnot %q", c.line, got, c.want)
		}
	}
}

func TestHeadersForAllGoWithEveryRequestThatHasNoneOfItsOwn(t *testing.T) {
	sc := open(t, Spec{Requests: "r",
		RequestsText: "{\"url\":\"/\"}\n{\"url\":\"/\",\"headers\":{\"a\":\"own\"}}", Target: origin,
		Headers: []string{"A: 1", "A: 2"}})
	got := take(sc.Source(0, 1), 2)
	if !strings.Contains(got[0], "\r\nA: 1\r\nA: 2\r\n\r\n") ||
		!strings.Contains(got[1], "\r\na: own\r\n\r\n") {
		t.Errorf("%q", got)
	}
	for name, spec := range everything {
		spec.Headers = append(slices.Clip(spec.Headers), "Authorization: Bearer x", "User-Agent: me")
		for _, r := range take(open(t, spec).Source(0, 1), 20) {
			if strings.Count(r, "\r\nAuthorization: Bearer x\r\n") != 1 ||
				strings.Count(r, "User-Agent") != 1 {
				t.Errorf("%s: %q", name, r)
			}
		}
	}
}

func TestOneURLWithoutVariablesIsTakenAtItsWord(t *testing.T) {
	got := take(open(t, Spec{URL: origin + "/?{{a}}", Body: `{"a":"{{{b}}}"}`,
		Headers: []string{"X: {{c}}"}}).Source(0, 1), 1)[0]
	want := "POST /?%7B%7Ba%7D%7D HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Type: application/json\r\nX: " +
		"{{c}}\r\nContent-Length: 15\r\n\r\n{\"a\":\"{{{b}}}\"}"
	if got != want {
		t.Errorf("%q, expected %q", got, want)
	}
}

// targets are the request lines' URLs.
func targets(all []string) []string {
	var urls []string
	for _, r := range all {
		urls = append(urls, strings.Fields(r)[1])
	}
	return urls
}

func TestLinesTakeTurnsAndATurnHasOneRow(t *testing.T) {
	lines := "{\"url\":\"/a{{x}}\"}\n{\"url\":\"/b{{x}}\"}"
	got := targets(ask(t, lines, "x\n1\n2\n3\n", 8))
	if want := []string{"/a1", "/b1", "/a2", "/b2", "/a3", "/b3", "/a1", "/b1"}; !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
}

func TestRowsCanBeTakenAtRandom(t *testing.T) {
	s := Spec{URL: origin + "/{{x}}", Vars: "v", VarsText: "x\na\nb\nc\n", VarsOrder: "random"}
	seen := make(map[string]int)
	for _, u := range targets(take(open(t, s).Source(0, 1), 3000)) {
		seen[u]++
	}
	for _, u := range []string{"/a", "/b", "/c"} {
		if seen[u] < 850 || seen[u] > 1150 {
			t.Errorf("%v, expected about 1000 each", seen)
		}
	}
}

func TestLinesCanHaveWeights(t *testing.T) {
	seen := make(map[string]int)
	for _, u := range targets(
		ask(t, "{\"url\":\"/a\"}\n{\"url\":\"/b\",\"weight\":2.5}\n{\"url\":\"/c\",\"weight\":0.5}",
			"", 4000)) {
		seen[u]++
	}
	for u, want := range map[string]int{"/a": 1000, "/b": 2500, "/c": 500} {
		if seen[u] < want*9/10-30 || seen[u] > want*11/10+30 {
			t.Errorf("%s comes %d times of 4000, expected about %d", u, seen[u], want)
		}
	}
}

func TestFilesThatAreWrongAreRefusedWithFileAndLine(t *testing.T) {
	const ok = `{"url":"/"}` + "\n"
	for _, c := range []struct{ lines, csv, want string }{
		{"\n \n", "", "r.jsonl: the file has no requests: expected one JSON object a line"},
		{ok + "x", "", "r.jsonl:2: not JSON: invalid character 'x' looking for beginning of value at byte " +
			"1: expected one JSON object a line"},
		{ok + `{"url":"/"`, "", "r.jsonl:2: it ends before its JSON does: expected one JSON object"},
		{ok + `{"url":"/"} {}`, "", "r.jsonl:2: something follows the object at byte"},
		{ok + `["/"]`, "", "r.jsonl:2: it must be an object, not an array: expected one JSON object"},
		{ok + `{"url":7}`, "", "r.jsonl:2: url must be a text, not a number"},
		{ok + `{"url":"/","weight":"7"}`, "", "r.jsonl:2: weight must be a number, not a text"},
		{ok + `{"url":"/","wieght":7}`, "",
			`r.jsonl:2: there is no field "wieght": expected one JSON object a line with url, and method, headers, body, weight, name, expect and take`},
		{ok + `{"url":"/","weight":0}`, "", "r.jsonl:2: weight must be more than 0, got 0"},
		{ok + `{"method":"GET"}`, "", "r.jsonl:2: url is missing"},
		{ok + `{"url":"feed/1"}`, "",
			`r.jsonl:2: url: expected a URL, as in http://127.0.0.1:8080/feed/1, or a path at --target, as in /feed/1, got "feed/1"`},
		{ok + `{"url":"ftp://x/"}`, "", "r.jsonl:2: url: expected a URL of http or https"},
		{ok + `{"url":"http:///x"}`, "", "has no host"},
		{ok + `{"url":"http://me:secret@localhost/"}`, "", "user and password"},
		{ok + `{"url":"/%zz"}`, "", "invalid URL escape"},
		{ok + `{"url":"/\n"}`, "", "invalid control character"},
		{ok + `{"url":"http://192.0.2.1/"}`, "", "r.jsonl:2: url: "},
		{ok + `{"url":"/","method":"get"}`, "",
			"r.jsonl:2: method: methods are written in capitals: GET, not get"},
		{ok + `{"url":"/","method":"A B"}`, "", `"A B" is no method`},
		{ok + `{"url":"/","method":"CONNECT"}`, "", "CONNECT cannot be used"},
		{ok + `{"url":"/","headers":["A: b"]}`, "",
			"r.jsonl:2: headers: expected an object of names and values"},
		{ok + `{"url":"/","headers":{"A":7}}`, "", "r.jsonl:2: headers: A must be a text"},
		{ok + `{"url":"/","headers":{"A b":"c"}}`, "", `r.jsonl:2: headers: "A b" is no name of a header`},
		{ok + `{"url":"/","headers":{"A":"b\r\nC: d"}}`, "", `control character, '\r', at byte 2`},
		{ok + `{"url":"/","headers":{"Host":"x"}}`, "", "Host is what the URL says"},
		{ok + `{"url":"/","headers":{"content-length":"1"}}`, "", "Content-Length is counted"},
		{ok + `{"url":"/","headers":{"Transfer-Encoding":"chunked"}}`, "", "Transfer-Encoding cannot be set"},

		{ok + `{"url":"/{{x}}"}`, "",
			`r.jsonl:2: url: {{x}} is a variable, and there are none: expected --vars FILE, a CSV file with the column "x"`},
		{ok + `{"url":"/","body":"{{x}}"}`, "a,b\n1,2\n",
			"r.jsonl:2: body: {{x}} is no column of v.csv: expected one of a, b"},
		{ok + `{"url":"/","headers":{"A":"{{x}}"}}`, "a,b\n1,2\n",
			"r.jsonl:2: header A: {{x}} is no column of v.csv"},
		{ok + `{"url":"/{{}}"}`, "a\n1\n", "a variable without a name at byte 2"},
		{ok + `{"url":"{{a}}"}`, "a\n1\n", "r.jsonl:2: url: the URL begins with {{a}}, which is " +
			"percent-encoded: write {{{a}}} for a whole path"},
		{ok + `{"url":"http://{{a}}/"}`, "a\n1\n", "what is filled in can stand in path and query alone"},
		{ok + `{"url":"http://localhost:{{a}}"}`, "a\n1\n",
			"what is filled in can stand in path and query alone"},
		{ok + `{"url":"/#{{a}}"}`, "a\n1\n", "cannot stand behind a #"},
		{ok, "a\n1\n", "no request has a variable of v.csv: write {{a}} where its values belong, or leave " +
			"--vars out"},
		{`{"url":"{{{a}}}"}`, "a\n/b\nc\n", `v.csv:3: column a: expected a path that begins with /, got "c"`},
		{`{"url":"/x{{{a}}}"}`, "a\nb\nc d\n",
			`v.csv:3: column a: "c d" has the byte ' ', which a URL cannot`},
		{`{"url":"/x{{{a}}}"}`, "a\n\"b\nc\"\n", `has the byte '\n', which a URL cannot`},
		{`{"url":"/","headers":{"A":"{{a}}"}}`, "a\n\"b\r\nC: d\"\n", "v.csv:2: column a:"},
		{`{"url":"/","body":{"a":"{{{a}}}"}}`, "a\n1\nx\n",
			`v.csv:3: column a: "x" is no JSON value, as a number or true is: put the variable within quotes`},
		{`{"url":"/","body":{"a":"{{a}}"}}`, "a\n\xff\n", "not UTF-8"},
		{`{"url":"/{{a}}"}`, "a\n", "v.csv: the file has a head and no rows"},
		{`{"url":"/{{a}}"}`, "\n", "v.csv: the file has no head"},
		{`{"url":"/{{a}}"}`, "a,b\n1,2\n\n3\n",
			"v.csv:4: the row has not as many fields as the head: expected 2, a, b"},
		{`{"url":"/{{a}}"}`, "a,b\n1,\"2\n", "v.csv:2: not CSV: extraneous or missing \" in quoted-field"},
		{`{"url":"/{{a}}"}`, "a, a\n1,2\n", `v.csv:1: the column "a" is there twice`},
		{`{"url":"/{{a}}"}`, "a,{b}\n1,2\n", `v.csv:1: the name of column 2, "{b}", holds braces`},
	} {
		s := Spec{Requests: "r.jsonl", RequestsText: c.lines, Target: origin, VarsText: c.csv}
		if c.csv != "" {
			s.Vars = "v.csv"
		}
		sc, err := Open(t.Context(), s, nil)
		if err == nil {
			t.Errorf("%q with %q is taken, as %q, expected %q", c.lines, c.csv,
				take(sc.Source(0, 1), 2), c.want)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q with %q\n says %q\n expected %q", c.lines, c.csv, err, c.want)
		}
	}
}

func TestFilesAreReadOnceAndNotBeyondTheirBounds(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	s := Spec{URL: origin + "/{{x}}", Vars: write("vars", "x\n1\n"), Body: "@" + write("body", "hello")}
	if err := s.ReadFiles(); err != nil {
		t.Fatal(err)
	}
	if s.Body != "hello" || s.VarsText != "x\n1\n" {
		t.Errorf("body %q and variables %q", s.Body, s.VarsText)
	}
	r := Spec{Requests: write("requests", "\ufeff{\"url\":\"http://localhost/{{x}}\"}"),
		Vars: write("bom", "\ufeffx\n1\n")}
	if err := r.ReadFiles(); err != nil {
		t.Fatal(err)
	}
	if got := targets(take(open(t, r).Source(0, 1), 1)); got[0] != "/1" {
		t.Errorf("%q, expected /1", got)
	}
	large := write("large", "")
	if err := os.Truncate(large, maxVars+1); err != nil {
		t.Fatal(err)
	}
	for want, s := range map[string]Spec{
		"--requests: open " + dir:                              {Requests: filepath.Join(dir, "missing")},
		"--vars: read " + dir:                                  {Vars: dir},
		"--vars " + large + ": longer than 64 MiB":             {Vars: large},
		"--requests " + large + ": longer than 16 MiB":         {Requests: large},
		"--body " + large + ": longer than 16 MiB":             {Body: "@" + large},
		fmt.Sprintf("--vars %s: the file is empty", dir+"/no"): {Vars: write("no", "")},
		"a body that begins with @ cannot be sent":             {Body: "@" + write("at", "@x")},
	} {
		if err := s.ReadFiles(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
}
