package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/cluster/publications"
	"weir/internal/disk/record"
	"weir/internal/feed/snapshot"
	"weir/internal/feed/source"
	"weir/internal/progress"
	"weir/internal/server"
)

// defaultPoll is how often a URL is asked for newer lists.
const defaultPoll = 30 * time.Second

// origin brings lists into the data directory: from a URL, asked now and then, or as the record of
// publications of a cluster says. What serves is a file there, called by its SHA-256.
type origin struct {
	f       *Feed
	store   *source.Store
	src     source.Source // the zero Source where only the record says
	fetches sync.Mutex    // one at a time
	fetched source.File   // that serves or was refused; guarded by fetches
	follow  *follower     // nil without a cluster
	soon    chan struct{} // holds one when there is something to look at

	stage atomic.Pointer[stage]
	wrong atomic.Pointer[string] // why there are no newer lists; nil is that nothing is wrong
}

// stage is how far lists have come.
type stage struct {
	name        string
	done, total int64
}

func (f *Feed) openOrigin(dir string) (*origin, error) {
	store, err := source.Open(dir, nil, f.log)
	if err != nil {
		return nil, err
	}
	store.Pause = cmp.Or(f.cfg.pause, store.Pause)
	o := &origin{f: f, store: store, soon: make(chan struct{}, 1)}
	if f.cfg.Path != Published {
		if o.src, err = source.Parse(f.cfg.Path, ""); err != nil {
			return nil, fmt.Errorf("--feeds: %w", err)
		}
	}
	if f.cfg.Cluster != nil {
		o.follow = newFollower(o)
	}
	return o, nil
}

// String is where the lists come from, without what may be a secret.
func (o *origin) String() string {
	if o.follow != nil {
		return o.follow.String()
	}
	return o.src.String()
}

// recall returns the generation of the lists that have come before the last restart, nil for none. Nodes of
// a cluster ask its record first.
func (o *origin) recall(ctx context.Context) *generation {
	file, ok := o.store.Recall(o.src)
	if o.follow != nil || !ok {
		return nil
	}
	g, err := o.f.load(ctx, listsAt{path: file.Path}, false, 0)
	if err != nil {
		o.f.log.Error("the lists of before cannot be used and are fetched again", "error", err)
		return nil
	}
	o.fetched = file
	return g
}

// wait returns a generation without lists, under which feeds are 503.
func (f *Feed) wait(dir string) (*generation, error) {
	path := filepath.Join(dir, "none")
	w, err := snapshot.Create(path, snapshot.Options{})
	if err != nil {
		return nil, err
	}
	defer w.Abort()
	if _, err = w.Commit(); err != nil {
		return nil, err
	}
	lists, err := snapshot.Open(path)
	if err != nil {
		return nil, err
	}
	fallback, err := openFallback("", lists)
	if err != nil {
		return nil, errors.Join(err, lists.Close())
	}
	g := &generation{waiting: true, lists: lists, file: lists.File(), positions: noPositions{},
		fallback: fallback, stripes: make([]pins, f.stats.stripes), warmed: make(chan struct{})}
	return g, os.Remove(path)
}

// noPositions are those of a generation without lists, whose users are refused before they are asked for.
type noPositions struct{ progress.Generation }

// Exhausted implements progress.Generation.
func (noPositions) Exhausted() int64 { return 0 }

// Tend implements progress.Generation.
func (noPositions) Tend(context.Context) error { return nil }

// Forget implements progress.Generation.
func (noPositions) Forget(context.Context, progress.User) (bool, error) { return false, errWaiting }

// Survey implements progress.Generation.
func (noPositions) Survey(context.Context, func(position, length int)) error { return nil }

// health is that of the lists.
func (o *origin) health() server.Health {
	why := o.wrong.Load()
	switch waiting := o.f.current.Load().waiting; {
	case waiting && why != nil:
		return server.Down("there are no lists yet: " + *why)
	case waiting:
		return server.Down("there are no lists yet: " + o.progress())
	case o.follow != nil:
		return o.follow.health()
	case why != nil:
		return server.Degraded("there may be newer lists than those that serve: " + *why)
	}
	return server.Ready()
}

