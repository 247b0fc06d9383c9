package feed

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/disk"
	"weir/internal/progress"
	"weir/internal/progress/positionstest"
	"weir/internal/server"
	"weir/internal/server/servertest"
	"weir/internal/systest"
)

// served is a feed behind a server.
type served struct {
	*fixture
	*servertest.Served
	url, admin string
	client     *http.Client
}

// serveFeed opens the feed of dir and serves it until the test ends.
func serveFeed(t testing.TB, dir string, kernel server.Config, change ...func(*Config)) *served {
	t.Helper()
	return serveOpen(t, open(t, dir, change...), kernel)
}

// serveOpen serves a feed that is open.
func serveOpen(t testing.TB, f *fixture, kernel server.Config) *served {
	t.Helper()
	return serveAs(t, f, kernel, f.Feed)
}

// serveAs is serveOpen for a service that stands in front of the feed.
func serveAs(t testing.TB, f *fixture, kernel server.Config, service server.Service) *served {
	t.Helper()
	s := &served{fixture: f}
	kernel.Metrics, kernel.Log = s.metrics, s.log
	s.Served = servertest.Start(t, kernel, func(err error) {
		if err != nil && s.Feed != nil {
			t.Errorf("Run: %v", err)
		}
		s.Feed = nil // the server has closed it
	}, service)
	s.url, s.admin, s.client = s.URL, s.Admin, s.Client
	return s
}

// lanes runs a test on the event loops and on net/http.
var lanes = servertest.Lanes

// answer is an answer that was checked as far as all must be right.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request and checks what holds for every answer.
func (s *served) do(method, path, body string) answer {
	s.t.Helper()
	resp, b := s.Do(method, s.url+path, body)
	a := answer{resp.StatusCode, resp.Header, b}
	if method != http.MethodHead && !json.Valid([]byte(b)) {
		s.t.Errorf("%s %s: %d %q is not JSON", method, path, a.status, b)
	}
	want := "application/json"
	if a.status >= 400 {
		want = "application/problem+json"
	}
	if got := a.header.Get("Content-Type"); got != want {
		s.t.Errorf("%s %s: %d of type %q, want %q", method, path, a.status, got, want)
	}
	if got := a.header.Get("Cache-Control"); got != "no-store" {
		s.t.Errorf("%s %s: %d with Cache-Control %q, want no-store", method, path, a.status, got)
	}
	return a
}

