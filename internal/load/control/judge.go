package control

import (
	"cmp"
	"math"
	"slices"
	"time"

	"weir/internal/load/measure"
)

// What is healthy where a person does not say otherwise.
const (
	leastSuccess  = 0.99
	mostShed      = 0.01
	leastAchieved = 0.97
	// slack is by how much the latency's p99 may be above that of a low load, or by as much again as that
	// is, if that is more; and by how much the queue may grow while a load is judged.
	slack = 25 * time.Millisecond
)

const (
	// blockRequests is how many requests a block of windows has: quantiles of fewer say nothing.
	blockRequests = 20
	// overallBlock is that where a load is judged by all its requests together.
	overallBlock = 100
	// badShare is how many of its blocks may be bad for a load to be healthy still: a machine stalls now
	// and then.
	badShare = 0.2
	// sureTime is how long latencies are bad without getting better before the load is to blame.
	sureTime = time.Second
	// mostSettle is the most that is not judged when a load begins, while its first answers are on their way.
	mostSettle = 5 * time.Second
	// mostLag is how late a generator may be with one of 100 requests for the window to count.
	mostLag = 10 * time.Millisecond
	// busyGenerator is the share of its time from which on a generator is the limit.
	busyGenerator = 0.97
	// farBeyond is the factor of a limit from which on latencies leave no doubt.
	farBeyond = 4
	// losingShare is the share of the requests that were due and did not end, from which on a block loses,
	// and servedShare that of those that were served, up to which goodput is less than the load.
	losingShare = 0.05
	servedShare = 0.995
	// refusedShare is the share of requests that were not served from which on a few blocks are enough.
	refusedShare = 0.1
	// drainShare is what the later half of the blocks has of the earlier half's queue, when it drains.
	drainShare = 0.98
	// trendBlocks is how many blocks it takes to say that a queue grows.
	trendBlocks = 6
)

// A load that is judged by all its requests is refused early, after a part of its time, where latencies are
// beyond their limits by a factor that so few requests do not reach by chance.
var earlyLooks = []struct{ part, factor float64 }{{0.25, 2}, {0.5, 1.3}}

// assessment is what became of judging a load.
type assessment struct {
	decided, healthy bool
	// sure says that an unhealthy load was clearly an overload; else a second look is worth its time.
	sure bool
	// limit names the signal that said no.
	limit string
	// goodput is what was served of an unhealthy load that was more than the target could serve, else 0.
	goodput float64
	seconds float64 // in which goodput was measured
	p99     float64 // of all the judged time, in seconds; 0 when too few requests were answered
}

// block is one or several windows with enough requests to speak of.
type block struct {
	start, end time.Duration
	measure.Counts
	unsent    float64 // requests that were due and that the generator had not got to at the end
	backlog   float64 // requests that were due and not over at the end
	limit     string  // what was bad of latencies, empty for nothing
	far       bool    // far beyond the limit
	losing    bool    // clearly fewer requests ended than were due
	generator bool    // at its own limit
}

// judge watches one load until it can say whether the target sustains it.
type judge struct {
	*health
	rate    float64
	need    time.Duration // that a load has to be healthy for
	quorum  int           // blocks in a row that are clearly bad and leave no doubt
	settle  time.Duration // at the beginning, which is not judged
	overall bool          // judge by all requests together, see profile
	margin  float64       // the share of their limits that latencies may have, judged so

	begin    time.Duration
	started  bool
	answered bool // of the first load only
	backlog  float64
	acc      *measure.Window // the block that is not full yet
	scratch  *measure.Window
	all      *measure.Window
	blocks   []block

	p99                float64 // of the last block, in seconds
	unsent             float64
	windows, disturbed int // the latter by the generator
}

// newJudge judges the load of rate, at whose beginning inFlight requests were waiting.
func newJudge(h *health, rate float64, need time.Duration, inFlight int) *judge {
	return &judge{
		health: h, rate: rate, quorum: 3, margin: 1, need: max(need, h.patience()),
		backlog: float64(inFlight),
		settle:  usualWindow + min(time.Duration(h.baseline()*float64(time.Second)), mostSettle),
		acc:     measure.NewWindow(), scratch: measure.NewWindow(), all: measure.NewWindow(),
	}
}

