package control

import (
	"testing"
	"time"
)

// searching returns a search whose target serves 1000 a second of whatever is too much, and has borne 1100 for a moment.
func searching(saves bool) *adaptive {
	a := Adaptive(AdaptiveOptions{}).(*adaptive)
	a.Begin()
	a.health.remember(0.003)
	a.lo, a.hi = side{rate: 1100, at: time.Second}, side{rate: 1200, limit: "shed", at: time.Second}
	a.samples = []sample{{1000, 1}, {999, 1}, {1001, 1}}
	a.saves = saves
	a.start(narrowing, 1150)
	return a
}

// What a target has saved up is emptied once, which takes long. Once it is known to save up, a load that is too much and of which
// as much is served as ever says where the ceiling is, whatever was borne for a moment.
func TestWhatIsSavedUpIsEmptiedOnce(t *testing.T) {
	for _, saves := range []bool{false, true} {
		a := searching(saves)
		a.tooMuch(opinion{decided: true, sure: true, limit: "shed", goodput: 1002, weight: 1})
		if a.state != cooling {
			t.Fatalf("after a load that was too much it is in state %v", phases[a.state])
		}
		if within := a.lo.rate >= 980 && a.lo.rate < 1000 && a.hi.rate > 1000 && a.hi.rate <= 1030; within != saves {
			t.Errorf("known to save up: %t, the ceiling is between %.0f and %.0f", saves, a.lo.rate, a.hi.rate)
		}
		a.narrow()
		if want := map[bool]state{false: proving, true: holding}[saves]; a.state != want {
			t.Errorf("known to save up: %t, it goes on with %q at %.0f", saves, phases[a.state], a.rate)
		}
	}
}

// Of a load of which less is served than of others it is not known what it says: what was borne stays.
func TestADropIsNotTakenForAnEmptyBucket(t *testing.T) {
	a := searching(true)
	a.tooMuch(opinion{decided: true, sure: true, limit: "shed", goodput: 960, weight: 1})
	if a.lo.rate != 1100 || a.hi.rate != 1150 {
		t.Errorf("the ceiling is between %.0f and %.0f", a.lo.rate, a.hi.rate)
	}
}

// A load above what is served of too much, borne at first and not for long, was borne of what had been saved up.
func TestALoadBorneAtFirstOnlyWasSavedUp(t *testing.T) {
	a := searching(false)
	a.start(proving, 1100)
	a.tooMuch(opinion{decided: true, sure: true, limit: "shed", goodput: 1001, weight: 1})
	if !a.saves || a.lo.rate < 980 || a.lo.rate >= 1000 || a.hi.rate <= 1000 || a.hi.rate > 1030 {
		t.Errorf("known to save up: %t, the ceiling is between %.0f and %.0f", a.saves, a.lo.rate, a.hi.rate)
	}

	// Once more than that was borne for long, the goodput is not the ceiling: too much makes the target serve less.
	a = searching(false)
	a.proven = 1050
	a.start(proving, 1100)
	a.tooMuch(opinion{decided: true, sure: true, limit: "shed", goodput: 1001, weight: 1})
	if a.saves || a.lo.rate < 1030 || a.hi.rate != 1100 {
		t.Errorf("known to save up: %t, the ceiling is between %.0f and %.0f", a.saves, a.lo.rate, a.hi.rate)
	}

	// A load that is too much, and of which all was served, says nothing of it.
	a = searching(false)
	a.start(proving, 1100)
	a.tooMuch(opinion{decided: true, sure: true, limit: "p99"})
	if a.saves {
		t.Error("known to save up of latencies")
	}
}
