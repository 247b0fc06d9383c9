package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"weir/internal/feed/snapshot"
	"weir/internal/server"
)

// apiDoc is docs/openapi.yaml, as far as the tests look at it.
type apiDoc struct {
	Paths      map[string]apiPath `yaml:"paths"`
	Components struct {
		Parameters map[string]apiParameter `yaml:"parameters"`
		Responses  map[string]apiResponse  `yaml:"responses"`
		Schemas    map[string]apiSchema    `yaml:"schemas"`
	} `yaml:"components"`
}

type apiPath struct {
	Servers    []struct{ URL string } `yaml:"servers"` // only what is on the admin port has some, paths or methods
	Parameters []apiParameter         `yaml:"parameters"`
	Methods    map[string]apiCall     `yaml:",inline"`
}

type apiCall struct {
	Servers    []struct{ URL string } `yaml:"servers"`
	Parameters []apiParameter         `yaml:"parameters"`
	Responses  map[string]apiResponse `yaml:"responses"`
}

type apiParameter struct {
	Ref      string    `yaml:"$ref"`
	Name     string    `yaml:"name"`
	In       string    `yaml:"in"`
	Required bool      `yaml:"required"`
	Schema   apiSchema `yaml:"schema"`
}

type apiResponse struct {
	Ref     string `yaml:"$ref"`
	Content map[string]struct {
		Schema apiSchema `yaml:"schema"`
	} `yaml:"content"`
}

type apiSchema = map[string]any

func readAPI(t *testing.T) *apiDoc {
	t.Helper()
	text, err := os.ReadFile("../../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	doc := new(apiDoc)
	if err := yaml.Unmarshal(text, doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Paths) == 0 {
		t.Fatal("docs/openapi.yaml describes no path")
	}
	return doc
}

func (d *apiDoc) parameter(p apiParameter) apiParameter {
	if name, ok := strings.CutPrefix(p.Ref, "#/components/parameters/"); ok {
		return d.Components.Parameters[name]
	}
	return p
}

func (d *apiDoc) response(r apiResponse) apiResponse {
	if name, ok := strings.CutPrefix(r.Ref, "#/components/responses/"); ok {
		return d.Components.Responses[name]
	}
	return r
}

// startAPI serves two users, one of whom has no more than two items, on ports of 127.0.0.1.
func startAPI(t *testing.T) (a *app, public, admin string) {
	t.Helper()
	dir := t.TempDir()
	w, err := snapshot.Create(filepath.Join(dir, "feeds.weir"), snapshot.Options{
		UserCount: 2, MaxUser: 2, MaxItem: 300, Fallbacks: []uint64{298, 299, 300},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	long := make([]uint64, 290)
	for i := range long {
		long[i] = uint64(i + 1)
	}
	if err := errors.Join(w.AddNumber(1, long), w.AddNumber(2, []uint64{7, 8})); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(); err != nil {
		t.Fatal(err)
	}

	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	openers := make([]server.Opener, len(services))
	for i, add := range services {
		openers[i] = add(flags)
	}
	if err := flags.Parse([]string{"--feeds", filepath.Join(dir, "feeds.weir"), "--feeds-watch", "-1s",
		"--sequence-max-index", "4294967295", "--sequence-range-bytes", "2GiB"}); err != nil {
		t.Fatal(err)
	}
	log, err := newLog(t.Output(), "text", "info")
	if err != nil {
		t.Fatal(err)
	}
	cfg := server.Config{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Loops: 1, Workers: 1, Log: log}
	ctx, cancel := context.WithCancel(context.Background())
	if a, err = openApp(ctx, cfg, filepath.Join(dir, "data"), openers); err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the server's end: %v", err)
		}
	})
	return a, "http://" + a.Addr().String(), "http://" + a.AdminAddr().String()
}

