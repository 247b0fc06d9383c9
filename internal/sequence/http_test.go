package sequence

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/disk"
	"weir/internal/progress"
	"weir/internal/sequence/decimal"
	"weir/internal/server"
	"weir/internal/server/servertest"
	"weir/internal/systest"
)

// served is a sequence behind a server.
type served struct {
	*servertest.Served
	*Sequence
	t          testing.TB
	url, admin string
	client     *http.Client
}

// serve serves a new sequence until the test ends.
func serve(t testing.TB, kernel server.Config, cfg Config) *served {
	t.Helper()
	e := env(t.TempDir())
	seq, err := Open(cfg, e)
	if err != nil {
		t.Fatal(err)
	}
	kernel.Metrics, kernel.Log = e.Metrics, e.Log
	k := servertest.Start(t, kernel, func(err error) {
		if err != nil {
			t.Errorf("Run: %v", err)
		}
		if waiting, bytes := seq.computations.load(); waiting != 0 || bytes != 0 {
			t.Errorf("after the end %d requests with %d bytes still count as waiting", waiting, bytes)
		}
		notPinned(t, seq)
	}, seq)
	return &served{k, seq, t, k.URL, k.Admin, k.Client}
}

// notPinned checks that nobody who has gone keeps a value from being replaced.
func notPinned(t testing.TB, s *Sequence) {
	t.Helper()
	for i := range s.recent.slots {
		if pins := s.recent.slots[i].pins.Load(); pins != 0 {
			t.Errorf("slot %d stays pinned %d times", i, pins)
		}
	}
}

// lanes runs a test on the event loops and on net/http.
var lanes = servertest.Lanes

// answer is an answer with its whole body.
type answer struct {
	status int
	header http.Header
	body   string
	length int64
}

// do sends a request; fields are pairs of a header field's name and value.
func (s *served) do(method, url, body string, fields ...string) answer {
	s.t.Helper()
	resp, b := s.Do(method, url, body, fields...)
	return answer{resp.StatusCode, resp.Header, b, resp.ContentLength}
}

func (s *served) get(path string, fields ...string) answer {
	s.t.Helper()
	return s.do(http.MethodGet, s.url+path, "", fields...)
}

// put sets the index by way of the admin port.
func (s *served) put(n uint64) {
	s.t.Helper()
	if a := s.do(http.MethodPut, s.admin+"/current", fmt.Sprintf(`{"index":%d}`, n)); a.status != 200 ||
		a.body != fmt.Sprintf(`{"index":%d}`, n) {
		s.t.Fatalf("PUT /current: %d %s", a.status, a.body)
	}
}

// object checks that an answer is F(n) and not to be cached.
func (s *served) object(path string, n int, values []string) {
	s.t.Helper()
	a := s.get(path)
	if want := fmt.Sprintf(`{"index":%d,"value":"%s"}`, n, values[n]); a.status != 200 || a.body != want {
		s.t.Fatalf("GET %s: %d %.80s, want %.80s", path, a.status, a.body, want)
	}
	if a.header.Get("Cache-Control") != "no-store" || a.header.Get("Content-Type") != "application/json" {
		s.t.Fatalf("GET %s: %v", path, a.header)
	}
}

// problem checks that an answer is a problem that says all of these.
func (s *served) problem(a answer, status int, says ...string) {
	s.t.Helper()
	var p struct {
		Type, Title, Detail string
		Status              int
	}
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || p.Status != status || a.status != status ||
		a.header.Get("Content-Type") != "application/problem+json" ||
		a.header.Get("Cache-Control") != "no-store" || a.header.Get("Etag") != "" {
		s.t.Errorf("%d %v %s is no problem document of a %d: %v", a.status, a.header, a.body, status, err)
	}
	for _, say := range says {
		if !strings.Contains(p.Detail, say) {
			s.t.Errorf("%q does not say %q", p.Detail, say)
		}
	}
}

