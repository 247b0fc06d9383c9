package syndication_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mmcdole/gofeed"
	"github.com/mmcdole/gofeed/atom"
	jsonfeed "github.com/mmcdole/gofeed/json"
	"github.com/mmcdole/gofeed/rss"

	"weir/internal/filter/syndication"
)

// disagreements are the files of gofeed's suite of which Parse reads something else than gofeed does, and
// why.
var disagreements = func() map[string]string {
	m := map[string]string{
		"parser/atom/atom10_feed_entry_content_html_div_escaped_markup": "markup that is not escaped stays " +
			"as it is",
		"parser/atom/entry_id_xml_base":  "an id is no reference: RFC 4287, 4.2.6.1",
		"parser/atom/feed_link_xml_base": "an empty reference says nothing",
		"translator/rss/feed_image_-_rss_channel_description": "a picture in the description is no picture " +
			"of the feed",
	}
	for _, name := range strings.Fields(
		`entry_content_xml_base entry_content_xml_base_inherit entry_content_xml_base_inherit_2
		entry_content_xml_base_inherit_3 entry_content_xml_base_inherit_4 entry_summary_xml_base entry_summary_xml_base_inherit
		entry_summary_xml_base_inherit_2 entry_summary_xml_base_inherit_3 entry_title_xml_base entry_title_xml_base_inherit
		feed_copyright_xml_base feed_rights_xml_base_inherit feed_title_xml_base feed_title_xml_base_cdata feed_title_xml_base_inherit
		feed_title_xml_base_inherit_2 relative_uri relative_uri_inherit relative_uri_inherit_2`) {
		m["parser/atom/"+name] = "references within HTML stay as they are: what is answered is the source, " +
			"with its xml:base"
	}
	return m
}()

