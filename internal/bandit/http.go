package bandit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"weir/internal/bandit/featurestore"
	"weir/internal/jsonscan"
	"weir/internal/server"
)

// inlineItems is the most items that are answered on the event loop at once. Up to laterItems it is done there or by a worker after
// what else is ready, and by a worker beyond that, so that requests beside it need not wait.
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

// Routes implements server.Service.
func (b *Bandit) Routes() []server.Route {
	lent := func(answer func(sc *scratch, w *reply, r *http.Request, body []byte)) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.lent(w, r, answer) })
	}
	return append(b.inferRoutes(lent), []server.Route{
		{Pattern: "POST /predict", Handler: b.fastPredict, Stream: lent(b.predict)},
		{Pattern: "POST /predict/batch", Handler: b.fastBatch, Stream: lent(b.batch), Class: server.Low},
		{Pattern: "POST /events", Handler: b.fastEvents, Stream: lent(b.postEvents)},
		{Pattern: "POST /admin/bandit/reload", Admin: true, Handler: b.postReload},
		{Pattern: "POST /admin/bandit/forget", Admin: true, MaxBody: 16 << 10, Handler: b.postForget},
	}...)
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
		detail = "the server is overloaded, and would have to ask the feature store; come again after as many seconds as Retry-After says"
	case errors.As(err, &store):
		detail = "the feature store failed: " + featurestore.Reason(store) + " (the log says more)"
	default: // the errors above, and those of accept
		detail = err.Error()
	}
	w.Problem(status, detail)
}

// fastPredict answers POST /predict by what is in memory.
func (b *Bandit) fastPredict(w *server.Response, r *server.Request) server.Outcome {
	if b.store != nil {
		return server.NetHTTP
	}
	if r.Inline() && !few(r.Body, inlineItems) {
		return whenIdle(few(r.Body, laterItems))
	}
	sc := b.borrow()
	defer b.giveBack(sc)
	start := time.Now()
	sc.scanner.reset(r.Body)
	if err := parseQuery(&sc.scanner, &sc.query, b.cfg.MaxItems); err != nil {
		(&reply{w, r.Stripe}).fail(err)
		return server.Done
	}
	if r.Inline() && len(sc.query.items) > inlineItems {
		return whenIdle(len(sc.query.items) <= laterItems)
	}
	if !b.look(sc, sc.query.user, sc.query.segment, sc.query.keys, nil) {
		(&reply{w, r.Stripe}).fail(errLoading)
		return server.Done
	}
	w.Field("Cache-Control", "no-store")
	w.Body = b.answer(w.Body, sc, &sc.query, false, r.Stripe, start)
	return server.Done
}