func TestStepsGoUpAndDownTheSequence(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		values := fibonacci(9100)
		s := serve(t, kernel, Config{})
		s.object("/current", 0, values)
		s.object("/previous", 0, values)
		for n := range 300 {
			s.object("/next", n+1, values)
		}
		for n := 299; n >= 0; n-- {
			s.object("/previous", n, values)
		}
		s.object("/previous", 0, values)
		// Where no value is at hand, small and less small.
		for _, at := range []int{4000, anchorEnd, 4200, 9000} {
			s.put(uint64(at))
			s.object("/next", at+1, values)
			for range 2 {
				s.object("/previous", at, values)
				s.object("/current", at, values)
				s.object("/next", at+1, values)
			}
			for n := at; n > at-60; n-- {
				s.object("/previous", n, values)
			}
		}
		// Values too long for an inline answer.
		s.put(200_000)
		for i, path := range []string{"/current", "/next"} {
			n := 200_000 + uint64(i)
			f, _, err := decimal.Fibonacci(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			if a := s.get(path); a.body != fmt.Sprintf(`{"index":%d,"value":"%s"}`, n, f) ||
				a.length != int64(len(a.body)) {
				t.Errorf("GET %s: %d %.60s", path, a.status, a.body)
			}
		}
	})
}

func TestAHeadMovesNothing(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		s := serve(t, kernel, Config{})
		for _, at := range []uint64{0, 10, 50_000, 1_000_000} {
			s.put(at)
			for path, n := range map[string]uint64{"/next": at + 1, "/previous": max(at, 1) - 1,
				"/current": at} {
				a := s.do(http.MethodHead, s.url+path, "")
				if a.status != 200 || a.length != int64(valueLength(n, object)) ||
					a.header.Get("Cache-Control") != "no-store" {
					t.Errorf("HEAD %s at %d: %d %v, %d bytes, want %d", path, at, a.status, a.header,
						a.length, valueLength(n, object))
				}
			}
			if got := s.at(); got != at {
				t.Errorf("the index is %d, and was %d", got, at)
			}
		}
	})
}

func TestAStepBeyondTheEndIsAConflictAndMovesNothing(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		values := fibonacci(100)
		s := serve(t, kernel, Config{MaxIndex: 100})
		s.put(99)
		s.object("/next", 100, values)
		for range 2 {
			s.problem(s.get("/next"), 409, "maximum, 100", "has not moved")
		}
		s.object("/current", 100, values)
		s.object("/previous", 99, values)
	})
}

// Index and value of an answer belong together, every step forward has another index, and what is too long
// for the loops is no exception.
func TestConcurrentRequestsSeeDistinctIndicesWithTheirValues(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		for _, start := range []uint64{0, 5000, 158_000} { // the last one goes beyond inline answers
			t.Run(fmt.Sprint(start), func(t *testing.T) {
				s := serve(t, kernel, Config{})
				s.put(start)
				const clients, each = 8, 60
				var mu sync.Mutex
				seen := make(map[uint64]int)
				sums := make(map[uint64][32]byte)
				var wg sync.WaitGroup
				for c := range clients {
					wg.Go(func() {
						for i := range each {
							path := []string{"/next", "/next", "/current"}[(i+c)%3]
							a := s.get(path)
							var v struct {
								Index uint64
								Value string
							}
							if err := json.Unmarshal([]byte(a.body), &v); err != nil || a.status != 200 ||
								len(v.Value) != decimal.Digits(v.Index) {
								t.Errorf("GET %s: %d %.60s: %v", path, a.status, a.body, err)
								return
							}
							mu.Lock()
							if path == "/next" {
								seen[v.Index]++
							}
							sum := sha256.Sum256([]byte(v.Value))
							if was, ok := sums[v.Index]; ok && was != sum {
								t.Errorf("F(%d) has two values", v.Index)
							}
							sums[v.Index] = sum
							mu.Unlock()
						}
					})
				}
				wg.Wait()
				for n, times := range seen {
					if times != 1 {
						t.Errorf("index %d was given %d times", n, times)
					}
				}
				if at := s.at(); at != start+uint64(len(seen)) {
					t.Errorf("the index is %d after %d steps from %d", at, len(seen), start)
				}
				f, previous, err := decimal.Fibonacci(t.Context(), start)
				if err != nil {
					t.Fatal(err)
				}
				p := pair{start, f, previous}
				p.values(t.Context(), uint64(len(seen)),
					func(n uint64, digits []byte) error { //nolint:errcheck // no write fails
						if sum, ok := sums[n]; ok && sum != sha256.Sum256(digits) {
							t.Errorf("F(%d) is wrong", n)
						}
						return nil
					})
			})
		}
	})
}

