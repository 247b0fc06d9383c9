package filter_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"weir/internal/filter"
	"weir/internal/filter/store"
	"weir/internal/server"
	"weir/internal/systest"
)

// ask makes a request of the admin port, and reads the answer into a value.
func ask[T any](s *served, method, path, body string, status int) (to T) {
	s.t.Helper()
	got := s.do(method, s.admin+path, body)
	if err := json.Unmarshal([]byte(got.body), &to); got.status != status || err != nil {
		s.t.Fatalf("%s %s %s: %d %s %v, want %d", method, path, body, got.status, got.body, err, status)
	}
	return to
}

// problem is an answer about something that is wrong.
type problem struct {
	Detail string
	Fields map[string]string
	Place  struct{ Line, Column int }
}

type page struct {
	Filters []filter.Shown
	After   string
}

// quoted returns a text as JSON.
func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

func TestFiltersAreListedPageByPageAndFound(t *testing.T) {
	up := newUpstream(t, feed(rss))
	s, _ := serve(t, t.TempDir(), up, server.Config{}, nil)
	for i := range 7 {
		s.add(fmt.Sprintf(`{"url":"%s/%d","title":"Feed %d","folder":"F%d","tags":["t%d","all"]}`, up.URL, i, i,
			i%2, i%3))
	}
	list := func(query string) (titles string) {
		for after := ""; ; {
			p := ask[page](s, "GET", "/admin/filters?"+query+"&after="+after, "", 200)
			for _, f := range p.Filters {
				titles += f.Title[len("Feed "):]
			}
			if after = p.After; after == "" {
				return titles
			}
		}
	}
	for query, want := range map[string]string{
		"limit=3": "0123456", "q=FEED+/5&limit=1": "5", "folder=F1&limit=2": "135", "tag=t0": "036",
		"tag=t0&folder=F0": "06", "tag=ALL&limit=7": "0123456", "q=nothing": "", "q=/4": "4", "state=failing": "",
		"q=&tag=&folder=&state=": "0123456",
	} {
		if got := list(query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	labels := ask[filter.Labels](s, "GET", "/admin/filters/labels", "", 200)
	if fmt.Sprint(labels) != "{[{F0 4} {F1 3}] [{all 7} {t0 3} {t1 2} {t2 2}] 7 7 0}" {
		t.Errorf("labels %v", labels)
	}
	first := ask[page](s, "GET", "/admin/filters?limit=1", "", 200).Filters[0]
	ask[filter.Shown](s, "PATCH", "/admin/filters/"+first.ID.String(), `{"folder":"F9","tags":["t1","t1"]}`, 200)
	for range 2 { // also after it is gone
		labels = ask[filter.Labels](s, "GET", "/admin/filters/labels", "", 200)
		if want := fmt.Sprint([]filter.Label{{Name: "all", Filters: 6}, {Name: "t0", Filters: 2}}); !strings.HasPrefix(
			fmt.Sprint(labels.Tags), want[:len(want)-1]) {
			t.Errorf("tags %v, want %s", labels.Tags, want)
		}
		s.do("DELETE", s.admin+"/admin/filters/"+first.ID.String(), "")
	}
	if labels.Filters != 6 || len(labels.Folders) != 2 {
		t.Errorf("labels %v", labels)
	}
}

func TestAMistakeInAQueryIsNamed(t *testing.T) {
	s, _ := serve(t, t.TempDir(), newUpstream(t, feed(rss)), server.Config{}, nil)
	for query, field := range map[string]string{
		"limit=0": "limit", "limit=1001": "limit", "limit=x": "limit", "limit=": "limit", "after=!": "after",
		"after=AAAA": "after", "state=well": "state", "q=%zz": "query",
		"q=" + strings.Repeat("a+", 11): "q",
	} {
		p := ask[problem](s, "GET", "/admin/filters?"+query, "", 422)
		if p.Detail == "" || p.Fields[field] == "" {
			t.Errorf("%s: %+v, want %q", query, p, field)
		}
	}
}

func TestAMistakeInAFilterIsNamed(t *testing.T) {
	up := newUpstream(t, feed(rss))
	s, _ := serve(t, t.TempDir(), up, server.Config{}, nil)
	id := s.add(`{"url":"` + up.URL + `"}`)
	id = id[strings.LastIndexByte(id, '/')+1:]
	long := strings.Repeat("x", 501)
	for member, field := range map[string]string{
		`"url":"ftp://a.example/"`:                                 "urls",
		`"url":"http://[::1/"`:                                     "urls",
		`"url":"http://a.example/` + strings.Repeat(long, 9) + `"`: "urls",
		`"urls":[]`: "urls",
		`"urls":["http://a.example","http://a.example/"]`:      "urls",
		`"urls":["http://a.example"],"url":"http://a.example"`: "url",
		`"title":"` + long + `"`:                               "title",
		`"folder":"` + long + `"`:                              "folder",
		`"tags":["` + long + `"]`:                              "tags",
		`"tags":[" "]`:                                         "tags",
		`"tags":["a,b"]`:                                       "tags",
		`"tags":["a"` + strings.Repeat(`,"a"`, 50) + `]`:       "tags",
		`"mode":"maybe"`:                                       "mode",
		`"sort":"oldest"`:                                      "sort",
		`"dedup":["colour"]`:                                   "dedup",
		`"format":"rdf"`:                                       "format",
		`"limit":-1`:                                           "limit",
		`"limit":10001`:                                        "limit",
		`"rules":["title has \"x\""]`:                          "rules",
		`"rules":"title = \"a\"\ntitle has \"x\""`:             "rules",
		`"rules":[1]`:                                          "rules",
		`"rules":["title exists"` + strings.Repeat(`,"title exists"`, 200) + `]`: "rules",
		// What is no such JSON at all names the member in the text.
		`"limit":"3"`: "", `"report_failures":1`: "", `"tags":"a"`: "", `"colour":"red"`: "", `"title"`: "",
	} {
		body := "{" + member + "}"
		add := body
		if !strings.Contains(member, `"url`) {
			add = `{"url":"` + up.URL + `",` + member + `}`
		}
		for _, r := range [][3]string{{"POST", "/admin/filters", add}, {"POST", "/admin/filters/preview", add},
			{"PATCH", "/admin/filters/" + id, body}} {
			if field == "rules" && !strings.Contains(member, "exists") && r[1] == "/admin/filters/preview" {
				p := ask[filter.Preview](s, r[0], r[1], r[2], 200)
				if p.Wrong == nil || p.Wrong.Text == "" || len(p.Items) != 0 {
					t.Errorf("%s: %+v", r[2], p)
				}
				continue
			}
			p := ask[problem](s, r[0], r[1], r[2], 422)
			if p.Detail == "" || field != "" && p.Fields[field] == "" {
				t.Errorf("%s %s %.80s: %+v, want %q", r[0], r[1], r[2], p, field)
			}
		}
	}
	if got := s.do("GET", s.admin+"/admin/filters", ""); strings.Count(got.body, `"id"`) != 1 {
		t.Errorf("what was refused is there: %s", got.body)
	}
	for _, r := range [][3]string{
		{"GET", "/admin/filters/" + store.NewID().String(), ""}, {"GET", "/admin/filters/x", ""},
		{"PATCH", "/admin/filters/x", "{}"}, {"DELETE", "/admin/filters/x", ""},
		{"POST", "/admin/filters/x/fetch", ""}, {"GET", "/admin/filters/x/icon", ""},
	} {
		ask[problem](s, r[0], r[1], r[2], 404)
	}
	for body, place := range map[string][2]int{
		`{"rules":"title exists\n  title has \"x\""}`: {2, 9}, `{"rules":["any contains"]}`: {1, 13},
	} {
		p := ask[problem](s, "PATCH", "/admin/filters/"+id, body, 422)
		if p.Place.Line != place[0] || p.Place.Column != place[1] {
			t.Errorf("%s: %+v, want %v", body, p.Place, place)
		}
		if got := ask[problem](s, "PUT", "/admin/filters/rules", `{"mode":"keep",`+body[1:], 422); got.Place != p.Place {
			t.Errorf("of the global rules %s: %+v, want %+v", body, got.Place, p.Place)
		}
	}
	for _, body := range []string{`{"mode":"x","rules":[]}`, `{"mode":"drop"}`, `{"rules":[]}x`, `{"mode":"drop","rules":7}`} {
		ask[problem](s, "PUT", "/admin/filters/rules", body, 422)
	}
	for _, body := range []string{`{}`, `{"url":"x"}`, `{"url":7}`, `{"link":"http://a.example/"}`} {
		ask[problem](s, "POST", "/admin/filters/discover", body, 422)
	}
	if p := ask[problem](s, "POST", "/admin/filters/discover", `{"url":"mailto:a@b"}`, 422); p.Fields["url"] == "" {
		t.Errorf("%+v", p)
	}
}

func TestWhoTypesARuleFetchesNothing(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/broken" {
			w.WriteHeader(500)
			return
		}
		feed(rss)(w, r)
	})
	s, _ := serve(t, t.TempDir(), up, server.Config{}, nil)
	preview := func(rules string) filter.Preview {
		return ask[filter.Preview](s, "POST", "/admin/filters/preview",
			`{"url":"`+up.URL+`/rss","rules":`+quoted(rules)+`}`, 200)
	}
	for i := range len("advert") {
		preview(`title contains "` + "advert"[:i+1] + `"`)
	}
	if n := up.asked.Load(); n != 1 {
		t.Errorf("the source was asked %d times", n)
	}
	s.add(`{"url":"` + up.URL + `/broken"}`)
	id := ask[page](s, "GET", "/admin/filters", "", 200).Filters[0].ID.String()
	ask[filter.Shown](s, "POST", "/admin/filters/"+id+"/fetch", "", 200)
	asked := up.asked.Load()
	for range 3 {
		p := ask[problem](s, "POST", "/admin/filters/preview", `{"url":"`+up.URL+`/broken"}`, 502)
		if p.Fields["url"] == "" || !strings.Contains(p.Detail, "500") {
			t.Errorf("%+v", p)
		}
	}
	if n := up.asked.Load(); n != asked {
		t.Errorf("a source that fails was asked %d times more", n-asked)
	}
}

