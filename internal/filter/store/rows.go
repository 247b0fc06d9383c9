package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"
)

// Row is a filter or a setting in the form in which nodes of a cluster exchange it. Equal rows are equal
// strings.
type Row struct {
	Key   string // a filter's id, or that of SettingKey
	Value string // "" where it was removed
}

// SettingKey returns the key of a setting's row.
func SettingKey(name string) string { return "=" + name }

// Setting returns the name of the setting that a row is of; false if it is of a filter.
func (r Row) Setting() (name string, ok bool) { return strings.CutPrefix(r.Key, "=") }

// Row returns the row of a filter.
func (f Filter) Row() Row {
	return Row{f.ID.String(), rowValue(f.Created.Unix(), f.Changed.Unix(), f.Spec.encode())}
}

func rowValue(created, changed int64, spec string) string {
	return fmt.Sprintf("%d %d %s", created, changed, spec)
}

// Filter returns the filter of a row; nil if it was removed.
func (r Row) Filter() (*Filter, error) {
	f := new(Filter)
	id, ok := ParseID(r.Key)
	if !ok {
		return nil, fmt.Errorf("a row of %.100q: there is no such id", r.Key)
	}
	if f.ID = id; r.Value == "" {
		return nil, nil
	}
	created, changed, spec, err := r.parts()
	if err != nil {
		return nil, err
	}
	f.Created, f.Changed = time.Unix(created, 0).UTC(), time.Unix(changed, 0).UTC()
	if err := json.Unmarshal([]byte(spec), &f.Spec); err != nil {
		return nil, fmt.Errorf("the row of %s: %w", r.Key, err)
	}
	if len(f.URLs) == 0 {
		return nil, fmt.Errorf("the row of %s has no URL", r.Key)
	}
	return f, nil
}

// parts takes the value of a filter's row apart.
func (r Row) parts() (created, changed int64, spec string, err error) {
	first, rest, _ := strings.Cut(r.Value, " ")
	second, spec, ok := strings.Cut(rest, " ")
	created, err1 := strconv.ParseInt(first, 10, 64)
	changed, err2 := strconv.ParseInt(second, 10, 64)
	if err := errors.Join(err1, err2); err != nil || !ok {
		return 0, 0, "", fmt.Errorf("the row of %s is none: %w", r.Key, err)
	}
	return created, changed, spec, nil
}

// positionSetting is the setting with the position, which is no row.
const positionSetting = "position"

// Position returns how far the rows of a cluster were applied; "" where they never were.
func (s *Store) Position(ctx context.Context) (string, error) { return s.Setting(ctx, positionSetting) }

// Apply writes rows in the place of those that there are, and the position that this comes to, if it is not
// "", in one transaction.
func (s *Store) Apply(ctx context.Context, rows []Row, position string) error {
	return s.write(ctx, "take up changes", func(tx *sql.Tx) error {
		for _, r := range rows {
			if err := r.apply(ctx, tx); err != nil {
				return err
			}
		}
		if position == "" {
			return nil
		}
		return setSetting(ctx, tx, positionSetting, position)
	})
}

// Disown forgets the position: from now on the rows are this store's own.
func (s *Store) Disown(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, "DELETE FROM settings WHERE name = ?", positionSetting)
	return s.explain("forget the cluster", err)
}

func (r Row) apply(ctx context.Context, tx *sql.Tx) error {
	if name, ok := r.Setting(); ok {
		return setSetting(ctx, tx, name, r.Value)
	}
	f, err := r.Filter()
	if err != nil {
		return err
	}
	if f == nil {
		id, _ := ParseID(r.Key)
		_, err := tx.ExecContext(ctx, "DELETE FROM filters WHERE id = ?", id[:])
		return err
	}
	created, changed, spec, _ := r.parts() //nolint:errcheck // Filter has read them
	// As it is written: a later version may know more of it than this one.
	_, err = tx.ExecContext(ctx, "INSERT INTO filters (id, spec, created, changed, name, words) "+
		"VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET spec = excluded.spec, "+
		"created = excluded.created, changed = excluded.changed, name = excluded.name, "+
		"words = excluded.words",
		f.ID[:], spec, created, changed, f.Spec.name(), f.Spec.words())
	return err
}

func setSetting(ctx context.Context, tx *sql.Tx, name, value string) error {
	_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)", name, value)
	return err
}

// Rows returns all rows, in any order. No other method may be called meanwhile by who iterates.
func (s *Store) Rows(ctx context.Context) iter.Seq2[Row, error] {
	return s.rows(ctx, "SELECT id, spec, created, changed FROM filters UNION ALL "+
		"SELECT NULL, value, name, NULL FROM settings WHERE name != ? AND value != ''", positionSetting)
}

// RowsOf returns the rows of those of filters that there are, in any order.
func (s *Store) RowsOf(ctx context.Context, ids []ID) (all []Row, err error) {
	list, err := idList(ids)
	if err != nil {
		return nil, err
	}
	for row, err := range s.rows(ctx, "SELECT id, spec, created, changed FROM filters "+
		"WHERE id IN (SELECT unhex(value) FROM json_each(?))", list) {
		if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, nil
}

// rows returns what a statement selects: id, specification and times of filters; the value and the name of
// settings.
func (s *Store) rows(ctx context.Context, statement string, values ...any) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		rows, err := s.db.QueryContext(ctx, statement, values...)
		if err != nil {
			yield(Row{}, s.explain("read filters", err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			var id []byte
			var text, name string // created, for a filter
			var changed sql.NullInt64
			if err = rows.Scan(&id, &text, &name, &changed); err != nil {
				break
			}
			r := Row{SettingKey(name), text}
			if id != nil {
				r = Row{ID(id).String(), fmt.Sprintf("%s %d %s", name, changed.Int64, text)}
			}
			if !yield(r, nil) {
				return
			}
		}
		if err = errors.Join(err, rows.Err()); err != nil {
			yield(Row{}, s.explain("read filters", err))
		}
	}
}
