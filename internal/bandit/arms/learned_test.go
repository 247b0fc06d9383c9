package arms

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestLearnedIsAMapOfSums(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for _, arms := range []int{1, 2, 639, 640, 641, 1280, 1281, 2000} {
		t.Run(fmt.Sprint(arms), func(t *testing.T) {
			l := NewLearned(arms, 0)
			if !l.View(0).Empty() || l.Has(NumberKey(1)) {
				t.Error("a new table is not empty")
			}
			keys := hard(r, arms)
			want := make(map[Key][2]float64)
			for i := range 3 * arms {
				k := keys[r.IntN(arms)]
				if i < arms {
					k = keys[i]
				}
				reward := float64(r.IntN(5)) / 4
				if err := l.Add(k, reward, r.Int64()); err != nil {
					t.Fatal(err)
				}
				was := want[k]
				want[k] = [2]float64{was[0] + reward, was[1] + 1 - reward}
				if l.Len() != len(want) {
					t.Fatalf("%d arms, want %d", l.Len(), len(want))
				}
			}
			check := func(l *Learned) {
				t.Helper()
				v := l.View(r.Int64())
				if v.Empty() {
					t.Fatal("empty")
				}
				for _, k := range append(hard(r, 1000), keys...) {
					v.Prefetch(k)
					a, b, ok := v.Find(k)
					sums, there := want[k]
					if ok != there || a != sums[0] || b != sums[1] || l.Has(k) != there {
						t.Fatalf("%x is %v %v, %t, want %v, %t", k, a, b, ok, sums, there)
					}
				}
			}
			check(l)
			// What is copied and restored is the same to the last bit.
			all := l.Copy(nil, 5)
			if len(all) != len(want) {
				t.Fatalf("%d arms are copied of %d", len(all), len(want))
			}
			for _, reserved := range []int{0, arms, 10 * arms, 1 << 40} {
				other := NewLearned(arms, 0)
				other.Reserve(reserved, 7)
				for _, a := range all {
					if err := other.Restore(a, 7); err != nil {
						t.Fatal(err)
					}
				}
				check(other)
				if other.Len() != arms {
					t.Errorf("%d arms, want %d", other.Len(), arms)
				}
			}
		})
	}
}

// TestRestoringDoesNotCluster counts steps instead of time: arms come back in the order of their homes.
func TestRestoringDoesNotCluster(t *testing.T) {
	const n = 100_000
	l := NewLearned(n, 0)
	for i := range uint64(n) {
		if err := l.Add(NumberKey(i), 1, 0); err != nil {
			t.Fatal(err)
		}
	}
	all := l.Copy(nil, 0)
	other := NewLearned(n, 0)
	other.Reserve(len(all), 0)
	steps, most := uint64(0), uint64(0)
	for i, a := range all {
		if err := other.Restore(a, 0); err != nil {
			t.Fatal(err)
		}
		c := other.cells.Load()
		for at := c.home(a.Key); c.words[at*cellWords+1].Load() != a.Key.Hi ||
			c.words[at*cellWords].Load() != a.Key.Lo; at = (at + 1) % c.size {
			steps++
		}
		if i%1000 == 0 {
			most, steps = max(most, steps), 0
		}
	}
	if most > 5000 {
		t.Errorf("to restore a thousand arms up to %d cells are passed", most)
	}
}

func TestAFullTableTakesNothingNew(t *testing.T) {
	l := NewLearned(3, time.Hour)
	for i := range uint64(3) {
		if err := l.Add(NumberKey(i), 0.5, int64(time.Hour/time.Microsecond)); err != nil {
			t.Fatal(err)
		}
	}
	before := l.Copy(nil, 0)
	// Even what would make the units anew.
	for _, at := range []int64{0, math.MaxInt64 / 2} {
		if err := l.Add(NumberKey(3), 1, at); !errors.Is(err, ErrFull) {
			t.Errorf("the fourth of three: %v", err)
		}
		if err := l.Restore(Arm{Key: NumberKey(3), Alpha: 1}, at); !errors.Is(err, ErrFull) {
			t.Errorf("the fourth of three restored: %v", err)
		}
	}
	if after := l.Copy(nil, 0); !reflect.DeepEqual(before, after) || l.Len() != 3 || l.Has(NumberKey(3)) {
		t.Errorf("%v has become %v", before, after)
	}
	if err := l.Add(NumberKey(2), 1, 0); err != nil {
		t.Errorf("what is there is refused: %v", err)
	}
	if err := NewLearned(0, 0).Add(NumberKey(1), 1, 0); !errors.Is(err, ErrFull) {
		t.Errorf("a table of none: %v", err)
	}
}