// problem checks that a request is answered by a problem that says all of these.
func (s *served) problem(status int, method, path, body string, says ...string) {
	s.t.Helper()
	a := s.do(method, path, body)
	var p struct {
		Type, Title, Detail, Error string
		Status                     int
	}
	d := json.NewDecoder(strings.NewReader(a.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil || p.Type != "about:blank" || p.Title == "" {
		s.t.Errorf("%s %s: %s is no problem document: %v", method, path, a.body, err)
	}
	if a.status != status || p.Status != status {
		s.t.Errorf("%s %s: %d, in the body %d, want %d", method, path, a.status, p.Status, status)
	}
	for _, say := range says {
		if !strings.Contains(p.Detail+p.Title, say) {
			s.t.Errorf("%s %s: %q does not say %q", method, path, p.Title+": "+p.Detail, say)
		}
	}
}

// ok returns the body of a 200.
func (s *served) ok(method, path, body string) string {
	s.t.Helper()
	a := s.do(method, path, body)
	if a.status != http.StatusOK {
		s.t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
	}
	return a.body
}

// items returns the items of a plain answer, strings or numbers, as numbers.
func (s *served) items(method, path string) []uint64 {
	s.t.Helper()
	return numbersOf(s.t, []byte(s.ok(method, path, "")))
}

func numbersOf(t testing.TB, array []byte) []uint64 {
	t.Helper()
	var raw []json.RawMessage
	if err := json.Unmarshal(array, &raw); err != nil {
		t.Fatalf("%s: %v", array, err)
	}
	numbers := make([]uint64, len(raw))
	for i, r := range raw {
		n, err := strconv.ParseUint(strings.Trim(string(r), `"`), 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", array, err)
		}
		numbers[i] = n
	}
	return numbers
}

// meta is an answer to meta=1.
type meta struct {
	Items                         json.RawMessage
	Position, Remaining, Fallback int
	List                          string
}

func (s *served) meta(method, path string) (m meta, items []uint64) {
	s.t.Helper()
	d := json.NewDecoder(strings.NewReader(s.ok(method, path, "")))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		s.t.Fatal(err)
	}
	return m, numbersOf(s.t, m.Items)
}

func unquote(t testing.TB, literal string) (s string) {
	t.Helper()
	if err := json.Unmarshal([]byte(literal), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// want compares items.
func want(t testing.TB, what string, got, want []uint64) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: items %v, want %v", what, got, want)
	}
}

// demo is lists of 50 items of users 0 to 9, user 8 with 3 items, 9 with none.
func demo() lists {
	l := numbered(10, 50)
	l[8], l[9] = l[8][:3], nil
	return l
}

func writeDemo(t testing.TB, as shape, names bool, fallback ...uint64) (dir string) {
	dir = t.TempDir()
	demo().write(t, filepath.Join(dir, "feeds.weir"), as, names, fallback...)
	return dir
}

func TestItemsComeInTheirOrderWhateverTheMethod(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		for as := range 3 {
			s := serveFeed(t, writeDemo(t, shape(as), as == 1), kernel)
			l := demo()[4]
			want(t, "the default", s.items("GET", "/feed/4"), l[:10])
			want(t, "POST", s.items("POST", "/feed/4?size=5"), l[10:15])
			want(t, "size 0", s.items("GET", "/feed/4?size=0"), l[15:25])
			want(t, "an escaped id", s.items("GET", "/feed/%34?siz%65=%32"), l[25:27])
			want(t, "unknown parameters", s.items("GET", "/feed/4?utm=x&size=1&&="), l[27:28])
			for _, peek := range []string{"/feed/4?peek=1", "/feed/4?peek=true&size=10"} {
				want(t, peek, s.items("GET", peek), l[28:38])
			}
			a := s.do("HEAD", "/feed/4", "")
			if a.status != 200 || a.body != "" || a.header.Get("Content-Length") == "0" {
				t.Errorf("HEAD: %d, %q, length %s", a.status, a.body, a.header.Get("Content-Length"))
			}
			want(t, "after HEAD", s.items("GET", "/feed/4?peek=0&meta=false"), l[28:38])
			want(t, "the rest", s.items("GET", "/feed/4?size=255"), l[38:])
			if as == 1 != strings.HasPrefix(s.ok("GET", "/feed/5", ""), `["`) {
				t.Error("strings are not given as strings, or numbers not as numbers")
			}
		}
	})
}

func TestMetaTellsWhereTheUserIs(t *testing.T) {
	s := serveFeed(t, writeDemo(t, dense, false, 900, 901, 902), server.Config{})
	m, items := s.meta("GET", "/feed/1?meta=1&size=20")
	want(t, "meta", items, demo()[1][:20])
	if m.Position != 20 || m.Remaining != 30 || m.Fallback != 0 || len(m.List) != 12 {
		t.Errorf("%+v", m)
	}
	if p, _ := s.meta("POST", "/feed/1?meta=1&peek=1&size=40"); p.Position != 20 || p.Remaining != 30 ||
		p.List != m.List || p.Fallback != 3 {
		t.Errorf("peek: %+v", p)
	}
	m, items = s.meta("GET", "/feed/8?meta=1&size=5")
	if m.Position != 3 || m.Remaining != 0 || m.Fallback != 2 || len(items) != 5 ||
		!slices.Equal(items[:3], demo()[8]) {
		t.Errorf("with fallback: %+v", m)
	}
	if m, _ = s.meta("GET", "/feed/777?meta=1&size=2"); m.Position != 0 || m.Remaining != 0 ||
		m.Fallback != 2 {
		t.Errorf("an unknown user: %+v", m)
	}
}

