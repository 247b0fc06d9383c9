package operate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"weir/internal/cluster/members"
	"weir/internal/cluster/publications"
	"weir/internal/metrics"
)

// nodesEvery is how often a node looks at the others, and says its figures.
const nodesEvery = 2 * time.Second

// nodes is what a look at the nodes has found.
type nodes struct {
	at     time.Time
	err    error // the engine did not answer; what was found is of before
	all    []members.Member
	record publications.Record
}

// figuresFact is the name of the fact by which a node says its figures.
const figuresFact = "figures"

// figures are what a node says of itself beside its lists. A service that is off has none.
type figures struct {
	Skipped float64 `json:"skipped"` // items, since its start
	// Seconds for which it has not known all that was taught, and for which it may lack changes of filters.
	Events  *float64 `json:"events_behind,omitempty"`
	Filters *float64 `json:"filters_behind,omitempty"`
}

// figuresOf reads the figures of this node from its metrics.
func figuresOf(r *metrics.Registry) (f figures) {
	behind := map[string]**float64{"weir_bandit_stream_lag_seconds": &f.Events,
		"weir_filter_cluster_behind_seconds": &f.Filters}
	const skipped = "weir_cluster_skipped_items_total"
	for _, m := range r.Snapshot(func(name string) bool { return name == skipped || behind[name] != nil }) {
		if m.Name == skipped {
			f.Skipped = m.Value
		} else if !math.IsNaN(m.Value) && !math.IsInf(m.Value, 0) {
			seconds := math.Round(m.Value*10) / 10 // told anew only where that is news
			*behind[m.Name] = &seconds
		}
	}
	return f
}

// follow looks at the nodes until ctx ends.
func (c *Cluster) follow(ctx context.Context) {
	for {
		c.members.Set(figuresFact, figuresOf(c.options.Metrics))
		now := &nodes{at: time.Now()}
		if now.all, now.err = c.members.List(ctx); now.err == nil {
			now.record, now.err = publications.Read(ctx, c.client)
		}
		if ctx.Err() != nil {
			return
		}
		before := c.nodes.Load()
		if now.err != nil && before != nil {
			*now = nodes{at: before.at, err: now.err, all: before.all, record: before.record}
		}
		wrong := ""
		if before != nil && before.err == nil && now.err == nil {
			wrong = wrongWith(c.members.ID(), *before, *now)
		}
		c.wrong.Store(&wrong)
		c.nodes.Store(now)
		select {
		case <-ctx.Done():
			return
		case <-time.After(nodesEvery):
		}
	}
}

// maxNamed is how many nodes are named with what is wrong with them.
const maxNamed = 3

