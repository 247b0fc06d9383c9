package syndication_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/filter/syndication"
	"weir/internal/filter/text"
)

// comparison is one that feedparser's suite expects to hold: an access path and a literal of Python.
var comparison = regexp.MustCompile(
	`^(?:not bozo and |bozo and )?((?:feed|entries\[0\]|encoding|version)[\w\[\]'.]*) == (u?'(?:[^'\\]|\\.)*'|u?"(?:[^"\\]|\\.)*"|\([\d, ]+\))$`)

// read returns what a feed has where feedparser's result has a path; false for what weir does not read.
func read(f *syndication.Feed, path string) (string, bool) {
	path = strings.NewReplacer("['", ".", "']", "", "[0]", ".0", "[1]", ".1").Replace(path)
	path = strings.TrimSuffix(strings.Replace(path, "_detail.value", "", 1), "_parsed")
	who := func(list []syndication.Person, field string) (string, bool) {
		if len(list) == 0 {
			return "", true
		}
		switch p := list[0]; field {
		case "name":
			return p.Name, true
		case "email":
			return p.Email, true
		default:
			return p.URL, true
		}
	}
	if field, ok := strings.CutPrefix(path, "feed.author_detail."); ok {
		return who(f.Authors, field)
	}
	switch path {
	case "encoding":
		return f.Charset, true
	case "feed.title":
		return f.Title, true
	case "feed.link":
		return f.URL, true
	case "feed.description", "feed.subtitle", "feed.tagline", "feed.info":
		return f.Summary, true
	case "feed.language":
		return f.Language, true
	case "feed.copyright", "feed.rights":
		return f.Copyright, true
	case "feed.updated", "feed.modified":
		return stamp(f.Updated), true
	case "feed.published":
		return stamp(f.Published), true
	case "feed.tags.0.term":
		return at(f.Categories, 0), true
	case "feed.tags.1.term":
		return at(f.Categories, 1), true
	case "feed.image.href", "feed.logo":
		return f.Image, true
	case "feed.icon":
		return f.Icon, true
	}
	if !strings.HasPrefix(path, "entries.0.") || len(f.Items) == 0 {
		return "", false
	}
	it := &f.Items[0]
	path = strings.TrimPrefix(path, "entries.0.")
	if field, ok := strings.CutPrefix(path, "author_detail."); ok {
		return who(it.Authors, field)
	}
	switch path {
	case "title":
		return it.Title, true
	case "link":
		return it.URL, true
	case "id", "guid":
		return it.GUID, true
	case "summary", "description":
		return it.Summary, true
	case "content.0.value":
		return it.Content, true
	case "comments":
		return it.Comments, true
	case "published", "issued", "created":
		return stamp(it.Published), true
	case "updated", "modified":
		return stamp(it.Updated), true
	case "tags.0.term", "category":
		return at(it.Categories, 0), true
	case "tags.1.term":
		return at(it.Categories, 1), true
	case "enclosures.0.href", "enclosures.0.url":
		if len(it.Enclosures) > 0 {
			return it.Enclosures[0].URL, true
		}
		return "", true
	}
	return "", false
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return ""
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// literal returns the text of a literal of Python, dates as stamp writes them.
func literal(t *testing.T, s string) string {
	t.Helper()
	if strings.HasPrefix(s, "(") {
		var n [6]int
		for i, part := range strings.Split(strings.Trim(s, "()"), ",") {
			if i < len(n) {
				n[i], _ = strconv.Atoi(strings.TrimSpace(part))
			}
		}
		return stamp(time.Date(n[0], time.Month(n[1]), n[2], n[3], n[4], n[5], 0, time.UTC))
	}
	s = strings.TrimPrefix(s, "u")
	body := strings.NewReplacer(`\x`, `\u00`, `\'`, `'`, `\"`, `"`, `"`, `\"`).Replace(s[1 : len(s)-1])
	plain, err := strconv.Unquote(`"` + body + `"`)
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return plain
}

// corpusDisagreements are the files of feedparser's suite that are read otherwise, and why.
var corpusDisagreements = func() map[string]string {
	m := map[string]string{
		"encoding/demoronize-1.xml": "a control character of ISO 8859-1 is " +
			"none of windows-1252 after it was decoded",
		"wellformed/atom/entry_updated_multiple_values.xml":      "of several dates the first counts",
		"wellformed/atom10/entry_content_div_escaped_markup.xml": "markup that is not escaped stays as it is",
		"wellformed/lang/feed_xml_lang_underscore.xml":           "the language is what the feed says",
		"wellformed/lang/http_content_language.xml":              "the language is what the feed says",
		"wellformed/namespace/atommathml.xml":                    "the content is no summary",
		"wellformed/namespace/atomsvgtitle.xml":                  "the content is no summary",
		"wellformed/base/http_entry_id_base_docuri.xml":          "an id is no reference: RFC 4287, 4.2.6.1",
	}
	for reason, names := range map[string]string{
		"RFC 7303 ended the rule by which text/xml is US-ASCII": "encoding/http_text_xml_default.xml " +
			"encoding/http_text_xml_qs.xml encoding/http_text_xml_bogus_charset.xml",
		"GB 18030 is GB 2312 and more":          "illformed/chardet/gb2312.xml",
		"nothing is known of how Thai is spelt": "illformed/chardet/tis620.xml",
		"the Channel Definition Format is no format of feeds that is read": `wellformed/cdf/channel_abstract_map_description.xml wellformed/cdf/item_abstract_map_summary.xml
			wellformed/cdf/item_href_map_link.xml wellformed/cdf/item_lastmod.xml wellformed/cdf/item_lastmod_parsed.xml`,
	} {
		for _, name := range strings.Fields(names) {
			m[name] = reason
		}
	}
	return m
}()

func TestFeedsReadAsFeedparsersSuiteExpects(t *testing.T) {
	files := corpusFiles(t)
	compared := 0
	for _, s := range files {
		m := expect.FindSubmatch(s.src)
		if m == nil {
			continue
		}
		c := comparison.FindSubmatch(m[1])
		if c == nil || strings.HasSuffix(string(c[1]), "_detail") {
			continue
		}
		problem := ""
		f, err := syndication.Parse(s.src, syndication.Options{ContentType: s.contentType, URL: s.url})
		if err != nil {
			problem = err.Error()
		} else {
			got, ok := read(f, string(c[1]))
			if !ok {
				continue
			}
			compared++
			want := literal(t, string(c[2]))
			if date, ok := parseStamp(want); ok && got != "" {
				want = date
			}
			flat := func(s string) string { return text.Of(s, text.HTML|text.KeepCase) }
			if string(c[1]) == "encoding" {
				got, want = strings.ReplaceAll(got, "-", ""), strings.ReplaceAll(strings.ToLower(want),
					"-", "")
				if got == "windows1252" && (want == "usascii" || want == "iso88591") {
					got = want // the WHATWG's name of both
				}
			}
			if got != want && flat(got) != flat(want) {
				problem = fmt.Sprintf("%s is %q, want %q", c[1], got, want)
			}
		}
		if reason := corpusDisagreements[s.name]; reason != "" {
			if problem == "" {
				t.Errorf("%s agrees, and is listed: %s", s.name, reason)
			}
		} else if problem != "" {
			t.Errorf("%s: %s", s.name, problem)
		}
	}
	t.Logf("%d of %d files expect something of a field that weir reads; %d of them are listed", compared,
		len(files), len(corpusDisagreements))
	if compared < 200 {
		t.Errorf("only %d files were compared", compared)
	}
}

// parseStamp makes a date, which feedparser hands on as it is, comparable.
func parseStamp(s string) (string, bool) {
	for _, layout := range []string{time.RFC3339, time.RFC1123, time.RFC1123Z} {
		if d, err := time.Parse(layout, s); err == nil {
			return stamp(d), true
		}
	}
	return "", false
}
