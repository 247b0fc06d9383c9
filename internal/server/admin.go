package server

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"strings"
)

// health answers GET /health on the public port, for load balancers.
func (s *Server) health(w *Response, _ *Request) {
	w.Field("Cache-Control", "no-store")
	reasons := s.Ready()
	if reasons == nil {
		w.Body = append(w.Body, `{"status":"ok"}`...)
		return
	}
	w.Status = http.StatusServiceUnavailable
	w.Field("Retry-After", "1")
	w.Body = appendHealth(w.Body, reasons)
}

func appendHealth(dst []byte, reasons map[string]string) []byte {
	body, err := json.Marshal(struct {
		Status   string            `json:"status"`
		Services map[string]string `json:"services"`
	}{"unavailable", reasons})
	if err != nil {
		panic("BUG: strings that cannot be marshalled: " + err.Error())
	}
	return append(dst, body...)
}

// adminHandler serves the admin port: metrics, health, profiles, and the services' own routes.
func (s *Server) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.cfg.Metrics.Handler())
	mux.HandleFunc("GET /health/live", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		w.Write([]byte(`{"status":"ok"}`)) //nolint:errcheck // the client may be gone
	})
	mux.HandleFunc("GET /health/ready", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		reasons := s.Ready()
		if reasons == nil {
			w.Write([]byte(`{"status":"ok"}`)) //nolint:errcheck // the client may be gone
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		w.Write(appendHealth(nil, reasons)) //nolint:errcheck // the client may be gone
	})
	if s.shed != nil {
		mux.HandleFunc("GET /admin/shed", s.getShed)
		mux.HandleFunc("PATCH /admin/shed", s.patchShed)
	}
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	for _, service := range s.services {
		for _, r := range service.Routes() {
			if r.Admin {
				mux.Handle(r.Pattern, r.HTTP)
			}
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own, pattern := mux.Handler(r)
		if pattern != "" {
			if isCoded(r) {
				var a Response
				refuseCoding(&a)
				a.Write(w, r)
				return
			}
			mux.ServeHTTP(w, r)
			return
		}
		// The mux refuses by itself, as text: 404, or 405 with Allow, in which OPTIONS is missing.
		refusal := refusal{header: w.Header()}
		own.ServeHTTP(&refusal, r)
		detail := NothingOnAdmin
		if refusal.status == http.StatusMethodNotAllowed {
			allowed := allow(append(strings.Split(w.Header().Get("Allow"), ", "), http.MethodOptions))
			w.Header().Set("Allow", allowed)
			if r.Method == http.MethodOptions {
				w.Header().Del("Content-Type")
				w.Header().Del("X-Content-Type-Options")
				w.WriteHeader(http.StatusNoContent)
				return
			}
			detail = "this path answers " + allowed + ", not " + r.Method
		}
		WriteProblem(w, refusal.status, detail)
	})
}

// refusal takes down what an answer's status is, and forgets its body.
type refusal struct {
	header http.Header
	status int
}

func (r *refusal) Header() http.Header         { return r.header }
func (r *refusal) WriteHeader(status int)      { r.status = status }
func (r *refusal) Write(p []byte) (int, error) { return len(p), nil }