func TestAnyValueIsGivenWithoutMoving(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		values := fibonacci(9000)
		s := serve(t, kernel, Config{})
		s.put(77)
		rnd := rand.New(rand.NewPCG(1, 2))
		for i := range 400 {
			n := rnd.IntN(9001)
			if i < 50 {
				n = i
			}
			a := s.get(fmt.Sprintf("/fib/%d", n))
			if want := fmt.Sprintf(`{"index":%d,"value":"%s"}`, n, values[n]); a.status != 200 ||
				a.body != want {
				t.Fatalf("F(%d): %d %.80s, want %.80s", n, a.status, a.body, want)
			}
			text := s.get(fmt.Sprintf("/fib/%d?format=text", n))
			if text.body != values[n] || text.header.Get("Content-Type") != textType ||
				text.header.Get("Accept-Ranges") != "bytes" {
				t.Fatalf("F(%d) as text: %v %.80s, want %.80s", n, text.header, text.body, values[n])
			}
			for _, a := range []answer{a, text} {
				if a.header.Get("Cache-Control") != immutable {
					t.Fatalf("F(%d): %v", n, a.header)
				}
			}
			if a.header.Get("Etag") == text.header.Get("Etag") ||
				a.header.Get("Etag") != fmt.Sprintf(`"fib-%d-json"`, n) {
				t.Fatalf("F(%d) has ETag %s, and %s as text", n, a.header.Get("Etag"),
					text.header.Get("Etag"))
			}
		}
		if at := s.at(); at != 77 {
			t.Errorf("the index is %d and was 77", at)
		}
	})
}

func TestAValueAClientHasIsNotSentAgain(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		s := serve(t, kernel, Config{MaxIndex: HardMaxIndex})
		for path, tag := range map[string]string{
			"/fib/10":                      `"fib-10-json"`,
			"/fib/010?format=json":         `"fib-10-json"`,
			"/fib/10?format=text":          `"fib-10-text"`,
			"/fib/4294967295":              `"fib-4294967295-json"`, // so at once that it was not computed
			"/fib/4294967295?format=text":  `"fib-4294967295-text"`,
			"/fib?from=10&to=20":           `"fib-10-20-json"`,
			"/fib?from=1000000&to=1000001": `"fib-1000000-1000001-json"`,
		} {
			for _, match := range []string{tag, `"other", ` + tag, "W/" + tag, "*"} {
				a := s.get(path, "If-None-Match", match)
				if a.status != 304 || a.body != "" || a.header.Get("Etag") != tag ||
					a.header.Get("Cache-Control") != immutable {
					t.Errorf("GET %s with If-None-Match %s: %d %v %.60s", path, match, a.status, a.header,
						a.body)
				}
			}
		}
		if a := s.get("/fib/10", "If-None-Match", `"fib-10-text"`); a.status != 200 || a.body == "" {
			t.Errorf("another tag: %d %s", a.status, a.body)
		}
	})
}

func TestHeadsOfValuesAreKnownWithoutThem(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		s := serve(t, kernel, Config{MaxIndex: HardMaxIndex})
		for path, length := range map[string]int{
			"/fib/10":                     len(`{"index":10,"value":"55"}`),
			"/fib/10?format=text":         2,
			"/fib/4294967295":             897595080 + len(`{"index":4294967295,"value":""}`),
			"/fib/4294967295?format=text": 897595080,
			"/fib?from=1&to=2":            len(`[{"index":1,"value":"1"},{"index":2,"value":"1"}]`),
		} {
			a := s.do(http.MethodHead, s.url+path, "", "Range", "bytes=0-0")
			if a.status != 200 || a.length != int64(length) || a.header.Get("Cache-Control") != immutable ||
				a.header.Get("Etag") == "" {
				t.Errorf("HEAD %s: %d %v, %d bytes, want %d", path, a.status, a.header, a.length, length)
			}
		}
		if _, bytes := s.computations.load(); bytes != 0 || s.given[miss].Value() != 0 {
			t.Error("something was computed")
		}
	})
}