func TestBadRequestsNameTheParameterAndItsRange(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		s := serveFeed(t, writeDemo(t, dense, false, 1), kernel)
		m, _ := s.meta("GET", "/feed/1?meta=1&peek=1")
		sizes := []string{"256", "-1", "abc", "", "1.0", "1e1", "+5", "%2B5", "5%20", "0x5",
			"99999999999999999999", "18446744073709551626", "1&size=256", "%D9%A5"}
		for _, v := range sizes {
			s.problem(422, "GET", "/feed/1?size="+v, "", "size", "1 to 255", "10")
		}
		for _, id := range []string{"abc", "-1", "+1", "1.5", "18446744073709551616", "1%2F2", "%20", "%00",
			"1%C3%A9", strings.Repeat("1", 300)} {
			s.problem(422, "GET", "/feed/"+id, "", "userId", "0 to 18446744073709551615")
			s.problem(422, "GET", "/feed/"+id+"/position", "", "userId", "0 to 18446744073709551615")
		}
		list := "&list=" + m.List
		for _, v := range []string{"-1", "abc", "", "65536", "1.5", "99999999999999999999"} {
			s.problem(422, "GET", "/feed/1?from="+v+list, "", "from", "0 to the length", "65535")
		}
		s.problem(422, "GET", "/feed/1?from=51"+list, "", "from", "0 to 50")
		s.problem(422, "GET", "/feed/1?from=1", "", "from", "list", "meta=1")
		s.problem(422, "GET", "/feed/1?list="+m.List, "", "from", "list", "meta=1")
		for _, v := range []string{"", "xyz", m.List + "0", m.List[1:], "00000000000g", "-0000000001a",
			"0x0000000001"} {
			s.problem(422, "GET", "/feed/1?from=0&list="+v, "", "list", "12 hexadecimal digits")
		}
		for _, v := range []string{"", "2", "yes", "TRUE", "-1"} {
			s.problem(422, "GET", "/feed/1?meta="+v, "", "meta", "1 or 0")
			s.problem(422, "GET", "/feed/1?peek="+v, "", "peek", "1 or 0")
		}
		s.problem(422, "GET", "/feed/1?size=%2", "", "query", "percent")
		s.problem(422, "GET", "/feed/1?%zz=1", "", "query", "percent")
		// None of them has moved anybody.
		want(t, "after all of them", s.items("GET", "/feed/1"), demo()[1][:10])
	})
	s := serveFeed(t, writeDemo(t, named, false, 1), server.Config{})
	s.problem(422, "GET", "/feed/"+strings.Repeat("n", 256), "", "userId", "1 to 255 bytes")
	if got := s.items("GET", "/feed/"+strings.Repeat("n", 255)); !slices.Equal(got, []uint64{1}) {
		t.Errorf("an unknown name is given %v", got)
	}
}