func TestAPreviewSaysWhatEachRuleDoes(t *testing.T) {
	text := strings.Replace(rss, "Sports", "&lt;b&gt;Sports&lt;/b&gt; &amp;amp; more", 1)
	up := newUpstream(t, feed(text))
	s, _ := serve(t, t.TempDir(), up, server.Config{}, nil)
	ask[filter.GlobalRules](s, "PUT", "/admin/filters/rules", `{"mode":"drop","rules":"title contains \"go\""}`, 200)
	p := ask[filter.Preview](s, "POST", "/admin/filters/preview", `{"url":"`+up.URL+`","limit":1,"rules":`+
		quoted("# adverts\ntitle contains \"nothing\"\n\n(title contains \"advert\"\n or title contains \"zzz\")")+`}`, 200)
	want := `[{2 title contains "nothing" 0} {4 title contains "advert" or title contains "zzz" 1}]`
	if fmt.Sprint(p.Rules) != want || p.Title != "News" || p.Kept != 1 || p.Dropped != 2 {
		t.Errorf("%+v", p)
	}
	for i, it := range p.Items {
		switch it.Title {
		case "Sports & more":
			if i != 0 || !it.Kept || it.Rule != "" || it.Number != 0 {
				t.Errorf("%+v", it)
			}
		case "An advert":
			if it.Kept || it.Number != 2 {
				t.Errorf("%+v", it)
			}
		default:
			if it.Kept || it.Number != 0 || it.Rule != `title contains "go"` {
				t.Errorf("%+v", it)
			}
		}
	}
	if got := ask[filter.GlobalRules](s, "GET", "/admin/filters/rules", "", 200); got.Text != "title contains \"go\"\n" {
		t.Errorf("%+v", got)
	}
}

