package feed

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"weir/internal/disk"
	"weir/internal/feed/snapshot"
	"weir/internal/progress"
)

// inspection is what is asked about a user: a part of the list, and a request for so many items.
type inspection struct {
	from  int // -1 is a little before the position
	limit int
	size  int
}

// maxInspected bounds the items of a look.
const maxInspected = 1000

// seen is what a look at a user finds. Items are texts, as a browser rounds large numbers.
type seen struct {
	User      string   `json:"user"`
	Known     bool     `json:"known"` // there is a list for the user
	List      string   `json:"list,omitempty"`
	Length    int      `json:"length"`
	Position  int      `json:"position"`
	Remaining int      `json:"remaining"`
	From      int      `json:"from"` // where Items begin
	Items     []string `json:"items"`
	Next      []string `json:"next"`     // what a request gets of the list now
	Fallback  int      `json:"fallback"` // and how many fallback items
	Drawn     string   `json:"drawn"`    // by what these are chosen: "random" or "score"
}

// inspect looks at a user, whom it does not move; nor does it count as a request. ErrSuperseded means that it
// is to be done again.
func (f *Feed) inspect(id []byte, stripe int, ask inspection) (*seen, error) {
	v, err := f.visit(id, stripe, false)
	if err != nil {
		return nil, err
	}
	defer v.end()
	if err := v.read(); err != nil {
		return nil, err
	}
	s := f.scratch.Get().(*scratch)
	defer f.scratch.Put(s)
	found := &seen{User: string(textOf(s, v.g, id)), Known: v.known(), Length: v.list.Len(), Drawn: "random"}
	if v.g.fallback.ranked() {
		found.Drawn = "score"
	}
	if v.known() {
		found.List = string(appendToken(nil, v.list.Tag()))
		if found.Position, err = v.position(); err != nil {
			return nil, v.outdated(err)
		}
	}
	found.Remaining = found.Length - found.Position
	found.From = ask.from
	if ask.from < 0 {
		found.From = max(0, found.Position-ask.limit/5)
	}
	found.From = min(found.From, found.Length)
	if found.Items, err = v.texts(s, found.From, ask.limit); err != nil {
		return nil, err
	}
	if found.Next, err = v.texts(s, found.Position, ask.size); err != nil {
		return nil, err
	}
	found.Fallback = min(ask.size-len(found.Next), v.g.fallback.left(s, v.list))
	return found, nil
}

// position returns where the user is, and waits for it where that takes a round trip.
func (v *visit) position() (int, error) {
	m, err := v.do(progress.Get())
	if err != progress.ErrPending {
		return m.To, err
	}
	ctx, cancel := context.WithTimeout(v.f.background.Context(), inspectTimeout)
	defer cancel()
	done := make(chan struct{})
	v.g.positions.Submit(ctx, v.user, progress.List{Tag: v.list.Tag(), Len: v.list.Len()}, progress.Get(),
		func(at progress.Move, e error) {
			m, err = at, e
			close(done)
		})
	<-done
	return m.To, err
}

// inspectTimeout bounds the round trip of a look at a user.
const inspectTimeout = 5 * time.Second

// texts returns up to n items of the user's list, checked.
func (v *visit) texts(s *scratch, from, n int) ([]string, error) {
	to := min(from+n, v.list.Len())
	if err := v.g.lists.Check(v.list, from, to); err != nil {
		return nil, err
	}
	s.items = v.list.Append(s.items[:0], from, to)
	list := make([]string, len(s.items))
	for i, id := range s.items {
		if list[i] = strconv.FormatUint(id, 10); v.g.lists.Items() == snapshot.String {
			list[i] = v.g.lists.Name(id)
		}
	}
	return list, nil
}

// state is what there is to know of the lists that serve, and of a reload.
type state struct {
	Generation  uint64        `json:"generation"`
	Source      string        `json:"source"`      // where the lists come from
	Publication string        `json:"publication"` // of a cluster; "" without one
	Waiting     bool          `json:"waiting"`     // there are no lists yet
	Users       uint64        `json:"users"`
	Items       uint64        `json:"items"`
	Bytes       int64         `json:"bytes"`
	UserIDs     string        `json:"userIds"` // "number" or "text"
	ItemIDs     string        `json:"itemIds"`
	Written     time.Time     `json:"written"`
	Checked     float64       `json:"checked"`   // share of the lists that was read and found sound
	Exhausted   int64         `json:"exhausted"` // users at the end of their list; -1 where nobody knows
	Fallback    int           `json:"fallback"`  // items for users who have too few left
	Damaged     bool          `json:"damaged"`
	Changed     bool          `json:"changed"` // the file was written to
	Durability  string        `json:"durability"`
	Lag         float64       `json:"lagSeconds"`
	Reload      *reloadState  `json:"reload"`     // under way; null is none
	LastReload  *reloadResult `json:"lastReload"` // null is none since the start
	MinimumUser uint64        `json:"minimumUsers"`
}

// reloadState is how far a reload has come.
type reloadState struct {
	Started time.Time `json:"started"`
	Stage   string    `json:"stage"` // "opening", "checking" or "positions"
	Done    uint64    `json:"done"`  // bytes of lists checked
	Total   uint64    `json:"total"`
	Users   uint64    `json:"users"` // of the new lists
}

// reloadResult is what became of a reload.
type reloadResult struct {
	At         time.Time `json:"at"`
	Seconds    float64   `json:"seconds"`
	Generation uint64    `json:"generation"` // that serves since
	Refused    string    `json:"refused,omitempty"`
}

