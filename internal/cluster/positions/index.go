package positions

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"weir/internal/cluster"
	"weir/internal/progress"
)

// Index is progress.Index in a cluster: a number in decimal, under x:{NAME}.
type Index struct {
	c    *cluster.Client
	key  string
	slot uint16
}

var _ progress.Index = (*Index)(nil)

// OpenIndex loads the functions. The client is the caller's to close, after Close.
func OpenIndex(ctx context.Context, c *cluster.Client, name string) (*Index, error) {
	if err := c.Load(ctx, library); err != nil {
		return nil, err
	}
	key := c.Key("x:{" + name + "}")
	return &Index{c, key, cluster.Slot(key)}, nil
}

// Inline implements progress.Index: it takes a round trip.
func (x *Index) Inline() bool { return false }

// Get implements progress.Index. It asks the primary: a replica may be behind.
func (x *Index) Get(ctx context.Context) (uint64, error) {
	r, err := x.c.Do(ctx, cluster.Command{Slot: x.slot, Args: []string{"GET", x.key}})
	if err != nil || r.IsNil() {
		return 0, err
	}
	text, err := r.ToString()
	if err != nil {
		return 0, err
	}
	at, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s holds something else than an index: %w", x.key, err)
	}
	return at, nil
}

// CompareAndSwap implements progress.Index. After cluster.ErrUnreplicated and ErrUnknown the index may have
// moved: that step is skipped.
func (x *Index) CompareAndSwap(ctx context.Context, from, to uint64) (bool, error) {
	r, err := x.c.Do(ctx, cluster.Command{Slot: x.slot, Durable: true, Args: library.Call("swap",
		[]string{x.key}, strconv.FormatUint(from, 10), strconv.FormatUint(to, 10))})
	if err != nil {
		return false, err
	}
	n, err := r.ToInt64()
	return n == 1, err
}

// Durability implements progress.Index.
func (x *Index) Durability() string { return durability(x.c) }

// Lag implements progress.Index. It is the servers' own affair.
func (x *Index) Lag() time.Duration { return 0 }

// Err implements progress.Index. What fails is said by each move, and may go well the next time.
func (x *Index) Err() error { return nil }

// Close implements progress.Index.
func (x *Index) Close() error { return nil }