func TestFromRepeatsAndNeverGoesBack(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		dir := writeDemo(t, dense, false)
		s := serveFeed(t, dir, kernel)
		l := demo()[2]
		m, _ := s.meta("GET", "/feed/2?meta=1")
		at := func(from int, more string) string {
			return fmt.Sprintf("/feed/2?from=%d&list=%s&meta=1%s", from, m.List, more)
		}
		check := func(from, size, position int) {
			t.Helper()
			for range 2 { // a retry gives the same
				n, items := s.meta("GET", at(from, fmt.Sprintf("&size=%d", size)))
				want(t, fmt.Sprintf("from %d", from), items, l[from:min(from+size, 50)])
				if n.Position != position || n.Remaining != 50-position || n.List != m.List {
					t.Errorf("from %d: %+v, want position %d", from, n, position)
				}
			}
		}
		check(0, 10, 10)
		check(5, 10, 15) // further than it was
		check(3, 5, 15)
		check(30, 5, 35) // over what was not given: the caller says so
		check(45, 10, 50)
		// P = length is legal: nothing is left, and here there is no fallback.
		s.problem(500, "GET", at(50, ""), "", "no feed items")
		check(0, 10, 50)

		// peek wins over from.
		s.ok("DELETE", "/feed/2/position", "")
		n, items := s.meta("GET", at(20, "&peek=1"))
		want(t, "peek from", items, l[20:30])
		if n.Position != 0 {
			t.Errorf("peek moved to %d", n.Position)
		}

		// Another list.
		other := "0" + m.List[1:]
		if m.List[0] == '0' {
			other = "1" + m.List[1:]
		}
		s.problem(409, "GET", "/feed/2?from=0&list="+other, "", "list", "meta=1")
		s.problem(409, "GET", "/feed/3?from=0&list="+m.List, "", "list")
		s.problem(409, "GET", "/feed/999?from=0&list="+m.List, "", "list")
		changed := demo()
		changed[2][49]++
		changed.write(t, s.cfg.Path, dense, false)
		if err := s.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.problem(409, "GET", at(0, ""), "", "list")
		s.wantAt(0, 2)
		want(t, "nothing has moved", s.items("GET", "/feed/2"), l[:10])
	})
}

func TestPositionsAreReadSetAndReset(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		s := serveFeed(t, writeDemo(t, keyed, false), kernel)
		m, _ := s.meta("GET", "/feed/3?meta=1&size=7")
		check := func(method, body string, position int) {
			t.Helper()
			wanted := fmt.Sprintf(`{"position":%d,"remaining":%d,"length":50,"list":"%s"}`, position,
				50-position, m.List)
			if got := s.ok(method, "/feed/3/position", body); got != wanted {
				t.Errorf("%s %s: %s, want %s", method, body, got, wanted)
			}
		}
		check("GET", "", 7)
		for _, p := range []int{50, 0, 49, 12} {
			check("PUT", fmt.Sprintf(`{"position":%d}`, p), p)
			check("GET", "", p)
		}
		want(t, "after PUT", s.items("GET", "/feed/3"), demo()[3][12:22])
		check("DELETE", "", 0)
		check("GET", "", 0)
		want(t, "after DELETE", s.items("GET", "/feed/3"), demo()[3][:10])
		for _, body := range []string{"", "7", `{}`, `{"position":null}`, `{"position":"7"}`,
			`{"position":1.5}`, `{"position":7} {}`, `{"position":7,"x":1}`, `[7]`, `{"position":7`,
			`{"position":18446744073709551616}`} {
			s.problem(422, "PUT", "/feed/3/position", body, "position", "0 to the length")
		}
		s.problem(422, "PUT", "/feed/3/position", `{"Position":5}`, "0 to the length",
			`may have position, and not "Position"`)
		s.problem(422, "PUT", "/feed/3/position", `{"position":1,"position":2}`, "0 to the length",
			"position must be there once")
		for _, p := range []string{"51", "-1", "65536", "9223372036854775807"} {
			s.problem(422, "PUT", "/feed/3/position", `{"position":`+p+`}`, "position", "0 to 50")
		}
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			s.problem(404, method, "/feed/999/position", `{"position":0}`, "no list")
		}
		s.problem(405, "PATCH", "/feed/3/position", "", "PATCH")
		s.problem(405, "DELETE", "/feed/3", "", "DELETE")
		check("GET", "", 10)
		if a := s.do("HEAD", "/feed/3/position", ""); a.status != 200 {
			t.Errorf("HEAD: %d", a.status)
		}
	})
}

