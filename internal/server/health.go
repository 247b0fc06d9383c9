package server

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"weir/internal/disk"
)

// Health is whether a service can answer. The zero value is ready.
type Health struct {
	State  State
	Reason string // what is wrong and what to do about it; "" when ready
}

// State is how much a service can do.
type State uint8

// The states.
const (
	StateReady    State = iota
	StateDegraded       // it answers, but not all, or not as well as it should
	StateDown           // it cannot answer: the kernel answers its public routes by 503
)

func (s State) String() string { return [...]string{"ready", "degraded", "down"}[s] }

// Ready returns the health of a service to which nothing is amiss.
func Ready() Health { return Health{} }

// Degraded returns the health of a service that answers all the same.
func Degraded(reason string) Health { return Health{StateDegraded, reason} }

// Down returns the health of a service that cannot answer.
func Down(reason string) Health { return Health{StateDown, reason} }

// Err returns what is wrong, nil for nothing.
func (h Health) Err() error {
	if h.State == StateReady {
		return nil
	}
	return errors.New(h.Reason)
}

// Storage is what a service promises of the changes that it has answered. It is in /health if the service
// has a method Storage() Storage, which must not block.
type Storage struct {
	// Durability says to people what a kill undoes, and what a loss of power.
	Durability string  `json:"durability"`
	LagSeconds float64 `json:"lag_seconds"` // age of the oldest change that a loss of power would undo now
}

// serviceState is what the kernel knows of a service's health.
type serviceState struct {
	Service
	critical bool
	fault    atomic.Pointer[int] // the generation of data that a handler could not read
	state    atomic.Uint32       // as of the last look
}

// generations is a Service whose data can be replaced while it serves. A memory fault takes it down until
// another generation serves, and any other Service until a restart.
type generations interface{ Generation() int }

func (st *serviceState) generation() int {
	if g, ok := st.Service.(generations); ok {
		return g.Generation()
	}
	return 0
}

// healthInterval is how often services are asked for their health: for so long requests may still reach one
// that is down.
const healthInterval = 250 * time.Millisecond

// newStates finds out which services are critical: those named, or by default those that were given data.
func newStates(services []Service, named []string) ([]*serviceState, error) {
	var states []*serviceState
	var names []string
	for _, service := range services {
		st := &serviceState{Service: service}
		if named == nil {
			given, ok := service.(interface{ Critical() bool })
			st.critical = ok && given.Critical()
		} else {
			st.critical = slices.Contains(named, service.Name())
		}
		states, names = append(states, st), append(names, service.Name())
	}
	for _, name := range named {
		if !slices.Contains(names, name) {
			return nil, &FlagError{fmt.Errorf("--critical-services: there is no service %q here, only %s",
				name, strings.Join(names, ", "))}
		}
	}
	return states, nil
}

// look asks the service for its health.
func (st *serviceState) look() Health {
	h := st.Service.Health()
	if fault := st.fault.Load(); fault != nil {
		if *fault == st.generation() {
			h = Down("mapped data cannot be read; see the log, and replace the file by rename")
		} else {
			st.fault.CompareAndSwap(fault, nil)
		}
	}
	st.state.Store(uint32(h.State))
	return h
}

// isDown fills in the answer to a request for a service that is down, and returns true. A health that was bad
// is looked at again, so that nobody is refused any more once it is good.
func (s *Server) isDown(w *Response, r *route) bool {
	if r.state == nil || State(r.state.state.Load()) != StateDown || r.Class == Critical || r.Admin {
		return false
	}
	h := r.state.look()
	if h.State != StateDown {
		return false
	}
	w.Problem(503, r.state.Name()+" is down: "+h.Reason)
	return true
}

// watchHealth looks at the services now and then, until stop is closed.
func (s *Server) watchHealth(stop <-chan struct{}) {
	tick := time.NewTicker(healthInterval)
	defer tick.Stop()
	for {
		for _, st := range s.states {
			st.look()
		}
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
}

// health answers GET /health, and GET /health/ready of the admin port: 503 when a critical service is down.
func (s *Server) health(w *Response, _ *Request) Outcome {
	type one struct {
		Status  string   `json:"status"`
		Reason  string   `json:"reason,omitempty"`
		Storage *Storage `json:"storage,omitempty"`
	}
	all := struct {
		one
		Services map[string]one `json:"services,omitempty"`
	}{one{Status: StateReady.String()}, nil}
	if len(s.states) > 0 {
		all.Services = make(map[string]one)
	}
	worst := StateReady
	for _, st := range s.states {
		h := st.look()
		this := one{Status: h.State.String(), Reason: h.Reason}
		if keeper, ok := st.Service.(interface{ Storage() Storage }); ok {
			storage := keeper.Storage()
			this.Storage = &storage
		}
		all.Services[st.Name()] = this
		if h.State == StateDown && !st.critical {
			h.State = StateDegraded // for the box
		}
		worst = max(worst, h.State)
	}
	all.Status = worst.String()
	w.Field("Cache-Control", "no-store")
	if worst == StateDown {
		w.Status = 503
		w.Field("Retry-After", "1")
	}
	w.JSON(all)
	return Done
}

// panicked logs and counts the panic of a handler and reports whether it was a memory fault, after which its
// service is down: what else it has mapped may be gone as well.
func (s *Server) panicked(route *route, p any) (fault bool) {
	s.panics.Add(s.cfg.sharedStripe(), 1)
	err := disk.Recovered(p)
	if _, ok := errors.AsType[*disk.Fault](err); !ok {
		s.cfg.Log.Error("BUG: a handler panicked", "route", route.Pattern, "error", err)
		return false
	}
	if st := route.state; st != nil {
		generation := st.generation()
		if st.fault.CompareAndSwap(nil, &generation) {
			st.look()
			s.cfg.Log.Error("FATAL: a handler cannot read mapped data", "service", st.Name(), "route",
				route.Pattern, "error", err)
		}
	}
	return true
}

// registerHealth adds the metric of the services' states.
func (s *Server) registerHealth() {
	for _, st := range s.states {
		s.cfg.Metrics.Gauge("weir_service_state", "State of a service: 0 ready, 1 degraded, 2 down.",
			func() float64 { return float64(st.state.Load()) }, "service", cmp.Or(st.Name(), "unnamed"))
	}
}
