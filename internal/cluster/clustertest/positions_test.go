package clustertest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"weir/internal/cluster"
	"weir/internal/cluster/clustertest"
)

const (
	users     = 2000
	advancers = 64
	// settled is how many items are given before a fault and after it.
	settled = 3000
)

// timesEnv is how often each fault is made, the slow ones and the control of each included. Without it, those
// that are quick are made once.
const timesEnv = "WEIR_FAULTS"

// TestFaultsGiveNothingTwice makes each fault while two nodes advance the same users.
func TestFaultsGiveNothingTwice(t *testing.T) {
	for _, s := range clustertest.Servers() {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			c := clustertest.Start(t, clustertest.Options{Server: s, Replicas: 1, Proxies: true, Own: true})
			times, _ := strconv.Atoi(os.Getenv(timesEnv))
			for _, f := range faults {
				for _, replicas := range []int{1, 0} {
					control := replicas == 0
					if times == 0 && (f.slow || control && !f.revealing) {
						continue
					}
					t.Run(fmt.Sprintf("%s/Wait%d", f.name, replicas), func(t *testing.T) {
						var sum outcome
						rounds := max(1, times)
						if control {
							rounds = 1
						}
						for i := range rounds {
							o := advanceUnder(t, c, f, replicas, i)
							sum.given += o.given
							sum.twice += o.twice
							sum.skipped += o.skipped
							sum.refused += o.refused
						}
						t.Logf("%d times: %d items given, %d twice, %d skipped, %d advances refused",
							rounds, sum.given, sum.twice, sum.skipped, sum.refused)
						switch {
						case (control && f.revealing || f.breaking) && sum.twice == 0:
							t.Errorf("void: nothing was given twice where it must be, so the fault was none")
						case !control && !f.breaking && sum.twice > 0:
							t.Errorf("%d items were given twice", sum.twice)
						}
					})
				}
			}
		})
	}
}

type outcome struct{ given, twice, skipped, refused int64 }

// advanceUnder advances users, makes a fault, and goes on.
func advanceUnder(t *testing.T, c *clustertest.Cluster, f fault, replicas, round int) (o outcome) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var nodes []subject
	for range 2 {
		client, err := cluster.Open(ctx, cluster.Options{Addrs: c.Addrs(), Replicas: replicas,
			Prefix: clustertest.Prefix(t) + "-" + strconv.Itoa(round)})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		nodes = append(nodes, subject{client})
	}
	l := newLedger(users)
	under, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	for i := range advancers {
		all.Go(func() {
			for under.Err() == nil {
				user := rand.IntN(users)
				from, to, err := nodes[i%2].advance(ctx, user, 1+rand.IntN(5))
				switch {
				case err == nil:
					l.give(user, from, to)
				case !errors.Is(err, cluster.ErrUnavailable) && !errors.Is(err, cluster.ErrUnknown) &&
					!errors.Is(err, cluster.ErrUnreplicated):
					t.Errorf("an advance: %v", err)
					return
				default:
					l.refused.Add(1)
					sleep(under, 5*time.Millisecond)
				}
			}
		})
	}
	give := func(n int64) {
		t.Helper()
		for goal := l.given.Load() + n; l.given.Load() < goal; sleep(ctx, time.Millisecond) {
			if ctx.Err() != nil {
				t.Fatalf("%d of %d items were given: %v", l.given.Load(), goal, ctx.Err())
			}
		}
	}
	give(settled)
	if err := f.inject(ctx, c, c.Primary(ctx, round%c.Options.Shards)); err != nil {
		clustertest.Need(t, err)
	}
	if err := c.AwaitHealthy(ctx); err != nil {
		t.Fatal(err)
	}
	give(settled)
	stop()
	all.Wait()
	for user := range users {
		position, err := nodes[user%2].position(ctx, user)
		for errors.Is(err, cluster.ErrUnavailable) && ctx.Err() == nil {
			position, err = nodes[user%2].position(ctx, user)
		}
		if err != nil {
			t.Fatal(err)
		}
		o.skipped += int64(l.settle(user, position))
	}
	o.given, o.twice, o.refused = l.given.Load(), l.twice.Load(), l.refused.Load()
	return o
}

// subject is positions in an engine, as one node has them.
type subject struct{ c *cluster.Client }

func (s subject) advance(ctx context.Context, user, n int) (from, to int, err error) {
	key := s.c.Key("{" + strconv.Itoa(user) + "}")
	r, err := s.c.Do(ctx, cluster.Command{Slot: cluster.Slot(key), Durable: true,
		Args: []string{"INCRBY", key, strconv.Itoa(n)}})
	if err != nil {
		return 0, 0, err
	}
	at, err := r.AsInt64()
	return int(at) - n, int(at), err
}

func (s subject) position(ctx context.Context, user int) (int, error) {
	_, to, err := s.advance(ctx, user, 0)
	return to, err
}
