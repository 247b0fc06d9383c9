package filter_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"weir/internal/server"
	"weir/internal/systest"
)

// metric returns a line of /metrics, without its name.
func (s *served) metric(name string) string {
	s.t.Helper()
	for line := range strings.Lines(s.do("GET", s.admin+"/metrics", "").body) {
		if value, ok := strings.CutPrefix(line, "weir_filter_"+name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return "none"
}

// decide says of each filter of a source what it keeps.
var decide = map[string]string{
	`"rules":["title contains \"advert\""]`:             "Go Sports",
	`"mode":"keep","rules":["title contains \"go\""]`:   "Go",
	`"rules":["title contains \"advert\""],"limit":1`:   "Go",
	`"rules":["title contains \"sports\""]`:             "Go advert",
	`"rules":["title contains \"go\""],"format":"json"`: "advert Sports",
}

// addAll adds the filters of decide and returns their URLs, relative to the public port.
func (s *served) addAll(url string) (all map[string]string) {
	all = make(map[string]string)
	for spec, want := range decide {
		all[strings.TrimPrefix(s.add(fmt.Sprintf(`{"url":%q,%s}`, url, spec)), s.public)] = want
	}
	return all
}

func (s *served) wantItems(at, want string) answer {
	s.t.Helper()
	got := s.want(s.public+at, 200)
	var items []string
	for _, word := range []string{"Go 1.26", "An advert", "Sports"} {
		if strings.Contains(got.body, word) {
			items = append(items, strings.TrimSuffix(strings.TrimPrefix(word, "An "), " 1.26"))
		}
	}
	if is := strings.Join(items, " "); is != want {
		s.t.Errorf("the answer has %q, want %q: %s", is, want, got.body)
	}
	return got
}

func TestAFetchDecidesForAllFiltersOfItsSource(t *testing.T) {
	up := newUpstream(t, feed(rss))
	s, _ := serve(t, t.TempDir(), up, server.Config{}, nil)
	all := s.addAll(up.URL + "/rss")
	for at, want := range all {
		s.wantItems(at, want)
	}
	if fetched, asked := s.metric(`decisions_total{at="fetch"}`),
		s.metric(`decisions_total{at="request"}`); fetched != fmt.Sprint(len(all)) || asked != "0" {
		t.Errorf("%s decisions were made at the fetch and %s for requests, want %d and 0", fetched, asked,
			len(all))
	}
}

func TestAStartDecidesAheadOfReaders(t *testing.T) {
	dir, up := t.TempDir(), newUpstream(t, feed(rss))
	s, stop := serve(t, dir, up, server.Config{}, nil)
	all, tags := s.addAll(up.URL+"/rss"), make(map[string]string)
	for at, want := range all {
		tags[at] = s.wantItems(at, want).header.Get("ETag")
	}
	stop()
	up.set(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "gone") })
	s, _ = serve(t, dir, up, server.Config{}, nil)
	systest.Eventually(t, "all decisions are there", func() bool {
		return s.metric(`decisions_total{at="start"}`) == fmt.Sprint(len(all))
	})
	for at, tag := range tags {
		s.want(s.public+at, 304, "If-None-Match", tag)
	}
	if made, documents := s.metric(`decisions_total{at="request"}`),
		s.metric("documents_total"); made != "0" || documents != "0" {
		t.Errorf("%s decisions and %s documents were made for what readers have", made, documents)
	}
	for at, want := range all {
		s.wantItems(at, want)
	}
}
