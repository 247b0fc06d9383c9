package control

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/load/measure"
)

// plant is a target and a generator that exist in windows only: it is moved by steps of a millisecond, so
// that a minute of 100,000 requests a second takes no longer than one of 50.
type plant struct {
	kind     kind
	rate     func(t time.Duration) float64 // what it can serve a second
	base     time.Duration                 // latency without a queue
	jitter   time.Duration                 // most that is added, evenly
	slow     float64                       // share of requests that take slowBy more, without keeping others
	slowBy   time.Duration
	poisson  bool
	stalls   time.Duration // mean time between two of the machine's; 0 for none
	catchUp  bool          // makes good afterwards what it did not serve in a stall
	hiccups  time.Duration // mean time between two stalls of the generator
	bucket   float64       // seconds that sheds and refuses save up; 10 ms if 0
	inFlight int           // at most, beyond which requests are dropped; 0 for any number
	dies     time.Duration // when connections begin to be refused; 0 for never
	hangs    bool          // and are not refused then, but never answered
	back     time.Duration // when it answers again; 0 for never
	capacity float64       // of the generator, requests a second; 0 for enough

	rng                 *rand.Rand
	now                 time.Duration
	due, credit         float64
	queue               []cohort
	queued              int
	free                float64 // when the server of single is, in nanoseconds
	offered             float64 // a second, of late, to partly
	later               [2][]completion
	serving             int
	pressure            float64
	stallUntil          time.Duration
	nextStall, hicUntil time.Duration
	nextHiccup          time.Duration
	lost                []cohort // asked of a target that is gone
	late                []cohort // due, and not sent by a generator that stands still
}

// kind is what a plant does with more than it can serve.
type kind int

const (
	queues    kind = iota // they wait
	sheds                 // 503
	refuses               // the connection is cut
	grades                // 503 with a probability that grows with the queue, seen every 200 ms
	collapses             // they wait, and the longer the queue the less is served
	knee                  // nothing is lost, but latency grows as in a queue of random arrivals
	single                // they wait for one server, whose times are exponential
	// All are served at once, but a twentieth fails while more are asked for than the rate.
	partly
)

func (k kind) String() string {
	return [...]string{"queues", "sheds", "refuses", "grades", "collapses", "knee", "single", "partly"}[k]
}

type cohort struct {
	at time.Duration
	n  int
}

func newPlant(k kind, rate float64, seed uint64) *plant {
	return &plant{
		kind: k, rate: func(time.Duration) float64 { return rate }, base: time.Millisecond,
		jitter:  2 * time.Millisecond,
		catchUp: true, rng: rand.New(rand.NewPCG(seed, uint64(k))),
	}
}

// noisy adds stalls of 50 to 120 ms, now of the target, now of the generator.
func (p *plant) noisy() *plant {
	p.stalls, p.hiccups = 6*time.Second, 15*time.Second
	return p
}

const step = time.Millisecond

// window measures the next window at a rate, which is 100 ms and now and then a little more.
func (p *plant) window(rate float64, w *measure.Window) {
	w.Reset()
	w.Start = p.now
	length := 100 + p.rng.IntN(3)
	if p.rng.IntN(200) == 0 {
		length += p.rng.IntN(60)
	}
	for range length {
		p.step(rate, w)
	}
	w.End = p.now
	w.InFlight = p.queued + p.serving
	for _, c := range p.lost {
		w.InFlight += c.n
	}
	w.Connections = w.InFlight + 1
	if p.capacity > 0 {
		w.Busy = min(1, rate/p.capacity)
	}
}

func (p *plant) step(rate float64, w *measure.Window) {
	p.now += step
	stalled := p.stall(&p.stallUntil, &p.nextStall, p.stalls)
	hiccup := p.stall(&p.hicUntil, &p.nextHiccup, p.hiccups)

	mean := rate * step.Seconds()
	if p.poisson {
		p.due += float64(p.draw(mean))
	} else {
		p.due += mean
	}
	n := int(p.due)
	p.due -= float64(n)
	w.Intended += uint64(n)
	if n > 0 {
		p.late = append(p.late, cohort{p.now, n})
	}
	if !hiccup {
		can := math.MaxInt
		if p.capacity > 0 {
			can = int(p.capacity*step.Seconds()) + 1
		}
		for len(p.late) > 0 && can > 0 {
			c := &p.late[0]
			m := min(c.n, can)
			can -= m
			w.Sent += uint64(m)
			w.Lag.RecordValues(int64(max(p.now-c.at, 20*time.Microsecond)), int64(m))
			p.arrive(cohort{c.at, m}, w)
			if c.n -= m; c.n == 0 {
				p.late = p.late[1:]
			}
		}
	}
	if p.dead() {
		p.lose(w)
		return
	}
	p.serve(stalled, w)
	p.complete(w)
}

