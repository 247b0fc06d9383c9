package report

import (
	"fmt"
	"time"

	"weir/internal/load/measure"
)

// When the generator was its own limit. The lag counts as such only where it is a good part of what was
// measured.
const (
	tooBusy     = 0.90
	lagMicros   = 1000
	lagShare    = 0.20
	keptUp      = 0.99
	mostDropped = 0.001 // of the intended requests
)

// shownSilence is how long nothing is answered before a point says so.
const shownSilence = 300 * time.Millisecond

// When nothing being answered is worth a mark.
const (
	leastSilence = time.Second
	leastLost    = 5 // requests
)

// gone says that nothing was answered at the end of the run, "" if it was. The lock is held.
func (r *Recorder) gone() string {
	s := &r.silence
	lost := make(map[string]uint64)
	for kind, n := range s.Failed {
		if n > 0 && measure.Failure(kind) != measure.Dropped {
			lost[measure.Failure(kind).String()] = n
		}
	}
	if !s.Answered || r.last-s.Last < leastSilence || s.Lost() < leastLost {
		return ""
	}
	text := fmt.Sprintf("Nothing was answered any more from %s on, as if the target were gone: %s.",
		Seconds(s.Last.Seconds()), failures(lost))
	if r.o.Search {
		text += " What is said of the ceiling is what was known before."
	}
	return text
}

// judge decides whether the generator was the limit and writes the marks, the gravest first. The lock is
// held.
func (r *Recorder) judge(res *Result) {
	t, g := r.total, &res.Generator
	mark := func(format string, args ...any) { res.Marks = append(res.Marks, fmt.Sprintf(format, args...)) }

	if r.seconds == 0 {
		mark("Nothing was measured: the run ended before its warm-up was over.")
	} else if res.Requests == 0 {
		mark("No request was answered in the measured time.")
	}
	if n := len(r.changes); n > 0 {
		last := r.changes[n-1]
		mark("The load was changed by hand while the run went, %s times, the last time to %s at %s: the "+
			"plan does not say it all.",
			Count(uint64(n)), digits3(last.Load), Seconds(last.At))
	}
	gone := r.gone()
	if gone != "" {
		mark("%s", gone)
	}
	dropped := t.Failed[measure.Dropped]
	if late := float64(t.Sent) < keptUp*float64(t.Intended); late && dropped == 0 {
		g.Saturated = true
		mark("The generator could not keep the schedule: it sent %s of the intended %s. The target may "+
			"sustain more than was measured.",
			Share(float64(t.Sent)/float64(t.Intended)), PerSecond(res.Rate.Intended))
	}
	if g.Busy > tooBusy {
		g.Saturated = true
		mark("The generator's own CPU was the limit: its busiest thread worked %s of the time. Give it "+
			"more threads, processors of its own, or more machines (--agents).",
			Share(g.Busy))
	}
	if g.LagP99 > lagMicros && g.LagP99 > lagShare*res.Latency.P99 && res.Latency.P99 > 0 {
		g.Saturated = true
		mark("The generator was late by %s at p99, a good part of the %s that were measured. The target is "+
			"faster than it looks.",
			Micros(g.LagP99), Micros(res.Latency.P99))
	}
	if float64(dropped) > mostDropped*float64(t.Intended) {
		mark("%s requests were dropped, never sent: all connections were busy. They count as errors; "+
			"--max-connections and the limit of open files (ulimit -n) allow more.",
			Count(dropped))
	}
	if res.Redirects > 0 {
		mark("%s answers were redirects, which are not followed: they count as served, but what they lead "+
			"to was not asked for.", Count(res.Redirects))
	}
	if r.o.TargetMetrics {
		switch m := r.metrics; {
		case m.seen == 0 && r.windows > 0:
			mark("The target's metrics could not be read, so nothing is known of its CPU and memory.")
		case m.lost > 0:
			mark("The target's metrics were lost at %s and missing for %s of the run since they were first "+
				"read.",
				Seconds(m.firstLost), Share(float64(m.lost)/float64(m.lost+m.seen)))
		}
	}
	if r.o.Search {
		switch c := res.Ceiling; {
		case gone != "": // a longer run would not have found it
		case r.refused != "":
			mark("The search found no ceiling: the target was healthy at no rate that was tried, by the "+
				"signal %s.", r.refused)
		case c == nil:
			mark("The search found no ceiling: the run ended before the target said no.")
		case !c.Converged && c.High == 0:
			mark("The search did not converge: the target sustained %s, and no load was too much. A longer "+
				"--duration finds its end.", PerSecond(c.Low))
		case !c.Converged:
			mark("The search did not converge: the ceiling is somewhere from %s to %s. A longer --duration "+
				"narrows it.",
				PerSecond(c.Low), PerSecond(c.High))
		}
	}
}
