// Package members is who is there: each node of a cluster writes itself into the engine once a second, with
// what others want to know of it, and is gone when it has not done so for a while.
//
// Ages are by the engine's clock, so those of the nodes need not agree. What a node says of itself may be a
// second old. A node that cannot reach the engine is gone for the others; one that was closed is so at once.
package members

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/internal/cluster"
	"weir/internal/disk"
)

// Intervals of members.
const (
	Interval = time.Second      // at which a node writes itself
	Gone     = 5 * time.Second  // after which one is no longer there
	Erased   = 10 * time.Minute // after which nobody is told of it any more
)

// Member is one node.
type Member struct {
	ID      string    `json:"id"`      // of its data directory
	Address string    `json:"address"` // of its public port
	Admin   string    `json:"admin"`   // of its admin port
	Version string    `json:"version"` // of weir
	Started time.Time `json:"started"` // by its own clock
	// Facts are what parts of the node say of themselves, by name: see Members.Set.
	Facts map[string]json.RawMessage `json:"facts"`
	// Age is how long ago the node has written this. It is List that fills it in.
	Age time.Duration `json:"age"`
}

// Here says whether the node is there.
func (m Member) Here() bool { return m.Age < Gone }

// Fact decodes what the node says under a name; false where it says nothing that fits v.
func (m Member) Fact(name string, v any) bool {
	return m.Facts[name] != nil && json.Unmarshal(m.Facts[name], v) == nil
}

// library has the functions: beat writes a member by the engine's clock, list returns that clock and all
// members.
var library = cluster.NewLibrary("members", `
define('beat', function(keys, args)
  local t = redis.call('TIME')
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  local oldest = now - tonumber(args[3])
  local all = redis.call('HGETALL', keys[1])
  for i = 1, #all, 2 do
    if tonumber(string.match(all[i + 1], '^%d+')) < oldest then redis.call('HDEL', keys[1], all[i]) end
  end
  redis.call('HSET', keys[1], args[1], string.format('%.0f', now) .. ' ' .. args[2])
end)
define('list', function(keys, args)
  local t = redis.call('TIME')
  local all = redis.call('HGETALL', keys[1])
  table.insert(all, string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000)))
  return all
end, 'no-writes')
`)

func key(c *cluster.Client) string { return c.Key("m:{members}") }

// Members is this node among the others. Its methods are for any number of goroutines.
type Members struct {
	c    *cluster.Client
	log  *slog.Logger
	stop context.CancelFunc
	done chan struct{}
	soon chan struct{}

	mu   sync.Mutex
	self Member
}

// Join makes this node a member until Close. The engine need not answer now.
func Join(c *cluster.Client, self Member, log *slog.Logger) *Members {
	ctx, stop := context.WithCancel(context.Background())
	self.Facts = maps.Clone(self.Facts)
	if self.Facts == nil {
		self.Facts = make(map[string]json.RawMessage)
	}
	m := &Members{c: c, log: log, stop: stop, done: make(chan struct{}), soon: make(chan struct{}, 1),
		self: self}
	go m.run(ctx)
	return m
}

// ID is the id of this node.
func (m *Members) ID() string { return m.self.ID }

// Set says v, in JSON, under a name, soon and from then on.
func (m *Members) Set(name string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: a fact of a member: " + err.Error())
	}
	m.mu.Lock()
	same := string(m.self.Facts[name]) == string(text)
	m.self.Facts[name] = text
	m.mu.Unlock()
	if !same {
		select {
		case m.soon <- struct{}{}:
		default:
		}
	}
}

// List returns all members, by address; those who have gone lately too.
func (m *Members) List(ctx context.Context) ([]Member, error) { return List(ctx, m.c) }

// Close has the node leave. It does not wait for an engine that is lost.
func (m *Members) Close() error {
	m.stop()
	<-m.done
	ctx, cancel := context.WithTimeout(context.Background(), Interval)
	defer cancel()
	_, err := m.c.Do(ctx, cluster.Command{Slot: cluster.Slot(key(m.c)),
		Args: []string{"HDEL", key(m.c), m.self.ID}})
	if errors.Is(err, cluster.ErrUnavailable) || errors.Is(err, cluster.ErrUnknown) {
		err = nil // it is forgotten soon
	}
	return err
}

func (m *Members) run(ctx context.Context) {
	defer close(m.done)
	m.c.Add(library)
	lost := false
	for {
		err := m.beat(ctx)
		if ctx.Err() != nil {
			return
		}
		if (err != nil) != lost {
			if lost = err != nil; lost {
				m.log.Warn("other nodes cannot be told of this one", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(Interval):
		case <-m.soon:
			select { // a fact that changes often is told in turns
			case <-ctx.Done():
				return
			case <-time.After(Interval / 10):
			}
		}
	}
}

func (m *Members) beat(ctx context.Context) error {
	m.mu.Lock()
	text, err := json.Marshal(m.self)
	m.mu.Unlock()
	if err != nil {
		return err
	}
	r, err := m.c.Do(ctx, cluster.Command{Slot: cluster.Slot(key(m.c)), Args: library.Call("beat",
		[]string{key(m.c)}, m.self.ID, string(text), strconv.FormatInt(Erased.Milliseconds(), 10))})
	return cmp.Or(err, r.Err())
}

// List returns all members, by address; those who have gone lately too.
func List(ctx context.Context, c *cluster.Client) ([]Member, error) {
	c.Add(library)
	r, err := c.Do(ctx, cluster.Command{Slot: cluster.Slot(key(c)),
		Args: library.Call("list", []string{key(c)})})
	if err != nil {
		return nil, err
	}
	all, err := r.AsStrSlice()
	if err != nil || len(all)%2 == 0 {
		return nil, fmt.Errorf("members: %d replies, %w", len(all), err)
	}
	now, err := strconv.ParseInt(all[len(all)-1], 10, 64)
	if err != nil {
		return nil, err
	}
	var members []Member
	for i := 1; i < len(all); i += 2 {
		at, text, _ := strings.Cut(all[i], " ")
		then, err := strconv.ParseInt(at, 10, 64)
		var m Member
		if err != nil || json.Unmarshal([]byte(text), &m) != nil {
			continue // of another version
		}
		m.Age = time.Duration(max(0, now-then)) * time.Millisecond
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(strings.Compare(a.Address, b.Address), strings.Compare(a.ID, b.ID))
	})
	return members, nil
}

// OpenID returns the id of the node whose data directory dir is: it is made once and stays.
func OpenID(dir string) (string, error) {
	path := filepath.Join(dir, "node")
	text, err := os.ReadFile(path)
	if id := strings.TrimSpace(string(text)); err == nil && len(id) >= 8 && len(id) <= 64 {
		return id, nil
	}
	if err == nil || !errors.Is(err, os.ErrNotExist) {
		return "", errors.Join(fmt.Errorf("%s does not hold the id of a node", path), err)
	}
	id := strings.ToLower(rand.Text()[:16])
	return id, disk.WriteFileAtomic(path, []byte(id+"\n"), 0o600)
}
