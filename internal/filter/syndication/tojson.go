package syndication

import (
	"bytes"
	"encoding/json"
)

// jsonFeed and the others are JSON Feed 1.1.
type jsonFeed struct {
	Version     string       `json:"version"`
	Title       string       `json:"title"`
	HomePageURL string       `json:"home_page_url,omitempty"`
	FeedURL     string       `json:"feed_url,omitempty"`
	NextURL     string       `json:"next_url,omitempty"`
	Description string       `json:"description,omitempty"`
	Icon        string       `json:"icon,omitempty"`
	Favicon     string       `json:"favicon,omitempty"`
	Language    string       `json:"language,omitempty"`
	Authors     []jsonPerson `json:"authors,omitempty"`
	Hubs        []jsonHub    `json:"hubs,omitempty"`
	Items       []jsonItem   `json:"items"`
}

type jsonHub struct {
	Type string `json:"type"`
	URL  string `json:"url"`
}

type jsonPerson struct {
	Name string `json:"name,omitempty"`
	URL  string `json:"url,omitempty"`
}

type jsonItem struct {
	ID          string           `json:"id"`
	URL         string           `json:"url,omitempty"`
	Title       string           `json:"title,omitempty"`
	ContentHTML string           `json:"content_html,omitempty"`
	ContentText *string          `json:"content_text,omitempty"`
	Summary     string           `json:"summary,omitempty"`
	Image       string           `json:"image,omitempty"`
	Published   string           `json:"date_published,omitempty"`
	Modified    string           `json:"date_modified,omitempty"`
	Authors     []jsonPerson     `json:"authors,omitempty"`
	Tags        []string         `json:"tags,omitempty"`
	Language    string           `json:"language,omitempty"`
	Attachments []jsonAttachment `json:"attachments,omitempty"`
}

type jsonAttachment struct {
	URL  string `json:"url"`
	Type string `json:"mime_type"`
	Size int64  `json:"size_in_bytes,omitempty"`
}

func (f *Feed) toJSON(dst []byte, items []Ref, self string) []byte {
	out := jsonFeed{Version: "https://jsonfeed.org/version/1.1",
		Title: asText(f.Title, f.html&htmlTitle != 0), HomePageURL: f.URL,
		FeedURL: self, NextURL: f.Next, Description: asText(f.Summary, f.html&htmlSummary != 0),
		Icon: f.Image, Favicon: f.Icon,
		Language: f.Language, Authors: jsonPersons(f.Authors), Items: make([]jsonItem, 0, len(items))}
	if f.Hub != "" {
		out.Hubs = []jsonHub{{"WebSub", f.Hub}}
	}
	for _, r := range items {
		out.Items = append(out.Items, r.Feed.Items[r.Item].toJSON())
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "\t")
	if err := e.Encode(out); err != nil {
		panic("BUG: " + err.Error()) // there are only texts and numbers
	}
	return append(dst, b.Bytes()...)
}

func (it *Item) toJSON() jsonItem {
	out := jsonItem{ID: it.Key(), URL: it.URL, Title: asText(it.Title, it.html&htmlTitle != 0),
		Image:     it.Image,
		Published: rfc3339(it.Published), Modified: rfc3339(it.Updated), Authors: jsonPersons(it.Authors),
		Tags: it.Categories, Language: it.Language}
	body, isHTML := it.Content, it.html&htmlContent != 0
	if body == "" { // an item must have one of the two
		body, isHTML = it.Summary, it.html&htmlSummary != 0
	} else {
		out.Summary = asText(it.Summary, it.html&htmlSummary != 0)
	}
	if isHTML && body != "" {
		out.ContentHTML = body
	} else {
		out.ContentText = &body
	}
	for _, e := range it.Enclosures {
		out.Attachments = append(out.Attachments, jsonAttachment{e.URL, e.Type, e.Length})
	}
	return out
}

func jsonPersons(persons []Person) []jsonPerson {
	var out []jsonPerson
	for _, p := range persons {
		q := jsonPerson{p.Name, p.URL}
		if q.URL == "" && p.Email != "" {
			q.URL = "mailto:" + p.Email
		}
		out = append(out, q)
	}
	return out
}