// see takes one more window and says what is known now.
func (j *judge) see(w *measure.Window) assessment {
	if !j.started {
		j.started, j.begin = true, w.Start
	}
	j.backlog = max(0, j.backlog+float64(w.Intended)-float64(w.Done()))
	j.unsent = max(0, j.unsent+float64(w.Intended)-float64(w.Sent+w.Failed[measure.Dropped]))
	if j.baseline() == 0 && w.Done() > 0 && !j.answered {
		// The first answers of all: others take longer.
		j.answered = true
		j.settle = max(j.settle, min(2*(w.End-j.begin), mostSettle))
	}
	if w.End-j.begin <= j.settle || j.baseline() == 0 && !j.answered && w.End-j.begin < mostSettle {
		return assessment{}
	}
	j.windows++
	if w.Lag.ValueAtPercentile(99) > int64(mostLag) {
		// What came of it is the generator's doing. If it goes on, so is the ceiling.
		j.disturbed++
		if w.End-j.begin > j.need && w.End-j.begin > sureTime && 2*j.disturbed > j.windows {
			return assessment{decided: true, sure: true, limit: "generator"}
		}
		return assessment{}
	}
	j.acc.Add(w)
	j.acc.InFlight = w.InFlight
	j.acc.Target = w.Target
	if j.overall {
		if j.acc.Intended < overallBlock && j.acc.End-j.acc.Start < mostSettle {
			return assessment{}
		}
		j.close()
		return j.judgeWhole()
	}
	if j.acc.Intended < blockRequests && j.acc.End-j.acc.Start < sureTime {
		return assessment{}
	}
	j.close()
	return j.assessment()
}

// close makes a block of what was accumulated.
func (j *judge) close() {
	w := j.acc
	b := block{
		start: w.Start, end: w.End, Counts: w.Counts, backlog: j.backlog, unsent: j.unsent,
	}
	lost := float64(w.Intended) - float64(w.Done())
	b.losing = lost > max(2, losingShare*float64(w.Intended))
	p99 := float64(w.Latency.ValueAtPercentile(99)) / 1e9
	j.p99 = p99
	silent := w.Done() == 0 && w.InFlight > 0
	for i := range j.latency {
		if v := j.latency[i].Judge(w); v.Known && !v.Holds && (w.Done() > 0 || silent) {
			b.limit = j.latency[i].Signal()
			b.far = b.far || j.latency[i].ofLatency() && v.Value > farBeyond*j.latency[i].limit
		}
	}
	if limit := j.health.limit(); j.relative && (p99 > limit || silent) {
		b.limit = "p99"
		b.far = p99 > farBeyond*limit
	}
	if b.limit == "" && b.losing && math.IsInf(j.health.limit(), 1) {
		b.limit = "queue"
	}
	lag := float64(w.Lag.ValueAtPercentile(99)) / 1e9
	b.generator = w.Busy >= busyGenerator || b.limit != "" && lag >= p99/2 && lag > 0
	j.blocks = append(j.blocks, b)
	j.all.Add(w)
	w.Reset()
}

// assessment is what all the blocks say together.
func (j *judge) assessment() assessment {
	n := len(j.blocks)
	last := j.blocks[n-1]
	judged := last.end - j.blocks[0].start

	// Of late: a hiccup at the beginning is forgotten if there is time enough after it.
	first := n - 1
	for first > 0 && last.end-j.blocks[first].start < j.need-usualWindow/2 {
		first--
	}
	late := j.blocks[first:]
	bad := 0
	for _, b := range late {
		if b.limit != "" {
			bad++
		}
	}
	run := n // where the last run of bad blocks begins
	for run > 0 && j.blocks[run-1].limit != "" {
		run--
	}
	running := j.blocks[run:]

	share := j.violatedShare(j.withoutStalls(late))
	if share != "" && j.lastAll(func(b block) bool { return j.violatedShare([]block{b}) != "" }) {
		return j.unhealthy(share, j.lastAll(block.refused))
	}
	if j.lastAll(func(b block) bool { return b.limit != "" && b.losing }) {
		return j.unhealthy(last.limit, true)
	}
	if len(running) >= 3 && last.end-running[0].start >= sureTime && !j.draining(running) {
		return j.unhealthy(last.limit, j.lastAll(func(b block) bool { return b.far }))
	}
	if judged < j.need-usualWindow/2 {
		return assessment{}
	}
	if share != "" {
		return j.unhealthy(share, false)
	}
	if j.growing(late) {
		return j.unhealthy("queue", false)
	}
	if last.limit == "" && float64(bad) <= badShare*float64(len(late)) {
		o := assessment{decided: true, healthy: true}
		if j.all.Latency.TotalCount() >= blockRequests {
			o.p99 = float64(j.all.Latency.ValueAtPercentile(99)) / 1e9
		}
		return o
	}
	if judged > 2*j.need+3*time.Second {
		limit := last.limit
		for _, b := range late {
			if limit == "" {
				limit = b.limit
			}
		}
		return j.unhealthy(limit, false)
	}
	return assessment{}
}

