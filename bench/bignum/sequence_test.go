package main

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"net/http/httptest"
	"sync"
	"testing"
)

// plain returns F(0) to F(n) by additions.
func plain(n int) []*big.Int {
	values := []*big.Int{big.NewInt(0), big.NewInt(1)}
	for i := 2; i <= n; i++ {
		values = append(values, new(big.Int).Add(values[i-1], values[i-2]))
	}
	return values
}

func get(t *testing.T, s *sequence, path string) answer {
	t.Helper()
	w := httptest.NewRecorder()
	s.routes().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	var a answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); w.Code != 200 || err != nil {
		t.Fatalf("%s: status %d, %v: %s", path, w.Code, err, w.Body)
	}
	return a
}

func TestAnswersUpAndDownAreTheSequence(t *testing.T) {
	const n = 500
	want := plain(n)
	s := newSequence(0, 16)
	check := func(a answer, index int) {
		t.Helper()
		if int(a.Index) != index || a.Value != want[index].String() {
			t.Fatalf("got %d: %s, want F(%d) = %s", a.Index, a.Value, index, want[index])
		}
	}
	check(get(t, s, "/previous"), 0)
	check(get(t, s, "/current"), 0)
	for i := 1; i <= n; i++ {
		check(get(t, s, "/next"), i)
	}
	for i := n - 1; i >= 0; i-- {
		check(get(t, s, "/previous"), i)
	}
}

func TestValuesInAnyOrderFromManyAtOnceAreRight(t *testing.T) {
	const n = 2000
	want := plain(n)
	s := newSequence(0, 7)
	var all sync.WaitGroup
	for seed := range uint64(4) {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 0))
			for range 500 {
				i := rng.Uint32N(n + 1)
				if got := s.cache.value(i); got.Cmp(want[i]) != 0 {
					t.Errorf("F(%d) is %s, want %s", i, got, want[i])
				}
			}
		})
	}
	all.Wait()
}

func TestTheIndexStaysWithinItsEndsUnderARace(t *testing.T) {
	s := newSequence(100, 64)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				s.previous()
			}
		})
	}
	all.Wait()
	if i := s.index.Load(); i != 0 {
		t.Errorf("200 times down from 100 is %d", i)
	}
	s.index.Store(math.MaxUint32 - 100)
	for range 4 {
		all.Go(func() {
			for range 50 {
				s.next()
			}
		})
	}
	all.Wait()
	if i := s.index.Load(); i != math.MaxUint32 {
		t.Errorf("200 times up from 100 below the last index is %d", i)
	}
}
