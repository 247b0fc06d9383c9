package feed

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"weir/internal/disk"
	"weir/internal/feed/snapshot"
	"weir/internal/ingest"
	"weir/internal/server"
)

// ImportOptions says how sources become a snapshot.
type ImportOptions struct {
	Ingest ingest.Options

	// Columns by name or, in CSV without a header, by number from 1; "" guesses. ItemsColumn is one
	// of lists; with it, or with a guessed one, ItemColumn is the member when these are of structs.
	UserColumn, ItemColumn, ItemsColumn, RankColumn, ScoreColumn string
	UserIDs, ItemIDs                                             ingest.Kind

	MaxBad   int64 // bad rows to tolerate
	Apart    bool  // refuse a user that is in several sources, or has several lists
	Memory   int64 // bytes for sorting; half of them are for names if items have names
	Fallback int   // how many of the most frequent items to keep as fallback, 0 to keep none

	// Published is when the lists were made, see snapshot.Options.
	Published time.Time

	// Bad is told of the first bad rows, Progress how much of a phase is done, in units of its own.
	// Either may be nil.
	Bad      func(ingest.BadRow)
	Progress func(phase string, rows, done, total int64)
}

// ErrNoLists is wrapped by the error of an import that found no user at all.
var ErrNoLists = errors.New("no lists to import")

// ImportStats says what became of the sources.
type ImportStats struct {
	snapshot.Stats
	Rows       int64 // read, bad ones included
	Bad        int64 // rows left out
	Duplicates int64 // items left out because they were further ahead in the same list
}

// The fields of an import, in the order of the batches' columns.
const (
	userField = iota
	itemField
	rankField
	scoreField
)

// fields says what to look for. The names are those that the usual programs write: Spark's ALS,
// Amazon Personalize, LightFM and implicit by way of pandas, and weir. "1" and "2" are columns of
// CSV without a header.
func (o *ImportOptions) fields() []ingest.Field {
	return []ingest.Field{
		userField: {
			Name: "user", IDs: o.UserIDs, KindFlag: "--user-ids", Column: o.UserColumn, Flag: "--user-column",
			Guess: []string{"user", "userid", "uid", "input.userid", "customer", "customerid", "visitor",
				"visitorid",
				"member", "memberid", "account", "accountid", "profile", "profileid", "1"},
		},
		itemField: {
			Name: "item", IDs: o.ItemIDs, KindFlag: "--item-ids", Column: o.ItemColumn, Flag: "--item-column",
			Guess: []string{"item", "itemid", "iid", "product", "productid", "movie", "movieid", "content",
				"contentid",
				"article", "articleid", "video", "videoid", "track", "trackid", "post", "postid", "sku", "id",
				"2"},
			Rest: true, List: true, ListColumn: o.ItemsColumn, ListFlag: "--items-column",
			GuessList: []string{"items", "itemids", "recommendations", "recommendeditems",
				"output.recommendeditems",
				"recommended", "recs", "predictions", "feed", "list"},
		},
		rankField: {
			Name: "rank", Type: ingest.Float, Column: o.RankColumn, Flag: "--rank-column", Optional: true,
			Guess: []string{"rank", "ranking", "position", "pos", "rn", "rownumber"},
		},
		scoreField: {
			Name: "score", Type: ingest.Float, Column: o.ScoreColumn, Flag: "--score-column", Optional: true,
			Guess: []string{"score", "rating", "prediction", "relevance", "weight", "probability"},
		},
	}
}

// Import reads sources (see [ingest.Open]) and writes a snapshot of their lists to path. A user's
// items are in the order of their list or, of rows of one item each, in ascending order of rank or
// descending order of score, else as they come. Lists of one user are put together in the order of
// the sources. On failure there is no file, and one that was there before stays as it was.
func Import(ctx context.Context, sources []string, path string, o ImportOptions) (ImportStats, error) {
	if o.RankColumn != "" && o.ScoreColumn != "" {
		return ImportStats{},
			&server.FlagError{Err: errors.New(
				"--rank-column and --score-column: one of them arranges the items, name only one")}
	}
	// What cannot be written is said now, and not after an hour of reading.
	if err := ingest.CheckReplaced(path, sources); err != nil {
		return ImportStats{}, err
	}
	if err := checkOutput(path); err != nil {
		return ImportStats{}, err
	}
	o.Ingest.Memory = o.Memory
	in, err := ingest.Open(ctx, sources, o.Ingest)
	if err != nil {
		return ImportStats{}, err
	}
	defer in.Close()
	plan, err := in.Plan(o.fields())
	if err != nil {
		return ImportStats{}, err
	}
	m := &importer{o: o, in: in, plan: plan, account: ingest.Account{Max: o.MaxBad, Report: o.Bad}}
	if m.o.Progress == nil {
		m.o.Progress = func(string, int64, int64, int64) {}
	}
	if m.o.Ingest.TempDir == "" {
		m.o.Ingest.TempDir = filepath.Dir(path)
	}
	return m.run(ctx, path)
}

