package server

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestDeadlinesExpireInTheOrderTheyWereStarted(t *testing.T) {
	d := deadlines{timeout: 10}
	a, b := &conn{}, &conn{}
	a.timed.owner, b.timed.owner = a, b
	d.start(&a.timed, 0)
	d.start(&b.timed, 5)
	if c := d.expired(9); c != nil {
		t.Fatal("one expired before its time")
	}
	if c := d.expired(10); c != a {
		t.Fatal("the first did not expire at its time")
	}
	if c := d.expired(14); c != nil {
		t.Fatal("the second expired before its time")
	}
	if c := d.expired(1000); c != b {
		t.Fatal("the second did not expire")
	}
	if d.head != nil || d.tail != nil || d.expired(1000) != nil {
		t.Fatal("the queue is not empty")
	}
}

func TestStartingAgainMovesADeadlineToTheEndAndOutOfOtherQueues(t *testing.T) {
	idle, write := deadlines{timeout: 10}, deadlines{timeout: 3}
	a, b := &conn{}, &conn{}
	a.timed.owner, b.timed.owner = a, b
	idle.start(&a.timed, 0)
	idle.start(&b.timed, 1)
	idle.start(&a.timed, 2)
	if c := idle.expired(11); c != b {
		t.Fatal("the one left in place did not expire first")
	}
	write.start(&a.timed, 4)
	if idle.head != nil || idle.expired(100) != nil {
		t.Fatal("it is still in the queue it has left")
	}
	a.timed.stop()
	a.timed.stop() // again: nothing
	if write.head != nil || write.tail != nil {
		t.Fatal("it was not taken out")
	}
}

// Any sequence of starts, stops and expiries must agree with a plain list.
func TestDeadlinesAgreeWithAPlainList(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	d := deadlines{timeout: 20}
	conns := make([]*conn, 8)
	for i := range conns {
		conns[i] = &conn{}
		conns[i].timed.owner = conns[i]
	}
	type entry struct {
		c  *conn
		at int64
	}
	var plain []entry
	drop := func(c *conn) {
		plain = slices.DeleteFunc(plain, func(e entry) bool { return e.c == c })
	}
	for now := int64(0); now < 20_000; now += int64(rnd.IntN(4)) {
		c := conns[rnd.IntN(len(conns))]
		switch rnd.IntN(6) {
		case 0, 1, 2:
			d.start(&c.timed, now)
			drop(c)
			plain = append(plain, entry{c, now + int64(d.timeout)})
		case 3:
			c.timed.stop()
			drop(c)
		case 4:
			for got := d.expired(now); got != nil; got = d.expired(now) {
				if len(plain) == 0 || plain[0].c != got || plain[0].at > now {
					t.Fatalf("at %d: expired what should not", now)
				}
				plain = plain[1:]
			}
			if len(plain) > 0 && plain[0].at <= now {
				t.Fatalf("at %d: what was due at %d did not expire", now, plain[0].at)
			}
		case 5:
			timeout := time.Duration(10 + rnd.IntN(20))
			for i := range plain {
				plain[i].at += int64(timeout - d.timeout)
			}
			d.retime(timeout)
		}
	}
}
