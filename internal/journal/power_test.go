package journal

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"weir/internal/disk/record"
	"weir/internal/systest"
)

// outage runs a journal and makes what a power failure would leave of it at some moment: of each page that
// was written since the last sync the disk may have what was there before, what is there now, a part of it,
// or noise, in any combination.
type outage struct {
	t   *testing.T
	rng *rand.Rand
	dir string

	durable map[string][]byte // files at the last sync that is over
	pending map[string][]byte // files when the sync in progress began, nil if none is
	acked   []string          // records that were appended
	synced  int               // how many of them are in durable
	covered int               // how many of them the sync in progress covers
	former  []byte            // the checkpoint that is being replaced

	crash   map[string][]byte // what the power failure left, nil until it comes
	least   int               // how many records must be there afterwards
	chances float64           // that it comes in the next step
}

func (o *outage) files() map[string][]byte {
	m := make(map[string][]byte)
	for _, name := range files(o.t, o.dir) {
		b, err := os.ReadFile(filepath.Join(o.dir, name))
		if err != nil {
			o.t.Fatal(err)
		}
		m[name] = b
	}
	return m
}

// settle notes that the sync in progress is over.
func (o *outage) settle() {
	if o.pending != nil {
		o.durable, o.synced, o.pending = o.pending, o.covered, nil
	}
}

func (o *outage) beforeSync() error {
	o.settle()
	o.maybe("")
	o.pending, o.covered = o.files(), len(o.acked)
	return nil
}

func (o *outage) step(step string) {
	o.settle()
	if step == "log synced" {
		o.former = o.files()[checkpointName]
	}
	o.maybe(step)
}

// maybe has the power fail now.
func (o *outage) maybe(step string) {
	if o.crash != nil || o.rng.Float64() > o.chances {
		return
	}
	now := o.files()
	o.crash, o.least = make(map[string][]byte), o.synced
	for name, b := range now {
		was, known := o.durable[name]
		switch {
		case strings.HasSuffix(name, ".tmp"):
			o.crash[name] = b[:o.rng.IntN(len(b)+1)]
		case name == checkpointName:
			o.crash[name] = b // only Commit puts it there, and syncs all
			if step == "checkpoint renamed" && o.rng.IntN(2) == 0 {
				delete(o.crash, name) // its rename was not yet on the disk
				if o.former != nil {
					o.crash[name] = o.former
				}
			}
		case known:
			o.crash[name] = o.torn(was, b)
		default:
			o.crash[name] = o.torn(b[:record.PageSize], b)
		}
	}
	for name, b := range o.durable {
		if _, there := now[name]; !there && strings.HasSuffix(name, segmentSuffix) && o.rng.IntN(2) == 0 {
			o.crash[name] = b // its removal was not yet on the disk
		}
	}
}

// torn returns what the disk may hold of a file that was synced as was and is now.
func (o *outage) torn(was, now []byte) []byte {
	size := len(was)
	switch {
	case len(now) > size:
		size += o.rng.IntN(len(now) - size + 1)
	case o.rng.IntN(2) == 0:
		size = len(now)
	}
	length := max(len(was), len(now), size)
	from, to := make([]byte, length), make([]byte, length)
	copy(from, was)
	copy(to, now)
	lost := o.rng.Float64() // share of pages that were not written
	for at := 0; at < length; at += record.PageSize {
		page, next := from[at:min(at+record.PageSize, length)], to[at:min(at+record.PageSize, length)]
		if bytes.Equal(page, next) || o.rng.Float64() < lost {
			continue
		}
		switch o.rng.IntN(5) {
		case 0, 1, 2:
			copy(page, next)
		case 3: // some sectors
			for s := 0; s < len(page); s += 512 {
				if o.rng.IntN(2) == 0 {
					copy(page[s:min(s+512, len(page))], next[s:])
				}
			}
		case 4: // torn by a disk that cannot do better
			n := o.rng.IntN(len(page))
			copy(page[:n], next)
			for i := range page[n:] {
				page[n+i] = byte(o.rng.Uint32())
			}
		}
	}
	return from[:size]
}

