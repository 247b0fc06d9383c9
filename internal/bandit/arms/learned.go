package arms

import (
	"errors"
	"math"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"weir/internal/disk"
)

// Learned is what events have taught of arms: for each the sums of rewards and of what was missing to a
// reward of 1, which are added to alpha and beta of its posterior.
//
// With a half-life the sums fade: an event counts half as much after every half-life. They are kept in
// units that grow instead ("forward decay", Cormode, Shkapenyuk, Srivastava and Xu, ICDE 2009), so that
// nothing has to be touched as time goes by. Units are whole half-lives apart, so that sums go from one to
// another by powers of two: tables that are taught the same in the same order hold the same bits, whenever
// their units were made anew and whichever of them were restored of a copy.
//
// Add, Copy and Restore are for one goroutine at a time. A View is for any number beside it.
type Learned struct {
	halfLife int64 // microseconds; 0 is for ever
	limit    int
	// Of all times of events; what is asked for before, as by a clock that was set back, counts as asked
	// then.
	latest atomic.Int64
	cells  atomic.Pointer[cells]
}

// cells is an open-addressing table. It only fills; growing makes another one.
type cells struct {
	words []atomic.Uint64 // cellWords an arm
	size  uint64          // cells
	seeds [2]uint64       // odd
	count atomic.Int64    // in use
	// Of these, those with sums of 0: what they taught was forgotten, or weighs nothing.
	idle     atomic.Int64
	landmark int64 // the half-life since 1970 at whose beginning an event has the weight 1
}

// A cell is the two halves of a key and the bits of two sums.
const cellWords = 4

// ErrFull means that a table holds as many arms as it may.
var ErrFull = errors.New("no room for more arms")

// NewLearned returns an empty table for at most limit arms. A half-life of 0 forgets nothing.
func NewLearned(limit int, halfLife time.Duration) *Learned {
	l := &Learned{halfLife: halfLife.Microseconds(), limit: limit}
	l.cells.Store(&cells{})
	return l
}

func newCells(size uint64, landmark int64) *cells {
	return &cells{words: make([]atomic.Uint64, size*cellWords), size: size,
		seeds: [2]uint64{rand.Uint64() | 1, rand.Uint64() | 1}, landmark: landmark}
}

// Len returns the number of arms that events teach of.
func (l *Learned) Len() int {
	c := l.cells.Load()
	return int(c.count.Load() - c.idle.Load())
}

// Cells returns how many cells are in use: an arm each, and one for each arm that was forgotten until
// Compact.
func (l *Learned) Cells() int { return int(l.cells.Load().count.Load()) }

// View is the table at one moment, for reading.
type View struct {
	cells *cells
	fade  float64 // what a unit of the sums is worth
}

// View returns the table for a request that is answered at now, in Unix microseconds.
func (l *Learned) View(now int64) View {
	c := l.cells.Load()
	if c.size == 0 {
		return View{}
	}
	return View{c, l.worth(c, max(now, l.latest.Load()))}
}

// halfLives returns how many half-lives have passed at a time since 1970, whole ones and what is left.
func (l *Learned) halfLives(at int64) (whole int64, rest float64) {
	if l.halfLife == 0 {
		return 0, 0
	}
	left := at % l.halfLife
	if left < 0 {
		left += l.halfLife
	}
	return (at - left) / l.halfLife, float64(left) / float64(l.halfLife)
}

// scaled returns x times 2 to the power of n.
func scaled(x float64, n int64) float64 { return math.Ldexp(x, int(max(-4096, min(n, 4096)))) }

// weight returns what an event of a time counts, in units of a landmark.
func (l *Learned) weight(at, landmark int64) float64 {
	whole, rest := l.halfLives(at)
	return scaled(math.Exp2(rest), whole-landmark)
}

// worth returns what a unit of the sums is worth at a time.
func (l *Learned) worth(c *cells, at int64) float64 {
	whole, rest := l.halfLives(at)
	return scaled(math.Exp2(-rest), c.landmark-whole)
}

