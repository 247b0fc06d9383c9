package learning

import (
	"bytes"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"weir/internal/bandit/arms"
)

func TestRecordsAreReadAsWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for flags := range 16 {
		want := record{Event: Event{At: r.Int64(), Reward: r.Float64()}, came: r.Int64()}
		for level := range Levels {
			if flags&(1<<level) != 0 {
				want.Arms[level] = arms.Key{Lo: r.Uint64(), Hi: r.Uint64()}
			}
		}
		if flags&flagID != 0 {
			want.ID = arms.Key{Lo: r.Uint64(), Hi: r.Uint64()}
		}
		b := want.append(nil)
		var got record
		if err := got.read(b); err != nil || got != want {
			t.Errorf("%+v is read as %+v: %v", want, got, err)
		}
		for n := range b {
			if err := new(record).read(b[:n]); err == nil {
				t.Errorf("%d bytes of %d are read", n, len(b))
			}
		}
		if err := new(record).read(append(b, 0)); err == nil {
			t.Error("a byte too many is read")
		}
	}
	for flags := range 16 {
		want := record{forget: true, came: r.Int64(), forgetIDs: flags&flagID != 0}
		for level := range Levels {
			if flags&(1<<level) != 0 {
				want.Arms[level] = arms.Key{Lo: r.Uint64(), Hi: r.Uint64()}
			}
		}
		b := want.append(nil)
		var got record
		if err := got.read(b); err != nil || got != want {
			t.Errorf("%+v is read as %+v: %v", want, got, err)
		}
		for n := range b {
			if err := new(record).read(b[:n]); err == nil {
				t.Errorf("%d bytes of %d are read", n, len(b))
			}
		}
		if err := new(record).read(append(b, 0)); err == nil {
			t.Error("a byte too many is read")
		}
	}
	for _, reward := range []float64{-1, 1.5, math.NaN(), math.Inf(1)} {
		if err := new(record).read((&record{Event: Event{Reward: reward}}).append(nil)); err == nil {
			t.Errorf("a reward of %v is read", reward)
		}
	}
}

// Data directories outlive the weir that wrote them, so these bytes stay as they are.
func TestRecordsAreTheBytesThatTheFormatSays(t *testing.T) {
	k := arms.Key{Lo: 0x0807060504030201, Hi: 0x1817161514131211}
	const key = "01020304050607081112131415161718"
	for _, c := range []struct {
		r   record
		hex string
	}{
		{record{Event: Event{At: 1, Reward: 0.5, Arms: Arms{k}}, came: 2}, "0101" + "0100000000000000" +
			"0200000000000000" + "000000000000e03f" + key},
		{record{Event: Event{At: 1, Reward: 1, Arms: Arms{k, k, k}, ID: k}, came: 2},
			"010f" + "0100000000000000" + "0200000000000000" + "000000000000f03f" + key + key + key + key},
		{record{forget: true, came: 3}, "0200" + "0300000000000000"},
		{record{forget: true, forgetIDs: true, came: 3}, "0208" + "0300000000000000"},
		{record{Event: Event{Arms: Arms{{}, k}}, forget: true, came: 3}, "0202" + "0300000000000000" + key},
	} {
		var got record
		b, err := hex.DecodeString(c.hex)
		if err == nil {
			err = got.read(b)
		}
		if err != nil || got != c.r || !bytes.Equal(c.r.append(nil), b) {
			t.Errorf("%s is read as %+v, want %+v, which is written as %x: %v", c.hex, got, c.r,
				c.r.append(nil), err)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add((&record{forget: true, came: 2, Event: Event{Arms: Arms{{}, {Lo: 3, Hi: 4}}}}).append(nil))
	f.Add((&record{forget: true}).append(nil))
	f.Add((&record{Event: Event{At: 1, Reward: 0.5, Arms: Arms{{Lo: 1, Hi: 2}, {}, {Lo: 3, Hi: 4}},
		ID: arms.Key{Lo: 5, Hi: 6}}, came: 2}).append(nil))
	f.Add([]byte{1, 0xff})
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, b []byte) {
		var r record
		if r.read(b) != nil {
			return
		}
		var again record
		if err := again.read(r.append(nil)); err != nil || again != r {
			t.Errorf("%x is read as %+v, and that as %+v: %v", b, r, again, err)
		}
	})
}

func TestACheckpointThatIsCutOffIsRefused(t *testing.T) {
	l := open(t, t.TempDir())
	for i := range uint64(3) {
		l.teach(t, event(i, i+1), Event{Reward: 0.5, Arms: Arms{key(i), key(i + 100), key(i + 200)}})
		l.ids.began -= day * 2 / 3
		l.ids.turn(time.Now().UnixMicro()) // some ids are of yesterday
	}
	want, _ := l.state()
	var b bytes.Buffer
	if err := want.write(&b); err != nil {
		t.Fatal(err)
	}
	state := b.Bytes()
	read := func(state []byte) (*local, error) {
		l := open(t, t.TempDir())
		return l, l.readWhole(bytes.NewReader(state), want.At)
	}
	got, err := read(state)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got.Local, l.Local)
	for n := 0; n < len(state); n += 1 + n/40 {
		if _, err := read(state[:n]); err == nil {
			t.Errorf("%d bytes of %d are taken", n, len(state))
		}
	}
	if _, err := read(append(bytes.Clone(state), 0)); err == nil ||
		!strings.Contains(err.Error(), "longer than it says") {
		t.Errorf("a byte more: %v", err)
	}
	state[0]++
	if _, err := read(state); err == nil ||
		!strings.Contains(err.Error(), "has format 2, this weir reads 1: use the weir that wrote it") {
		t.Errorf("another format: %v", err)
	}
	state[0]--
	for i := range 8 { // a number of arms that nobody has
		state[9+i] = 0xff
	}
	if _, err := read(state); err == nil {
		t.Error("2^64 arms are taken")
	}
}
