package scenario

import (
	"math/rand/v2"
	"net/http"

	"weir/internal/load/client"
)

// maker makes the requests of one kind, for one thread.
type maker interface {
	// make appends request number k of the kind; see client.Source. The numbers that it gets only rise.
	make(wire []byte, k uint64) (out []byte, r client.Request)
}

// listener is a maker that wants its answers, and gives references other than 0 for them. A scenario has
// one at most.
type listener interface {
	Heard(ref uint64, a client.Answer)
}

type source struct {
	numbers
	order
	makers []maker
	first  []int // part of each
}

// Judge implements client.Judge.
func (s *source) Judge(part int, r *http.Response, body []byte) error {
	for i := len(s.makers) - 1; i >= 0; i-- {
		if m, ok := s.makers[i].(*fileMaker); ok && part >= s.first[i] && part-s.first[i] < len(m.all) {
			return m.judge(part-s.first[i], r, body)
		} else if part >= s.first[i] {
			return nil
		}
	}
	return nil
}

// Next implements client.Source.
func (s *source) Next(wire []byte) (out []byte, r client.Request) {
	k := s.next()
	part := 0
	if len(s.makers) > 1 {
		part, k = s.order.at(k)
	}
	out, r = s.makers[part].make(wire, k)
	r.Part += s.first[part]
	return out, r
}

// listeningSource is a source one of whose makers wants its answers.
type listeningSource struct {
	source
	hears listener
}

// Heard implements client.Listener.
func (s *listeningSource) Heard(ref uint64, a client.Answer) {
	if ref != 0 {
		s.hears.Heard(ref, a)
	}
}

// order says whose turn is when in a mix. Turns come in rounds, in each of which every part has as many as
// its weight says, in a random order that is the same for all rounds: so it is known without counting how
// often a part had its turn before.
type order struct {
	turns []turn
	share []uint64 // turns of each part in a round
}

type turn struct {
	part   uint32
	before uint32 // turns of the same part in the round
}

// shortRound is how many turns a round has at least: so many that its order looks like chance.
const shortRound = 1 << 12

// newOrder returns the order of a mix, whose weights are running sums; of a scenario alone there is none.
func newOrder(d dice, weights []uint64) order {
	if len(weights) < 2 {
		return order{}
	}
	var common, before uint64
	o := order{share: make([]uint64, len(weights))}
	for i, sum := range weights {
		o.share[i], before = sum-before, sum
		common = divisor(o.share[i], common)
	}
	times := (shortRound*common + before - 1) / before
	for part := range o.share {
		o.share[part] = o.share[part] / common * max(times, 1)
		for range o.share[part] {
			o.turns = append(o.turns, turn{part: uint32(part)})
		}
	}
	rand.New(rand.NewPCG(uint64(d), 0)).Shuffle(len(o.turns),
		func(i, j int) { o.turns[i], o.turns[j] = o.turns[j], o.turns[i] })
	had := make([]uint32, len(o.share))
	for i := range o.turns {
		t := &o.turns[i]
		t.before = had[t.part]
		had[t.part]++
	}
	return o
}

// at returns whose turn k is, and the number of the request among the part's.
func (o *order) at(k uint64) (part int, number uint64) {
	round, i := k/uint64(len(o.turns)), k%uint64(len(o.turns))
	t := o.turns[i]
	return int(t.part), round*o.share[t.part] + uint64(t.before)
}

// divisor is the greatest common one of a and b.
func divisor(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
