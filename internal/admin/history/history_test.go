package history

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
)

const now = 1_800_000_000

// begin opens a history and puts seconds before now into it, with as many requests as they are before it.
func begin(t *testing.T, path string, seconds int64) *History {
	t.Helper()
	h, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	at, ok := h.Column("feed")
	if !ok {
		t.Fatal("there is no room for a service")
	}
	for s := int64(now) - seconds; s < now; s++ {
		m := Moment{Requests: float32(now - s), P99: float32(math.NaN())}
		m[at] = 7
		if s%60 == 0 {
			if err := h.Put(ByMinute, s, &m); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.Put(BySecond, s, &m); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func TestHistorySurvivesAndNeverGrows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	size := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	h := begin(t, path, 5)
	before := size()
	if err := h.f.Close(); err != nil { // as a kill leaves it
		t.Fatal(err)
	}
	h = begin(t, path, 2*3600)
	if size() != before {
		t.Errorf("the file has grown from %d to %d bytes", before, size())
	}
	want, _ := json.Marshal(h.Read("hour", 100, now))
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if got, _ := json.Marshal(h.Read("hour", 100, now)); string(got) != string(want) {
		t.Errorf("after a restart it is\n%s\nand was\n%s", got, want)
	}
	if got := h.Read("hour", 100, now).Services["feed"]["requests"]; *got[len(got)-2] != 7 {
		t.Errorf("the service's requests are %v", *got[len(got)-2])
	}
}

func TestAnAnswerIsBounded(t *testing.T) {
	h := begin(t, "", 3600)
	for _, points := range []int{1, 7, 100, 1440} {
		for name := range Ranges {
			p := h.Read(name, points, now)
			if len(p.Time) > points+2 || len(p.Time) == 0 {
				t.Errorf("%s in %d points has %d", name, points, len(p.Time))
			}
			for c, column := range p.Columns {
				if len(column) != len(p.Time) {
					t.Errorf("%s has %d of %d moments", c, len(column), len(p.Time))
				}
			}
		}
	}
	p := h.Read("hour", 360, now)
	if p.Step != 10 || *p.Columns["requests"][1] < 3580 || *p.Columns["requests"][1] > 3600 {
		t.Errorf("the first of steps of %d s has %v requests", p.Step, *p.Columns["requests"][1])
	}
	if v := p.Columns["p99"][1]; v != nil {
		t.Errorf("a latency that nobody knows is %v", *v)
	}
	// What is older than the range is not in it, though it is still in the ring.
	if p := h.Read("hour", 360, now+1800); len(p.Time) > 0 && p.Time[0] < now-1800-10 {
		t.Errorf("it begins at %d", p.Time[0])
	}
}

func TestADamagedFileIsBegunAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	if err := begin(t, path, 100).Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(data []byte) []byte{
		"another header": func(data []byte) []byte { data[20] ^= 1; return data },
		"cut off":        func(data []byte) []byte { return data[:5000] },
		"empty":          func([]byte) []byte { return nil },
	} {
		if err := os.WriteFile(path, change(append([]byte(nil), whole...)), 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := Open(path)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if p := h.Read("hour", 10, now); len(p.Time) != 0 {
			t.Errorf("%s: there are %d moments", name, len(p.Time))
		}
		m := Moment{Requests: 1}
		if err := h.Put(BySecond, now, &m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		h.Close()
	}
	// A moment that is torn is missing, the others are there.
	torn := append([]byte(nil), whole...)
	h, _ := Open("")
	torn[h.rings[0].at+(now-50)%3600*rowSize+9] ^= 1
	if err := os.WriteFile(path, torn, 0o600); err != nil {
		t.Fatal(err)
	}
	if h, err = Open(path); err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if h.rings[0].rows[(now-50)%3600].t != 0 || h.rings[0].rows[(now-51)%3600].t != now-51 {
		t.Error("a torn moment is taken, or others are not")
	}
}

func TestServicesBeyondTheRoomAreLeftOut(t *testing.T) {
	h, err := Open("")
	if err != nil {
		t.Fatal(err)
	}
	for i := range mostServices {
		if _, ok := h.Column(string(rune('a' + i))); !ok {
			t.Fatal("there is no room")
		}
	}
	if _, ok := h.Column("more"); ok {
		t.Error("a service too many has a column")
	}
	if at, ok := h.Column("b"); !ok || at != Columns+ofService {
		t.Errorf("the second one's column is %d, %t", at, ok)
	}
}
