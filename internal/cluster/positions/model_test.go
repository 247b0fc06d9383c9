package positions_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"weir/internal/cluster"
	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/positions"
	"weir/internal/metrics"
	"weir/internal/progress"
	"weir/internal/progress/positionstest"
)

// model is what the functions in Lua do, in plain Go.
type model struct {
	cells  map[uint64]modelCell
	newest map[uint64]uint64 // by group: the cells of one key
	group  func(user uint64) uint64
}

type modelCell struct {
	tag      uint64
	position int
}

func (m *model) do(user, version uint64, l progress.List, op progress.Op) (progress.Move, error) {
	c := m.cells[user]
	if c.tag != l.Tag {
		if m.newest[m.group(user)] > version {
			return progress.Move{}, progress.ErrSuperseded
		}
		c = modelCell{tag: l.Tag}
	}
	from := min(c.position, l.Len)
	if c.position = op.Target(from, l.Len); c.position != from {
		m.cells[user] = c
		m.newest[m.group(user)] = max(version, m.newest[m.group(user)])
	}
	return progress.Move{From: from, To: c.position}, nil
}

func (m *model) forget(user, version uint64) bool {
	if _, ok := m.cells[user]; !ok {
		return false
	}
	delete(m.cells, user)
	m.newest[m.group(user)] = max(version, m.newest[m.group(user)])
	return true
}

// Versions are far apart and close together, in any of their bytes.
var someVersions = []uint64{1, 2, 0x7f, 0x80, 0x1_00, 0x1_7f, 1 << 40, 1<<40 + 0x1ff, 1 << 63, 1<<64 - 1}

func TestFunctionsDoWhatTheModelDoes(t *testing.T) {
	onBoth(t, func(t *testing.T, s *clustertest.Cluster) {
		for _, as := range []positionstest.Shape{positionstest.Dense, positionstest.Text} {
			t.Run(as.String(), func(t *testing.T) { compare(t, s, as) })
		}
	})
}

func compare(t *testing.T, s *clustertest.Cluster, as positionstest.Shape) {
	c, err := connect(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m := &model{make(map[uint64]modelCell), make(map[uint64]uint64), func(user uint64) uint64 { return 0 }}
	users := []uint64{0, 1, 2, 7, 508}
	if as == positionstest.Dense {
		users = append(users, 509, 510, 1017, 1018) // in strings of their own
		m.group = func(user uint64) uint64 { return user / 509 }
	} else if _, err := c.Format(t.Context(), cluster.Format{Buckets: 1}); err != nil { // all in one hash
		t.Fatal(err)
	}
	p, err := positions.Open(t.Context(), c, positions.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]uint64, 1019)
	for id := range ids {
		ids[id] = uint64(id)
	}
	var nodes []progress.Generation // nodes that are behind each other
	for _, version := range someVersions {
		g, err := p.Prepare(positionstest.NewBook(version, as, progress.MaxLen, ids...))
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, g)
	}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 18))
	tags := []uint64{1, 0x0102_0304_0506, progress.MaxTag}
	lengths := []int{0, 5, 300, progress.MaxLen}
	superseded := 0
	for i := range 3000 {
		g, user := nodes[min(r.IntN(len(nodes)), i/100)], users[r.IntN(len(users))]
		u := progress.User{Rank: user, Number: user}
		if as == positionstest.Text && user%2 == 1 {
			u.Name = []byte("somebody " + strings.Repeat("x", int(user)/4))
		}
		if r.IntN(50) == 0 {
			was, err := g.Forget(t.Context(), u)
			if want := m.forget(user, g.Version()); was != want || err != nil {
				t.Fatalf("seed %d, %d: user %d was forgotten: %t, %v; want %t", seed, i, user, was, err, want)
			}
			continue
		}
		l := progress.List{Tag: tags[r.IntN(len(tags))], Len: lengths[r.IntN(len(lengths))]}
		at := m.cells[user].position
		op := []progress.Op{progress.Get(), progress.Advance(r.IntN(20)), progress.Advance(progress.MaxLen),
			progress.Advance(-3), progress.Raise(r.IntN(400)), progress.Set(r.IntN(progress.MaxLen)),
			progress.Set(-1), progress.Step(at, r.IntN(20)), progress.Step(r.IntN(40), 1)}[r.IntN(9)]
		got, err := positionstest.Do(g, u, l, op)
		want, wantErr := m.do(user, g.Version(), l, op)
		if got != want || !errors.Is(err, wantErr) {
			t.Fatalf("seed %d, %d: %+v of user %d in %+v under version %d moved %+v, %v; want %+v, %v",
				seed, i, op, user, l, g.Version(), got, err, want, wantErr)
		}
		if wantErr != nil {
			superseded++
		}
	}
	if superseded == 0 {
		t.Error("nothing was superseded")
	}
}

func TestChangesThatAreNotConfirmedAreCounted(t *testing.T) {
	onBoth(t, func(t *testing.T, s *clustertest.Cluster) {
		s = clustertest.Start(t, clustertest.Options{Server: s.Options.Server, Replicas: 1, Own: true})
		c, err := cluster.Open(t.Context(), cluster.Options{Addrs: s.Addrs(), Replicas: 1, Timeout: 300e6})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		m := metrics.New(1)
		p, err := positions.Open(t.Context(), c, positions.Options{Metrics: m})
		if err != nil {
			t.Fatal(err)
		}
		b := positionstest.NewBook(1, positionstest.Dense, 20, 0)
		g, err := p.Prepare(b)
		if err != nil {
			t.Fatal(err)
		}
		u, _ := b.User(0)
		l, _ := b.List(0)
		advance := func() (progress.Move, error) { return positionstest.Do(g, u, l, progress.Advance(15)) }
		if _, err := advance(); err != nil {
			t.Fatal(err)
		}
		replica := s.Nodes[3+shardOf(s, cluster.Slot(c.Key("p:{0}")))]
		if err := replica.Stall(); err != nil {
			t.Fatal(err)
		}
		_, err = advance()
		var moved *positions.MovedError
		if !errors.As(err, &moved) || !errors.Is(err, cluster.ErrUnreplicated) || moved.By != 5 {
			t.Errorf("without a replica: %v; want one that says 5 items", err)
		}
		if err := replica.Resume(); err != nil {
			t.Fatal(err)
		}
		var skipped float64
		for _, sample := range m.Snapshot(nil) {
			if sample.Name == "weir_cluster_skipped_items_total" {
				skipped += sample.Value
			}
		}
		if skipped != 5 {
			t.Errorf("%v items are counted as skipped, want 5", skipped)
		}
	})
}

// shardOf returns which shard of a cluster that was just formed has a slot.
func shardOf(s *clustertest.Cluster, slot uint16) int {
	for shard := range s.Options.Shards {
		if int(slot) < (shard+1)*16384/s.Options.Shards {
			return shard
		}
	}
	panic("BUG: no shard has the slot")
}