func TestAPreviewTellsWhatOccursTwiceFromWhatIsBeyondTheLimit(t *testing.T) {
	up := newUpstream(t, feed(`<rss version="2.0"><channel><title>x</title><item><title>a</title></item>`+
		`<item><title>A</title></item><item><title>b</title></item><item><title>c</title></item></channel></rss>`))
	s, _ := serve(t, t.TempDir(), up, server.Config{}, nil)
	p := ask[filter.Preview](s, "POST", "/admin/filters/preview",
		`{"url":"`+up.URL+`","dedup":["title"],"limit":2}`, 200)
	var got []string
	for _, it := range p.Items {
		got = append(got, it.Title+": "+it.Reason)
	}
	want := []string{"a: ", "b: ", "A: it occurs twice", "c: it is beyond the limit"}
	if !slices.Equal(got, want) || p.Kept != 2 || p.Dropped != 2 {
		t.Errorf("%q", got)
	}
}

func TestAPreviewOfManyItemsShowsSome(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `<rss version="2.0"><channel><title>x</title>%s</channel></rss>`,
			strings.Repeat("<item><title>odd</title></item><item><title>even</title></item>", 600))
	})
	s, _ := serve(t, t.TempDir(), up, server.Config{}, nil)
	p := ask[filter.Preview](s, "POST", "/admin/filters/preview",
		`{"url":"`+up.URL+`","rules":["title = \"odd\""]}`, 200)
	if p.Kept != 600 || p.Dropped != 600 || len(p.Items) != 1000 || !p.Items[499].Kept || p.Items[500].Kept {
		t.Errorf("%d %d %d", p.Kept, p.Dropped, len(p.Items))
	}
}

