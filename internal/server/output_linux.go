package server

import "slices"

// flush sends l.out. What the socket does not take is kept in c.out, and c drains: nothing is
// parsed or read until the client has taken it. It returns false when c drains or is closed.
func (l *loop) flush(c *conn) bool {
	if c.fd < 0 || c.phase == phaseDraining {
		if c.fd >= 0 && len(l.out) > 0 {
			if len(c.pieces) > 0 {
				c.pieces = append(c.pieces, slices.Clone(l.out))
			} else {
				c.out = append(c.out, l.out...)
			}
			l.out = l.out[:0]
		}
		return false
	}
	if len(l.out) == 0 {
		return true
	}
	n, err := send(c.fd, l.out)
	if err != nil {
		l.out = l.out[:0]
		l.close(c)
		return false
	}
	if n == len(l.out) {
		l.out = l.out[:0]
		return true
	}
	c.out = append(c.out[:0], l.out[n:]...)
	l.out = l.out[:0]
	l.drain(c)
	return false
}

// flushPieces is flush with the pieces of an answer whose head is at the end of l.out.
func (l *loop) flushPieces(c *conn, w *Response, headOnly bool) bool {
	if headOnly || len(w.pieces) == 0 || w.Status == 204 || w.Status == 304 {
		w.drop()
		return l.flush(c)
	}
	c.out = l.out // until it shows what the socket does not take
	c.takePieces(w)
	sent := l.flushKept(c)
	c.out = slices.Clone(c.out)
	l.out = l.out[:0]
	return sent
}

// takePieces makes the pieces of an answer c's to send and release.
func (c *conn) takePieces(w *Response) {
	c.pieces, c.release = w.pieces, w.release
	w.pieces, w.release = nil, nil
}

// drop lets go of pieces.
func (c *conn) drop() {
	if c.release != nil {
		c.release()
	}
	c.pieces, c.release = nil, nil
}

// flushKept sends c.out and c.pieces. It returns false when c drains or is closed.
func (l *loop) flushKept(c *conn) bool {
	sent, err := c.sendKept()
	switch {
	case err != nil:
		l.close(c)
		return false
	case len(c.out)+len(c.pieces) == 0:
		c.drop()
		return true
	case c.phase != phaseDraining:
		l.drain(c)
	case sent > 0:
		l.write.start(&c.timed, l.now)
	}
	return false
}

// sendKept sends what the socket takes of c.out and c.pieces, and cuts it off.
func (c *conn) sendKept() (sent int, err error) {
	if len(c.pieces) == 0 {
		sent, err = send(c.fd, c.out)
		c.out = c.out[sent:]
		return sent, err
	}
	const atOnce = 64 // of the pieces; the system takes 1024
	l := c.loop
	l.vectors = appendVector(l.vectors[:0], c.out)
	for _, p := range c.pieces[:min(len(c.pieces), atOnce)] {
		l.vectors = appendVector(l.vectors, p)
	}
	sent, err = sendVectors(c.fd, l.vectors)
	clear(l.vectors)
	if err != nil {
		return 0, err
	}
	left := min(sent, len(c.out))
	c.out, left = c.out[left:], sent-left
	for len(c.pieces) > 0 && left >= len(c.pieces[0]) {
		left -= len(c.pieces[0])
		c.pieces = c.pieces[1:]
	}
	if left > 0 {
		c.pieces[0] = c.pieces[0][left:]
	}
	return sent, nil
}

// drain makes c wait for its client to take c.out.
func (l *loop) drain(c *conn) {
	c.phase = phaseDraining
	l.write.start(&c.timed, l.now)
}

// writable sends more of what c has kept, and goes on when all is sent.
func (l *loop) writable(c *conn) {
	if !l.flushKept(c) {
		return
	}
	c.out = nil
	if c.pending != nil {
		l.waitPending(c)
		l.completed(c, c.pending)
		return
	}
	l.resume(c)
}
