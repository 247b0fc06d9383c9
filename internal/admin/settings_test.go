package admin

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"weir/internal/config"
)

// house is a service whose flags may change while it serves.
type house struct {
	staged, live struct {
		wait, timeout time.Duration
		rooms         int
		colour        string
	}
	flags *pflag.FlagSet
}

func newHouse(t testing.TB, args ...string) *house {
	t.Helper()
	h := &house{flags: pflag.NewFlagSet("house", pflag.ContinueOnError)}
	h.flags.DurationVar(&h.staged.wait, "wait", time.Second, "for the `door`")
	h.flags.DurationVar(&h.staged.timeout, "timeout", 10*time.Second, "of the bell")
	h.flags.IntVar(&h.staged.rooms, "rooms", 3, "to let")
	config.Choice(h.flags, &h.staged.colour, "colour", "red", "of the roof", "red", "green")
	if err := h.flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	h.live = h.staged
	return h
}

func (h *house) check() error {
	switch {
	case h.staged.rooms < 1:
		return errors.New("--rooms must be from 1")
	case h.staged.timeout <= h.staged.wait:
		return errors.New("--timeout must be longer than --wait")
	}
	return nil
}

func (h *house) groups() []Group {
	return []Group{{"house", config.Settings(h.flags, h.check, func() { h.live = h.staged },
		map[string]string{"wait": "below --timeout", "timeout": "above --wait", "rooms": "from 1",
			"colour": "red or green"})}}
}

// open returns a house with its settings, and what is logged.
func open(t testing.TB, path string, args ...string) (*house, *Settings, *strings.Builder) {
	t.Helper()
	h, said := newHouse(t, args...), new(strings.Builder)
	return h, OpenSettings(path, h.groups(), slog.New(slog.NewTextHandler(said, nil))), said
}

// set changes settings, to what flags say where the value is "".
func set(s *Settings, pairs ...string) error {
	values := map[string]*string{}
	for i := 0; i < len(pairs); i += 2 {
		values[pairs[i]] = nil
		if pairs[i+1] != "" {
			values[pairs[i]] = &pairs[i+1]
		}
	}
	return s.Change(values, "test")
}

func mustChange(t testing.TB, s *Settings, pairs ...string) {
	t.Helper()
	if err := set(s, pairs...); err != nil {
		t.Fatal(err)
	}
}

func TestSettingsChangeTogetherOrNotAtAll(t *testing.T) {
	h, s, _ := open(t, filepath.Join(t.TempDir(), "settings.json"))
	for _, c := range []struct {
		set   []string
		wrong map[string]string // what is said of each
	}{
		{[]string{"rooms", "5", "colour", "pink"}, map[string]string{"colour": "must be red or green"}},
		{[]string{"rooms", "0", "colour", "green"}, map[string]string{"rooms": "from 1"}},
		{[]string{"rooms", "many", "wait", "2"}, map[string]string{"rooms": "invalid",
			"wait": "missing unit"}},
		{[]string{"wait", "20s", "rooms", "4"}, map[string]string{"wait": "longer than --wait"}},
		{[]string{"wait", "9s", "timeout", "2s"}, map[string]string{"wait": "longer than",
			"timeout": "longer than"}},
		{[]string{"doors", "4", "rooms", "4"}, map[string]string{"doors": "no setting"}},
	} {
		err := set(s, c.set...)
		wrong, ok := errors.AsType[FieldError](err)
		if !ok || len(wrong) != len(c.wrong) {
			t.Errorf("%v: %v, want errors of %v", c.set, err, c.wrong)
		}
		for name, says := range c.wrong {
			if !strings.Contains(wrong[name], says) {
				t.Errorf("%v: %s %q, want it to say %q", c.set, name, wrong[name], says)
			}
		}
		if fresh := newHouse(t); h.live != fresh.live || h.staged != fresh.staged {
			t.Fatalf("%v has changed something: %+v", c.set, h)
		}
	}
	// Each of them alone would be wrong.
	mustChange(t, s, "wait", "20s", "timeout", "30s")
	mustChange(t, s, "wait", "2s", "timeout", "3s", "colour", "green")
	if h.live.wait != 2*time.Second || h.live.timeout != 3*time.Second || h.live.colour != "green" {
		t.Errorf("%+v", h.live)
	}
}

