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
		read := &reading{feed: new(syndication.Feed)}
		src.keepRhythm(read)
		return weak.Make(read.feed)
	}()
	runtime.GC()
	if feed.Value() != nil {
		t.Error("the feed is still in memory")
	}
	runtime.KeepAlive(src)
}
