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
	alpha     []float64 // those of found
	beta      []float64
	score     []float64
	source    []source
	found     arms.Found // in the file
	order     []int32    // of the best, see best
	raw       []byte     // binary data of an answer
	ties      uint32     // decides between equal scores
	fine      []int32    // of items that may have finer arms, see items
	fineKeys  []arms.Key // of these arms
	fineFound arms.Found
	segment   []byte // of the user, empty for none; its own memory
	events    []event
	fetched   []storeArm
	sampler   *beta.Sampler
}

// getScratch returns memory for a request; putScratch takes it back.
func (b *Bandit) getScratch() *scratch { return b.scratch.Get().(*scratch) }

func (b *Bandit) putScratch(sc *scratch) { b.scratch.Put(sc) }

// size makes room for n posteriors.
func (sc *scratch) size(n int) {
	sc.found.Size(n)
	sc.alpha, sc.beta = sc.found.Alpha, sc.found.Beta
	if cap(sc.score) < n {
		sc.score, sc.source = make([]float64, n), make([]source, n)
		sc.fine, sc.fineKeys = make([]int32, n), make([]arms.Key, n)
	}
	sc.score, sc.source = sc.score[:n], sc.source[:n]
}

// lookup is where the posteriors of a request are looked for.
type lookup struct {
	file   *arms.File // nil for none
	views  [levels]arms.View
	scopes [levels]arms.Scope
	// in says, by level, whether file and views may have something.
	inFile, inView [levels]bool
	prior          storeArm
	strength       float64 // of what a finer arm begins with
}

// lookUp fills sc.alpha, sc.beta and sc.source with the posteriors of keys, by what is in memory and, unless
// it is nil, by what a feature store says of each item. It returns false when the arms are not loaded.
func (b *Bandit) lookUp(sc *scratch, user, segment []byte, keys []arms.Key, stored []storeArm) bool {
	m := b.model.Load()
	if m == nil {
		return false
	}
	var l lookup
	l.prior = storeArm{Alpha: b.cfg.Prior[0], Beta: b.cfg.Prior[1]}
	if l.strength = b.cfg.ArmStrength; l.strength == 0 {
		l.strength = l.prior.Alpha + l.prior.Beta
	}
	sc.segment = sc.segment[:0]
	l.open(b, m.file, sc, user, segment)
	sc.size(len(keys))
	l.items(sc, keys, stored)
	l.finer(sc, keys)
	runtime.KeepAlive(m.file) // it stays mapped until here
	return true
}

// open finds out for which levels there can be anything.
func (l *lookup) open(b *Bandit, file *arms.File, sc *scratch, user, segment []byte) {
	now := b.now()
	for level := range l.views {
		l.views[level] = b.learner.View(arms.Level(level), now)
	}
	var s arms.Stats
	if file != nil {
		l.file = file
		s = file.Stats()
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
				sc.segment = append(sc.segment, known.Name...)
				l.scopes[arms.Segmented] = known.Scope
			}
		}
	}
	if segment != nil {
		sc.segment = append(sc.segment, segment...)
		l.scopes[arms.Segmented] = arms.SegmentScope(arms.KeyOf(segment))
	}
	if len(sc.segment) > 0 {
		l.inFile[arms.Segmented], l.inView[arms.Segmented] = s.SegmentArms > 0,
			!l.views[arms.Segmented].Empty()
	}
}

// now is the time that fading goes by, in Unix microseconds; without any it is not asked for.
func (b *Bandit) now() int64 {
	if b.cfg.HalfLife == 0 {
		return 0
	}
	return time.Now().UnixMicro()
}

