package sequence

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"weir/internal/sequence/decimal"
	"weir/internal/server"
)

// Routes implements server.Service.
func (s *Sequence) Routes() []server.Route {
	return []server.Route{
		{Pattern: "GET /current", Handler: s.answerStep(stay)},
		{Pattern: "GET /next", Handler: s.answerStep(forward)},
		{Pattern: "GET /previous", Handler: s.answerStep(back)},
		{Pattern: "GET /fib/{n}", Handler: s.answerValue},
		{Pattern: "GET /fib", Handler: s.answerRange, Class: server.Low},
		{Pattern: "PUT /current", Admin: true, MaxBody: 4 << 10, Handler: s.putCurrent},
		{Pattern: "GET /admin/sequence", Admin: true, Handler: s.getState},
	}
}

const (
	notSaved  = "the index cannot be saved at the moment, so it does not move"
	notKnown  = "the index cannot be asked for at the moment"
	immutable = "public, max-age=31536000, immutable"
)

func (s *Sequence) atEnd() string {
	most := strconv.FormatUint(s.live.Load().MaxIndex, 10)
	return "the index is at its maximum, " + most + ", and has not moved"
}

// answerStep answers GET /current, /next and /previous. A HEAD moves nothing. A step to a value that is not
// at hand is admitted first, then the index moves, then the value is waited for.
func (s *Sequence) answerStep(step step) server.Handler {
	return func(w *server.Response, r *server.Request) server.Outcome {
		if r.Inline() && !s.index.Inline() {
			return server.Offload
		}
		ctx, cancel := s.indexContext()
		defer cancel()
		for {
			at, err := s.index.Get(ctx)
			if err != nil {
				w.Problem(http.StatusServiceUnavailable, notKnown)
				return server.Done
			}
			to, err := s.target(at, step)
			if err != nil {
				w.Problem(http.StatusConflict, s.atEnd())
				return server.Done
			}
			w.Field("Cache-Control", "no-store")
			h, ok := s.find(to)
			if !ok && r.Method == http.MethodHead {
				w.Unmade(valueLength(to, object))
				return server.Done
			}
			var t ticket
			if !ok {
				if t, err = s.admit(r, to, 0); err != nil {
					return refuse(w, err)
				}
			}
			moved := true
			if r.Method != http.MethodHead {
				moved, err = s.move(ctx, at, to)
			}
			switch {
			case err == nil && moved && ok:
				w.Body = s.give(w.Body, &h, object, r.Stripe)
				return server.Done
			case err == nil && moved:
				return s.await(r, t, "; the index is "+strconv.FormatUint(to, 10),
					func(_ context.Context, w *server.Response, p pair) {
						w.Field("Cache-Control", "no-store")
						sendObject(w, to, p.f, t)
					})
			case ok:
				h.drop()
			default:
				t.giveBack()
			}
			if err != nil {
				w.Problem(http.StatusServiceUnavailable, notSaved)
				return server.Done
			}
			w.Clear() // somebody else has moved the index
		}
	}
}

// errRejected means that the server is overloaded; the answer is the kernel's.
var errRejected = errors.New("rejected")

// admit gives a ticket for a request that needs a value computed.
func (s *Sequence) admit(r *server.Request, n uint64, extra int64) (ticket, error) {
	if !r.Admit(server.Low) {
		return ticket{}, errRejected
	}
	return s.computations.admit(n, extra)
}

// refuse answers a request that was not admitted.
func refuse(w *server.Response, err error) server.Outcome {
	w.Problem(http.StatusServiceUnavailable, err.Error())
	return server.Done
}

// await leaves a request pending until its ticket's value is there, and has it answered then; the answer
// gives the ticket back.
func (s *Sequence) await(r *server.Request, t ticket, moved string,
	answer func(context.Context, *server.Response, pair)) server.Outcome {
	r.Pend().Go(func(ctx context.Context, w *server.Response) {
		p, how, err := t.wait(ctx)
		if err == nil {
			s.given[how].Add(0, 1)
			answer(ctx, w, p)
			return
		}
		t.giveBack()
		switch {
		case errors.Is(err, errStopped):
			w.Problem(http.StatusServiceUnavailable, err.Error()+moved)
		case ctx.Err() != nil:
			w.Problem(http.StatusServiceUnavailable,
				"the client ended its side of the connection, so the value was given up"+moved)
		default:
			w.Problem(http.StatusInternalServerError,
				"the value could not be computed; the reason has been logged"+moved)
		}
	})
	return server.Pending
}

// sendObject answers with F(n) as a JSON object.
func sendObject(w *server.Response, n uint64, digits []byte, t ticket) {
	w.Body = appendBodyStart(w.Body, n)
	w.Pieces(t.giveBack, digits, []byte(bodyEnd))
}

