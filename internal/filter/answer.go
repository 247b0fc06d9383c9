package filter

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"weir/internal/filter/httpcache"
	"weir/internal/filter/store"
	"weir/internal/server"
)

// routes of the public port.
func (s *Service) publicRoutes() []server.Route {
	return []server.Route{{Pattern: "GET " + s.cfg.Path + "/{id}", Handler: s.answer, Limits: s.limiter}}
}

// request is what an answer depends on, of a request that may be over by then.
type request struct {
	filter *filter
	format view
	zipped bool // the client takes gzip
}

const noFilter = "there is no filter of this id; it may have been removed"

// answer answers GET /filtered/{id}.
func (s *Service) answer(w *server.Response, r *server.Request) server.Outcome {
	id, format, ok := parseName(r.Param(0))
	f := (*filter)(nil)
	if ok {
		f = s.filters.get(id)
	}
	if f == nil {
		w.Problem(http.StatusNotFound, noFilter)
		return server.Done
	}
	q := request{f, format, takesGzip(r)}
	now := time.Now()
	if !s.due(f.source, now) {
		f.source.touch(now)
		if s.give(w, r, &q, now) {
			return server.Done
		}
	}
	if r.Inline() {
		return server.Offload
	}
	return s.make(w, r, q)
}

// due says whether nobody has asked for a source for so long that it is no longer fetched, and what there is
// is old.
func (s *Service) due(src *source, now time.Time) bool {
	if src.parts != nil {
		for _, part := range src.parts {
			if s.due(part, now) {
				return true
			}
		}
		return false
	}
	st := src.state.Load()
	return now.Sub(time.Unix(src.asked.Load(), 0)) > s.live.Load().Idle && !st.Gone && now.After(st.Next)
}

// parseName takes an id and the suffix of a format apart.
func parseName(name []byte) (id store.ID, format view, ok bool) {
	text, suffix, dotted := bytes.Cut(name, []byte{'.'})
	if id, ok = store.ParseID(text); !ok || !dotted {
		return id, native, ok
	}
	format, ok = views[string(suffix)]
	return id, format, ok && format != native
}

// takesGzip reads Accept-Encoding (RFC 9110, 12.5.3).
func takesGzip(r *server.Request) bool {
	takes := false
	for field := range r.HeaderValues("Accept-Encoding") {
		for part := range bytes.SplitSeq(field, []byte{','}) {
			name, weight, _ := bytes.Cut(part, []byte{';'})
			named := bytes.EqualFold(bytes.TrimSpace(name), []byte("gzip"))
			if !named && !takes && string(bytes.TrimSpace(name)) != "*" {
				continue
			}
			_, value, weighed := bytes.Cut(weight, []byte("q="))
			zero := weighed && len(bytes.Trim(bytes.TrimSpace(value), "0.")) == 0
			if named {
				return !zero
			}
			takes = takes || !zero && string(bytes.TrimSpace(name)) == "*"
		}
	}
	return takes
}

// give answers of what is in memory. It returns false, and has answered nothing, when something is missing.
func (s *Service) give(w *server.Response, r *server.Request, q *request, now time.Time) bool {
	f := q.filter
	d := f.decision.Load()
	if !d.holds(f.source.basis(), s.global.Load().hash, now) {
		return false
	}
	format, own := q.format, q.format == native
	if own {
		format = f.format
	}
	if format == native {
		format = d.native
	}
	st := f.source.worst()
	w.Fields(st.fields)
	w.FieldInt("Age", int(max(0, now.Sub(st.checked))/time.Second))
	var room [len(validators) + 32]byte
	fields, tag := d.validators(room[:0], format, q.zipped)
	w.Fields(fields)
	if r != nil && server.Has(r, tag, time.Unix(d.modified, 0)) {
		w.Status = http.StatusNotModified
		s.answered[unchanged].Add(r.Stripe, 1)
		return true
	}
	c := f.source.acquire()
	if c == nil || c.version != d.content || c.documents[format].Load() == nil {
		if c != nil {
			c.release()
		}
		w.Clear()
		return false
	}
	doc := c.documents[format].Load()
	w.ContentType = doc.contentType
	w.Field("X-Content-Type-Options", "nosniff")
	a := newAnswer(c)
	a.url = s.self(a.url[:0], f.id, q.format, doc)
	if q.zipped {
		tail := d.tail.Load()
		if !own || tail == nil {
			made := doc.Tail(d.keep, a.url)
			if tail = &made; own {
				d.tail.Store(tail)
			}
		}
		w.Field("Content-Encoding", "gzip")
		var ready bool
		for {
			a.list, a.memory, ready = doc.Gzip(a.list[:0], a.memory[:0], d.keep, a.url, *tail)
			if ready {
				break
			}
			if r != nil && r.Inline() {
				a.done()
				w.Clear()
				return false
			}
			s.resident.grow(f.source, c, doc.Isolate(d.keep, a.url != nil))
		}
	} else {
		a.list = doc.Plain(a.list[:0], d.keep, a.url)
	}
	if r != nil && r.Inline() {
		size := 0
		for _, p := range a.list {
			size += len(p)
		}
		if size > server.InlineBytes {
			a.done()
			w.Clear()
			return false
		}
		s.answered[hit].Add(r.Stripe, 1)
	}
	w.Pieces(a.done, a.list...)
	return true
}

// answer is the memory that the pieces of an answer need until they are sent.
type answer struct {
	list    [][]byte
	memory  []byte
	url     []byte
	content *content
	done    func()
}

var answers sync.Pool // of *answer

// newAnswer returns an answer of an acquired content, which it releases when it is done.
func newAnswer(c *content) *answer {
	a, _ := answers.Get().(*answer)
	if a == nil {
		a = new(answer)
		a.done = func() {
			a.content.release()
			a.content = nil
			clear(a.list)
			answers.Put(a)
		}
	}
	a.content = c
	return a
}

