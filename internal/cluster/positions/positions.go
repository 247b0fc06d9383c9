// Package positions keeps positions of users, and the index of a sequence, in a Valkey or Redis cluster:
// progress.Positions and progress.Index over package cluster. Every operation is one call of a function
// that reads and moves (positions.lua), so nobody comes between; all but OpGet are durable, which means that
// they are answered once the replicas have them.
//
// # Where a position is
//
// A cell is 8 bytes, 48 bits of a list's tag and 16 of the position. Two kinds of keys hold cells:
//
//	p:{N}  a string of 510 cells: cell 0 is the newest version, cell i of the number 509*N + i-1
//	h:{N}  a hash of about 60 to 120 users: field g is the newest version, the others are 8 bytes of a
//	       seeded hash of the id, N being other bits of it
//
// A user has one place, whatever lists come and go, by a rule without a table. Numbers below a bound are in
// strings; larger ones and names are in hashes. A number and its digits hash alike. The bound is in
// p:{lists}: it rises with the length of dense lists, and is fixed for good by the first lists that are not
// dense. Until then nobody is in a hash, and after that nobody crosses the bound. The price is memory alone:
// dense lists that come after scattered ones have users beyond the bound in hashes, which take three times
// the bytes; an export and an import under another prefix begin anew. The number of hashes is fixed with the
// format of the cluster's data, by the first lists that are prepared.
//
// # Versions
//
// The version of a generation is that of its lists, so nodes that prepare the same lists agree. Before the
// first change under a version, p:{lists} says that it is in use; from then on Prepare refuses older ones
// with ErrOutdated. A cell's string or hash holds the newest version by which one of its cells was changed:
// where tags differ, an operation under an older one is refused with progress.ErrSuperseded.
//
// # Errors
//
// cluster.ErrUnavailable and progress.ErrSuperseded mean that nothing has moved. A *MovedError means that the
// position may have: its items may be skipped, and are never given twice. weir_cluster_skipped_items_total
// counts them.
package positions

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"weir/internal/cluster"
	"weir/internal/metrics"
	"weir/internal/progress"
)

//go:embed positions.lua
var lua string

var library = cluster.NewLibrary("positions", lua)

// cells is how many a string holds. With its header it is 4,096 bytes, which is what allocators have.
const cells = 510

// Users a hash has when the number of hashes is fixed, and the least number of hashes. Servers keep a hash of
// up to 128 fields in one block of memory.
const (
	usersOfHash = 64
	minHashes   = 1 << 16
)

// ErrOutdated means that newer lists have been in use. Published again, the older ones have a new version.
var ErrOutdated = errors.New("newer lists have been in use on the cluster: publish these again to serve them")

// MovedError is of a change that the cluster did not confirm: the position may have moved on by By items.
type MovedError struct {
	By  int
	Err error // cluster.ErrUnreplicated or cluster.ErrUnknown
}

func (e *MovedError) Error() string {
	return fmt.Sprintf("the position may have moved on by %d items: %v", e.By, e.Err)
}

func (e *MovedError) Unwrap() error { return e.Err }

// Options are how Positions are kept.
type Options struct {
	Metrics *metrics.Registry // nil shows nothing
	Log     *slog.Logger      // nil logs nothing
}

// Positions is progress.Positions in a cluster.
type Positions struct {
	c       *cluster.Client
	log     *slog.Logger
	skipped *metrics.Counter
	meta    string // the key of the bound

	mu     sync.Mutex
	format *cluster.Format // nil until it is known
}

var _ progress.Positions = (*Positions)(nil)

// Open loads the functions. The client is the caller's to close, after Close.
func Open(ctx context.Context, c *cluster.Client, o Options) (*Positions, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = metrics.New(1)
	}
	if err := c.Load(ctx, library); err != nil {
		return nil, err
	}
	p := &Positions{c: c, log: o.Log, meta: c.Key("p:{lists}"),
		skipped: o.Metrics.Counter("weir_cluster_skipped_items_total",
			"Items that positions may have moved over and nobody was given, as a change was not confirmed.")}
	o.Metrics.Gauge("weir_progress_durability", "1; the label says what an answered change survives.",
		func() float64 { return 1 }, "store", "cluster", "durability", p.Durability())
	return p, nil
}

// Durability implements progress.Positions.
func (p *Positions) Durability() string { return durability(p.c) }

func durability(c *cluster.Client) string {
	if n := c.Replicas(); n > 0 {
		return fmt.Sprintf("a change that was answered is in the memory of a primary and %d of its "+
			"replicas; see weir cluster check for what their settings make of that", n)
	}
	return "a change that was answered is in the memory of a primary; it is lost if that fails before a " +
		"replica has it"
}

// Lag implements progress.Positions. It is the servers' own affair.
func (p *Positions) Lag() time.Duration { return 0 }

// Err implements progress.Positions. What fails is said by each operation, and may go well the next time.
func (p *Positions) Err() error { return nil }

// Close implements progress.Positions.
func (p *Positions) Close() error { return nil }

// timeout bounds a Prepare. A command of it has the client's own.
const timeout = 30 * time.Second

