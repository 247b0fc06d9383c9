package syndication_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"weir/internal/filter/syndication"
)

// plainItem is what the reference reads of an item: where it is in the source, and its simple texts.
type plainItem struct {
	start, end       int
	title, guid, url string
}

// reference reads items with encoding/xml or encoding/json, which are slow and take whole documents in
// UTF-8 only.
func reference(src []byte) ([]plainItem, error) {
	if strings.HasPrefix(strings.TrimSpace(string(src)), "{") {
		return jsonReference(src)
	}
	d := xml.NewDecoder(strings.NewReader(string(src)))
	d.CharsetReader = func(string, io.Reader) (io.Reader, error) { return nil, errors.New("not UTF-8") }
	var items []plainItem
	var path []xml.Name
	var item *plainItem
	var text *string
	var written strings.Builder
	for {
		start := int(d.InputOffset())
		token, err := d.Token()
		if err == io.EOF {
			return items, nil
		} else if err != nil {
			return nil, err
		}
		switch e := token.(type) {
		case xml.StartElement:
			path = append(path, e.Name)
			parent := ""
			if len(path) > 1 {
				parent = path[len(path)-2].Local
			}
			isItem := e.Name.Local == "item" && (parent == "channel" || parent == "RDF" || parent == "rss") ||
				e.Name.Local == "entry" && parent == "feed"
			if isItem && item == nil {
				items = append(items, plainItem{start: start})
				item = &items[len(items)-1]
				break
			}
			if item == nil || parent != "item" && parent != "entry" {
				break
			}
			native := e.Name.Space == "" || strings.HasPrefix(e.Name.Space, "http://purl.org/rss/1.0/") &&
				!strings.Contains(e.Name.Space, "modules") ||
				strings.Contains(strings.ToLower(e.Name.Space), "atom")
			switch {
			case !native:
			case e.Name.Local == "title":
				text = &item.title
			case e.Name.Local == "guid" || e.Name.Local == "id":
				text = &item.guid
			case e.Name.Local == "link" && parent == "item":
				text = &item.url
			}
			written.Reset()
		case xml.CharData:
			written.Write(e)
		case xml.EndElement:
			if text != nil {
				if *text == "" {
					*text = strings.TrimSpace(written.String())
				}
				text = nil
			}
			parent := path[:len(path)-1]
			if item != nil && (e.Name.Local == "item" || e.Name.Local == "entry") && len(parent) <= 2 {
				item.end = int(d.InputOffset())
				item = nil
			}
			path = parent
		}
	}
}

func jsonReference(src []byte) ([]plainItem, error) {
	var doc struct{ Items []json.RawMessage }
	if err := json.Unmarshal(src, &doc); err != nil {
		return nil, err
	}
	var items []plainItem
	for _, raw := range doc.Items {
		var v struct {
			ID, URL, Title string
		}
		if err := json.Unmarshal(raw, &v); err != nil {
			return nil, err
		}
		at := 0
		if len(items) > 0 {
			at = items[len(items)-1].end
		}
		at += strings.Index(string(src[at:]), string(raw))
		items = append(items, plainItem{at, at + len(raw), v.Title, v.ID, v.URL})
	}
	return items, nil
}

func TestTheScannerReadsWhatTheReferenceReads(t *testing.T) {
	samples := mockFeeds(t)
	for _, path := range gofeedFiles(t) {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		samples = append(samples, sample{name: path, src: src})
	}
	compared := 0
	for _, s := range samples {
		want, err := reference(s.src)
		if err != nil || strings.Contains(s.name, "/mislabelled") {
			continue
		}
		compared++
		f, err := syndication.Parse(s.src, syndication.Options{ContentType: s.contentType})
		if err != nil || len(f.Items) != len(want) {
			t.Errorf("%s: %v (%v), want %d items", s.name, f, err, len(want))
			continue
		}
		for i, w := range want {
			it := &f.Items[i]
			start := it.Start
			for start < it.End && strings.IndexByte(" \t\r\n", s.src[start]) >= 0 {
				start++
			}
			if start != w.start || it.End != w.end {
				t.Errorf("%s: item %d is [%d, %d), want [%d, %d)", s.name, i, start, it.End, w.start, w.end)
			}
			plain := func(what, got, want string) {
				// Of markup the reference has the text.
				if got != want && want != "" && !strings.ContainsAny(got, "<") {
					t.Errorf("%s: item %d has the %s %q, want %q", s.name, i, what, got, want)
				}
			}
			if strings.Contains(s.name, "base64") || strings.Contains(s.name, "xml_base") ||
				strings.Contains(s.name, "_links") || strings.Contains(s.name, "markup") {
				continue // texts that are more than text
			}
			plain("title", it.Title, w.title)
			plain("GUID", it.GUID, w.guid)
			plain("URL", it.URL, w.url)
		}
	}
	t.Logf("%d of %d documents compared", compared, len(samples))
	if compared < 300 {
		t.Errorf("only %d documents compared", compared)
	}
}
