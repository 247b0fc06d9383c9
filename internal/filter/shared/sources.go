package shared

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"

	"weir/internal/cluster"
	"weir/internal/filter/store"
)

const (
	leaseFor  = 6 * time.Second // unless it is extended, as it is all the time while a node fetches
	stateFor  = 8 * 24 * time.Hour
	bodyFor   = 5 * time.Minute
	maxBody   = 512 << 10 // compressed; who needs a larger one asks the source
	maxPlain  = 8 << 20   // of what is compressed
	firstLook = 50 * time.Millisecond
	lastLook  = time.Second // between two looks at a lease that another node has
)

// State is how a source was fetched last, on whatever node.
type State struct {
	store.Fetch
	Checked time.Time // when the content was last known to be that of the source
}

// Sources says which node fetches a source, and tells the others what came of it.
//
// The right to fetch a source is a lease: a key with a token, that lasts for seconds and is extended while
// the node lives and fetches. A lease that a failover or a long pause has lost costs a second fetch at worst;
// what the slower one brings is then not published. How it went is kept in the engine for as long as a source
// may ask to be left alone. It says when the source is to be fetched next, and so all nodes come at that
// time; one gets the lease, and the others find soon after what it has published. What came is kept for
// minutes, compressed, as those who need it need it at once; who comes later asks the source, with the lease.
//
// Nothing of it waits for replicas: what a failover takes back is fetched once more.
type Sources struct {
	c      *cluster.Client
	node   string
	encode *zstd.Encoder
	decode *zstd.Decoder
}

// NewSources returns the sources of a cluster.
func NewSources(c *cluster.Client) *Sources {
	s := &Sources{c: c, node: strconv.FormatUint(rand.Uint64(), 36)}
	var err, derr error
	s.encode, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	s.decode, derr = zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxPlain), zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true))
	if err != nil || derr != nil {
		panic("BUG: options of zstd")
	}
	return s
}

// Close gives memory back.
func (s *Sources) Close() {
	s.encode.Close() //nolint:errcheck // it writes nothing
	s.decode.Close()
}

// keys returns the keys of a source, which are of one slot: lease, state and body.
func (s *Sources) keys(url string) (slot uint16, lease, state, body string) {
	sum := xxh3.HashString128(url).Bytes()
	tag := "{" + hex.EncodeToString(sum[:]) + "}"
	lease = s.c.Key("fl:" + tag)
	return cluster.Slot(lease), lease, s.c.Key("fs:" + tag), s.c.Key("fb:" + tag)
}

// Turn waits until it is this node's turn to fetch a source, or another one has fetched it since it was tried
// so often, whose state is then returned.
func (s *Sources) Turn(ctx context.Context, url string, tried int) (*Turn, *State, error) {
	t := &Turn{s: s, token: s.node + strconv.FormatUint(rand.Uint64(), 36)}
	t.slot, t.lease, t.state, t.body = s.keys(url)
	for wait := firstLook; ; wait = min(2*wait, lastLook) {
		reply, err := t.call(ctx, "filter_turn", []string{t.lease, t.state}, t.token, millis(leaseFor),
			strconv.Itoa(tried))
		if err != nil {
			return nil, nil, fmt.Errorf("lease a source: %w", err)
		}
		answer, err := reply.AsStrSlice()
		if err != nil || len(answer) == 0 {
			return nil, nil, fmt.Errorf("lease a source: what the engine answers is not understood: %w", err)
		}
		switch {
		case answer[0] == "yours":
			t.timer = time.AfterFunc(leaseFor/3, t.extend)
			return t, nil, nil
		case answer[0] == "newer" && len(answer) == 2:
			state := new(State)
			if err := json.Unmarshal([]byte(answer[1]), state); err != nil {
				return nil, nil, fmt.Errorf("the state of a source: %w", err)
			}
			return nil, state, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-time.After(wait + rand.N(wait)):
		}
	}
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Body returns what a node has published for a source, nil where there is nothing any more.
func (s *Sources) Body(ctx context.Context, url string) ([]byte, error) {
	slot, _, _, body := s.keys(url)
	reply, err := s.c.Do(ctx, cluster.Command{Slot: slot, Args: []string{"GET", body}})
	if err != nil {
		return nil, fmt.Errorf("take a source from the engine: %w", err)
	}
	if reply.IsNil() {
		return nil, nil
	}
	text, err := reply.ToString()
	if err != nil {
		return nil, err
	}
	plain, err := s.decode.DecodeAll([]byte(text), nil)
	if err != nil {
		return nil, fmt.Errorf("take a source from the engine: %w", err)
	}
	return plain, nil
}

// Turn is the lease of a source. Done or Cancel ends it.
type Turn struct {
	s                  *Sources
	slot               uint16
	lease, state, body string // keys
	token              string
	timer              *time.Timer
	ended              atomic.Bool
}

func (t *Turn) command(function string, keys []string, args ...string) cluster.Command {
	return cluster.Command{Slot: t.slot, Args: Functions.Call(function, keys, args...)}
}

func (t *Turn) call(ctx context.Context, function string, keys []string, args ...string) (cluster.Reply,
	error) {
	return t.s.c.Do(ctx, t.command(function, keys, args...))
}

// submit calls a function and does not wait for the answer.
func (t *Turn) submit(function string, keys []string, args ...string) {
	t.s.c.Submit(context.Background(), t.command(function, keys, args...), func(cluster.Reply, error) {})
}

// extend makes the lease last. Where that fails, another node may fetch the source as well.
func (t *Turn) extend() {
	t.submit("filter_extend", []string{t.lease}, t.token, millis(leaseFor))
	if t.timer.Reset(leaseFor / 3); t.ended.Load() {
		t.timer.Stop()
	}
}

func (t *Turn) end() {
	t.ended.Store(true)
	t.timer.Stop()
}

// Done publishes how the fetch went and, unless it is nil, what has come. False means that another node has
// done so.
func (t *Turn) Done(ctx context.Context, state State, body []byte) (published bool, err error) {
	t.end()
	text, err := json.Marshal(state)
	if err != nil {
		return false, err
	}
	var packed []byte
	if len(body) > 0 && len(body) <= maxPlain {
		if packed = t.s.encode.EncodeAll(body, nil); len(packed) > maxBody {
			packed = nil
		}
	}
	reply, err := t.call(ctx, "filter_done", []string{t.lease, t.state, t.body}, t.token,
		strconv.Itoa(state.Tried), string(text), millis(stateFor), string(packed), millis(bodyFor))
	if err != nil {
		return false, fmt.Errorf("publish a source: %w", err)
	}
	n, err := reply.ToInt64()
	return n == 1, err
}

// Cancel gives the lease up, without an answer.
func (t *Turn) Cancel() {
	t.end()
	t.submit("filter_done", []string{t.lease, t.state, t.body}, t.token, "0", "", "0", "", "0")
}
