package syndication_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/internal/filter/syndication"
	"weir/internal/load/mock"
)

// sample is a document and the Content-Type it is served with.
type sample struct {
	name, contentType, url string
	src                    []byte
}

const corpus = "../../../../shared/corpus/feedparser"

var (
	location = regexp.MustCompile(`(?m)^Header:\s+Content-[Ll]ocation:\s*(.*?)\s*$`)
	header   = regexp.MustCompile(`(?m)^Header:\s+Content-[Tt]ype:\s*(.*?)\s*$`)
	expect   = regexp.MustCompile(`(?m)^Expect:\s+(.*?)\s*$`)
)

// corpusFiles are the files of feedparser's own suite, if they are there.
func corpusFiles(t testing.TB) []sample {
	if _, err := os.Stat(corpus); err != nil {
		t.Skipf("no part of feedparser's suite at %s", corpus)
	}
	var all []sample
	err := filepath.WalkDir(corpus, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".xml" && filepath.Ext(path) != ".json" {
			return err
		}
		src, err := os.ReadFile(path)
		s := sample{name: strings.TrimPrefix(path, corpus+"/"), src: src, url: "http://127.0.0.1:8097/"}
		if m := location.FindSubmatch(src); m != nil && strings.HasPrefix(string(m[1]), "http") {
			s.url = string(m[1])
		}
		if m := header.FindSubmatch(src); m != nil {
			s.contentType = string(m[1])
		}
		all = append(all, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// mockFeeds are feeds of the mock upstream with each kind of damage.
func mockFeeds(t testing.TB) []sample {
	t.Helper()
	s, err := mock.Open(mock.Options{Stepped: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(); s.Close() })
	var all []sample
	for _, format := range []string{"rss", "atom", "json"} {
		for _, damage := range []string{"off", "truncated", "unclosed", "crossed", "entities", "ampersands",
			"control", "invalid", "mislabelled",
			"prefixes", "leading", "dates", "guids", "mistyped", "bomb"} {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/feed/7."+format+"?malformed="+damage, nil))
			if w.Code == http.StatusBadRequest && format == "json" {
				continue // JSON does not have that
			}
			if w.Code != http.StatusOK {
				t.Fatalf("%s %s: %d %s", format, damage, w.Code, w.Body)
			}
			all = append(all, sample{name: "mock/" + format + "/" + damage,
				contentType: w.Header().Get("Content-Type"), src: w.Body.Bytes()})
		}
	}
	return all
}

// partly says of which of the mock's feeds not all 20 items can be read, and how many.
var partly = map[string]int{
	"mock/rss/truncated": 9, "mock/atom/truncated": 9, "mock/json/truncated": 9, "mock/json/unclosed": 0,
	"mock/json/crossed": 0, "mock/json/ampersands": 0,
}

func TestDamagedFeedsKeepTheirItems(t *testing.T) {
	for _, s := range mockFeeds(t) {
		f, err := syndication.Parse(s.src, syndication.Options{ContentType: s.contentType})
		want, damaged := partly[s.name]
		if !damaged {
			want = 20
		}
		items := 0
		if err == nil {
			items = len(f.Items)
		}
		if items != want {
			t.Errorf("%s: %d items, want %d (%v)", s.name, items, want, err)
		}
		if err == nil && damaged && len(f.Damage) == 0 {
			t.Errorf("%s: no damage is told", s.name)
		}
		for i := range items {
			it := &f.Items[i]
			if it.Title == "" || it.URL == "" || it.Summary+it.Content == "" ||
				strings.ContainsAny(it.Title+it.Content, "\x00\x01\x0b\x1f") {
				t.Errorf("%s: item %d is %+v", s.name, i, it)
			}
		}
	}
}

// otherwise are files that feedparser reads otherwise after they were converted, by reason. With a format in
// front it is that conversion alone.
var otherwise = map[string]string{
	"31 February is no date": "mock/rss/dates mock/atom/dates",
	"feedparser makes a reference &A; of a bare &A": "mock/rss/ampersands " +
		"mock/atom/ampersands mock/rss/entities mock/atom/entities",
	"feedparser takes all of a feed for windows-1250 where a byte is not UTF-8": "mock/rss/invalid " +
		"mock/atom/invalid",
	"feedparser knows nothing of statistics without the module chardet": "illformed/chardet/eucjp.xml " +
		"illformed/chardet/gb2312.xml illformed/chardet/koi8r.xml illformed/chardet/shiftjis.xml",
	"what is said to be text stays text": "rss:wellformed/atom10/entry_title_base64_2.xml " +
		"rss:testdata/parser/atom/atom03_feed_entry_title_base64_escaped_markup.xml " +
		"rss:testdata/parser/atom/atom10_feed_entry_title_base64_escaped_markup.xml",
	"white space is no part of a URL": "" +
		"testdata/parser/atom/atom10_feed_entry_link_href_invalid_space_prefix.xml",
	"a link is in its text in RSS, and in href in Atom": "" +
		"testdata/parser/rss/rss_channel_item_uri_at_protocol.xml " +
		"wellformed/atom/entry_link_no_href.xml wellformed/atom10/entry_link_no_href.xml " +
		"wellformed/atom10/entry_link_no_href_link_priority.xml",
	"what is in another element is not the item's": "testdata/parser/rss/issue_217_enclosure_children.xml " +
		"wellformed/rss/item_category_image.xml",
	"the Channel Definition Format is not read": "wellformed/cdf/item_href_map_link.xml " +
		"wellformed/cdf/item_href_map_links.xml",
}

// expected says whether a conversion is one of those.
func expected(kind, name string) bool {
	for _, names := range otherwise {
		for listed := range strings.FieldsSeq(names) {
			if listed == name && (kind == "rss" || kind == "atom") || listed == kind+":"+name {
				return true
			}
		}
	}
	return false
}

func TestFeedparserReadsOfFilteredFeedsWhatItReadsOfSources(t *testing.T) {
	python := filepath.Join("..", "..", "..", "build", "venv", "bin", "python3")
	if exec.Command(python, "-c", "import feedparser").Run() != nil {
		t.Skip("no feedparser in build/venv, which make test-deps makes")
	}
	samples := mockFeeds(t)
	for _, path := range gofeedFiles(t) {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		samples = append(samples, sample{name: path[strings.Index(path, "/testdata/")+1:], src: src})
	}
	if _, err := os.Stat(corpus); err == nil {
		samples = append(samples, corpusFiles(t)...)
	} else {
		t.Logf("without feedparser's suite, which is not at %s", corpus)
	}
	var in bytes.Buffer
	for _, s := range samples {
		f, err := syndication.Parse(s.src, syndication.Options{ContentType: s.contentType})
		if err != nil || f.Format == syndication.JSON { // which feedparser does not read
			continue
		}
		keep, kept := syndication.NewBits(len(f.Items)), []int{}
		for i := 0; i < len(f.Items); i += 2 {
			keep.Set(i)
			kept = append(kept, i)
		}
		if whole := bytes.Join(f.Pieces(nil, all(f), ""), nil); !slices.Contains(f.Damage, "truncated") &&
			!bytes.Equal(whole, s.src) {
			t.Errorf("%s: with all items it is %q, not the source", s.name, whole)
		}
		converted := map[string][]byte{}
		for _, to := range []syndication.Format{syndication.RSS, syndication.Atom} {
			converted[to.String()] = f.Convert(nil, to, f.Refs(nil, all(f)), "")
		}
		line, err := json.Marshal(map[string]any{"name": s.name, "type": s.contentType, "source": s.src,
			"items": len(f.Items), "kept": kept,
			"truncated": slices.Contains(f.Damage, "truncated"),
			"filtered":  bytes.Join(f.Pieces(nil, keep, ""), nil), "converted": converted})
		if err != nil {
			t.Fatal(err)
		}
		in.Write(append(line, '\n'))
	}
	cmd := exec.Command(python, "testdata/compare.py")
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var d struct{ Name, Kind, What string }
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			t.Fatal(err)
		}
		if d.Kind == "compared" {
			t.Logf("%s of %d documents compared", d.What, len(samples))
			if n, _ := strconv.Atoi(d.What); n < len(samples)/2 {
				t.Errorf("only %s documents compared", d.What)
			}
		} else if !expected(d.Kind, d.Name) {
			t.Errorf("%s %s: %s", d.Kind, d.Name, d.What)
		}
	}
}
