// Package learningtest tests that an implementation of learning.Learner keeps its promises, from outside:
// batches that come at the same time, ids, restarts, kill -9, and a disk that fails.
//
// The test's package calls Main from its TestMain, since a Learner that is killed runs in a process of its
// own: the test's binary, started again.
package learningtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/bandit/arms"
	"weir/internal/bandit/learning"
)

// Implementation is how to open a Learner.
type Implementation struct {
	// Open opens one that keeps what it needs in dir, or in something that dir names. It may be opened
	// again once it is closed or killed.
	Open func(dir string) (learning.Learner, error)
	// OpenFailing opens one whose storage fails once fail is called, in a way that leaves open what was
	// stored; nil if there is no such way.
	OpenFailing func(dir string) (l learning.Learner, fail func(), err error)
}

const dirVariable = "WEIR_LEARNINGTEST_DIR"

// Main runs the tests of m, a *testing.M or what it is run by, or teaches until it is killed.
func Main(m interface{ Run() int }, im Implementation) {
	if dir := os.Getenv(dirVariable); dir != "" {
		fmt.Fprintln(os.Stderr, teachForever(im, dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Run tests an implementation.
func Run(t *testing.T, im Implementation) {
	open := func(t *testing.T, dir string) learning.Learner {
		t.Helper()
		l, err := im.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	closed := func(t *testing.T, l learning.Learner) {
		t.Helper()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}

	t.Run("what counts is seen", func(t *testing.T) {
		dir := t.TempDir()
		l := open(t, dir)
		if n, err := Learn(l, Event(1, "a"), Event(2, ""), Event(1, "a")); n != 1 || err != nil {
			t.Errorf("%d duplicates, error %v", n, err)
		}
		if n, err := Learn(l, Event(2, "a")); n != 1 || err != nil {
			t.Errorf("%d duplicates of one that was there, error %v", n, err)
		}
		want(t, l, 1, 1)
		want(t, l, 2, 1)
		if !l.Teaches(arms.Item, key(1)) || l.Teaches(arms.Pair, key(1)) || l.Len(arms.Item) != 2 {
			t.Error("the arms are not those that were taught")
		}
		if l.Durability() == "" || l.Err() != nil {
			t.Errorf("durability %q, error %v", l.Durability(), l.Err())
		}
		closed(t, l)
		l = open(t, dir)
		want(t, l, 1, 1)
		if n, err := Learn(l, Event(2, "a"), Event(2, "b")); n != 1 || err != nil {
			t.Errorf("after a restart: %d duplicates, error %v", n, err)
		}
		want(t, l, 2, 2)
		closed(t, l)
		if _, err := Learn(l, Event(1, "")); err == nil {
			t.Error("it takes events after Close")
		}
	})
	t.Run("what is forgotten stays so", func(t *testing.T) {
		dir := t.TempDir()
		l := open(t, dir)
		if _, err := Learn(l, Event(1, "a"), Event(2, "b"), Event(3, "")); err != nil {
			t.Fatal(err)
		}
		for _, f := range []struct {
			learning.Forgetting
			n int
		}{
			{learning.Forgetting{Arms: learning.Arms{key(1)}}, 1},
			{learning.Forgetting{Arms: learning.Arms{key(1)}}, 0},
			{learning.Forgetting{IDs: true}, 2},
		} {
			if n, err := l.Forget(f.Forgetting); n != f.n || err != nil {
				t.Errorf("%+v: %d are forgotten, error %v", f.Forgetting, n, err)
			}
		}
		closed(t, l)
		l = open(t, dir)
		want(t, l, 1, 0)
		want(t, l, 2, 1)
		if n, err := Learn(l, Event(1, "a")); n != 0 || err != nil {
			t.Errorf("an id that was forgotten is a duplicate: %d, error %v", n, err)
		}
		if n, err := l.Forget(learning.Forgetting{All: true}); n != 3 || err != nil {
			t.Errorf("%d arms are forgotten, error %v", n, err)
		}
		want(t, l, 2, 0)
		of := Event(4, "")
		of.Arms[arms.Pair] = key(5)
		of.Names[arms.Pair] = &learning.Name{Item: "4", Of: "somebody"}
		if _, err := Learn(l, of); err != nil {
			t.Fatal(err)
		}
		for _, of := range []int{1, 0} {
			if n, err := l.Forget(learning.Forgetting{User: "somebody"}); n != of || err != nil {
				t.Errorf("%d arms of a user are forgotten, error %v", n, err)
			}
		}
		closed(t, l)
	})
	t.Run("batches at the same time", func(t *testing.T) {
		dir := t.TempDir()
		l := open(t, dir)
		const clients, batches, items = 8, 50, 20
		var all sync.WaitGroup
		var mu sync.Mutex
		accepted, duplicates := 0, 0
		for c := range clients {
			all.Go(func() {
				for i := range batches {
					// Each is sent by two clients, one of which counts.
					n, err := Learn(l, Event(uint64(i%items), fmt.Sprint(c/2, "-", i)))
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					accepted, duplicates = accepted+1-n, duplicates+n
					mu.Unlock()
				}
			})
		}
		done := make(chan struct{})
		go func() { // predictions read beside them
			defer close(done)
			for range 200 {
				for i := range uint64(items) {
					value(l, i)
				}
			}
		}()
		all.Wait()
		<-done
		if want := clients / 2 * batches; accepted != want || duplicates != want {
			t.Errorf("%d are accepted and %d are duplicates, want %d of each", accepted, duplicates, want)
		}
		check := func(l learning.Learner) {
			t.Helper()
			sum := 0.0
			for i := range uint64(items) {
				sum += value(l, i)
			}
			if sum != float64(accepted) {
				t.Errorf("the arms hold %v events, want %d", sum, accepted)
			}
		}
		check(l)
		closed(t, l)
		l = open(t, dir)
		check(l)
		closed(t, l)
	})
	t.Run("kill -9", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "learner")
		accepted := make(map[uint64]int) // by item, all rounds together
		for round := range 4 {
			last := killed(t, dir, round, accepted)
			l := open(t, dir)
			for item, n := range accepted {
				// One batch was under way, whose answer nobody got.
				if got := value(l, item); got < float64(n) || got > float64(n+1) {
					t.Errorf("item %d is at %v, and %d events were accepted", item, got, n)
				}
				accepted[item] = int(value(l, item))
			}
			if n, err := Learn(l, Event(0, last)); n != 1 || err != nil {
				t.Errorf("the last id that was accepted counts again: %d duplicates, error %v", n, err)
			}
			closed(t, l)
		}
	})
	if im.OpenFailing == nil {
		return
	}
	t.Run("after a failure nothing is taken", func(t *testing.T) {
		dir := t.TempDir()
		l, fail, err := im.OpenFailing(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Learn(l, Event(1, "a")); err != nil {
			t.Fatal(err)
		}
		fail()
		for deadline := time.Now().Add(time.Minute); l.Err() == nil; time.Sleep(time.Millisecond) {
			Learn(l, Event(2, "")) //nolint:errcheck // it may still be accepted
			if time.Now().After(deadline) {
				t.Fatal("it does not know that its storage fails")
			}
		}
		was := value(l, 1)
		if _, err := Learn(l, Event(1, "b")); err == nil {
			t.Error("an event is accepted")
		}
		if _, err := Learn(l, Event(1, "a")); err == nil {
			t.Error("a duplicate is accepted, though nobody knows whether it is stored")
		}
		if value(l, 1) != was {
			t.Error("what was refused counts")
		}
		l.Close() //nolint:errcheck // it fails
	})
}

// Event returns an event with a reward of 1; id "" is none.
func Event(item uint64, id string) learning.Event {
	e := learning.Event{Reward: 1, Arms: learning.Arms{key(item)}}
	if id != "" {
		e.ID = arms.KeyOf([]byte(id))
	}
	return e
}

func key(item uint64) arms.Key { return arms.NumberKey(item) }

// Learn teaches events and waits.
func Learn(l learning.Learner, list ...learning.Event) (duplicates int, err error) {
	done := make(chan struct{})
	l.Learn(learning.Batch{Events: list, Done: func(n int, e error) { duplicates, err = n, e; close(done) }})
	<-done
	return duplicates, err
}

func value(l learning.Learner, item uint64) float64 {
	alpha, _, _ := l.View(arms.Item, time.Now().UnixMicro()).Find(key(item))
	return alpha
}

func want(t *testing.T, l learning.Learner, item uint64, alpha float64) {
	t.Helper()
	if got := value(l, item); got != alpha {
		t.Errorf("item %d is at %v, want %v", item, got, alpha)
	}
}

// killed has a process teach and kills it after a while. It adds what was accepted and returns the last id.
func killed(t *testing.T, dir string, round int, accepted map[uint64]int) (last string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, os.Args[0])
	c.Env = append(os.Environ(), dirVariable+"="+dir, "WEIR_LEARNINGTEST_ROUND="+strconv.Itoa(round))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	stop := 500 + rand.IntN(1500)
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		item, id, ok := strings.Cut(lines.Text(), " ")
		k, err := strconv.ParseUint(item, 10, 64)
		if !ok || err != nil {
			t.Fatalf("the process said %q", lines.Text())
		}
		accepted[k]++
		last = id
		if n == stop {
			if err := c.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Wait(); err == nil || ctx.Err() != nil {
		t.Fatalf("it was to be killed: %v", err)
	}
	if last == "" {
		t.Fatal("nothing was accepted")
	}
	return last
}

// teachForever says item and id of every event once it is accepted, and returns why it ended.
func teachForever(im Implementation, dir string) error {
	l, err := im.Open(dir)
	if err != nil {
		return err
	}
	round := os.Getenv("WEIR_LEARNINGTEST_ROUND")
	for i := 0; ; i++ {
		item, id := uint64(i%50), fmt.Sprintf("%s-%d", round, i)
		n, err := Learn(l, Event(item, id))
		if err != nil {
			return err
		}
		if n != 0 {
			return errors.New("a new id is a duplicate")
		}
		if _, err := fmt.Println(item, id); err != nil {
			return err
		}
	}
}
