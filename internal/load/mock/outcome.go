package mock

import (
	"sync/atomic"
	"time"
)

// numbers counts requests by seed. Seeds that are equal modulo its length share a number: it has to be
// bounded, and those who want to know beforehand what happens by chance use seeds below 65536.
type numbers [1 << 16]atomic.Uint64

func (n *numbers) of(seed uint64) *atomic.Uint64 { return &n[seed%uint64(len(n))] }

func (n *numbers) reset() {
	for i := range n {
		n[i].Store(0)
	}
}

// outcome is what happens to one request by chance.
type outcome struct {
	hang   bool
	fail   bool
	wait   time.Duration
	damage Damage
}

// draw decides by the seed, the step, and the request's number among those for the seed. In this order four
// numbers in [0, 1) are drawn, whatever the knobs: for hang, error, malformed and jitter. So a request that
// fails with error=0.01 fails with error=0.02 as well.
func (k *Knobs) draw(seed uint64, step int64, number uint64) (f outcome) {
	if k.Hang == 0 && k.Error == 0 && k.Malformed == 0 && k.Jitter == 0 {
		f.wait = k.Delay
		return f
	}
	dice := newDice(seed, uint64(step), number)
	f.hang = dice.chance() < k.Hang
	f.fail = dice.chance() < k.Error
	if dice.chance() < k.Share {
		f.damage = k.Malformed
	}
	f.wait = k.Delay + time.Duration(dice.chance()*float64(k.Jitter))
	return f
}

// dice are a splitmix64 generator.
type dice struct{ state uint64 }

// newDice returns dice that depend on all of the values and on their order.
func newDice(values ...uint64) dice {
	var s uint64
	for _, v := range values {
		s = mix(s*0x9e3779b97f4a7c15 + v + 1)
	}
	return dice{s}
}

func (d *dice) next() uint64 {
	d.state += 0x9e3779b97f4a7c15
	return mix(d.state)
}

func (d *dice) chance() float64 { return float64(d.next()>>11) / (1 << 53) }

func (d *dice) below(n int) int { return int(d.next() >> 33 % uint64(n)) }

// mix is the finaliser of splitmix64.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
