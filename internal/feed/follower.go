package feed

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"weir/internal/cluster"
	"weir/internal/cluster/publications"
	"weir/internal/feed/source"
	"weir/internal/server"
)

// follower has the feed serve what the record of publications says: it maps what is prepared beside what
// serves, says so, and flips when the record does. It never goes back: a record that says less than what
// serves here, which a failover of the engine may leave behind, is set right.
type follower struct {
	*origin
	c *cluster.Client

	prepared *generation // that may serve; of run alone
	job      *job        // that makes the next one; of run alone
	failed   publications.Publication
	again    time.Time // when what has failed is tried again
	pause    time.Duration

	record atomic.Pointer[publications.Record] // as it was read last; nil is never
	lost   atomic.Bool                         // it could not be read
}

// job makes a publication a generation.
type job struct {
	of     publications.Publication
	cancel context.CancelFunc
	made   chan made // of one
}

type made struct {
	g   *generation
	err error
}

// followEvery is how often the record is read.
const followEvery = 250 * time.Millisecond

func newFollower(o *origin) *follower { return &follower{origin: o, c: o.f.cfg.Cluster} }

// String is where the lists come from, without what may be a secret.
func (w *follower) String() string {
	if r := w.record.Load(); r != nil && r.Serving != nil {
		return nameOf(*r.Serving)
	}
	return "publications"
}

// nameOf names a publication and its source.
func nameOf(p publications.Publication) string {
	src, err := source.Parse(p.Source, p.SHA256)
	if err != nil {
		return publications.Name(p.Number)
	}
	return fmt.Sprintf("%v (%s)", src, publications.Name(p.Number))
}

// health is that of a node with lists.
func (w *follower) health() server.Health {
	r := w.record.Load()
	if r == nil || r.Serving == nil || r.Serving.Number <= w.f.current.Load().from.publication.Number {
		return server.Ready()
	}
	why := w.progress()
	if wrong := w.wrong.Load(); wrong != nil {
		why = *wrong
	}
	return server.Degraded(fmt.Sprintf("the cluster serves newer lists, publication %s; users whose lists "+
		"are others there are refused until they are here: %s", publications.Name(r.Serving.Number), why))
}

// run follows the record until ctx ends.
func (w *follower) run(ctx context.Context) {
	defer w.drop()
	for {
		w.step(ctx)
		var done <-chan made
		if w.job != nil {
			done = w.job.made
		}
		select {
		case <-ctx.Done():
			w.stop()
			return
		case m := <-done:
			w.ready(ctx, m)
		case <-w.soon:
		case <-time.After(followEvery):
		}
	}
}

// step looks at the record and does what it says.
func (w *follower) step(ctx context.Context) {
	reading, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := publications.Read(reading, w.c)
	if w.lost.Swap(err != nil) != (err != nil) && ctx.Err() == nil {
		w.f.log.Warn("the record of publications", "read", err == nil, "error", err)
	}
	if err != nil {
		return
	}
	w.record.Store(&r)
	now, mapped := w.f.current.Load().from.publication.Number, uint64(0)
	if w.prepared != nil {
		mapped = w.prepared.from.publication.Number
	}
	var want *publications.Publication
	switch {
	case r.Serving == nil:
		if w.src != (source.Source{}) && r.Preparing == nil {
			// The first one.
			want = &publications.Publication{Source: w.src.Text(), SHA256: w.src.Sum}
		}
	case r.Serving.Number > now && r.Serving.Number == mapped:
		w.flip()
	case r.Serving.Number > now:
		want = r.Serving
	case r.Serving.Number < now:
		w.setRight(ctx)
	}
	if want == nil {
		want = r.Preparing
	}
	switch {
	case w.prepared == nil:
	case want == nil, w.prepared.from.publication.Number != want.Number:
		w.drop() // withdrawn, or overtaken
	default:
		want = nil
	}
	w.work(ctx, want)
	wants := uint64(0)
	if want != nil {
		wants = want.Number
	}
	if w.f.cfg.Members != nil {
		w.f.cfg.Members.Set(publications.FactName, w.fact(w.f.current.Load(), w.prepared, wants))
	}
}

// work has a job make what is wanted, and none else.
func (w *follower) work(ctx context.Context, want *publications.Publication) {
	if w.job != nil && (want == nil || w.job.of != *want) {
		w.stop()
	}
	if want == nil || w.job != nil || w.failed == *want && time.Now().Before(w.again) {
		return
	}
	if w.failed != *want {
		w.pause = time.Second
		w.note(nil)
	}
	ctx, cancel := context.WithCancel(ctx)
	j := &job{of: *want, cancel: cancel, made: make(chan made, 1)}
	w.job = j
	w.f.background.Go("lists of a publication", func(context.Context) {
		result := made{err: errors.New("it has ended early")}
		defer func() { j.made <- result }()
		result.g, result.err = w.make(ctx, j.of)
	})
}