func (p *plant) dead() bool {
	return p.dies > 0 && p.now >= p.dies && (p.back == 0 || p.now < p.back)
}

// lose lets what a target that is gone was asked fail: at once, or after ten seconds.
func (p *plant) lose(w *measure.Window) {
	kind, after := measure.Refused, time.Duration(0)
	if p.hangs {
		kind, after = measure.TimedOut, 10*time.Second
	}
	p.lost = append(p.lost, p.queue...)
	for i := range p.later {
		for _, c := range p.later[i] {
			p.lost = append(p.lost, cohort{p.now, c.n})
		}
		p.later[i] = nil
	}
	p.queue, p.queued, p.serving = nil, 0, 0
	for len(p.lost) > 0 && p.lost[0].at+after <= p.now {
		w.Failed[kind] += uint64(p.lost[0].n)
		if p.hangs {
			w.Latency.RecordValues(int64(after), int64(p.lost[0].n)) //nolint:errcheck // it is in the range
		}
		p.lost = p.lost[1:]
	}
}

// stall reports whether something stands still now.
func (p *plant) stall(until, next *time.Duration, mean time.Duration) bool {
	if mean == 0 {
		return false
	}
	if *next == 0 {
		*next = p.now + time.Duration(p.rng.ExpFloat64()*float64(mean))
	}
	if p.now >= *next {
		*until = p.now + 50*time.Millisecond + time.Duration(p.rng.IntN(70))*time.Millisecond
		*next = *until + time.Duration(p.rng.ExpFloat64()*float64(mean))
	}
	return p.now < *until
}

func (p *plant) draw(mean float64) int {
	if mean > 50 {
		return max(0, int(math.Round(mean+math.Sqrt(mean)*p.rng.NormFloat64())))
	}
	n, limit, product := 0, math.Exp(-mean), p.rng.Float64()
	for product > limit {
		n++
		product *= p.rng.Float64()
	}
	return n
}

// arrive lets requests wait, or turns them away.
func (p *plant) arrive(c cohort, w *measure.Window) {
	if p.dead() {
		p.lost = append(p.lost, c)
		return
	}
	if p.inFlight > 0 {
		dropped := max(0, c.n-max(0, p.inFlight-p.queued-p.serving))
		w.Failed[measure.Dropped] += uint64(dropped)
		w.Sent -= uint64(dropped)
		c.n -= dropped
	}
	switch p.kind {
	case sheds, refuses:
		admitted := min(c.n, int(p.credit))
		p.credit -= float64(admitted)
		p.answer(w, c.at, admitted)
		if p.kind == sheds {
			w.Shed += uint64(c.n - admitted)
		} else {
			w.Failed[measure.Cut] += uint64(c.n - admitted)
		}
		return
	case single:
		mean := float64(time.Second) / p.rate(p.now)
		for i := range c.n {
			// Within its millisecond a request comes at its place, or anywhere.
			at := float64(c.at-step) + (float64(i)+0.5)/float64(c.n)*float64(step)
			if p.poisson {
				at = float64(c.at-step) + p.rng.Float64()*float64(step)
			}
			p.free = max(p.free, at) + mean*p.rng.ExpFloat64()
			done := time.Duration(p.free)
			p.later[0] = append(p.later[0],
				completion{max(done, p.now+1), max(time.Duration(p.free-at), measure.Shortest), 1})
		}
		p.serving += c.n
		return
	case partly:
		p.offered += (float64(c.n)/step.Seconds() - p.offered) * 0.01
		bad := 0
		if p.offered > p.rate(p.now) {
			bad = min(c.n, p.draw(0.05*float64(c.n)))
		}
		w.Failed[measure.Status] += uint64(bad)
		w.Latency.RecordValues(int64(p.base), int64(bad))
		p.answer(w, c.at, c.n-bad)
		return
	case grades:
		shed := 0
		for range c.n {
			if p.rng.Float64() < p.pressure {
				shed++
			}
		}
		w.Shed += uint64(shed)
		c.n -= shed
	}
	if c.n > 0 {
		p.queue = append(p.queue, c)
		p.queued += c.n
	}
}

