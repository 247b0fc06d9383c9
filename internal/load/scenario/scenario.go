// Package scenario says which requests a load run makes.
//
// A Spec is what a person asks for: one URL, or a scenario that knows weir, or a mix of them, or a file of
// requests. Open checks all of it and looks the targets up, without any load, and its errors say what to
// change. A Scenario then gives each thread of a generator an endless stream of whole HTTP/1.1 requests
// (client.Source), which costs no allocation.
//
// Requests are numbered, and number k of a scenario is made from the seed and k alone. Thread t of T makes
// numbers t, t+T, t+2T and so on, so the first N requests are the same however many threads make them, but
// for how far each of them is. In a mix, k says which part's turn it is and how often that was so before,
// which is the request's number within the part. Runners on several machines (Spec.Part of Spec.Parts)
// share one numbering too. The one thing that depends on threads is who remembers the validators of a
// subscription (scenario poll): the thread that polls it first, which goes on to do so, at its own pace.
//
// Nothing a person or a file gives gets out of its place in a request: names and values of fields and URLs
// are checked, or encoded, before the run begins. Host, Content-Length and what belongs to the connection
// are the generator's.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"weir/internal/load/client"
)

// resolve looks the origin of a URL up, and refuses those that are not one's own.
var resolve = client.Resolve

// Scenario is a checked Spec. Its methods may be called by several goroutines.
type Scenario struct {
	spec    Spec
	targets []client.Target
	kinds   []kind
	weights []uint64 // running sums, of a mix
	order   order
}

// kind is one sort of requests.
type kind interface {
	// maker returns what makes the requests of one of so many threads.
	maker(threads uint64) maker
	// parts names what of the kind is counted apart, at least one.
	parts() []string
	// samples are requests that Check makes, one of each sort.
	samples() []sample
	String() string
}

// sample is a request to try before the load.
type sample struct {
	wire   []byte
	target int
	hint   string // what a person may have got wrong when it is refused
}

const maxSamples = 32

// names are the scenarios, each with what is asked for.
var names = []string{"feed", "predict", "sequence", "poll", "requests"}

// Complete returns what a scenario or a mix that somebody is typing may become.
func Complete(typed string) []string {
	done, last := "", typed
	if i := strings.LastIndexByte(typed, ','); i >= 0 {
		done, last = typed[:i+1], typed[i+1:]
	}
	var all []string
	for _, name := range names {
		there := slices.ContainsFunc(strings.Split(done, ","), func(part string) bool {
			part, _, _ = strings.Cut(part, "=")
			return strings.TrimSpace(part) == name
		})
		if !there && strings.HasPrefix(name, last) {
			all = append(all, done+name)
		}
	}
	return all
}

// Open checks s and looks up where its requests go. It reads no files: ReadFiles does that. Targets that
// are not on this machine and not owned are refused.
func Open(ctx context.Context, s Spec, owned []string) (*Scenario, error) {
	parts, err := s.parts()
	if err != nil {
		return nil, err
	}
	if err := s.check(parts); err != nil {
		return nil, err
	}
	sc := &Scenario{spec: s}
	b := &builder{ctx: ctx, spec: &sc.spec, owned: owned}
	if b.fields, err = parseFields(s.Headers); err != nil {
		return nil, fmt.Errorf("--header: %w", err)
	}
	var sum uint64
	for _, p := range parts {
		k, err := b.build(p.name, parts)
		if err != nil {
			return nil, err
		}
		sum += p.weight
		sc.kinds = append(sc.kinds, k)
		sc.weights = append(sc.weights, sum)
	}
	sc.targets = b.targets
	sc.order = newOrder(newDice(s.Seed, "mix"), sc.weights)
	return sc, nil
}

// Spec returns what the scenario was opened with, files included.
func (s *Scenario) Spec() Spec { return s.spec }

// Targets are where requests go; a Source names them by their place.
func (s *Scenario) Targets() []client.Target { return slices.Clone(s.targets) }

