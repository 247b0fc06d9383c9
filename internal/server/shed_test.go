package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/shed"
)

// pressable returns what makes a server refuse at the pressure that a test says, by press.
func pressable() *shed.Config {
	cfg := shed.Defaults()
	cfg.Interval = time.Hour
	cfg.Limits = map[string]shed.Limits{shed.InFlight: {On: true, Soft: 0, Hard: 1000},
		shed.LoopDelay: {On: true, Soft: 0.001, Hard: 0.005}}
	return &cfg
}

// press sets the pressure by pretending that requests are in flight while the signals are read.
func press(t testing.TB, s *Server, pressure float64) {
	t.Helper()
	more := int64(pressure*1000) - s.inFlight()
	s.detached.Add(more) // others count meanwhile
	defer s.detached.Add(-more)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	s.shed.Run(done) // reads them once
}

// pressCalm is press once no request is in flight: one that was answered counts for a moment still, and a
// thousandth of pressure is enough for one refusal in 500.
func pressCalm(t *testing.T, s *Server, pressure float64) {
	t.Helper()
	await(t, "all to be answered", func() bool { return s.inFlight() == 0 })
	press(t, s, pressure)
}

// startPressable is start; the signals have been read for the first time.
func startPressable(t *testing.T, cfg Config, services ...Service) *Server {
	t.Helper()
	cfg.Shed = pressable()
	s := start(t, cfg, services...)
	await(t, "the signals to be read", func() bool { return s.shed.Status().Signals[5].Value != nil })
	return s
}

// byClass is a service with a route of each class and lane that counts what reaches its handlers.
func byClass(reached *atomic.Int64) routes {
	ok := done(func(w *Response, _ *Request) { reached.Add(1); w.Body = append(w.Body, "fast"...) })
	handed := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		io.WriteString(w, "handed")
	})
	offloaded := func(w *Response, r *Request) Outcome {
		if r.Inline() {
			return Offload
		}
		return ok(w, r)
	}
	return routes{
		{Pattern: "GET /normal/fast", Handler: ok},
		{Pattern: "GET /normal/offloaded", Handler: offloaded},
		{Pattern: "GET /normal/handed", Stream: handed},
		{Pattern: "GET /low/fast", Handler: ok, Class: Low},
		{Pattern: "GET /low/offloaded", Handler: offloaded, Class: Low},
		{Pattern: "GET /low/handed", Stream: handed, Class: Low},
		{Pattern: "GET /low/found", Handler: func(_ *Response, r *Request) Outcome {
			r.Admit(Low)
			return NetHTTP
		}, Stream: handed},
		{Pattern: "GET /critical/fast", Handler: ok, Class: Critical},
		{Pattern: "GET /critical/handed", Stream: handed, Class: Critical},
	}
}

func TestRequestsAreRefusedByClassOnAllLanes(t *testing.T) {
	for name, cfg := range map[string]Config{"loops": {}, "net-http": {NetHTTP: true}} {
		t.Run(name, func(t *testing.T) {
			var reached atomic.Int64
			service := byClass(&reached)
			s := startPressable(t, cfg, service)
			for _, step := range []struct {
				pressure    float64
				normal, low int
			}{{0, 200, 200}, {0.5, 200, 503}, {1, 503, 503}, {0, 200, 200}} {
				pressCalm(t, s, step.pressure)
				for _, r := range service {
					path := strings.TrimPrefix(r.Pattern, "GET ")
					want := map[string]int{"normal": step.normal, "low": step.low,
						"critical": 200}[strings.Split(path, "/")[1]]
					before := reached.Load()
					c := dial(t, s)
					c.send(get(path))
					resp, body := c.response("GET")
					if resp.StatusCode != want {
						t.Errorf("pressure %v: %s is answered %d, want %d", step.pressure, path,
							resp.StatusCode, want)
					}
					if called := reached.Load() != before; called != (want == 200) {
						t.Errorf("pressure %v: %s is answered %d, and its handler called: %t", step.pressure,
							path, resp.StatusCode, called)
					}
					if resp.StatusCode != 503 {
						continue
					}
					after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
					if err != nil || after < 1 || after > 15 {
						t.Errorf("%s: Retry-After is %q", path, resp.Header.Get("Retry-After"))
					}
					var problem struct{ Title, Detail string }
					if err := json.Unmarshal([]byte(body), &problem); err != nil ||
						resp.Header.Get("Content-Type") != problemType ||
						!strings.Contains(problem.Detail, shed.InFlight) ||
						resp.Header.Get("Cache-Control") != "no-store" || resp.Header.Get("Date") == "" {
						t.Errorf("%s: the refusal is %v %s", path, resp.Header, body)
					}
				}
			}
			pressCalm(t, s, 1)
			c := dial(t, s)
			c.send(head_("/normal/fast"))
			if resp, _ := c.response("HEAD"); resp.StatusCode != 503 {
				t.Errorf("HEAD is answered %d", resp.StatusCode)
			}
			c = dial(t, s)
			c.send(get("/health"))
			c.expect("GET", 200, `{"status":"ready","services":{"routes":{"status":"ready"}}}`)
			c = dial(t, s)
			c.send("GET http://weir/health HTTP/1.1\r\nHost: weir\r\n\r\n")
			c.expect("GET", 200, `{"status":"ready","services":{"routes":{"status":"ready"}}}`)
			c = dial(t, s)
			c.send("GET http://weir/normal/fast HTTP/1.1\r\nHost: weir\r\n\r\n")
			if resp, _ := c.response("GET"); resp.StatusCode != 503 {
				t.Errorf("a target with a host is answered %d", resp.StatusCode)
			}
		})
	}
}