func TestRangesOfDigits(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		s := serve(t, kernel, Config{})
		for _, n := range []uint64{100, 100_000, 400_000} {
			f, _, err := decimal.Fibonacci(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			path := fmt.Sprintf("/fib/%d?format=text", n)
			last := len(f) - 1
			for field, want := range map[string]string{
				"bytes=0-9":                       string(f[:10]),
				"bytes=5-":                        string(f[5:]),
				"bytes=-7":                        string(f[last-6:]),
				fmt.Sprintf("bytes=%d-", last):    string(f[last:]),
				fmt.Sprintf("bytes=3-%d", 2*last): string(f[3:]),
			} {
				a := s.get(path, "Range", field)
				if a.status != 206 || a.body != want ||
					a.header.Get("Etag") != fmt.Sprintf(`"fib-%d-text"`, n) {
					t.Errorf("F(%d) %s: %d %v %.40s, want %.40s", n, field, a.status, a.header, a.body, want)
				}
			}
			a := s.get(path, "Range", fmt.Sprintf("bytes=%d-", last+1))
			s.problem(a, 416, "ranges are of its digits")
			if got := a.header.Get("Content-Range"); got != fmt.Sprintf("bytes */%d", last+1) {
				t.Errorf("F(%d): Content-Range %q", n, got)
			}
			s.problem(s.get(path, "If-Match", `"other"`), 412, "If-Match")
			if a := s.get(path, "Range", "bytes=0-9", "If-Range", `"other"`); a.status != 200 ||
				a.body != string(f) {
				t.Errorf("F(%d) with another If-Range: %d", n, a.status)
			}
			if a := s.get(path, "Range", "bytes=0-0,2-2"); a.status != 206 ||
				!strings.HasPrefix(a.header.Get("Content-Type"), "multipart/byteranges") {
				t.Errorf("F(%d), two ranges: %d %v", n, a.status, a.header)
			}
			if a := s.get(fmt.Sprintf("/fib/%d", n), "Range", "bytes=0-9"); a.status != 200 ||
				len(a.body) != valueLength(n, object) {
				t.Errorf("F(%d) as JSON with a Range: %d", n, a.status)
			}
		}
	})
}

func TestRangesOfValuesAreAnArray(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		values := fibonacci(7000)
		s := serve(t, kernel, Config{})
		for _, c := range [][2]int{{0, 0}, {0, 1}, {5, 5}, {0, 500}, {4000, 4300}, {6998, 7000}} {
			var want []string
			for n := c[0]; n <= c[1]; n++ {
				want = append(want, fmt.Sprintf(`{"index":%d,"value":"%s"}`, n, values[n]))
			}
			a := s.get(fmt.Sprintf("/fib?from=%d&to=%d", c[0], c[1]))
			if a.status != 200 || a.body != "["+strings.Join(want, ",")+"]" ||
				a.length != int64(len(a.body)) {
				t.Errorf("%v: %d %.100s", c, a.status, a.body)
			}
			if a.header.Get("Etag") != fmt.Sprintf(`"fib-%d-%d-json"`, c[0], c[1]) ||
				a.header.Get("Cache-Control") != immutable {
				t.Errorf("%v: %v", c, a.header)
			}
		}
	})
}