const hour = int64(time.Hour / time.Microsecond)

func TestEventsFadeByHalfLives(t *testing.T) {
	l := NewLearned(10, time.Hour)
	const start = 1_700_000_000_000_000
	k, other := NumberKey(1), NumberKey(2)
	for _, e := range []struct {
		reward float64
		at     int64
	}{{0.25, 0}, {1, hour}, {0, -2 * hour}, {1, 3 * hour}} {
		if err := l.Add(k, e.reward, start+e.at); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Add(other, 1, start-50_000*hour); err != nil { // 2^-50000 is 0
		t.Fatal(err)
	}
	for _, c := range []struct {
		now         int64
		alpha, beta float64
	}{
		{3 * hour, 0.25/8 + 1.0/4 + 1, 0.75/8 + 1.0/32},
		{4 * hour, 0.25/16 + 1.0/8 + 1.0/2, 0.75/16 + 1.0/64},
		{3*hour + hour/2, (0.25/8 + 1.0/4 + 1) / math.Sqrt2, (0.75/8 + 1.0/32) / math.Sqrt2},
		{2000 * hour, 0, 0},
	} {
		a, b, ok := l.View(start + c.now).Find(k)
		if !ok || math.Abs(a-c.alpha) > 1e-13 || math.Abs(b-c.beta) > 1e-13 {
			t.Errorf("after %d hours: %v %v, want %v %v", c.now/hour, a, b, c.alpha, c.beta)
		}
	}
	if a, b, ok := l.View(start + 3*hour).Find(other); !ok || a != 0 || b != 0 {
		t.Errorf("what is long ago: %v %v %t, want 0 0 true", a, b, ok)
	}
}

func TestUnitsAreRenewed(t *testing.T) {
	// Events over thousands of half-lives, now and then in another order, beside sums that are made by hand.
	type event struct {
		k      Key
		reward float64
		at     int64
	}
	const halfLife = time.Minute
	r := rand.New(rand.NewPCG(15, 16))
	l := NewLearned(1000, halfLife)
	var events []event
	now := int64(1_600_000_000_000_000)
	renewed := 0
	for i := range 3000 {
		now += r.Int64N(6 * int64(halfLife/time.Microsecond))
		e := event{NumberKey(r.Uint64N(200)), r.Float64(),
			now - r.Int64N(1+r.Int64N(20*int64(halfLife/time.Microsecond)))}
		before := l.cells.Load()
		if err := l.Add(e.k, e.reward, e.at); err != nil {
			t.Fatal(err)
		}
		if c := l.cells.Load(); c != before && c.size == before.size {
			renewed++
		}
		if events = append(events, e); i%100 != 99 {
			continue
		}
		want := make(map[Key][2]float64)
		for _, e := range events {
			w := math.Exp2(-float64(now-e.at) / float64(halfLife/time.Microsecond))
			was := want[e.k]
			want[e.k] = [2]float64{was[0] + w*e.reward, was[1] + w*(1-e.reward)}
		}
		v := l.View(now)
		for k, sums := range want {
			a, b, ok := v.Find(k)
			if !ok || !close(a, sums[0]) || !close(b, sums[1]) {
				t.Fatalf("after %d events %x is %v %v %t, want %v", i+1, k, a, b, ok, sums)
			}
		}
	}
	if renewed < 50 {
		t.Errorf("units were made anew %d times", renewed)
	}
}

// close says whether a sum is right to twelve digits; far below what counts digits get lost.
func close(got, want float64) bool { return math.Abs(got-want) <= 1e-12*want+1e-200 }

func TestTheFirstEventMayBeLongAgo(t *testing.T) {
	for _, at := range []int64{0, 1, -5, 1_700_000_000_000_000} {
		l := NewLearned(10, time.Second)
		for _, at := range []int64{at, 1_700_000_000_000_000, at} {
			if err := l.Add(NumberKey(1), 0.25, at); err != nil {
				t.Fatal(err)
			}
		}
		a, b, _ := l.View(1_700_000_000_000_000).Find(NumberKey(1))
		if n := map[bool]float64{true: 3, false: 1}[at > 5]; a != n*0.25 || b != n*0.75 {
			t.Errorf("first event at %d: %v %v", at, a, b)
		}
	}
}

func TestAClockThatIsSetBackMakesNothingMore(t *testing.T) {
	const start = 1_700_000_000_000_000
	l := NewLearned(10, time.Second)
	for i := range int64(100) {
		if err := l.Add(NumberKey(1), 1, start+i*int64(time.Second/time.Microsecond)); err != nil {
			t.Fatal(err)
		}
	}
	// It is 11 days before the last event, and events go on to come.
	for _, now := range []int64{start + 99_000_000, start + 50_000_000, start, start - 1_000_000_000_000, 0} {
		a, b, ok := l.View(now).Find(NumberKey(1))
		if !ok || math.Abs(a-2) > 1e-9 || b != 0 {
			t.Errorf("%d seconds after the first event: %v %v %t, want 2 and 0", (now-start)/1_000_000,
				a, b, ok)
		}
		if all := l.Copy(nil, now); len(all) != 1 || all[0].Alpha != a || all[0].Beta != 0 {
			t.Errorf("%d seconds after the first event these are copied: %v", (now-start)/1_000_000, all)
		}
	}
	if err := l.Add(NumberKey(1), 0, start-1_000_000_000_000); err != nil {
		t.Fatal(err)
	}
	if a, b, _ := l.View(start - 1_000_000_000_000).Find(NumberKey(1)); math.Abs(a-2) > 1e-9 || b != 0 {
		t.Errorf("after another event: %v %v", a, b)
	}
}

func TestSumsArriveUnderAnotherHalfLife(t *testing.T) {
	const start = 1_700_000_000_000_000
	l := NewLearned(10, time.Hour)
	for i := range uint64(5) {
		if err := l.Add(NumberKey(i), 0.75, start); err != nil {
			t.Fatal(err)
		}
	}
	all := l.Copy(nil, start+hour) // half of it is left
	for _, c := range []struct {
		halfLife time.Duration
		left     float64 // two hours after that
	}{{time.Hour, 0.5 / 4}, {2 * time.Hour, 0.5 / 2}, {0, 0.5}, {time.Minute, 0.5 * math.Exp2(-120)}} {
		for _, reserve := range []int{0, 5} {
			other := NewLearned(10, c.halfLife)
			other.Reserve(reserve, start+hour)
			for _, a := range all {
				if err := other.Restore(a, start+hour); err != nil {
					t.Fatal(err)
				}
			}
			for i := range uint64(5) {
				a, b, ok := other.View(start + 3*hour).Find(NumberKey(i))
				if !ok || !close(a, 0.75*c.left) || !close(b, 0.25*c.left) {
					t.Errorf("half-life %v: %v %v %t, want %v of 0.75 and 0.25", c.halfLife, a, b, ok, c.left)
				}
			}
		}
	}
}

func TestReadersBesideAWriter(t *testing.T) {
	const arms, rounds = 1500, 8
	r := rand.New(rand.NewPCG(17, 18))
	keys := hard(r, 2*arms)
	known, never := keys[:arms], keys[arms:]
	l := NewLearned(arms, 0)
	var ended atomic.Bool
	var readers sync.WaitGroup
	for i := range 3 {
		readers.Go(func() {
			r := rand.New(rand.NewPCG(19, uint64(i)))
			last := make(map[Key][2]float64)
			for round := 0; round == 0 || !ended.Load(); round++ {
				v := l.View(0)
				for range 500 {
					if k := never[r.IntN(arms)]; !v.Empty() {
						if a, b, ok := v.Find(k); ok {
							t.Errorf("arm %x was never added and is %v %v", k, a, b)
							return
						}
					}
					k := known[r.IntN(arms)]
					a, b, ok := v.Find(k)
					was, there := last[k]
					switch {
					case there && !ok:
						t.Errorf("arm %x is gone", k)
						return
					case !ok:
						continue
					case a < was[0] || b < was[1]:
						t.Errorf("arm %x was %v and is %v %v", k, was, a, b)
						return
					case a+b < 1 || a != math.Trunc(a) || b != math.Trunc(b):
						t.Errorf("arm %x has an event in part: %v %v", k, a, b)
						return
					}
					last[k] = [2]float64{a, b}
				}
			}
		})
	}
	for range rounds {
		for _, k := range known {
			if err := l.Add(k, float64(r.IntN(2)), 0); err != nil {
				t.Error(err)
			}
		}
	}
	ended.Store(true)
	readers.Wait()
	v := l.View(0)
	for _, k := range known {
		if a, b, ok := v.Find(k); !ok || a+b != rounds {
			t.Fatalf("arm %x is %v %v %t after %d events", k, a, b, ok, rounds)
		}
	}
}

func TestAViewStaysAsTheTableGrows(t *testing.T) {
	l := NewLearned(100_000, 0)
	if err := l.Add(NumberKey(1), 1, 0); err != nil {
		t.Fatal(err)
	}
	v := l.View(0)
	for i := range uint64(10_000) {
		if err := l.Add(NumberKey(i), 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if a, _, ok := v.Find(NumberKey(1)); !ok || a != 1 {
		t.Errorf("%v %t", a, ok)
	}
	if _, _, ok := v.Find(NumberKey(9999)); ok {
		t.Error("an old view has a new arm")
	}
}

// FuzzLearned compares with a map under any order of calls.
func FuzzLearned(f *testing.F) {
	f.Add([]byte{1, 2, 3, 250, 4, 5, 6, 255, 1, 1})
	f.Add(slices.Repeat([]byte{7, 200, 100}, 300))
	f.Fuzz(func(t *testing.T, calls []byte) {
		l := NewLearned(100, 0)
		want := make(map[Key][2]float64)
		for i := 0; i+1 < len(calls); i += 2 {
			n := uint64(calls[i])
			k := Key{math.MaxUint64 ^ (n+1)<<keptShift, (n + 1) << keptShift} // all of one home, the last
			if n%2 == 0 {
				k = NumberKey(n)
			}
			reward := float64(calls[i+1]%5) / 4
			was, there := want[k]
			err := l.Add(k, reward, 0)
			if (err != nil) != (!there && len(want) == 100) {
				t.Fatalf("%d of 100 arms, this one is among them: %t: %v", len(want), there, err)
			}
			if err == nil {
				want[k] = [2]float64{was[0] + reward, was[1] + 1 - reward}
			}
		}
		if l.Len() != len(want) {
			t.Fatalf("%d arms, want %d", l.Len(), len(want))
		}
		for _, a := range l.Copy(nil, 0) {
			if want[a.Key] != [2]float64{a.Alpha, a.Beta} {
				t.Fatalf("%x is %v %v, want %v", a.Key, a.Alpha, a.Beta, want[a.Key])
			}
		}
	})
}

func TestNobodyCanChooseWhereArmsAre(t *testing.T) {
	const n = 5000
	for name, key := range map[string]func(i uint64) Key{
		"of one order": func(i uint64) Key {
			return Key{math.MaxUint64 ^ (i+1)<<keptShift, (i + 1) << keptShift}
		},
		"numbers close by":      func(i uint64) Key { return Key{i << 3, numberHalf} },
		"numbers of one end":    func(i uint64) Key { return Key{math.MaxUint64 - i, numberHalf} },
		"alike in their bottom": func(i uint64) Key { return Key{i << 50, numberHalf} },
	} {
		l := NewLearned(n, 0)
		for i := range uint64(n) {
			if err := l.Add(key(i), 1, 0); err != nil {
				t.Fatal(err)
			}
		}
		c := l.cells.Load()
		longest, run := 0, 0
		for at := range c.size {
			if run++; c.words[at*cellWords+1].Load() == 0 {
				run = 0
			}
			longest = max(longest, run)
		}
		if longest > n/10 { // all of them, where the place can be chosen
			t.Errorf("%s: %d arms stand side by side", name, longest)
		}
	}
}

// The number 0 has a key whose lower half is 0, and shares its upper half with all numbers: whoever looks
// for it beside the making of another number's arm must not take that for it.
func TestAnArmIsNotFoundBeforeItsKeyIsWhole(t *testing.T) {
	l := NewLearned(10_000, 0)
	var done atomic.Bool
	found := make(chan bool)
	go func() {
		zero, any := NumberKey(0), false
		for !done.Load() {
			_, _, ok := l.View(0).Find(zero)
			any = any || ok
		}
		found <- any
	}()
	for range 1000 {
		l.ForgetAll()
		for n := range uint64(600) {
			if err := l.Add(NumberKey(n+1), 1, 0); err != nil {
				t.Error(err)
			}
		}
	}
	done.Store(true)
	if <-found {
		t.Error("an arm was found that nobody has made")
	}
}
