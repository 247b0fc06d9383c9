package featurestore

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/systest"
)

// vertexServer answers in the shapes of the REST methods of both of Vertex AI's stores. It has features by
// entity: the JSON of a value by name.
type vertexServer struct {
	has    map[string]map[string]string
	answer http.HandlerFunc // instead

	mu       sync.Mutex
	asked    []string // names of entity types and views
	chunks   []int
	underWay atomic.Int64
}

func (v *vertexServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource, method, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/"), ":")
	v.mu.Lock()
	v.asked = append(v.asked, resource)
	v.mu.Unlock()
	switch {
	case v.answer != nil:
		v.answer(w, r)
	case r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json":
		vertexSays(w, http.StatusBadRequest, "INVALID_ARGUMENT", "no JSON posted")
	case method == "streamingReadFeatureValues":
		v.stream(w, r)
	case method == "fetchFeatureValues":
		v.fetch(w, r)
	default:
		http.NotFound(w, r)
	}
}

// stream answers in the reverse order of the request, features in the order of their names, and an entity's
// values in two messages, sent apart.
func (v *vertexServer) stream(w http.ResponseWriter, r *http.Request) {
	var req struct {
		EntityIDs       []string `json:"entityIds"`
		FeatureSelector struct{ IDMatcher struct{ IDs []string } }
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		vertexSays(w, http.StatusBadRequest, "INVALID_ARGUMENT", err.Error())
		return
	}
	v.mu.Lock()
	v.chunks = append(v.chunks, len(req.EntityIDs))
	v.mu.Unlock()
	names := slices.Sorted(slices.Values(req.FeatureSelector.IDMatcher.IDs))
	fmt.Fprintf(w, "[%s\n", vertexHeader(names...))
	for _, id := range slices.Backward(req.EntityIDs) {
		for part := range 2 {
			w.(http.Flusher).Flush()
			var cells []string
			for j, name := range names {
				if held := v.has[id][name]; held != "" && j%2 == part {
					cells = append(cells, `{"value":`+held+`}`)
				} else {
					cells = append(cells, `{}`)
				}
			}
			fmt.Fprintf(w, ",\r\n{\"entityView\": {\"entityId\": %q, \"data\": [%s]}}", id,
				strings.Join(cells, ","))
		}
	}
	fmt.Fprintln(w, "]")
}

func vertexHeader(names ...string) string {
	var descriptors []string
	for _, name := range names {
		descriptors = append(descriptors, fmt.Sprintf(`{"id": %q}`, name))
	}
	return `{"header": {"entityType": "projects/1/e", "featureDescriptors": [` +
		strings.Join(descriptors, ", ") + `]}}`
}

