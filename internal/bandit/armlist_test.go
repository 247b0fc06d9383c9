package bandit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/bandit/arms"
	"weir/internal/server"
	"weir/internal/systest"
)

// listed asks for all pages of a list.
func (s *served) listed(query string, limit int) (all []ListedArm) {
	s.t.Helper()
	for after := ""; ; {
		a := s.do("GET", s.admin+fmt.Sprintf("/admin/bandit/arms?limit=%d&after=%s&%s", limit, after, query),
			"")
		var page ArmPage
		if err := json.Unmarshal([]byte(a.body), &page); a.status != 200 || err != nil ||
			len(page.Arms) > limit {
			s.t.Fatalf("%d %s %v", a.status, a.body, err)
		}
		all = append(all, page.Arms...)
		if after = page.After; after == "" {
			return all
		}
	}
}

const taught = `{"item":"a","reward":1,"user":"u1"} {"item":"a","reward":0,"user":"u1"} {"item":7,"reward":0.25,"user":5}
	{"item":"x,\"y\"","reward":1,"segment":"old"} {"item":"a","reward":1,"user":"u2"}`

// teachable is a bandit with imported arms that learns of pairs, and is taught.
func teachable(t *testing.T, dir string, set ...func(*Config)) *served {
	path := dir + "/arms.weir"
	writeArms(t, path, []arm{{item: "a", alpha: 30, beta: 10}, {item: "7", alpha: 2, beta: 2},
		{segment: "young", item: "a", alpha: 5, beta: 6}},
		"u1", "young")
	return serve(t, open(t, dir,
		append([]func(*Config){func(c *Config) { c.Arms, c.Learn = path, arms.Pair }}, set...)...),
		server.Config{})
}

func TestArmsThatEventsHaveTaughtOfAreListed(t *testing.T) {
	s := teachable(t, t.TempDir())
	if all := s.listed("", 10); len(all) != 0 {
		t.Fatalf("of no events %v", all)
	}
	s.events(taught, accepted{5, 0})
	all := s.listed("", 2)
	var names []string
	for _, a := range all {
		names = append(names, fmt.Sprint(a.Level, " ", a.Item, " ", a.Segment, a.User, " ", a.Pulls))
		if math.Abs(a.Mean-a.Alpha/(a.Alpha+a.Beta)) > 1e-12 || !(a.Low < a.Mean && a.Mean < a.High) {
			t.Errorf("%+v", a)
		}
	}
	want := `[item a  3 segment a young 2 pair a u1 2 item 7  1 pair 7 5 1 item x,"y"  1 segment x,"y" old 1 pair a u2 1]`
	if fmt.Sprint(names) != want {
		t.Errorf("listed %v, want %v", names, want)
	}
	for query, want := range map[string]int{"level=pair": 3, "item=a": 4, "item=7&level=item": 1,
		"user=u1": 1, "user=5": 1, "segment=old": 1,
		"item=" + url.QueryEscape(`x,"y"`): 2, "user=nobody": 0} {
		if got := s.listed(query, 1); len(got) != want {
			t.Errorf("%s: %v, want %d", query, got, want)
		}
	}
	// As predictions see it: 30+2 and 10+1.
	if a := all[0]; a.Alpha != 32 || a.Beta != 11 || math.Abs(a.Low-0.6055) > 0.001 ||
		math.Abs(a.High-0.8614) > 0.001 {
		t.Errorf("%+v", a)
	}
	for _, query := range []string{"level=user", "limit=0", "limit=10001", "after=x", "item=%"} {
		s.problem(s.do("GET", s.admin+"/admin/bandit/arms?"+query, ""), 422)
	}
}

func TestNamesOfArmsSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	s := teachable(t, dir)
	s.events(taught, accepted{5, 0})
	before := s.listed("", 100)
	s.close()
	s = teachable(t, dir)
	if after := s.listed("", 100); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("%v\nbefore %v", after, before)
	}
	s.close()
	// Without the file, arms get their names from the next events that count for them.
	names := filepath.Join(dir, "bandit", "names")
	if err := os.Remove(names); err != nil {
		t.Fatal(err)
	}
	s = teachable(t, dir)
	if all := s.listed("", 100); len(all) != 0 {
		t.Errorf("without names %v", all)
	}
	s.events(taught, accepted{5, 0})
	if all := s.listed("", 100); len(all) != len(before) || all[0].Pulls != 2*before[0].Pulls {
		t.Errorf("%v\nbefore %v", all, before)
	}
	s.close()
	if err := os.WriteFile(names, []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = teachable(t, dir)
	s.events(taught, accepted{5, 0})
	if all := s.listed("", 100); len(all) != len(before) {
		t.Errorf("after a damage %v", all)
	}
}