// Empty reports that the view holds no arm at all.
func (v View) Empty() bool { return v.cells == nil }

// Prefetch asks the processor for what Find will read.
func (v View) Prefetch(k Key) {
	if v.cells != nil {
		disk.PrefetchWord(&v.cells.words[v.cells.home(k)*cellWords])
	}
}

// Find returns what is to be added to alpha and beta of an arm. While an event with a reward
// between 0 and 1 is being added it may be in the one and not yet in the other.
func (v View) Find(k Key) (alpha, beta float64, ok bool) {
	if v.cells == nil {
		return 0, 0, false
	}
	cell := v.cells.find(k)
	if cell == nil {
		return 0, 0, false
	}
	return v.fade * math.Float64frombits(cell[2].Load()), v.fade * math.Float64frombits(cell[3].Load()), true
}

// home returns where an arm is looked for first. Whoever may choose ids of items knows the keys, and not
// the seeds, and so cannot have many of them in one place; nor do arms that come in the order of another
// table crowd in this one.
func (c *cells) home(k Key) uint64 {
	at, _ := bits.Mul64(mix(k.Lo*c.seeds[0]+k.Hi*c.seeds[1]), c.size)
	return at
}

// find returns the words of an arm, nil if it is not there.
func (c *cells) find(k Key) []atomic.Uint64 {
	cell, _ := c.locate(k)
	return cell
}

// locate is find that says besides which cell it is.
func (c *cells) locate(k Key) ([]atomic.Uint64, uint64) {
	for at := c.home(k); ; {
		cell := c.words[at*cellWords : at*cellWords+cellWords : at*cellWords+cellWords]
		switch hi := cell[1].Load(); {
		case hi == k.Hi && cell[0].Load() == k.Lo:
			return cell, at
		case hi == 0:
			return nil, 0
		}
		if at++; at == c.size {
			at = 0
		}
	}
}

// Has reports whether an arm is there, forgotten or not.
func (l *Learned) Has(k Key) bool {
	c := l.cells.Load()
	return c.size > 0 && c.find(k) != nil
}

// Add counts an event of the time at, in Unix microseconds, with its reward from 0 to 1. It returns
// ErrFull when the arm is new and there is no room, not even by Compact; nothing has changed then.
func (l *Learned) Add(k Key, reward float64, at int64) error {
	c, err := l.room(k, at)
	if err != nil {
		return err
	}
	w := l.weight(at, c.landmark)
	c.add(k, w*reward, w*(1-reward))
	return nil
}

// renewAt is the weight at which the units are made anew, far from where doubles end.
const renewAt = 1 << 60

// room returns cells that an event of that time can be added to.
func (l *Learned) room(k Key, at int64) (*cells, error) {
	c := l.cells.Load()
	if c.size == 0 || c.find(k) == nil {
		if l.Cells() >= l.limit && l.Compact() == 0 {
			return nil, ErrFull
		}
		c = l.cells.Load()
		if count := c.count.Load(); uint64(count+1)*8 > c.size*5 {
			landmark := c.landmark
			if count == 0 {
				landmark, _ = l.halfLives(at)
			}
			c = l.rebuild(max(1024, 2*c.size), landmark, 1)
		}
	}
	if l.weight(at, c.landmark) > renewAt {
		landmark, _ := l.halfLives(at)
		c = l.rebuild(c.size, landmark, scaled(1, c.landmark-landmark))
	}
	l.latest.Store(max(at, l.latest.Load()))
	return c, nil
}

// rebuild replaces the cells by a table of another size and landmark, with all sums multiplied by w.
func (l *Learned) rebuild(size uint64, landmark int64, w float64) *cells {
	old := l.cells.Load()
	c := newCells(size, landmark)
	old.each(func(k Key, alpha, beta float64) bool {
		c.add(k, w*alpha, w*beta)
		return true
	})
	l.cells.Store(c)
	return c
}

