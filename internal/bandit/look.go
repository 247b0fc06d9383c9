package bandit

import (
	"runtime"
	"time"

	"weir/internal/bandit/arms"
	"weir/internal/bandit/beta"
	"weir/internal/bandit/featurestore"
)

// source says which arm a posterior is of.
type source uint8

const (
	fromPrior source = iota
	fromItem
	fromSegment
	fromPair
)

var sourceNames = [...]string{"prior", "item", "segment", "pair"}

// storeArm is a posterior as a feature store has it.
type storeArm = featurestore.Arm

// scratch is the memory of one request.
type scratch struct {
	scanner   scanner
	query     query
	inference inference
	alpha     []float64
	beta      []float64
	score     []float64
	source    []source
	order     []int32 // of the best, see best
	segment   string  // of the user, "" for none
	events    []event
	fetched   []storeArm
	sampler   *beta.Sampler
}

// size makes room for n posteriors.
func (sc *scratch) size(n int) {
	if cap(sc.alpha) < n {
		sc.alpha, sc.beta, sc.score, sc.source = make([]float64, n), make([]float64, n), make([]float64, n), make([]source, n)
	}
	sc.alpha, sc.beta, sc.score, sc.source = sc.alpha[:n], sc.beta[:n], sc.score[:n], sc.source[:n]
}

// lookup is where the posteriors of a request are looked for.
type lookup struct {
	file   *arms.File // nil for none
	views  [levels]arms.View
	scopes [levels]arms.Scope
	// in says, by level, whether file and views may have something.
	inFile, inView [levels]bool
	prior          storeArm
}

// look fills sc.alpha, sc.beta and sc.source with the posteriors of keys, by what is in memory and, unless
// it is nil, by what a feature store says of each item. It returns false when the arms are not loaded.
func (b *Bandit) look(sc *scratch, user, segment []byte, keys []arms.Key, stored []storeArm) bool {
	m := b.model.Load()
	if m == nil {
		return false
	}
	var l lookup
	l.prior = storeArm{Alpha: b.cfg.Prior[0], Beta: b.cfg.Prior[1]}
	sc.segment = ""
	l.open(b, m.file, sc, user, segment)
	sc.size(len(keys))
	l.prefetch(keys)
	for i, k := range keys {
		base := l.prior
		if stored != nil {
			base = stored[i]
		}
		sc.alpha[i], sc.beta[i], sc.source[i] = l.find(k, base)
	}
	runtime.KeepAlive(m.file) // it stays mapped until here
	return true
}

// open finds out for which levels there can be anything.
func (l *lookup) open(b *Bandit, file *arms.File, sc *scratch, user, segment []byte) {
	now := b.now()
	for level := range l.views {
		l.views[level] = b.learned[level].View(now)
	}
	var s arms.Stats
	if file != nil {
		l.file = file
		s = file.Stats()
		l.inFile[arms.Item] = s.Arms > s.SegmentArms+s.UserArms
	}
	l.inView[arms.Item] = !l.views[arms.Item].Empty()
	if user != nil {
		key := arms.KeyOf(user)
		l.inFile[arms.Pair], l.inView[arms.Pair] = s.UserArms > 0, !l.views[arms.Pair].Empty()
		if l.inFile[arms.Pair] || l.inView[arms.Pair] {
			l.scopes[arms.Pair] = arms.UserScope(key)
		}
		if segment == nil && s.Users > 0 {
			if known, ok := file.Segment(key); ok {
				sc.segment = known.Name
				l.scopes[arms.Segmented] = known.Scope
			}
		}
	}
	if segment != nil {
		sc.segment = string(segment)
		l.scopes[arms.Segmented] = arms.SegmentScope(arms.KeyOf(segment))
	}
	if sc.segment != "" {
		l.inFile[arms.Segmented], l.inView[arms.Segmented] = s.SegmentArms > 0, !l.views[arms.Segmented].Empty()
	}
}

// now is the time that fading goes by, in Unix microseconds; without any it is not asked for.
func (b *Bandit) now() int64 {
	if b.cfg.HalfLife == 0 {
		return 0
	}
	return time.Now().UnixMicro()
}

// key returns the key of an item's arm of a level.
func (l *lookup) key(level arms.Level, item arms.Key) arms.Key {
	if level == arms.Item {
		return item
	}
	return l.scopes[level].Key(item)
}

// prefetch asks the processor for all that find will read: the waits for memory, a tenth of a
// microsecond each, then go on at the same time.
func (l *lookup) prefetch(keys []arms.Key) {
	for level := arms.Item; level < levels; level++ {
		inFile, inView := l.inFile[level], l.inView[level]
		if !inFile && !inView {
			continue
		}
		for _, k := range keys {
			k = l.key(level, k)
			if inFile {
				l.file.Prefetch(k)
			}
			if inView {
				l.views[level].Prefetch(k)
			}
		}
	}
}

// find returns the posterior of an item by its finest arm. base is what is known of the item elsewhere.
func (l *lookup) find(item arms.Key, base storeArm) (alpha, beta float64, from source) {
	for level := arms.Pair; ; level-- {
		if l.inFile[level] || l.inView[level] {
			from := l.prior
			if level == arms.Item && base.Known {
				from = base
			}
			if alpha, beta, ok := l.at(l.key(level, item), level, from); ok {
				return alpha, beta, fromItem + source(level)
			}
		}
		if level > arms.Item {
			continue
		}
		if base.Known {
			return base.Alpha, base.Beta, fromItem
		}
		return l.prior.Alpha, l.prior.Beta, fromPrior
	}
}

// at returns the posterior of one arm; base is what events have taught on top of, where no file says otherwise.
func (l *lookup) at(k arms.Key, level arms.Level, base storeArm) (alpha, beta float64, ok bool) {
	alpha, beta = base.Alpha, base.Beta
	if l.inFile[level] {
		if a, b, found := l.file.Find(k); found {
			alpha, beta, ok = a, b, true
		}
	}
	if l.inView[level] {
		if a, b, found := l.views[level].Find(k); found {
			alpha, beta, ok = alpha+a, beta+b, true
		}
	}
	return alpha, beta, ok
}

// sample fills sc.score by one sample of each posterior.
func (sc *scratch) sample(q *query) {
	if q.seeded {
		beta.Seeded(q.seed, sc.score, sc.alpha, sc.beta)
		return
	}
	sc.sampler.Sample(sc.score, sc.alpha, sc.beta)
}