// Prepare implements progress.Positions.
func (p *Positions) Prepare(lists progress.Lists) (progress.Generation, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if p.format == nil {
		f, err := p.c.Format(ctx, cluster.Format{Buckets: max(minHashes, lists.Slots()/usersOfHash)})
		if err != nil {
			return nil, err
		}
		p.format = &f
	}
	slots := int64(-1)
	if lists.Dense() {
		slots = int64(lists.Slots())
	}
	g := &generation{p: p, lists: lists, format: *p.format,
		version:  string(binary.BigEndian.AppendUint64(nil, lists.Version())),
		inString: library.Function("string_cell"), inHash: library.Function("hash_cell")}
	newest, err := g.prepare(ctx, slots)
	if err != nil {
		return nil, err
	}
	if newest > lists.Version() {
		return nil, fmt.Errorf("%w: they are version %d, and version %d was in use", ErrOutdated,
			lists.Version(), newest)
	}
	if slots > int64(g.bound) {
		p.log.Warn("positions of dense ids beyond a bound take three times the memory, as lists that were "+
			"not dense came before; weir cluster export and import under another prefix end that",
			"bound", g.bound, "users", slots)
	}
	return g, nil
}

// generation is a progress.Generation. Its version is in the form that functions take.
type generation struct {
	p                *Positions
	lists            progress.Lists
	version          string
	bound            uint64 // numbers below are in strings
	format           cluster.Format
	inString, inHash string // the functions
	used             atomic.Bool
}

// prepare asks for the bound, and has dense lists of so many users raise it. It returns the newest version
// that has been in use.
func (g *generation) prepare(ctx context.Context, slots int64) (newest uint64, err error) {
	r, err := g.p.c.Do(ctx, cluster.Command{Slot: cluster.Slot(g.p.meta), Durable: true,
		Args: library.Call("prepare", []string{g.p.meta}, g.version, strconv.FormatInt(slots, 10))})
	if err != nil {
		return 0, err
	}
	values, err := r.ToArray()
	if err != nil || len(values) != 2 {
		return 0, fmt.Errorf("BUG: the bound is answered as %v: %w", values, err)
	}
	version, err := values[0].ToString()
	if err != nil || len(version) != 8 {
		return 0, fmt.Errorf("BUG: a version is answered as %q: %w", version, err)
	}
	bound, err := values[1].ToInt64()
	g.bound = uint64(max(0, bound))
	return binary.BigEndian.Uint64([]byte(version)), err
}

// Version implements progress.Generation.
func (g *generation) Version() uint64 { return g.lists.Version() }

// Do implements progress.Generation. It takes a round trip, always.
func (g *generation) Do(progress.User, progress.List, progress.Op) (progress.Move, error) {
	return progress.Move{}, progress.ErrPending
}

// Prefetch implements progress.Generation.
func (g *generation) Prefetch(progress.User) {}

// place is where a user's cell is: bytes of a string, or a field of a hash.
type place struct {
	hash  bool
	key   uint64 // the number in its name
	at    int    // the first byte
	field [8]byte
}

func (g *generation) place(u progress.User, bound uint64) place {
	number, name := u.ID()
	if name == nil && number < bound {
		return place{key: number / (cells - 1), at: 8 * int(1+number%(cells-1))}
	}
	var digits [20]byte
	if name == nil {
		name = strconv.AppendUint(digits[:0], number, 10)
	}
	h := xxh3.Hash128Seed(name, g.format.Seed)
	p := place{hash: true, key: h.Hi % g.format.Buckets}
	binary.BigEndian.PutUint64(p.field[:], h.Lo)
	return p
}

// opNames are what functions call the kinds of operations.
var opNames = [...]string{progress.OpGet: "get", progress.OpAdvance: "advance", progress.OpStep: "step",
	progress.OpRaise: "raise", progress.OpSet: "set"}

// command is the call of a function for a cell. All that is not constant is in one string, which costs one
// allocation beside that of the arguments.
func (g *generation) command(p place, list progress.List, op string, n, from int) cluster.Command {
	var buf [160]byte
	b := append(buf[:0], g.p.c.Key("")...)
	if p.hash {
		b = append(b, "h:{"...)
	} else {
		b = append(b, "p:{"...)
	}
	b = append(strconv.AppendUint(b, p.key, 10), '}')
	ends := [8]int{len(b)}
	count := 1
	part := func(to []byte) {
		b = to
		ends[count] = len(to)
		count++
	}
	if p.hash {
		part(append(b, p.field[:]...))
	} else {
		part(strconv.AppendInt(b, int64(p.at), 10))
		part(strconv.AppendInt(b, int64(p.at+7), 10))
	}
	places := count
	part(append(b, byte(list.Tag>>40), byte(list.Tag>>32), byte(list.Tag>>24), byte(list.Tag>>16),
		byte(list.Tag>>8), byte(list.Tag)))
	part(strconv.AppendInt(b, int64(list.Len), 10))
	part(strconv.AppendInt(b, int64(n), 10))
	part(strconv.AppendInt(b, int64(from), 10))
	text := string(b)
	args := make([]string, 0, 12)
	function := g.inString
	if p.hash {
		function = g.inHash
	}
	args = append(args, "FCALL", function, "1", text[:ends[0]])
	for i := 1; i < places; i++ {
		args = append(args, text[ends[i-1]:ends[i]])
	}
	args = append(args, g.version)
	for i := places; i < count; i++ {
		if i == places+2 {
			args = append(args, op)
		}
		if i < count-1 || op == "step" {
			args = append(args, text[ends[i-1]:ends[i]])
		}
	}
	return cluster.Command{Slot: cluster.Slot(args[3]), Durable: op != "get", Args: args}
}

