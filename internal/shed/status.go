package shed

import (
	"math"
	"time"
)

// Status is how a Shedder is, as people and programs read it.
type Status struct {
	IntervalSeconds float64            `json:"interval_seconds"`
	Dominant        string             `json:"dominant,omitempty"` // the signal with the largest pressure
	Pressure        float64            `json:"pressure"`           // its
	Probability     map[string]float64 `json:"probability"`        // of rejection, by class
	Admitted        map[string]uint64  `json:"admitted"`
	Rejected        map[string]uint64  `json:"rejected"`
	Failures        uint64             `json:"refresh_failures"`
	Signals         []SignalStatus     `json:"signals"`
}

// SignalStatus is how a signal is.
type SignalStatus struct {
	Name     string   `json:"name"`
	On       bool     `json:"on"`
	Unit     Unit     `json:"unit"`
	Value    *float64 `json:"value,omitempty"` // absent while it is off or cannot be read
	Soft     float64  `json:"soft"`
	Hard     float64  `json:"hard"`
	Pressure float64  `json:"pressure"`
	Failures uint64   `json:"refresh_failures"`
	Error    string   `json:"error,omitempty"` // why it cannot be read
}

// Status returns how s is now.
func (s *Shedder) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{
		IntervalSeconds: time.Duration(s.interval.Load()).Seconds(),
		Dominant:        *s.dominant.Load(),
		Pressure:        s.overall,
		Probability:     make(map[string]float64),
		Admitted:        make(map[string]uint64),
		Rejected:        make(map[string]uint64),
	}
	all := RejectProbabilityAt(s.overall)
	for c := range Classes {
		st.Probability[c.String()] = all.Of(c)
		st.Admitted[c.String()] = s.admitted[c].Value()
		st.Rejected[c.String()] = s.rejected[c].Value()
	}
	for _, w := range s.signals {
		one := SignalStatus{
			Name: w.Name, On: w.On, Unit: w.Unit, Soft: w.Soft, Hard: w.Hard,
			Pressure: w.pressure, Failures: w.failures.Value(), Error: w.failure,
		}
		if !math.IsNaN(w.value) {
			value := w.value
			one.Value = &value
		}
		st.Failures += one.Failures
		st.Signals = append(st.Signals, one)
	}
	return st
}
