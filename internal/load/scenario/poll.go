package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/load/client"
)

// Defaults of poll: 125,000 subscriptions, 417 requests a second.
const (
	defaultReaders = 5_000
	defaultFeeds   = 25
	defaultEvery   = 5 * time.Minute
	defaultFeedURL = "/feed/{feed}.rss"
)

const (
	// MaxSubscriptions is how many one runner remembers at most.
	MaxSubscriptions = 10_000_000
	// A validator longer than this is not kept: nobody's is, and memory has to end somewhere.
	maxValidator = 512
)

// poll is readers of feeds. Each comes back to each of its feeds every so often, and asks as readers do:
// with the validators of the last answer.
//
// A turn through all subscriptions takes one interval: first every user's first feed, then every user's
// second, and so on. So at the rate that Users and Every mean, requests are spread evenly, and each
// subscription is asked for at its own moment. At another rate all come as much more or less often. Which
// feeds a user has is drawn by Zipf's law: the most popular has twice the subscribers of the second and
// three times those of the third. With a file of URLs each of its lines is a subscription.
type poll struct {
	place
	after []byte // the head's rest, up to the validators
	every time.Duration
	n     uint64 // subscriptions

	lines []string // of the file: method and URL; nil without one

	pattern []pollPiece // method and URL
	users   uint64
	first   uint64
	pool    int
	feeds   []uint32 // of subscription i, which is user i % users; from 1 on
	url     string
}

// pollPiece is text, and behind it the number of a user, a feed or the subscription.
type pollPiece struct {
	text []byte
	what byte // 'u', 'f', 'n', or 0 for nothing
}

func (b *builder) poll(at place) (kind, error) {
	p := &poll{place: at, every: cmp.Or(b.spec.Every, defaultEvery)}
	read := p.draw
	if b.spec.FeedURLs != "" {
		read = p.read
	}
	if err := read(b); err != nil {
		return nil, err
	}
	fields := with(b.fields, field{"User-Agent", "weir-load"},
		field{"Accept", "application/rss+xml, application/atom+xml, application/feed+json, text/xml;q=0.9, " +
			"*/*;q=0.5"},
		field{"Accept-Encoding", "gzip"})
	p.after = appendFields(nil, p.host, fields)
	return p, nil
}

func (p *poll) read(b *builder) error {
	s := b.spec
	if s.Users > 0 || s.Feeds > 0 || s.FeedPool > 0 || s.FirstUser > 0 || s.FeedURL != "" {
		return errors.New("--feed-urls has a subscription on each line, so it takes the place of --users, " +
			"--first-user, --feeds, --feed-pool and --feed-url: leave these out")
	}
	for line := range strings.Lines(s.FeedURLsText) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		at, target, err := b.locate(line, unused(line))
		if err == nil && len(p.lines) > 0 && at.index != p.index {
			err = fmt.Errorf("expected all URLs at one host, %s, got %q", p.place.url, line)
		}
		if err != nil {
			return fmt.Errorf("--feed-urls %s, subscription %d: %w", s.FeedURLs, len(p.lines)+1, err)
		}
		p.place = at
		p.lines = append(p.lines, "GET "+target)
	}
	if len(p.lines) == 0 || len(p.lines) > MaxSubscriptions {
		return fmt.Errorf("--feed-urls %s: expected 1 to %d URLs, got %d", s.FeedURLs, MaxSubscriptions,
			len(p.lines))
	}
	p.n = uint64(len(p.lines))
	return nil
}

func (p *poll) draw(b *builder) error {
	s := b.spec
	users, feeds := cmp.Or(s.Users, defaultReaders), cmp.Or(s.Feeds, defaultFeeds)
	if users > MaxSubscriptions || users*feeds > MaxSubscriptions {
		return fmt.Errorf("--users %d times --feeds %d is more than %d subscriptions, the most one runner "+
			"remembers", users, feeds, MaxSubscriptions)
	}
	p.users, p.first, p.n = uint64(users), s.FirstUser, uint64(users*feeds)
	p.pool, p.url = cmp.Or(s.FeedPool, max(feeds, users*feeds/10)), cmp.Or(s.FeedURL, defaultFeedURL)
	if p.pool < feeds {
		return fmt.Errorf("--feed-pool %d is too few for --feeds %d different ones of each user",
			p.pool, feeds)
	}
	if err := p.parse(b); err != nil {
		return fmt.Errorf("--feed-url: %w", err)
	}
	if feeds > 1 && !slices.ContainsFunc(p.pattern, func(q pollPiece) bool {
		return q.what == 'f' || q.what == 'n'
	}) {
		return fmt.Errorf("--feed-url %s has no {feed} and no {n}, so all %d feeds of a user are the same "+
			"one: "+
			"put {feed} where the number of a feed belongs or {n} where that of a subscription does, or "+
			"give --feeds 1", p.url, feeds)
	}
	p.feeds = subscriptions(newDice(s.Seed, "subscriptions"), users, feeds, p.pool)
	return nil
}

var pollName = regexp.MustCompile(`\{(feed|user|n)\}`)

