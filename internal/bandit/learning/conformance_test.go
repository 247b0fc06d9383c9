package learning_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/bandit/learning"
	"weir/internal/bandit/learning/learningtest"
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

func TestMain(m *testing.M) { learningtest.Main(m, local) }

func TestLocalKeepsThePromises(t *testing.T) { learningtest.Run(t, local) }
