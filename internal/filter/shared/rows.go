package shared

import (
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/cluster"
	"weir/internal/filter/store"
)

// Interval is how often a node looks for changes that others have made.
const Interval = 500 * time.Millisecond

const (
	batchRows  = 500      // of a change that is made at once
	batchBytes = 64 << 10 // and of its values, unless one alone has more
	readAtOnce = 16       // entries of the log
	maxReloads = 3        // before a node leaves it to the next look
)

// Options of Rows.
type Options struct {
	Client *cluster.Client
	Store  *store.Store
	Log    *slog.Logger
	// Changed is called for each filter that was changed: before is nil where there was none, after where
	// there is none any more. Set is called for a setting, Fetched for a source that a node has fetched out
	// of turn. They are called one at a time, once the store has what they are called for.
	Changed func(before, after *store.Filter)
	Set     func(name, value string)
	Fetched func(url string)
}

// Rows are filters and settings.
type Rows struct {
	o    Options
	slot uint16
	hash string // the keys
	log  string

	mu       sync.Mutex // held while changes are applied
	name     string     // of the engine's rows, by chance, so that others are not taken for them
	position string     // "" before all rows were read
	sum      uint64     // of the rows in the store
	settled  bool       // sum is that of the position

	current  atomic.Int64 // when the store was last known to have all, in Unix nanoseconds
	failed   atomic.Pointer[error]
	applied  atomic.Int64 // changes
	reloaded atomic.Int64
}

// OpenRows returns the rows, as far as the store has them: CatchUp and Follow bring what it has not.
func OpenRows(ctx context.Context, o Options) (*Rows, error) {
	r := &Rows{o: o, hash: o.Client.Key("f:{filters}"), log: o.Client.Key("fc:{filters}")}
	r.slot = cluster.Slot(r.hash)
	r.current.Store(time.Now().UnixNano()) // as far as anybody knows
	position, err := o.Store.Position(ctx)
	if err != nil {
		return nil, err
	}
	r.name, r.position, _ = strings.Cut(position, " ")
	for row, err := range o.Store.Rows(ctx) {
		if err != nil {
			return nil, err
		}
		r.sum = add(r.sum, mark(row))
	}
	return r, nil
}

// mark is a row's part of the sum.
func mark(row store.Row) uint64 {
	if row.Value == "" {
		return 0
	}
	sum := sha1.Sum([]byte(row.Key + "\x00" + row.Value))
	n, _ := strconv.ParseUint(hex.EncodeToString(sum[:6]), 16, 64) //nolint:errcheck // it is hexadecimal
	return n
}

// add adds to a sum, which has 48 bits.
func add(sum, n uint64) uint64 { return (sum + n) & (1<<48 - 1) }

// Complete says whether the store has had all rows once.
func (r *Rows) Complete() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.position != ""
}

// Status returns when the store was last known to have all rows, and why it is not known to now.
func (r *Rows) Status() (current time.Time, err error) {
	if failed := r.failed.Load(); failed != nil {
		err = *failed
	}
	return time.Unix(0, r.current.Load()), err
}

// Counts returns how many changes were applied, and how often all rows were read.
func (r *Rows) Counts() (applied, reloaded int64) { return r.applied.Load(), r.reloaded.Load() }

// Follow applies what changes, until ctx ends.
func (r *Rows) Follow(ctx context.Context) {
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_, before := r.Status()
			err := r.CatchUp(ctx)
			switch {
			case ctx.Err() != nil:
			case err != nil && before == nil:
				r.o.Log.Warn("changes of filters cannot be read; what there is goes on to be served",
					"error", err)
			case err == nil && before != nil:
				r.o.Log.Info("changes of filters are read again")
			}
		}
	}
}

// Add stores new filters; an id that is taken is store.ErrChanged. Many are added in several steps, and those
// of the steps before a failure stay.
func (r *Rows) Add(ctx context.Context, filters ...store.Filter) error {
	changes := make([]change, len(filters))
	for i, f := range filters {
		changes[i] = change{f.Row(), ""}
	}
	return r.write(ctx, changes)
}