func (v *vertexServer) fetch(w http.ResponseWriter, r *http.Request) {
	if n := v.underWay.Add(1); n > vertexParallel {
		vertexSays(w, http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", fmt.Sprint(n, " requests at a time"))
		return
	}
	defer v.underWay.Add(-1)
	time.Sleep(time.Millisecond) // or requests would hardly ever meet
	var req struct {
		DataKey    struct{ Key string }
		DataFormat string
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.DataFormat != "KEY_VALUE" {
		vertexSays(w, http.StatusBadRequest, "INVALID_ARGUMENT", fmt.Sprint(req, err))
		return
	}
	entity, ok := v.has[req.DataKey.Key]
	if !ok {
		vertexSays(w, http.StatusNotFound, "NOT_FOUND", "no such entity")
		return
	}
	var features []string
	for _, name := range slices.Sorted(maps.Keys(entity)) {
		pair := fmt.Sprintf(`{"name": %q`, name)
		if entity[name] != "" {
			pair += `, "value": ` + entity[name]
		}
		features = append(features, pair+"}")
	}
	fmt.Fprintf(w, `{"keyValues": {"features": [%s]}}`, strings.Join(features, ","))
}

// vertexSays writes an error as Google's APIs do.
func vertexSays(w http.ResponseWriter, code int, status, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, "{\n  \"error\": {\n    \"code\": %d,\n    \"message\": %q,\n    \"status\": %q\n  }\n}\n",
		code, message, status)
}

// serveVertex serves v and returns the query that leads to it.
func serveVertex(t *testing.T, v http.Handler) string {
	t.Helper()
	server := httptest.NewServer(v)
	t.Cleanup(server.Close)
	return "endpoint=" + server.Listener.Addr().String() + "&plain=true"
}

func TestVertexKnowsItemsAndSegments(t *testing.T) {
	old := time.Now().Add(-48 * time.Hour).UTC().Format(time.RFC3339Nano)
	v := &vertexServer{has: map[string]map[string]string{
		"half": {"alpha": `{"doubleValue": 2}`, "beta": ""},
		"list": {"alpha": `{"doubleArrayValue": {"values": [1]}}`, "beta": `{"doubleValue": 1}`},
		"old": {"alpha": `{"doubleValue": 4, "metadata": {"generateTime": "` + old + `"}}`,
			"beta": `{"doubleValue": 1}`},
		"new": {"alpha": `{"doubleValue": 4, "metadata": {"generateTime": "2100-01-01T00:00:00Z"}}`,
			"beta": `{"doubleValue": 1}`},
		"nan": {"alpha": `{"doubleValue": "NaN"}`, "beta": `{"doubleValue": 1}`},
		"int": {"alpha": `{"int64Value": "3"}`, "beta": `{"doubleValue": 1.0}`},
		"u1":  {"segment": `{"stringValue": "young"}`},
		"u2":  {"segment": `{"int64Value": "12"}`},
		"u3":  {"segment": `{"boolValue": true}`},
		"u4":  {"segment": ""},
	}}
	want := map[string]Arm{"half": {}, "list": {}, "old": {}, "nan": {}, "new": {4, 1, true},
		"int": {3, 1, true}, "nobody": {}}
	for i := range 250 {
		id := fmt.Sprint("i", i)
		v.has[id] = map[string]string{"alpha": fmt.Sprintf(`{"doubleValue": %d}`, i+1),
			"beta": `{"doubleValue": 7}`}
		want[id] = Arm{float64(i) + 1, 7, true}
	}
	query := serveVertex(t, v)

	for api, names := range map[string][2]string{
		"legacy": {"projects/p-1/locations/europe-west4/featurestores/fs/entityTypes/films",
			"projects/p-1/locations/europe-west4/featurestores/fs/entityTypes/people"},
		"online": {"projects/p-1/locations/europe-west4/featureOnlineStores/fs/featureViews/films",
			"projects/p-1/locations/europe-west4/featureOnlineStores/fs/featureViews/people"},
	} {
		t.Run(api, func(t *testing.T) {
			v.asked, v.chunks = nil, nil
			s := openStore(t, "vertex://p-1/europe-west4/fs/films?api="+api+"&"+query, func(o *Options) {
				o.MaxAge, o.UserView = 24*time.Hour, "people"
				o.Concurrency = 1 // of chunks, so that the server sees only one chunk's requests at a time
			})
			ids := slices.Sorted(maps.Keys(want))
			for i, got := range arms(t, s, ids...) {
				if got != want[ids[i]] {
					t.Errorf("%s: got %v, want %v", ids[i], got, want[ids[i]])
				}
			}
			segments := make([]string, 5)
			if degraded, err := s.Segments(context.Background(), []string{"u1", "u2", "u3", "u4", "u5"},
				segments); degraded || err != nil {
				t.Fatal(degraded, err)
			}
			if want := []string{"young", "12", "true", "", ""}; !slices.Equal(segments, want) {
				t.Errorf("segments %q, want %q", segments, want)
			}
			if asked := slices.Compact(slices.Clone(v.asked)); !slices.Equal(asked, names[:]) {
				t.Errorf("asked of %q, want %q", asked, names)
			}
			slices.Sort(v.chunks)
			if api == "legacy" && !slices.Equal(v.chunks, []int{5, 57, 100, 100}) {
				t.Errorf("chunks of %v", v.chunks)
			}
		})
	}
}

func TestVertexAnswersNonsense(t *testing.T) {
	const aTwo = `{"entityView": {"entityId": "a", "data": [{"value": {"doubleValue": 1}}, {"value": {"doubleValue": 1}}]}}`
	header := vertexHeader("alpha", "beta")
	for name, test := range map[string]struct {
		api, body string
		status    int
		want      string
		kind      faultKind
	}{
		"no header": {body: `[` + aTwo + `]`, want: "2 values", kind: faultAnswer},
		"too few cells": {body: `[` + header + `,{"entityView": {"entityId": "a", "data": [{}]}}]`,
			want: "1 values", kind: faultAnswer},
		"somebody else": {body: `[` + header + `,` + strings.Replace(aTwo, `"a"`, `"b"`, 1) + `]`,
			want: `"b"`, kind: faultAnswer},
		"half a list": {body: `[` + header + `,` + aTwo, want: "unexpected end", kind: faultAnswer},
		"no list": {body: `"` + strings.Repeat("x", 100) + `"`, want: "cannot unmarshal",
			kind: faultAnswer},
		"a huge answer": {body: `[` + vertexHeader(strings.Repeat("x", vertexAnswer)) + `]`,
			want: "longer than", kind: faultAnswer},
		"an error behind values": {body: `[` + header + `,` + aTwo +
			`,{"error": {"code": 500, "message": "oops", "status": "INTERNAL"}}]`,
			want: "INTERNAL: oops", kind: faultRefused},
		"wrong store": {status: 404,
			body: `[{"error": {"code": 404, "message": "The EntityType does not exist.", "status": "NOT_FOUND"}}]`,
			want: "see the URL", kind: faultRefused},
		"no permission": {status: 403,
			body: `{"error": {"code": 403, "message": "Permission denied.", "status": "PERMISSION_DENIED"}}`,
			want: "GOOGLE_APPLICATION_CREDENTIALS", kind: faultRefused},
		"not ready": {status: 503, body: `{"error": {"code": 503, "status": "UNAVAILABLE"}}`,
			want: "UNAVAILABLE", kind: faultUnreachable},
		"no pairs":             {api: "online", body: `{}`, want: "no list", kind: faultAnswer},
		"a list, where is one": {api: "online", body: `[]`, want: "cannot unmarshal", kind: faultAnswer},
		"internal error": {api: "online", status: 500,
			body: `{"error": {"code": 500, "message": "oops", "status": "INTERNAL"}}`, want: "INTERNAL: oops",
			kind: faultRefused},
		"a proxy's page": {api: "online", status: 502, body: `<html>Bad gateway`,
			want: "502 Bad Gateway: <html>Bad gateway", kind: faultRefused},
		"somewhere else": {api: "online", status: 302, want: "302", kind: faultRefused},
	} {
		t.Run(name, func(t *testing.T) {
			v := &vertexServer{answer: func(w http.ResponseWriter, r *http.Request) {
				if test.status != 0 {
					w.Header().Set("Location", "/somewhere")
					w.WriteHeader(test.status)
				}
				fmt.Fprint(w, test.body)
			}}
			api := "legacy"
			if test.api != "" {
				api = test.api
			}
			s := openStore(t, "vertex://p/l/s/e?api="+api+"&"+serveVertex(t, v), nil)
			_, err := s.Arms(context.Background(), []string{"a"}, make([]Arm, 1))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, expected %s in it", err, test.want)
			}
			if s.metrics.errors[test.kind].Value() == 0 { // it may have been tried again
				t.Errorf("no error of kind %v counted", test.kind)
			}
		})
	}
}

