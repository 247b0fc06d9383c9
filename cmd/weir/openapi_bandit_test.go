package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

func TestPredictionsAreAsOpenAPIDescribes(t *testing.T) {
	doc := readAPI(t)
	_, public, _ := startAPI(t)
	const predict, batch, events = "/predict", "/predict/batch", "/events"
	for _, r := range []struct {
		path, body string
		status     int
	}{
		{predict, `{"user":"ada","items":["dune","ubik",7]}`, 200},
		{predict,
			`{"user":"ada","items":["dune","ubik",7],"top":2,"seed":18446744073709551615,"explain":true}`,
			200},
		{predict, `{"user":"bob","items":["dune"],"explain":true}`, 200},
		{predict, `{"user":null,"segment":null,"items":[7],"explain":true}`, 200},
		{predict, `{"user":7,"segment":"readers","items":["dune"],"explain":false}`, 200},
		{predict, `{"items":[` + strings.Repeat(`"dune",`, 9999) + `7],"explain":true}`, 200},
		{predict, `{"items":[` + strings.Repeat(`"dune",`, 10000) + `7]}`, 422},
		{predict, `{"items":["` + strings.Repeat("x", 255) + `"]}`, 200},
		{predict, `{"items":["` + strings.Repeat("x", 256) + `"]}`, 422},
		{predict, `{"items":[""]}`, 422},
		{predict, `{"items":[1.5]}`, 422},
		{predict, `{"items":[null]}`, 422},
		{predict, `{"items":[]}`, 422},
		{predict, `{"items":7}`, 422},
		{predict, `{"user":"ada"}`, 422},
		{predict, `{"user":{},"items":[7]}`, 422},
		{predict, `{"items":[7],"top":0}`, 422},
		{predict, `{"items":[7],"top":2147483648}`, 422},
		{predict, `{"items":[7],"seed":-1}`, 422},
		{predict, `{"items":[7],"explain":1}`, 422},
		{predict, `{"items":[7],"more":1}`, 422},
		{predict, `[]`, 422},
		{predict, `{"items":[7]`, 400},
		{predict, `{"items":["` + strings.Repeat("x", 8<<20) + `"]}`, 413},
		{batch, `[{"user":"ada","items":["dune"]},{"items":["dune",7],"top":1,"explain":true}]`, 200},
		{batch, `{"requests":[{"items":[7]}]}`, 200},
		{batch, `[` + strings.Repeat(`{"items":[7]},`, 999) + `{"items":[7]}]`, 200},
		{batch, `[` + strings.Repeat(`{"items":[7]},`, 1000) + `{"items":[7]}]`, 422},
		{batch, `[{"items":[7]},{"items":[]}]`, 422},
		{batch, `{"requests":[]}`, 422},
		{batch, `{"queries":[]}`, 422},
		{batch, `{}`, 422},
		{batch, `[]`, 422},
		{batch, `[`, 400},
		{events, `{"user":"ada","item":"dune","reward":1,"id":"e1"}`, 200},
		{events, `{"user":"ada","item":"dune","reward":1,"id":"e1","segment":"readers","ts":1795273260.5}`,
			200},
		{events,
			`[{"item":7,"reward":0.25,"ts":"2026-01-31T12:00:00Z"},{"item":"7","reward":0,"ts":null,"user":null}]`, 200},
		{events, `[]`, 200},
		{events, "{\"item\":7,\"reward\":1}\n{\"item\":8,\"reward\":0}\n", 200},
		{events, `{"reward":1}`, 422},
		{events, `{"item":7}`, 422},
		{events, `{"item":7,"reward":1.01}`, 422},
		{events, `{"item":7,"reward":"1"}`, 422},
		{events, `{"item":7,"reward":1,"ts":-1}`, 422},
		{events, `{"item":7,"reward":1,"ts":"yesterday"}`, 422},
		{events, `{"item":7,"reward":1,"ts":1795273260000}`, 422},
		{events, `{"item":7,"reward":1,"more":1}`, 422},
		{events, `[{"item":7,"reward":1},{"item":7,"reward":-1}]`, 422},
		{events, `[` + strings.Repeat(`{"item":7,"reward":1},`, 10000) + `{"item":7,"reward":1}]`, 422},
		{events, `{"item":7,"reward":NaN}`, 400},
	} {
		doc.test(t, apiRequest{"POST", r.path, public + r.path, r.body, r.status})
	}
}

