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

func TestMain(m *testing.M) {
	if os.Getenv(addrsVariable) != "" {
		learningtest.Main(tests{m}, shared)
	}
	learningtest.Main(tests{m}, local)
}

// addrsVariable has the addresses of a cluster, for a process that is killed.
const addrsVariable = "WEIR_LEARNINGTEST_CLUSTER"

// shared is a Shared; its directory says which keys it has.
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
		c, err := cluster.Open(ctx, cluster.Options{Addrs: strings.Split(os.Getenv(addrsVariable), ","),
			Replicas: 1, Prefix: prefix})
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
	for _, server := range clustertest.Servers() {
		t.Run(string(server), func(t *testing.T) {
			c := clustertest.Start(t, clustertest.Options{Server: server, Shards: 1, Replicas: 1})
			t.Setenv(addrsVariable, strings.Join(c.Addrs(), ","))
			learningtest.Run(t, shared)
		})
	}
}

func TestLocalKeepsThePromises(t *testing.T) { learningtest.Run(t, local) }