func TestOpenAPIDescribesTheRoutesAndNoOthers(t *testing.T) {
	doc := readAPI(t)
	a, _, admin := startAPI(t)

	var described, onAdmin []string
	for path, p := range doc.Paths {
		for method, call := range p.Methods {
			route := strings.ToUpper(method) + " " + path
			switch {
			case len(p.Servers)+len(call.Servers) > 0:
				onAdmin = append(onAdmin, route)
			case method == "head": // goes with GET
				if _, ok := p.Methods["get"]; !ok {
					t.Errorf("%s is described without GET", route)
				}
			default:
				described = append(described, route)
			}
		}
	}
	registered := a.Routes()
	slices.Sort(described)
	slices.Sort(registered)
	if !slices.Equal(described, registered) {
		t.Errorf("docs/openapi.yaml describes on the public port\n%q\nserved are\n%q", described, registered)
	}

	for _, s := range a.services {
		for _, r := range s.Routes() {
			if r.Admin && !slices.Contains(onAdmin, r.Pattern) {
				t.Errorf("%s of the admin port is not described", r.Pattern)
			}
		}
	}
	for _, route := range onAdmin {
		method, path, _ := strings.Cut(route, " ")
		body := ""
		if method == http.MethodPut {
			body = `{"index":7}`
		}
		if got := callAPI(t, method, admin+path, body); got.StatusCode != http.StatusOK {
			t.Errorf("%s is described for the admin port, which answers %s", route, got.Status)
		}
	}
}

func TestOpenAPIDescribesTheParameters(t *testing.T) {
	doc := readAPI(t)
	_, public, _ := startAPI(t)
	wildcard := regexp.MustCompile(`\{([^}]*)\}`)
	for path, p := range doc.Paths {
		var names, described []string
		for _, m := range wildcard.FindAllStringSubmatch(path, -1) {
			names = append(names, m[1])
		}
		for _, parameter := range p.Parameters {
			parameter = doc.parameter(parameter)
			if parameter.In != "path" || !parameter.Required {
				t.Errorf("%s: the parameter %q is in %q, required %t", path, parameter.Name, parameter.In, parameter.Required)
			}
			described = append(described, parameter.Name)
		}
		if !slices.Equal(names, described) {
			t.Errorf("%s: the wildcards %q are described as %q", path, names, described)
		}
		for method, call := range p.Methods {
			for _, parameter := range call.Parameters {
				testQuery(t, strings.ToUpper(method), public+wildcard.ReplaceAllString(path, "1"), doc.parameter(parameter))
			}
		}
	}
}

// testQuery checks that a parameter of the query is known, and its bounds are those described.
func testQuery(t *testing.T, method, url string, p apiParameter) {
	t.Helper()
	ask := func(value string) *answerOfAPI {
		query := "?peek=1&" + p.Name + "=" + value
		switch {
		case strings.HasSuffix(url, "/fib") && p.Name == "from":
			query += "&to=4294967295"
		case strings.HasSuffix(url, "/fib"):
			query += "&from=4294967295"
		case p.Name == "from":
			query += "&list=000000000000"
		}
		return callAPI(t, method, url+query, "")
	}
	refused := func(value string) {
		t.Helper()
		got := ask(value)
		if got.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%s %s=%s: %s, expected 422", method, p.Name, value, got.Status)
		} else if method != http.MethodHead && !strings.HasPrefix(got.problem(t), p.Name) {
			t.Errorf("%s %s=%s: the detail %q does not begin with the parameter's name", method, p.Name, value, got.problem(t))
		}
	}
	if p.In != "query" {
		t.Errorf("%s: the parameter %q is in %q", url, p.Name, p.In)
		return
	}
	refused("x")
	if low, ok := p.Schema["minimum"].(int); ok {
		refused(strconv.Itoa(low - 1))
	}
	if high, ok := p.Schema["maximum"].(int); ok {
		refused(strconv.Itoa(high + 1))
		if got := ask(strconv.Itoa(high)); got.StatusCode == http.StatusUnprocessableEntity {
			t.Errorf("%s %s=%d is described, and refused", method, p.Name, high)
		}
	}
	values, _ := p.Schema["enum"].([]any)
	for _, v := range values {
		if got := ask(fmt.Sprint(v)); got.StatusCode != http.StatusOK {
			t.Errorf("%s %s=%v is described, and answered %s", method, p.Name, v, got.Status)
		}
	}
	if d, ok := p.Schema["default"].(int); ok && method == http.MethodGet {
		var items []any
		got := callAPI(t, method, url+"?peek=1", "")
		if err := json.Unmarshal(got.body, &items); err != nil || len(items) != d {
			t.Errorf("%d items without %s (%v), the described default is %d", len(items), p.Name, err, d)
		}
	}
}

