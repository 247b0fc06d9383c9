package control

import (
	"math"
	"testing"
	"time"
)

// at returns what a run did at a time.
func at(trace []moment, t time.Duration) moment {
	for _, m := range trace {
		if m.at >= t {
			return m
		}
	}
	return moment{}
}

func TestAConstantLoadRisesWarmsUpAndStays(t *testing.T) {
	p := newPlant(queues, 5000, 1)
	c := Constant(ConstantOptions{Rate: 1000, Ramp: 4 * time.Second, Warmup: 2 * time.Second,
		Duration: 5 * time.Second})
	if d := c.Begin(); d.Measured || d.Phase != "ramp" || d.Rate <= 0 || d.Rate > 50 {
		t.Errorf("it begins with %+v", d)
	}
	trace, last := drive(c, p, time.Minute)
	if end := trace[len(trace)-1].at; !last.Done || last.Reason != "" || end < 10900*time.Millisecond ||
		end > 11300*time.Millisecond {
		t.Errorf("it ended at %v with %+v", end, last)
	}
	if m := at(trace, 2*time.Second); math.Abs(m.rate-500) > 30 || m.phase != "ramp" {
		t.Errorf("in the middle of the ramp: %+v", m)
	}
	if m := at(trace, 5*time.Second); m.rate != 1000 || m.phase != "warmup" {
		t.Errorf("warming up: %+v", m)
	}
	if m := at(trace, 8*time.Second); m.rate != 1000 || m.phase != "steady" {
		t.Errorf("later: %+v", m)
	}
}

func TestAConstantLoadIsChangedByAPerson(t *testing.T) {
	p := newPlant(queues, 5000, 1)
	c := Constant(ConstantOptions{Rate: 1000})
	drive(c, p, time.Second)
	for _, wrong := range []float64{0, -1, math.NaN(), math.Inf(1), 2 * MaxRate} {
		if err := c.SetRate(wrong); err == nil {
			t.Errorf("a rate of %v is accepted", wrong)
		}
	}
	if err := c.SetRate(3000); err != nil {
		t.Fatal(err)
	}
	trace, last := drive(c, p, 2*time.Second)
	if last.Done || trace[len(trace)-1].rate != 3000 {
		t.Errorf("afterwards it is %+v", last)
	}
	closed := Constant(ConstantOptions{Connections: 64})
	if d := closed.Begin(); d.Connections != 64 || d.Rate != 0 || !d.Measured {
		t.Errorf("a closed load begins with %+v", d)
	}
	if closed.SetRate(2e6) == nil {
		t.Error("two million connections are accepted")
	}
	if err := closed.SetRate(17); err != nil || closed.Begin().Connections != 17 {
		t.Errorf("17 connections are %+v, %v", closed.Begin(), err)
	}
}

func TestAConstantLoadStopsWhenAConditionHolds(t *testing.T) {
	conditions, err := ParseConditions([]string{"errors>50%", "p95>50ms for 2s"})
	if err != nil {
		t.Fatal(err)
	}
	// The condition holds from the beginning, but warm-up does not count.
	p := newPlant(queues, 900, 1)
	c := Constant(ConstantOptions{Rate: 1000, Warmup: 3 * time.Second, StopWhen: conditions})
	trace, last := drive(c, p, time.Minute)
	end := trace[len(trace)-1].at
	if !last.Done || end < 5900*time.Millisecond || end > 6300*time.Millisecond {
		t.Errorf("it ended at %v with %+v", end, last)
	}
	if want := "p95 > 50ms for 2s: it was "; len(last.Reason) <= len(want) ||
		last.Reason[:len(want)] != want {
		t.Errorf("the reason is %q", last.Reason)
	}
}

func TestAClassicRunFollowsItsStages(t *testing.T) {
	stages, err := ParseStages("1000/s:2s,->3000/s:4s,500/s:1s", 0)
	if err != nil {
		t.Fatal(err)
	}
	c := Classic(stages, time.Second, nil)
	trace, last := drive(c, newPlant(queues, 5000, 1), time.Minute)
	if end := trace[len(trace)-1].at; !last.Done || end < 7900*time.Millisecond ||
		end > 8300*time.Millisecond {
		t.Errorf("it ended at %v with %+v", end, last)
	}
	for after, want := range map[time.Duration]moment{
		500 * time.Millisecond: {rate: 1000, phase: "warmup"}, 2 * time.Second: {rate: 1000, phase: "steady"},
		5 * time.Second: {rate: 2000, phase: "ramp"}, 7600 * time.Millisecond: {rate: 500, phase: "steady"},
	} {
		if m := at(trace, after); math.Abs(m.rate-want.rate) > 60 || m.phase != want.phase {
			t.Errorf("after %v: %+v, want %+v", after, m, want)
		}
	}
	if _, known := c.Ceiling(); known {
		t.Error("a ceiling is known, though nothing was too much")
	}
	if c.SetRate(5) == nil {
		t.Error("the rate of a classic run can be changed")
	}
}

func TestAClassicRunSaysWhereItStopped(t *testing.T) {
	for name, test := range map[string]struct {
		stages    string
		low, high float64
	}{
		"ramp":  {"->2000/s:100s", 950, 1060},
		"steps": {"500/s:10s,900/s:10s,1200/s:10s", 900, 1200},
	} {
		t.Run(name, func(t *testing.T) {
			stop, _ := ParseConditions([]string{"p95>50ms for 2s"})
			c := Classic(stagesOf(t, test.stages), 0, stop)
			_, last := drive(c, newPlant(queues, 1000, 1), 2*time.Minute)
			if !last.Done || last.Reason == "" {
				t.Fatalf("it ended with %+v", last)
			}
			found, known := c.Ceiling()
			if !known || found.Low < test.low || found.High > test.high || found.Low >= found.High ||
				found.Rate != found.Low || found.Limit != "p95" || !found.Converged {
				t.Errorf("the ceiling is %+v, %v", found, known)
			}
		})
	}
}

func stagesOf(t *testing.T, text string) []Stage {
	t.Helper()
	stages, err := ParseStages(text, 0)
	if err != nil {
		t.Fatal(err)
	}
	return stages
}