// Source returns a thread's stream of requests, which only one goroutine may use.
func (s *Scenario) Source(thread, threads int) client.Source {
	parts := uint64(max(s.spec.Parts, 1))
	runners := parts * uint64(threads)
	src := source{numbers: numbers{at: uint64(s.spec.Part) + parts*uint64(thread), by: runners},
		order: s.order}
	var hears listener
	first := 0
	for _, k := range s.kinds {
		m := k.maker(runners)
		src.makers = append(src.makers, m)
		src.first = append(src.first, first)
		first += len(k.parts())
		if l, ok := m.(listener); ok {
			hears = l
		}
	}
	if hears != nil {
		return &listeningSource{src, hears}
	}
	return &src
}

// Parts names what is counted apart: the scenarios of a mix, and the requests of a file.
func (s *Scenario) Parts() []string {
	var names []string
	for _, k := range s.kinds {
		names = append(names, k.parts()...)
	}
	return names
}

// Judges says whether answers are looked at, so that they have to be kept whole.
func (s *Scenario) Judges() bool {
	return slices.ContainsFunc(s.kinds, func(k kind) bool {
		q, ok := k.(*requests)
		return ok && q.judges
	})
}

// Rate is how many requests a second Every means for all users or subscriptions, 0 when there is no Every.
// In a mix with poll it is so many that the polls among them come when they should.
func (s *Scenario) Rate() float64 {
	var before uint64
	for i, k := range s.kinds {
		if p, ok := k.(*poll); ok {
			share := float64(s.weights[i]-before) / float64(s.weights[len(s.weights)-1])
			return float64(p.n) / p.every.Seconds() / share
		}
		before = s.weights[i]
	}
	if s.spec.Every <= 0 {
		return 0
	}
	return float64(s.spec.Users) / s.spec.Every.Seconds()
}

// String says in a line what is asked for.
func (s *Scenario) String() string {
	var b strings.Builder
	for i, k := range s.kinds {
		if i > 0 {
			b.WriteString("; ")
		}
		if len(s.kinds) > 1 {
			weight := s.weights[i]
			if i > 0 {
				weight -= s.weights[i-1]
			}
			fmt.Fprintf(&b, "%d of %d: ", weight, s.weights[len(s.weights)-1])
		}
		b.WriteString(k.String())
	}
	for i, t := range s.targets {
		if i == 3 && len(s.targets) > 4 {
			fmt.Fprintf(&b, " and %d more", len(s.targets)-i)
			break
		}
		b.WriteString(map[bool]string{true: " at ", false: ", "}[i == 0])
		b.WriteString(t.URL)
	}
	return b.String()
}

// builder makes kinds of requests, and collects their targets.
type builder struct {
	ctx     context.Context
	spec    *Spec
	owned   []string
	fields  []field
	targets []client.Target
	origins []string // of targets
}

func (b *builder) build(name string, parts []part) (kind, error) {
	switch name {
	case "url":
		return b.url()
	case "requests":
		return b.file()
	}
	where, err := b.target()
	if err != nil {
		return nil, err
	}
	switch name {
	case "feed":
		return b.feed(where, asked(parts, "predict"))
	case "predict":
		return b.predict(where)
	case "sequence":
		return b.sequence(where)
	case "poll":
		return b.poll(where)
	}
	return nil, fmt.Errorf("BUG: there is no scenario %q", name)
}

// place is an origin, and a path that all paths there begin with.
type place struct {
	index  int
	host   string
	prefix string // begins with a slash and does not end in one; or is empty
	url    string // the origin
}

