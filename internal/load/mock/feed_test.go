package mock

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mmcdole/gofeed"
	"github.com/zeebo/xxh3"
)

// parse reads a feed with a parser that has met many.
func parse(t testing.TB, body string) *gofeed.Feed {
	t.Helper()
	f, err := gofeed.NewParser().ParseString(body)
	if err != nil {
		t.Fatalf("%v: %.300q", err, body)
	}
	return f
}

func page0(seed uint64, f Format) page {
	return page{seed: seed, items: 20, body: 400, format: f}
}

func TestFeedsOfEveryFormatAreWhatParsersExpect(t *testing.T) {
	for f, kind := range map[Format]string{RSS: "rss", Atom: "atom", JSON: "json"} {
		ascii := true
		for seed := range uint64(60) {
			body := string(feed(page0(seed, f), 60))
			parsed := parse(t, body)
			if parsed.FeedType != kind || len(parsed.Items) != 20 {
				t.Fatalf("%s: seed %d is %s with %d items", kind, seed, parsed.FeedType, len(parsed.Items))
			}
			if !strings.HasPrefix(parsed.Title, fmt.Sprintf("Mock %d – ", seed)) || parsed.Language == "" {
				t.Errorf("%s: seed %d has the title %q and the language %q", kind, seed, parsed.Title,
					parsed.Language)
			}
			ids := make(map[string]bool)
			last := time.Now().AddDate(100, 0, 0)
			for i, it := range parsed.Items {
				if it.Title == "" || it.Link == "" || it.Content == "" || it.Description == "" ||
					len(it.Authors) != 1 || it.Authors[0].Name == "" || len(it.Categories) != 1 {
					t.Errorf("%s: seed %d, item %d lacks something: %+v", kind, seed, i, it)
				}
				if !strings.Contains(it.Content, "<p>") || strings.Contains(it.Content, "&lt;") ||
					strings.ContainsRune(it.Content+it.Title, utf8.RuneError) {
					t.Errorf("%s: seed %d, item %d is escaped wrongly: %q %q", kind, seed, i, it.Title,
						it.Content)
				}
				if ids[it.GUID] || it.GUID == "" {
					t.Errorf("%s: seed %d has the id %q twice", kind, seed, it.GUID)
				}
				ids[it.GUID] = true
				if it.PublishedParsed == nil || !it.PublishedParsed.Before(last) {
					t.Errorf("%s: seed %d, item %d came at %v, the one above at %v", kind, seed, i,
						it.PublishedParsed, last)
				} else {
					last = *it.PublishedParsed
				}
				for _, c := range it.Title + it.Content {
					ascii = ascii && c < 0x80
				}
			}
		}
		if ascii {
			t.Errorf("%s: all is ASCII", kind)
		}
	}
}

// All formats are views of one row of items, and a longer feed has the items of a shorter one.
func TestAnItemIsTheSameInEveryFeed(t *testing.T) {
	for seed := range uint64(20) {
		rss := parse(t, string(feed(page0(seed, RSS), 60)))
		for _, f := range []Format{Atom, JSON} {
			other := parse(t, string(feed(page0(seed, f), 60)))
			for i, a := range rss.Items {
				b := other.Items[i]
				if a.GUID != b.GUID || a.Title != b.Title || a.Link != b.Link ||
					strings.TrimSpace(a.Content) != strings.TrimSpace(b.Content) ||
					!a.PublishedParsed.Equal(*b.PublishedParsed) || a.Authors[0].Name != b.Authors[0].Name ||
					a.Categories[0] != b.Categories[0] {
					t.Errorf("seed %d, item %d differs: rss %+v, %s %+v", seed, i, a, formatNames[f], b)
				}
			}
		}
		p := page0(seed, RSS)
		p.items = 5
		for i, it := range parse(t, string(feed(p, 60))).Items {
			if it.GUID != rss.Items[i].GUID || it.Content != rss.Items[i].Content {
				t.Errorf("seed %d: item %d of 5 is not that of 20", seed, i)
			}
		}
	}
}

// The bytes are promised: who changes them breaks the expectations of those who recorded them.
func TestBytesDoNotChangeFromVersionToVersion(t *testing.T) {
	got := make([]string, formats)
	for f := range formats {
		var all []byte
		for seed := range uint64(40) {
			p := page0(seed, f)
			p.churn, p.newest = 0.5, 17
			all = append(all, feed(p, 60)...)
		}
		got[f] = fmt.Sprintf("%x", xxh3.Hash(all))
		again := page0(39, f)
		again.churn, again.newest = 0.5, 17
		if !bytes.HasSuffix(all, feed(again, 60)) {
			t.Errorf("%s: twice the same page is not twice the same", formatNames[f])
		}
	}
	if want := []string{"5826654c3ca6c6d", "c61617c4c7136b0d", "b23c7e687e949f8"}; !slices.Equal(got, want) {
		t.Errorf("hashes are %q, want %q", got, want)
	}
}

