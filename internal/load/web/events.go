package web

import (
	"net/http"
	"time"
)

const (
	// heartbeat tells a client, and what is between, that the stream lives.
	heartbeat = 15 * time.Second
	// patience is how long a client's buffers may be full.
	patience = 10 * time.Second
)

// events streams what happens. The kinds are snapshot (once, to who can't resume), run, point and history.
func (u *UI) events(w http.ResponseWriter, r *http.Request) {
	last := r.Header.Get("Last-Event-ID")
	client, missed := u.live.subscribe(last)
	if client == nil {
		w.Header().Set("Retry-After", "5")
		problem(w, http.StatusServiceUnavailable, "too many pages watch already; close one", "")
		return
	}
	defer u.live.unsubscribe(client)
	out := http.NewResponseController(w)
	// The server's limit of a request's time does not hold for a stream. Writers that know no deadlines are
	// tests'.
	out.SetReadDeadline(time.Time{}) //nolint:errcheck
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)

	text := []byte("retry: 1000\n\n")
	for _, e := range missed {
		text = u.live.append(text, e)
	}
	ticks := time.NewTicker(heartbeat)
	defer ticks.Stop()
	for {
		out.SetWriteDeadline(time.Now().Add(patience)) //nolint:errcheck
		if _, err := w.Write(text); err != nil {
			return
		}
		if err := out.Flush(); err != nil {
			return
		}
		text = text[:0]
		select {
		case e, ok := <-client.events:
			if !ok {
				return
			}
			text = u.live.append(text, e)
			for range len(client.events) { // what has come meanwhile goes with it
				if e, ok = <-client.events; !ok {
					return
				}
				text = u.live.append(text, e)
			}
		case <-ticks.C:
			text = append(text, ": heartbeat\n\n"...)
		case <-r.Context().Done():
			return
		}
	}
}