func TestAnswersAreAsOpenAPIDescribes(t *testing.T) {
	doc := readAPI(t)
	_, public, admin := startAPI(t)
	var page struct{ List string }
	if err := json.Unmarshal(callAPI(t, "GET", public+"/feed/1?peek=1&meta=1", "").body, &page); err != nil {
		t.Fatal(err)
	}
	const user, position, value = "/feed/{userId}", "/feed/{userId}/position", "/fib/{n}"
	for _, c := range []struct {
		method, path, url, body string
		status                  int
	}{
		{"GET", user, public + "/feed/1", "", 200},
		{"GET", user, public + "/feed/1?size=255&meta=1", "", 200},
		{"GET", user, public + "/feed/2?size=5&meta=true", "", 200}, // with fallback items
		{"GET", user, public + "/feed/3?size=1&meta=1", "", 200},    // unknown
		{"GET", user, public + "/feed/1?from=290&meta=1&list=" + page.List, "", 200},
		{"GET", user, public + "/feed/1?from=0&list=000000000000", "", 409},
		{"GET", user, public + "/feed/1?from=291&list=" + page.List, "", 422},
		{"GET", user, public + "/feed/ada", "", 422},
		{"GET", user, public + "/feed/%zz", "", 400},
		{"HEAD", user, public + "/feed/1", "", 200},
		{"POST", user, public + "/feed/1", "", 200},
		{"GET", position, public + "/feed/1/position", "", 200},
		{"GET", position, public + "/feed/3/position", "", 404},
		{"PUT", position, public + "/feed/1/position", `{"position":290}`, 200},
		{"PUT", position, public + "/feed/1/position", `{"position":291}`, 422},
		{"PUT", position, public + "/feed/1/position", `{"position":1,"more":2}`, 422},
		{"PUT", position, public + "/feed/1/position", strings.Repeat(" ", 1<<20+1), 413},
		{"PUT", position, public + "/feed/3/position", `{"position":0}`, 404},
		{"DELETE", position, public + "/feed/1/position", "", 200},
		{"GET", "/current", public + "/current", "", 200},
		{"GET", "/next", public + "/next", "", 200},
		{"HEAD", "/next", public + "/next", "", 200},
		{"GET", "/previous", public + "/previous", "", 200},
		{"HEAD", "/previous", public + "/previous", "", 200},
		{"GET", value, public + "/fib/0", "", 200},
		{"GET", value, public + "/fib/100000", "", 200},
		{"GET", value, public + "/fib/100000?format=text", "", 200},
		{"GET", value, public + "/fib/4294967295", "", 503},
		{"GET", value, public + "/fib/4294967296", "", 422},
		{"GET", value, public + "/fib/%zz", "", 400},
		{"GET", "/fib", public + "/fib?from=90000&to=90010", "", 200},
		{"GET", "/fib", public + "/fib?from=4294967295&to=4294967295", "", 503},
		{"GET", "/fib", public + "/fib?from=1&to=0", "", 422},
		{"PUT", "/current", admin + "/current", `{"index":4294967295}`, 200},
		{"PUT", "/current", admin + "/current", `{"index":4294967296}`, 422},
		{"GET", "/next", public + "/next", "", 409},
		{"GET", "/previous", public + "/previous", "", 503},
		{"GET", "/current", public + "/current", "", 503},
		{"GET", "/debug/cache", admin + "/debug/cache", "", 200},
		{"GET", "/health", public + "/health", "", 200},
		{"GET", "/version", public + "/version", "", 200},
		{"POST", "/admin/feeds/reload", admin + "/admin/feeds/reload", "", 200},
		{"GET", "/health/live", admin + "/health/live", "", 200},
		{"GET", "/health/ready", admin + "/health/ready", "", 200},
		{"GET", "/metrics", admin + "/metrics", "", 200},
		{"GET", "/debug/pprof/", admin + "/debug/pprof/", "", 200},
	} {
		t.Run(fmt.Sprintf("%s %s %d", c.method, strings.TrimPrefix(strings.TrimPrefix(c.url, public), admin), c.status), func(t *testing.T) {
			got := callAPI(t, c.method, c.url, c.body)
			if got.StatusCode != c.status {
				t.Fatalf("%s, expected %d: %s", got.Status, c.status, got.body)
			}
			response, ok := doc.Paths[c.path].Methods[strings.ToLower(c.method)].Responses[strconv.Itoa(c.status)]
			if !ok {
				t.Fatalf("%s %s: the status %d is not described", c.method, c.path, c.status)
			}
			mediaType, _, err := mime.ParseMediaType(got.Header.Get("Content-Type"))
			if err != nil {
				t.Fatal(err)
			}
			content, ok := doc.response(response).Content[mediaType]
			if !ok {
				t.Fatalf("%s %s %d: the type %s is not described", c.method, c.path, c.status, mediaType)
			}
			if c.method == http.MethodHead || strings.HasPrefix(mediaType, "text/") {
				return
			}
			var value any
			if err := json.Unmarshal(got.body, &value); err != nil {
				t.Fatalf("%v: %s", err, got.body)
			}
			if err := doc.fits(value, content.Schema); err != nil {
				t.Errorf("%s %s: %v: %s", c.method, c.path, err, got.body)
			}
		})
	}
}