// judgeWhole assesses all requests together. At random times they queue now and then at any load, and for
// long close to the ceiling, so that a few blocks say little.
func (j *judge) judgeWhole() assessment {
	last := j.blocks[len(j.blocks)-1]
	judged := last.end - j.blocks[0].start
	share := j.violatedShare(j.blocks)
	if share != "" && j.lastAll(block.refused) {
		return j.unhealthy(share, true)
	}
	if j.lastAll(func(b block) bool { return b.limit != "" && b.losing }) {
		return j.unhealthy(last.limit, true)
	}
	sure := judged > mostSettle // a stall of the machine is not much of it
	for _, early := range earlyLooks {
		if judged.Seconds() > early.part*j.need.Seconds() && len(j.blocks) > 1 {
			if limit := j.violatedOverall(early.factor); limit != "" {
				return j.unhealthy(limit, sure)
			}
		}
	}
	if judged < j.need-usualWindow/2 {
		return assessment{}
	}
	if share != "" {
		return j.unhealthy(share, sure)
	}
	if limit := j.violatedOverall(j.margin); limit != "" {
		return j.unhealthy(limit, sure)
	}
	if j.growing(j.blocks) {
		return j.unhealthy("queue", false)
	}
	return assessment{decided: true, healthy: true, p99: float64(j.all.Latency.ValueAtPercentile(99)) / 1e9}
}

// violatedOverall names a latency that is beyond its limit by a factor in all that was judged, or another
// figure that is beyond its own; such are not looked at early.
func (j *judge) violatedOverall(factor float64) string {
	for i := range j.latency {
		c := &j.latency[i]
		v := c.Judge(j.all)
		beyond := !v.Holds && (factor == 1 || factor == j.margin)
		if c.ofLatency() && !c.above && factor != 1 {
			beyond = v.Value > factor*c.limit
		}
		if v.Known && beyond {
			return c.Signal()
		}
	}
	if p99 := float64(j.all.Latency.ValueAtPercentile(99)) / 1e9; j.relative &&
		p99 > factor*j.health.limit() {
		return "p99"
	}
	return ""
}

// excess is how far latencies are beyond their limits, in all that was judged: 1 is at a limit.
func (j *judge) excess() float64 {
	var most float64
	for i := range j.latency {
		if c := &j.latency[i]; c.ofLatency() && !c.above {
			most = max(most, c.Judge(j.all).Value/c.limit)
		}
	}
	return most
}

// lastAll reports whether the last blocks all are as said: so many that it was no stall.
func (j *judge) lastAll(is func(block) bool) bool {
	n := len(j.blocks)
	if n < j.quorum {
		return false
	}
	for _, b := range j.blocks[n-j.quorum:] {
		if !is(b) {
			return false
		}
	}
	return true
}

// lost reports whether some of the requests were not served.
func (b block) lost() bool { return b.Shed+b.Errors() > 0 }

// refused reports whether far more than a little was not served.
func (b block) refused() bool {
	return float64(b.Shed+b.Errors()) > refusedShare*float64(b.Done())
}

// withoutStalls returns the blocks without the tenth of them, and one at least of more than four, of which
// the most was not served: a stall.
func (j *judge) withoutStalls(blocks []block) []block {
	if len(blocks) < 5 {
		return blocks
	}
	lost := func(b block) float64 {
		return float64(b.Shed+b.Errors()) / float64(max(1, b.Done()))
	}
	sorted := slices.SortedStableFunc(slices.Values(blocks), func(a, b block) int {
		return cmp.Compare(lost(a), lost(b))
	})
	return sorted[:len(sorted)-max(1, len(sorted)/10)]
}

// violatedShare names the first share that blocks do not have as it should be. Which requests were sent is
// counted to the last but one block: one may end in the middle of a stall.
func (j *judge) violatedShare(blocks []block) string {
	w := j.scratch
	w.Start, w.End, w.Counts = 0, 0, measure.Counts{}
	for _, b := range blocks {
		w.End += b.end - b.start
		w.Counts.Add(&b.Counts)
	}
	w.Sent = w.Intended
	if n := len(blocks); n >= 3 {
		late := min(blocks[n-1].unsent, blocks[n-2].unsent) - blocks[0].unsent
		w.Sent -= uint64(min(max(0, late), float64(w.Intended)))
	}
	if w.Done() == 0 {
		return ""
	}
	for i := range j.shares {
		if v := j.shares[i].Judge(w); v.Known && !v.Holds {
			return j.shares[i].Signal()
		}
	}
	return ""
}