// stop ends the job, if there is one, and closes what it may have made.
func (w *follower) stop() {
	if w.job == nil {
		return
	}
	w.job.cancel()
	if m := <-w.job.made; m.g != nil {
		w.shut(m.g)
	}
	w.job = nil
}

// make makes a publication a generation; of the first one it makes a publication, and no generation.
func (w *follower) make(ctx context.Context, p publications.Publication) (*generation, error) {
	src, err := source.Parse(p.Source, p.SHA256)
	if err != nil {
		return nil, err
	}
	if src.Sum == "" && !src.IsURL() {
		if src.Sum, _, err = source.Sum(ctx, p.Source); err != nil {
			return nil, err
		}
	}
	w.fetches.Lock()
	defer w.fetches.Unlock()
	file, err := w.fetch(ctx, src, source.Validators{})
	if err != nil {
		return nil, err
	}
	if p.Number == 0 {
		return nil, w.publishFirst(ctx, src, file)
	}
	w.stage.Store(&stage{name: "checking"})
	defer w.stage.Store(nil)
	w.f.reload.Lock()
	defer w.f.reload.Unlock()
	return w.f.begin(ctx, listsAt{file.Path, p}, p.Force)
}

// publishFirst publishes the lists of the flags in a cluster that has none.
func (w *follower) publishFirst(ctx context.Context, src source.Source, file source.File) error {
	_, err := publications.Update(ctx, w.c, func(r *publications.Record) error {
		if r.Serving != nil || r.Preparing != nil {
			return errNotFirst
		}
		now := time.Now()
		r.Serving = &publications.Publication{Number: r.Next(now), Source: src.Text(), SHA256: file.Sum,
			At: now.UTC()}
		return nil
	})
	if err == errNotFirst {
		return nil
	}
	if err == nil {
		w.f.log.Info("the lists of --feeds are the first publication", "from", src)
	}
	return err
}

var errNotFirst = errors.New("there is a publication already")

// ready takes up what a job has made.
func (w *follower) ready(ctx context.Context, m made) {
	of := w.job.of
	w.job.cancel()
	w.job = nil
	if m.err != nil && ctx.Err() == nil {
		w.failed, w.again = of, time.Now().Add(w.pause)
		w.pause = min(2*w.pause, 30*time.Second)
		w.f.log.Error("a publication is not here yet; it is tried again", "publication", nameOf(of), "error",
			m.err)
		w.note(m.err)
		return
	}
	w.note(nil)
	w.failed = publications.Publication{}
	if w.prepared = m.g; m.g != nil {
		w.f.log.Info("a publication is mapped", "publication", nameOf(of), "users", m.g.lists.Stats().Users)
	}
}

// flip has what is prepared serve.
func (w *follower) flip() {
	w.f.reload.Lock()
	defer w.f.reload.Unlock()
	if w.f.closed {
		return
	}
	g, old := w.prepared, w.f.current.Load()
	w.prepared = nil
	w.f.finish(g)
	// The file of before is kept, so that a roll-back finds it.
	w.store.Keep(source.Source{}, sumOf(g), sumOf(old))
}

// sumOf returns the SHA-256 of a generation's file.
func sumOf(g *generation) string { return source.SumOf(g.from.path) }

// setRight has the record say what serves here, which is newer.
func (w *follower) setRight(ctx context.Context) {
	g := w.f.current.Load()
	_, err := publications.Update(ctx, w.c, func(r *publications.Record) error {
		if r.Serving != nil && r.Serving.Number >= g.from.publication.Number {
			return errNotFirst
		}
		p := g.from.publication
		r.Preparing = &p
		r.Serve()
		return nil
	})
	if err == nil {
		w.f.log.Warn("the record of publications had gone back and was set right", "publication",
			nameOf(g.from.publication))
	}
}

// drop lets go of what is prepared.
func (w *follower) drop() {
	if w.prepared != nil {
		w.shut(w.prepared)
		w.prepared = nil
	}
}

// shut closes a generation that has never served.
func (w *follower) shut(g *generation) {
	if err := g.lists.Close(); err != nil {
		w.f.log.Error("lists could not be closed", "error", err)
	}
}

// refresh looks at the record at once.
func (w *follower) refresh(context.Context) error {
	w.look()
	return nil
}

func (w *follower) close() error { return nil }

// patience is how long a request waits for newer lists that others serve already.
const patience = time.Second

// newer waits for lists newer than g, which others serve, and says whether they have come.
func (w *follower) newer(ctx context.Context, g *generation) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.Now().Add(patience)
	for w.f.current.Load() == g {
		if time.Now().After(end) {
			return false
		}
		w.look()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
