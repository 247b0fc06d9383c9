package server

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// Of the connections that have something to read, with nothing left from before, up to maxBatch are read
// before the first of them is answered. Routes that have a Prefetch can so ask for what several requests
// need from memory at once: the waits, each as long as all the rest that is done for a request of a
// pipeline, are then one. Measured with 5 million lists: 1.24 us a pipelined request became 1.11, and 7.8
// us a single one 7.6.
type batch struct {
	conns  [maxBatch]*conn
	data   [maxBatch][]byte
	n      int
	params [][]byte
}

const (
	maxBatch    = 16 // connections
	maxPrefetch = 16 // requests of one connection that are prefetched for
)

// addToBatch has c, which is phaseReading and has nothing in in, read and answered by the next answerBatch.
func (l *loop) addToBatch(c *conn) {
	g := &l.batch
	g.conns[g.n] = c
	if g.n++; g.n == maxBatch {
		l.answerBatch()
	}
}

// answerBatch reads from each of the connections batch once, and answers what has wholly arrived.
func (l *loop) answerBatch() {
	g := &l.batch
	for conns := g.conns[:g.n]; len(conns) > 0; {
		n := l.receiveBatch(conns)
		l.prefetch(g.data[:n])
		for i, data := range g.data[:n] {
			if len(data) > 0 {
				l.answer(conns[i], data)
			}
		}
		conns = conns[n:]
	}
	g.n = 0
}

// receiveBatch reads from conns, one after the other as long as there is room for as much as one may send,
// and returns from how many. What has come is in data, nothing from those that were closed.
func (l *loop) receiveBatch(conns []*conn) (n int) {
	used := 0
	for n < len(conns) && len(l.read)-used >= readSize {
		c := conns[n]
		if c.fd < 0 || c.phase != phaseReading || len(c.in) > 0 { // something has become of it meanwhile
			l.batch.data[n] = nil
			n++
			continue
		}
		got, err := c.receive(l.read[used : used+readSize])
		// who appends to it does not write into the next one
		l.batch.data[n] = l.read[used : used+got : used+got]
		used += got
		n++
		if got == 0 && err != unix.EAGAIN {
			l.close(c)
		}
	}
	return n
}

// prefetch tells routes of the requests in data, if there are several.
func (l *loop) prefetch(data [][]byte) {
	g := &l.batch
	for _, r := range l.s.routes.prefetch {
		g.params = g.params[:0]
		for _, d := range data {
			g.params = r.paramsOf(g.params, d)
		}
		if len(g.params) > 1 {
			l.s.prefetch(r, l.stripe, g.params)
		}
	}
}

// paramsOf appends the first parameters of the requests at the beginning of data that r will get, by the
// look of them: what is not one after all is looked up for nothing.
func (r *route) paramsOf(params [][]byte, data []byte) [][]byte {
	for range maxPrefetch {
		rest, ok := bytes.CutPrefix(data, r.begins)
		if !ok {
			break
		}
		n := 0
		for n < len(rest) && rest[n] != ' ' && rest[n] != '?' && rest[n] != '/' {
			n++
		}
		params = append(params, rest[:n])
		size := headEnd(rest, n)
		if size == 0 {
			break
		}
		data = rest[size:]
	}
	return params
}