func TestWhatWasSetGoesBeforeFlagsAtTheNextStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.json")
	_, s, _ := open(t, path)
	mustChange(t, s, "wait", "20s", "timeout", "30s", "rooms", "7")
	h, s, said := open(t, path, "--rooms", "5")
	if h.live.rooms != 7 || h.live.wait != 20*time.Second {
		t.Errorf("%+v", h.live)
	}
	if text := said.String(); !strings.Contains(text, "setting=rooms value=7 flags=5 by=test") ||
		strings.Count(text, "goes before flags") != 3 {
		t.Errorf("the log says %s", text)
	}
	shown := s.show()
	for _, one := range shown.Settings {
		switch one.Name {
		case "rooms":
			if one.Value != "7" || one.Flags != "5" || one.Default != "3" || one.Source != "command line" ||
				one.By != "test" || one.At == nil || one.Kind != "int" || one.Service != "house" {
				t.Errorf("%+v", one)
			}
		case "colour":
			if one.Value != "red" || one.Source != "default" || one.By != "" || len(one.Words) != 2 {
				t.Errorf("%+v", one)
			}
		case "wait":
			if one.Help != "for the door" || one.Bounds != "below --timeout" {
				t.Errorf("%+v", one)
			}
		}
	}
	mustChange(t, s, "rooms", "")
	if h.live.rooms != 5 {
		t.Errorf("%d rooms, want the 5 of the flag", h.live.rooms)
	}
	if h, _, _ = open(t, path); h.live.rooms != 3 || h.live.wait != 20*time.Second {
		t.Errorf("%+v", h.live)
	}
}

func TestChangesAreUndoneOneAfterTheOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.json")
	_, s, _ := open(t, path, "--rooms", "2")
	mustChange(t, s, "rooms", "4", "colour", "green")
	mustChange(t, s, "rooms", "5")
	mustChange(t, s, "rooms", "5") // changes nothing, and is none
	h, s, _ := open(t, path, "--rooms", "2")
	mustChange(t, s, "rooms", "")
	for _, want := range []int{5, 4, 2} {
		if err := s.Undo("somebody"); err != nil || h.live.rooms != want {
			t.Errorf("%d rooms, %v; want %d", h.live.rooms, err, want)
		}
	}
	if err := s.Undo("somebody"); !errors.Is(err, errNothingToUndo) || h.live.colour != "red" {
		t.Errorf("%v, %+v", err, h.live)
	}
	shown := s.show()
	if len(shown.Changes) != 3 || shown.Undo != 0 || shown.Changes[0].Number != 3 ||
		shown.Changes[2].Undone != "somebody" || len(shown.Changes[2].Values) != 2 {
		t.Errorf("%+v", shown.Changes)
	}
	if h, _, _ = open(t, path); h.live.rooms != 3 {
		t.Errorf("%d rooms at the next start", h.live.rooms)
	}
}

func TestOnlyTheLastChangesAreKept(t *testing.T) {
	_, s, _ := open(t, "")
	for i := range mostChanges + 20 {
		mustChange(t, s, "rooms", fmt.Sprint(i+4))
	}
	if c := s.show().Changes; len(c) != mostChanges || c[0].Number != mostChanges+20 ||
		*c[mostChanges-1].Values[0].From != "23" {
		t.Errorf("%d changes, %+v to %+v", len(c), c[0], c[len(c)-1])
	}
}