func TestBodyIsTheAverageLengthOfTexts(t *testing.T) {
	for _, body := range []int32{0, 100, 400, 5000} {
		letters, items := 0, 0
		for seed := range uint64(30) {
			p := page0(seed, JSON)
			p.body = body
			for _, it := range parse(t, string(feed(p, 60))).Items {
				text, in := it.Content, false
				for _, c := range text { // without tags
					switch {
					case c == '<':
						in = true
					case c == '>':
						in = false
					case !in:
						letters++
					}
				}
				items++
			}
		}
		if mean := float64(letters) / float64(items); mean < 0.85*float64(body) ||
			mean > 1.15*float64(body)+2 {
			t.Errorf("body %d: texts have %.0f characters on average", body, mean)
		}
	}
}

func TestItemsComeAtTheRateOfChurn(t *testing.T) {
	for _, churn := range []float64{0, 0.01, 0.3, 1, 2.5, 1000} {
		for seed := range uint64(50) {
			r := row{seed, churn, 60}
			if first := r.newest(0); first != 0 {
				t.Errorf("churn %v, seed %d: item %d at step 0", churn, seed, first)
			}
			for step := int64(1); step < 400; step++ {
				before, now := r.newest(step-1), r.newest(step)
				if d := float64(now) - float64(step)*churn; d < -1 || d > 1 || now < before {
					t.Fatalf("churn %v, seed %d: %d items by step %d", churn, seed, now, step)
				}
				for n := before + 1; n <= now; n++ {
					came, from, to := r.came(n), epoch.Add(time.Duration(step-1)*time.Minute),
						epoch.Add(time.Duration(step)*time.Minute)
					if came.Before(from) || came.After(to) {
						t.Fatalf("churn %v, seed %d: item %d came at %v, in step %d from %v to %v", churn,
							seed, n, came, step, from, to)
					}
				}
			}
		}
	}
	var together int
	for seed := range uint64(100) {
		if (row{seed, 0.1, 60}).newest(5) > 0 {
			together++
		}
	}
	if together < 30 || together > 70 {
		t.Errorf("after half of the time for one item %d of 100 feeds have it", together)
	}
}

func TestDatesReachAsFarAsTheClock(t *testing.T) {
	for _, length := range []time.Duration{time.Second, time.Minute, 24 * time.Hour} {
		c := newClock(time.Now, length, true)
		if err := c.set(c.most()); err != nil {
			t.Fatal(err)
		}
		for _, churn := range []float64{1e-9, 0.1, 1000} {
			r := row{7, churn, length.Seconds()}
			if y := r.came(r.newest(c.most())).Year(); y < 1900 || y > 9999 {
				t.Errorf("step %v, churn %v: the last item comes in the year %d", length, churn, y)
			}
		}
		if err := c.set(c.most() + 1); err == nil {
			t.Errorf("step %v: a step that has no date", length)
		}
	}
}

func TestCharsetsAreDeclaredAndKept(t *testing.T) {
	s := stepped(t)
	for i := range charsets {
		for _, f := range []Format{RSS, Atom} {
			for seed := range uint64(8) {
				p := page0(seed, f)
				p.charset = Charset(i)
				r := s.render(p)
				name := charsets[i].name
				if !strings.HasSuffix(r.contentType, "; charset="+name) {
					t.Errorf("%s: Content-Type %q", name, r.contentType)
				}
				body := string(r.body)
				if name == "utf-16" { // the parser reads the declaration before it knows how
					text, err := charsets[i].encoding.NewDecoder().String(body)
					if err != nil || !strings.HasPrefix(body, "\xfe\xff") {
						t.Fatalf("%s: %v", name, err)
					}
					body = strings.Replace(text, name, "utf-8", 1)
				} else if i > 0 && utf8.ValidString(body) {
					t.Errorf("%s: seed %d is UTF-8", name, seed)
				}
				if !strings.Contains(body[:60], ` encoding="`) {
					t.Errorf("%s is not declared: %q", name, body[:60])
				}
				plain := string(feed(p, 60)) // what it was before it was encoded
				want := parse(t, strings.Replace(plain, name, "utf-8", 1))
				got := parse(t, body)
				for j := range want.Items {
					if got.Items[j].Title != want.Items[j].Title ||
						got.Items[j].Content != want.Items[j].Content {
						t.Fatalf("%s: seed %d, item %d is %q, want %q", name, seed, j, got.Items[j].Title,
							want.Items[j].Title)
					}
				}
			}
		}
	}
}