// TestAnswersAreFilledFromTheFallback covers the three who need it: the exhausted, the nearly so and the
// unknown.
func TestAnswersAreFilledFromTheFallback(t *testing.T) {
	for _, names := range []bool{false, true} {
		l := demo()
		fallback := append(slices.Clone(l[8]), 900, 901, 902, 903, 904, 905, 906)
		s := serveFeed(t, writeDemo(t, dense, names, fallback...), server.Config{})
		for _, c := range []struct {
			path      string
			own, fill int
		}{
			{"/feed/8?size=5", 3, 2}, {"/feed/8?size=5", 0, 5}, {"/feed/8?size=255", 0, 7},
			{"/feed/9", 0, 10}, {"/feed/777", 0, 10}, {"/feed/18446744073709551615?size=4", 0, 4},
			{"/feed/777?size=11", 0, 10},
		} {
			items := s.items("GET", c.path)
			if len(items) != c.own+c.fill {
				t.Errorf("%s: %d items, want %d", c.path, len(items), c.own+c.fill)
				continue
			}
			want(t, c.path, items[:c.own], l[8][:c.own])
			sorted := slices.Sorted(slices.Values(items))
			if len(slices.Compact(sorted)) != len(items) {
				t.Errorf("%s: an item twice in %v", c.path, items)
			}
			for _, item := range items[c.own:] {
				if !slices.Contains(fallback, item) {
					t.Errorf("%s: %d is no fallback item", c.path, item)
				}
				if strings.Contains(c.path, "/8") && slices.Contains(l[8], item) {
					t.Errorf("%s: %d is of the own list", c.path, item)
				}
			}
		}
		// Two answers came out short: counted, and logged once at first.
		if n := s.value("weir_feed_short_answers_total"); n != 2 {
			t.Errorf("%v short answers, want 2", n)
		}
		if n := s.value("weir_feed_fallback_items_total"); n != 2+5+7+10+10+4+10 {
			t.Errorf("%v fallback items are counted", n)
		}
		if n := s.value("weir_feed_items_total"); n != 3 {
			t.Errorf("%v own items are counted, want 3", n)
		}
		systest.Eventually(t, "a line in the log",
			func() bool { return strings.Contains(s.logged.String(), "too few items") })
		line := s.logged.String()
		for _, says := range []string{`"level":"ERROR"`, `"user":8`, `"asked":255`, `"given":7`} {
			if !strings.Contains(line, says) {
				t.Errorf("the log says %s, want %s", line, says)
			}
		}
	}
}

func TestNothingAtAllIsAnErrorOfItsOwn(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		s := serveFeed(t, writeDemo(t, dense, false), kernel)
		for n, path := range []string{"/feed/777", "/feed/9", "/feed/9?meta=1&peek=1"} {
			s.problem(500, "GET", path, "", "no feed items")
			if got := s.value("weir_feed_empty_answers_total"); got != float64(n+1) {
				t.Errorf("%v empty answers are counted, want %d", got, n+1)
			}
		}
		// Users with a list still get it, short at its end.
		want(t, "a short answer", s.items("GET", "/feed/8"), demo()[8])
		s.problem(500, "GET", "/feed/8", "", "no feed items")
	})
}