// progress says how far the lists have come.
func (o *origin) progress() string {
	s := o.stage.Load()
	switch {
	case s == nil && o.follow != nil:
		return "nothing was published; use weir publish"
	case s == nil:
		return "they are asked for"
	case s.total > 0:
		return fmt.Sprintf("%s, %d of %d MiB", s.name, s.done>>20, s.total>>20)
	}
	return s.name
}

// run brings lists until ctx ends.
func (o *origin) run(ctx context.Context) {
	if o.follow != nil {
		o.follow.run(ctx)
		return
	}
	pause := time.Second
	for {
		err := o.refresh(ctx, false)
		next := o.f.live.Load().Poll
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && o.f.current.Load().waiting:
			next, pause = pause, min(2*pause, 30*time.Second)
		}
		var again <-chan time.Time
		if next > 0 {
			again = time.After(next)
		}
		select {
		case <-ctx.Done():
			return
		case <-o.soon:
		case <-again:
		}
	}
}

// refresh asks for newer lists and takes them up. With force, lists are taken up that look like a mistake.
func (o *origin) refresh(ctx context.Context, force bool) error {
	if o.follow != nil {
		return o.follow.refresh(ctx)
	}
	o.fetches.Lock()
	defer o.fetches.Unlock()
	known := o.fetched.Validators
	if force {
		known = source.Validators{}
	}
	file, err := o.fetch(ctx, o.src, known)
	switch {
	case err == source.ErrUnchanged:
		if o.f.current.Load().from.path == o.fetched.Path { // or it was refused
			o.note(nil)
		}
		return nil
	case err != nil:
		if ctx.Err() == nil {
			o.f.log.Error("lists cannot be fetched", "error", err)
			o.note(err)
		}
		return err
	}
	if same := file.Sum == o.fetched.Sum; same && !force {
		o.fetched = file
		return nil
	}
	o.fetched = file
	o.f.reload.Lock()
	defer o.f.reload.Unlock()
	err = o.f.takeUp(ctx, listsAt{path: file.Path}, force)
	if o.note(err); err != nil {
		return err
	}
	o.store.Keep(o.src, file.Sum)
	return o.store.Remember(o.src, file)
}

// fetch has a file in the store, and logs how far it has come.
func (o *origin) fetch(ctx context.Context, src source.Source,
	known source.Validators) (source.File, error) {
	start := time.Now()
	told := start
	defer o.stage.Store(nil)
	file, err := o.store.Fetch(ctx, src, known, func(done, total int64) {
		o.stage.Store(&stage{"fetching", done, total})
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			o.f.log.Info("lists are being fetched", "from", src, "bytes", done, "of", total)
		}
	})
	if err == nil {
		o.f.log.Info("lists have been fetched", "from", src, "bytes", file.Bytes, "sha256", file.Sum, "took",
			time.Since(start))
	}
	return file, err
}

// note keeps what is wrong, nil for nothing.
func (o *origin) note(err error) {
	if err == nil {
		o.wrong.Store(nil)
		return
	}
	why := o.f.withoutPath(err)
	o.wrong.Store(&why)
}

// discard deletes a file that is damaged, so that it is fetched again.
func (o *origin) discard(g *generation) {
	if broken := g.broken.Load(); broken == nil || !errors.Is(*broken, record.ErrCorrupt) {
		return
	}
	os.Remove(g.from.path) //nolint:errcheck // the log has told of the damage
	o.fetches.Lock()
	o.fetched = source.File{}
	o.fetches.Unlock()
	o.look()
}

// look has run look at once.
func (o *origin) look() {
	select {
	case o.soon <- struct{}{}:
	default: // it is about to
	}
}

func (o *origin) close() error {
	if o.follow == nil {
		return nil
	}
	return o.follow.close()
}

// fact is what this node says of its lists.
func (o *origin) fact(g, mapped *generation, wants uint64) publications.Fact {
	fact := publications.Fact{Serves: g.from.publication.Number, Wants: wants}
	if mapped != nil {
		fact.Mapped = mapped.from.publication.Number
	}
	if s := o.stage.Load(); s != nil && wants != 0 {
		fact.Stage, fact.Done, fact.Total = s.name, s.done, s.total
	}
	if why := o.wrong.Load(); why != nil && wants != 0 {
		fact.Error = *why
	}
	return fact
}