// A value that is at hand is let go where the index cannot move to it.
func TestAStepThatCannotBeSavedLetsItsValueGo(t *testing.T) {
	s, err := Open(Config{}, env(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	var failing atomic.Bool
	index, err := progress.OpenIndex(filepath.Join(t.TempDir(), "other.cells"), progress.Options{
		SyncInterval: time.Millisecond, Faults: disk.Faults{FailSync: func() error {
			if failing.Load() {
				return errors.New("input/output error")
			}
			return nil
		}}})
	if err != nil {
		t.Fatal(err)
	}
	own := s.index
	s.index = index
	defer func() {
		s.index = own
		index.Close() //nolint:errcheck // it is poisoned
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, want := range []int{0, http.StatusServiceUnavailable} { // 0 is 200: see server.Response
		var w server.Response
		s.answerStep(forward)(&w, &server.Request{Method: http.MethodGet})
		if w.Status != want {
			t.Errorf("status %d, want %d: %s", w.Status, want, w.Body)
		}
		notPinned(t, s)
		failing.Store(true)
		for deadline := time.Now().Add(20 * time.Second); err == nil; time.Sleep(time.Millisecond) {
			at, _ := index.Get(t.Context())
			if _, err = index.CompareAndSwap(t.Context(), at, at+1); time.Now().After(deadline) {
				t.Fatal("moves go on although nothing can be saved")
			}
		}
	}
}

func TestTheBoundOfARangeIsIncluded(t *testing.T) {
	length, fits := rangeLength(0, 9, 1<<20)
	if _, same := rangeLength(0, 9, length); !fits || !same {
		t.Errorf("an answer of %d bytes does not fit into %d", length, length)
	}
	if _, fits := rangeLength(0, 9, length-1); fits {
		t.Errorf("an answer of %d bytes fits into %d", length, length-1)
	}
}

func TestARangeOfValuesIsBoundedInBytes(t *testing.T) {
	const limit = 5000
	s := serve(t, server.Config{}, Config{RangeBytes: limit})
	for from := uint64(0); from < 20_000; from += 777 {
		longest := -1
		for to := from; ; to++ {
			length, fits := rangeLength(from, to, limit)
			if fits != (length > 0) || length > limit {
				t.Fatalf("from %d to %d: %d, %t", from, to, length, fits)
			}
			if !fits {
				break
			}
			longest = int(to)
		}
		if longest >= 0 {
			if a := s.get(fmt.Sprintf("/fib?from=%d&to=%d", from, longest)); a.status != 200 ||
				len(a.body) > limit {
				t.Errorf("from %d to %d: %d with %d bytes", from, longest, a.status, len(a.body))
			}
		}
		s.problem(s.get(fmt.Sprintf("/fib?from=%d&to=%d", from, max(longest, int(from)-1)+1)), 422,
			"to must be nearer to from", strconv.Itoa(limit))
	}
	s.problem(s.get("/fib?from=0&to=10000000"), 422, "to must be nearer to from")
}

func TestBadInputIsRefusedByName(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		s := serve(t, kernel, Config{MaxIndex: 1000})
		for path, says := range map[string]string{
			"/fib/x":                    "n must be a whole number from 0 to 1000",
			"/fib/-1":                   "n must be a whole number from 0 to 1000",
			"/fib/1001":                 "n must be a whole number from 0 to 1000",
			"/fib/1.5":                  "n must be",
			"/fib/99999999999999999999": "n must be",
			"/fib/1?format=xml":         "format must be json or text",
			"/fib/1?format=":            "format must be json or text",
			"/fib/1?format=text&format": "format must be json or text",
			"/fib/1?%zz":                "malformed percent-escape",
			"/fib":                      "from must be a whole number from 0 to 1000",
			"/fib?from=1":               "to must be a whole number from 1 to 1000",
			"/fib?to=1":                 "from must be",
			"/fib?from=7&to=6":          "to must be a whole number from 7 to 1000",
			"/fib?from=7&to=1001":       "to must be a whole number from 7 to 1000",
			"/fib?from=x&to=1":          "from must be",
			"/fib?from=1&to=%zz":        "malformed percent-escape",
		} {
			s.problem(s.get(path), 422, says)
		}
		for body, says := range map[string]string{
			"":                       `the body must be {"index":N}`,
			"{}":                     `the body must be {"index":N}`,
			`{"index":null}`:         `the body must be {"index":N}`,
			`{"index":1,"more":2}`:   `the body must be {"index":N}`,
			`{"index":1}{"index":2}`: `the body must be {"index":N}`,
			`{"index":1001}`:         "index must be a whole number from 0 to 1000",
			`{"index":-1}`:           "index must be a whole number from 0, not -1",
			`{"index":1.5}`:          "index must be a whole number from 0, not 1.5",
			`{"index":1e2}`:          "index must be a whole number from 0, not 1e2",
			`{"index":"1"}`:          "index must be a whole number from 0, not a text",
			`{"Index":1}`:            `the body may have index, and not "Index"`,
			`{"index":1,"index":1}`:  "index must be there once",
		} {
			s.problem(s.do(http.MethodPut, s.admin+"/current", body), 422, says)
		}
		s.problem(s.do(http.MethodPut, s.admin+"/current", strings.Repeat(" ", 5000)), 413,
			"longer than 4096 bytes")
		if a := s.do(http.MethodPut, s.url+"/current", `{"index":1}`); a.status != 405 {
			t.Errorf("PUT /current on the public port: %d", a.status)
		}
		if at := s.at(); at != 0 {
			t.Errorf("the index is %d", at)
		}
	})
}

// What cannot be admitted is refused before anything moves, with what to raise and when to come again.
func TestBeyondTheBoundsNothingMoves(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		s := serve(t, kernel, Config{ComputeBytes: decimal.Cost(100_000)})
		s.put(1_000_000)
		for _, path := range []string{"/next", "/previous", "/current", "/fib/1000000",
			"/fib/1000000?format=text", "/fib?from=1000000&to=1000001"} {
			a := s.get(path)
			s.problem(a, 503, "--sequence-compute-bytes")
			if a.header.Get("Retry-After") == "" {
				t.Errorf("GET %s: no Retry-After", path)
			}
		}
		if at := s.at(); at != 1_000_000 {
			t.Errorf("the index is %d", at)
		}
		s.put(50_000)
		if a := s.get("/next"); a.status != 200 {
			t.Errorf("what fits: %d %.80s", a.status, a.body)
		}
	})
}

