package agent

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/internal/load/client"
	"weir/internal/load/measure"
	"weir/internal/server"
	"weir/internal/strictjson"
)

const (
	maxOrder = 256 << 20 // files of requests and variables are in it, as JSON strings
	maxSmall = 4 << 10
	// startTime bounds the connecting to targets, should the leader not hang up.
	startTime = time.Minute
	// maxEnd bounds how long answers are awaited at the end of a run.
	maxEnd = 15 * time.Minute
)

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.getStatus)
	mux.HandleFunc("POST /runs", s.postRun)
	mux.HandleFunc("PUT /runs/{id}/load", s.putLoad)
	mux.HandleFunc("POST /runs/{id}/windows", s.postWindow)
	mux.HandleFunc("DELETE /runs/{id}", s.deleteRun)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		problem(w, http.StatusNotFound, "an agent has nothing at this path: "+r.Method+" "+r.URL.Path+
			"; leader and agent should be of the same version")
	})
	return mux
}

func problem(w http.ResponseWriter, status int, detail string) {
	server.WriteProblem(w, status, detail)
}

func reply(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(body) //nolint:errcheck // a leader that has gone is found out by its silence
}

// read reads a JSON body; it answers by itself and returns false when that cannot be.
func read(w http.ResponseWriter, r *http.Request, most int64, to any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, most))
	d.DisallowUnknownFields()
	err := d.Decode(to)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("more than one value")
		}
	}
	if err != nil {
		problem(w, http.StatusBadRequest, "the body cannot be read: "+strictjson.Plain(err).Error()+
			"; leader and agent should be of the same version")
		return false
	}
	return true
}

// service is what an agent says that it is.
const service = "weir load agent"

type status struct {
	Service string `json:"service"`
	Version int    `json:"version"`
	Busy    bool   `json:"busy"`
	Leader  string `json:"leader,omitempty"`
	Load    string `json:"load,omitempty"`
	Seconds int64  `json:"seconds,omitempty"`
}

// getStatus answers GET /, for people, and for leaders before they begin.
func (s *Server) getStatus(w http.ResponseWriter, _ *http.Request) {
	out := status{Service: service, Version: version}
	s.mu.Lock()
	if out.Busy = s.run != nil || s.starting; s.run != nil {
		out.Leader, out.Load, out.Seconds = s.run.leader, s.run.what, int64(time.Since(s.run.since).Seconds())
	}
	s.mu.Unlock()
	text, err := json.Marshal(out)
	if err != nil {
		panic("BUG: a status that cannot be marshalled: " + err.Error())
	}
	reply(w, http.StatusOK, text)
}

// reserve makes the caller the one who may start a run; else it says who has one.
func (s *Server) reserve() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.starting:
		return errors.New("it is starting a run for another leader, and makes one at a time: wait, or use " +
			"another agent")
	case s.run != nil:
		return fmt.Errorf("it has been making load for %s for %d s, and makes one run at a time: wait, end "+
			"that run, or use another agent",
			s.run.leader, int64(time.Since(s.run.since).Seconds()))
	}
	s.starting = true
	return nil
}

// postRun answers POST /runs: an engine starts, without load.
func (s *Server) postRun(w http.ResponseWriter, r *http.Request) {
	if err := s.reserve(); err != nil {
		problem(w, http.StatusConflict, err.Error())
		return
	}
	installed := false
	defer func() {
		if !installed {
			s.mu.Lock()
			s.starting = false
			s.mu.Unlock()
		}
	}()
	var o order
	if !read(w, r, maxOrder, &o) {
		return
	}
	if o.Version != version {
		problem(w, http.StatusBadRequest,
			fmt.Sprintf("the leader speaks version %d and the agent %d: use the same version of weir "+
				"everywhere", o.Version, version))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), startTime)
	defer cancel()
	e, what, err := s.o.start(ctx, &o, s.o.Own)
	switch {
	case errors.Is(err, client.ErrNotOwned):
		problem(w, http.StatusForbidden, err.Error()+" to weir load agent, on its machine")
		return
	case err != nil:
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	if r.Context().Err() != nil { // the leader has hung up, and would not get to know of its run
		if err := e.Close(ctx); err != nil {
			s.o.Log.Error("a run that was not begun did not end as it should", "error", err)
		}
		return
	}
	n := &remoteRun{id: rand.Text(), leader: r.RemoteAddr, what: what, since: time.Now(), engine: e,
		window: measure.NewWindow(), ended: make(chan struct{})}
	s.install(n)
	installed = true
	reply(w, http.StatusCreated, []byte(`{"id":"`+n.id+`"}`))
}

