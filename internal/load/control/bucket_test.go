package control

import (
	"math"
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

// A load of which as much is served as of others is no surprise where that is known to be the ceiling, or is being proved, and is not
// tried once more. Elsewhere it is: what was borne contradicts it.
func TestWhatIsNoSurpriseIsNotTriedAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		saves  bool
		state  state
		served float64
		again  bool
	}{
		{"nothing known", false, narrowing, 1001, true},
		{"known to save up", true, narrowing, 1001, false},
		{"being proved", false, proving, 1001, false},
		{"known to save up, and less served", true, narrowing, 960, true},
		{"being proved, and less served", false, proving, 960, true},
	} {
		a := searching(c.saves)
		a.start(c.state, 1150)
		a.tooMuch(opinion{decided: true, limit: "shed", goodput: c.served, weight: 1})
		if again := a.doubted == 1150; a.state != cooling || again != c.again || again && (a.after != c.state || a.next != 1150) {
			t.Errorf("%s: tried again: %t, as %q at %.0f", c.name, again, phases[a.after], a.next)
		}
	}
}

// A look above the ceiling that was borne of what had been saved up does not move the ceiling of a target that is known to.
func TestWhatIsBorneForAMomentDoesNotMoveTheCeiling(t *testing.T) {
	for _, c := range []struct {
		name  string
		saves bool
		lo    float64
		stays bool
	}{
		{"known to save up", true, 1029, true},
		{"not known to", false, 1029, false},
		{"known to save up, and nothing borne any more", true, 0, false},
	} {
		a := searching(c.saves)
		a.found, a.ceiling = true, Ceiling{Rate: 1000, Low: 985, High: 1022, Converged: true, Limit: "shed"}
		a.lo, a.hi = side{rate: c.lo}, side{rate: math.Inf(1)}
		a.start(climbing, 1080)
		if got, ok := a.Ceiling(); !ok || (got == a.ceiling) != c.stays {
			t.Errorf("%s: the ceiling is %+v, and was %+v", c.name, got, a.ceiling)
		}
	}
}
