package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"weir/internal/load/mock"
)

// upstream NAME starts a server to be loaded and puts its origin into the environment. What it answers is
// in its paths.
func upstream(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: upstream NAME")
	}
	feeds, err := mock.Open(mock.Options{})
	ts.Check(err)
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/shed", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	mux.HandleFunc("/fails", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "it is broken", http.StatusInternalServerError)
	})
	mux.HandleFunc("/secret", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/ok", http.StatusMovedPermanently)
	})
	mux.HandleFunc("/stuck", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("POST /posted", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "process_cpu_seconds_total %f\nprocess_resident_memory_bytes 1e6\n",
			float64(time.Now().UnixMilli())/1000)
	})
	mux.Handle("/feed/", feeds)
	mux.Handle("/stats", feeds)
	s := httptest.NewUnstartedServer(mux)
	var asked atomic.Int64
	mux.HandleFunc("/dies", func(http.ResponseWriter, *http.Request) {
		if asked.Add(1) == 300 {
			s.Listener.Close() //nolint:errcheck // it is there to go
			go s.CloseClientConnections()
		}
	})
	s.Start()
	ts.Defer(s.Close)
	ts.Setenv(args[0], s.URL)
}
