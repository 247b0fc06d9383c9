package server

import "time"

// deadlines is a queue of connections whose timeout of one class runs: since all of a class wait
// equally long, the order of arrival is the order of expiry, and neither a heap nor a timer a
// connection is needed. Times are nanoseconds on the loop's clock.
type deadlines struct {
	timeout    time.Duration
	head, tail *timed
}

// timed is a connection's place in at most one queue.
type timed struct {
	prev, next *timed
	queue      *deadlines
	at         int64 // expiry
	owner      *conn
}

// start puts t at the end of the queue, out of any other it stands in.
func (d *deadlines) start(t *timed, now int64) { d.startAt(t, now+int64(d.timeout)) }

// retime changes the timeout, also of those that wait already: one walk through the queue.
func (d *deadlines) retime(timeout time.Duration) {
	by := int64(timeout - d.timeout)
	d.timeout = timeout
	for t := d.head; t != nil && by != 0; t = t.next {
		t.at += by
	}
}

// startAt is start with an expiry of its own, which takes effect once those before it have expired.
func (d *deadlines) startAt(t *timed, at int64) {
	t.stop()
	t.at = at
	t.queue = d
	t.prev = d.tail
	if d.tail != nil {
		d.tail.next = t
	} else {
		d.head = t
	}
	d.tail = t
}

// stop takes t out of its queue, if it is in one.
func (t *timed) stop() {
	d := t.queue
	if d == nil {
		return
	}
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		d.head = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	} else {
		d.tail = t.prev
	}
	t.prev, t.next, t.queue = nil, nil, nil
}

// expired takes out and returns the first connection whose time is over, nil when there is none.
func (d *deadlines) expired(now int64) *conn {
	t := d.head
	if t == nil || t.at > now {
		return nil
	}
	t.stop()
	return t.owner
}