func (b *builder) target() (place, error) {
	if b.spec.Target == "" {
		return place{}, errors.New("--target says where requests go, as in --target http://127.0.0.1:8080")
	}
	u, err := client.ParseURL(b.spec.Target)
	if err != nil {
		return place{}, fmt.Errorf("--target: %w", err)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return place{}, fmt.Errorf(
			"--target: expected an origin, as in http://127.0.0.1:8080, got %q with a query or fragment",
			b.spec.Target)
	}
	p, err := b.place(u)
	if err != nil {
		return p, fmt.Errorf("--target: %w", err)
	}
	p.prefix = strings.TrimRight(u.EscapedPath(), "/")
	return p, nil
}

// locate finds out where a URL goes, which may be a path at --target, and what its request line says. A
// mark in it stands for what is filled in later; that can only be in path and query.
func (b *builder) locate(text, mark string) (at place, target string, err error) {
	if strings.HasPrefix(text, "/") {
		if at, err = b.target(); err != nil {
			return at, "", err
		}
		u, err := client.ParseURL("http://path" + text)
		if err != nil {
			return at, "", err
		}
		return at, at.prefix + requestTarget(u), nil
	}
	_, rest, absolute := strings.Cut(text, "://")
	if !absolute {
		return at, "", fmt.Errorf("expected a URL, as in http://127.0.0.1:8080/feed/1, or a path at "+
			"--target, as in /feed/1, got %q", strings.ReplaceAll(text, mark, "..."))
	}
	if end := strings.IndexAny(rest, "/?#"); strings.LastIndex(text, mark) >= 0 &&
		(end < 0 || strings.Index(text, mark) < len(text)-len(rest)+end) {
		return at, "", fmt.Errorf(
			"what is filled in can stand in path and query alone, not in the host of %q",
			strings.ReplaceAll(text, mark, "..."))
	}
	u, err := client.ParseURL(text)
	if err != nil {
		return at, "", err
	}
	at, err = b.place(u)
	return at, requestTarget(u), err
}

// place looks the origin of u up, once.
func (b *builder) place(u *url.URL) (place, error) {
	p := place{url: strings.ToLower(u.Scheme + "://" + u.Host)}
	p.index = slices.Index(b.origins, p.url)
	if p.index < 0 {
		t, err := resolve(b.ctx, p.url, b.owned)
		if _, ok := errors.AsType[*net.DNSError](err); ok {
			return place{}, fmt.Errorf("%w: is the name of the host right?", err)
		}
		if err != nil {
			return place{}, err
		}
		if err := checkHost(t.Host); err != nil {
			return place{}, fmt.Errorf("%s: %w", p.url, err)
		}
		p.index = len(b.targets)
		b.targets = append(b.targets, t)
		b.origins = append(b.origins, p.url)
	}
	p.host = b.targets[p.index].Host
	return p, nil
}

type part struct {
	name   string
	weight uint64
}

func asked(parts []part, names ...string) bool {
	return slices.ContainsFunc(parts, func(p part) bool { return slices.Contains(names, p.name) })
}

// parseMix reads "feed", "feed,predict" or "feed=3,predict=1".
func parseMix(text string) ([]part, error) {
	var parts []part
	for entry := range strings.SplitSeq(text, ",") {
		name, weight, weighted := strings.Cut(strings.TrimSpace(entry), "=")
		p := part{name: strings.TrimSpace(name), weight: 1}
		if !slices.Contains(names, p.name) {
			return nil, fmt.Errorf(
				"--scenario: there is no scenario %q, only %s, or a mix as in feed=3,predict=1", p.name,
				strings.Join(names, ", "))
		}
		if slices.ContainsFunc(parts, func(o part) bool { return o.name == p.name }) {
			return nil, fmt.Errorf("--scenario: %s is there twice in %q; its weights can be added",
				p.name, text)
		}
		if weighted {
			n, err := strconv.ParseUint(strings.TrimSpace(weight), 10, 32)
			if err != nil || n == 0 || n > 1_000_000 {
				return nil, fmt.Errorf(
					"--scenario: the weight of %s must be a whole number from 1 to 1000000, got %q", p.name,
					weight)
			}
			p.weight = n
		}
		parts = append(parts, p)
	}
	return parts, nil
}
