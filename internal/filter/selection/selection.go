// Package selection says which items of one or more feeds an answer has, and in which order: what rules
// have kept, sorted, without what is there twice, and no more than a limit.
//
// Items are the same if they have the same GUID, the same link, or the same title but for case and accents,
// whichever of these is asked for. Links, and GUIDs that are links, are compared without fragment and
// without parameters that track readers. The first of the items that are the same stays, in the order of
// the answer.
package selection

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/filter/syndication"
	"weir/internal/filter/text"
)

// Sort is an order of items.
type Sort uint8

const (
	AsFound Sort = iota // as their source has them
	Newest              // the newest first
)

func (s Sort) String() string { return [...]string{"source", "newest"}[s] }

// MarshalText writes source or newest.
func (s Sort) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (s *Sort) UnmarshalText(b []byte) error {
	switch string(b) {
	case "source", "":
		*s = AsFound
	case "newest":
		*s = Newest
	default:
		return fmt.Errorf("items are sorted as source or newest, not %.40q", b)
	}
	return nil
}

// Dedup is a set of ways in which items are the same.
type Dedup uint8

const (
	GUID Dedup = 1 << iota
	Link
	Title
)

var dedupNames = []string{"guid", "link", "title"}

func (d Dedup) String() string {
	var names []string
	for i, name := range dedupNames {
		if d&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// MarshalText writes names with commas between them.
func (d Dedup) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText writes, with white space or without.
func (d *Dedup) UnmarshalText(b []byte) error {
	var read Dedup
	for name := range strings.FieldsFuncSeq(string(b), func(r rune) bool { return r == ',' || r == ' ' }) {
		i := slices.Index(dedupNames, name)
		if i < 0 {
			return fmt.Errorf("items are the same by guid, link or title, not by %.40q", name)
		}
		read |= 1 << i
	}
	*d = read
	return nil
}

// Options say what is selected. The zero value selects all, as they are found.
type Options struct {
	Sort  Sort
	Dedup Dedup
	Limit int // 0 for none
}

// Select returns what an answer has of some items, in its order, and overwrites them. Those of a feed stand
// one after the other, as the feed has them; those of several feeds are best sorted by Newest.
func Select(refs []syndication.Ref, o Options) []syndication.Ref {
	if o.Sort == Newest {
		newestFirst(refs)
	}
	if o.Dedup != 0 {
		refs = unique(refs, o.Dedup)
	}
	if o.Limit > 0 && len(refs) > o.Limit {
		refs = refs[:o.Limit]
	}
	return refs
}

// newestFirst sorts items. One without a date stays behind that which its source has before it; those that
// have none before them come first in their source.
func newestFirst(refs []syndication.Ref) {
	type dated struct {
		syndication.Ref
		time.Time
	}
	items := make([]dated, len(refs))
	for i := len(refs) - 1; i >= 0; i-- { // those without a date before them have that behind them
		items[i] = dated{refs[i], refs[i].Feed.Items[refs[i].Item].Date()}
		if items[i].IsZero() && i+1 < len(refs) && refs[i+1].Feed == refs[i].Feed {
			items[i].Time = items[i+1].Time
		}
	}
	for i := 1; i < len(items); i++ {
		if refs[i].Feed.Items[refs[i].Item].Date().IsZero() && refs[i-1].Feed == refs[i].Feed {
			items[i].Time = items[i-1].Time
		}
	}
	slices.SortStableFunc(items, func(a, b dated) int { return b.Compare(a.Time) })
	for i := range items {
		refs[i] = items[i].Ref
	}
}

// unique leaves out items that are the same as one before them.
func unique(refs []syndication.Ref, by Dedup) []syndication.Ref {
	type key struct {
		by   Dedup
		feed *syndication.Feed // nil where the value is meant for all feeds
		text string
	}
	seen := make(map[key]bool, len(refs))
	return slices.DeleteFunc(refs, func(r syndication.Ref) bool {
		item := &r.Feed.Items[r.Item]
		keys := make([]key, 0, len(dedupNames))
		if by&GUID != 0 && item.GUID != "" {
			k := key{GUID, nil, item.GUID}
			switch {
			case strings.Contains(item.GUID, "://"):
				k.text = canonical(item.GUID)
			case !strings.Contains(item.GUID, ":"): // a number, which another feed may have given as well
				k.feed = r.Feed
			}
			keys = append(keys, k)
		}
		if by&Link != 0 && item.URL != "" {
			keys = append(keys, key{Link, nil, canonical(item.URL)})
		}
		if by&Title != 0 {
			for title := range r.Feed.Text().Values(text.Title, r.Item) {
				keys = append(keys, key{Title, nil, string(title)})
			}
		}
		if slices.ContainsFunc(keys, func(k key) bool { return seen[k] }) {
			return true
		}
		for _, k := range keys {
			seen[k] = true
		}
		return false
	})
}

// trackers are the parameters that tell a site where a reader comes from, and change nothing of what it
// answers.
var trackers = strings.Fields(`at_campaign at_medium dclid fbclid gbraid gclid gclsrc igsh igshid mc_cid
	mc_eid mkt_tok msclkid mtm_campaign oly_anon_id oly_enc_id pk_campaign ref_src
	s_cid twclid vero_id wbraid yclid _hsenc _hsmi`)

// canonical returns a URL in a form that is the same for all by which a page is linked: without fragment,
// trackers and the difference between http and https, its host in lower case.
func canonical(url string) string {
	url = strings.TrimSpace(url)
	if page, fragment, ok := strings.Cut(url, "#"); ok && !strings.HasPrefix(fragment, "!") &&
		!strings.HasPrefix(fragment, "/") { // which name a page
		url = page
	}
	url, query, _ := strings.Cut(url, "?")
	if scheme, rest, ok := strings.Cut(url, "://"); ok {
		host, path, _ := strings.Cut(rest, "/")
		scheme = strings.ToLower(scheme)
		if scheme == "http" {
			scheme = "https"
		}
		url = scheme + "://" + strings.ToLower(host) + "/" + path
	}
	between := "?"
	for part := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(strings.ToLower(part), "=")
		if part != "" && !strings.HasPrefix(name, "utm_") && !slices.Contains(trackers, name) {
			url += between + part
			between = "&"
		}
	}
	return url
}