// wrongWith says what is wrong with the nodes but self, "" for nothing. Two looks tell a node that is behind
// from one that is about to take up lists.
func wrongWith(self string, before, now nodes) string {
	var wrong []string
	for _, m := range now.all {
		name := cmp.Or(m.Address, m.ID)
		var f publications.Fact
		switch hasLists := m.Fact(publications.FactName, &f); {
		case m.ID == self:
		case !m.Here():
			replaced := func(other members.Member) bool { return other.Here() && other.Address == m.Address }
			if !slices.ContainsFunc(now.all, replaced) {
				wrong = append(wrong, fmt.Sprintf("%s was last heard of %v ago", name,
					m.Age.Round(time.Second)))
			}
		case hasLists && (f.Error != "" || now.behind(m) && before.behindAs(m.ID, now.record)):
			wrong = append(wrong, name+" "+f.String())
		}
	}
	if more := len(wrong) - maxNamed; more > 0 {
		wrong = append(wrong[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(wrong, "; ")
}

// behind says whether a node serves other lists than the record says.
func (n nodes) behind(m members.Member) bool {
	var f publications.Fact
	return n.record.Serving != nil && m.Fact(publications.FactName, &f) && f.Serves != n.record.Serving.Number
}

// behindAs says whether a node was behind when the same lists served as a record says.
func (n nodes) behindAs(id string, r publications.Record) bool {
	return n.record.Serving != nil && r.Serving != nil && n.record.Serving.Number == r.Serving.Number &&
		slices.ContainsFunc(n.all, func(m members.Member) bool { return m.ID == id && n.behind(m) })
}

// shownNodes is the part of a status about nodes.
type shownNodes struct {
	At        time.Time         `json:"at"`              // when the engine was asked for them
	Error     string            `json:"error,omitempty"` // why it did not answer since
	Members   []shownMember     `json:"members"`
	Serving   *shownPublication `json:"serving"`   // nil is none yet
	Preparing *shownPublication `json:"preparing"` // nil is none
}

// shownMember is a node as it said itself.
type shownMember struct {
	ID      string      `json:"id"`
	Address string      `json:"address"`
	Admin   string      `json:"admin"`
	Version string      `json:"version"`
	Started time.Time   `json:"started"`
	Self    bool        `json:"self"` // it is the node that answers
	Here    bool        `json:"here"`
	Age     float64     `json:"age"` // seconds since it was heard of
	Lists   *shownLists `json:"lists,omitempty"`
	Figures *figures    `json:"figures,omitempty"`
}

// shownLists is a publications.Fact with the numbers as people see them; "" is none.
type shownLists struct {
	Serves string `json:"serves"`
	Mapped string `json:"mapped"`
	Wants  string `json:"wants"`
	Stage  string `json:"stage,omitempty"`
	Done   int64  `json:"done,omitempty"` // bytes
	Total  int64  `json:"total,omitempty"`
	Error  string `json:"error,omitempty"`
}

// shownPublication is a publication without its source, which may hold secrets.
type shownPublication struct {
	Number string    `json:"number"`
	SHA256 string    `json:"sha256"`
	At     time.Time `json:"at"`
	Again  string    `json:"again,omitempty"` // the publication whose lists these are once more
	Have   int       `json:"have"`            // nodes that serve it, or could
	Of     int       `json:"of"`              // nodes that are there and serve feeds
}

// show returns what was found, as of now.
func (n *nodes) show(self string) shownNodes {
	s := shownNodes{At: n.at, Members: []shownMember{}}
	if n.err != nil {
		s.Error = n.err.Error()
	}
	s.Serving = n.showPublication(n.record.Serving, func(f publications.Fact, number uint64) bool {
		return f.Serves == number
	})
	s.Preparing = n.showPublication(n.record.Preparing, publications.Fact.Has)
	for _, m := range n.all {
		one := shownMember{ID: m.ID, Address: m.Address, Admin: m.Admin, Version: m.Version,
			Started: m.Started, Self: m.ID == self, Here: m.Here(), Age: (m.Age + time.Since(n.at)).Seconds()}
		if f := (publications.Fact{}); m.Fact(publications.FactName, &f) {
			one.Lists = &shownLists{name(f.Serves), name(f.Mapped), name(f.Wants), f.Stage, f.Done, f.Total,
				f.Error}
		}
		if f := (figures{}); m.Fact(figuresFact, &f) {
			one.Figures = &f
		}
		s.Members = append(s.Members, one)
	}
	return s
}

func (n *nodes) showPublication(p *publications.Publication,
	has func(f publications.Fact, number uint64) bool) *shownPublication {
	if p == nil {
		return nil
	}
	s := &shownPublication{Number: name(p.Number), SHA256: p.SHA256, At: p.At, Again: name(p.Again)}
	for _, m := range n.all {
		if f := (publications.Fact{}); m.Here() && m.Fact(publications.FactName, &f) {
			s.Of++
			if has(f, p.Number) {
				s.Have++
			}
		}
	}
	return s
}

// name is the number of a publication as people see it, "" for none.
func name(number uint64) string {
	if number == 0 {
		return ""
	}
	return publications.Name(number)
}
