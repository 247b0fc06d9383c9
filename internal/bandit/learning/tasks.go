package learning

import (
	"context"
	"errors"
	"sync/atomic"
)

// tasks are the goroutines of a Learner.
type tasks struct {
	broken atomic.Bool // one has panicked
	stop   context.CancelFunc
	ended  []chan struct{} // each closed when its goroutine has ended
}

// start runs fn until Close. If it panics, events are refused until a restart.
func (t *tasks) start(o Options, name string, fn func()) {
	ended := make(chan struct{})
	t.ended = append(t.ended, ended)
	o.Go(name, func(context.Context) {
		returned := false
		defer func() {
			if !returned {
				t.broken.Store(true)
				t.stop()
			}
			close(ended)
		}()
		fn()
		returned = true
	})
}

// end stops all and waits for them.
func (t *tasks) end() {
	t.stop()
	for _, ended := range t.ended {
		<-ended
	}
}

var errBroken = errors.New("a background task failed; see the log, and restart")
