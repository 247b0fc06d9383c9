package scenario

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strconv"

	"weir/internal/load/client"
)

// Defaults.
const (
	defaultUsers     = 100_000
	defaultFeedItems = 20
	defaultItems     = 400
	defaultMaxItem   = 1_000_000
	defaultMaxIndex  = 1_000
)

// userIDs are the users to choose from.
type userIDs struct {
	dice     dice
	first, n uint64
}

func (b *builder) userIDs(use string) userIDs {
	return userIDs{newDice(b.spec.Seed, use), b.spec.FirstUser, uint64(cmp.Or(b.spec.Users, defaultUsers))}
}

func (u userIDs) append(wire []byte, k uint64) []byte {
	return strconv.AppendUint(wire, u.first+below(u.dice.at(k), u.n), 10)
}

func (u userIDs) String() string {
	return fmt.Sprintf("of users %d to %d at random", u.first, u.first+u.n-1)
}

// feed asks for the next items of random users.
type feed struct {
	place
	users         userIDs
	before, after []byte // what stands around the user in a request
	text          string
}

func (b *builder) feed(at place, besidePredict bool) (kind, error) {
	method := cmp.Or(b.spec.Method, "GET")
	if method != "GET" && method != "POST" && method != "HEAD" {
		return nil, fmt.Errorf("--method must be GET, POST or HEAD for feeds, got %q", method)
	}
	f := &feed{place: at, users: b.userIDs("feed users")}
	f.before = []byte(method + " " + at.prefix + "/feed/")
	items := defaultFeedItems
	if b.spec.Items > 0 && !besidePredict {
		items = b.spec.Items
	}
	f.text = fmt.Sprintf("feed: %s the next %d items %s", method, items, f.users)
	f.after = appendFields(fmt.Appendf(nil, "?size=%d", items), at.host, b.fields)
	if method == "POST" {
		f.after = appendLength(f.after, 0)
	} else {
		f.after = append(f.after, "\r\n"...)
	}
	return f, nil
}

func (f *feed) String() string { return f.text }

func (f *feed) maker(uint64) maker { return f }

func (f *feed) samples() []sample {
	return samplesOf(f, f.index, "does this server serve feeds (weir serve --feeds FILE)?")
}

func (f *feed) make(wire []byte, k uint64) (out []byte, r client.Request) {
	wire = append(wire, f.before...)
	wire = f.users.append(wire, k)
	return append(wire, f.after...), client.Request{Target: f.index}
}

// samplesOf is the first request of a kind.
func samplesOf(k kind, target int, hint string) []sample {
	wire, _ := k.maker(1).make(nil, 0)
	return []sample{{wire, target, hint}}
}

// predict asks for scores of random items for random users.
//
// Items are taken from a list of all of them in random order that was written down beforehand: a request is
// so many neighbours from a random place on, so its items differ, and it costs a copy of some hundred bytes
// where writing a hundred numbers cost 1.5 us. Of more than a million items the list has a million at
// random.
type predict struct {
	place
	users userIDs
	from  dice
	items int
	head  []byte // up to the length
	list  []byte // the items, each with a comma behind it; the first ones again at the end
	ends  []uint32
	most  int
}

// maxList is how many items the list of predictions may have: 8 MB of digits, or twice that for the largest
// numbers.
const maxList = 1 << 20

func (b *builder) predict(at place) (kind, error) {
	p := &predict{
		place: at, users: b.userIDs("predict users"), from: newDice(b.spec.Seed, "predict items"),
		items: cmp.Or(b.spec.Items, defaultItems), most: cmp.Or(b.spec.MaxItem, defaultMaxItem),
	}
	if p.items > min(p.most, maxList) {
		return nil, fmt.Errorf("--items %d is more than there are: --max-item %d", p.items, p.most)
	}
	p.head = appendFields([]byte("POST "+at.prefix+"/predict"), at.host,
		with(b.fields, field{"Content-Type", "application/json"}))
	p.head = append(p.head, "Content-Length: "...)
	p.write(b.spec.Seed)
	return p, nil
}

func (p *predict) write(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, uint64(newDice(seed, "predict list"))))
	n := min(p.most, maxList)
	ids := make([]uint64, n, n+p.items)
	each := uint64(p.most / n) // numbers that one is chosen of, so that none is there twice
	for i := range ids {
		ids[i] = uint64(i)*each + rng.Uint64N(each) + 1
	}
	rng.Shuffle(n, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	ids = append(ids, ids[:p.items]...) // so that neighbours never wrap
	p.ends = append(make([]uint32, 0, len(ids)+1), 0)
	for _, id := range ids {
		p.list = append(strconv.AppendUint(p.list, id, 10), ',')
		p.ends = append(p.ends, uint32(len(p.list)))
	}
}

func (p *predict) String() string {
	return fmt.Sprintf("predict: scores of %d of the items 1 to %d for one %s", p.items, p.most, p.users)
}

func (p *predict) maker(uint64) maker { return p }

func (p *predict) samples() []sample {
	return samplesOf(p, p.index, "does this server predict (weir serve, without --bandit=false)?")
}

func (p *predict) make(wire []byte, k uint64) (out []byte, r client.Request) {
	first := below(p.from.at(k), uint64(len(p.ends)-p.items))
	list := p.list[p.ends[first] : p.ends[int(first)+p.items]-1] // without the last comma
	var digits [20]byte
	user := p.users.append(digits[:0], k)
	const around = len(`{"user":,"items":[]}`)
	wire = append(wire, p.head...)
	wire = strconv.AppendUint(wire, uint64(around+len(user)+len(list)), 10)
	wire = append(wire, "\r\n\r\n{\"user\":"...)
	wire = append(wire, user...)
	wire = append(wire, `,"items":[`...)
	wire = append(wire, list...)
	return append(wire, "]}"...), client.Request{Target: p.index}
}

// sequence moves weir's index on, and after maxIndex moves back as far, so that what an answer costs stays
// the same.
type sequence struct {
	place
	climb    uint64 // 0 for ever
	on, back []byte
}

func (b *builder) sequence(at place) (kind, error) {
	s := &sequence{place: at, climb: uint64(max(cmp.Or(b.spec.MaxIndex, defaultMaxIndex), 0))}
	s.on = append(appendFields([]byte("GET "+at.prefix+"/next"), at.host, b.fields), "\r\n"...)
	s.back = append(appendFields([]byte("GET "+at.prefix+"/previous"), at.host, b.fields), "\r\n"...)
	return s, nil
}

func (s *sequence) String() string {
	if s.climb == 0 {
		return "sequence: the next value, on and on"
	}
	return fmt.Sprintf("sequence: the next value %d times, and back as often", s.climb)
}

func (s *sequence) maker(uint64) maker { return s }

func (s *sequence) samples() []sample {
	return samplesOf(s, s.index, "does this server have the sequence (weir serve, without --sequence=false)?")
}

func (s *sequence) make(wire []byte, k uint64) (out []byte, r client.Request) {
	if s.climb > 0 && k/s.climb%2 == 1 {
		return append(wire, s.back...), client.Request{Target: s.index}
	}
	return append(wire, s.on...), client.Request{Target: s.index}
}

func (f *feed) parts() []string     { return []string{"feed"} }
func (p *predict) parts() []string  { return []string{"predict"} }
func (s *sequence) parts() []string { return []string{"sequence"} }
func (p *poll) parts() []string     { return []string{"poll"} }
