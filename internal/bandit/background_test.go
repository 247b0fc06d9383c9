package bandit

import (
	"strings"
	"testing"

	"weir/internal/bandit/learning"
	"weir/internal/server"
	"weir/internal/systest"
)

// TestACommitThatPanicsRefusesEventsAndNothingElse has the goroutine that commits events panic.
func TestACommitThatPanicsRefusesEventsAndNothingElse(t *testing.T) {
	f := open(t, t.TempDir())
	s := serve(t, f, server.Config{})
	s.events(`{"item":"a","reward":1}`, accepted{1, 0})
	f.learner.Learn(learning.Batch{Done: func(int, error) { panic("a bug") }})
	systest.Eventually(t, "the panic", func() bool { return f.metric("weir_background_failures_total") == 1 })
	s.problem(s.do("POST", s.url+"/events", `{"item":"a","reward":1}`), 503, "cannot be saved")
	s.problem(s.do("POST", s.url+"/events", `{"item":"a","reward":1}`), 503, "cannot be saved")
	s.posterior(`{"items":["a"]`, 2, 1, "item")
	h := f.Health()
	if h.State != server.StateDegraded || !strings.Contains(h.Reason, "background task failed") {
		t.Errorf("health %v: %s", h.State, h.Reason)
	}
	if f.metric("weir_background_failures_total") != 1 || !strings.Contains(f.log.String(), "a bug") {
		t.Errorf("the panic is not counted, or not logged: %s", f.log)
	}
	f.close()
	open(t, f.dir)
}
