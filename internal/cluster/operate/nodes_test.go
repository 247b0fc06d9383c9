package operate

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/cluster/members"
	"weir/internal/cluster/publications"
	"weir/internal/metrics"
)

// said returns a member that says which lists it has.
func said(id string, age time.Duration, lists publications.Fact) members.Member {
	text, err := json.Marshal(lists)
	if err != nil {
		panic(err)
	}
	return members.Member{ID: id, Address: id + ":80", Age: age,
		Facts: map[string]json.RawMessage{publications.FactName: text}}
}

func TestWhatIsWrongWithOtherNodesIsSaid(t *testing.T) {
	const new, old = 0x2b, 0x2a
	serves := publications.Fact{Serves: new}
	self := said("self", 0, publications.Fact{Serves: old, Error: "its own health says it"})
	elsewhere := said("again", 0, serves)
	elsewhere.Address = "a:80"
	fails := publications.Fact{Serves: old, Wants: new, Error: "no route"}
	for name, c := range map[string]struct {
		before, now []members.Member
		want        string
	}{
		"nothing":       {nil, []members.Member{said("a", time.Second, serves)}, ""},
		"without feeds": {nil, []members.Member{{ID: "a"}}, ""},
		"gone": {nil, []members.Member{said("a", 42*time.Second, serves)},
			"a:80 was last heard of 42s ago"},
		"another is there": {nil, []members.Member{said("a", 42*time.Second, serves), elsewhere}, ""},
		"cannot get them": {nil, []members.Member{said("a", 0, fails)},
			"a:80 serves 2a, wants 2b: no route"},
		"about to take them": {nil, []members.Member{said("a", 0, publications.Fact{Serves: old})}, ""},
		"behind": {[]members.Member{said("a", 0, publications.Fact{Serves: old})},
			[]members.Member{said("a", 0, publications.Fact{Serves: old})}, "a:80 serves 2a"},
		"many": {nil, []members.Member{said("a", 0, fails), said("b", 0, fails), said("c", 0, fails),
			said("d", 0, fails), said("e", 0, fails)}, "c:80 serves 2a, wants 2b: no route; and 2 more"},
	} {
		record := publications.Record{Serving: &publications.Publication{Number: new}}
		got := wrongWith("self", nodes{all: append(c.before, self), record: record},
			nodes{all: append(c.now, self), record: record})
		if c.want == "" && got != "" || !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	// Lists that have come to serve since the look before are not missed yet.
	late := []members.Member{said("a", 0, publications.Fact{Serves: old})}
	if got := wrongWith("self", nodes{all: late, record: publications.Record{
		Serving: &publications.Publication{Number: old}}}, nodes{all: late, record: publications.Record{
		Serving: &publications.Publication{Number: new}}}); got != "" {
		t.Errorf("lists that are new: %q", got)
	}
}

func TestNodesAreShownWithWhatTheyHave(t *testing.T) {
	n := &nodes{at: time.Now(), all: []members.Member{
		said("a", 0, publications.Fact{Serves: 0x2a, Mapped: 0x2b}),
		said("b", 0, publications.Fact{Serves: 0x2a, Wants: 0x2b, Stage: "fetching", Done: 1, Total: 4}),
		said("c", time.Minute, publications.Fact{Serves: 0x2a}), {ID: "d"}},
		record: publications.Record{Serving: &publications.Publication{Number: 0x2a},
			Preparing: &publications.Publication{Number: 0x2b, Source: "https://u:secret@h/l", Again: 0x29}}}
	s := n.show("b")
	if p := s.Serving; p == nil || p.Number != "2a" || p.Have != 2 || p.Of != 2 || p.Again != "" {
		t.Errorf("serving: %+v", p)
	}
	if p := s.Preparing; p == nil || p.Number != "2b" || p.Have != 1 || p.Of != 2 || p.Again != "29" {
		t.Errorf("preparing: %+v", p)
	}
	if i := slices.IndexFunc(s.Members, func(m shownMember) bool { return m.Self }); i != 1 ||
		*s.Members[1].Lists != (shownLists{"2a", "", "2b", "fetching", 1, 4, ""}) ||
		s.Members[2].Here || s.Members[2].Age < 60 || s.Members[3].Lists != nil {
		t.Errorf("%+v", s.Members)
	}
	if text, err := json.Marshal(s); err != nil || strings.Contains(string(text), "secret") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestFiguresAreThoseOfTheMetrics(t *testing.T) {
	r := metrics.New(1)
	if f := figuresOf(r); f.Skipped != 0 || f.Events != nil || f.Filters != nil {
		t.Errorf("of services that are off: %+v", f)
	}
	r.Counter("weir_cluster_skipped_items_total", "Items.").Add(0, 7)
	r.Gauge("weir_bandit_stream_lag_seconds", "Seconds.", func() float64 { return 1.26 })
	r.Gauge("weir_filter_cluster_behind_seconds", "Seconds.", func() float64 { return 0 })
	if f := figuresOf(r); f.Skipped != 7 || f.Events == nil || *f.Events != 1.3 || f.Filters == nil ||
		*f.Filters != 0 {
		t.Errorf("%+v", f)
	}
}