func TestAnExportThatIsImportedGivesTheSamePosteriors(t *testing.T) {
	s := teachable(t, t.TempDir())
	s.events(taught, accepted{5, 0})
	page, err := s.ListArms(t.Context(), "", 100)
	if err != nil || len(page.Arms) != 8 {
		t.Fatal(page, err)
	}
	for _, format := range ArmFormats {
		dir := t.TempDir()
		file := filepath.Join(dir, "learned."+format)
		out, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		w, err := NewArmWriter(out, format)
		for _, part := range [][]ListedArm{page.Arms[:3], page.Arms[3:]} {
			if err == nil {
				err = w.Write(part)
			}
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(format, err)
		}
		out.Close()
		o := ImportOptions{Prior: [2]float64{1, 1}}
		o.Ingest.TempDir = dir
		if _, err := ImportArms(context.Background(), []string{file}, dir+"/again.weir", o); err != nil {
			t.Fatal(format, err)
		}
		again := serve(t, open(t, dir, func(c *Config) { c.Arms = dir + "/again.weir" }), server.Config{})
		for _, a := range page.Arms {
			item, _ := json.Marshal(a.Item)
			query, source := fmt.Sprintf(`{"items":[%s]`, item), a.Level
			switch {
			case a.User != "":
				query += fmt.Sprintf(`,"user":%q`, a.User)
			case a.Segment != "":
				query += fmt.Sprintf(`,"segment":%q`, a.Segment)
			}
			again.posterior(query, a.Alpha, a.Beta, source)
		}
	}
}

// contains returns the files below dir that hold some bytes.
func contains(t *testing.T, dir string, needle []byte) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // what goes away while it is looked for holds nothing
		}
		content, err := os.ReadFile(path)
		if err == nil && bytes.Contains(content, needle) {
			files = append(files, filepath.Base(path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestOfAForgottenUserNothingIsLeftInTheFiles(t *testing.T) {
	dir := t.TempDir()
	s := teachable(t, dir, func(c *Config) { c.erase = time.Millisecond })
	s.events(taught, accepted{5, 0})
	s.events(
		`{"item":"a","reward":1,"user":"somebody-who-goes"} {"item":7,"reward":1,"user":"somebody-who-goes"}`,
		accepted{2, 0})
	key := arms.UserScope(arms.KeyOf([]byte("somebody-who-goes"))).Key(arms.KeyOf([]byte("a")))
	id, arm := []byte("somebody-who-goes"), le.AppendUint64(nil, key.Lo)
	if len(contains(t, dir, id)) == 0 || len(contains(t, dir, arm)) == 0 {
		t.Fatal("the files hold nothing of the user: the test does not see what it looks for")
	}
	first := s.do("GET", s.admin+"/admin/bandit/arms?limit=1", "")
	var page ArmPage
	if err := json.Unmarshal([]byte(first.body), &page); err != nil || page.After == "" {
		t.Fatal(first.body, err)
	}
	before := len(s.listed("", 100))
	if a := s.do("POST", s.admin+"/admin/bandit/forget", `{"user":"somebody-who-goes"}`); a.status != 200 ||
		a.body != `{"forgotten":2}` {
		t.Fatalf("%d %s", a.status, a.body)
	}
	systest.Eventually(t, "the user to be out of the files", func() bool {
		return len(contains(t, dir, id)) == 0 && len(contains(t, dir, arm)) == 0
	})
	if all := s.listed("", 100); len(all) != before-2 {
		t.Errorf("%d arms are listed, want %d: %v", len(all), before-2, all)
	}
	s.problem(s.do("GET", s.admin+"/admin/bandit/arms?after="+page.After, ""), 409, "begin it again")
	if a := s.do("POST", s.admin+"/admin/bandit/forget",
		`{"user":"somebody-who-goes"}`); a.body != `{"forgotten":0}` {
		t.Errorf("again: %s", a.body)
	}
	s.close()
	s = teachable(t, dir)
	if all := s.listed("", 100); len(all) != before-2 {
		t.Errorf("after a restart %v", all)
	}
}