// checkOutput makes sure that a file can be put at path.
func checkOutput(path string) error {
	probe, err := disk.CreateAtomic(path)
	if err != nil {
		return err
	}
	return probe.Abort()
}

// importer is one import under way.
type importer struct {
	o       ImportOptions
	in      *ingest.Input
	plan    *ingest.Plan
	account ingest.Account
	sorter  *ingest.Sorter

	names *ingest.Table // of items, numbered as they come
	rank  []uint64      // of the names by number: the items of the snapshot

	items []uint64  // scratch
	order []float64 // scratch
	stats ImportStats
}

func (m *importer) run(ctx context.Context, path string) (_ ImportStats, err error) {
	memory := m.o.Memory
	if m.plan.Kinds[itemField] == ingest.String {
		m.names = ingest.NewTable()
		memory /= 2
	}
	m.sorter, err = ingest.NewSorter(ingest.SortOptions{
		Dir: m.o.Ingest.TempDir, Memory: memory, Keys: m.plan.Kinds[userField], Apart: m.o.Apart,
	})
	if err != nil {
		return ImportStats{}, err
	}
	defer m.sorter.Close()
	if err := m.plan.Read(ctx, &m.account, m.add); err != nil {
		return ImportStats{}, err
	}
	users, err := m.sorter.CountKeys(ctx)
	if err != nil {
		return ImportStats{}, err
	}
	if users == 0 {
		// A pipeline that had a bad day must not leave everybody without a feed.
		return ImportStats{}, fmt.Errorf("%w: %d rows were read and %d of them were bad", ErrNoLists,
			m.in.Progress.Rows.Load(), m.account.Count())
	}
	if err := m.write(ctx, path, users); err != nil {
		return ImportStats{}, m.explain(err)
	}
	m.stats.Rows, m.stats.Bad = m.in.Progress.Rows.Load(), m.account.Count()
	return m.stats, nil
}

// add hands a batch to the sorter.
func (m *importer) add(b *ingest.Batch) error {
	users, items := &b.Columns[userField], &b.Columns[itemField]
	values := items.Numbers
	if m.names != nil {
		m.items = m.items[:0]
		for i := range items.Ends {
			m.items = append(m.items, uint64(m.names.Add(items.String(i))))
		}
		if values = m.items; m.names.Size() > m.o.Memory/2 {
			return fmt.Errorf("the names of %d items take more than half of --memory: raise it, or number "+
				"the items", m.names.Len())
		}
	}
	p := &m.in.Progress
	m.o.Progress("reading", p.Rows.Load(), p.Bytes.Load(), p.Total.Load())
	if m.plan.Lists {
		return m.sorter.AddLists(b.Source, users, values, items.Lists)
	}
	return m.sorter.AddRows(b.Source, users, values, m.arrangement(b))
}

// arrangement returns what the items of a user are to be sorted by, ascending; nil is nothing.
func (m *importer) arrangement(b *ingest.Batch) []float64 {
	switch {
	case m.plan.Found[rankField] && m.o.ScoreColumn == "":
		return b.Columns[rankField].Floats
	case m.plan.Found[scoreField]:
		m.order = m.order[:0]
		for _, score := range b.Columns[scoreField].Floats {
			m.order = append(m.order, -score)
		}
		return m.order
	}
	return nil
}

