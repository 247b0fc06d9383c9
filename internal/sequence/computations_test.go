package sequence

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"weir/internal/metrics"
	"weir/internal/sequence/decimal"
)

// byHand is computations whose values come when a test says so.
type byHand struct {
	*computations
	t     *testing.T
	began chan uint64           // what is being computed
	goOn  map[uint64]chan error // ends one
	ended chan uint64
}

func newByHand(t *testing.T, cfg Config, indices ...uint64) *byHand {
	t.Helper()
	cfg.MaxIndex = HardMaxIndex
	if cfg.ComputeBytes == 0 {
		cfg.ComputeBytes = 1 << 60
	}
	if err := cfg.fill(); err != nil {
		t.Fatal(err)
	}
	b := &byHand{t: t, began: make(chan uint64, 100), goOn: make(map[uint64]chan error),
		ended: make(chan uint64, 100)}
	for _, n := range indices {
		b.goOn[n] = make(chan error, 100)
	}
	b.computations = newComputations(cfg, func(ctx context.Context, n uint64) (pair, how, error) {
		b.began <- n
		defer func() { b.ended <- n }()
		select {
		case err := <-b.goOn[n]:
			return pair{n, []byte("12"), []byte("34")}, miss, err
		case <-ctx.Done():
			return pair{}, miss, ctx.Err()
		}
	}, slog.New(slog.DiscardHandler))
	r := metrics.New(1)
	b.refused, b.cancelled = r.Counter("refused_total", "-"), r.Counter("cancelled_total", "-")
	return b
}

func (b *byHand) ticket(n uint64) ticket {
	b.t.Helper()
	t, err := b.admit(n, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	return t
}

// running returns what has begun since the last call, once all else waits.
func (b *byHand) running() (began []uint64) {
	synctest.Wait()
	for len(b.began) > 0 {
		began = append(began, <-b.began)
	}
	return began
}

// counts checks what is counted, once all else waits.
func (b *byHand) counts(waiting int, bytes int64) {
	b.t.Helper()
	synctest.Wait()
	if w, n := b.load(); w != waiting || n != bytes {
		b.t.Errorf("%d wait with %d bytes, want %d with %d", w, n, waiting, bytes)
	}
}

// result is what a wait came to.
type result struct {
	pair pair
	err  error
}

// wait waits for a ticket in the background.
func wait(ctx context.Context, t ticket) chan result {
	c := make(chan result, 1)
	go func() {
		p, _, err := t.wait(ctx)
		c <- result{p, err}
	}()
	return c
}

func TestAllWhoWaitForAValueShareOneComputation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newByHand(t, Config{}, 7)
		var tickets []ticket
		var results []chan result
		for range 5 {
			tk := b.ticket(7)
			tickets, results = append(tickets, tk), append(results, wait(t.Context(), tk))
		}
		if began := b.running(); len(began) != 1 {
			t.Fatalf("%v began, want one", began)
		}
		b.counts(5, decimal.Cost(7))
		b.goOn[7] <- nil
		for _, r := range results {
			if got := <-r; got.err != nil || string(got.pair.f) != "12" || got.pair.index != 7 {
				t.Errorf("got %v", got)
			}
		}
		b.counts(5, 4) // what is left is the result, while somebody holds it
		late := b.ticket(7)
		if got := <-wait(t.Context(), late); got.err != nil || len(b.running()) != 0 {
			t.Errorf("who came while others read the result got %v", got)
		}
		for _, tk := range append(tickets, late) {
			tk.giveBack()
		}
		b.counts(0, 0)
		again := wait(t.Context(), b.ticket(7))
		if began := b.running(); len(began) != 1 {
			t.Errorf("later %v began, want one", began)
		}
		b.goOn[7] <- nil
		<-again
		b.close()
	})
}

func TestAComputationEndsWhenNobodyIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newByHand(t, Config{}, 7)
		gone, leave := context.WithCancel(t.Context())
		first, second := b.ticket(7), b.ticket(7)
		one, two := wait(gone, first), wait(t.Context(), second)
		b.running()
		leave()
		if got := <-one; !errors.Is(got.err, context.Canceled) {
			t.Errorf("who left got %v", got)
		}
		first.giveBack()
		b.counts(1, decimal.Cost(7)) // one is left
		if len(b.ended) > 0 {
			t.Fatal("the computation ended while somebody waited")
		}
		second.giveBack() // without waiting for the end
		synctest.Wait()
		if len(b.ended) != 1 {
			t.Fatal("the computation goes on though nobody waits")
		}
		b.counts(0, 0)
		if got := <-two; got.err == nil {
			t.Error("a computation that was given up has a result")
		}
		if n := b.cancelled.Value(); n != 1 {
			t.Errorf("%d are counted as cancelled", n)
		}
		b.close()
	})
}