// serve lets a step's worth of requests go.
func (p *plant) serve(stalled bool, w *measure.Window) {
	r := p.rate(p.now)
	wait := float64(p.queued) / r
	if p.kind == collapses {
		r *= 1 - 0.6*min(1, wait/0.2)
	}
	if p.kind == grades && p.now%(200*time.Millisecond) == 0 {
		p.pressure = min(1, max(0, (wait-0.01)/0.2))
	}
	if p.kind == knee {
		p.kneeServe(w, r)
		return
	}
	if !stalled || p.catchUp {
		p.credit += r * step.Seconds()
	}
	burst := max(1.5, r*0.002)
	switch {
	case stalled:
		return
	case p.kind == sheds || p.kind == refuses:
		p.credit = min(p.credit, max(2, r*max(0.01, p.bucket)))
		return
	}
	n := min(p.queued, int(p.credit))
	p.credit -= float64(n)
	if p.queued == n {
		p.credit = min(p.credit, burst)
	}
	p.queued -= n
	for n > 0 {
		c := &p.queue[0]
		m := min(n, c.n)
		p.answer(w, c.at, m)
		n -= m
		if c.n -= m; c.n == 0 {
			p.queue = p.queue[1:]
		}
	}
}

// kneeServe answers everything below the rate at once, with the waiting time of random arrivals.
func (p *plant) kneeServe(w *measure.Window, r float64) {
	arrived := p.queued
	p.credit += (float64(arrived)/step.Seconds() - p.credit) * 0.02 // the load of the last 50 ms
	share := min(0.99, p.credit/r)
	for _, c := range p.queue {
		for range c.n {
			w.Served++
			d := time.Duration(p.rng.ExpFloat64() * float64(p.base) / (1 - share))
			measure.Record(w.Latency, p.now-c.at+d)
		}
	}
	p.queue, p.queued = p.queue[:0], 0
}

// completion is of requests that are being served: slow ones among others.
type completion struct {
	at      time.Duration
	latency time.Duration
	n       int
}

// answer begins to serve n requests that were due at a time.
func (p *plant) answer(w *measure.Window, at time.Duration, n int) {
	if n == 0 {
		return
	}
	slow := 0
	if p.slow > 0 {
		slow = min(n, p.draw(p.slow*float64(n)))
		p.later[1] = append(p.later[1], completion{p.now + p.base + p.slowBy, p.now - at + p.base + p.slowBy,
			slow})
	}
	d := p.now - at + p.base + time.Duration(p.rng.Int64N(int64(p.jitter)+1))
	p.later[0] = append(p.later[0], completion{p.now + p.base, max(d, measure.Shortest), n - slow})
	p.serving += n
}

// complete counts what is served by now.
func (p *plant) complete(w *measure.Window) {
	for i := range p.later {
		for len(p.later[i]) > 0 && p.later[i][0].at <= p.now {
			c := p.later[i][0]
			p.later[i] = p.later[i][1:]
			w.Served += uint64(c.n)
			w.Latency.RecordValues(int64(c.latency), int64(c.n))
			p.serving -= c.n
		}
	}
}

// moment is what a search said after a window.
type moment struct {
	at       time.Duration
	rate     float64
	phase    string
	ceiling  Ceiling
	known    bool
	inFlight int
}

// drive lets a controller steer a plant for a time.
func drive(c Controller, p *plant, d time.Duration) (trace []moment, last Decision) {
	w := measure.NewWindow()
	last = c.Begin()
	for p.now < d && !last.Done {
		p.window(last.Rate, w)
		m := moment{at: p.now, rate: last.Rate, phase: last.Phase, inFlight: w.InFlight}
		last = c.Next(w)
		if s, ok := c.(Searcher); ok {
			m.ceiling, m.known = s.Ceiling()
		}
		trace = append(trace, m)
	}
	return trace, last
}

// some of all cases are tried by go test -short, the first two.
func some[T any](all ...T) []T {
	if testing.Short() {
		return all[:2]
	}
	return all
}

// seeds is how many of n seeds a test tries: go test -short tries one.
func seeds[N int | uint64](n N) N {
	if testing.Short() {
		return 1
	}
	return n
}
