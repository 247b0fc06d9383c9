package webui

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bounds of what a hub keeps for clients, and of the clients.
const (
	KeepEvents  = 1024 // a client that was away no longer than that many events resumes
	QueueEvents = 256  // a client that is more behind is dropped, and may resume
	MostClients = 64
)

const (
	// Heartbeat tells a client, and what is between, that the stream lives.
	Heartbeat = 15 * time.Second
	// patience is how long a client's buffers may be full.
	patience = 10 * time.Second
)

// event is one server-sent event.
type event struct {
	seq  uint64
	kind string
	data []byte // JSON, so without line ends
}

// subscriber is a client that listens. Its channel is closed when it is too slow, or everything ends.
type subscriber struct {
	events chan event
}

// Hub sends events to all who listen, by server-sent events (HTML, 9.2). A client that was away gets what it
// has missed, or first, if that is no longer known, an event of kind "snapshot". What a snapshot tells and
// the events change together, so that both fit without a gap. A client that does not keep up is dropped and
// comes back; it holds nobody up.
type Hub struct {
	refuse   func(w http.ResponseWriter, status int, detail string)
	snapshot func() any

	mu      sync.Mutex
	epoch   string // events of other processes have other ones
	seq     uint64
	recent  []event // the last KeepEvents
	clients map[*subscriber]struct{}
	closed  bool
}

// NewHub returns a hub whose snapshots are what snapshot returns, which is called as View calls its function
// and must not use the hub. Refuse answers clients that are too many.
func NewHub(snapshot func() any, refuse func(w http.ResponseWriter, status int, detail string)) *Hub {
	return &Hub{refuse: refuse, snapshot: snapshot, epoch: rand.Text()[:8],
		clients: make(map[*subscriber]struct{})}
}

// View calls look while nothing changes that a snapshot tells.
func (h *Hub) View(look func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	look()
}

// Update calls change, which may change what a snapshot tells, and sends what it returns as an event of a
// kind.
func (h *Hub) Update(kind string, change func() any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seq++
	e := event{h.seq, kind, marshal(change())}
	if len(h.recent) == KeepEvents {
		copy(h.recent, h.recent[1:])
		h.recent = h.recent[:KeepEvents-1]
	}
	h.recent = append(h.recent, e)
	for c := range h.clients {
		select {
		case c.events <- e:
		default: // too slow: it comes back, and resumes or begins anew
			h.drop(c)
		}
	}
}

// Send sends an event.
func (h *Hub) Send(kind string, v any) { h.Update(kind, func() any { return v }) }

func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: an event that is no JSON: " + err.Error())
	}
	return text
}

// Sent returns how many events were sent.
func (h *Hub) Sent() (n uint64) {
	h.View(func() { n = h.seq })
	return n
}

// Cut drops all clients, as if each had been too slow.
func (h *Hub) Cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.clients {
		h.drop(c)
	}
}

// Close ends all streams, and refuses new ones.
func (h *Hub) Close() {
	h.View(func() { h.closed = true })
	h.Cut()
}

func (h *Hub) drop(c *subscriber) {
	if _, there := h.clients[c]; there {
		delete(h.clients, c)
		close(c.events)
	}
}

// subscribe begins a stream after the event that a client heard last, "" for none. It returns what the
// client has missed, a snapshot if that is no longer known. Nil is: too many clients, or closed.
func (h *Hub) subscribe(last string) (*subscriber, []event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.clients) >= MostClients {
		return nil, nil
	}
	c := &subscriber{events: make(chan event, QueueEvents)}
	h.clients[c] = struct{}{}
	if seq, ok := h.position(last); ok {
		// What the client has missed is the end of recent.
		missed := h.recent[len(h.recent)-int(h.seq-seq):]
		return c, append([]event(nil), missed...)
	}
	return c, []event{{h.seq, "snapshot", marshal(h.snapshot())}}
}

// position understands a Last-Event-ID. It is false for what can't be resumed.
func (h *Hub) position(id string) (seq uint64, ok bool) {
	epoch, number, _ := strings.Cut(id, ".")
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil || epoch != h.epoch || seq > h.seq || h.seq-seq > uint64(len(h.recent)) {
		return 0, false
	}
	return seq, true
}

// append writes e as it goes over the wire.
func (h *Hub) append(dst []byte, e event) []byte {
	return fmt.Appendf(dst, "id: %s.%d\nevent: %s\ndata: %s\n\n", h.epoch, e.seq, e.kind, e.data)
}

// ServeHTTP streams events until the client has gone.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	client, missed := h.subscribe(r.Header.Get("Last-Event-ID"))
	if client == nil {
		w.Header().Set("Retry-After", "5")
		h.refuse(w, http.StatusServiceUnavailable, "too many pages watch already; close one")
		return
	}
	defer h.View(func() { h.drop(client) })
	out := http.NewResponseController(w)
	// The server's limit of a request's time does not hold for a stream. Writers that know no deadlines are
	// tests'.
	out.SetReadDeadline(time.Time{}) //nolint:errcheck
	head := w.Header()
	head.Set("Content-Type", "text/event-stream")
	head.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)

	text := []byte("retry: 1000\n\n")
	for _, e := range missed {
		text = h.append(text, e)
	}
	ticks := time.NewTicker(Heartbeat)
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
			text = h.append(text, e)
			for range len(client.events) { // what has come meanwhile goes with it
				if e, ok = <-client.events; !ok {
					return
				}
				text = h.append(text, e)
			}
		case <-ticks.C:
			text = append(text, ": heartbeat\n\n"...)
		case <-r.Context().Done():
			return
		}
	}
}