func TestVertexThatHangsIsGivenUp(t *testing.T) {
	query := serveVertex(t, &vertexServer{answer: func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "["+vertexHeader("alpha", "beta"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}})
	for _, api := range []string{"legacy", "online"} {
		s := openStore(t, "vertex://p/l/s/e?api="+api+"&"+query,
			func(o *Options) { o.Timeout = 50 * time.Millisecond })
		_, err := s.Arms(context.Background(), []string{"a"}, make([]Arm, 1))
		if err == nil || !strings.Contains(err.Error(), "--bandit-store-timeout") {
			t.Errorf("%s: error %v", api, err)
		}
		if s.metrics.errors[faultTimeout].Value() == 0 { // as above
			t.Errorf("%s: no timeout counted", api)
		}
	}
}

// Requests carry a token of the application default credentials, which is asked for once and renewed before
// it expires.
func TestVertexIsAskedWithAToken(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)

	var tokens, lifetime atomic.Int64
	lifetime.Store(3600)
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if lifetime.Load() == 0 {
			http.Error(w, `{"error": "invalid_grant"}`, http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token": "t%d", "expires_in": %d, "token_type": "Bearer"}`, tokens.Add(1),
			lifetime.Load())
	}))
	defer issuer.Close()
	account, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "weir@p.iam.gserviceaccount.com", "private_key_id": "1",
		"quota_project_id": "payer",
		"private_key":      string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"token_uri":        issuer.URL,
	})
	must(t, err)
	dir := t.TempDir()
	credentials, ca := filepath.Join(dir, "account.json"), filepath.Join(dir, "ca.pem")
	must(t, os.WriteFile(credentials, account, 0o600))
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", credentials)

	var seen atomic.Pointer[http.Header]
	store := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(&r.Header)
		fmt.Fprint(
			w,
			`{"keyValues": {"features": [{"name": "alpha", "value": {"doubleValue": 2}}, {"name": "beta", "value": {"doubleValue": 3}}]}}`)
	}))
	defer store.Close()
	must(t, os.WriteFile(ca,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: store.Certificate().Raw}), 0o600))
	open := func() *Store {
		return openStore(t, "vertex://p/l/s/e?api=online&endpoint="+store.Listener.Addr().String(),
			func(o *Options) { o.CA, o.TTL = ca, 0 })
	}

	s := open()
	for range 3 {
		if got := arms(t, s, "a", "b"); !slices.Equal(got, []Arm{{2, 3, true}, {2, 3, true}}) {
			t.Fatal(got)
		}
	}
	if h := *seen.Load(); h.Get("Authorization") != "Bearer t1" || h.Get("X-Goog-User-Project") != "payer" ||
		tokens.Load() != 1 {
		t.Errorf("%v, of %d tokens", h, tokens.Load())
	}
	// One that is about to expire is used while a new one is asked for.
	lifetime.Store(int64(renewBefore.Seconds()) - 5)
	s = open()
	systest.Eventually(t, "the token is renewed", func() bool { arms(t, s, "a"); return tokens.Load() > 3 })

	lifetime.Store(0)
	if _, err := open().Arms(t.Context(), []string{"a"}, make([]Arm, 1)); err == nil ||
		!strings.Contains(err.Error(), "credentials") {
		t.Errorf("without a token: error %v", err)
	}
}

func TestVertexURLs(t *testing.T) {
	for _, url := range []string{"vertex://p", "vertex://p/l", "vertex://p/l/s/e/x", "vertex://p//s/e",
		"vertex://u:s3cret@p/l/s/e",
		"vertex://p/l/s/e?api=v3", "vertex://p/l/s/e?port=1", "vertex://p/l/s/e?plain=perhaps"} {
		if _, err := Open(url, DefaultOptions()); err == nil ||
			!strings.Contains(err.Error(), "--bandit-store: ") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: error %v", url, err)
		}
	}
	o := DefaultOptions()
	o.Chunk = 101
	if _, err := Open("vertex://p/l/s/e", o); err == nil ||
		!strings.Contains(err.Error(), "--bandit-store-chunk") {
		t.Errorf("a chunk of 101: error %v", err)
	}
	s := openStore(t, "vertex://p/l/s/e", nil)
	if got := s.backend.String(); got != "vertex://p/l/s/e" {
		t.Errorf("it is called %s", got)
	}
}