func TestASourceIsFetchedNowAndItsFetchesAreShown(t *testing.T) {
	dir := t.TempDir()
	up := newUpstream(t, feed(rss))
	s, stop := serve(t, dir, up, server.Config{}, nil)
	s.add(`{"url":"` + up.URL + `/rss"}`)
	fetch := func() filter.State {
		t.Helper()
		id := ask[page](s, "GET", "/admin/filters", "", 200).Filters[0].ID.String()
		return ask[filter.Shown](s, "POST", "/admin/filters/"+id+"/fetch", "", 200).Source[0]
	}
	got := fetch()
	if got.Title != "News" || got.Succeeded == nil || got.Next == nil || got.Status != 200 ||
		len(got.History) != 1 || got.History[0].Bytes != int64(len(rss)) || got.History[0].Same ||
		got.History[0].Seconds <= 0 {
		t.Errorf("%+v", got)
	}
	if got = fetch(); len(got.History) != 2 || !got.History[0].Same || up.asked.Load() != 2 {
		t.Errorf("fetched again: %+v, asked %d times", got, up.asked.Load())
	}
	up.set(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(503)
	})
	got = fetch()
	if last := got.History[0]; got.Failures != 1 || !strings.Contains(got.Error, "503") ||
		!strings.Contains(last.Detail, "Retry-After: 120") {
		t.Errorf("failed: %+v", got)
	}
	if list := ask[page](s, "GET", "/admin/filters?state=failing", "", 200); len(list.Filters) != 1 {
		t.Errorf("failing: %+v", list)
	}
	if labels := ask[filter.Labels](s, "GET", "/admin/filters/labels", "", 200); labels.Failing != 1 {
		t.Errorf("%+v", labels)
	}
	stop()
	s, _ = serve(t, dir, up, server.Config{}, nil)
	id := ask[page](s, "GET", "/admin/filters", "", 200).Filters[0].ID.String()
	after := ask[filter.Shown](s, "GET", "/admin/filters/"+id, "", 200).Source[0]
	if len(after.History) != len(got.History) || after.Title != "News" || after.Failures != 1 {
		t.Errorf("after a restart: %+v", after)
	}
}

func TestWhatIsNoFeedIsSaidWithWhatItIs(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/old" {
			http.Redirect(w, r, "/login", http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html>Sign in</html>")
	})
	s, _ := serve(t, t.TempDir(), up, server.Config{}, nil)
	s.add(`{"url":"` + up.URL + `/old"}`)
	id := ask[page](s, "GET", "/admin/filters", "", 200).Filters[0].ID.String()
	got := ask[filter.Shown](s, "POST", "/admin/filters/"+id+"/fetch", "", 200).Source[0]
	last := got.History[0]
	if got.Error != "it is no feed" || !strings.Contains(last.Detail, `20 bytes of "text/html"`) ||
		!strings.Contains(last.Detail, "redirected to "+up.URL+"/login") {
		t.Errorf("%+v", got)
	}
}

func TestAFailureIsSaidWithoutTheRequest(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	s, _ := serve(t, t.TempDir(), up, server.Config{}, nil)
	s.add(`{"url":"` + up.URL + `/"}`)
	id := ask[page](s, "GET", "/admin/filters", "", 200).Filters[0].ID.String()
	got := ask[filter.Shown](s, "POST", "/admin/filters/"+id+"/fetch", "", 200).Source[0]
	if got.Error != "304 Not Modified in answer to a request without conditions" || got.History[0].Detail != "" {
		t.Errorf("%q, %q", got.Error, got.History[0].Detail)
	}
}