// fits says in what a JSON value is not as a schema has it. It knows the words that docs/openapi.yaml
// uses, and fails at others.
func (d *apiDoc) fits(value any, schema apiSchema) error {
	for word, is := range schema {
		var err error
		switch word {
		case "description", "example":
		case "$ref":
			name := strings.TrimPrefix(is.(string), "#/components/schemas/")
			named, ok := d.Components.Schemas[name]
			if !ok {
				return fmt.Errorf("there is no schema %q", is)
			}
			err = d.fits(value, named)
		case "oneOf":
			var misfits []error
			for _, s := range is.([]any) {
				if misfit := d.fits(value, s.(apiSchema)); misfit != nil {
					misfits = append(misfits, misfit)
				}
			}
			if fitting := len(is.([]any)) - len(misfits); fitting != 1 {
				err = fmt.Errorf("%d of the alternatives fit: %w", fitting, errors.Join(misfits...))
			}
		case "type":
			types, ok := is.([]any)
			if !ok {
				types = []any{is}
			}
			if !slices.ContainsFunc(types, func(t any) bool { return typeFits(value, t) }) {
				err = fmt.Errorf("%v is of another type than %v", value, types)
			}
		case "const":
			if value != is {
				err = fmt.Errorf("%v is not %v", value, is)
			}
		case "pattern":
			if s, ok := value.(string); ok && !regexp.MustCompile(is.(string)).MatchString(s) {
				err = fmt.Errorf("%q does not match %s", s, is)
			}
		case "minimum":
			if n, ok := value.(float64); ok && n < float64(is.(int)) {
				err = fmt.Errorf("%v is below %v", n, is)
			}
		case "maximum":
			if n, ok := value.(float64); ok && n > float64(is.(int)) {
				err = fmt.Errorf("%v is above %v", n, is)
			}
		case "maxItems":
			if a, ok := value.([]any); ok && len(a) > is.(int) {
				err = fmt.Errorf("%d elements are more than %v", len(a), is)
			}
		case "items":
			array, _ := value.([]any)
			for _, v := range array {
				if err = d.fits(v, is.(apiSchema)); err != nil {
					break
				}
			}
		case "required":
			object, _ := value.(map[string]any)
			for _, name := range is.([]any) {
				if _, ok := object[name.(string)]; !ok {
					err = fmt.Errorf("the member %v is missing", name)
				}
			}
		case "properties":
		case "additionalProperties":
			err = d.membersFit(value, schema)
		default:
			err = fmt.Errorf("a schema has the word %q, which this test does not know", word)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// membersFit checks the members of an object. Schemas of objects here say what other members there may be.
func (d *apiDoc) membersFit(value any, schema apiSchema) error {
	object, _ := value.(map[string]any)
	known, _ := schema["properties"].(apiSchema)
	others, mayBe := schema["additionalProperties"].(apiSchema)
	for name, v := range object {
		s, ok := known[name].(apiSchema)
		if !ok {
			if s = others; !mayBe {
				return fmt.Errorf("the member %s is not described", name)
			}
		}
		if err := d.fits(v, s); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func typeFits(value, name any) bool {
	switch v := value.(type) {
	case string:
		return name == "string"
	case float64:
		return name == "number" || name == "integer" && v == float64(int64(v))
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	}
	return false
}

// answerOfAPI is an answer with its whole body.
type answerOfAPI struct {
	*http.Response
	body []byte
}

func (a *answerOfAPI) problem(t *testing.T) string {
	t.Helper()
	var problem struct{ Detail string }
	if err := json.Unmarshal(a.body, &problem); err != nil {
		t.Fatalf("%s: %v: %q", a.Status, err, a.body)
	}
	return problem.Detail
}

func callAPI(t *testing.T, method, url, body string) *answerOfAPI {
	t.Helper()
	host, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	r, err := http.NewRequest(method, "http://"+host, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Opaque = "/" + path // as it is, malformed escapes included
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &answerOfAPI{answer, content}
}
