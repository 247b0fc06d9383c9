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
	fine      []int32 // of items that may have finer arms, see items
	segment   []byte  // of the user, empty for none; its own memory
	events    []event
	fetched   []storeArm
	sampler   *beta.Sampler
}

// borrow returns memory for a request; giveBack takes it back, without what would keep a file mapped.
func (b *Bandit) borrow() *scratch {
	sc := b.scratch.Get().(*scratch)
	if m := b.model.Load(); m != nil {
		sc.query.file = m.file
	}
	return sc
}

func (b *Bandit) giveBack(sc *scratch) {
	sc.query.file = nil
	b.scratch.Put(sc)
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
		l.views[level] = b.learned[level].View(now)
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

// items fills sc with the posteriors of the items' own arms, and sc.fine with the indices of those that may have
// finer ones. What it reads of the file was asked for by query.add.
func (l *lookup) items(sc *scratch, keys []arms.Key, stored []storeArm) {
	inView := l.inView[arms.Item]
	if inView {
		for _, k := range keys {
			l.views[arms.Item].Prefetch(k)
		}
	}
	all := l.inView[arms.Segmented] || l.inView[arms.Pair]
	sc.fine = sc.fine[:0]
	for i, k := range keys {
		alpha, beta, from := l.prior.Alpha, l.prior.Beta, fromPrior
		fine := all
		if l.file != nil {
			a, b, scopes, ok := l.file.FindItem(k)
			if ok {
				alpha, beta, from = a, b, fromItem
			}
			fine = fine || l.inFile[arms.Segmented] && scopes.MayHave(l.scopes[arms.Segmented]) || l.inFile[arms.Pair] && scopes.MayHave(l.scopes[arms.Pair])
		}
		if stored != nil && stored[i].Known {
			alpha, beta, from = stored[i].Alpha, stored[i].Beta, fromItem
		}
		if inView {
			if a, b, ok := l.views[arms.Item].Find(k); ok {
				alpha, beta, from = alpha+a, beta+b, fromItem
			}
		}
		sc.alpha[i], sc.beta[i], sc.source[i] = alpha, beta, from
		if fine {
			sc.fine = append(sc.fine, int32(i))
		}
	}
}

// finer replaces the posteriors of items by those of their finer arms, where there are any.
func (l *lookup) finer(sc *scratch, keys []arms.Key) {
	for level := arms.Segmented; level <= arms.Pair; level++ {
		inFile, inView := l.inFile[level], l.inView[level]
		if !inFile && !inView {
			continue
		}
		for _, i := range sc.fine {
			k := l.scopes[level].Key(keys[i])
			if inFile {
				l.file.Prefetch(k)
			}
			if inView {
				l.views[level].Prefetch(k)
			}
		}
		for _, i := range sc.fine {
			k := l.scopes[level].Key(keys[i])
			alpha, beta, found := l.prior.Alpha, l.prior.Beta, false
			if inFile {
				if a, b, ok := l.file.Find(k); ok {
					alpha, beta, found = a, b, true
				}
			}
			if inView {
				if a, b, ok := l.views[level].Find(k); ok {
					alpha, beta, found = alpha+a, beta+b, true
				}
			}
			if found {
				sc.alpha[i], sc.beta[i], sc.source[i] = alpha, beta, fromItem+source(level)
			}
		}
	}
}

// sample fills sc.score by one sample of each posterior.
func (sc *scratch) sample(q *query) {
	if q.seeded {
		beta.Seeded(q.seed, sc.score, sc.alpha, sc.beta)
		return
	}
	sc.sampler.Sample(sc.score, sc.alpha, sc.beta)
}
