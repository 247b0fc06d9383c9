package bandit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"weir/internal/bandit/featurestore"
	"weir/internal/jsonscan"
	"weir/internal/server"
)

// inlineItems is the most items that are answered on the event loop at once. Up to laterItems it is done
// there or by a worker after what else is ready, and by a worker beyond that, so that requests beside it
// need not wait.
const (
	inlineItems = 64
	laterItems  = 512 // some 40 us by binary tensors or JSON; with a seed, 100
)

// whenIdle is what a request that is put off becomes: short ones need no worker.
func whenIdle(short bool) server.Outcome {
	if short {
		return server.WhenIdle
	}
	return server.Offload
}

// maxBody is enough for 10,000 items or events with ids as long as may be.
const maxBody = 8 << 20

// Routes implements server.Service.
func (b *Bandit) Routes() []server.Route {
	return append(b.inferRoutes(), []server.Route{
		{Pattern: "POST /predict", Handler: b.predict, MaxBody: maxBody},
		{Pattern: "POST /predict/batch", Handler: b.predictBatch, MaxBody: 8 * maxBody, Class: server.Low},
		{Pattern: "POST /events", Handler: b.postEvents, MaxBody: maxBody, Admin: b.cfg.EventsAdmin},
		{Pattern: "POST /admin/bandit/reload", Admin: true, Handler: b.postReload},
		{Pattern: "GET /admin/bandit", Admin: true, Handler: b.getState},
		{Pattern: "GET /admin/bandit/arm", Admin: true, Handler: b.getArm},
		{Pattern: "GET /admin/bandit/arms", Admin: true, Handler: b.getArms},
		{Pattern: "GET /admin/bandit/ranking", Admin: true, Handler: b.getRanking},
		{Pattern: "POST /admin/bandit/forget", Admin: true, MaxBody: 16 << 10, Handler: b.postForget},
	}...)
}

// pend answers a request, of which only the body is left, in a goroutine that may wait for the feature store.
func (b *Bandit) pend(r *server.Request, answer func(ctx context.Context, sc *scratch, w *reply,
	body []byte)) server.Outcome {
	body, stripe := bytes.Clone(r.Body), r.Stripe
	r.Pend().Go(func(ctx context.Context, w *server.Response) {
		sc := b.getScratch()
		defer b.putScratch(sc)
		answer(ctx, sc, &reply{w, stripe}, body)
	})
	return server.Pending
}

// Errors that are no fault of the request.
var (
	errLoading = errors.New("the arms are being loaded, or cannot be used: see /health")
)

// reply is an answer under way, whoever sends it.
type reply struct {
	*server.Response
	stripe int
}

// fail answers with a problem.
func (w *reply) fail(err error) {
	status, detail := http.StatusServiceUnavailable, ""
	var bad *badRequest
	var malformed *jsonscan.SyntaxError
	var store *storeError
	switch {
	case errors.As(err, &malformed):
		status, detail = http.StatusBadRequest, "the body is not JSON: "+malformed.Error()
	case errors.As(err, &bad):
		status, detail = bad.status, bad.detail
	case errors.Is(err, featurestore.ErrRefused):
		detail = "the server is overloaded, and would have to ask the feature store; come again after as " +
			"many seconds as Retry-After says"
	case errors.As(err, &store):
		detail = "the feature store failed: " + featurestore.Reason(store) + " (the log says more)"
	default: // the errors above, and those of accept
		detail = err.Error()
	}
	w.Problem(status, detail)
}

// predict answers POST /predict.
func (b *Bandit) predict(w *server.Response, r *server.Request) server.Outcome {
	if b.store != nil {
		return b.pend(r, func(ctx context.Context, sc *scratch, w *reply, body []byte) {
			b.predictFrom(ctx, sc, w, body, math.MaxInt)
		})
	}
	most := math.MaxInt
	if r.Inline() {
		if most = inlineItems; !few(r.Body, inlineItems) {
			return whenIdle(few(r.Body, laterItems))
		}
	}
	sc := b.getScratch()
	defer b.putScratch(sc)
	if n := b.predictFrom(context.Background(), sc, &reply{w, r.Stripe}, r.Body, most); n > most {
		return whenIdle(n <= laterItems)
	}
	return server.Done
}

// predictFrom answers the query in a body, unless it has more than most items, of which it returns the
// number.
func (b *Bandit) predictFrom(ctx context.Context, sc *scratch, w *reply, body []byte, most int) int {
	start := time.Now()
	sc.scanner.reset(body)
	if err := parseQuery(&sc.scanner, &sc.query, b.live.Load().MaxItems); err != nil {
		w.fail(err)
		return 0
	}
	n := len(sc.query.items)
	if n > most {
		return n
	}
	degraded, err := b.features(ctx, sc, &sc.query)
	if err != nil {
		w.fail(err)
		return 0
	}
	w.Field("Cache-Control", "no-store")
	w.Body = b.answer(w.Body, sc, &sc.query, degraded, w.stripe, start)
	return n
}