// A value that takes very long is given up as soon as its client has gone, and holds up nobody.
func TestAnAbandonedComputationStopsAndNobodyWaitsForIt(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		s := serve(t, kernel, Config{MaxIndex: HardMaxIndex, ComputeBytes: 1 << 40})
		ctx, leave := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/fib/300000000", nil)
		if err != nil {
			t.Fatal(err)
		}
		gone := make(chan error, 1)
		go func() {
			leaves := http.Client{Transport: &http.Transport{DialContext: systest.DialReset}}
			resp, err := leaves.Do(r)
			if err == nil {
				resp.Body.Close()
			}
			gone <- err
		}()
		s.await("the computation to begin",
			func() bool { waiting, _ := s.computations.load(); return waiting == 1 })
		if c := s.state().Computations; c.Waiting != 1 || c.Bytes == 0 || len(c.Values) != 1 ||
			c.Values[0].Waiting != 1 || c.Values[0].Digits < 1<<20 {
			t.Errorf("meanwhile: %+v", c)
		}
		s.put(100_000)
		if a := s.get("/next"); a.status != 200 {
			t.Errorf("meanwhile: %d", a.status)
		}
		leave()
		if err := <-gone; err == nil {
			t.Error("it was answered before its client left")
		}
		s.await("the computation to end",
			func() bool { waiting, bytes := s.computations.load(); return waiting == 0 && bytes == 0 })
		if n := s.computations.cancelled.Value(); n != 1 {
			t.Errorf("%d computations are counted as cancelled", n)
		}
	})
}

// state is what the admin port says, which has all its members and no others.
func (s *served) state() (now state) {
	s.t.Helper()
	d := json.NewDecoder(strings.NewReader(s.do(http.MethodGet, s.admin+"/admin/sequence", "").body))
	d.DisallowUnknownFields()
	if err := d.Decode(&now); err != nil {
		s.t.Fatal(err)
	}
	return now
}

