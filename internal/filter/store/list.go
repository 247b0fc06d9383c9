package store

import (
	"context"
	"encoding/base64"
	"strings"
)

// Query says which filters are listed, by their titles, or the URLs of those that have none.
type Query struct {
	Words  []string // each of which is in their titles, URLs, folders or tags, whatever its case
	Folder string   // that they are in, or in a folder below; "" is any
	Tag    string   // that they have; "" is any
	After  string   // what the page before has returned; "" is the first page
	Limit  int      // above 0
	// Only is asked about each, if it is not nil. It must not call the store.
	Only func(ID) bool
}

// separator stands around each thing that a filter is found by.
const separator = "\x1f"

func folderWord(name string) string { return separator + "/" + strings.ToLower(name) + "/" }
func tagWord(name string) string    { return separator + "#" + strings.ToLower(name) + separator }

// name is what a filter is listed by.
func (s Spec) name() string {
	name := s.Title
	if name == "" && len(s.URLs) > 0 {
		_, name, _ = strings.Cut(s.URLs[0], "://")
	}
	name = strings.ToLower(strings.TrimSpace(name))
	return strings.ToValidUTF8(name[:min(len(name), 200)], "")
}

// words is what a filter is found by.
func (s Spec) words() string {
	all := strings.ToLower(s.Title+separator+strings.Join(s.URLs, separator)) + folderWord(s.Folder)
	for _, tag := range s.Tags {
		all += tagWord(tag)
	}
	return all
}

// List returns a page of filters, and what the next page is after, "" if there is none. The index that has
// all that is asked about is read from there on, which takes tens of milliseconds for 100,000 filters of
// which none is wanted.
func (s *Store) List(ctx context.Context, q Query) (page []Filter, after string, err error) {
	cursor, err := base64.RawURLEncoding.DecodeString(q.After)
	if err != nil || len(cursor) > 0 && len(cursor) < len(ID{}) {
		return nil, "", ErrCursor
	}
	var last ID
	copy(last[:], cursor)
	statement := "SELECT name, id FROM filters WHERE (name, id) > (?, ?)"
	values := []any{string(cursor[min(len(last), len(cursor)):]), last[:]}
	has := func(word string) {
		statement += " AND instr(words, ?) > 0"
		values = append(values, word)
	}
	for _, word := range q.Words {
		has(strings.ToLower(word))
	}
	if q.Folder != "" {
		has(folderWord(q.Folder))
	}
	if q.Tag != "" {
		has(tagWord(q.Tag))
	}
	ids, after, err := s.list(ctx, q, statement+" ORDER BY name, id", values)
	if err != nil {
		return nil, "", s.explain("list filters", err)
	}
	found, err := s.Several(ctx, ids)
	if err != nil {
		return nil, "", err
	}
	by := make(map[ID]Filter, len(found))
	for _, f := range found {
		by[f.ID] = f
	}
	for _, id := range ids {
		if f, ok := by[id]; ok { // else it was deleted meanwhile
			page = append(page, f)
		}
	}
	return page, after, nil
}

// list returns the ids of a page, and what the next is after.
func (s *Store) list(ctx context.Context, q Query, statement string, values []any) (ids []ID, after string,
	err error) {
	rows, err := s.db.QueryContext(ctx, statement, values...)
	if err != nil {
		return nil, "", err
	}
	defer rows.Close()
	var name string
	for rows.Next() {
		var next string
		var id []byte
		if err := rows.Scan(&next, &id); err != nil {
			return nil, "", err
		}
		if q.Only != nil && !q.Only(ID(id)) {
			continue
		}
		if len(ids) == q.Limit {
			last := ids[q.Limit-1]
			return ids, base64.RawURLEncoding.EncodeToString(append(last[:], name...)), nil
		}
		ids, name = append(ids, ID(id)), next
	}
	return ids, "", rows.Err()
}