// The memory of a computation that was given up counts until it has really ended, and whoever
// comes for its value meanwhile begins anew.
func TestAGivenUpComputationCountsUntilItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		cfg := Config{MaxIndex: HardMaxIndex, Computations: 2}
		if err := cfg.fill(); err != nil {
			t.Fatal(err)
		}
		calls := 0
		c := newComputations(cfg, func(ctx context.Context, n uint64) (pair, how, error) {
			if calls++; calls == 1 {
				<-hang // does not look at ctx
				return pair{n, []byte("made for"), []byte("nobody")}, miss, nil
			}
			return pair{n, []byte("new"), []byte("er")}, miss, nil
		}, slog.New(slog.DiscardHandler))
		r := metrics.New(1)
		c.refused, c.cancelled = r.Counter("refused_total", "-"), r.Counter("cancelled_total", "-")
		b := &byHand{t: t, computations: c}
		old := b.ticket(7)
		wait(t.Context(), old)
		synctest.Wait()
		old.giveBack()
		b.counts(0, decimal.Cost(7))
		next := b.ticket(7)
		if got := <-wait(t.Context(), next); got.err != nil || string(got.pair.f) != "new" {
			t.Errorf("got %v", got)
		}
		b.counts(1, decimal.Cost(7)+5)
		close(hang)
		b.counts(1, 5)
		next.giveBack()
		b.counts(0, 0)
		c.close()
	})
}

func TestAdmissionStartsNothingAndCanBeGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newByHand(t, Config{}, 7)
		one, two := b.ticket(7), b.ticket(7)
		if began := b.running(); len(began) != 0 {
			t.Errorf("%v began", began)
		}
		b.counts(2, decimal.Cost(7))
		one.giveBack()
		two.giveBack()
		b.counts(0, 0)
		b.close()
	})
}

func TestTheNumberThatWaitsAndTheBytesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cost := decimal.Cost(1000)
		b := newByHand(t, Config{Waiting: 3, ComputeBytes: 2*cost + 10}, 1000, 1001, 1002)
		if _, err := b.admit(1_000_000, 0); !errors.Is(err, errTooLarge) || b.refused.Value() != 1 {
			t.Errorf("a value that never fits: %v", err)
		}
		one, two := b.ticket(1000), b.ticket(1000)
		if _, err := b.admit(1002, cost+11); !errors.Is(err, errTooLarge) {
			t.Errorf("a request that never fits: %v", err)
		}
		if _, err := b.admit(1002, 100); !errors.Is(err, errBusy) {
			t.Errorf("more bytes than may be: %v", err)
		}
		three, err := b.admit(1000, 10) // shares a computation, and has some bytes of its own
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.admit(1000, 0); !errors.Is(err, errBusy) {
			t.Errorf("more requests than may wait: %v", err)
		}
		b.counts(3, cost+10)
		for _, tk := range []ticket{one, two, three} {
			tk.giveBack()
		}
		b.counts(0, 0)
		b.close()
	})
}

// What takes long holds up only what takes about as long.
func TestALongComputationDoesNotHoldUpAShortOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		indices := []uint64{4_000_000_000, 4_000_000_001, 30_000_000, 1_000_000, 100_000, 100_002}
		b := newByHand(t, Config{}, indices...)
		results := make(map[uint64]chan result)
		var tickets []ticket
		began := make(map[uint64]bool)
		for _, n := range indices {
			tk := b.ticket(n)
			tickets = append(tickets, tk)
			results[n] = wait(t.Context(), tk)
			for _, n := range b.running() {
				began[n] = true
			}
		}
		for n, want := range map[uint64]bool{4_000_000_000: true, 4_000_000_001: false, 30_000_000: true,
			1_000_000: true, 100_000: true, 100_002: false} {
			if began[n] != want {
				t.Errorf("%d began: %t, want %t", n, began[n], want)
			}
		}
		for _, n := range []uint64{100_000, 100_002} {
			b.goOn[n] <- nil
			if got := <-results[n]; got.err != nil {
				t.Errorf("%d: %v", n, got.err)
			}
		}
		// One that waits for its turn can be given up, too.
		tickets[1].giveBack()
		if got := <-results[4_000_000_001]; got.err == nil {
			t.Error("what was given up has a result")
		}
		b.close()
		for _, n := range []uint64{4_000_000_000, 30_000_000, 1_000_000} {
			if got := <-results[n]; !errors.Is(got.err, errStopped) {
				t.Errorf("%d ended with %v when the service stopped", n, got.err)
			}
		}
	})
}

func TestNothingStartsOnceItIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newByHand(t, Config{}, 7)
		before := b.ticket(7)
		b.close()
		if _, err := b.admit(7, 0); !errors.Is(err, errStopped) {
			t.Errorf("admitted with %v", err)
		}
		if got := <-wait(t.Context(), before); !errors.Is(got.err, errStopped) {
			t.Errorf("it ended with %v", got.err)
		}
		before.giveBack()
		b.counts(0, 0)
	})
}

func TestAPanicInAComputationIsAnErrorAndIsLogged(t *testing.T) {
	var text strings.Builder
	cfg := Config{}
	if err := cfg.fill(); err != nil {
		t.Fatal(err)
	}
	c := newComputations(cfg, func(context.Context, uint64) (pair, how, error) { panic("on purpose") },
		slog.New(slog.NewTextHandler(&text, nil)))
	tk, err := c.admit(7, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := tk.wait(t.Context()); err == nil {
		t.Error("it has a result")
	}
	tk.giveBack()
	c.close()
	if !strings.Contains(text.String(), "BUG: ") || !strings.Contains(text.String(), "on purpose") {
		t.Errorf("the log says %s", &text)
	}
	if w, n := c.load(); w != 0 || n != 0 {
		t.Errorf("%d wait with %d bytes", w, n)
	}
}
