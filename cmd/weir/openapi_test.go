package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
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

	"weir/internal/bandit"
	"weir/internal/feed/snapshot"
	"weir/internal/server"
	"weir/internal/shed"
	"weir/internal/systest"
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
	// Only what is on the admin port has servers, a path or a method.
	Servers    []struct{ URL string } `yaml:"servers"`
	Parameters []apiParameter         `yaml:"parameters"`
	Methods    map[string]apiCall     `yaml:",inline"`
}

type apiCall struct {
	Servers     []struct{ URL string } `yaml:"servers"`
	Parameters  []apiParameter         `yaml:"parameters"`
	RequestBody struct {
		Content apiContent `yaml:"content"`
	} `yaml:"requestBody"`
	Responses map[string]apiResponse `yaml:"responses"`
}

type apiParameter struct {
	Ref      string    `yaml:"$ref"`
	Name     string    `yaml:"name"`
	In       string    `yaml:"in"`
	Required bool      `yaml:"required"`
	Schema   apiSchema `yaml:"schema"`
}

type apiResponse struct {
	Ref     string     `yaml:"$ref"`
	Content apiContent `yaml:"content"`
}

// apiContent is what a body is, by its type.
type apiContent map[string]struct {
	Schema   apiSchema                      `yaml:"schema"`
	Example  any                            `yaml:"example"`
	Examples map[string]struct{ Value any } `yaml:"examples"`
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

// startAPI serves two users, one of whom has no more than two items, and three arms, on ports of 127.0.0.1.
// Further flags, if there are any, replace those that name the arms.
func startAPI(t *testing.T, further ...string) (a *app, public, admin string) {
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

	if further == nil {
		further = []string{"--bandit-arms", writeArms(t, dir)}
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	services := newServices()
	for _, s := range services {
		s.AddFlags(flags)
	}
	if err := flags.Parse(append(further, "--feeds", filepath.Join(dir, "feeds.weir"), "--feeds-watch", "-1s",
		"--sequence-max-index", "4294967295", "--sequence-range-bytes", "2GiB")); err != nil {
		t.Fatal(err)
	}
	log := newLog(t.Output(), "text", slog.LevelInfo)
	on, off, err := checkServices(log, services)
	if err != nil {
		t.Fatal(err)
	}
	overload := shed.Defaults()
	cfg := server.Config{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Loops: 1, Workers: 1,
		Shed: &overload, Log: log}
	ctx, cancel := context.WithCancel(context.Background())
	if a, err = openApp(ctx, cfg, nil, filepath.Join(dir, "data"), on, off...); err != nil {
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
	systest.Eventually(t, "the arms are loaded, or cannot be", func() bool {
		for _, s := range a.services {
			if err := s.Health().Err(); err != nil && strings.Contains(err.Error(), "being loaded") {
				return false
			}
		}
		return true
	})
	return a, "http://" + a.Addr().String(), "http://" + a.AdminAddr().String()
}

// writeArms imports an arm of an item, one of it for a segment and one for a user, and returns their file.
func writeArms(t *testing.T, dir string) string {
	t.Helper()
	items, users, path := filepath.Join(dir, "items.jsonl"), filepath.Join(dir, "users.jsonl"),
		filepath.Join(dir, "arms.weir")
	if err := errors.Join(
		os.WriteFile(items, []byte(`{"item":"dune","segment":null,"user":null,"alpha":12,"beta":88}
{"item":"dune","segment":"readers","user":null,"alpha":7.5,"beta":2.5}
{"item":"dune","segment":null,"user":"bob","alpha":1,"beta":1e-3}
`), 0o600), os.WriteFile(users, []byte(`{"user":"ada","segment":"readers"}
`), 0o600)); err != nil {
		t.Fatal(err)
	}
	stats, err := bandit.ImportArms(t.Context(), []string{items, users}, path,
		bandit.ImportOptions{Prior: bandit.Defaults().Prior})
	if err != nil || stats.Arms != 3 || stats.Users != 1 {
		t.Fatalf("imported %+v, %v", stats, err)
	}
	return path
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
		if path == "/admin/events" { // never ends
			continue
		}
		// Most want a filter or a source, a change that can be undone, or a password.
		// Those of a cluster want an engine.
		if path == "/admin/session" || strings.HasPrefix(path, "/admin/filters") ||
			strings.HasPrefix(path, "/admin/settings/") || strings.HasPrefix(path, "/admin/cluster") {
			if got := callAPI(t, method, admin+path, "", 0); got.StatusCode == 405 ||
				strings.Contains(string(got.body), server.NothingOnAdmin) {
				t.Errorf("%s is described for the admin port, which answers %s", route, got.Status)
			}
			continue
		}
		body := map[string]string{
			"PUT /current": `{"index":7}`,
			"PUT /admin/feeds/users/{userId}/position": `{"position":7}`,
			"POST /admin/bandit/forget":                `{"all":true}`,
		}[route]
		if method == http.MethodPatch {
			body = `{}`
		}
		path = strings.ReplaceAll(path, "{userId}", "1")
		if path == "/admin/bandit/arm" {
			path += "?item=dune"
		}
		if got := callAPI(t, method, admin+path, body, 0); got.StatusCode != http.StatusOK {
			t.Errorf("%s is described for the admin port, which answers %s", route, got.Status)
		}
	}
}

func TestOpenAPIDescribesTheParameters(t *testing.T) {
	doc := readAPI(t)
	_, public, admin := startAPI(t)
	wildcard := regexp.MustCompile(`\{([^}]*)\}`)
	for path, p := range doc.Paths {
		base := public
		if strings.HasPrefix(path, "/admin/") {
			base = admin
		}
		var names, described []string
		for _, m := range wildcard.FindAllStringSubmatch(path, -1) {
			names = append(names, m[1])
		}
		for _, parameter := range p.Parameters {
			parameter = doc.parameter(parameter)
			if parameter.In != "path" || !parameter.Required {
				t.Errorf("%s: the parameter %q is in %q, required %t", path, parameter.Name, parameter.In,
					parameter.Required)
			}
			described = append(described, parameter.Name)
		}
		if !slices.Equal(names, described) {
			t.Errorf("%s: the wildcards %q are described as %q", path, names, described)
		}
		for method, call := range p.Methods {
			for _, parameter := range call.Parameters {
				switch parameter = doc.parameter(parameter); parameter.In {
				case "query":
					testQuery(t, strings.ToUpper(method), base+wildcard.ReplaceAllString(path, "1"),
						parameter)
				case "header": // see the requests of TestAnswersAreAsOpenAPIDescribes
					if parameter.Name != inferenceHeaderLength {
						t.Errorf("%s: the field %s is described and not tested", path, parameter.Name)
					}
				default:
					t.Errorf("%s: the parameter %q is in %q", path, parameter.Name, parameter.In)
				}
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
		return callAPI(t, method, url+query, "", 0)
	}
	refused := func(value string) {
		t.Helper()
		got := ask(value)
		if got.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%s %s=%s: %s, expected 422", method, p.Name, value, got.Status)
		} else if method != http.MethodHead && !strings.HasPrefix(got.problem(t), p.Name) {
			t.Errorf("%s %s=%s: the detail %q does not begin with the parameter's name", method, p.Name,
				value, got.problem(t))
		}
	}
	if p.Schema["type"] == "string" && p.Schema["pattern"] == nil && p.Schema["enum"] == nil {
		return // any text is one
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
		got := callAPI(t, method, url+"?peek=1", "", 0)
		if err := json.Unmarshal(got.body, &items); err != nil || len(items) != d {
			t.Errorf("%d items without %s (%v), the described default is %d", len(items), p.Name, err, d)
		}
	}
}

// apiRequest is a request, and the status it is to be answered.
type apiRequest struct {
	method, path, url, body string
	status                  int
}

func TestAnswersAreAsOpenAPIDescribes(t *testing.T) {
	doc := readAPI(t)
	_, public, admin := startAPI(t)
	var page struct{ List string }
	if err := json.Unmarshal(callAPI(t, "GET", public+"/feed/1?peek=1&meta=1", "", 0).body,
		&page); err != nil {
		t.Fatal(err)
	}
	const user, position, value = "/feed/{userId}", "/feed/{userId}/position", "/fib/{n}"
	const lookedAt, armPosterior = "/admin/feeds/users/{userId}", "/admin/bandit/arm"
	for _, r := range []apiRequest{
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
		{"GET", "/admin/sequence", admin + "/admin/sequence", "", 200},
		{"GET", "/admin/cluster", admin + "/admin/cluster", "", 404},
		{"POST", "/admin/cluster/check", admin + "/admin/cluster/check", "", 404},
		{"GET", "/health", public + "/health", "", 200},
		{"GET", "/version", public + "/version", "", 200},
		{"POST", "/admin/feeds/reload", admin + "/admin/feeds/reload", "", 200},
		{"POST", "/admin/feeds/reload", admin + "/admin/feeds/reload?force=2", "", 422},
		{"GET", "/admin/feeds", admin + "/admin/feeds", "", 200},
		{"GET", "/admin/feeds/survey", admin + "/admin/feeds/survey", "", 200},
		{"POST", "/admin/feeds/survey", admin + "/admin/feeds/survey", "", 200},
		{"GET", lookedAt, admin + "/admin/feeds/users/2?size=5", "", 200},
		{"GET", lookedAt, admin + "/admin/feeds/users/3?from=0&limit=3", "", 200},
		{"GET", lookedAt, admin + "/admin/feeds/users/ada", "", 422},
		{"PUT", lookedAt + "/position", admin + "/admin/feeds/users/1/position", `{"position":3}`, 200},
		{"PUT", lookedAt + "/position", admin + "/admin/feeds/users/1/position", `{"position":"3"}`, 422},
		{"DELETE", lookedAt + "/position", admin + "/admin/feeds/users/3/position", "", 404},
		{"DELETE", "/admin/feeds/users/{userId}", admin + "/admin/feeds/users/1", "", 200},
		{"GET", "/health/live", admin + "/health/live", "", 200},
		{"GET", "/health/ready", admin + "/health/ready", "", 200},
		{"GET", "/metrics", admin + "/metrics", "", 200},
		{"GET", "/debug/pprof/", admin + "/debug/pprof/", "", 200},
		{"GET", "/admin/bandit", admin + "/admin/bandit", "", 200},
		{"GET", "/admin/bandit/ranking", admin + "/admin/bandit/ranking?by=mean", "", 200},
		{"GET", "/admin/bandit/ranking", admin + "/admin/bandit/ranking?by=name", "", 422},
		{"GET", armPosterior, admin + armPosterior + "?item=dune&user=bob", "", 200},
		{"GET", armPosterior, admin + armPosterior + "?item=dune&user=bob&segment=readers", "", 422},
		{"POST", "/admin/bandit/reload", admin + "/admin/bandit/reload", "", 200},
	} {
		doc.test(t, r)
	}
}

// test sends a request and checks it and its answer, which it returns, against the document.
func (d *apiDoc) test(t *testing.T, r apiRequest) (got *answerOfAPI) {
	t.Helper()
	path := r.url[strings.Index(r.url, "//")+2:]
	t.Run(fmt.Sprintf("%s %s %.80s %d", r.method, path[strings.IndexByte(path, '/'):], r.body, r.status),
		func(t *testing.T) {
			got = callAPI(t, r.method, r.url, r.body, 0)
			d.check(t, r, got)
		})
	return got
}

// beyondSchemas are bodies that a schema allows, since it does not know the length of lists, and that are
// refused.
var beyondSchemas = []string{`{"position":291}`}

func (d *apiDoc) check(t *testing.T, r apiRequest, got *answerOfAPI) {
	t.Helper()
	if got.StatusCode != r.status {
		t.Fatalf("%s, expected %d: %s", got.Status, r.status, got.body)
	}
	call := d.Paths[r.path].Methods[strings.ToLower(r.method)]
	var sent any
	if described, ok := call.RequestBody.Content["application/json"]; ok &&
		json.Unmarshal([]byte(r.body), &sent) == nil {
		switch err := d.fits(sent, described.Schema); {
		case r.status == http.StatusOK && err != nil:
			t.Errorf("%.200s is taken, and not as described: %v", r.body, err)
		case r.status == http.StatusUnprocessableEntity && err == nil &&
			!slices.Contains(beyondSchemas, r.body) && got.Request.Header.Get(inferenceHeaderLength) == "":
			t.Errorf("%.200s is refused, and as described", r.body)
		}
	}
	response, ok := call.Responses[strconv.Itoa(r.status)]
	if !ok {
		t.Fatalf("%s %s: the status %d is not described", r.method, r.path, r.status)
	}
	mediaType, _, err := mime.ParseMediaType(got.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	content := d.response(response).Content
	described, ok := content[mediaType]
	if !ok {
		t.Fatalf("%s %s %d: the type %s is not described", r.method, r.path, r.status, mediaType)
	}
	body := got.body
	switch {
	case r.method == http.MethodHead || strings.HasPrefix(mediaType, "text/"):
		return
	case mediaType == "application/octet-stream": // the rest of it is JSON
		n, err := strconv.Atoi(got.Header.Get(inferenceHeaderLength))
		if err != nil || n > len(body) || len(body) == n || (len(body)-n)%8 != 0 {
			t.Fatalf("%s is %q of %d bytes", inferenceHeaderLength, got.Header.Get(inferenceHeaderLength),
				len(body))
		}
		described, body = content["application/json"], body[:n]
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if err := d.fits(value, described.Schema); err != nil {
		t.Errorf("%s %s: %v: %.500s", r.method, r.path, err, body)
	}
}

// No route decodes a body, and each that takes one says so.
func TestBodiesWithAContentCodingAreRefusedAsOpenAPIDescribes(t *testing.T) {
	doc := readAPI(t)
	_, public, admin := startAPI(t)
	for path, p := range doc.Paths {
		for method, call := range p.Methods {
			if call.RequestBody.Content == nil {
				continue
			}
			method, host := strings.ToUpper(method), public
			if len(p.Servers)+len(call.Servers) > 0 {
				host = admin
			}
			r, err := http.NewRequest(method, host+strings.NewReplacer("{", "", "}", "").Replace(path),
				strings.NewReader("\x1f\x8b"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Encoding", "gzip")
			got := doAPI(t, r)
			doc.check(t, apiRequest{method: method, path: path, status: http.StatusUnsupportedMediaType}, got)
			if accepted := got.Header.Get("Accept-Encoding"); accepted != "identity" {
				t.Errorf("%s %s: Accept-Encoding is %q", method, path, accepted)
			}
		}
	}
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

// callAPI sends a request. A length other than 0 says how many bytes of its body are JSON.
func callAPI(t *testing.T, method, url, body string, length int) *answerOfAPI {
	t.Helper()
	host, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	r, err := http.NewRequest(method, "http://"+host, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Opaque = "/" + path // as it is, malformed escapes included
	if length != 0 {
		r.Header.Set(inferenceHeaderLength, strconv.Itoa(length))
	}
	return doAPI(t, r)
}

func doAPI(t *testing.T, r *http.Request) *answerOfAPI {
	t.Helper()
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