func TestTheFallbackFileReplacesTheSnapshots(t *testing.T) {
	dir := writeDemo(t, dense, false, 900)
	file := filepath.Join(dir, "fallback")
	if err := os.WriteFile(file, []byte("1\n2\n1000\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := serveFeed(t, dir, server.Config{}, func(c *Config) { c.Fallback = file })
	got := s.items("GET", "/feed/777")
	slices.Sort(got)
	want(t, "an unknown user", got, []uint64{1, 2, 1000})
	s.ok("PUT", "/feed/0/position", `{"position":50}`)
	want(t, "user 0, whose list has 1 and 2", s.items("GET", "/feed/0"), []uint64{1000})
	// It is read again with the lists, and a bad one refuses them.
	if err := os.WriteFile(file, []byte("x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	wantError(t, "a bad file", s.Reload(t.Context()), file, "line 1")
	want(t, "user 0 afterwards", s.items("GET", "/feed/0"), []uint64{1000})
}

// TestLongAnswersAndListsAreTheSame has answers and fills beyond what is done inline.
func TestLongAnswersAndListsAreTheSame(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		dir := t.TempDir()
		l := numbered(2, 4000)
		l.write(t, filepath.Join(dir, "feeds.weir"), named, true, 9001, 9002, 9003)
		s := serveFeed(t, dir, kernel)
		for from := 0; from < 3825; from += 255 {
			want(t, "long", s.items("GET", "/feed/1?size=255"), l[1][from:from+255])
		}
		got := s.items("GET", "/feed/1?size=255")
		if len(got) != 178 {
			t.Fatalf("%d items at the end, want 175 and 3", len(got))
		}
		want(t, "the end", got[:175], l[1][3825:])
		s.wantAt(4000, 1)
	})
}

func TestOneUserOver64ConnectionsGetsEveryItemOnce(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		dir := t.TempDir()
		l := numbered(2, 10_000)
		l.write(t, filepath.Join(dir, "feeds.weir"), dense, false)
		s := serveFeed(t, dir, kernel)
		given := make([][]uint64, 64)
		together(len(given), func(i int) {
			method := []string{"GET", "POST"}[i%2]
			for n := 0; ; n++ {
				a := s.do(method, fmt.Sprintf("/feed/1?size=%d", 1+(n+i)%20), "")
				if a.status == 500 {
					return // no items left
				}
				given[i] = append(given[i], numbersOf(t, []byte(a.body))...)
			}
		})
		all := slices.Concat(given...)
		slices.Sort(all)
		if !slices.Equal(all, l[1]) {
			t.Errorf("%d items came, of a list of %d", len(all), len(l[1]))
		}
	})
}