// run appends, syncs, makes checkpoints and fails until the power does, and puts what is left in o.dir.
func (o *outage) run(generation int) {
	t := o.t
	opts := Options{Segment: int64(3+o.rng.IntN(6)) * record.PageSize, step: o.step}
	opts.Faults.FailSync = o.beforeSync
	tearing := false
	opts.Faults.FailWrite = func(n int) (int, error) {
		if tearing {
			return o.rng.IntN(n + 1), syscall.ENOSPC
		}
		return n, nil
	}
	o.chances = 0.1 // also while it is opened
	// What a torn file had beyond the last sync is promised once Open has synced it.
	o.durable, o.synced, o.pending = o.files(), o.least, nil
	known := o.acked
	j, k, err := open(o.dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	wantRecords(t, k, known...)

	o.chances = 0.02
	state, at := keeper{slices.Clone(o.acked)}, j.Position()
	var b Batch
	for n := 0; o.crash == nil; n++ {
		switch p := o.rng.IntN(100); {
		case p < 75:
			b.Reset()
			var records []string
			for i := range 1 + o.rng.IntN(3) {
				length := o.rng.IntN(300)
				if o.rng.IntN(20) == 0 {
					length = o.rng.IntN(3 * record.PageSize)
				}
				r := fmt.Sprintf("%d %d %d %s", generation, n, i, strings.Repeat("x", length))
				records = append(records, r)
				b.Add([]byte(r))
			}
			tearing = o.rng.IntN(30) == 0
			if err := j.Append(&b); err == nil {
				o.acked = append(o.acked, records...)
			} else if !tearing {
				t.Fatal(err)
			}
			tearing = false
		case p < 85:
			if err := j.Sync(); err != nil {
				t.Fatal(err)
			}
		case p < 92:
			state, at = keeper{slices.Clone(o.acked)}, j.Position()
		case p < 98:
			if at >= j.Checkpointed() {
				if err := j.Checkpoint(at, state.save); err != nil {
					t.Fatal(err)
				}
			}
		default:
			mustClose(t, j)
			o.settle()
			o.maybe("")
			if j, k, err = open(o.dir, opts); err != nil {
				t.Fatal(err)
			}
			if o.crash == nil {
				wantRecords(t, k, o.acked...)
			}
			state, at = keeper{slices.Clone(o.acked)}, j.Position()
		}
		o.settle()
		o.maybe("")
	}
	j.Close()
	o.dir = t.TempDir()
	for name, b := range o.crash {
		if err := os.WriteFile(filepath.Join(o.dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPowerFailureLosesOnlyTheEnd(t *testing.T) {
	systest.LongRun(t, "many copies of files as a power failure leaves them")
	rounds := uint64(50)
	if os.Getenv("WEIR_SOAK") != "" {
		rounds = 2000
	}
	lost, cut := 0, 0
	for seed := range rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			o := &outage{t: t, rng: rand.New(rand.NewPCG(seed, 4)), dir: t.TempDir()}
			for generation := range 4 {
				o.run(generation)
				where := fmt.Sprintf("generation %d, files %q", generation, slices.Sorted(maps.Keys(o.crash)))
				before := contents(t, o.dir)
				s, err := takeStock(os.DirFS(o.dir), o.dir, false)
				if err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				k := new(keeper)
				if !s.empty() {
					if err := s.read(k.load, k.replay); err != nil {
						t.Fatalf("%s: %v", where, err)
					}
				}
				s.close() //nolint:errcheck // only read
				if after := contents(t, o.dir); after != before {
					t.Fatalf("reading changed %s into %s", before, after)
				}
				n := len(k.records)
				if n < o.least || n > len(o.acked) || !slices.Equal(k.records, o.acked[:n]) {
					t.Fatalf("%s: %d records, want the first %d to %d of what was appended", where, n,
						o.least, len(o.acked))
				}
				if n < len(o.acked) {
					lost++
				}
				if len(s.segments) > 0 && s.end < s.segments[len(s.segments)-1].Size() {
					cut++
				}
				o.acked = o.acked[:n]
				o.crash = nil
			}
		})
	}
	t.Logf("%d power failures, %d lost something, %d left a torn end", rounds*4, lost, cut)
	if lost < int(rounds)/4 || cut < int(rounds)/4 {
		t.Errorf("of %d power failures only %d lost something and %d left a torn end: they prove little",
			rounds*4, lost, cut)
	}
}
