// Package store keeps filters, settings and what is known of their sources in one SQLite file.
//
// Whatever a method has returned nil for is there after a kill and after a power loss: the log is synced
// at the end of each transaction. That a source was fetched is the exception. It is collected in memory,
// the latest of each source, and written in one transaction every FlushInterval and at Close, so a kill
// loses at most that long of it; a flush that fails loses nothing, as the next one writes the same and
// more.
//
// Every change is a single statement, or a transaction that only writes and takes the write lock when it
// begins: SQLite refuses, without waiting, one that has read before it writes while somebody else has
// written. Errors wrap ErrNotFound, ErrCursor, ErrChanged, ErrFull, ErrLocked or ErrDamaged where one of them
// is what is the matter. All methods are safe for concurrent use.
//
// The file is this process's alone while it is open, by one connection: the index of the log is then in
// memory of its own. As a mapped file beside the database, where SQLite has it otherwise, it would take room
// that a full disk does not have at a restart, and whoever cut it off would end the process.
//
// The driver is modernc.org/sqlite: docs/filtering.md says what it was measured against.
package store

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"weir/internal/disk"
)

// FlushInterval is how often what was fetched is written.
const FlushInterval = 2 * time.Second

// busyTimeout is how long a statement waits for a lock that another process holds.
const busyTimeout = 5 * time.Second

// What may be the matter.
var (
	ErrNotFound = errors.New("no such filter")
	ErrCursor   = errors.New("after is not what the page before has said")
	ErrChanged  = errors.New("the filter has been changed meanwhile: read it again")
	ErrFull     = errors.New("the disk is full: make room, nothing that was stored is lost")
	ErrLocked   = errors.New("another process keeps the database locked: end it, or wait until it is done")
	ErrDamaged  = errors.New("the database is damaged: restore one that weir filter backup made")
)

// migrations take a database from the version that is their index to the next.
var migrations = []string{
	`CREATE TABLE filters (
		id      BLOB PRIMARY KEY CHECK (length(id) = 16),
		spec    TEXT NOT NULL,
		created INTEGER NOT NULL,
		changed INTEGER NOT NULL,
		matches BLOB NOT NULL DEFAULT x'',
		name    TEXT NOT NULL,
		words   TEXT NOT NULL
	) STRICT, WITHOUT ROWID;
	CREATE INDEX listing ON filters (name, id, words);
	CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
	CREATE TABLE sources (
		url       TEXT PRIMARY KEY,
		fetched   INTEGER NOT NULL,
		succeeded INTEGER NOT NULL,
		next      INTEGER NOT NULL,
		failures  INTEGER NOT NULL,
		status    INTEGER NOT NULL,
		error     TEXT NOT NULL,
		gone      INTEGER NOT NULL,
		items     INTEGER NOT NULL,
		title     TEXT NOT NULL,
		tried     INTEGER NOT NULL,
		version   INTEGER NOT NULL,
		modified  INTEGER NOT NULL
	) STRICT, WITHOUT ROWID;
	CREATE TABLE fetches (
		source  TEXT NOT NULL,
		slot    INTEGER NOT NULL,
		fetched INTEGER NOT NULL,
		status  INTEGER NOT NULL,
		bytes   INTEGER NOT NULL,
		took    INTEGER NOT NULL,
		same    INTEGER NOT NULL,
		error   TEXT NOT NULL,
		detail  TEXT NOT NULL,
		PRIMARY KEY (source, slot)
	) STRICT, WITHOUT ROWID;`,
}

// Store is an open database.
type Store struct {
	db   *sql.DB
	path string
	log  *slog.Logger

	get, several, fetched, attempt, matched *sql.Stmt

	mu      sync.Mutex
	pending pending    // what is to be written
	failed  error      // of the last flush
	flushes sync.Mutex // one at a time

	stop    context.CancelFunc
	stopped sync.WaitGroup
}