// draining reports whether the queue gets shorter over the blocks: what a stall left behind, and the load
// lets go.
func (j *judge) draining(blocks []block) bool {
	half := len(blocks) / 2
	mean := func(blocks []block) float64 {
		var sum float64
		for _, b := range blocks {
			sum += b.backlog
		}
		return sum / float64(len(blocks))
	}
	return half > 0 && mean(blocks[half:]) < drainShare*mean(blocks[:half])
}

// growing reports whether the queue got longer all the time, by more than the slack.
func (j *judge) growing(blocks []block) bool {
	if len(blocks) < trendBlocks {
		return false
	}
	lag := len(blocks) / 4
	var slopes []float64
	for i := lag; i < len(blocks); i++ {
		seconds := (blocks[i].end - blocks[i-lag].end).Seconds()
		slopes = append(slopes, (blocks[i].backlog-blocks[i-lag].backlog)/j.rate/seconds)
	}
	slices.Sort(slopes)
	judged := (blocks[len(blocks)-1].end - blocks[0].end).Seconds()
	typical := slopes[len(slopes)/2] * judged
	whole := (blocks[len(blocks)-1].backlog - blocks[0].backlog) / j.rate
	chance := 3.
	if j.overall {
		chance = 2 * math.Sqrt(float64(j.all.Intended))
	}
	return min(typical, whole) > slack.Seconds() && min(typical, whole)*j.rate > chance
}

// unhealthy makes up the assessment of an overload.
func (j *judge) unhealthy(limit string, sure bool) assessment {
	o := assessment{decided: true, limit: limit, sure: sure}
	generator := 0
	for _, b := range j.blocks {
		if b.generator {
			generator++
		}
	}
	drops, failures := j.failed()
	switch {
	case 2*generator >= len(j.blocks), limit == "achieved" && drops == 0:
		o.limit = "generator"
	case (limit == "errors" || limit == "success") && 2*drops > failures:
		o.limit = "achieved" // for want of connections
	}
	// A bucket may have been full, and a queue empty, at the beginning; and the ceiling may have come down
	// since. The first block in which it shows is both.
	blocks := j.blocks[len(j.blocks)/3:]
	for _, shows := range []func(block) bool{block.lost, func(b block) bool { return b.losing }} {
		from := len(blocks)
		for from > 0 && shows(blocks[from-1]) {
			from--
		}
		if len(blocks)-from >= 3 {
			blocks = blocks[from+1:]
		}
	}
	var served, due uint64
	var seconds float64
	for _, b := range trimmed(blocks) {
		served += b.Served
		due += b.Intended
		seconds += (b.end - b.start).Seconds()
	}
	chance := 1.
	if j.overall {
		chance = 3 * math.Sqrt(float64(due))
	}
	if float64(served) < servedShare*float64(due)-chance {
		o.goodput, o.seconds = float64(served)/seconds, seconds
	}
	return o
}

// trimmed returns the blocks without the fifth of them that served least, and the fifth that served most: a
// stall, and what followed it.
func trimmed(blocks []block) []block {
	if len(blocks) < 5 {
		return blocks
	}
	rate := func(b block) float64 { return float64(b.Served) / (b.end - b.start).Seconds() }
	sorted := slices.SortedStableFunc(slices.Values(blocks), func(a, b block) int {
		return cmp.Compare(rate(a), rate(b))
	})
	cut := len(blocks) / 5
	return sorted[cut : len(sorted)-cut]
}

// failed counts the requests that were dropped, and all that were not served, those among them.
func (j *judge) failed() (drops, failures uint64) {
	for _, b := range j.blocks {
		drops += b.Failed[measure.Dropped]
		failures += b.Errors()
	}
	return drops, failures
}

// recovered reports whether the latest windows, as many as it takes to have some requests, are of a target
// that has recovered; false for known when there are too few yet.
func (j *judge) recovered(w *measure.Window) (recovered, known bool) {
	j.backlog = max(0, j.backlog+float64(w.Intended)-float64(w.Done()))
	j.acc.Add(w)
	j.acc.InFlight, j.acc.Target = w.InFlight, w.Target
	if j.acc.Intended < blockRequests/4 && j.acc.End-j.acc.Start < sureTime {
		return false, false
	}
	j.close()
	b := j.blocks[len(j.blocks)-1]
	// Before it is known what latency is usual, few in flight have to do.
	waiting := math.IsInf(j.health.limit(), 1) && b.backlog > max(3, 0.1*j.rate)
	return b.limit == "" && !waiting && !b.losing && j.violatedShare(j.blocks[len(j.blocks)-1:]) == "", true
}