func TestInferencesAreAsOpenAPIDescribes(t *testing.T) {
	doc := readAPI(t)
	_, public, _ := startAPI(t)
	for _, path := range []string{"/v2", "/v2/health/live", "/v2/health/ready"} {
		doc.test(t, apiRequest{"GET", path, public + path, "", 200})
	}
	for _, at := range []struct{ path, is, none string }{
		{"/v2/models/{model}", "/v2/models/bandit", "/v2/models/other"},
		{"/v2/models/{model}/versions/{version}", "/v2/models/bandit/versions/1",
			"/v2/models/bandit/versions/2"},
	} {
		for _, path := range []string{"", "/ready"} {
			doc.test(t, apiRequest{"GET", at.path + path, public + at.is + path, "", 200})
			doc.test(t, apiRequest{"GET", at.path + path, public + at.none + path, "", 404})
		}
		for _, r := range []struct {
			body   string
			status int
		}{
			{`{"inputs":[{"name":"items","datatype":"BYTES","shape":[2],"data":["dune","7"]},{"name":"user","datatype":"BYTES","shape":[1],"data":["ada"]}]}`, 200},
			{`{"id":"r1","parameters":{"seed":7,"else":[]},"more":1,"inputs":[{"name":"items","datatype":"INT64","shape":[1,2],"data":[[7,-8]]}],"outputs":[{"name":"scores"}]}`, 200},
			{`{"id":"r1","parameters":{"binary_data_output":true},"inputs":[{"name":"items","datatype":"UINT32","shape":[2],"data":[7,8]}]}`, 200},
			{`{"inputs":[{"name":"items","datatype":"UINT64","shape":[1],"data":[7]}],"outputs":[{"name":"scores","parameters":{"binary_data":true}}]}`, 200},
			{`{"inputs":[]}`, 422},
			{`{"inputs":{}}`, 422},
			{`{"inputs":[{"name":"pages","datatype":"BYTES","shape":[1],"data":["dune"]}]}`, 422},
			{`{"inputs":[{"name":"items","datatype":"FP32","shape":[1],"data":[7]}]}`, 422},
			{`{"inputs":[{"name":"items","datatype":"INT64","shape":[],"data":[]}]}`, 422},
			{`{"inputs":[{"name":"items","datatype":"INT64","data":[7]}]}`, 422},
			{`{"inputs":[{"name":"items","datatype":"INT64","shape":[1],"data":[7]}],"outputs":[{"name":"means"}]}`, 422},
			{`{"inputs":[{"name":"items","datatype":"INT64","shape":[1],"data":[7]}],"parameters":{"seed":0.5}}`, 422},
			{`{"inputs":[`, 400},
		} {
			doc.test(t, apiRequest{"POST", at.path + "/infer", public + at.is + "/infer", r.body, r.status})
		}
		doc.test(t, apiRequest{"POST", at.path + "/infer", public + at.none + "/infer",
			`{"inputs":[{"name":"items","datatype":"INT64","shape":[1],"data":[7]}]}`, 404})
	}
}

func TestForgettingIsAsOpenAPIDescribes(t *testing.T) {
	doc := readAPI(t)
	_, public, admin := startAPI(t)
	doc.test(t, apiRequest{"POST", "/events", public + "/events", `{"user":"bob","item":"dune","reward":1}`,
		200})
	for _, r := range []struct {
		body   string
		status int
	}{
		{`{"item":"dune"}`, 200},
		{`{"item":7,"segment":"readers","user":null}`, 200},
		{`{"item":"dune","user":"bob","segment":null,"all":false}`, 200},
		{`{"all":true}`, 200},
		{`{"all":true,"item":7}`, 422},
		{`{"all":false}`, 422},
		{`{"item":null}`, 422},
		{`{"item":"` + strings.Repeat("x", 256) + `"}`, 422},
		{`{"user":"bob"}`, 200},
		{`{"segment":"old"}`, 422},
		{`{"more":1}`, 422},
		{`{}`, 422},
		{`[]`, 422},
		{`{`, 400},
		{`{"item":"` + strings.Repeat("x", 16<<10) + `"}`, 413},
	} {
		doc.test(t, apiRequest{"POST", "/admin/bandit/forget", admin + "/admin/bandit/forget",
			r.body, r.status})
	}
}

func TestLearnedArmsAreAsOpenAPIDescribes(t *testing.T) {
	doc := readAPI(t)
	_, public, admin := startAPI(t)
	callAPI(t, "POST", public+"/events", `[{"item":"emma","reward":1},{"item":7,"reward":0}]`, 0)
	for query, status := range map[string]int{"": 200, "?level=item&limit=1": 200, "?limit=0": 422,
		"?item=%zz": 422, "?after=1-1000-0": 409} {
		doc.test(t, apiRequest{"GET", "/admin/bandit/arms", admin + "/admin/bandit/arms" + query, "", status})
	}
}

const inferenceHeaderLength = "Inference-Header-Content-Length"