// answer samples the posteriors that sc holds and appends what they come to. start is when the request
// began to be read.
func (b *Bandit) answer(dst []byte, sc *scratch, q *query, degraded bool, stripe int,
	start time.Time) []byte {
	looked := time.Now()
	sc.sample(q)
	sampled := time.Now()
	dst = appendAnswer(dst, sc, q, degraded)
	b.count(len(sc.score), stripe, start, looked, sampled)
	return dst
}

// count counts an answer with n scores whose stages began at these times.
func (b *Bandit) count(n, stripe int, start, looked, sampled time.Time) {
	s := &b.stats
	s.predictions.Add(stripe, uint64(n))
	s.batches[sizeClass(n)].Add(stripe, 1)
	s.stages[stageFeatures].Observe(stripe, looked.Sub(start), 1)
	s.stages[stageSampling].Observe(stripe, sampled.Sub(looked), 1)
	s.stages[stageEncoding].Observe(stripe, time.Since(sampled), 1)
}

// appendAnswer appends the JSON of scores.
func appendAnswer(dst []byte, sc *scratch, q *query, degraded bool) []byte {
	n := len(sc.score)
	if q.top > 0 {
		order := sc.best(q, q.top)
		dst = append(dst, `{"items":[`...)
		for i, at := range order {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, q.items[at].token...)
		}
		dst = append(dst, `],"scores":[`...)
		for i, at := range order {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendScore(dst, sc.score[at])
		}
	} else {
		const perScore = len("0.123456789,")
		dst = slices.Grow(dst, n*perScore+64)
		dst = append(dst, `{"scores":[`...)
		for i, x := range sc.score {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendScore(dst, x)
		}
	}
	dst = append(dst, ']')
	if q.explain {
		dst = append(dst, `,"explain":[`...)
		for i := range n {
			at := i
			if q.top > 0 {
				if i == len(sc.order) {
					break
				}
				at = int(sc.order[i])
			}
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = sc.appendExplained(dst, at)
		}
		dst = append(dst, ']')
		if len(sc.segment) > 0 {
			dst = append(dst, `,"segment":`...)
			dst = appendText(dst, string(sc.segment))
		}
	}
	if degraded {
		dst = append(dst, `,"degraded":true`...)
	}
	return append(dst, '}')
}

// appendExplained appends where a score comes from.
func (sc *scratch) appendExplained(dst []byte, at int) []byte {
	alpha, beta := sc.alpha[at], sc.beta[at]
	dst = append(dst, `{"alpha":`...)
	dst = appendShape(dst, alpha)
	dst = append(dst, `,"beta":`...)
	dst = appendShape(dst, beta)
	dst = append(dst, `,"mean":`...)
	dst = appendShape(dst, mean(alpha, beta))
	dst = append(dst, `,"source":"`...)
	dst = append(dst, sourceNames[sc.source[at]]...)
	return append(dst, `"}`...)
}

// mean is that of a Beta distribution.
func mean(alpha, beta float64) float64 {
	if sum := alpha + beta; sum <= math.MaxFloat64 {
		return alpha / sum
	}
	return alpha / 2 / (alpha/2 + beta/2) // halved, the sum is finite
}

func appendText(dst []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic("BUG: text that cannot be marshalled: " + err.Error())
	}
	return append(dst, quoted...)
}

// predictBatch answers POST /predict/batch.
func (b *Bandit) predictBatch(w *server.Response, r *server.Request) server.Outcome {
	if b.store != nil {
		return b.pend(r, b.batch)
	}
	if r.Inline() {
		return server.Offload
	}
	sc := b.getScratch()
	defer b.putScratch(sc)
	b.batch(context.Background(), sc, &reply{w, r.Stripe}, r.Body)
	return server.Done
}

// batch answers the queries of an array, or of {"requests":[...]}, one after the other: one of them that is
// wrong is a problem for all.
func (b *Bandit) batch(ctx context.Context, sc *scratch, w *reply, body []byte) {
	s := &sc.scanner
	s.reset(body)
	// The whole is read before anything is computed.
	count, err := b.eachQuery(s, &sc.query, func() error { return nil })
	if err != nil {
		w.fail(err)
		return
	}
	if count == 0 {
		w.fail(&badRequest{422, `requests must be an array with at least one {"user":...,"items":[...]}`})
		return
	}
	s.reset(body)
	w.Body = append(w.Body, `{"results":[`...)
	first := true
	_, err = b.eachQuery(s, &sc.query, func() error {
		start := time.Now()
		degraded, err := b.features(ctx, sc, &sc.query)
		if err != nil {
			return err
		}
		if !first {
			w.Body = append(w.Body, ',')
		}
		first = false
		w.Body = b.answer(w.Body, sc, &sc.query, degraded, w.stripe, start)
		return nil
	})
	if err != nil {
		w.fail(err)
		return
	}
	w.Field("Cache-Control", "no-store")
	w.Body = append(w.Body, `]}`...)
}

