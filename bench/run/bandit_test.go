//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/bench/pool"
)

func TestArmsAreTheSameEachTimeAndValid(t *testing.T) {
	const items = 1000
	ids := newCatalogue(items)
	if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != items || ids[0] < 1 || ids[items-1] > 10*items {
		t.Errorf("ids from %d to %d do not rise within 1 to %d", ids[0], ids[items-1], 10*items)
	}
	var first, second bytes.Buffer
	if err := writeArms(&first, ids); err != nil {
		t.Fatal(err)
	}
	if err := writeArms(&second, newCatalogue(items)); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("two files differ, %v", err)
	}
	rows, err := csv.NewReader(&first).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if want := 1 + items + banditSegments*items/segmentedItems; len(rows) != want {
		t.Fatalf("%d rows, want %d", len(rows), want)
	}
	seen, below1 := map[string]bool{}, 0
	for _, row := range rows[1:] {
		alpha, err1 := strconv.ParseFloat(row[1], 64)
		beta, err2 := strconv.ParseFloat(row[2], 64)
		if err1 != nil || err2 != nil || !(alpha > 0 && beta > 0) || alpha+beta > 1.1e6 {
			t.Fatalf("row %v", row)
		}
		if min(alpha, beta) < 1 {
			below1++
		}
		if arm := row[0] + " " + row[3]; seen[arm] {
			t.Errorf("%s is there twice", arm)
		} else {
			seen[arm] = true
		}
	}
	if below1 == 0 || below1 > len(rows)/10 {
		t.Errorf("%d of %d have a shape below 1", below1, len(rows))
	}
}