func TestAListIsTakenWithAReport(t *testing.T) {
	up := newUpstream(t, feed(rss))
	s, _ := serve(t, t.TempDir(), up, server.Config{}, nil)
	s.add(`{"url":"http://there.example/rss","rules":["title exists"],"title":"renamed"}`)
	list := `<opml version="2.0" xmlns:weir="urn:weir:filter"><body>
		<outline text="News"><outline text="New" xmlUrl="http://new.example/rss"/></outline>
		<outline text="Twice" xmlUrl="http://new.example/rss"/>
		<outline text="There" xmlUrl="http://there.example/rss"/>
		<outline text="Other rules" xmlUrl="http://there.example/rss" weir:rules="title = &quot;x&quot;"/>
		<outline text="Mail" xmlUrl="mailto:a@b.example"/>
		<outline text="Itself" xmlUrl="http://readers.example/filtered/x"/>
		<outline text="` + strings.Repeat("x", 501) + `" xmlUrl="http://long.example/"/></body></opml>`
	body := func(dry bool) string { return fmt.Sprintf(`{"opml":%s,"dry_run":%v}`, quoted(list), dry) }
	for range 2 {
		got := ask[filter.Imported](s, "POST", "/admin/filters/opml", body(true), 200)
		if got.Added != 2 || got.Skipped != 5 || got.Filters[0].ID != "" || got.Filters[0].Folder != "News" ||
			got.Filters[1].Rules != 1 {
			t.Errorf("%+v", got)
		}
		var reasons []string
		for _, r := range got.Reasons {
			reasons = append(reasons, r.Title[:4]+" "+r.Reason[:10])
		}
		if want := "[Twic there is s Ther there is s Mail \"mailto:a@ Itse it is a fi xxxx the title ]"; fmt.Sprint(
			reasons) != want {
			t.Errorf("%q, want %q", reasons, want)
		}
	}
	if got := ask[filter.Imported](s, "POST", "/admin/filters/opml", body(false), 201); got.Added != 2 ||
		got.Filters[0].ID == "" {
		t.Errorf("%+v", got)
	}
	if got := ask[filter.Imported](s, "POST", "/admin/filters/opml", body(false), 201); got.Added != 0 {
		t.Errorf("a second time: %+v", got)
	}
	whole := s.want(s.admin+"/admin/filters/opml", 200).body
	if got := ask[filter.Imported](s, "POST", "/admin/filters/opml", `{"opml":`+quoted(whole)+`}`, 201); got.Added != 0 ||
		got.Skipped != 3 {
		t.Errorf("what was exported: %+v", got)
	}
	for _, wrong := range []string{`{"opml":""}`, `{"opml":"<html/>"}`, `{"opml":7}`, `{"opml":"","x":1}`,
		`{"opml":"","dry_run":"yes"}`, `{"opml":"<opml><body><outline xmlUrl='http://a.example'"}`} {
		ask[problem](s, "POST", "/admin/filters/opml", wrong, 422)
	}
}

func TestIconsArePicturesAndNothingElse(t *testing.T) {
	png := "\x89PNG\r\n\x1a\n" + strings.Repeat("x", 100)
	bodies := map[string]string{
		"/png": png, "/ico": "\x00\x00\x01\x00" + strings.Repeat("x", 100), "/gif": "GIF89a" + png,
		"/svg":  `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`,
		"/html": "<html><script>alert(1)</script></html>", "/large": png + strings.Repeat("x", 256<<10), "/empty": "",
	}
	want := map[string]string{"/png": "image/png", "/ico": "image/x-icon", "/gif": "image/gif"}
	up := newUpstream(t, nil)
	up.set(func(w http.ResponseWriter, r *http.Request) {
		name, inside := strings.CutPrefix(r.URL.Path, "/feed")
		switch body, ok := bodies[r.URL.Path]; {
		case inside:
			fmt.Fprintf(w, `{"version":"https://jsonfeed.org/version/1.1","title":"x","icon":"%s%s","items":[]}`, up.URL, name)
		case ok:
			w.Header().Set("Content-Type", "image/png")
			io.WriteString(w, body)
		default:
			w.WriteHeader(404)
		}
	})
	s, _ := serve(t, t.TempDir(), up, server.Config{}, nil)
	for _, name := range slices.Sorted(maps.Keys(bodies)) {
		at := s.add(`{"url":"` + up.URL + "/feed" + name + `"}`)
		at = s.admin + "/admin/filters" + at[strings.LastIndexByte(at, '/'):] + "/icon"
		var got answer
		systest.Eventually(t, "the icon was looked for", func() bool {
			got = s.do("GET", at, "")
			return got.status != 204
		})
		if want[name] == "" && got.status != 404 || want[name] != "" &&
			(got.status != 200 || got.header.Get("Content-Type") != want[name] || got.body != bodies[name]) {
			t.Errorf("%s: %d %v, want %q", name, got.status, got.header, want[name])
		}
		if got.header.Get("X-Content-Type-Options") != "nosniff" ||
			!strings.Contains(got.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %v", name, got.header)
		}
	}
}