func TestAValueThatNoLongerHoldsIsLeftOutAndKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.json")
	if err := os.WriteFile(path, []byte(`{"live":{"rooms":{"value":"0"},"gone":{"value":"1","by":"page"},
		"colour":{"value":"pink"},"wait":{"value":"5s"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	h, s, said := open(t, path)
	if h.live.rooms != 3 || h.live.colour != "red" || h.live.wait != 5*time.Second ||
		strings.Count(said.String(), "is left out") != 3 {
		t.Errorf("%+v, log %s", h.live, said)
	}
	unused := s.show().Unused
	if len(unused) != 3 || unused[1].Name != "gone" || unused[1].By != "page" ||
		!strings.Contains(unused[2].Why, "from 1") {
		t.Errorf("%+v", unused)
	}
	mustChange(t, s, "timeout", "6s")
	mustChange(t, s, "gone", "", "rooms", "9")
	h, s, _ = open(t, path)
	if unused = s.show().Unused; len(unused) != 1 || unused[0].Name != "colour" || h.live.rooms != 9 {
		t.Errorf("%+v, %+v", unused, h.live)
	}
}

func TestAFileThatIsDamagedIsPutAside(t *testing.T) {
	for _, text := range []string{"", "{", `{"live":[]}`, "\x00\xff"} {
		path := filepath.Join(t.TempDir(), "settings.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h, s, said := open(t, path)
		mustChange(t, s, "rooms", "8")
		aside, err := os.ReadFile(path + ".damaged")
		if h.live.rooms != 8 || err != nil || string(aside) != text ||
			!strings.Contains(said.String(), "cannot be read") {
			t.Errorf("%q: %+v, %q, %v, log %s", text, h.live, aside, err, said)
		}
	}
}

func TestAChangeThatCannotBeSavedHasNoEffect(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	h, s, _ := open(t, filepath.Join(dir, "settings.json"))
	mustChange(t, s, "rooms", "4")
	if err := os.Rename(dir, dir+"-gone"); err != nil {
		t.Fatal(err)
	}
	before := h.live
	for _, err := range []error{set(s, "rooms", "6"), set(s, "rooms", ""), s.Undo("test")} {
		if !errors.Is(err, errUnsaved) || h.live != before || h.staged != before {
			t.Errorf("%v, %+v", err, h)
		}
	}
	if shown := s.show(); len(shown.Changes) != 1 || shown.Undo != 1 {
		t.Errorf("%+v", shown)
	}
	if err := os.Rename(dir+"-gone", dir); err != nil {
		t.Fatal(err)
	}
	if h, _, _ = open(t, filepath.Join(dir, "settings.json")); h.live.rooms != 4 {
		t.Errorf("%d rooms at the next start", h.live.rooms)
	}
}

func TestChangesAtOnceAreAllKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.json")
	h, s, _ := open(t, path)
	var all sync.WaitGroup
	for _, pair := range [][]string{{"rooms", "9"}, {"colour", "green"}, {"wait", "2s"},
		{"timeout", "1m0s"}} {
		all.Go(func() { mustChange(t, s, pair...) })
		all.Go(func() { s.show() })
	}
	all.Wait()
	again, _, _ := open(t, path)
	if h.live != again.live || h.live.rooms != 9 || h.live.colour != "green" ||
		h.live.wait != 2*time.Second || h.live.timeout != time.Minute || len(s.show().Changes) != 4 {
		t.Errorf("%+v, and %+v at the next start", h.live, again.live)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"live":{"rooms":{"value":"0"},"gone":{"value":"1"}},
		"changes":[{"number":1,"values":[{"name":"rooms","to":"5"}]}]}`))
	f.Add([]byte(`{"live":{"wait":{"value":"20s"},"timeout":{"value":"30s"}},"last":-1}`))
	f.Add([]byte(`{"changes":[{},{"values":[{"name":"gone","from":"3"}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "settings.json")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		h, s, _ := open(t, path)
		if err := h.check(); err != nil || h.live != h.staged {
			t.Fatalf("%v, %+v", err, h)
		}
		s.Undo("test") //nolint:errcheck // whatever the file says there is to undo
		if err := h.check(); err != nil || h.live != h.staged {
			t.Fatalf("undone: %v, %+v", err, h)
		}
		mustChange(t, s, "rooms", "6")
		if again, _, _ := open(t, path); again.live.rooms != 6 {
			t.Errorf("%+v", again.live)
		}
	})
}