// make answers what give could not, on a worker. It waits for a fetch only where there is nothing yet.
func (s *Service) make(w *server.Response, r *server.Request, q request) server.Outcome {
	now := time.Now()
	wait := s.due(q.filter.source, now)
	q.filter.source.touch(now)
	if !wait {
		err := s.prepare(r.Context(), w, r, &q, now)
		if err == nil {
			if w.Status != http.StatusNotModified {
				s.answered[made].Add(r.Stripe, 1)
			}
			return server.Done
		}
		if !errors.Is(err, errNothing) {
			s.fail(w, &q, err)
			return server.Done
		}
		if refused(q.filter.source, now) {
			s.fail(w, &q, errNothing)
			return server.Done
		}
	}
	pending := r.Pend()
	if pending == nil {
		return server.Done
	}
	pending.Go(func(ctx context.Context, w *server.Response) {
		ctx, cancel := context.WithTimeout(ctx, s.live.Load().Wait)
		defer cancel()
		err := s.await(ctx, q.filter.source)
		now := time.Now()
		if errors.Is(err, context.DeadlineExceeded) && !s.known(q.filter.source) {
			s.late(w)
			return
		}
		if err = s.prepare(context.WithoutCancel(ctx), w, nil, &q, now); err == nil {
			s.answered[waited].Add(0, 1)
			return
		}
		s.fail(w, &q, err)
	})
	return server.Pending
}

// known says whether there is content, of some part at least.
func (s *Service) known(src *source) bool { return src.basis() != 0 }

// refused says that all that a source is made of has failed, and is not asked again yet.
func refused(src *source, now time.Time) bool {
	if src.parts == nil {
		st := src.state.Load()
		return st.Gone || st.Failures > 0 && now.Before(st.Next)
	}
	for _, part := range src.parts {
		if part.version.Load() != 0 || !refused(part, now) {
			return false
		}
	}
	return true
}

// await fetches what there is nothing of, or is due, and waits until that is over.
func (s *Service) await(ctx context.Context, src *source) error {
	parts := src.parts
	if parts == nil {
		parts = []*source{src}
	}
	var under []<-chan struct{}
	now := time.Now()
	for _, part := range parts {
		if part.version.Load() == 0 && !refused(part, now) || now.After(part.state.Load().Next) {
			under = append(under, s.refresh(part, false))
		}
	}
	for _, done := range under {
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// prepare makes what an answer needs, of what is at hand, and gives it.
func (s *Service) prepare(ctx context.Context, w *server.Response, r *server.Request, q *request,
	now time.Time) error {
	f := q.filter
	format := q.format
	if format == native {
		format = f.format
	}
	f.source.making.Lock()
	defer f.source.making.Unlock()
	var o opened
	defer o.release()
	for range 3 { // global rules may change meanwhile
		if !s.decided(f, now) || f.source.parts != nil && f.source.current.Load() == nil {
			if err := s.decide(ctx, f, &o, now); err != nil {
				return err
			}
		}
		if s.give(w, r, q, now) { // a 304 needs no more
			return nil
		}
		if err := s.document(ctx, f.source, &o, format); err != nil {
			return err
		}
		if s.give(w, r, q, now) {
			return nil
		}
	}
	return errBusy
}

var errBusy = errors.New("it changes faster than it can be answered, or --filter-memory is too small for it")

// late answers a request that has waited for long enough.
func (s *Service) late(w *server.Response) {
	s.answered[failed].Add(0, 1)
	w.Problem(http.StatusGatewayTimeout, "the source did not answer within "+s.live.Load().Wait.String()+
		"; it is waited for on, try again")
	w.Field("Retry-After", strconv.Itoa(int(max(s.live.Load().Wait, time.Second)/time.Second)))
}

// fail answers a request that there is nothing for.
func (s *Service) fail(w *server.Response, q *request, err error) {
	s.answered[failed].Add(0, 1)
	switch {
	case errors.Is(err, store.ErrNotFound):
		w.Problem(http.StatusNotFound, noFilter)
	case errors.Is(err, context.Canceled):
		w.Problem(http.StatusServiceUnavailable, "the request was given up")
	case err == nil || errors.Is(err, errBusy):
		w.Problem(http.StatusServiceUnavailable, errBusy.Error())
	case errors.Is(err, errNothing):
		s.failUpstream(w, q.filter.source.worst())
	default:
		s.log.Error("a filter cannot be answered", "filter", q.filter.id, "error", err)
		w.Problem(http.StatusInternalServerError, "the filter cannot be answered; the reason has been logged")
	}
}

// failUpstream answers for a source that there was never an answer of.
func (s *Service) failUpstream(w *server.Response, st *state) {
	status := http.StatusBadGateway
	detail := "the source could not be fetched so far: " + httpDetail(st)
	switch {
	case st.Gone:
		w.Problem(http.StatusGone, "the source says that it is gone for good")
		return
	case st.Error == plain(context.DeadlineExceeded):
		status = http.StatusGatewayTimeout
	}
	w.Problem(status, detail)
	w.Field("Retry-After", strconv.Itoa(int(max(time.Until(st.Next), time.Second)/time.Second)))
}

// httpDetail says what has failed to readers, who need not know of the owner's URLs and network.
func httpDetail(st *state) string {
	switch {
	case st.Status != 0 && st.Status != http.StatusOK:
		return plain(&httpcache.StatusError{Status: st.Status})
	case st.Error == plain(context.DeadlineExceeded), st.Error == "it is no feed":
		return st.Error
	}
	return "its owner sees why at GET /admin/filters/sources"
}
