package publications

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/cluster"
	"weir/internal/cluster/members"
)

// FactName is the name of the fact by which a node says which lists it has, a Fact.
const FactName = "lists"

// Fact is which lists a node has.
type Fact struct {
	Serves uint64 `json:"serves,string"` // number of the publication; 0 is none
	Mapped uint64 `json:"mapped,string"` // beside it, checked; 0 is none
	// Wants is the number of what it works on, and Stage how: "fetching" or "checking".
	Wants uint64 `json:"wants,string"`
	Stage string `json:"stage,omitempty"`
	Done  int64  `json:"done,omitempty"` // bytes
	Total int64  `json:"total,omitempty"`
	Error string `json:"error,omitempty"` // why it has not got what it wants yet; it tries again
}

// Has says whether the node can serve a publication.
func (f Fact) Has(number uint64) bool { return f.Serves == number || f.Mapped == number }

// String says it to people, about the publication of a number.
func (f Fact) String() string {
	state := "serves " + Name(f.Serves)
	if f.Serves == 0 {
		state = "serves nothing yet"
	}
	if f.Mapped != 0 {
		state += ", has " + Name(f.Mapped)
	}
	if f.Wants != 0 && f.Wants != f.Mapped {
		state += fmt.Sprintf(", %s %s", cmp.Or(f.Stage, "wants"), Name(f.Wants))
		if f.Total > 0 {
			state += fmt.Sprintf(" (%d %%)", 100*f.Done/f.Total)
		}
	}
	if f.Error != "" {
		state += ": " + f.Error
	}
	return state
}

// Name is the number of a publication as people see it.
func Name(number uint64) string {
	if number == 0 {
		return "none"
	}
	return fmt.Sprintf("%x", number)
}

// Node is a node that feeds are served by, and which lists it has.
type Node struct {
	members.Member
	Fact
}

// Nodes returns the nodes that have said which lists they have, those that are gone lately included.
func Nodes(ctx context.Context, c *cluster.Client) ([]Node, error) {
	all, err := members.List(ctx, c)
	var nodes []Node
	for _, m := range all {
		if n := (Node{Member: m}); m.Fact(FactName, &n.Fact) {
			nodes = append(nodes, n)
		}
	}
	return nodes, err
}

// Options say how to publish.
type Options struct {
	// Source and SHA256 are the lists; an empty Source goes back to those before the ones that serve.
	Source, SHA256 string
	Force          bool // though they have far fewer users
	Behind         bool // though some nodes do not have them in time: those answer 503 until they do
	// Report, which may be nil, is told of the nodes whenever there is something new.
	Report func(number uint64, nodes []Node)
}

// BehindError is of nodes that do not have what is published.
type BehindError struct {
	Number uint64
	Nodes  []Node // that are behind
	Have   int    // how many are not
	why    error
}

// Error implements error.
func (e *BehindError) Error() string {
	var who []string
	for _, n := range e.Nodes {
		who = append(who, n.Address+" "+n.Fact.String())
	}
	return fmt.Sprintf("publication %s does not serve: %v; waiting for %s", Name(e.Number), e.why,
		strings.Join(who, "; "))
}

// Unwrap returns why nobody waits any longer.
func (e *BehindError) Unwrap() error { return e.why }

// interval is how often nodes and the record are looked at.
const interval = 250 * time.Millisecond

