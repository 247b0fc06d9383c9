package learning

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/bandit/arms"
	"weir/internal/metrics"
)

// What a key takes, with the room that its table keeps free and what a table takes while it grows.
const (
	armBytes = 128 // 51 to 102
	idBytes  = 80
	idShare  = 4 // of which memory is one part for ids
)

// memory is what is known: sums, ids and names. It is the same for every Learner, which differ by where the
// order of events is kept.
type memory struct {
	bytes   int64
	maxArms int
	names   *names
	learned [Levels]*arms.Learned
	stats   stats

	mu         sync.Mutex // guards ids, and the tables from being written by two
	ids        eventIDs
	remembered atomic.Int64 // ids
	// What was replayed did not fit. Nothing is taken, and no checkpoint written, so that a restart with
	// more memory has it all.
	overfull atomic.Pointer[error]
}

func (l *memory) init(o Options) {
	l.bytes = o.Memory
	maxIDs := max(1, int(o.Memory/idShare/idBytes))
	l.maxArms = max(1, int((o.Memory-o.Memory/idShare)/armBytes))
	l.ids = newEventIDs(maxIDs, max(1, int(o.ClientIDs*float64(maxIDs))))
	for i := range l.learned {
		l.learned[i] = arms.NewLearned(l.maxArms, o.HalfLife)
	}
}

// overflow notes that what is on the disk needs more memory than there may be.
func (l *memory) overflow() {
	if l.overfull.Load() == nil {
		err := fmt.Errorf("not all that events have taught fits into %d bytes, so no more are taken: raise "+
			"--bandit-memory and restart", l.bytes)
		l.overfull.Store(&err)
	}
}

// View implements Learner.
func (l *memory) View(level arms.Level, now int64) arms.View { return l.learned[level].View(now) }

// Teaches implements Learner.
func (l *memory) Teaches(level arms.Level, k arms.Key) bool { return l.learned[level].Teaches(k) }

// Len implements Learner.
func (l *memory) Len(level arms.Level) int { return l.learned[level].Len() }

// arms returns how many arms events have taught of.
func (l *memory) arms() (n int) {
	for _, t := range l.learned {
		n += t.Len()
	}
	return n
}

// room returns how many new arms find room before that of arms that were forgotten is given back.
func (l *memory) room() int {
	room := l.maxArms
	for _, t := range l.learned {
		room -= t.Cells()
	}
	return room
}

func (l *memory) compact() {
	for _, t := range l.learned {
		t.Compact()
	}
}

// hasRoomForOne is hasRoom for one arm at a time, while what is on the disk is read.
func (l *memory) hasRoomForOne() bool {
	if l.room() == 0 {
		l.compact()
	}
	return l.room() > 0
}

// apply adds an event to the sums of its arms.
func (l *memory) apply(r *record, now int64) {
	for level, k := range r.Arms {
		if k == (arms.Key{}) {
			continue
		}
		if fresh := !l.learned[level].Teaches(k); fresh || r.Names[level] != nil &&
			!l.names.has(arms.Level(level), k) {
			l.names.add(arms.Level(level), k, r.Names[level])
		}
		if err := l.learned[level].Add(k, r.Reward, r.At); err != nil {
			panic("BUG: an event that was found to have room has none: " + err.Error())
		}
	}
	if late := now - r.At; late > 0 { // else it does not say when it happened
		l.stats.lag.Observe(0, time.Duration(late)*time.Microsecond, 1)
	}
}

// armsOf returns records for all arms of a user.
func (l *memory) armsOf(user string) (list []record, err error) {
	_, err = l.Each(Cursor{}, func(a Named) bool {
		if a.Level == arms.Pair && a.Of == user {
			r := record{}
			r.Arms[arms.Pair] = a.Key
			list = append(list, r)
		}
		return true
	})
	return list, err
}

// Each implements Learner.
func (l *memory) Each(from Cursor, f func(Named) bool) (Cursor, error) {
	return l.names.each(from, func(a Named) bool { return !l.Teaches(a.Level, a.Key) || f(a) })
}

// Named implements Learner.
func (l *memory) Named(level arms.Level, k arms.Key) bool { return l.names.has(level, k) }

// teaches reports whether there is anything that a record can have forgotten.
func (l *memory) teaches(r *record) bool {
	switch {
	case r.forgetIDs:
		return l.ids.len() > 0
	case r.Arms == Arms{}:
		return l.arms() > 0
	}
	for level, k := range r.Arms {
		if k != (arms.Key{}) && l.learned[level].Teaches(k) {
			return true
		}
	}
	return false
}

// unlearn forgets what a record says. Ids stay where arms are forgotten: an event that is sent again does
// not count after all.
func (l *memory) unlearn(r *record) (n int) {
	switch {
	case r.forgetIDs:
		n = l.ids.len()
		l.ids.reset(r.came)
		return n
	case r.Arms == Arms{}:
		n = l.arms()
		for _, t := range l.learned {
			t.ForgetAll()
		}
		return n
	}
	for level, k := range r.Arms {
		if k != (arms.Key{}) && l.learned[level].Forget(k) {
			n++
		}
	}
	return n
}

// stats counts what happens.
type stats struct {
	unsaved, checkpointErrors, forgotten *metrics.Counter
	lag                                  *metrics.Histogram
}

func (l *memory) register(r *metrics.Registry, durability string) {
	s := &l.stats
	s.unsaved = r.Counter("weir_bandit_save_errors_total", "Writes of events that failed.")
	s.checkpointErrors = r.Counter("weir_bandit_checkpoint_errors_total",
		"Checkpoints that could not be written.")
	s.forgotten = r.Counter("weir_bandit_forgotten_arms_total",
		"Arms of which it was asked to forget what events have taught.")
	s.lag = r.LongHistogram("weir_bandit_event_lag_seconds",
		"Time from when an event happened, by its ts, until it counted.")
	for level, name := range [Levels]string{"item", "segment", "pair"} {
		r.Gauge("weir_bandit_learned_arms", "Arms that events have taught of.",
			func() float64 { return float64(l.learned[level].Len()) }, "level", name)
	}
	r.Gauge("weir_bandit_learned_arms_limit",
		"Arms that events may teach of, all levels together, by --bandit-memory.",
		func() float64 { return float64(l.maxArms) })
	r.Gauge("weir_bandit_event_ids", "Ids of events that are remembered.",
		func() float64 { return float64(l.remembered.Load()) })
	r.Gauge("weir_bandit_event_ids_limit", "Ids of events that may be remembered, by --bandit-memory.",
		func() float64 { return float64(l.ids.limit) })
	r.Gauge("weir_bandit_durability_info",
		"1; the label says what becomes of accepted events in a crash and a power loss.",
		func() float64 { return 1 }, "durability", durability)
}
