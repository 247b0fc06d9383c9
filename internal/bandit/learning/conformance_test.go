package learning_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/bandit/learning"
	"weir/internal/bandit/learning/learningtest"
	"weir/internal/cluster"
	"weir/internal/cluster/clustertest"
	"weir/internal/metrics"
)

var local = learningtest.Implementation{
	Open: func(dir string) (learning.Learner, error) { return learning.Open(dir, options()) },
	OpenFailing: func(dir string) (learning.Learner, func(), error) {
		var failing atomic.Bool
		o := options()
		o.Sync = time.Millisecond
		o.Faults.FailSync = func() error {
			if failing.Load() {
				return errors.New("the disk is on fire")
			}
			return nil
		}
		l, err := learning.Open(dir, o)
		return l, func() { failing.Store(true) }, err
	},
}

func options() learning.Options {
	return learning.Options{
		Memory: 1 << 24, ClientIDs: 1, Sync: 100 * time.Millisecond, Checkpoint: 1 << 16,
		Go:      func(_ string, fn func(context.Context)) { go fn(context.Background()) },
		Metrics: metrics.New(1), Log: slog.New(slog.DiscardHandler),
	}
}

// tests ends the clusters that tests have shared.
type tests struct{ *testing.M }

func (t tests) Run() int { return clustertest.Main(t.M) }

// TestMain runs the tests, or a process that is killed: of the implementation that its directory says.
func TestMain(m *testing.M) {
	learningtest.Main(tests{m}, learningtest.Implementation{Open: func(dir string) (learning.Learner, error) {
		if strings.Contains(dir, "TestShared") {
			return shared.Open(dir)
		}
		return local.Open(dir)
	}})
}

// addrsVariable begins the name of the variable that has the addresses of a server's cluster, for a process
// that is killed.
const addrsVariable = "WEIR_LEARNINGTEST_"

// shared is a Shared; its directory says which server and which keys it has.
var shared = learningtest.Implementation{
	Open: func(dir string) (learning.Learner, error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		prefix := strings.Map(func(r rune) rune {
			if r == '{' || r == '}' {
				return '-'
			}
			return r
		}, dir)
		server := clustertest.Redis
		if strings.Contains(dir, string(clustertest.Valkey)) {
			server = clustertest.Valkey
		}
		c, err := cluster.Open(ctx, cluster.Options{Replicas: 1, Prefix: prefix,
			Addrs: strings.Split(os.Getenv(addrsVariable+string(server)), ",")})
		if err != nil {
			return nil, err
		}
		l, err := learning.OpenShared(ctx, dir, c, options())
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return closing{l, c}, nil
	},
}

// closing closes the client as well.
type closing struct {
	learning.Learner
	c *cluster.Client
}

func (l closing) Close() error { return errors.Join(l.Learner.Close(), l.c.Close()) }

func TestSharedKeepsThePromises(t *testing.T) {
	t.Parallel()
	for _, server := range clustertest.Servers() {
		t.Run(string(server), func(t *testing.T) {
			t.Parallel()
			c := clustertest.Start(t, clustertest.Options{Server: server, Shards: 1, Replicas: 1})
			if err := os.Setenv(addrsVariable+string(server), strings.Join(c.Addrs(), ",")); err != nil {
				t.Fatal(err)
			}
			learningtest.Run(t, shared)
		})
	}
}

func TestLocalKeepsThePromises(t *testing.T) { learningtest.Run(t, local) }
