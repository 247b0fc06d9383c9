package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"maps"
	"slices"
	"time"
)

// Fetch is what is known of a source: how fetching it went last.
type Fetch struct {
	Fetched   time.Time // when it was tried last
	Succeeded time.Time // when that worked last
	Next      time.Time // when it is to be tried again
	Failures  int       // since it worked last
	Status    int       // of the answer, 0 where there was none
	Error     string    // of the last failure, "" after a success
	Gone      bool      // the source has said that it is gone for good
	Items     int64     // how many items it has had that were new
	Title     string    // that the source has given itself
	Tried     int       // how often it was tried in all
	Version   uint64    // of the content that it had when it worked last
	Modified  time.Time // when that content was first seen
	Attempt
}

// Attempt is what is known of one try, besides what Fetch says of the last.
type Attempt struct {
	Bytes  int64         // of the content, 0 where there was none
	Took   time.Duration // until all of it was there, or the failure
	Same   bool          // the content was that of the time before
	Detail string        // of a failure: all that is known of it, for the owner alone
}

// Attempts is how many fetches of a source are remembered.
const Attempts = 20

// pending is what is to be written.
type pending struct {
	fetched map[string][]Fetch // by URL, the latest last
	matched map[ID][]Match     // the latest of each
}

func newPending() pending { return pending{make(map[string][]Fetch), make(map[ID][]Match)} }

// Fetched remembers how fetching a source went: the latest as what is known of it, and each, told apart by
// Tried, in its history.
func (s *Store) Fetched(source string, f Fetch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending.fetched[source] = latest(append(s.pending.fetched[source], f))
}

// Matched remembers when the rules of a filter have matched, in place of what was known of them. It keeps m.
func (s *Store) Matched(id ID, m []Match) {
	s.mu.Lock()
	s.pending.matched[id] = m
	s.mu.Unlock()
}

// overlay gives a filter that was read what is not yet written of it.
func (s *Store) overlay(f *Filter) {
	s.mu.Lock()
	if m, ok := s.pending.matched[f.ID]; ok {
		f.Matches = m
	}
	s.mu.Unlock()
}

// latest returns as many fetches as are remembered.
func latest(all []Fetch) []Fetch { return all[max(0, len(all)-Attempts):] }

// Sources returns all that is known, but for what only History says, what is not yet written included.
func (s *Store) Sources(ctx context.Context) (map[string]Fetch, error) {
	rows, err := s.db.QueryContext(ctx,
		"SELECT url, fetched, succeeded, next, failures, status, error, gone, items, title, tried, version, "+
			"modified FROM sources")
	if err != nil {
		return nil, s.explain("read sources", err)
	}
	defer rows.Close()
	all := make(map[string]Fetch)
	for rows.Next() {
		var f Fetch
		var url string
		var fetched, succeeded, next, version, modified int64
		err := rows.Scan(&url, &fetched, &succeeded, &next, &f.Failures, &f.Status, &f.Error, &f.Gone,
			&f.Items, &f.Title, &f.Tried, &version, &modified)
		if err != nil {
			return nil, s.explain("read sources", err)
		}
		f.Fetched, f.Succeeded, f.Next = fromMillis(fetched), fromMillis(succeeded), fromMillis(next)
		f.Version, f.Modified = uint64(version), fromMillis(modified)
		all[url] = f
	}
	if err := rows.Err(); err != nil {
		return nil, s.explain("read sources", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for url, fetches := range s.pending.fetched {
		all[url] = fetches[len(fetches)-1]
	}
	return all, nil
}

// History returns the last fetches of a source, the latest first: when, and what status, bytes, time and
// error.
func (s *Store) History(ctx context.Context, source string) (all []Fetch, err error) {
	s.flushes.Lock() // what is being written is either pending or there
	defer s.flushes.Unlock()
	rows, err := s.db.QueryContext(ctx,
		"SELECT fetched, status, bytes, took, same, error, detail FROM fetches WHERE source = ? "+
			"ORDER BY fetched", source)
	if err != nil {
		return nil, s.explain("read fetches", err)
	}
	defer rows.Close()
	for rows.Next() {
		var f Fetch
		var fetched, took int64
		if err := rows.Scan(&fetched, &f.Status, &f.Bytes, &took, &f.Same, &f.Error, &f.Detail); err != nil {
			return nil, s.explain("read fetches", err)
		}
		f.Fetched, f.Took = fromMillis(fetched), time.Duration(took)*time.Microsecond
		all = append(all, f)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all = latest(append(all, s.pending.fetched[source]...))
	slices.Reverse(all)
	return all, s.explain("read fetches", rows.Err())
}

// Forget removes sources that no filter has.
func (s *Store) Forget(ctx context.Context, sources ...string) error {
	s.flushes.Lock() // what is being written is not removed before it is there
	defer s.flushes.Unlock()
	s.mu.Lock()
	for _, source := range sources {
		delete(s.pending.fetched, source)
	}
	s.mu.Unlock()
	return s.write(ctx, "forget sources", func(tx *sql.Tx) error {
		for _, source := range sources {
			for _, statement := range []string{"DELETE FROM sources WHERE url = ?",
				"DELETE FROM fetches WHERE source = ?"} {
				if _, err := tx.ExecContext(ctx, statement, source); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Flush writes what was fetched and has matched, in one transaction. When that fails all of it stays pending.
func (s *Store) Flush(ctx context.Context) error {
	s.flushes.Lock()
	defer s.flushes.Unlock()
	s.mu.Lock()
	batch := s.pending
	s.pending = newPending()
	s.mu.Unlock()
	var err error
	if len(batch.fetched)+len(batch.matched) > 0 {
		err = s.write(ctx, "write what was fetched", func(tx *sql.Tx) error {
			latest, attempt := tx.StmtContext(ctx, s.fetched), tx.StmtContext(ctx, s.attempt)
			for source, fetches := range batch.fetched {
				f := fetches[len(fetches)-1]
				if _, err := latest.ExecContext(ctx, source, toMillis(f.Fetched), toMillis(f.Succeeded),
					toMillis(f.Next), f.Failures, f.Status, f.Error, f.Gone, f.Items, f.Title,
					f.Tried, int64(f.Version), toMillis(f.Modified)); err != nil {
					return err
				}
				for _, f := range fetches {
					if _, err := attempt.ExecContext(ctx, source, f.Tried%Attempts, toMillis(f.Fetched),
						f.Status, f.Bytes, f.Took.Microseconds(), f.Same, f.Error, f.Detail); err != nil {
						return err
					}
				}
			}
			update := tx.StmtContext(ctx, s.matched)
			for id, m := range batch.matched {
				blob, err := binary.Append([]byte{}, binary.LittleEndian, m)
				if err == nil {
					_, err = update.ExecContext(ctx, blob, id[:])
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed = err; err != nil {
		for source, later := range s.pending.fetched {
			batch.fetched[source] = latest(append(batch.fetched[source], later...))
		}
		maps.Copy(batch.matched, s.pending.matched) // what came meanwhile is later
		s.pending = batch
	}
	return err
}

func (s *Store) flushRegularly(ctx context.Context) {
	ticker := time.NewTicker(FlushInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			before := s.Health()
			// Cancelled by nothing: a flush under way is not worth throwing away.
			if err := s.Flush(context.WithoutCancel(ctx)); err != nil && before == nil {
				s.log.Warn("what was fetched could not be written; it stays in memory and is tried again",
					"error", err)
			}
		}
	}
}

func toMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