// expectation reads what gofeed's suite expects of a file, as gofeed's common model; nil when it is no feed.
func expectation(t *testing.T, path string) *gofeed.Feed {
	t.Helper()
	kind := filepath.Base(filepath.Dir(path))
	want := strings.TrimSuffix(path, filepath.Ext(path)) + ".json"
	if kind == "json" {
		want = strings.TrimSuffix(path, ".json") + "_expected.json"
	}
	b, err := os.ReadFile(want)
	if err != nil {
		t.Fatal(err)
	}
	read := func(v any) any {
		if err := json.Unmarshal(b, v); err != nil {
			t.Fatalf("%s: %v", want, err)
		}
		return v
	}
	var f *gofeed.Feed
	switch {
	case strings.Contains(path, "/translator/"), strings.Contains(path, "/extensions/"):
		return read(new(gofeed.Feed)).(*gofeed.Feed)
	case kind == "atom":
		f, err = new(gofeed.DefaultAtomTranslator).Translate(read(new(atom.Feed)))
	case kind == "json":
		f, err = new(gofeed.DefaultJSONTranslator).Translate(read(new(jsonfeed.Feed)))
	default:
		f, err = new(gofeed.DefaultRSSTranslator).Translate(read(new(rss.Feed)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// gofeedFiles are the feeds of gofeed's suite that come with an expectation.
func gofeedFiles(t testing.TB) []string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/mmcdole/gofeed").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	root := filepath.Join(strings.TrimSpace(string(dir)), "testdata")
	var files []string
	for _, pattern := range []string{"parser/*/*.xml", "translator/*/*.xml", "extensions/*/*.xml",
		"parser/json/*.json", "translator/json/*.json"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, slices.DeleteFunc(found, func(s string) bool {
			return strings.HasSuffix(s, "_expected.json") || strings.Contains(s, "/universal/")
		})...)
	}
	if len(files) < 500 {
		t.Fatalf("only %d files", len(files))
	}
	return files
}

func TestFeedsReadAsGofeedsSuiteExpects(t *testing.T) {
	listed := 0
	for _, path := range gofeedFiles(t) {
		name := strings.TrimSuffix(path[strings.Index(path, "/testdata/")+len("/testdata/"):],
			filepath.Ext(path))
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		problem := ""
		f, err := syndication.Parse(src, syndication.Options{})
		if err != nil {
			problem = err.Error()
		} else {
			problem = differences(f, expectation(t, path))
		}
		if reason := disagreements[name]; reason != "" {
			listed++
			if problem == "" {
				t.Errorf("%s agrees, and is listed: %s", name, reason)
			}
		} else if problem != "" {
			t.Errorf("%s: %s", name, problem)
		}
	}
	t.Logf("%d of %d files are listed as read otherwise", listed, len(gofeedFiles(t)))
}

// differences says where a feed is not what gofeed expects. Where gofeed has nothing Parse may have
// something.
func differences(f *syndication.Feed, want *gofeed.Feed) string {
	var b strings.Builder
	text := func(what, got, want string) {
		if want = strings.TrimSpace(want); got != want && want != "" {
			fmt.Fprintf(&b, "%s is %q, want %q; ", what, got, want)
		}
	}
	moment := func(what string, got time.Time, want *time.Time) {
		if want != nil && !got.Equal(*want) {
			fmt.Fprintf(&b, "%s is %v, want %v; ", what, got, *want)
		}
	}
	list := func(what string, got, want []string) {
		for _, w := range want {
			if w = strings.TrimSpace(w); w != "" && !slices.Contains(got, w) {
				fmt.Fprintf(&b, "%s are %q, want %q; ", what, got, w)
			}
		}
	}
	persons := func(what string, got []syndication.Person, want []*gofeed.Person) {
		for _, w := range want {
			if w := (syndication.Person{Name: w.Name, Email: w.Email}); w != (syndication.Person{}) &&
				!slices.ContainsFunc(got, func(p syndication.Person) bool { p.URL = ""; return p == w }) {
				fmt.Fprintf(&b, "%s are %+v, want %+v; ", what, got, w)
			}
		}
	}
	format := f.Format.String()
	if format == "rdf" {
		format = "rss"
	}
	text("format", format, want.FeedType)
	if want.FeedType != "json" {
		text("version", f.Version, want.FeedVersion)
	}
	text("title", f.Title, want.Title)
	text("link", f.URL, want.Link)
	text("description", f.Summary, want.Description)
	text("feed URL", f.FeedURL, want.FeedLink)
	text("language", f.Language, want.Language)
	text("copyright", f.Copyright, want.Copyright)
	text("generator", f.Generator, want.Generator)
	if want.FeedType != "json" { // gofeed takes those of the first item
		moment("updated", f.Updated, want.UpdatedParsed)
		moment("published", f.Published, want.PublishedParsed)
	}
	if want.Image != nil && want.Image.URL != f.Icon {
		text("image", f.Image, want.Image.URL)
	}
	persons("authors", f.Authors, want.Authors)
	list("categories", f.Categories, want.Categories)
	if len(f.Items) != len(want.Items) {
		fmt.Fprintf(&b, "%d items, want %d", len(f.Items), len(want.Items))
		return b.String()
	}
	for i, w := range want.Items {
		it := &f.Items[i]
		text("item title", it.Title, w.Title)
		text("item link", it.URL, w.Link)
		text("item description", it.Summary, w.Description)
		text("item content", it.Content, w.Content)
		text("GUID", it.GUID, w.GUID)
		moment("item published", either(it.Published, it.Updated), w.PublishedParsed)
		moment("item updated", it.Updated, w.UpdatedParsed)
		persons("item authors", it.Authors, w.Authors)
		list("item categories", it.Categories, w.Categories)
		var got, files []syndication.Enclosure
		for _, e := range it.Enclosures {
			got = append(got, syndication.Enclosure{URL: e.URL, Type: e.Type})
		}
		for _, e := range w.Enclosures {
			if e.URL != "" {
				files = append(files, syndication.Enclosure{URL: e.URL, Type: e.Type})
			}
		}
		if len(files) > 0 && !reflect.DeepEqual(got, files) {
			fmt.Fprintf(&b, "enclosures are %+v, want %+v; ", got, files)
		}
	}
	return b.String()
}

func either(a, b time.Time) time.Time {
	if a.IsZero() {
		return b
	}
	return a
}
