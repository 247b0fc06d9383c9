package server

import (
	"bytes"
	"net/http"
	"time"
)

// parse answers requests into l.out until data holds no whole one, and returns what is left. The connection
// may have been handed off, offloaded or closed, or be pending, when it returns: data is not valid then.
func (l *loop) parse(c *conn, data []byte) []byte {
	h := &l.head
	for len(data) > 0 && !c.closing {
		if len(l.out) >= l.s.cfg.MaxOutput && !l.flush(c) {
			return data
		}
		if len(data) >= 2 && data[0] == '\r' && data[1] == '\n' {
			if c.empty++; c.empty > maxEmptyLines {
				l.refuse(c, data, errEmptyLines)
				return nil
			}
			data, c.scanned = data[2:], 0 // an empty line before a request: RFC 9112, 2.2
			continue
		}
		size := headEnd(data, c.scanned)
		if size == 0 && len(data) <= l.s.cfg.MaxHeader {
			if err := checkPartial(data, c.scanned); err != nil {
				l.refuse(c, data, err)
				return nil
			}
			c.scanned = len(data)
			return data
		}
		if size == 0 || size > l.s.cfg.MaxHeader {
			l.refuse(c, data, headTooLong(data, l.s.cfg.MaxHeader))
			return nil
		}
		if err := parseHead(data[:size], h); err != nil {
			l.refuse(c, data, err)
			return nil
		}
		r := &l.req
		r.begin()
		r.fd = c.fd
		route, at := l.s.routes.find(h.method, h.path, &r.params)
		body, total, err := l.body(c, data, route)
		if err != nil {
			l.refuse(c, data, err)
			return nil
		}
		if total == 0 {
			return data[:size+len(body)]
		}
		if c.timed.queue == &l.request {
			c.timed.stop() // it is whole; what follows has a deadline of its own
		}

		r.Method, r.Path, r.Query, r.header, r.Body = h.method, h.path, h.query, h.header, body
		l.resp.reset()
		l.sheds = l.shed.Shedder != nil && route != nil
		refused, outcome := false, Done
		if route != nil {
			r.route, r.class = route, route.Class
		}
		if l.sheds {
			refused = !l.shed.admits(r.class)
		}
		switch {
		case refused:
		case route == nil:
			route = l.s.unrouted
			l.s.routes.noRoute(&l.resp, h.method, at)
		case !r.decodeParams():
			l.resp.Problem(http.StatusBadRequest, errEscape.detail)
		case h.flags&coded != 0 && len(body) > 0:
			refuseCoding(&l.resp)
		case l.s.isDown(&l.resp, route):
		default:
			outcome = l.s.run(&l.resp, r)
			refused = r.rejected
		}
		if !refused && outcome != Done && outcome != Pending && !l.flush(c) {
			return data // it is parsed, and admitted or rejected, again
		}
		c.scanned, c.need, c.chunks, c.empty, c.told = 0, 0, chunkedBody{}, 0, false
		c.size, c.bodyEnd = total, size+len(body)
		if l.sheds {
			l.shed.counts(r.class, refused)
		}
		c.closing, c.keepAlive = h.flags&connClose != 0, h.flags&keepAlive != 0
		switch {
		case refused || outcome == Done:
		case outcome == Pending:
			l.pend(c, data, r.completion)
			return nil
		case outcome == NetHTTP:
			l.handOff(c, data)
			return nil
		default:
			moved := l.offload(c, data, outcome)
			if moved == nil {
				return nil
			}
			data = moved
		}
		c.closing = c.closing || l.stopping && len(data) == total || refused && c.keepAlive
		if refused {
			l.reject(c, route, r.class, h.method == http.MethodHead)
		} else {
			h.answerKeepAlive(&l.resp)
			l.out = l.heads.append(l.out, &l.resp, h.method == http.MethodHead, c.closing)
			l.countInline(route, l.resp.Status)
			if l.resp.pieces != nil && !l.flushPieces(c, &l.resp, h.method == http.MethodHead) {
				return data[total:]
			}
		}
		data = data[total:]
	}
	return data
}

// body returns the body of the request at the start of data, whose head is parsed, and where the request
// ends; 0 when that has not come yet. A chunked body is decoded in place.
func (l *loop) body(c *conn, data []byte, route *route) (body []byte, end int, err *parseError) {
	h, limit := &l.head, l.s.maxBody(route)
	if h.flags&chunked == 0 {
		if h.contentLength > limit {
			return nil, 0, l.s.tooLong(route)
		}
		end = h.size + h.contentLength
		if len(data) >= end {
			return data[h.size:end], end, nil
		}
		body, c.need = data[h.size:], end
	} else {
		if err := c.chunks.decode(data[h.size:], limit); err == errContentTooLong {
			return nil, 0, l.s.tooLong(route)
		} else if err != nil {
			return nil, 0, err
		}
		body = data[h.size : h.size+c.chunks.size]
		if c.chunks.done() {
			return body, h.size + c.chunks.end, nil
		}
		c.need = h.size + len(body) + 1
	}
	c.scanned = h.size - 1 // where the head ends must be found again
	if h.flags&expects != 0 && !c.told {
		c.told = true
		if len(data) == h.size {
			l.out = append(l.out, "HTTP/1.1 100 Continue\r\n\r\n"...)
		}
	}
	return body, 0, nil
}

// refuse answers the request at the start of data, which breaks the protocol or came too late, and closes.
func (l *loop) refuse(c *conn, data []byte, err *parseError) {
	l.resp.reset()
	l.resp.Problem(err.status, err.detail)
	l.out = l.heads.append(l.out, &l.resp, bytes.HasPrefix(data, []byte("HEAD ")), true)
	l.s.count(l.s.unrouted, l.stripe, err.status, 0)
	c.closing = true
	l.keep(c, nil)
	if l.flush(c) {
		l.hangUp(c)
	}
}

// countInline counts a request answered inline. Latencies are observed together, once the answers of
// an event are sent: see observe.
func (l *loop) countInline(route *route, status int) {
	l.s.counter(route, status).Add(l.stripe, 1)
	if l.timing.route != route && l.timing.n > 0 {
		l.observe()
	}
	l.timing.route = route
	l.timing.n++
}

// timing is the run of requests for one route whose latency is not observed yet.
type timing struct {
	route *route
	n     uint64
}

// observe records the latency of the requests counted since the last call: from the wake-up that
// found them to now, when their answers have been sent. It so includes the time an answer waited
// behind those of other connections.
func (l *loop) observe() {
	if l.timing.n == 0 {
		return
	}
	l.timing.route.latency.Observe(l.stripe, time.Since(l.epoch)-time.Duration(l.now), l.timing.n)
	l.timing.n = 0
}