// eachQuery reads the queries of a batch into q, one after the other, and calls do for each.
func (b *Bandit) eachQuery(s *scanner, q *query, do func() error) (count int, err error) {
	if err := s.something("an array of requests"); err != nil {
		return 0, err
	}
	seen := false
	list := func() error {
		seen = true
		if s.Space() != '[' {
			return s.wrongValue("an array of requests")
		}
		s.I++
		s.list, s.field = "requests", ""
		for more := s.First(']'); more; count++ {
			if count == b.live.Load().MaxQueries {
				return &badRequest{422, "more than " + strconv.Itoa(b.live.Load().MaxQueries) +
					" requests in one batch (--bandit-max-queries)"}
			}
			s.listed = count
			err := s.query(q, b.live.Load().MaxItems)
			if err != nil {
				return err
			}
			if err := do(); err != nil {
				return err
			}
			if more, err = s.Next(']'); err != nil {
				return err
			}
		}
		s.listed = -1
		return nil
	}
	if s.Space() == '[' {
		err = list()
	} else {
		err = s.object(func(key []byte) error {
			if string(key) != "requests" || seen {
				return s.unknown(key, "requests, once")
			}
			s.field = "requests"
			return list()
		})
	}
	if err != nil {
		return 0, err
	}
	return count, s.End()
}

// inlineEvents is the longest body of events that is read on the event loop.
const inlineEvents = 4 << 10

// postEvents answers POST /events once they are saved.
func (b *Bandit) postEvents(w *server.Response, r *server.Request) server.Outcome {
	if b.store != nil {
		client := r.Client()
		return b.pend(r, func(ctx context.Context, sc *scratch, w *reply, body []byte) {
			b.eventsFrom(ctx, sc, w, body, client)
		})
	}
	if r.Inline() && len(r.Body) > inlineEvents {
		return server.Offload
	}
	sc := b.getScratch()
	defer b.putScratch(sc)
	sc.scanner.reset(r.Body)
	var err error
	if sc.events, err = parseEvents(&sc.scanner, sc.events[:0], b.live.Load().MaxEvents); err != nil {
		b.answerEvents(&reply{w, r.Stripe}, len(sc.events), 0, err)
		return server.Done
	}
	n, stripe := len(sc.events), r.Stripe
	batch, err := b.batchOf(sc.events, nil)
	if err != nil {
		b.answerEvents(&reply{w, stripe}, n, 0, err)
		return server.Done
	}
	batch.Client = r.Client()
	c := r.Pend()
	batch.Done = func(duplicates int, err error) {
		c.Complete(func(w *server.Response) { b.answerEvents(&reply{w, stripe}, n, duplicates, err) })
	}
	b.learner.Learn(batch)
	return server.Pending
}

// eventsFrom answers POST /events where a feature store knows the segments of users.
func (b *Bandit) eventsFrom(ctx context.Context, sc *scratch, w *reply, body []byte, client netip.Addr) {
	sc.scanner.reset(body)
	var err error
	var segments []string
	if sc.events, err = parseEvents(&sc.scanner, sc.events[:0], b.live.Load().MaxEvents); err == nil {
		segments, err = b.segments(ctx, sc.events)
	}
	duplicates := 0
	if err == nil {
		duplicates, err = b.learn(sc.events, segments, client)
	}
	b.answerEvents(w, len(sc.events), duplicates, err)
}

// answerEvents says what became of n events.
func (b *Bandit) answerEvents(w *reply, n, duplicates int, err error) {
	if err != nil {
		b.stats.rejected.Add(w.stripe, uint64(max(1, n)))
		w.fail(err)
		return
	}
	w.Field("Cache-Control", "no-store")
	b.stats.accepted.Add(w.stripe, uint64(n-duplicates))
	b.stats.duplicates.Add(w.stripe, uint64(duplicates))
	w.Body = append(w.Body, `{"accepted":`...)
	w.Body = strconv.AppendInt(w.Body, int64(n-duplicates), 10)
	w.Body = append(w.Body, `,"duplicates":`...)
	w.Body = strconv.AppendInt(w.Body, int64(duplicates), 10)
	w.Body = append(w.Body, '}')
}

// postReload answers POST /admin/bandit/reload.
func (b *Bandit) postReload(w *server.Response, _ *server.Request) server.Outcome {
	if b.cfg.Arms == "" {
		w.Problem(http.StatusConflict,
			"there is no file of arms to read again: start with --bandit-arms FILE")
		return server.Done
	}
	if err := b.Reload(b.background); err != nil {
		w.Problem(http.StatusConflict, err.Error())
		return server.Done
	}
	m := b.model.Load()
	s := m.file.Stats()
	w.JSON(struct {
		Generation int    `json:"generation"`
		Arms       uint64 `json:"arms"`
		Users      uint64 `json:"users"`
		Segments   uint64 `json:"segments"`
	}{m.generation, s.Arms, s.Users, s.Segments})
	return server.Done
}
