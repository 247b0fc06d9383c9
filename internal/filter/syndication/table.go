package syndication

import (
	"iter"

	"weir/internal/filter/text"
)

// Text returns what the items say, as rules compare it.
func (f *Feed) Text() *text.Table { return f.table }

// tabulate sets the table.
func (f *Feed) tabulate() {
	f.table = text.NewTable(len(f.Items), func(t *text.Table) {
		for field := range text.Fields {
			for i := range f.Items {
				t.Next()
				for value, form := range f.Values(i, field) {
					t.Add(value, form)
				}
			}
		}
	})
}

// Values yields what an item has in a field, and whether that is text.HTML. An item without a language has
// the feed's.
func (f *Feed) Values(item int, field text.Field) iter.Seq2[string, text.Form] {
	return func(yield func(string, text.Form) bool) {
		it := &f.Items[item]
		one := func(s string, flag uint8) {
			form := text.Form(0)
			if it.html&flag != 0 {
				form = text.HTML
			}
			if s != "" {
				yield(s, form)
			}
		}
		switch field {
		case text.Title:
			one(it.Title, htmlTitle)
		case text.Summary:
			one(it.Summary, htmlSummary)
		case text.Content:
			one(it.Content, htmlContent)
		case text.URL:
			one(it.URL, 0)
		case text.GUID:
			one(it.GUID, 0)
		case text.Language:
			if it.Language == "" {
				one(f.Language, 0)
			}
			one(it.Language, 0)
		case text.Author:
			for _, p := range it.Authors {
				if p.Name != "" && !yield(p.Name, 0) || p.Email != "" && !yield(p.Email, 0) {
					return
				}
			}
		case text.Category:
			for _, c := range it.Categories {
				if !yield(c, 0) {
					return
				}
			}
		case text.EnclosureURL, text.EnclosureType:
			for _, e := range it.Enclosures {
				s := e.URL
				if field == text.EnclosureType {
					s = e.Type
				}
				if !yield(s, 0) {
					return
				}
			}
		}
	}
}