// Submit implements progress.Generation.
func (g *generation) Submit(ctx context.Context, u progress.User, l progress.List, op progress.Op,
	done func(progress.Move, error)) {
	cmd := g.command(g.place(u, g.bound), l, opNames[op.Kind], op.N, op.From)
	answer := func(r cluster.Reply, err error) { done(g.answer(r, err, l, op)) }
	if op.Kind == progress.OpGet || g.used.Load() {
		g.p.c.Submit(ctx, cmd, answer)
		return
	}
	g.use(ctx, func(err error) {
		if err != nil {
			done(progress.Move{}, err)
			return
		}
		g.p.c.Submit(ctx, cmd, answer)
	})
}

// use says that the version is in use, before the first change under it.
func (g *generation) use(ctx context.Context, then func(error)) {
	g.p.c.Submit(ctx, cluster.Command{Slot: cluster.Slot(g.p.meta), Durable: true,
		Args: library.Call("use", []string{g.p.meta}, g.version)},
		func(_ cluster.Reply, err error) {
			if err != nil {
				err = fmt.Errorf("noting that the lists are in use, before a position moves: %w", err)
			} else {
				g.used.Store(true)
			}
			then(err)
		})
}

// answer is what became of an operation.
func (g *generation) answer(r cluster.Reply, err error, l progress.List, op progress.Op) (progress.Move,
	error) {
	n, noNumber := r.ToInt64()
	unknown := errors.Is(err, cluster.ErrUnknown)
	switch {
	case unknown || errors.Is(err, cluster.ErrUnreplicated):
	case err != nil:
		return progress.Move{}, err
	case noNumber != nil:
		return progress.Move{}, noNumber
	}
	if !unknown && n < 0 {
		return progress.Move{}, progress.ErrSuperseded
	}
	m := progress.Move{From: int(n >> 16), To: int(n & progress.MaxLen)}
	if err == nil {
		return m, nil
	}
	by := 0
	if op.Kind == progress.OpAdvance || op.Kind == progress.OpStep { // others can be repeated
		if by = m.To - m.From; unknown {
			by = max(0, min(op.N, l.Len))
		}
	}
	g.p.skipped.Add(0, uint64(by))
	return progress.Move{}, &MovedError{by, err}
}

// Forget implements progress.Generation. The bound may be another than when the generation was prepared.
func (g *generation) Forget(ctx context.Context, u progress.User) (bool, error) {
	now := &generation{p: g.p, lists: g.lists, version: g.version, format: g.format}
	if _, err := now.prepare(ctx, 0); err != nil {
		return false, err
	}
	cmd := g.command(g.place(u, max(g.bound, now.bound)), progress.List{}, "forget", 0, 0)
	r, err := g.p.c.Do(ctx, cmd)
	if err != nil {
		return false, err
	}
	n, err := r.ToInt64()
	return n == 1, err
}

// Tend implements progress.Generation. Whoever was forgotten has left nothing.
func (g *generation) Tend(context.Context) error { return nil }

// Exhausted implements progress.Generation: nobody knows.
func (g *generation) Exhausted() int64 { return -1 }

// Survey implements progress.Generation, for dense lists whose users are all in strings. It reads a string at
// a time from a replica, which may be a little behind, and rests after each for as long as that took.
func (g *generation) Survey(ctx context.Context, visit func(position, length int)) error {
	if !g.lists.Dense() || g.bound < g.lists.Slots() {
		return errors.ErrUnsupported
	}
	for first := uint64(0); first < g.lists.Slots(); first += cells - 1 {
		if err := ctx.Err(); err != nil {
			return err
		}
		began := time.Now()
		key := g.p.c.Key("p:{" + strconv.FormatUint(first/(cells-1), 10) + "}")
		r, err := g.p.c.Read(ctx, cluster.Slot(key), "GET", key)
		if err != nil {
			return err
		}
		text := ""
		if !r.IsNil() {
			if text, err = r.ToString(); err != nil {
				return err
			}
		}
		for rank := first; rank < min(first+cells-1, g.lists.Slots()); rank++ {
			if l, ok := g.lists.List(rank); ok {
				visit(position(text, 8*int(1+rank-first), l), l.Len)
			}
		}
		time.Sleep(time.Since(began))
	}
	return nil
}

// position returns where the cell at a byte of a string is in a list.
func position(text string, at int, l progress.List) int {
	if len(text) < at+8 {
		return 0
	}
	word := binary.BigEndian.Uint64([]byte(text[at : at+8]))
	if word>>16 != l.Tag {
		return 0
	}
	return min(int(word&progress.MaxLen), l.Len)
}