// answerValue answers GET /fib/{n}.
func (s *Sequence) answerValue(w *server.Response, r *server.Request) server.Outcome {
	n, ok := parseIndex(string(r.Param(0)), s.live.Load().MaxIndex)
	if !ok {
		w.Problem(http.StatusUnprocessableEntity, s.wrongIndex("n", 0))
		return server.Done
	}
	format := object
	for q := r.Query; ; {
		key, value, rest, more, ok := r.NextQuery(q)
		if !ok {
			w.Problem(http.StatusUnprocessableEntity, wrongQuery)
			return server.Done
		}
		if !more {
			break
		}
		q = rest
		if string(key) == "format" {
			if format, ok = parseFormat(string(value)); !ok {
				w.Problem(http.StatusUnprocessableEntity, wrongFormat)
				return server.Done
			}
		}
	}
	var memory [64]byte
	tag := string(appendTag(memory[:0], n, format))
	if forever(w, r, tag) {
		return server.Done
	}
	if format == text && (r.Header("Range") != nil || r.Header("If-Match") != nil) {
		return s.answerPart(w, r, n, tag)
	}
	describe(w, format)
	if h, ok := s.find(n); ok {
		w.Body = s.give(w.Body, &h, format, r.Stripe)
		return server.Done
	}
	if r.Method == http.MethodHead {
		w.Unmade(valueLength(n, format))
		return server.Done
	}
	t, err := s.admit(r, n, 0)
	if err != nil {
		return refuse(w, err)
	}
	return s.await(r, t, "", func(_ context.Context, w *server.Response, p pair) {
		w.Field("ETag", tag)
		w.Field("Cache-Control", immutable)
		describe(w, format)
		if format == object {
			sendObject(w, n, p.f, t)
		} else {
			w.Pieces(t.giveBack, p.f)
		}
	})
}

// describe says what an answer with a value is.
func describe(w *server.Response, format format) {
	if format == text {
		w.ContentType = textType
		w.Field("Accept-Ranges", "bytes")
	}
}

// forever says that an answer never changes. It returns true when the client has it, and was told so.
func forever(w *server.Response, r *server.Request, tag string) bool {
	w.Field("Cache-Control", immutable)
	return server.NotModified(w, r, tag, time.Time{})
}

const (
	textType    = "text/plain; charset=utf-8"
	wrongFormat = "format must be json or text"
	wrongQuery  = "the query holds a malformed percent-escape"
)

// wrongIndex is the detail about a parameter that is no index, or below the least it may be.
func (s *Sequence) wrongIndex(name string, least uint64) string {
	return fmt.Sprintf("%s must be a whole number from %d to %d", name, least, s.live.Load().MaxIndex)
}

func parseFormat(v string) (format, bool) {
	switch v {
	case "json":
		return object, true
	case "text":
		return text, true
	}
	return 0, false
}

// appendTag appends the ETag of a value, which never changes.
func appendTag(dst []byte, n uint64, format format) []byte {
	dst = append(dst, `"fib-`...)
	dst = strconv.AppendUint(dst, n, 10)
	if format == text {
		return append(dst, `-text"`...)
	}
	return append(dst, `-json"`...)
}

// answerRange answers GET /fib?from=A&to=B.
func (s *Sequence) answerRange(w *server.Response, r *server.Request) server.Outcome {
	if r.Inline() {
		return server.Offload // the length is a sum over all values
	}
	var given [2][]byte
	for q := r.Query; ; {
		key, value, rest, more, ok := r.NextQuery(q)
		if !ok {
			w.Problem(http.StatusUnprocessableEntity, wrongQuery)
			return server.Done
		}
		if !more {
			break
		}
		q = rest
		switch {
		case string(key) == "from" && given[0] == nil:
			given[0] = value
		case string(key) == "to" && given[1] == nil:
			given[1] = value
		}
	}
	from, ok := parseIndex(string(given[0]), s.live.Load().MaxIndex)
	if !ok {
		w.Problem(http.StatusUnprocessableEntity, s.wrongIndex("from", 0))
		return server.Done
	}
	to, ok := parseIndex(string(given[1]), s.live.Load().MaxIndex)
	if !ok || to < from {
		w.Problem(http.StatusUnprocessableEntity, s.wrongIndex("to", from))
		return server.Done
	}
	length, fits := rangeLength(from, to, s.live.Load().RangeBytes)
	if !fits {
		w.Problem(http.StatusUnprocessableEntity,
			"to must be nearer to from: the answer would be longer than "+
				strconv.FormatInt(s.live.Load().RangeBytes, 10)+
				" bytes; ask for the values in several requests")
		return server.Done
	}
	tag := `"fib-` + strconv.FormatUint(from, 10) + "-" + strconv.FormatUint(to, 10) + `-json"`
	if forever(w, r, tag) {
		return server.Done
	}
	if r.Method == http.MethodHead {
		w.Unmade(int(length))
		return server.Done
	}
	t, err := s.admit(r, from, length+3*int64(decimal.Digits(to)))
	if err != nil {
		return refuse(w, err)
	}
	return s.await(r, t, "", func(ctx context.Context, w *server.Response, p pair) {
		body := append(make([]byte, 0, length), '[')
		err := p.values(ctx, to-from, func(n uint64, digits []byte) error {
			body = append(appendBodyStart(body, n), digits...)
			body = append(body, bodyEnd+","...)
			return nil
		})
		if err != nil { // the client has gone
			t.giveBack()
			return
		}
		body[len(body)-1] = ']'
		w.Field("ETag", tag)
		w.Field("Cache-Control", immutable)
		w.Pieces(t.giveBack, body)
	})
}

// rangeLength returns how long the array of F(from) to F(to) is; false when it is longer than limit.
func rangeLength(from, to uint64, limit int64) (int64, bool) {
	length := int64(1) // brackets and commas are one more than values
	if int64(to-from+1) > limit/int64(valueLength(from, object)) {
		return 0, false // and not worth adding up
	}
	for n := from; n <= to; n++ {
		if length += int64(valueLength(n, object)) + 1; length > limit {
			return 0, false
		}
	}
	return length, true
}