func TestRefusalsAreCountedAndDoNotPassForLatencies(t *testing.T) {
	for name, cfg := range map[string]Config{"loops": {}, "net-http": {NetHTTP: true}} {
		t.Run(name, func(t *testing.T) {
			var reached atomic.Int64
			s := startPressable(t, cfg, byClass(&reached))
			send := func(request string, n int) {
				for range n {
					c := dial(t, s)
					c.send(request)
					c.response("GET")
					c.Close()
				}
			}
			ask := func(path string, n int) { send(get(path), n) }
			ask("/normal/fast", 3)
			// A 415 has been admitted, too.
			send("GET /normal/handed HTTP/1.1\r\nHost: weir\r\nContent-Encoding: gzip\r\nContent-Length: "+
				"1\r\n\r\nx", 1)
			ask("/low/found", 1)
			pressCalm(t, s, 0.5)
			ask("/normal/fast", 2)
			ask("/low/found", 4)
			ask("/low/handed", 1)
			pressCalm(t, s, 1)
			ask("/normal/fast", 5)
			ask("/critical/fast", 2)
			want := map[string][2]uint64{"normal": {6, 5}, "low": {1, 5}, "critical": {2, 0}}
			await(t, fmt.Sprintf("%v to be admitted and refused", want), func() bool {
				st := s.shed.Status()
				got := make(map[string][2]uint64)
				for class := range want {
					got[class] = [2]uint64{st.Admitted[class], st.Rejected[class]}
				}
				return fmt.Sprint(got) == fmt.Sprint(want)
			})
			route, _ := s.routes.find("GET", []byte("/normal/fast"), new([maxParams][]byte))
			d := route.latency.Distribution()
			if refused, timed := s.counter(route, 503).Value(), d.Count(); refused != 5 || timed != 5 {
				t.Errorf("%d refusals counted, %d latencies; want 5 and those of the 5 answers", refused,
					timed)
			}
		})
	}
}

func TestThresholdsAreShownOnTheAdminPortAndChangeAtOnce(t *testing.T) {
	s := startPressable(t, Config{Admin: "127.0.0.1:0"}, &echo{})
	press(t, s, 0.75)
	status := func() (st shed.Status) {
		t.Helper()
		resp, err := http.Get("http://" + s.AdminAddr().String() + "/admin/shed")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&st); err != nil || resp.StatusCode != 200 {
			t.Fatalf("%d, %v", resp.StatusCode, err)
		}
		return st
	}
	if st := status(); st.Dominant != shed.InFlight || st.Pressure != 0.75 ||
		st.Probability["normal"] != 0.5 ||
		st.Probability["low"] != 1 {
		t.Errorf("got %+v", st)
	}
	cfg := s.cfg
	cfg.Shed = pressable()
	cfg.Shed.Limits[shed.InFlight] = shed.Limits{On: true, Soft: 0, Hard: 10_000}
	if err := s.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	if st := status(); st.Pressure != 0.075 {
		t.Errorf("after a change: %+v", st)
	}
	cfg.MaxConnections, cfg.Shed.Limits[shed.InFlight] = 1, shed.Limits{On: true, Soft: 1e9, Hard: 1}
	if err := s.Apply(cfg); err == nil || s.live.Load().MaxConnections == 1 || status().Pressure != 0.075 {
		t.Errorf("%v: thresholds that cannot work change nothing", err)
	}
}