// write merges the sorted rows into a snapshot.
func (m *importer) write(ctx context.Context, path string, users uint64) error {
	o := snapshot.Options{UserCount: users, MaxUser: m.sorter.MaxKey, MaxItem: m.sorter.MaxValue,
		Fallback: m.o.Fallback, Published: m.o.Published}
	if o.Fallback == 0 {
		o.Fallback = -1
	}
	if m.plan.Kinds[userField] == ingest.String {
		o.Users = snapshot.String
	}
	if m.names != nil {
		// Numbered by their bytes, the file does not depend on which item came first.
		sorted := m.names.Sorted()
		m.rank = make([]uint64, len(sorted))
		for i, n := range sorted {
			m.rank[n] = uint64(i)
		}
		o.Items, o.Names = snapshot.String, m.names.All(sorted)
		o.MaxItem = uint64(max(1, len(sorted)) - 1)
	}
	w, err := snapshot.Create(path, o)
	if err != nil {
		return err
	}
	defer w.Abort()
	var seen itemSet
	done, written := uint64(0), 0
	err = m.sorter.Merge(ctx, func(g *ingest.Groups) { m.distinct(g, &seen) }, func(g *ingest.Groups) error {
		done += uint64(len(g.Values))
		m.o.Progress("writing", int64(done), int64(done), int64(m.sorter.Values))
		from := 0
		for i, end := range g.Ends {
			ok, err := m.writeList(w, g, i, g.Values[from:end])
			if err != nil {
				return err
			}
			if from = int(end); ok {
				written++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if written == 0 {
		return fmt.Errorf("%w: %d rows were read and %d users had too many items", ErrNoLists,
			m.in.Progress.Rows.Load(), users)
	}
	// What of the spill file has not reached the disk yet need not, and Commit has the disk to itself.
	if err := m.sorter.Close(); err != nil {
		return err
	}
	m.stats.Stats, err = w.Commit()
	return err
}

// distinct takes the items out that are further ahead in the same list, and puts ranks in place of
// names. It works on one batch while another is written.
func (m *importer) distinct(g *ingest.Groups, seen *itemSet) {
	if m.rank != nil {
		for i, n := range g.Values {
			g.Values[i] = m.rank[n]
		}
	}
	from, kept := 0, 0
	for i, end := range g.Ends {
		if _, cut := g.Cut[i]; cut { // will be left out
			m.stats.Duplicates -= int64(end) - int64(from)
			from, g.Ends[i] = int(end), uint32(kept)
			continue
		}
		seen.reset(int(end) - from)
		for _, item := range g.Values[from:end] {
			g.Values[kept] = item
			if seen.add(item) {
				kept++
			}
		}
		from, g.Ends[i] = int(end), uint32(kept)
	}
	m.stats.Duplicates += int64(len(g.Values) - kept)
	g.Values = g.Values[:kept]
}

// writeList writes the list of a key; written is false when it is too long and left out.
func (m *importer) writeList(w *snapshot.Writer, g *ingest.Groups, i int, items []uint64) (written bool,
	err error) {
	name := ""
	if len(g.Keys.Ends) > 0 {
		name = string(g.Keys.String(i))
	}
	found := ""
	if n, cut := g.Cut[i]; cut {
		found = fmt.Sprintf("%d, duplicates included", n)
	} else if len(items) > snapshot.MaxListLen {
		found = fmt.Sprint(len(items))
	}
	if found != "" {
		user := name
		if name == "" {
			user = fmt.Sprint(g.Keys.Numbers[i])
		}
		return false, m.account.Add(ingest.BadRow{
			File: "all sources", Field: "user " + user,
			Want: fmt.Sprintf("at most %d items", snapshot.MaxListLen), Found: found,
		})
	}
	if name != "" {
		return true, w.AddString(name, items)
	}
	return true, w.AddNumber(g.Keys.Numbers[i], items)
}

// explain puts the names of sources into an error of the sorter.
func (m *importer) explain(err error) error {
	var shared *ingest.SharedKeyError
	if !errors.As(err, &shared) {
		return err
	}
	const hint = "--on-duplicate-user merge puts them together, in the order of the sources"
	first, second := m.in.Sources[shared.First], m.in.Sources[shared.Second]
	if first == second {
		return fmt.Errorf("user %s has several lists in %s: %s", shared.Key, first, hint)
	}
	return fmt.Errorf("user %s is in %s and in %s: %s", shared.Key, first, second, hint)
}

// itemSet is a set of items, by Fibonacci hashing, that is emptied for every list. Emptying costs nothing:
// an entry counts only if its list is the present one. A list of 200 fits the first-level cache.
type itemSet struct {
	entries []itemEntry
	list    uint64
	shift   uint
}

type itemEntry struct{ item, list uint64 }

// reset empties the set and makes room for n items.
func (s *itemSet) reset(n int) {
	s.list++
	if 2*n > len(s.entries) {
		size := 512
		s.shift = 64 - 9
		for size < 2*n {
			size *= 2
			s.shift--
		}
		s.entries = make([]itemEntry, size)
		s.list = 1
	}
}

// add reports whether the item was not there yet.
func (s *itemSet) add(item uint64) bool {
	mask := uint64(len(s.entries) - 1)
	for at := item * golden >> s.shift; ; at = (at + 1) & mask {
		e := &s.entries[at]
		if e.list != s.list {
			*e = itemEntry{item, s.list}
			return true
		}
		if e.item == item {
			return false
		}
	}
}
