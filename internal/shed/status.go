package shed

import (
	"fmt"
	"math"
	"strings"
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
		IntervalSeconds: s.interval.Seconds(),
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

// Change says what is to be different about a signal; what is nil stays.
type Change struct {
	On   *bool    `json:"on"`
	Soft *float64 `json:"soft"`
	Hard *float64 `json:"hard"`
}

// Set changes signals, by name, while they are watched: all of them, or with an error none.
func (s *Shedder) Set(changes map[string]Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make(map[*watched]Limits)
	for name, c := range changes {
		w := s.find(name)
		if w == nil {
			names := make([]string, len(s.signals))
			for i, w := range s.signals {
				names[i] = w.Name
			}
			return fmt.Errorf("there is no signal %.40q; there are %s", name, strings.Join(names, ", "))
		}
		l := w.Limits
		if c.On != nil {
			l.On = *c.On
		}
		if c.Soft != nil {
			l.Soft = *c.Soft
		}
		if c.Hard != nil {
			l.Hard = *c.Hard
		}
		if err := w.check(l); err != nil {
			return err
		}
		next[w] = l
	}
	for w, l := range next {
		s.log.Info("the thresholds of a signal of overload have changed", "signal", w.Name, "on", l.On,
			"soft", l.Soft, "hard", l.Hard)
		if !l.On {
			w.value, w.failure = math.NaN(), ""
		}
		w.Limits = l
	}
	s.publish()
	return nil
}