// items fills sc with the posteriors of the items' own arms, and sc.fine with the indices of those that may
// have finer ones.
func (l *lookup) items(sc *scratch, keys []arms.Key, stored []storeArm) {
	if l.file != nil {
		l.file.FindAll(&sc.found, keys)
	} else {
		sc.found.Clear()
	}
	for i, alpha := range sc.alpha {
		sc.source[i] = fromItem
		if alpha == 0 {
			sc.alpha[i], sc.beta[i], sc.source[i] = l.prior.Alpha, l.prior.Beta, fromPrior
		}
	}
	for i := range stored {
		if s := &stored[i]; s.Known {
			sc.alpha[i], sc.beta[i], sc.source[i] = s.Alpha, s.Beta, fromItem
		}
	}
	if view := l.views[arms.Item]; l.inView[arms.Item] {
		for _, k := range keys {
			view.Prefetch(k)
		}
		for i, k := range keys {
			if a, b, ok := view.Find(k); ok && a+b > 0 { // 0 is forgotten, or faded to nothing
				sc.alpha[i], sc.beta[i], sc.source[i] = sc.alpha[i]+a, sc.beta[i]+b, fromItem
			}
		}
	}
	sc.fine = sc.fine[:len(keys)]
	n := 0
	if l.inView[arms.Segmented] || l.inView[arms.Pair] {
		for n = range sc.fine {
			sc.fine[n] = int32(n)
		}
		n = len(keys)
	} else if wanted := l.wanted(); wanted != 0 {
		// Without a jump: an item in ten has finer ones, and nothing says which.
		for i, scopes := range sc.found.Scopes {
			sc.fine[n] = int32(i)
			n += btoi(scopes&wanted != 0)
		}
	}
	sc.fine = sc.fine[:n]
}

// wanted returns the scopes whose arms are looked for in the file.
func (l *lookup) wanted() (m arms.Mask) {
	for level := arms.Segmented; level <= arms.Pair; level++ {
		if l.inFile[level] {
			m |= l.scopes[level].Mask()
		}
	}
	return m
}

// finer replaces the posteriors of items by those of their finer arms, where there are any.
// Pairs come first: an arm that events have made begins with what is known of its item, never of its segment.
func (l *lookup) finer(sc *scratch, keys []arms.Key) {
	for level := arms.Pair; level >= arms.Segmented; level-- {
		inFile, view := l.inFile[level], l.views[level]
		if !inFile && !l.inView[level] || len(sc.fine) == 0 {
			continue
		}
		sc.fineKeys = sc.fineKeys[:len(sc.fine)]
		for n, i := range sc.fine {
			k := l.scopes[level].Key(keys[i])
			if sc.fineKeys[n] = k; l.inView[level] {
				view.Prefetch(k)
			}
		}
		found := &sc.fineFound
		if inFile {
			l.file.FindAll(found, sc.fineKeys)
		} else {
			found.Size(len(sc.fine))
			found.Clear()
		}
		for n, i := range sc.fine {
			if sc.source[i] == fromPair {
				continue
			}
			alpha, beta := found.Alpha[n], found.Beta[n]
			if l.inView[level] {
				if a, b, ok := view.Find(sc.fineKeys[n]); ok && a+b > 0 {
					if alpha == 0 {
						alpha, beta = l.shrink(sc.alpha[i], sc.beta[i])
					}
					alpha, beta = alpha+a, beta+b
				}
			}
			if alpha > 0 {
				sc.alpha[i], sc.beta[i], sc.source[i] = alpha, beta, fromItem+source(level)
			}
		}
	}
}

// shrink returns what an arm that events have made begins with: the posterior of its item, worth at most as
// many observations as Config.ArmStrength says.
func (l *lookup) shrink(alpha, beta float64) (float64, float64) {
	if alpha+beta <= l.strength {
		return alpha, beta
	}
	m := min(max(mean(alpha, beta), 1e-9), 1-1e-9)
	return m * l.strength, (1 - m) * l.strength
}

// sample fills sc.score by one sample of each posterior.
func (sc *scratch) sample(q *query) {
	if q.seeded {
		beta.Seeded(q.seed, sc.score, sc.alpha, sc.beta)
		return
	}
	sc.sampler.Sample(sc.score, sc.alpha, sc.beta)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