// Its digits are those of the value, whichever way that is at hand, and looking gives and moves nothing.
func TestTheStateOfTheSequenceIsShown(t *testing.T) {
	s := serve(t, server.Config{}, Config{})
	for _, c := range []struct {
		index  uint64
		digits int
		given  bool // the value is asked for before
	}{{0, 1, false}, {1, 1, false}, {300, 63, false}, {3000, 627, true}, {4000, 836, false},
		{50_000, 10450, true}, {50_001, 10450, false}, {9_000_000, 1880889, false}} {
		s.put(c.index)
		var value string
		if c.given {
			var answer struct{ Value string }
			if err := json.Unmarshal([]byte(s.get("/current").body), &answer); err != nil {
				t.Fatal(err)
			}
			value = answer.Value
		}
		before := s.state()
		now := s.state()
		if now.Index != c.index || now.Digits != c.digits || now.Cache != before.Cache ||
			now.MaxIndex != DefaultMaxIndex || now.Durability == "" || now.Computations.MaxWaiting == 0 ||
			now.Computations.MaxBytes == 0 {
			t.Errorf("at %d: %+v, want %d digits", c.index, now, c.digits)
		}
		if c.given && (!strings.HasPrefix(value, now.First) || !strings.HasSuffix(value, now.Last) ||
			len(now.First) != 40 || len(now.Last) != 40) {
			t.Errorf("at %d: %s...%s", c.index, now.First, now.Last)
		}
		if c.digits <= 80 && (len(now.First) != c.digits || now.Last != "") {
			t.Errorf("at %d: %s...%s", c.index, now.First, now.Last)
		}
		if c.index == 4000 && now.First != "39909473435004422792081248094960912600792570982820"[:40] {
			t.Errorf("at %d: %s", c.index, now.First)
		}
		if c.index == 9_000_000 && now.First != "" {
			t.Errorf("a value that nobody has computed: %s", now.First)
		}
	}
}

func (s *served) await(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestValuesAreCountedByWhereTheyCameFrom(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		s := serve(t, kernel, Config{})
		count := func() cacheState { return s.state().Cache }
		s.put(50_000)
		if a := s.get("/next"); a.status != 200 {
			t.Fatal(a)
		}
		if c := count(); c.Miss != 1 || c.Direct != 0 || c.Close != 0 || c.Pairs != 1 || c.Bytes < 20_000 ||
			c.Limit != DefaultCacheBytes {
			t.Errorf("after one: %+v", c)
		}
		s.get("/previous") // came along with the other one
		for range 10 {
			s.get("/next")
			s.get("/previous")
		}
		if c := count(); c.Miss != 1 || c.Direct != 21 || c.Close != 0 {
			t.Errorf("after going to and fro: %+v", c)
		}
		for range 5 {
			s.get("/next")
		}
		if c := count(); c.Miss != 1 || c.Direct != 22 || c.Close != 4 {
			t.Errorf("after going on: %+v", c)
		}
		s.get("/fib/50100")
		if c := count(); c.Miss != 1 || c.Close != 5 {
			t.Errorf("after one nearby: %+v", c)
		}
		before := count()
		for range 2 {
			s.put(2000) // made from an anchor, and its neighbour with it
			s.get("/current")
			s.get("/previous")
		}
		if c := count(); c.Close != before.Close+1 || c.Direct != before.Direct+3 {
			t.Errorf("small ones: %+v, and before %+v", c, before)
		}
		s.put(50_005)
		metrics := s.do(http.MethodGet, s.admin+"/metrics", "").body
		for _, line := range []string{`weir_sequence_values_total{found="close"} 6`,
			`weir_sequence_values_total{found="direct"} 25`, `weir_sequence_values_total{found="miss"} 1`,
			"weir_sequence_index 50005"} {
			if !strings.Contains(metrics, line) {
				t.Errorf("/metrics does not hold %s", line)
			}
		}
	})
}
