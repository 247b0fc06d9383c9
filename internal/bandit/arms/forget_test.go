package arms

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestWhatWasForgottenTeachesNothing(t *testing.T) {
	l := NewLearned(2000, time.Hour)
	at := time.Now().UnixMicro()
	if l.Forget(NumberKey(1)) || l.Teaches(NumberKey(1)) || l.Compact() != 0 {
		t.Error("an empty table teaches of an arm")
	}
	add := func(k uint64) {
		t.Helper()
		if err := l.Add(NumberKey(k), 0.25, at); err != nil {
			t.Fatal(err)
		}
	}
	for k := range uint64(2000) {
		add(k)
	}
	for k := range uint64(500) {
		if !l.Forget(NumberKey(k)) || l.Forget(NumberKey(k)) || l.Teaches(NumberKey(k)) {
			t.Fatalf("arm %d is not forgotten once", k)
		}
		if a, b, _ := l.View(at).Find(NumberKey(k)); a != 0 || b != 0 {
			t.Fatalf("arm %d is still at %v, %v", k, a, b)
		}
	}
	add(0) // and is taught anew, from nothing
	if a, b, _ := l.View(at).Find(NumberKey(0)); !close(a, 0.25) || !close(b, 0.75) || !l.Teaches(NumberKey(0)) {
		t.Errorf("the arm is at %v, %v after it was taught anew", a, b)
	}
	if l.Len() != 1501 || l.Cells() != 2000 {
		t.Errorf("%d arms, %d cells, before any is given back", l.Len(), l.Cells())
	}
	if n := l.Compact(); n != 499 || l.Len() != 1501 {
		t.Errorf("%d cells are given back and %d arms are left, want 499 and 1501", n, l.Len())
	}
	if n := l.Compact(); n != 0 || l.Cells() != 1501 {
		t.Errorf("%d more are given back, %d cells are left", n, l.Cells())
	}
	for k := range uint64(2000) {
		if taught := k == 0 || k >= 500; l.Teaches(NumberKey(k)) != taught || l.Has(NumberKey(k)) != taught {
			t.Fatalf("arm %d is there: %t, want %t", k, !taught, taught)
		}
	}
	if a, b, ok := l.View(at).Find(NumberKey(700)); !ok || !close(a, 0.25) || !close(b, 0.75) {
		t.Errorf("another arm is at %v, %v, %t", a, b, ok)
	}
	add(5000)
	l.ForgetAll()
	if l.Len() != 0 || !l.View(at).Empty() || l.Teaches(NumberKey(700)) {
		t.Errorf("%d arms are left of all", l.Len())
	}
	add(700)
	if a, b, ok := l.View(at).Find(NumberKey(700)); !ok || !close(a, 0.25) || !close(b, 0.75) {
		t.Errorf("after all was forgotten an event makes %v, %v, %t", a, b, ok)
	}
}

func TestTheRoomOfForgottenArmsIsTakenBackWhenItIsNeeded(t *testing.T) {
	limit := 3
	l := NewLearned(limit, time.Hour)
	at := time.Now().UnixMicro()
	add := func(k uint64, at int64, want error) {
		t.Helper()
		if err := l.Add(NumberKey(k), 1, at); !errors.Is(err, want) {
			t.Fatalf("arm %d: %v, want %v", k, err, want)
		}
	}
	is := func(arms, room int) {
		t.Helper()
		if l.Len() != arms || limit-l.Cells() != room {
			t.Errorf("%d arms and room for %d, want %d and %d", l.Len(), limit-l.Cells(), arms, room)
		}
	}
	for k := range uint64(3) {
		add(k, at, nil)
	}
	add(3, at, ErrFull)
	l.Forget(NumberKey(0))
	l.Forget(NumberKey(1))
	is(1, 0)
	add(1, at, nil) // has its cell still
	is(2, 0)
	add(3, at, nil)
	is(3, 0)
	add(0, at, ErrFull)
	if l.Has(NumberKey(0)) || !l.Has(NumberKey(3)) {
		t.Error("the wrong arm has lost its cell")
	}
	// An event of long ago weighs nothing: it teaches nothing, and stands in nobody's way.
	l.Forget(NumberKey(3))
	add(3, at-int64(10_000*time.Hour/time.Microsecond), nil)
	is(2, 0)
	l.Forget(NumberKey(2))
	is(1, 0)
	add(4, at-int64(10_000*time.Hour/time.Microsecond), nil)
	is(1, 1)
	add(5, at, nil)
	add(6, at, nil)
	is(3, 0)
	// Growing and a later landmark keep count.
	limit = 10_000
	l = NewLearned(limit, time.Hour)
	for k := range uint64(5000) {
		add(k, at, nil)
		if k%2 == 0 {
			l.Forget(NumberKey(k))
		}
	}
	is(2500, 5000)
	add(1, at+int64(100*time.Hour/time.Microsecond), nil)
	is(2500, 5000)
}

func TestReadersFindTheOthersWhileSomeAreForgotten(t *testing.T) {
	l := NewLearned(1<<20, 0)
	const n = 4096
	for k := range uint64(n) {
		if err := l.Add(NumberKey(k), 1, 0); err != nil {
			t.Fatal(err)
		}
	}
	var done atomic.Bool
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for !done.Load() {
				view := l.View(0)
				for k := uint64(1); k < n; k += 2 {
					if a, b, ok := view.Find(NumberKey(k)); !ok || a != 1 || b != 0 {
						t.Errorf("arm %d is at %v, %v, %t", k, a, b, ok)
						return
					}
				}
			}
		})
	}
	for range 20 {
		for k := uint64(0); k < n; k += 2 {
			if !l.Forget(NumberKey(k)) {
				t.Fatalf("arm %d is not there", k)
			}
		}
		if given := l.Compact(); given != n/2 {
			t.Fatalf("%d cells are given back, want %d", given, n/2)
		}
		for k := uint64(0); k < n; k += 2 {
			if err := l.Add(NumberKey(k), 1, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	done.Store(true)
	readers.Wait()
}
