package filter

import (
	"runtime"
	"testing"
	"weak"

	"weir/internal/filter/syndication"
)

// A source remembers when it may be fetched, and does not keep what it was told by: a parsed feed is ten
// times as large as what answers.
func TestAFeedThatWasReadIsNotKept(t *testing.T) {
	src := new(source)
	feed := func() weak.Pointer[syndication.Feed] {
		feed := new(syndication.Feed)
		src.keepRhythm(feed)
		return weak.Make(feed)
	}()
	runtime.GC()
	if feed.Value() != nil {
		t.Error("the feed is still in memory")
	}
	runtime.KeepAlive(src)
}