func TestHalfOfTheUsersHaveASegment(t *testing.T) {
	var file bytes.Buffer
	if err := writeUsers(&file); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&file).ReadAll()
	if err != nil || len(rows) != 1+banditUsers/2 || rows[1][0] != "u0" || rows[1][1] != "s0" || rows[2][0] != "u2" || rows[2][1] != "s1" {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

func TestEveryFormAsksForTheSameItems(t *testing.T) {
	items := newCatalogue(5000)
	requests := draw(items, 3)
	for _, a := range requests {
		if len(a.items) != predictItems || len(slices.Compact(slices.Sorted(slices.Values(a.items)))) != predictItems {
			t.Errorf("%d items, or one of them twice", len(a.items))
		}
	}
	for _, l := range banditLoads {
		path, err := writePool(t.TempDir(), "form", requests, l.form)
		if err != nil {
			t.Fatal(err)
		}
		all, err := pool.Read(path)
		if err != nil || len(all) != len(requests) {
			t.Fatalf("%d requests, %v", len(all), err)
		}
		for i, r := range all {
			if r.Scores != predictItems {
				t.Errorf("%s: %d scores are expected", l.name, r.Scores)
			}
			if got := decode(t, r.Bytes); got.user != requests[i].user || !slices.Equal(got.items, requests[i].items) {
				t.Errorf("%s: user %s and items %v, want %+v", l.name, got.user, got.items, requests[i])
			}
		}
	}
}

// decode reads a request in any form.
func decode(t *testing.T, raw []byte) (a asked) {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost {
		t.Fatalf("%s: %v", r.Method, err)
	}
	if r.URL.Path == "/predict" {
		var p struct {
			User  string
			Items []any
		}
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		a.user = p.User
		for _, item := range p.Items {
			n, err := strconv.ParseInt(fmt.Sprint(item), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			a.items = append(a.items, n)
		}
		return a
	}
	n, err := strconv.Atoi(r.Header.Get("Inference-Header-Content-Length"))
	if err != nil || r.URL.Path != inferPath {
		t.Fatalf("%s: %v", r.URL, err)
	}
	var head struct {
		Inputs []struct {
			Name, Datatype string
			Shape          []int
			Parameters     struct {
				Size int `json:"binary_data_size"`
			}
		}
	}
	if err := json.Unmarshal(body[:n], &head); err != nil {
		t.Fatal(err)
	}
	rest := body[n:]
	for _, in := range head.Inputs {
		tensor := rest[:in.Parameters.Size]
		rest = rest[in.Parameters.Size:]
		for range in.Shape[0] {
			var text string
			if in.Datatype == "INT64" {
				text, tensor = fmt.Sprint(int64(binary.LittleEndian.Uint64(tensor))), tensor[8:]
			} else {
				end := 4 + binary.LittleEndian.Uint32(tensor)
				text, tensor = string(tensor[4:end]), tensor[end:]
			}
			if in.Name == "user" {
				a.user = text
				continue
			}
			id, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			a.items = append(a.items, id)
		}
		if len(tensor) != 0 {
			t.Errorf("%d bytes of %s are too many", len(tensor), in.Name)
		}
	}
	if len(rest) != 0 {
		t.Errorf("%d bytes after the tensors", len(rest))
	}
	return a
}

func TestASamplersTimesAreReadByPathAndMix(t *testing.T) {
	const out = `goos: linux
BenchmarkSample/reference/arms    	 1000	     8000 ns/op	        20.0 ns/sample
BenchmarkSample/avx512/arms-2     	 1000	      800 ns/op	         2.0 ns/sample	0 B/op
BenchmarkSample/avx512/tiny-2           	 1000	     1600 ns/op	         4.0 ns/sample
BenchmarkGonum/arms-2             	 1000	    14000 ns/op	        35.0 ns/sample
BenchmarkElse/arms-2              	 1000	    14000 ns/op
PASS
`
	got, err := parseSampled(out, 3)
	want := []sampled{
		{3, "reference", "arms", 20}, {3, "avx512", "arms", 2}, {3, "avx512", "tiny", 4}, {3, pathGonum, "arms", 35},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if got := samplerRatios(got, "arms"); !slices.Equal(got, []float64{17.5}) {
		t.Errorf("ratios %v, want gonum over the fastest", got)
	}
	if got := samplerRatios(got, "tiny"); got != nil {
		t.Errorf("a mix that gonum was not measured on has the ratios %v", got)
	}
	if _, err := parseSampled("BenchmarkGonum/x 10 5 ns/op\n", 1); err == nil || !strings.Contains(err.Error(), "no ns/sample") {
		t.Errorf("error %v", err)
	}
}

const feastSaid = `{"metadata":{"feature_names":["item_id","beta","alpha"]},"results":[` +
	`{"values":[1,2],"statuses":["PRESENT","PRESENT"]},{"values":[10.5,20],"statuses":["PRESENT","PRESENT"]},{"values":[3,4],"statuses":["PRESENT","%s"]}]}`

func TestFeastsAnswerIsReadByNameAndHasToBeWhole(t *testing.T) {
	got, err := parseFeast(fmt.Sprintf(feastSaid, "PRESENT"), 2)
	if err != nil || !slices.Equal(got[0], []float64{3, 4}) || !slices.Equal(got[1], []float64{10.5, 20}) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := parseFeast(fmt.Sprintf(feastSaid, "NOT_FOUND"), 2); err == nil || !strings.Contains(err.Error(), "alpha of item 1 is not there") {
		t.Errorf("error %v", err)
	}
	if _, err := parseFeast(fmt.Sprintf(feastSaid, "PRESENT"), 3); err == nil || !strings.Contains(err.Error(), "want 3") {
		t.Errorf("error %v", err)
	}
}

func TestStoresThatKnowOtherFeaturesAreNotMeasured(t *testing.T) {
	feast := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, feastSaid, "PRESENT") }))
	defer feast.Close()
	for said, want := range map[string]string{
		`{"scores":[0.1,0.2],"explain":[{"alpha":3,"beta":10.5},{"alpha":4,"beta":20}]}`: "",
		`{"scores":[0.1,0.2],"explain":[{"alpha":3,"beta":10.5},{"alpha":1,"beta":1}]}`:  "item 22: Feast has alpha 4 and beta 20, weir 1 and 1",
		`{"scores":[0.1,0.2]}`: "weir explains 0 of 2 items",
	} {
		weir := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if got := string(body); got != `{"items":[11,22],"explain":true}` {
				t.Errorf("weir was sent %s", got)
			}
			io.WriteString(w, said)
		}))
		err := sameFeatures(t.Context(), feast.Listener.Addr().String(), weir.Listener.Addr().String(), []int64{11, 22})
		weir.Close()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// predicted is a report with figures that are easy to tell apart.
