package server

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"
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
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		WriteProblem(w, http.StatusNotFound, "there is nothing at this path of the admin port; docs/api.md lists the routes")
	})
	for _, service := range s.services {
		for _, r := range service.Routes() {
			if r.Admin {
				mux.Handle(r.Pattern, r.HTTP)
			}
		}
	}
	return mux
}