// Update replaces a filter, if it is still the one that was read.
func (r *Rows) Update(ctx context.Context, read, changed store.Filter) error {
	return r.write(ctx, []change{{changed.Row(), read.Row().Value}})
}

// Delete removes a filter.
func (r *Rows) Delete(ctx context.Context, read store.Filter) error {
	return r.write(ctx, []change{{store.Row{Key: read.ID.String()}, anything}})
}

// Set stores a setting.
func (r *Rows) Set(ctx context.Context, name, value string) error {
	return r.write(ctx, []change{{store.Row{Key: store.SettingKey(name), Value: value}, anything}})
}

// Tell tells the other nodes that a source was fetched out of turn.
func (r *Rows) Tell(ctx context.Context, url string) error {
	return r.write(ctx, []change{{store.Row{Key: told + url, Value: "1"}, anything}})
}

const (
	anything = "*" // a row's value before a change
	told     = "!" // begins the key of what is no row
)

// change is a row, and the value that it must have before.
type change struct {
	store.Row
	was string
}

// write makes changes, in as many steps as they need, and applies them here.
func (r *Rows) write(ctx context.Context, changes []change) error {
	var last string
	for len(changes) > 0 {
		n, size := 0, 0
		for n < len(changes) && n < batchRows && (n == 0 || size+len(changes[n].Value) <= batchBytes) {
			size += len(changes[n].Value)
			n++
		}
		var err error
		if last, err = r.step(ctx, changes[:n]); err != nil {
			return err
		}
		changes = changes[n:]
	}
	if err := r.reach(ctx, last); err != nil {
		return fmt.Errorf("the change is made, and this node has not taken it up yet: %w", err)
	}
	return nil
}

// step makes changes at once, and returns the position of the entry that has them.
func (r *Rows) step(ctx context.Context, changes []change) (position string, err error) {
	r.mu.Lock()
	args := append(make([]string, 0, 2+3*len(changes)), r.name, rand.Text())
	r.mu.Unlock()
	for _, c := range changes {
		args = append(args, c.Key, c.was, c.Value)
	}
	reply, err := r.o.Client.Do(ctx, cluster.Command{Slot: r.slot, Durable: true,
		Args: Functions.Call("filter_write", []string{r.hash, r.log}, args...)})
	if err != nil {
		return "", fmt.Errorf("change filters: %w", err)
	}
	answer, err := reply.AsStrSlice()
	switch {
	case err != nil || len(answer) == 0:
		return "", fmt.Errorf("change filters: what the engine answers is not understood: %w", err)
	case answer[0] == "ok" && len(answer) == 2:
		return answer[1], nil
	case answer[0] == "lost":
		return "", ErrLost
	}
	// Who reads it again is to find what has changed.
	if err := r.CatchUp(ctx); err != nil {
		return "", err
	}
	if answer[0] == "missing" {
		return "", store.ErrNotFound
	}
	return "", store.ErrChanged
}

// Import brings what only the store has into the engine, and returns how many rows these are. What both have
// stays as the engine has it. It is for the filters of a server that was by itself, and for those of any node
// where the engine has lost all.
func (r *Rows) Import(ctx context.Context) (added int, err error) {
	r.mu.Lock()
	var alone []store.Row
	if err = r.o.Store.Disown(ctx); err == nil {
		r.name, r.position = "", ""
		alone, err = r.scan(ctx, func([]store.Row) error { return nil })
	}
	r.mu.Unlock()
	if err != nil {
		return 0, err
	}
	only := make(map[string]bool, len(alone))
	for _, row := range alone {
		only[row.Key] = true
	}
	var changes []change
	for row, err := range r.o.Store.Rows(ctx) {
		if err != nil {
			return 0, err
		}
		if only[row.Key] {
			changes = append(changes, change{row, ""})
		}
	}
	return len(changes), r.write(ctx, changes)
}
