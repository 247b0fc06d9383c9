package filter

import (
	"runtime"
	"testing"
	"weak"

	"weir/internal/filter/syndication"
	"weir/internal/metrics"
)

func TestNoMoreFilesAreMappedThanAProcessMayHave(t *testing.T) {
	r := residents{evicted: metrics.New(1).Counter("evicted_total", "Evicted.")}
	r.limit.Store(1 << 40)
	for range maxResident + 100 {
		src, c := newSource(""), new(content)
		c.refs.Store(1)
		r.put(src, c)
		c.release()
	}
	if len(r.ring) != maxResident {
		t.Errorf("%d contents are in memory, want %d", len(r.ring), maxResident)
	}
}

// A source remembers of a feed when it may be fetched and what its items are called, and does not keep it: a
// parsed feed is ten times as large as what answers.
func TestAFeedThatWasReadIsNotKept(t *testing.T) {
	src := newSource("")
	src.state.Store(new(state))
	feed := func() weak.Pointer[syndication.Feed] {
		feed := new(syndication.Feed)
		src.know(feed)
		return weak.Make(feed)
	}()
	runtime.GC()
	if feed.Value() != nil {
		t.Error("the feed is still in memory")
	}
	runtime.KeepAlive(src)
}