func TestAPoisonedStoreAnswers503(t *testing.T) {
	failing := make(chan struct{})
	s := serveFeed(t, writeDemo(t, dense, false), server.Config{}, func(c *Config) {
		c.Sync = time.Millisecond
		c.faults = disk.Faults{FailSync: func() error {
			select {
			case <-failing:
				return fmt.Errorf("secret detail of the disk")
			default:
				return nil
			}
		}}
	})
	s.ok("GET", "/feed/1", "")
	close(failing)
	s.do("GET", "/feed/3", "") // there is something to sync
	systest.Eventually(t, "the failure of a sync", func() bool { return s.Health().Err() != nil })
	for _, c := range [][3]string{{"GET", "/feed/1"}, {"POST", "/feed/2"},
		{"PUT", "/feed/1/position", `{"position":3}`}, {"DELETE", "/feed/1/position"}} {
		s.problem(503, c[0], c[1], c[2], "positions cannot be saved")
		if a := s.do(c[0], c[1], c[2]); a.header.Get("Retry-After") == "" ||
			strings.Contains(a.body, "secret") {
			t.Errorf("%s %s: %v %s", c[0], c[1], a.header, a.body)
		}
	}
	resp, err := s.client.Get(s.url + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 503 ||
		!strings.Contains(string(body), `"feed":{"status":"down","reason":"positions cannot be saved`) ||
		strings.Contains(string(body), "secret") {
		t.Errorf("health: %d %s %v", resp.StatusCode, body, err)
	}
	s.Feed = nil // its close fails, as it should
}

// Each flipped bit of a user's list is a 503 that moves nobody, or changes nothing of what is given.
func TestADamagedListIs503AndMovesNothing(t *testing.T) {
	for as := range 3 {
		dir := writeDemo(t, shape(as), as == 1)
		path := filepath.Join(dir, "feeds.weir")
		s := serveFeed(t, dir, server.Config{})
		systest.Eventually(t, "the lists to be checked", s.current.Load().lists.InMemory)
		s.ok("GET", "/feed/4", "")
		wantBody := s.ok("GET", "/feed/4?peek=1", "")
		position := s.ok("GET", "/feed/4/position", "")
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		refused := 0
		for _, part := range s.current.Load().lists.Sections() {
			if part.Name != "lists" && part.Name != "item names" {
				continue
			}
			for at := part.Offset; at < part.Offset+part.Length; at += 3 {
				if _, err := f.WriteAt([]byte{good[at] ^ 1<<(at%8)}, int64(at)); err != nil {
					t.Fatal(err)
				}
				switch a := s.do("GET", "/feed/4?peek=1", ""); {
				case a.status == 503:
					refused++
					s.problem(503, "GET", "/feed/4", "", "cannot be read")
				case a.status != 200 || a.body != wantBody:
					// Who is not found is nobody.
					if as == int(dense) || a.body != s.do("GET", "/feed/999999", "").body {
						t.Fatalf("byte %d of the %s: %d %s, want %s", at-part.Offset, part.Name, a.status,
							a.body, wantBody)
					}
				}
				if _, err := f.WriteAt(good[at:at+1], int64(at)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if refused == 0 {
			t.Error("nothing was refused")
		}
		if got := s.ok("GET", "/feed/4/position", ""); got != position {
			t.Errorf("the position was %s and is %s", position, got)
		}
	}
}

// overtaken has another advance of a user come between a request's look at the position and its move.
type overtaken struct {
	progress.Positions
	by atomic.Int32 // items, once
}

type overtakenGeneration struct {
	progress.Generation
	*overtaken
}

func (o *overtaken) Prepare(lists progress.Lists) (progress.Generation, error) {
	g, err := o.Positions.Prepare(lists)
	return overtakenGeneration{g, o}, err
}

func (o overtakenGeneration) Do(u progress.User, l progress.List, op progress.Op) (progress.Move, error) {
	m, err := o.Generation.Do(u, l, op)
	if by := o.by.Swap(0); by > 0 && err == nil {
		_, err = o.Generation.Do(u, l, progress.Advance(int(by)))
	}
	return m, err
}

func TestOnlyItemsThatWereCheckedAreGivenWhoeverAdvancesMeanwhile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "feeds.weir")
	numbered(2, 5000).write(t, path, dense, false)
	o := &overtaken{Positions: new(positionstest.Reference)}
	s := serveFeed(t, dir, server.Config{}, func(c *Config) { c.positions = o })
	systest.Eventually(t, "the lists to be checked", s.current.Load().lists.InMemory)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, part := range s.current.Load().lists.Sections() {
		if part.Name == "lists" { // the second half of the second list
			if _, err := f.WriteAt(make([]byte, part.Length/4),
				int64(part.Offset+part.Length*3/4)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, query := range []string{"", "?meta=1", "?peek=1"} {
		o.by.Store(4000)
		s.problem(503, "GET", "/feed/1"+query, "", "cannot be read")
		if at := s.at(1); at != 4000 {
			t.Errorf("%s: the user is at %d, want 4000", query, at)
		}
		s.ok("PUT", "/feed/1/position", `{"position":0}`)
	}
	o.by.Store(100)
	want(t, "behind the other advance", s.items("GET", "/feed/1?size=2"), []uint64{5101, 5102})
}

func TestReloadIsOnTheAdminPortAlone(t *testing.T) {
	dir := writeDemo(t, dense, false)
	s := serveFeed(t, dir, server.Config{})
	s.problem(404, "POST", "/admin/feeds/reload", "")
	post := func() (int, string) {
		resp, err := s.client.Post(s.admin+"/admin/feeds/reload", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, strings.TrimSpace(string(body))
	}
	if status, body := post(); status != 200 || body != `{"generation":2,"users":10,"items":403}` {
		t.Errorf("%d %s", status, body)
	}
	if err := os.WriteFile(s.cfg.Path+".bad", []byte("no snapshot"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.cfg.Path+".bad", s.cfg.Path); err != nil {
		t.Fatal(err)
	}
	if status, body := post(); status != 409 || !strings.Contains(body, "not a weir snapshot") ||
		!strings.Contains(body, "generation 2 serves on") {
		t.Errorf("%d %s", status, body)
	}
	if n := s.stats.refused.Value(); n != 1 {
		t.Errorf("%d refusals are counted", n)
	}
}

// It asks for memory and no more: whoever is named, nothing moves, nothing stays pinned, and a generation
// with its snapshot can go.
func TestLookingAheadChangesNothing(t *testing.T) {
	eachShape(t, func(t *testing.T, as shape, names bool) {
		x := open(t, writeDemo(t, as, names))
		<-x.current.Load().warmed
		x.take(0, 4, 7)
		params := [][]byte{[]byte("4"), []byte("9"), []byte("10"), []byte("18446744073709551615"),
			[]byte("18446744073709551616"), []byte("x"), {}, []byte("%34")}
		for range 4 { // more than fit at once
			params = append(params, params...)
		}
		x.prefetch(1, params)
		x.wantAt(7, 4)
		x.wantAt(0, 0, 1, 2, 3, 5)
		for i := range x.current.Load().stripes {
			if n := x.current.Load().stripes[i].Load(); n != 0 {
				t.Errorf("stripe %d has %d pins", i, n)
			}
		}
	})
}

// A snapshot whose ids fill their range may have a table nevertheless, of its users' slots. It ends where
// they do.
func TestPrefetchingStaysWithinTheUsers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "feeds.weir")
	demo().write(t, path, keyed, false)
	x := open(t, dir)
	demo().write(t, path, dense, false)
	if err := x.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !x.current.Load().lists.Dense() {
		t.Fatal("the test needs a dense snapshot, and keys from before")
	}
	slots := strconv.AppendUint(nil, x.current.Load().lists.Slots(), 10)
	x.prefetch(0, [][]byte{[]byte("3"), slots, []byte("18446744073709551615")})
}

// asked is a feed that counts how often its handlers are called: twice for a request that they defer.
type asked struct {
	*Feed
	calls *atomic.Int64
}

func (a asked) Routes() []server.Route {
	routes := a.Feed.Routes()
	for i, r := range routes {
		if r.Handler != nil {
			routes[i].Handler = func(w *server.Response, q *server.Request) server.Outcome {
				a.calls.Add(1)
				return r.Handler(w, q)
			}
		}
	}
	return routes
}

// What may wait for the disk waits on a worker: lists above the watermark, and to find any user but by a
// number that is a rank.
func TestWhatMayNotBeInMemoryIsLeftToAWorker(t *testing.T) {
	eachShape(t, func(t *testing.T, as shape, names bool) {
		x := open(t, writeDemo(t, as, names))
		// A new generation is warmed when the old one has no reader any more.
		old := x.pin(0)
		g, err := x.load(t.Context(), listsAt{path: x.cfg.Path}, false, 0)
		if err != nil {
			t.Fatal(err)
		}
		x.serve(g)
		var calls atomic.Int64
		s := serveAs(t, x, server.Config{}, asked{x.Feed, &calls})
		check := func(when, path string, want int64) {
			t.Helper()
			calls.Store(0)
			if a := s.do("GET", path, ""); calls.Load() != want {
				t.Errorf("%s: GET %s is answered %d after %d calls, want %d", when, path, a.status,
					calls.Load(), want)
			}
		}
		unknown := int64(2)
		if as == dense {
			unknown = 1
		}
		check("cold", "/feed/3", 2)
		check("cold", "/feed/3/position", 2)
		check("cold", "/feed/999999", unknown)
		old.unpin(0)
		<-g.warmed
		for _, path := range []string{"/feed/3", "/feed/3/position", "/feed/999999"} {
			check("warm", path, 1)
		}
	})
}
