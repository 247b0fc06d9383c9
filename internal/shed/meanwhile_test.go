package shed

import (
	"log/slog"
	"testing"
	"time"

	"weir/internal/metrics"
)

// A signal may be switched off while it is read: what was read of it then is not shown.
func TestASignalSwitchedOffWhileItIsReadHasNoValue(t *testing.T) {
	var s *Shedder
	s, err := New(Config{Interval: time.Second, Limits: map[string]Limits{"load": {true, 1, 2}}},
		metrics.New(1), slog.New(slog.DiscardHandler),
		Signal{Name: "load", Unit: Number, Read: func() (float64, error) {
			return 2, s.Apply(Config{Interval: time.Second, Limits: map[string]Limits{"load": {false, 1, 2}}})
		}})
	if err != nil {
		t.Fatal(err)
	}
	s.refresh()
	if st := s.Status(); st.Signals[0].Value != nil || st.Signals[0].Error != "" || st.Pressure != 0 ||
		s.RejectProbability() != 0 {
		t.Errorf("it is shown as %+v, with the pressure %v", st.Signals[0], st.Pressure)
	}
}