// of finds the request's run. It answers by itself and returns nil when there is none.
func (s *Server) of(w http.ResponseWriter, r *http.Request) (*remoteRun, func()) {
	id := r.PathValue("id")
	n, done := s.begin(id)
	if n != nil {
		return n, done
	}
	s.mu.Lock()
	last := s.over
	s.mu.Unlock()
	if last.id == id && last.reason != "" {
		problem(w, http.StatusGone, "the run has ended: "+last.reason)
		return nil, nil
	}
	problem(w, http.StatusNotFound, "there is no such run here; was the agent restarted?")
	return nil, nil
}

func (s *Server) putLoad(w http.ResponseWriter, r *http.Request) {
	n, done := s.of(w, r)
	if n == nil {
		return
	}
	defer done()
	var to setting
	if !read(w, r, maxSmall, &to) {
		return
	}
	given := 0
	for _, there := range []bool{to.Rate != nil, to.Connections != nil, to.EndNanos != nil} {
		if there {
			given++
		}
	}
	var err error
	switch {
	case given != 1:
		err = errors.New("one of a rate, connections and an end must be there")
	case to.EndNanos != nil:
		err = n.engine.SetEnd(time.Duration(*to.EndNanos))
	case to.Connections != nil:
		err = n.engine.SetConnections(*to.Connections)
	default:
		err = n.engine.SetRate(*to.Rate)
	}
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// seen reads which window the leader has.
func seen(w http.ResponseWriter, r *http.Request) (uint64, bool) {
	n, err := strconv.ParseUint(r.URL.Query().Get("seen"), 10, 64)
	if err != nil {
		problem(w, http.StatusBadRequest,
			"seen must be the number of the last window that the leader has, 0 for none")
		return 0, false
	}
	return n, true
}

// postWindow answers POST /runs/{id}/windows?seen=N with the window after that.
func (s *Server) postWindow(w http.ResponseWriter, r *http.Request) {
	n, done := s.of(w, r)
	if n == nil {
		return
	}
	defer done()
	has, ok := seen(w, r)
	if !ok {
		return
	}
	text, err := n.collect(has)
	switch {
	case errors.Is(err, errSeq):
		problem(w, http.StatusConflict, err.Error())
	case err != nil:
		problem(w, http.StatusInternalServerError, err.Error())
	default:
		reply(w, http.StatusOK, text)
	}
}

// deleteRun answers DELETE /runs/{id}?seen=N&timeout=5s: it ends the load, awaits the answers that are on
// their way, and gives the last window. It gives the same one to a leader that asks again.
func (s *Server) deleteRun(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	s.mu.Lock()
	n := s.run
	s.mu.Unlock()
	if n != nil && n.id == id && s.isEnding(n) { // by a request whose answer the leader did not get
		select {
		case <-n.ended:
		case <-r.Context().Done():
			return
		}
	}
	s.mu.Lock()
	last := s.over
	s.mu.Unlock()
	if last.window != nil && last.id == id {
		reply(w, http.StatusOK, last.window)
		return
	}
	n, done := s.of(w, r)
	if n == nil {
		return
	}
	defer done()
	has, ok := seen(w, r)
	if !ok {
		return
	}
	timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || timeout < 0 || timeout > maxEnd {
		problem(w, http.StatusBadRequest,
			fmt.Sprintf("timeout must be a duration from 0s to %v, such as 5s", maxEnd))
		return
	}
	if !s.claim(n) {
		problem(w, http.StatusConflict, "the run is being ended by another request")
		return
	}
	// Not the request's context: the load ends as it should even if the leader hangs up now.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), timeout)
	defer cancel()
	text, err := n.end(ctx, has)
	if err != nil {
		s.forget(n, over{id: n.id, reason: err.Error()})
		s.o.Log.Error("a run did not end as it should", "error", err)
		problem(w, http.StatusInternalServerError, err.Error())
		return
	}
	s.forget(n, over{id: n.id, window: text})
	s.o.Log.Info("a run ends", "leader", n.leader, "load", n.what, "took", time.Since(n.since))
	reply(w, http.StatusOK, text)
}

// detailOf returns what a problem document says, or the beginning of what is none.
func detailOf(body []byte) string {
	var p struct {
		Detail string `json:"detail"`
	}
	if json.Unmarshal(body, &p) == nil && p.Detail != "" {
		return p.Detail
	}
	return strings.TrimSpace(strconv.Quote(string(body[:min(len(body), 200)])))
}