func (p *poll) parse(b *builder) error {
	mark := unused(p.url)
	marked := pollName.ReplaceAllString(p.url, mark)
	if strings.ContainsAny(marked, "{}") {
		return fmt.Errorf("expected {feed}, {user} and {n} and no other braces, got %q", p.url)
	}
	numbers := pollName.FindAllString(p.url, -1)
	at, target, err := b.locate(marked, mark)
	if err != nil {
		return err
	}
	p.place = at
	texts := strings.Split("GET "+target, mark)
	if len(texts) != len(numbers)+1 {
		return errors.New("{feed}, {user} and {n} cannot stand behind a #, as that part of a URL is not sent")
	}
	for i, text := range texts {
		q := pollPiece{text: []byte(text)}
		if i < len(numbers) {
			q.what = numbers[i][1]
		}
		p.pattern = append(p.pattern, q)
	}
	return nil
}

// subscriptions draws the feeds, 1 to pool, of each user: different ones, by Zipf's law. That of user u in
// round r is at r*users + u.
func subscriptions(d dice, users, feeds, pool int) []uint32 {
	sums := make([]float64, pool)
	sum := 0.0
	for i := range sums {
		sum += 1 / float64(i+1)
		sums[i] = sum
	}
	all := make([]uint32, users*feeds)
	var k uint64
	for u := range users {
		taken := func(feed uint32, round int) bool {
			for r := range round {
				if all[r*users+u] == feed {
					return true
				}
			}
			return false
		}
		for r := range feeds {
			var feed uint32
			for try := 0; ; try++ {
				if try < 64 {
					i, _ := slices.BinarySearch(sums, sum*float64(d.at(k)>>11)/(1<<53))
					feed = uint32(min(i, pool-1)) + 1
					k++
				} else if feed++; feed > uint32(pool) { // they have nearly all that are popular
					feed = 1
				}
				if !taken(feed, r) {
					break
				}
			}
			all[r*users+u] = feed
		}
	}
	return all
}

func (p *poll) String() string {
	what := fmt.Sprintf("%d subscriptions", p.n)
	if p.lines == nil {
		what = fmt.Sprintf("%d users with %d feeds each, of %d at %s", p.users, p.n/p.users, p.pool, p.url)
	}
	return fmt.Sprintf("poll: %s, every %s (%s a second)", what, p.every,
		strconv.FormatFloat(math.Round(float64(p.n)/p.every.Seconds()*100)/100, 'f', -1, 64))
}

func (p *poll) samples() []sample {
	return samplesOf(p, p.index, "is that where feeds are (--feed-url, --feed-urls), and do weir mock or "+
		"another server serve them?")
}

func (p *poll) maker(threads uint64) maker {
	n := p.n / threads
	n += n/16 + 1 // of a mix, a thread has not exactly its share
	return &poller{poll: p, own: make([]uint32, 0, n), validators: make([][]byte, 0, n)}
}

// poller is a thread that polls. The subscriptions that it comes to in the first turn are its own: it polls
// them in this order from then on, so that no other thread has to know what they were answered. It is the
// only one to poll them unless there are more threads than subscriptions.
type poller struct {
	*poll
	own []uint32
	at  int // which of them is next, once the first turn is over
	// validators are the fields that the next request for each of its own has, whole, empty when there are
	// none.
	validators [][]byte
}

// make implements maker. The reference is the subscription's place in validators, and 1.
func (p *poller) make(wire []byte, k uint64) (out []byte, r client.Request) {
	i := p.at
	if k < p.n || len(p.own) == 0 {
		i = len(p.own)
		p.own = append(p.own, uint32(k%p.n))
		p.validators = append(p.validators, nil)
	} else if p.at++; p.at == len(p.own) {
		p.at = 0
	}
	subscription := p.own[i]
	if p.lines != nil {
		wire = append(wire, p.lines[subscription]...)
	}
	for j := range p.pattern {
		q := &p.pattern[j]
		wire = append(wire, q.text...)
		switch q.what {
		case 'u':
			wire = strconv.AppendUint(wire, p.first+uint64(subscription)%p.users, 10)
		case 'f':
			wire = strconv.AppendUint(wire, uint64(p.feeds[subscription]), 10)
		case 'n':
			wire = strconv.AppendUint(wire, uint64(subscription)+1, 10)
		}
	}
	wire = append(wire, p.after...)
	wire = append(wire, p.validators[i]...)
	return append(wire, "\r\n"...), client.Request{Target: p.index, Ref: uint64(i) + 1}
}

// Heard hears an answer. One with a feed brings new validators, or none; any other, "not modified" too,
// leaves what there is.
func (p *poller) Heard(ref uint64, a client.Answer) {
	if ref == 0 || ref > uint64(len(p.own)) || a.Status != 200 {
		return
	}
	v := p.validators[ref-1][:0]
	v = appendValidator(v, "If-None-Match: ", a.ETag)
	v = appendValidator(v, "If-Modified-Since: ", a.LastModified)
	p.validators[ref-1] = v
}

// appendValidator appends a field, if value can be one.
func appendValidator(fields []byte, name string, value []byte) []byte {
	if len(value) == 0 || len(value) > maxValidator || badInValue(value) >= 0 {
		return fields
	}
	return append(append(append(fields, name...), value...), "\r\n"...)
}