// add adds to an arm, making it if need be: the upper half of its key comes last, since by that a
// reader takes it for present.
func (c *cells) add(k Key, alpha, beta float64) {
	for at := c.home(k); ; {
		cell := c.words[at*cellWords : at*cellWords+cellWords : at*cellWords+cellWords]
		hi := cell[1].Load()
		if hi == 0 || hi == k.Hi && cell[0].Load() == k.Lo {
			was := hi != 0 && cell[2].Load()|cell[3].Load() == 0
			// Where nothing is added nothing is written, so that an event with a reward of 0 or 1 is seen
			// whole.
			if alpha != 0 {
				cell[2].Store(math.Float64bits(math.Float64frombits(cell[2].Load()) + alpha))
			}
			if beta != 0 {
				cell[3].Store(math.Float64bits(math.Float64frombits(cell[3].Load()) + beta))
			}
			if hi == 0 {
				cell[0].Store(k.Lo)
				cell[1].Store(k.Hi)
				c.count.Add(1)
			}
			if is := cell[2].Load()|cell[3].Load() == 0; is && !was {
				c.idle.Add(1)
			} else if was && !is {
				c.idle.Add(-1)
			}
			return
		}
		if at++; at == c.size {
			at = 0
		}
	}
}

// each calls f with every arm and its sums in the cells' units, until f returns false.
func (c *cells) each(f func(k Key, alpha, beta float64) bool) {
	for at := 0; at < len(c.words); at += cellWords {
		k := Key{c.words[at].Load(), c.words[at+1].Load()}
		if k.Hi != 0 && !f(k, math.Float64frombits(c.words[at+2].Load()),
			math.Float64frombits(c.words[at+3].Load())) {
			return
		}
	}
}

// An Arm is one entry of Learned, its sums as they are worth at a time that goes with it.
type Arm struct {
	Key         Key
	Alpha, Beta float64
}

// Copy appends all arms, as they are worth at now, to dst.
func (l *Learned) Copy(dst []Arm, now int64) []Arm {
	c := l.cells.Load()
	w := l.worth(c, max(now, l.latest.Load()))
	c.each(func(k Key, alpha, beta float64) bool {
		dst = append(dst, Arm{k, w * alpha, w * beta})
		return true
	})
	return dst
}

// Reserve makes an empty table ready for n arms to be restored, with sums they had at a time. Copy returns
// arms in the order of their homes: in a table that only grows as they come, each would be put behind all
// those before it, and a million of them would take minutes.
func (l *Learned) Reserve(n int, at int64) {
	if n = min(n, l.limit); n > 0 {
		landmark, _ := l.halfLives(at)
		l.cells.Store(newCells(uint64(max(1024, n*8/5+1)), landmark))
	}
}

// Restore adds an arm with the sums it had at a time. It is for filling a table that was empty, see Reserve.
func (l *Learned) Restore(a Arm, at int64) error {
	c, err := l.room(a.Key, at)
	if err != nil {
		return err
	}
	w := l.weight(at, c.landmark)
	c.add(a.Key, w*a.Alpha, w*a.Beta)
	return nil
}

// Latest returns the latest time of all events.
func (l *Learned) Latest() int64 { return l.latest.Load() }

// Whole returns when the half-life ends that at is in, or at if it begins one: what a copy says as of then,
// and Restore is given as of then, are the same bits.
func (l *Learned) Whole(at int64) int64 {
	whole, rest := l.halfLives(at)
	if rest == 0 {
		return at
	}
	return (whole + 1) * l.halfLife
}

// Replace has the table hold what another holds, which is not used any more, and says when its latest event
// was. Views beside it hold the one or the other.
func (l *Learned) Replace(by *Learned, latest int64) {
	l.latest.Store(latest)
	l.cells.Store(by.cells.Load())
}
