package control

import "time"

// profile is a set of numbers that a search uses for one kind of load. How far to look and how far to stay
// below the ceiling are numbers of their own on purpose: a search with one number for both oscillates.
type profile struct {
	// below and above are how far from the ceiling the load that has to be sustained and the one that has
	// to overload it are looked for, relative to it. Above is farther: a bucket that fills while less is
	// asked for hides a small excess.
	below, above float64
	// floor is the load between two checks, as a share of the ceiling.
	floor float64
	// spread is how far from the truth the ceiling may be, at least. By simulation: the p99 of 1,000
	// requests that queue behind each other is that uncertain.
	spread float64
	// overall has a load judged by all its requests together instead of block by block: where requests
	// queue at random, a few blocks say little.
	overall bool
	// climb, judge and confirm are how long a load has to be healthy on the way up, near the ceiling, and
	// before it is reported or what contradicts it is given up.
	climb, judge, confirm sampling
}

// sampling is how long a load is looked at: until it has made so many requests, within bounds.
type sampling struct {
	least    time.Duration
	requests float64
	most     time.Duration
}

func (s sampling) at(rate float64) time.Duration {
	return min(max(s.least, time.Duration(s.requests/rate*float64(time.Second))), s.most)
}

func (s sampling) times(factor float64) sampling {
	scaled := func(d time.Duration) time.Duration { return time.Duration(factor * float64(d)) }
	return sampling{scaled(s.least), factor * s.requests, scaled(s.most)}
}

// Preset says how much time a search takes and how close it looks.
type Preset string

// The presets: for a first look, for every day, and for a figure to publish.
const (
	Quick   Preset = "quick"
	Normal  Preset = "normal"
	Careful Preset = "careful"
)

// Presets are all of them.
var Presets = []Preset{Quick, Normal, Careful}

// efforts are what presets make of a profile: factors of how far from the ceiling loads are judged, and of
// how long they are judged and held.
var efforts = map[Preset]struct{ distance, time float64 }{
	Quick: {2, 0.5}, Normal: {1, 1}, Careful: {0.6, 2.5},
}

// confirmTime is long enough to empty a token bucket of usual size.
const confirmTime = 12 * time.Second

var (
	climbing30  = sampling{400 * time.Millisecond, 30, 2 * time.Second}
	climbing100 = sampling{400 * time.Millisecond, 100, 10 * time.Second}
	judging1000 = sampling{2 * time.Second, 1000, time.Minute}

	// regular is for loads whose requests come at even intervals, or in such numbers that every window has
	// enough. A queue that grows by 1.5 % of the load shows within 2 s.
	regular = profile{
		below: 0.015, above: 0.0225, floor: 0.96,
		climb: climbing30, judge: sampling{2 * time.Second, 150, 5 * time.Second},
		confirm: sampling{confirmTime, 0, confirmTime},
	}
	// few is regular below 200 requests a second.
	few = profile{
		below: 0.02, above: 0.03, floor: 0.96,
		climb: climbing30, judge: sampling{1500 * time.Millisecond, 150, 5 * time.Second},
		confirm: sampling{confirmTime, 0, confirmTime},
	}
	// scattered is for less than 1,000 requests a second at random times.
	scattered = profile{
		below: 0.03, above: 0.15, floor: 0.9, spread: 0.15, overall: true,
		climb: climbing100, judge: judging1000, confirm: sampling{confirmTime, 1000, time.Minute},
	}
	// strict is for limits on latency that a person has given. They are met or violated by whole
	// distributions, so the load that is reported is one that was held.
	strict = profile{
		below: 0.01, above: 0.03, floor: 1, overall: true,
		climb: climbing100, judge: sampling{4 * time.Second, 1000, time.Minute},
		confirm: sampling{confirmTime, 1000, time.Minute},
	}
	// strictScattered is both.
	strictScattered = profile{
		below: 0.03, above: 0.15, floor: 1, spread: 0.15, overall: true,
		climb: climbing100, judge: judging1000, confirm: sampling{confirmTime, 1000, time.Minute},
	}
)

const (
	fewRequests       = 200.0  // a second
	scatteredRequests = 1000.0 // at random times; of more, a window has enough
)

// character is what profiles are chosen by, besides the load.
type character struct {
	preset Preset
	random bool // requests come at random times
	strict bool // a person's limits on latency say what the target sustains
}

// profileAt chooses the profile for a load.
func (c character) profileAt(rate float64) profile {
	random := c.random && rate < scatteredRequests
	p := regular
	switch {
	case c.strict && random:
		p = strictScattered
	case c.strict:
		p = strict
	case random:
		p = scattered
	case rate < fewRequests:
		p = few
	}
	e := efforts[c.preset]
	p.below, p.above, p.floor = p.below*e.distance, p.above*e.distance, 1-(1-p.floor)*e.distance
	p.judge, p.confirm = p.judge.times(e.time), p.confirm.times(e.time)
	return p
}