// Publish prepares lists, waits until all nodes that are there have them, and has them serve. When ctx ends
// before that, they are prepared still: Publish with the same lists goes on, Cancel withdraws them. It
// returns once the nodes that have them serve them.
func Publish(ctx context.Context, c *cluster.Client, o Options) (Publication, error) {
	r, err := Update(ctx, c, func(r *Record) error { return prepare(r, o) })
	if err != nil {
		return Publication{}, err
	}
	p := *r.Preparing
	err = await(ctx, c, p.Number, o.Report, func(n Node) bool { return n.Has(p.Number) })
	if behind := (*BehindError)(nil); errors.As(err, &behind) && o.Behind && behind.Have > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		err = nil
	}
	if err != nil {
		return p, err
	}
	if _, err = Update(ctx, c, func(r *Record) error {
		if r.Serving != nil && r.Serving.Number == p.Number {
			return errDone
		}
		if r.Preparing == nil || r.Preparing.Number != p.Number {
			return withdrawn(p.Number)
		}
		r.Serve()
		return nil
	}); err != nil && err != errDone {
		return p, err
	}
	return p, await(ctx, c, p.Number, o.Report, func(n Node) bool {
		return n.Serves == p.Number || !n.Has(p.Number)
	})
}

var errDone = errors.New("it is done")

func withdrawn(number uint64) error {
	return fmt.Errorf("publication %s was withdrawn meanwhile", Name(number))
}

// prepare has a record prepare what is published.
func prepare(r *Record, o Options) error {
	p := Publication{Number: r.Next(time.Now()), Source: o.Source, SHA256: o.SHA256, At: time.Now().UTC(),
		Force: o.Force}
	if o.Source == "" {
		if r.Serving == nil {
			return errors.New("nothing was published yet, so there is nothing to go back to")
		}
		before, ok := r.Before()
		if !ok {
			return errors.New("there are no lists before those that serve")
		}
		p.Source, p.SHA256, p.Again, p.Force = before.Source, before.SHA256, before.Number, true
	}
	switch {
	case r.Preparing != nil && r.Preparing.SHA256 == p.SHA256 && r.Preparing.Source == p.Source:
		r.Preparing.Force = r.Preparing.Force || p.Force // goes on
		return nil
	case r.Preparing != nil:
		return fmt.Errorf("%w: %s, since %s; wait for it, or withdraw it with --cancel", ErrUnderWay,
			Name(r.Preparing.Number), r.Preparing.At.Format(time.RFC3339))
	case o.Source != "" && r.Serving != nil && r.Serving.SHA256 == p.SHA256:
		return fmt.Errorf("these lists serve already, as publication %s", Name(r.Serving.Number))
	}
	r.Preparing = &p
	return nil
}

// await returns when all nodes that are there are as wanted, or the publication was withdrawn.
func await(ctx context.Context, c *cluster.Client, number uint64, report func(uint64, []Node),
	wanted func(Node) bool) error {
	last, behind, have := "", []Node(nil), 0
	for {
		r, err := Read(ctx, c)
		if err == nil && slices.ContainsFunc(r.History, func(p Publication) bool {
			return p.Number == number && p.Withdrawn
		}) {
			return withdrawn(number)
		}
		nodes, err := Nodes(ctx, c)
		if err == nil {
			nodes = slices.DeleteFunc(nodes, func(n Node) bool { return !n.Here() })
			if now := describe(nodes); report != nil && now != last {
				report(number, nodes)
				last = now
			}
			behind = slices.DeleteFunc(slices.Clone(nodes), wanted)
			have = len(nodes) - len(behind)
			if len(nodes) > 0 && len(behind) == 0 {
				return nil
			}
			if len(nodes) == 0 {
				err = errors.New("no node that serves feeds is there")
			}
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = ctx.Err()
			}
			return &BehindError{number, behind, have, err}
		case <-time.After(interval):
		}
	}
}

// describe is equal for equal states of nodes.
func describe(nodes []Node) string {
	var b strings.Builder
	for _, n := range nodes {
		fmt.Fprintln(&b, n.ID, n.Fact)
	}
	return b.String()
}

// Cancel withdraws what is prepared.
func Cancel(ctx context.Context, c *cluster.Client) (Publication, error) {
	var p Publication
	_, err := Update(ctx, c, func(r *Record) error {
		if r.Preparing == nil {
			return errors.New("no publication is under way")
		}
		p = *r.Preparing
		r.Withdraw()
		return nil
	})
	return p, err
}