func TestBinaryTensorsAreAsOpenAPIDescribes(t *testing.T) {
	doc := readAPI(t)
	_, public, _ := startAPI(t)
	const path = "/v2/models/{model}/infer"
	head := `{"parameters":{"binary_data_output":true},"inputs":[{"name":"items","datatype":"UINT32","shape":[2],"parameters":{"binary_data_size":8}}]}`
	data := "\x07\x00\x00\x00\x08\x00\x00\x00"
	for _, c := range []struct {
		body   string
		length int
		status int
	}{
		{head + data, len(head), 200},
		{head + data[:7], len(head), 422},
		{head + data + "x", len(head), 422},
		{head + data, len(head) - 1, 400},
		{head, len(head) + 1, 400},
		{head + data, -1, 400},
	} {
		got := callAPI(t, "POST", public+"/v2/models/bandit/infer", c.body, c.length)
		doc.check(t, apiRequest{"POST", path, "", head, c.status}, got)
	}
}

func TestWhatCannotBeAnsweredIsAsOpenAPIDescribes(t *testing.T) {
	doc := readAPI(t)
	path := writeArms(t, t.TempDir())
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	// That is within the arms, which are checked after the start.
	if _, err := file.WriteAt([]byte("x"), 4096); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	_, public, admin := startAPI(t, "--bandit-arms", path)
	for _, r := range []apiRequest{
		{"GET", "/health", public + "/health", "", 503},
		{"GET", "/health/ready", admin + "/health/ready", "", 503},
		{"GET", "/health/live", admin + "/health/live", "", 200},
		{"POST", "/predict", public + "/predict", `{"items":[7]}`, 503},
		{"POST", "/predict/batch", public + "/predict/batch", `[{"items":[7]}]`, 503},
		{"POST", "/events", public + "/events", `{"item":7,"reward":1}`, 503},
		{"GET", "/v2/health/live", public + "/v2/health/live", "", 200},
		{"GET", "/v2/health/ready", public + "/v2/health/ready", "", 503},
		{"GET", "/v2/models/{model}/ready", public + "/v2/models/bandit/ready", "", 503},
		{"POST", "/v2/models/{model}/infer", public + "/v2/models/bandit/infer",
			`{"inputs":[{"name":"items","datatype":"INT64","shape":[1],"data":[7]}]}`, 503},
		{"POST", "/admin/bandit/reload", admin + "/admin/bandit/reload", "", 409},
	} {
		doc.test(t, r)
	}
}

func TestPredictionsFromAStoreThatFailsAreAsOpenAPIDescribes(t *testing.T) {
	var failing atomic.Bool
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Entities map[string][]string }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || failing.Load() {
			http.Error(w, "the store is down", http.StatusInternalServerError)
			return
		}
		ids := asked.Entities["item_id"]
		column := make([]float64, len(ids))
		for i := range column {
			column[i] = 2
		}
		json.NewEncoder(w).Encode(map[string]any{ //nolint:errcheck // who asks notices
			"metadata": map[string]any{"feature_names": []string{"item_id", "alpha", "beta"}},
			"results":  []map[string]any{{"values": ids}, {"values": column}, {"values": column}},
		})
	}))
	defer store.Close()
	doc := readAPI(t)
	_, public, _ := startAPI(t, "--bandit-store", "feast+"+store.URL, "--bandit-store-id-type", "string",
		"--bandit-store-cache-ttl", "1ns", "--bandit-store-timeout", "1m")

	const infer = "/v2/models/{model}/infer"
	tensor := func(id string) string {
		return `{"inputs":[{"name":"items","datatype":"BYTES","shape":[1],"data":["` + id + `"]}]}`
	}
	for _, r := range []struct {
		fails    bool
		degraded bool
		request  apiRequest
	}{
		{false, false, apiRequest{"POST", "/predict", public + "/predict",
			`{"items":["dune"],"explain":true}`, 200}},
		{true, true, apiRequest{"POST", "/predict", public + "/predict", `{"items":["dune"],"explain":true}`,
			200}},
		{true, true, apiRequest{"POST", "/predict/batch", public + "/predict/batch",
			`[{"items":["dune"]}]`, 200}},
		{true, true, apiRequest{"POST", infer, public + "/v2/models/bandit/infer", tensor("dune"), 200}},
		{true, false, apiRequest{"POST", "/predict", public + "/predict", `{"items":["dune","emma"]}`, 503}},
		{true, false, apiRequest{"POST", "/predict/batch", public + "/predict/batch",
			`[{"items":["dune"]},{"items":["emma"]}]`, 503}},
		{true, false, apiRequest{"POST", infer, public + "/v2/models/bandit/infer", tensor("emma"), 503}},
		{true, false, apiRequest{"POST", "/events", public + "/events",
			`{"user":"ada","item":"emma","reward":1}`, 200}},
	} {
		failing.Store(r.fails)
		got := doc.test(t, r.request)
		if got == nil {
			continue // -run leaves it out
		}
		if degraded := strings.Contains(string(got.body), `"degraded":true`); degraded != r.degraded {
			t.Errorf("%s: degraded %v, expected %v: %s", r.request.path, degraded, r.degraded, got.body)
		}
	}
}
