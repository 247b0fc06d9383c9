package main

import (
	"testing"
	"time"
)

func TestAPacerServesItsRateAndMakesGoodAShortStallOnly(t *testing.T) {
	p := &pacer{rate: 1000}
	start := time.Now()
	served := func(from, to time.Duration) (n int) {
		for at := from; at < to; at += 100 * time.Microsecond {
			if _, ok := p.turn(start.Add(at)); ok {
				n++
			}
		}
		return n
	}
	served(0, time.Second)
	for _, c := range []struct {
		from, to time.Duration
		want     int
	}{
		{time.Second, 2 * time.Second, 1000},
		{2*time.Second + 10*time.Millisecond, 3 * time.Second, 1000},
		{3*time.Second + 500*time.Millisecond, 4 * time.Second, 520},
	} {
		if got := served(c.from, c.to); got < c.want-1 || got > c.want+1 {
			t.Errorf("from %v to %v %d were served, want %d", c.from, c.to, got, c.want)
		}
	}
}

func TestAPacerThatLetsWaitSaysHowLong(t *testing.T) {
	p := &pacer{rate: 1000, waits: true}
	now := time.Now()
	for range 20 { // what a time without requests makes good
		p.turn(now)
	}
	for want := range 3 {
		if wait, ok := p.turn(now); !ok || wait != time.Duration(want)*time.Millisecond {
			t.Errorf("%v, %v, want %d ms", wait, ok, want)
		}
	}
}
