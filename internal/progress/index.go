package progress

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/progress/cells"
)

// Index is one number that everybody sees and moves, 0 at first. Methods are for any number of goroutines,
// but for Close, which comes last.
type Index interface {
	// Inline says whether Get and CompareAndSwap return at once, so that an event loop may call them. Where
	// they do not, they may take a round trip, and fail when ctx ends first.
	Inline() bool
	Get(ctx context.Context) (uint64, error)
	// CompareAndSwap moves the index from one number to another if it is there, and says whether it was.
	// When the error is not nil it has not moved, as far as can be told.
	CompareAndSwap(ctx context.Context, from, to uint64) (bool, error)
	// Durability says in a sentence what becomes of answered moves when the process is killed and when the
	// power is lost.
	Durability() string
	// Lag is the age of the oldest move that a loss of power would undo now, 0 if there is none.
	Lag() time.Duration
	// Err returns nil as long as the index can be moved, and later why not.
	Err() error
	Close() error
}

// LocalIndex is an Index in a file: one cell, see package cells.
type LocalIndex struct {
	store *cells.Store
}

var _ Index = (*LocalIndex)(nil)

// ErrNotIndex is wrapped by the error of OpenIndex for files that hold something else.
var ErrNotIndex = errors.New("the file holds no index")

// OpenIndex opens the index in the file at path, which is 0 when there is none yet.
func OpenIndex(path string, o Options) (*LocalIndex, error) {
	co := o.cells(o.Name)
	co.MaxCells = 1
	store, err := cells.Open(path, 1, co)
	if err != nil {
		return nil, err
	}
	if n := store.Len(); n != 1 {
		return nil, errors.Join(fmt.Errorf("%w: %s holds %d cursors", ErrNotIndex, path, n), store.Close())
	}
	x := &LocalIndex{store: store}
	if o.Metrics != nil {
		registerDurability(o.Metrics, o.Name, localDurability)
	}
	return x, nil
}

// Inline implements Index.
func (x *LocalIndex) Inline() bool { return true }

// Get implements Index. It never fails.
func (x *LocalIndex) Get(context.Context) (uint64, error) { return x.store.Load(0), nil }

// CompareAndSwap implements Index. A swap of equal numbers still tells whether the index can be saved.
func (x *LocalIndex) CompareAndSwap(_ context.Context, from, to uint64) (bool, error) {
	return x.store.CompareAndSwap(0, from, to)
}

// Durability implements Index.
func (x *LocalIndex) Durability() string { return localDurability }

// SetSyncInterval changes the time between background syncs.
func (x *LocalIndex) SetSyncInterval(interval time.Duration) { x.store.SetSyncInterval(interval) }

// Lag implements Index.
func (x *LocalIndex) Lag() time.Duration { return x.store.Lag() }

// Err implements Index.
func (x *LocalIndex) Err() error { return x.store.Err() }

// Close implements Index.
func (x *LocalIndex) Close() error { return x.store.Close() }
