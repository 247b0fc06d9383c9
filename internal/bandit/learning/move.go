package learning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"weir/internal/cluster"
	"weir/internal/metrics"
)

// Moved is how much there was to move.
type Moved struct{ Arms, IDs int }

// ErrServed means that nodes have learned from the engine already, and a box's events would have to come
// before those.
var ErrServed = errors.New("nodes have taken events by the engine already: begin with an engine that has " +
	"none, or under another --cluster-prefix")

// Import puts what the Local in dir knows into an engine that has taken no events yet, as what nodes begin
// with; then it reads that and compares. No node may run meanwhile. Done again, it replaces what it had put
// there.
func Import(ctx context.Context, dir string, c *cluster.Client, o Options) (m Moved, err error) {
	l, err := o.open(dir)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	s := newShared(c, o, &l.memory)
	if err := cmp.Or(l.Err(), c.Load(ctx, library), s.unserved(ctx)); err != nil {
		return m, err
	}
	if done, err := s.publish(ctx); err != nil || !done {
		return m, cmp.Or(err, errors.New("something else writes to the engine: stop it, and run this again"))
	}
	there := newShared(c, o, new(memory))
	there.init(o)
	if _, err := there.read(ctx, there.memory); err != nil {
		return m, err
	}
	return compared(l.moved(), there.moved())
}

// unserved refuses an engine that holds events: what it may hold is of another Import.
func (s *Shared) unserved(ctx context.Context) error {
	r, err := s.c.Do(ctx, cluster.Command{Slot: s.slot, Args: []string{"XRANGE", s.keys.stream, "-", "+",
		"COUNT", "1000"}})
	if err != nil {
		return err
	}
	list, err := readEntries(r)
	for _, e := range list {
		if e.data[0] != entryCheckpoint || e.before == "" && e.id != list[0].id {
			return ErrServed
		}
	}
	if err == nil && len(list) > 0 && list[0].before != "" {
		return ErrServed // it was trimmed
	}
	return err
}

// Export puts what the engine has into a Local in dir, in place of what that knew; then it reads that and
// compares. Nodes are stopped meanwhile, or what they take is not in it. An engine that has had no events
// changes nothing.
func Export(ctx context.Context, dir string, c *cluster.Client, o Options) (m Moved, err error) {
	temp := filepath.Join(dir, "cluster")
	o.Metrics = metrics.New(1)
	s, err := OpenShared(ctx, temp, c, o)
	if err != nil {
		return m, err
	}
	if err := s.Close(); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	if s.at == beginning && s.moved() == (Moved{}) {
		return m, nil // it has never had any
	}
	l, err := o.open(dir)
	if err != nil {
		return m, err
	}
	l.mu.Lock()
	for level, t := range s.learned {
		l.learned[level].Replace(t, t.Latest())
	}
	l.ids = s.ids
	err = l.names.replace(&l.learned, s.names.frames)
	l.mu.Unlock()
	if err = errors.Join(cmp.Or(err, l.checkpoint()), l.Close()); err != nil {
		return m, err
	}
	if l, err = o.open(dir); err != nil {
		return m, err
	}
	m, err = compared(s.moved(), l.moved())
	return m, errors.Join(err, l.Close())
}

// open opens a Local whose figures nobody looks at.
func (o Options) open(dir string) (*Local, error) {
	o.Metrics = metrics.New(1)
	return Open(dir, o)
}

// moved counts what there is.
func (l *memory) moved() Moved { return Moved{l.arms(), l.ids.len()} }

// compared returns what was moved if all has arrived.
func compared(from, to Moved) (Moved, error) {
	if from != to {
		return from, fmt.Errorf("of %d arms and %d ids of events, %d and %d have arrived: stop what changes "+
			"them, and run this again", from.Arms, from.IDs, to.Arms, to.IDs)
	}
	return from, nil
}
