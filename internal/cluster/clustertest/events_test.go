package clustertest_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"weir/internal/bandit/arms"
	"weir/internal/bandit/learning"
	"weir/internal/cluster"
	"weir/internal/metrics"
)

const (
	reporters      = 4
	eventsOfABatch = 10
)

// events are told to nodes, each with an id and of an arm of its own, so that the arm says how often it
// counts. What is refused is told another node, with the same id.
type events struct {
	mu       sync.Mutex
	last     uint64
	accepted []uint64
	open     []uint64 // nobody knows of
}

func openLearner(ctx context.Context, t *testing.T, client *cluster.Client) *learning.Shared {
	t.Helper()
	s, err := learning.OpenShared(ctx, t.TempDir(), client, learning.Options{
		Memory: 1 << 26, ClientIDs: 1, Checkpoint: 1 << 18,
		Go:      func(_ string, fn func(context.Context)) { go fn(context.Background()) },
		Metrics: metrics.New(1), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// report tells nodes of events until ctx ends.
func (e *events) report(ctx context.Context, t *testing.T, nodes []*learning.Shared) {
	for n := 0; ctx.Err() == nil; n++ {
		e.mu.Lock()
		first := e.last + 1
		e.last += eventsOfABatch
		e.mu.Unlock()
		var batch []learning.Event
		var numbers []uint64
		for i := first; i < first+eventsOfABatch; i++ {
			numbers = append(numbers, i)
			batch = append(batch, learning.Event{Reward: 1, ID: arms.NumberKey(1<<40 + i),
				Arms: learning.Arms{arms.Item: arms.NumberKey(i)}})
		}
		err := tell(nodes[n%len(nodes)], batch)
		for ; err != nil && ctx.Err() == nil; err = tell(nodes[n%len(nodes)], batch) {
			if !errors.Is(err, learning.ErrUnsure) && !errors.Is(err, learning.ErrNotSaved) &&
				!errors.Is(err, learning.ErrBusy) && !refusal(err) {
				t.Errorf("events: %v", err)
				return
			}
			n++
			sleep(ctx, 20*time.Millisecond)
		}
		e.mu.Lock()
		if err == nil {
			e.accepted = append(e.accepted, numbers...)
		} else {
			e.open = append(e.open, numbers...)
		}
		e.mu.Unlock()
		sleep(ctx, 20*time.Millisecond)
	}
}

func tell(s *learning.Shared, batch []learning.Event) error {
	done := make(chan error, 1)
	s.Learn(learning.Batch{Events: append([]learning.Event(nil), batch...),
		Done: func(_ int, err error) { done <- err }})
	return <-done
}

// settle waits until a node knows all that was accepted, or as long as patience, and returns how many events
// it does not know and how many count twice.
func (e *events) settle(ctx context.Context, s *learning.Shared, patience time.Duration) (lost, twice int64) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		lost, twice = 0, 0
		view := s.View(arms.Item, time.Now().UnixMicro())
		for accepted, numbers := range map[bool][]uint64{true: e.accepted, false: e.open} {
			for _, i := range numbers {
				switch alpha, _, _ := view.Find(arms.NumberKey(i)); {
				case alpha > 1.5:
					twice++
				case alpha < 0.5 && accepted:
					lost++
				}
			}
		}
		if lost == 0 || ctx.Err() != nil {
			return lost, twice
		}
		sleep(ctx, 20*time.Millisecond)
	}
}
