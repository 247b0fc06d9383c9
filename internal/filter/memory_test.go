package filter

import (
	"runtime"
	"testing"
	"weak"

	"weir/internal/filter/syndication"
)

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