// answer samples the posteriors that sc holds and appends what they come to. start is when the request
// began to be read.
func (b *Bandit) answer(dst []byte, sc *scratch, q *query, degraded bool, stripe int, start time.Time) []byte {
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
		order := sc.best(q.top)
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

// predict answers POST /predict where the features come from a store, or net/http has the request.
func (b *Bandit) predict(sc *scratch, w *reply, r *http.Request, body []byte) {
	start := time.Now()
	sc.scanner.reset(body)
	if err := parseQuery(&sc.scanner, &sc.query, b.cfg.MaxItems); err != nil {
		w.fail(err)
		return
	}
	degraded, err := b.features(r.Context(), sc, &sc.query)
	if err != nil {
		w.fail(err)
		return
	}
	w.Body = b.answer(w.Body, sc, &sc.query, degraded, w.stripe, start)
}

// fastBatch answers POST /predict/batch by what is in memory, on a worker.
func (b *Bandit) fastBatch(w *server.Response, r *server.Request) server.Outcome {
	if b.store != nil {
		return server.NetHTTP
	}
	if r.Inline() {
		return server.Offload
	}
	sc := b.borrow()
	defer b.giveBack(sc)
	w.Field("Cache-Control", "no-store")
	b.batch(sc, &reply{w, r.Stripe}, nil, r.Body)
	return server.Done
}

// batch answers the queries of an array, or of {"requests":[...]}, one after the other: one of them that is
// wrong is a problem for all. r is nil where there is no store.
func (b *Bandit) batch(sc *scratch, w *reply, r *http.Request, body []byte) {
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
		degraded := false
		var err error
		if r != nil {
			degraded, err = b.features(r.Context(), sc, &sc.query)
		} else if !b.look(sc, sc.query.user, sc.query.segment, sc.query.keys, nil) {
			err = errLoading
		}
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
			if count == b.cfg.MaxQueries {
				return &badRequest{422, "more than " + strconv.Itoa(b.cfg.MaxQueries) + " requests in one batch (--bandit-max-queries)"}
			}
			s.listed = count
			err := s.query(q, b.cfg.MaxItems)
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

// fastEvents answers POST /events. Saving them may wait for the disk: a worker does it where nobody else is
// at it, so that a disk that does not answer holds one of them, and else net/http.
func (b *Bandit) fastEvents(w *server.Response, r *server.Request) server.Outcome {
	if b.store != nil {
		return server.NetHTTP
	}
	if r.Inline() {
		return server.Offload
	}
	sc := b.borrow()
	defer b.giveBack(sc)
	if b.eventsBody(sc, &reply{w, r.Stripe}, r.Body, false, nil) == errBusy {
		return server.NetHTTP
	}
	return server.Done
}

// postEvents answers POST /events on net/http.
func (b *Bandit) postEvents(sc *scratch, w *reply, r *http.Request, body []byte) {
	b.eventsBody(sc, w, body, true, r) //nolint:errcheck // it waits, so it is not busy
}

// eventsBody takes in the events of a body and answers, or returns errBusy and does nothing.
func (b *Bandit) eventsBody(sc *scratch, w *reply, body []byte, wait bool, r *http.Request) error {
	sc.scanner.reset(body)
	var err error
	sc.events, err = parseEvents(&sc.scanner, sc.events[:0], b.cfg.MaxEvents)
	var segments []string
	if err == nil && r != nil {
		segments, err = b.segments(r.Context(), sc.events)
	}
	duplicates := 0
	if err == nil {
		if duplicates, err = b.accept(sc.events, segments, wait, w.stripe); err == errBusy {
			return err
		}
	}
	if err != nil {
		b.stats.rejected.Add(w.stripe, uint64(max(1, len(sc.events))))
		w.fail(err)
		return nil
	}
	b.stats.accepted.Add(w.stripe, uint64(len(sc.events)-duplicates))
	w.Body = append(w.Body, `{"accepted":`...)
	w.Body = strconv.AppendInt(w.Body, int64(len(sc.events)-duplicates), 10)
	w.Body = append(w.Body, `,"duplicates":`...)
	w.Body = strconv.AppendInt(w.Body, int64(duplicates), 10)
	w.Body = append(w.Body, '}')
	return nil
}

// lent answers a request on net/http with the functions that answer all.
func (b *Bandit) lent(w http.ResponseWriter, r *http.Request, answer func(*scratch, *reply, *http.Request, []byte)) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxLent+1))
	if err != nil || len(body) > maxLent {
		server.WriteProblem(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body could not be read: it may have at most %d bytes", maxLent))
		return
	}
	sc := b.borrow()
	defer b.giveBack(sc)
	var a server.Response
	a.Field("Cache-Control", "no-store")
	answer(sc, &reply{&a, 0}, r, body)
	a.Write(w, r)
}

// maxLent bounds a body that is read as a whole.
const maxLent = 64 << 20

// postReload answers POST /admin/bandit/reload.
func (b *Bandit) postReload(w *server.Response, _ *server.Request) server.Outcome {
	if b.cfg.Arms == "" {
		w.Problem(http.StatusConflict, "there is no file of arms to read again: start with --bandit-arms FILE")
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
