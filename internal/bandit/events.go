package bandit

import (
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"weir/internal/bandit/arms"
	"weir/internal/bandit/learning"
)

// batchOf decides what events teach. segments are those of their users where the events do not name one;
// nil is none.
func (b *Bandit) batchOf(list []event, segments []string) (learning.Batch, error) {
	m := b.model.Load()
	if m == nil {
		return learning.Batch{}, errLoading
	}
	latest := time.Now().Add(b.live.Load().MaxAhead).UnixMicro()
	batch := learning.Batch{Events: make([]learning.Event, len(list))}
	for i := range list {
		if list[i].at > latest {
			return learning.Batch{},
				&badRequest{422, fmt.Sprintf(
					"events[%d].ts is more than %v ahead of the server's clock (--bandit-max-ahead)", i,
					b.live.Load().MaxAhead)}
		}
		segment := list[i].segment
		if segment == nil && segments != nil && segments[i] != "" {
			segment = []byte(segments[i])
		}
		batch.Events[i] = b.resolve(m, &list[i], segment)
	}
	runtime.KeepAlive(m.file) // it stays mapped until here
	return batch, nil
}

// learn has events count, all of them or none, and waits for it. Those whose id was seen within a day do
// not count again.
func (b *Bandit) learn(list []event, segments []string, client netip.Addr) (duplicates int, err error) {
	batch, err := b.batchOf(list, segments)
	if err != nil {
		return 0, err
	}
	batch.Client = client
	saved := make(chan struct{})
	batch.Done = func(n int, e error) {
		duplicates, err = n, e
		close(saved)
	}
	b.learner.Learn(batch)
	<-saved
	return duplicates, err
}

// resolve decides which arms an event counts for: those of its user, of the user's segment and of its item
// that there are, and those that Config.Learn makes.
func (b *Bandit) resolve(m *model, ev *event, segment []byte) learning.Event {
	r := learning.Event{At: ev.at, Reward: ev.reward}
	if ev.id != nil {
		r.ID = arms.KeyOf(ev.id)
	}
	item := arms.KeyOf(ev.item)
	add := func(level arms.Level, k arms.Key, of []byte) {
		r.Arms[level] = k
		if !b.learner.Teaches(level, k) || !b.learner.Named(level, k) {
			r.Names[level] = &learning.Name{Item: string(ev.item), Of: string(of)}
		}
	}
	add(arms.Item, item, nil)
	count := func(level arms.Level, scope arms.Scope, of []byte) {
		k := scope.Key(item)
		have := b.cfg.Learn >= level || b.learner.Teaches(level, k)
		if !have && m.file != nil {
			_, _, have = m.file.Find(k)
		}
		if have {
			add(level, k, of)
		}
	}
	var scope *arms.Scope
	if ev.user != nil {
		user := arms.KeyOf(ev.user)
		count(arms.Pair, arms.UserScope(user), ev.user)
		if segment == nil && m.file != nil {
			if known, ok := m.file.Segment(user); ok {
				scope, segment = &known.Scope, []byte(known.Name)
			}
		}
	}
	if segment != nil && scope == nil {
		own := arms.SegmentScope(arms.KeyOf(segment))
		scope = &own
	}
	if scope != nil {
		count(arms.Segmented, *scope, segment)
	}
	return r
}
