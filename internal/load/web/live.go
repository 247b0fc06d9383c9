package web

import (
	"encoding/json"
	"time"

	"weir/internal/load/report"
	"weir/internal/webui"
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
	End     *report.Result  `json:"end,omitempty"` // once it is over, without plan, trace and histogram
}

// live is the run as clients see it. Its events are of the kinds snapshot, run, point and history. What
// View and Update of the hub guard changes with them.
type live struct {
	*webui.Hub
	status status
	points func() []report.Point // of the run, from its beginning
}

func newLive() *live {
	l := &live{status: status{State: idle}, points: none}
	l.Hub = webui.NewHub(l.snapshot, refuse)
	return l
}

func none() []report.Point { return nil }

func (l *live) set(change func(s *status)) {
	l.Update("run", func() any {
		change(&l.status)
		return l.status
	})
}

// begin forgets the last run and has a new one, whose points may be asked for from any goroutine.
func (l *live) begin(s status, points func() []report.Point) {
	l.Update("run", func() any {
		l.status, l.points = s, points
		return s
	})
}

func (l *live) get() (s status) {
	l.View(func() { s = l.status })
	return s
}

func (l *live) point(p report.Point) { l.Send("point", p) }

func (l *live) historyChanged() { l.Send("history", struct{}{}) }

// snapshot is what a client is told first, instead of all that has happened. Its last points may come again
// as events: a client leaves out what is no later than what it has.
func (l *live) snapshot() any {
	points := l.points()
	if points == nil {
		points = []report.Point{} // null would be another type to clients
	}
	return struct {
		Status status         `json:"run"`
		Points []report.Point `json:"points"`
	}{l.status, points}
}

func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: what is no JSON: " + err.Error())
	}
	return text
}