func predicted() *banditReport {
	r := &banditReport{Parameters: banditParameters{Items: barArms, Predictions: predictItems, Connections: 64, Rounds: 2, Seconds: 3}}
	loads := func(rate float64, names ...string) map[string]*load {
		all := map[string]*load{}
		for _, name := range names {
			all[name] = &load{PerSecond: rate, CPU: 30, Asking: 0.5, Busy: 0.99}
		}
		return all
	}
	for round := 1; round <= 2; round++ {
		weir := loads(25_000, loadJSON, loadNumbers, loadTexts)
		weir[loadTensors] = &load{PerSecond: 30_000}
		both := &beside{&summary{P99: 90, Rate: besideRate}, &summary{P99: 400, Rate: besideRate}}
		if err := json.Unmarshal([]byte(`{"also":{"requests":9000}}`), both.Predictions); err != nil {
			panic(err)
		}
		r.Samples = append(r.Samples,
			&banditSample{Server: nameBaseline, Round: round, Loads: loads(800*float64(round), loadJSON)},
			&banditSample{Server: nameWeir, Round: round, Loads: weir, Open: &summary{P99: 1500, Rate: 12_500, Lag: 20},
				OpenTensors: &summary{P99: 700, Rate: 15_000}, Beside: both})
		r.Sampled = append(r.Sampled, sampled{round, "avx512", samplerMix, 2}, sampled{round, pathGonum, samplerMix, 33})
		r.Store = append(r.Store, stored{round, &load{PerSecond: 900}, &load{PerSecond: 60}})
	}
	r.Allocations = &allocations{Passed: []string{banditLane + ".TestAlloc"}}
	return r
}

func TestTheBanditsBarsAreJudged(t *testing.T) {
	r := predicted()
	r.judge()
	want := []struct{ figure, value, result string }{
		{"a Beta sample, gonum / weir", "16.5", aimMet},
		{"predictions over JSON", "10.0 million/s", barMet},
		{"predictions over JSON, weir / baseline", "23.4", barMet},
		{"predictions over binary tensors", "12.0 million/s", missed},
		{"p99 at half of the ceiling, open loop, JSON", "1.500 ms", barMet},
		{"allocations a request on the table store", "0", aimMet},
		{"Feast's Redis store, cold cache, requests/s, weir / Feast's server", "15.0", barMet},
		{"the feed's p99 beside predictions back to back, open loop", "0.400 ms", reported},
	}
	if len(r.Bars) != len(want) {
		t.Fatalf("%d bars, want %d", len(r.Bars), len(want))
	}
	for i, w := range want {
		if b := r.Bars[i]; b.Figure != w.figure || b.value() != w.value || b.Result != w.result {
			t.Errorf("%s: %s, %s; want %s: %s, %s", b.Figure, b.value(), b.Result, w.figure, w.value, w.result)
		}
	}
	var text strings.Builder
	if err := (&report{Bandit: r}).writeMarkdown(&text); err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{
		"\n### Bandit\n", "| baseline | JSON: ids as text | 1200 | 0.48 million | 30.00 us |",
		"| weir | binary tensors: INT64 there, FP64 back | 30000 | 12.00 million |",
		"| the feed's p99 beside predictions back to back, open loop | - | - | 0.400 ms |",
		"| avx512 | 2.00 |", "was 0.400 ms beside predictions back to back on one connection, 3000 requests of 400 items a second, and 0.090 ms without",
		"weir answered 900 requests a second, Feast's server 60.0",
	} {
		if !strings.Contains(text.String(), w) {
			t.Errorf("the report lacks %q:\n%s", w, text.String())
		}
	}
}

func TestWhatOfTheBanditWasNotMeasuredSaysWhy(t *testing.T) {
	r := &banditReport{Parameters: banditParameters{Items: 1000}, NoSampler: "it is not built", NoStore: "there is no redis-server"}
	r.judge()
	for _, b := range r.Bars {
		if b.Result != notMeasured {
			t.Errorf("%s: %s", b.Figure, b.Result)
		}
	}
	var text strings.Builder
	r.write(&text)
	for _, w := range []string{"quick look", "The sampler was not measured: it is not built.", "Feast's store was not measured: there is no redis-server."} {
		if !strings.Contains(text.String(), w) {
			t.Errorf("the report lacks %q:\n%s", w, text.String())
		}
	}
	if bin, reason := feastIn(t.TempDir()); bin != "" || reason == "" {
		t.Errorf("an empty environment is %q, %q", bin, reason)
	}
}