// reloading is a reload under way.
type reloading struct {
	started time.Time
	lists   atomic.Pointer[snapshot.Snapshot] // once they are open; only for how far they are checked
}

func (r *reloading) state() *reloadState {
	if r == nil {
		return nil
	}
	s := &reloadState{Started: r.started, Stage: "opening"}
	if lists := r.lists.Load(); lists != nil {
		s.Done, s.Total, s.Users = lists.Warmed(), lists.ListBytes(), lists.Stats().Users
		if s.Stage = "checking"; s.Done >= s.Total {
			s.Stage = "positions"
		}
	}
	return s
}

func kindOf(k snapshot.Kind) string {
	if k == snapshot.String {
		return "text"
	}
	return "number"
}

func (f *Feed) state(stripe int) state {
	g := f.pin(stripe)
	defer g.unpin(stripe)
	s := g.lists.Stats()
	from := f.named(g.from)
	if f.from == nil {
		from = filepath.Base(from)
	}
	return state{
		Generation: g.number, Source: from, Publication: g.publication(),
		Waiting: g.waiting, Users: s.Users, Items: s.Items, Bytes: int64(s.Bytes),
		UserIDs: kindOf(g.lists.Users()), ItemIDs: kindOf(g.lists.Items()), Written: g.file.ModTime(),
		Checked:   float64(g.lists.Warmed()) / float64(max(1, g.lists.ListBytes())),
		Exhausted: g.positions.Exhausted(), Fallback: len(g.fallback.items),
		Damaged: g.broken.Load() != nil, Changed: g.altered.Load(),
		Durability: f.positions.Durability(), Lag: f.positions.Lag().Seconds(),
		Reload: f.reloading.Load().state(), LastReload: f.reloaded.Load(),
		MinimumUser: f.leastUsers(g),
	}
}

// surveyBuckets is into how many parts lists are cut by a survey.
const surveyBuckets = 20

// surveyed is how users were spread over their lists.
type surveyed struct {
	At         time.Time `json:"at"`
	Seconds    float64   `json:"seconds"`
	Generation uint64    `json:"generation"`
	Users      uint64    `json:"users"`
	Untouched  uint64    `json:"untouched"` // at the beginning of a list that has items
	Exhausted  uint64    `json:"exhausted"` // at the end
	// Buckets are those between: the first has users who have had less than a twentieth of their list, the
	// untouched included.
	Buckets [surveyBuckets]uint64 `json:"buckets"`
}

func (s *surveyed) add(position, length int) {
	s.Users++
	switch {
	case position >= length:
		s.Exhausted++
		return
	case position == 0:
		s.Untouched++
	}
	s.Buckets[position*surveyBuckets/length]++
}

// survey is one that is under way, and what came of the last.
type survey struct {
	running atomic.Pointer[surveying]
	last    atomic.Pointer[surveyed]
	failed  atomic.Pointer[string] // why there is no last one
}

type surveying struct {
	Started time.Time     `json:"started"`
	Total   uint64        `json:"total"`
	Done    uint64        `json:"done"`
	done    atomic.Uint64 // users
}

type surveyState struct {
	Running *surveying `json:"running"` // null is none
	Last    *surveyed  `json:"last"`    // null is none
	Failed  string     `json:"failed,omitempty"`
}

func (s *survey) state() surveyState {
	state := surveyState{Last: s.last.Load()}
	if r := s.running.Load(); r != nil {
		state.Running = &surveying{Started: r.Started, Total: r.Total, Done: min(r.done.Load(), r.Total)}
	}
	if why := s.failed.Load(); why != nil {
		state.Failed = *why
	}
	return state
}

// beginSurvey counts users by how far they are, in the background, unless that is under way.
func (f *Feed) beginSurvey() {
	under := &surveying{Started: time.Now(), Total: f.current.Load().lists.Stats().Users}
	if !f.survey.running.CompareAndSwap(nil, under) {
		return
	}
	f.background.Go("survey of positions", func(ctx context.Context) {
		defer f.survey.running.Store(nil)
		result, err := f.count(ctx, under)
		switch why := ""; {
		case err == nil:
			f.survey.last.Store(result)
			f.survey.failed.Store(nil)
			return
		case ctx.Err() != nil:
			return
		case errors.Is(err, errors.ErrUnsupported):
			why = "positions are kept where nobody can go through all of them"
			f.survey.failed.Store(&why)
		default:
			why = "the survey of positions failed; the log says why"
			f.survey.failed.Store(&why)
			f.log.Error("survey of positions", "error", err)
		}
	})
}

// errReplaced ends what goes through lists that serve no more.
var errReplaced = errors.New("newer lists serve")

// count surveys the lists that serve. When newer ones take their place it begins anew with those, so that a
// reload need not wait for it.
func (f *Feed) count(ctx context.Context, under *surveying) (*surveyed, error) {
	const stripe = 0
	for {
		start := time.Now()
		g := f.pin(stripe)
		result := &surveyed{Generation: g.number}
		under.done.Store(0)
		counting, stop := context.WithCancelCause(ctx)
		err := disk.Guard(func() error {
			return g.positions.Survey(counting, func(position, length int) {
				if result.add(position, length); result.Users%1024 == 0 {
					under.done.Store(result.Users)
					if f.current.Load() != g {
						stop(errReplaced)
					}
				}
			})
		})
		g.unpin(stripe)
		err = cmp.Or(context.Cause(counting), err)
		stop(nil)
		if err == errReplaced {
			continue
		}
		result.At, result.Seconds = time.Now(), time.Since(start).Seconds()
		return result, err
	}
}
