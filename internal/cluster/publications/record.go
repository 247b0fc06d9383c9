// Package publications is which lists the nodes of a cluster serve: a record in the engine that Publish
// changes and that each node follows.
//
// A publication has a number, greater than that of all before, whatever lists it is of: to go back to
// earlier lists is a publication as well. First it is prepared: all nodes get the lists, check them and map
// them beside those that serve. Then it serves: each node flips, within a moment. A node that was not there
// takes up what the record says before it serves anything; the record never goes back.
//
// Numbers are of the kind of snapshot.Publication, and so are the generations that positions keep in the
// engine: what was given under a newer publication cannot be given again by a node that has not heard of it.
package publications

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"weir/internal/cluster"
)

// Publication is lists that all nodes shall serve.
type Publication struct {
	Number uint64    `json:"number,string"`
	Source string    `json:"source"` // URL, which may hold secrets, or path, that all nodes see
	SHA256 string    `json:"sha256"`
	At     time.Time `json:"at"`
	// Again is the number of the publication whose lists these are once more; 0 for none.
	Again uint64 `json:"again,omitempty,string"`
	// Force has nodes take them up though they have far fewer users.
	Force bool `json:"force,omitempty"`
	// Withdrawn says that they have never served.
	Withdrawn bool `json:"withdrawn,omitempty"`
}

// Record is what the engine holds. Its zero value is that of a new cluster.
type Record struct {
	Serving   *Publication  `json:"serving"`   // nil is none yet
	Preparing *Publication  `json:"preparing"` // nil is none
	History   []Publication `json:"history"`   // before Serving, the last one first

	revision uint64
}

// maxHistory bounds the history.
const maxHistory = 20

// Next returns a number for the next publication: no less than the milliseconds say, and, however wrong the
// clock is, more than 1, under which positions are imported from a box.
func (r Record) Next(now time.Time) uint64 {
	next := uint64(max(1, now.UnixMilli())) << 20
	for _, p := range []*Publication{r.Serving, r.Preparing} {
		if p != nil {
			next = max(next, p.Number+1)
		}
	}
	for _, p := range r.History {
		next = max(next, p.Number+1)
	}
	return next
}

// Serve makes what is prepared serve.
func (r *Record) Serve() {
	r.remember(r.Serving)
	r.Serving, r.Preparing = r.Preparing, nil
}

// Withdraw has what is prepared not serve.
func (r *Record) Withdraw() {
	r.Preparing.Withdrawn = true
	r.remember(r.Preparing)
	r.Preparing = nil
}

func (r *Record) remember(p *Publication) {
	if p == nil {
		return
	}
	r.History = append([]Publication{*p}, r.History...)
	r.History = r.History[:min(len(r.History), maxHistory)]
}

// Before returns the lists that served before those that serve.
func (r Record) Before() (Publication, bool) {
	for _, p := range r.History {
		if !p.Withdrawn && p.SHA256 != r.Serving.SHA256 {
			return p, true
		}
	}
	return Publication{}, false
}

// library has the function swap: it replaces the record if it is still of the revision that is known.
var library = cluster.NewLibrary("lists", `
define('swap', function(keys, args)
  local now = redis.call('GET', keys[1])
  local revision = now and string.match(now, '^%d+') or '0'
  if revision ~= args[1] then return 0 end
  redis.call('SET', keys[1], args[2])
  return 1
end)
`)

func key(c *cluster.Client) string { return c.Key("l:{lists}") }

// Read returns the record as the primary of its slot has it.
func Read(ctx context.Context, c *cluster.Client) (Record, error) {
	var r Record
	reply, err := c.Do(ctx, cluster.Command{Slot: cluster.Slot(key(c)), Args: []string{"GET", key(c)}})
	if err != nil || reply.IsNil() {
		return r, err
	}
	text, err := reply.ToString()
	if err != nil {
		return r, err
	}
	revision, text, _ := strings.Cut(text, " ")
	if r.revision, err = strconv.ParseUint(revision, 10, 64); err == nil {
		err = json.Unmarshal([]byte(text), &r)
	}
	if err != nil {
		return r, fmt.Errorf("the record of publications, %s, cannot be read: %w", key(c), err)
	}
	return r, nil
}

// patience is how often Update tries again where the engine does not answer, half a second apart.
const patience = 10

// Update changes the record, and again if somebody else was quicker, until change returns an error, which is
// returned. It returns the new record once the replicas have it. A failover of the engine is waited for.
func Update(ctx context.Context, c *cluster.Client, change func(*Record) error) (r Record, err error) {
	written := "" // that may have come
	for tries := 0; ; tries++ {
		if tries > 0 {
			select {
			case <-ctx.Done():
				return r, cmp.Or(err, ctx.Err())
			case <-time.After(500 * time.Millisecond):
			}
		}
		var done bool
		if done, err = swap(ctx, c, change, &r, &written); done {
			return r, err
		}
		if err != nil && tries == patience {
			return r, err
		}
	}
}

// swap is one attempt of Update; false is another.
func swap(ctx context.Context, c *cluster.Client, change func(*Record) error, r *Record,
	written *string) (bool, error) {
	lost := func(err error) bool {
		return errors.Is(err, cluster.ErrUnavailable) || errors.Is(err, cluster.ErrUnknown) ||
			errors.Is(err, cluster.ErrUnreplicated)
	}
	c.Add(library)
	now, err := Read(ctx, c)
	if err != nil {
		return !lost(err), err
	}
	// What an attempt before has written is written again, so that the replicas have it.
	if text, err := json.Marshal(now); err != nil || *written == "" || string(text) != *written {
		if err := errors.Join(err, change(&now)); err != nil {
			return true, err
		}
	}
	text, err := json.Marshal(now)
	if err != nil {
		return true, err
	}
	before := strconv.FormatUint(now.revision, 10)
	now.revision++
	*r, *written = now, string(text)
	reply, err := c.Do(ctx, cluster.Command{Slot: cluster.Slot(key(c)), Durable: true,
		Args: library.Call("swap", []string{key(c)}, before, fmt.Sprintf("%d %s", now.revision, text))})
	if err != nil {
		return !lost(err), err
	}
	if err := reply.Err(); err != nil {
		return true, err
	}
	done, err := reply.ToInt64()
	if done == 0 {
		*written = ""
	}
	return err != nil || done == 1, err
}

// ErrUnderWay is of a publication that waits for another.
var ErrUnderWay = errors.New("another publication is under way")
