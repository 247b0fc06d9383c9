package cluster

import (
	"slices"
	"testing"
)

// owners is a view in which nodes have ranges of slots, and claims of these epochs.
func owners(epoch uint64, ranges ...slotRange) *view {
	v := &view{ranges: ranges, epochs: make(map[string]uint64)}
	for _, r := range ranges {
		v.epochs[r.nodes[0].id] = epoch
	}
	return v
}

func has(from, to int, addrs ...string) slotRange {
	r := slotRange{from: from, to: to}
	for _, addr := range addrs {
		r.nodes = append(r.nodes, endpoint{addr, "id of " + addr})
	}
	return r
}

func TestViewsAreMergedByTheAgeOfTheirClaims(t *testing.T) {
	old := owners(1, has(0, 99, "a", "ra"), has(100, 199, "b", "rb"))
	recent := owners(2, has(0, 99, "ra", "a"))
	for _, views := range [][]*view{{old, recent}, {recent, old}} {
		table := newTable(views)
		if got := table.addrs(); !slices.Equal(got, []string{"b", "ra"}) {
			t.Fatalf("the primaries are %q", got)
		}
		if s := table.slot[99]; s.addr != "ra" || s.index != 0 || !slices.Equal(s.replicas, []string{"a"}) {
			t.Errorf("slot 99 is at %+v", s)
		}
		if s := table.slot[100]; s.addr != "b" || s.index != 1 || s != &table.shards[1] {
			t.Errorf("slot 100 is at %+v", s)
		}
		if s := table.slot[200]; s != nil {
			t.Errorf("slot 200 is at %+v", s)
		}
	}
}

func TestOneSlotMoves(t *testing.T) {
	before := newTable([]*view{owners(1, has(0, 9, "a"), has(10, 19, "b"))})
	known := before.with(3, "b")
	unknown := before.with(3, "c")
	if before.slot[3].addr != "a" || known.slot[3].addr != "b" || unknown.slot[3].addr != "c" ||
		len(known.shards) != 2 || len(unknown.shards) != 3 || unknown.slot[10] != &unknown.shards[1] {
		t.Errorf("slot 3 is at %v, %v, %v", before.slot[3], known.slot[3], unknown.slot[3])
	}
}

func TestARedirectionNamesANode(t *testing.T) {
	for text, want := range map[string]string{
		"MOVED 3999 127.0.0.1:6381": "127.0.0.1:6381",
		"ASK 3999 host.name:6381":   "host.name:6381",
		"MOVED 3999 :6381":          "here:6381",
		"MOVED 3999 ?:6381":         "here:6381",
		"MOVED 3999 ::1:6381":       "[::1]:6381",
		"MOVED 16384 a:1":           "",
		"MOVED x a:1":               "",
		"MOVED 1 a":                 "",
		"MOVED":                     "",
	} {
		if _, got, ok := redirect("here:1", text); got != want || ok != (want != "") {
			t.Errorf("%q leads to %q, %v", text, got, ok)
		}
	}
}

func TestAnswersAboutSlotsAreChecked(t *testing.T) {
	nodes := Reply{kind: kindString, s: "id1 10.0.0.1:1@2,name myself,master - 0 0 7 connected 0-5\n"}
	good := "*1\r\n*3\r\n:0\r\n:5\r\n*4\r\n$0\r\n\r\n:1\r\n$3\r\nid1\r\n*0\r\n"
	claims, err := read(good)
	if err != nil {
		t.Fatal(err)
	}
	v, err := parseView("10.0.0.1:1", claims, nodes)
	if err != nil || v.epochs["id1"] != 7 || v.ranges[0].nodes[0] != (endpoint{"10.0.0.1:1", "id1"}) {
		t.Errorf("%+v, %v", v, err)
	}
	for _, text := range []string{"-ERR This instance has cluster support disabled\r\n", "*1\r\n*0\r\n",
		"*1\r\n*3\r\n:5\r\n:0\r\n*2\r\n+a\r\n:1\r\n", "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n+a\r\n:1\r\n",
		"*1\r\n*3\r\n:0\r\n:1\r\n*1\r\n+a\r\n",
		"*1\r\n*3\r\n:0\r\n:1\r\n:1\r\n", "*1\r\n*2\r\n:0\r\n:1\r\n"} {
		claims, err := read(text)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := parseView("a:1", claims, nodes); err == nil {
			t.Errorf("%q is %+v", text, v)
		}
	}
}