// Open opens the database at path, made if there is none, checks it, and brings it to the version of this
// program.
func Open(path string, log *slog.Logger) (*Store, error) {
	name := url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()}
	pragmas := url.Values{"_txlock": {"immediate"}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "journal_mode(wal)",
		"synchronous(full)", "locking_mode(exclusive)", "cache_size(-4096)", "trusted_schema(off)",
		"journal_size_limit(4194304)"}}
	// Where locking_mode alone lets the log be opened with a shared index first.
	if runtime.GOOS != "windows" {
		pragmas.Set("vfs", "unix-excl")
	}
	name.RawQuery = pragmas.Encode()
	// SQLite would give it to everybody.
	if f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("open the filters: %w", err)
	} else if err := f.Close(); err != nil {
		return nil, fmt.Errorf("open the filters: %w", err)
	}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	s := &Store{db: db, path: path, log: log, pending: newPending()}
	if err := s.prepare(); err != nil {
		db.Close() //nolint:errcheck // it cannot be used in any case
		return nil, s.explain("open", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.stopped.Go(func() { s.flushRegularly(ctx) })
	return s, nil
}

func (s *Store) prepare() (err error) {
	var verdict string
	if err := s.db.QueryRow("PRAGMA integrity_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return fmt.Errorf("%w (%s)", ErrDamaged, verdict)
	}
	if err := s.migrate(); err != nil {
		return err
	}
	s.get, err = s.db.Prepare("SELECT spec, created, changed, matches FROM filters WHERE id = ?")
	if err != nil {
		return err
	}
	if s.several, err = s.db.Prepare("SELECT id, spec, created, changed, matches FROM filters " +
		"WHERE id IN (SELECT unhex(value) FROM json_each(?))"); err != nil {
		return err
	}
	if s.matched, err = s.db.Prepare("UPDATE filters SET matches = ? WHERE id = ?"); err != nil {
		return err
	}
	if s.fetched, err = s.db.Prepare(`INSERT OR REPLACE INTO sources
		(url, fetched, succeeded, next, failures, status, error, gone, items, title, tried, version, modified)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`); err != nil {
		return err
	}
	s.attempt, err = s.db.Prepare(`INSERT OR REPLACE INTO fetches
		(source, slot, fetched, status, bytes, took, same, error, detail)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	return err
}

// migrate applies what is missing, all of it or nothing. Where nothing is, nothing is written: there may be
// no room for it.
func (s *Store) migrate() error {
	var version int
	if err := s.db.QueryRow("PRAGMA user_version").Scan(&version); err != nil || version == len(migrations) {
		return err
	}
	if version > len(migrations) {
		return fmt.Errorf("it is of version %d, and this program knows versions up to %d: use a newer one",
			version, len(migrations))
	}
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // does nothing after Commit
	for _, statements := range migrations[version:] {
		if _, err := tx.Exec(statements); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(fmt.Sprintf("PRAGMA user_version = %d", len(migrations))); err != nil {
		return err
	}
	return tx.Commit()
}

// Close writes what is pending and closes the database. Its error says that something could not be written.
func (s *Store) Close() error {
	s.stop()
	s.stopped.Wait()
	err := s.Flush(context.Background())
	return errors.Join(err, s.explain("close", s.db.Close()))
}

// Health returns why the last flush failed, nil if it did not.
func (s *Store) Health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Add stores a new filter. An id that is taken is an error.
func (s *Store) Add(ctx context.Context, filters ...Filter) error {
	return s.write(ctx, "add a filter", func(tx *sql.Tx) error {
		insert, err := tx.PrepareContext(ctx,
			"INSERT INTO filters (id, spec, created, changed, name, words) VALUES (?, ?, ?, ?, ?, ?)")
		if err != nil {
			return err
		}
		for _, f := range filters {
			if _, err := insert.ExecContext(ctx, f.ID[:], f.Spec.encode(), f.Created.Unix(),
				f.Changed.Unix(), f.Spec.name(), f.Spec.words()); err != nil {
				return err
			}
		}
		return nil
	})
}

// Get returns a filter.
func (s *Store) Get(ctx context.Context, id ID) (Filter, error) {
	f := Filter{ID: id}
	err := f.scan(s.get.QueryRowContext(ctx, id[:]).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return f, ErrNotFound
	}
	s.overlay(&f)
	return f, s.explain("read a filter", err)
}

// Several returns those filters of ids that there are, in any order, by one statement.
func (s *Store) Several(ctx context.Context, ids []ID) ([]Filter, error) {
	list, err := idList(ids)
	if err != nil {
		return nil, err
	}
	rows, err := s.several.QueryContext(ctx, list)
	if err != nil {
		return nil, s.explain("read filters", err)
	}
	defer rows.Close()
	all := make([]Filter, 0, len(ids))
	for rows.Next() && err == nil {
		var f Filter
		if err = f.scanWithID(rows); err == nil {
			s.overlay(&f)
			all = append(all, f)
		}
	}
	return all, s.explain("read filters", errors.Join(err, rows.Err()))
}

// idList returns ids as statements take them.
func idList(ids []ID) (string, error) {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = hex.EncodeToString(id[:])
	}
	list, err := json.Marshal(names)
	return string(list), err
}

// All returns every filter, in the order of their ids. It stops at the first error. No other method may be
// called meanwhile by who iterates.
func (s *Store) All(ctx context.Context) iter.Seq2[Filter, error] {
	return func(yield func(Filter, error) bool) {
		rows, err := s.db.QueryContext(ctx,
			"SELECT id, spec, created, changed, matches FROM filters ORDER BY id")
		if err != nil {
			yield(Filter{}, s.explain("read filters", err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			var f Filter
			if err = f.scanWithID(rows); err != nil {
				break
			}
			if !yield(f, nil) {
				return
			}
		}
		if err = errors.Join(err, rows.Err()); err != nil {
			yield(Filter{}, s.explain("read filters", err))
		}
	}
}

// Update replaces a filter's specification, if it is still the one that was read.
func (s *Store) Update(ctx context.Context, read Filter, spec Spec, at time.Time) error {
	result, err := s.db.ExecContext(ctx,
		"UPDATE filters SET spec = ?, changed = ?, name = ?, words = ? WHERE id = ? AND spec = ?",
		spec.encode(), at.Unix(), spec.name(), spec.words(), read.ID[:], read.Spec.encode())
	if err != nil {
		return s.explain("change a filter", err)
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		return err
	}
	if _, err := s.Get(ctx, read.ID); err != nil {
		return err
	}
	return ErrChanged
}

// Delete removes a filter.
func (s *Store) Delete(ctx context.Context, id ID) error {
	result, err := s.db.ExecContext(ctx, "DELETE FROM filters WHERE id = ?", id[:])
	if err != nil {
		return s.explain("delete a filter", err)
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return ErrNotFound
}

// Setting returns a setting, "" if it was never set.
func (s *Store) Setting(ctx context.Context, name string) (value string, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT value FROM settings WHERE name = ?", name).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return value, s.explain("read a setting", err)
}

// Set stores a setting.
func (s *Store) Set(ctx context.Context, name, value string) error {
	_, err := s.db.ExecContext(ctx, "INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)", name,
		value)
	return s.explain("store a setting", err)
}

// Backup writes the whole database as it is now to a file; other calls wait for it. It replaces what is at
// path when the copy is complete and synced, and otherwise leaves it.
func (s *Store) Backup(ctx context.Context, path string) (err error) {
	if err := s.Flush(ctx); err != nil {
		return err
	}
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("back up to %s: it is there and is no file", path)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	defer func() {
		temp.Close() //nolint:errcheck // synced, or of no use
		if err != nil {
			os.Remove(temp.Name()) //nolint:errcheck // the error that counts is known
		}
	}()
	if _, err := s.db.ExecContext(ctx, "VACUUM INTO ?", temp.Name()); err != nil {
		return s.explain("back up", err)
	}
	if err := temp.Sync(); err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	return disk.SyncDir(filepath.Dir(path))
}

// write runs a transaction that writes.
func (s *Store) write(ctx context.Context, what string, fn func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return s.explain(what, err)
	}
	defer tx.Rollback() //nolint:errcheck // does nothing after Commit
	if err := fn(tx); err != nil {
		return s.explain(what, err)
	}
	return s.explain(what, tx.Commit())
}

// explain says of an error of SQLite what to do about it.
func (s *Store) explain(what string, err error) error {
	if err == nil {
		return nil
	}
	kind := error(nil)
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_FULL:
			kind = ErrFull
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
			kind = ErrLocked
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
			kind = ErrDamaged
		case sqlite3.SQLITE_IOERR:
			if strings.Contains(err.Error(), "full") {
				kind = ErrFull
			}
		}
	}
	if kind == nil {
		return fmt.Errorf("%s: %s: %w", what, s.path, err)
	}
	return fmt.Errorf("%s: %s: %w (%w)", what, s.path, kind, err)
}
