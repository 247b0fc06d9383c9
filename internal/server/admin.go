package server

import (
	"net/http"
	"net/http/pprof"

	"weir/internal/shed"
)

// addAdminRoutes adds the admin port's own routes: metrics, health, profiles and the shedder.
func (s *Server) addAdminRoutes() {
	add := func(pattern string, h Handler, stream http.Handler) {
		s.Handle(Route{Pattern: pattern, Handler: h, Stream: stream, Admin: true, Class: shed.Critical})
	}
	add("GET /metrics", nil, s.cfg.Metrics.Handler())
	add("GET /health/live", func(w *Response, _ *Request) Outcome {
		w.Body = append(w.Body, `{"status":"ok"}`...)
		return Done
	}, nil)
	add("GET /health/ready", s.health, nil)
	if s.shed != nil {
		add("GET /admin/shed", s.getShed, nil)
	}
	add("GET /debug/pprof/{name...}", nil, http.HandlerFunc(pprof.Index))
	add("GET /debug/pprof/cmdline", nil, http.HandlerFunc(pprof.Cmdline))
	add("GET /debug/pprof/profile", nil, http.HandlerFunc(pprof.Profile))
	add("GET /debug/pprof/symbol", nil, http.HandlerFunc(pprof.Symbol))
	add("POST /debug/pprof/symbol", nil, http.HandlerFunc(pprof.Symbol))
	add("GET /debug/pprof/trace", nil, http.HandlerFunc(pprof.Trace))
}
