package web

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/internal/load/control"
	"weir/internal/load/report"
)

// Bounds of what is kept for clients, and of the clients.
const (
	keepEvents  = 1024 // a client that was away no longer than that many events resumes
	queueEvents = 256  // a client that is more behind is dropped, and may resume
	mostClients = 64
)

// state is where the UI's one run is.
type state string

const (
	idle     state = "idle"
	starting state = "starting" // the plan is checked
	running  state = "running"
	stopping state = "stopping" // answers are waited for
	over     state = "over"
)

// status is what everybody is told of the run.
type status struct {
	State   state           `json:"state"`
	ID      string          `json:"id,omitempty"`
	Plan    json.RawMessage `json:"plan,omitempty"`
	What    string          `json:"what,omitempty"` // the plan in a line
	Started *time.Time      `json:"started,omitempty"`
	Seconds float64         `json:"seconds,omitempty"`    // how long it is to be
	Rate    float64         `json:"rate,omitempty"`       // as a person last set it
	Latency *report.Latency `json:"latency_us,omitempty"` // of all that was measured so far
	Result  string          `json:"result,omitempty"`     // its id in the history, once it is over
	Reason  string          `json:"reason,omitempty"`     // why it ended
	Error   string          `json:"error,omitempty"`
	End     *figures        `json:"end,omitempty"` // of the whole run, once it is over
}

// figures are those of a whole run, and what they are worth.
type figures struct {
	Seconds  float64          `json:"seconds"`
	Requests uint64           `json:"requests"`
	Served   uint64           `json:"served"`
	Shed     uint64           `json:"shed"`
	Errors   uint64           `json:"errors"`
	Rate     report.Rate      `json:"rate"`
	Latency  report.Latency   `json:"latency_us"`
	Ceiling  *control.Ceiling `json:"ceiling,omitempty"`
	Verdicts []report.Verdict `json:"verdicts,omitempty"`
	Marks    []string         `json:"marks,omitempty"`
	Samples  []report.Sample  `json:"samples,omitempty"`
}

// event is one server-sent event.
type event struct {
	seq  uint64
	kind string // run, point, history, snapshot
	data []byte // JSON, so without line ends
}

// subscriber is a client that listens. Its channel is closed when it is too slow, or everything ends.
type subscriber struct {
	events chan event
}

// live is the run as clients see it, and who they are. All of it changes together, so that a snapshot and the
// events after it fit without a gap.
type live struct {
	mu      sync.Mutex
	epoch   string // events of other processes have other ones
	seq     uint64
	recent  []event // the last keepEvents
	clients map[*subscriber]struct{}
	closed  bool
	status  status
	points  func() []report.Point // of the run, from its beginning
}

func newLive() *live {
	return &live{epoch: rand.Text()[:8], clients: make(map[*subscriber]struct{}), status: status{State: idle},
		points: none}
}

func none() []report.Point { return nil }

// emit sends an event to all. The caller holds the lock.
func (l *live) emit(kind string, v any) {
	l.seq++
	e := event{l.seq, kind, marshal(v)}
	if len(l.recent) == keepEvents {
		copy(l.recent, l.recent[1:])
		l.recent = l.recent[:keepEvents-1]
	}
	l.recent = append(l.recent, e)
	for c := range l.clients {
		select {
		case c.events <- e:
		default: // too slow: it comes back, and resumes or begins anew
			delete(l.clients, c)
			close(c.events)
		}
	}
}

func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: an event that is no JSON: " + err.Error())
	}
	return text
}

// set changes the status and tells everybody.
func (l *live) set(change func(s *status)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.status)
	l.emit("run", l.status)
}

// begin forgets the last run and has a new one, whose points may be asked for from any goroutine.
func (l *live) begin(s status, points func() []report.Point) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status, l.points = s, points
	l.emit("run", l.status)
}

func (l *live) get() status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// point tells everybody of a point of the run.
func (l *live) point(p report.Point) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.emit("point", p)
}

// historyChanged tells everybody to look again.
func (l *live) historyChanged() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.emit("history", struct{}{})
}

// snapshot is what a client is told first, instead of all that has happened. Its last points may come again
// as events: a client leaves out what is no later than what it has.
type snapshot struct {
	Status status         `json:"run"`
	Points []report.Point `json:"points"`
}

// subscribe begins a stream after the event that a client heard last, "" for none. It returns what the
// client has missed, a snapshot if that is no longer known. Nil is: too many clients, or closed.
func (l *live) subscribe(last string) (*subscriber, []event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.clients) >= mostClients {
		return nil, nil
	}
	c := &subscriber{events: make(chan event, queueEvents)}
	l.clients[c] = struct{}{}
	if seq, ok := l.position(last); ok {
		// What the client has missed is the end of recent.
		missed := l.recent[len(l.recent)-int(l.seq-seq):]
		return c, append([]event(nil), missed...)
	}
	points := l.points()
	if points == nil {
		points = []report.Point{} // null would be another type to clients
	}
	return c, []event{{l.seq, "snapshot", marshal(snapshot{l.status, points})}}
}

// position understands a Last-Event-ID. It is false for what can't be resumed.
func (l *live) position(id string) (seq uint64, ok bool) {
	epoch, number, _ := strings.Cut(id, ".")
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil || epoch != l.epoch || seq > l.seq || l.seq-seq > uint64(len(l.recent)) {
		return 0, false
	}
	return seq, true
}

// unsubscribe ends a stream; it may have been ended already.
func (l *live) unsubscribe(c *subscriber) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, there := l.clients[c]; there {
		delete(l.clients, c)
		close(c.events)
	}
}

// close ends all streams.
func (l *live) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for c := range l.clients {
		delete(l.clients, c)
		close(c.events)
	}
}

// append writes e as it goes over the wire.
func (l *live) append(dst []byte, e event) []byte {
	return fmt.Appendf(dst, "id: %s.%d\nevent: %s\ndata: %s\n\n", l.epoch, e.seq, e.kind, e.data)
}
