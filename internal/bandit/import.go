package bandit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"weir/internal/bandit/arms"
	"weir/internal/ingest"
)

// ImportOptions says how sources become a file of arms.
type ImportOptions struct {
	Ingest ingest.Options

	// Columns by name or, in CSV without a header, by number from 1; "" guesses.
	ItemColumn, SegmentColumn, UserColumn, AlphaColumn, BetaColumn, ClicksColumn, ImpressionsColumn string

	MaxBad     int64      // bad rows to tolerate
	Prior      [2]float64 // what clicks and impressions are added to
	Duplicates arms.Duplicates

	// Bad is told of the first bad rows, Progress how much of a phase is done, in units of its own.
	// Either may be nil.
	Bad      func(ingest.BadRow)
	Progress func(phase string, rows, done, total int64)
}

// ImportStats says what became of the sources.
type ImportStats struct {
	arms.Stats
	Rows int64 // read, bad ones included
	Bad  int64 // rows left out
}

// ErrNoArms is wrapped by the error of an import that found no arm at all.
var ErrNoArms = errors.New("no arms to import")

// The fields of an import, in the order of the batches' columns.
const (
	itemColumn = iota
	segmentColumn
	userColumn
	alphaColumn
	betaColumn
	clicksColumn
	impressionsColumn
)

func (o *ImportOptions) fields() []ingest.Field {
	id := func(name, column, flag string, guess ...string) ingest.Field {
		// Rows of items, of segments and of users may be mixed.
		return ingest.Field{Name: name, IDs: ingest.String, Column: column, Flag: flag, Guess: guess,
			Optional: true, Nullable: true, Sparse: name != "item"}
	}
	number := func(name, column, flag, ranged string, is func(float64) bool, guess ...string) ingest.Field {
		return ingest.Field{Name: name, Type: ingest.Float, Column: column, Flag: flag, Guess: guess,
			Optional: true, Range: is, Ranged: ranged, Text: true}
	}
	count := func(x float64) bool { return x >= 0 && x <= math.MaxFloat64 }
	const shape, counted = "a finite number above 0", "a finite number, 0 or above"
	return []ingest.Field{
		itemColumn: id("item", o.ItemColumn, "--item-column", "item", "itemid", "iid", "product", "productid",
			"movie", "movieid", "content", "contentid",
			"article", "articleid", "video", "videoid", "track", "trackid", "post", "postid", "sku", "arm",
			"armid", "id"),
		segmentColumn: id("segment", o.SegmentColumn, "--segment-column", "segment", "segmentid", "cluster",
			"clusterid", "cohort", "group", "groupid"),
		userColumn: id("user", o.UserColumn, "--user-column", "user", "userid", "uid", "customer",
			"customerid", "visitor", "visitorid",
			"member", "memberid", "account", "accountid", "profile", "profileid"),
		alphaColumn: number("alpha", o.AlphaColumn, "--alpha-column", shape, arms.ValidShape, "alpha", "a"),
		betaColumn:  number("beta", o.BetaColumn, "--beta-column", shape, arms.ValidShape, "beta", "b"),
		clicksColumn: number("clicks", o.ClicksColumn, "--clicks-column", counted, count, "clicks", "click",
			"successes", "conversions", "rewards"),
		impressionsColumn: number("impressions", o.ImpressionsColumn, "--impressions-column", counted, count,
			"impressions", "impression", "views", "trials", "pulls", "shown"),
	}
}

// ImportArms reads sources (see [ingest.Open]) and writes a file of arms to path. A source with items holds
// posteriors: alpha and beta, or clicks and impressions, of an item, or with a segment or a user of the item
// for these. A source with users and segments and no items says of which segment users are. On failure
// there is no file, and one that was there before stays as it was.
func ImportArms(ctx context.Context, sources []string, path string, o ImportOptions) (ImportStats, error) {
	if o.Progress == nil {
		o.Progress = func(string, int64, int64, int64) {}
	}
	if err := ingest.CheckReplaced(path, sources); err != nil {
		return ImportStats{}, err
	}
	w, err := arms.Create(path, arms.Options{Duplicates: o.Duplicates, Prior: o.Prior,
		TempDir: o.Ingest.TempDir})
	if err != nil {
		return ImportStats{}, err
	}
	defer w.Abort()
	m := &armImporter{o: o, out: w, account: ingest.Account{Max: o.MaxBad, Report: o.Bad}}
	m.fields = o.fields()
	for i := range m.fields { // of several sources one has users, say, and only the others have alphas
		m.fields[i].Elsewhere = len(sources) > 1
	}
	m.found = make([]bool, len(m.fields))
	for _, source := range sources {
		if err := m.read(ctx, source); err != nil {
			return ImportStats{}, err
		}
	}
	for i, f := range m.fields {
		if f.Column != "" && !m.found[i] {
			return ImportStats{}, fmt.Errorf("%s %s: no source has such a column", f.Flag, f.Column)
		}
	}
	if m.arms == 0 && (m.ofArms || m.users == 0) {
		// A pipeline that had a bad day must not make everybody forget.
		return ImportStats{}, fmt.Errorf("%w: %d rows were read and %d of them were bad", ErrNoArms, m.rows,
			m.account.Count())
	}
	stats, err := w.Commit(func(done, total uint64) {
		o.Progress("writing", int64(done), int64(done), int64(total))
	})
	if err != nil {
		return ImportStats{}, m.explain(err)
	}
	return ImportStats{stats, m.rows, m.account.Count()}, nil
}

// armImporter is one import under way.
type armImporter struct {
	o       ImportOptions
	out     *arms.Writer
	account ingest.Account
	rows    int64
	arms    uint64 // added
	users   uint64
	ofArms  bool // there was a source of arms, and not of users alone
	fields  []ingest.Field
	found   []bool // which of the fields any source had
	origins []origin
}

// origin remembers from which source rows are, for messages.
type origin struct {
	source      string
	arms, users uint64 // added before
}

// read reads one source. Each may be of a make of its own: items, items for segments, users.
func (m *armImporter) read(ctx context.Context, source string) error {
	in, err := ingest.Open(ctx, []string{source}, m.o.Ingest)
	if err != nil {
		return err
	}
	defer in.Close()
	plan, err := in.Plan(m.fields)
	var unlike *ingest.UnlikeError
	if errors.As(err, &unlike) {
		return fmt.Errorf("%w, or give each as a source of its own, in one command", err)
	}
	if err != nil {
		return err
	}
	for i, found := range plan.Found {
		m.found[i] = m.found[i] || found
	}
	add, used, err := m.kindOf(source, plan)
	if err != nil {
		return err
	}
	for i := range m.fields { // what it is not of may hold anything
		if !slices.Contains(used, i) {
			plan.Leave(i)
		}
	}
	last := -1
	err = plan.Read(ctx, &m.account, func(b *ingest.Batch) error {
		if b.Source != last {
			last = b.Source
			m.origins = append(m.origins, origin{in.Sources[b.Source], m.arms, m.users})
		}
		p := &in.Progress
		m.o.Progress("reading", p.Rows.Load(), p.Bytes.Load(), p.Total.Load())
		for i := range b.Rows {
			if err := add(in.Sources[b.Source], b, i); err != nil {
				return err
			}
		}
		return nil
	})
	m.rows += in.Progress.Rows.Load()
	return err
}

// kindOf decides by the columns what the rows of a source are, and returns what adds one, and the columns
// it looks at.
func (m *armImporter) kindOf(source string, plan *ingest.Plan) (add func(string, *ingest.Batch, int) error,
	used []int, err error) {
	found := plan.Found
	m.ofArms = m.ofArms || found[itemColumn]
	shapes, counts := found[alphaColumn] && found[betaColumn], found[clicksColumn] && found[impressionsColumn]
	named := m.o.ClicksColumn != "" || m.o.ImpressionsColumn != ""
	arm := func(counts bool, posterior ...int) (func(string, *ingest.Batch, int) error, []int, error) {
		add := func(file string, b *ingest.Batch, i int) error { return m.addArm(file, b, i, counts) }
		return add, append(posterior, itemColumn, segmentColumn, userColumn), nil
	}
	switch {
	case !found[itemColumn] && found[userColumn] && found[segmentColumn]:
		return m.addUser, []int{userColumn, segmentColumn}, nil
	case !found[itemColumn]:
		err = errors.New("no column looks like the item: name it with --item-column (or have columns user " +
			"and segment, to say who is in which)")
	case counts && (named || !shapes):
		return arm(true, clicksColumn, impressionsColumn)
	case shapes:
		return arm(false, alphaColumn, betaColumn)
	case found[alphaColumn] || found[betaColumn]:
		err = errors.New("alpha and beta go together: name the other with --alpha-column or --beta-column")
	case found[clicksColumn] || found[impressionsColumn]:
		err = errors.New("clicks and impressions go together: name the other with --clicks-column or " +
			"--impressions-column")
	default:
		err = errors.New("no columns look like alpha and beta, nor like clicks and impressions: name them " +
			"with --alpha-column and --beta-column, or --clicks-column and --impressions-column")
	}
	return nil, nil, fmt.Errorf("%s: %w; %s", source, err, plan.Missing(itemColumn, alphaColumn, betaColumn,
		clicksColumn, impressionsColumn))
}

// text returns the id in a column, nil where there is none.
func text(b *ingest.Batch, column, i int) []byte {
	c := &b.Columns[column]
	if len(c.Ends) == 0 {
		return nil
	}
	return c.String(i)
}

// bad gives account of a row whose fields do not go together.
func (m *armImporter) bad(file string, b *ingest.Batch, i int, field, want, found string) error {
	return m.account.Add(ingest.BadRow{File: file, Row: b.Number(i), Field: field, Want: want, Found: found})
}

func (m *armImporter) addUser(file string, b *ingest.Batch, i int) error {
	user, segment := text(b, userColumn, i), text(b, segmentColumn, i)
	switch {
	case len(user) == 0:
		return m.bad(file, b, i, "user", "an id", "none")
	case len(segment) == 0:
		return nil // a user of no segment
	}
	m.users++
	return m.out.AddUser(arms.KeyOf(user), string(segment))
}

func (m *armImporter) addArm(file string, b *ingest.Batch, i int, counts bool) error {
	item, segment, user := text(b, itemColumn, i), text(b, segmentColumn, i), text(b, userColumn, i)
	if len(item) == 0 {
		return m.bad(file, b, i, "item", "an id", "none")
	}
	if len(segment) > 0 && len(user) > 0 {
		return m.bad(file, b, i, "item "+string(item), "a segment or a user", "both")
	}
	// A name that was given may turn up in any row.
	m.found[segmentColumn] = m.found[segmentColumn] || len(segment) > 0
	m.found[userColumn] = m.found[userColumn] || len(user) > 0
	level, k := arms.Item, arms.KeyOf(item)
	var scope arms.Scope
	switch {
	case len(segment) > 0:
		level, scope = arms.Segmented, arms.SegmentScope(arms.KeyOf(segment))
	case len(user) > 0:
		level, scope = arms.Pair, arms.UserScope(arms.KeyOf(user))
	}
	var clicks, impressions float64
	if counts {
		clicks, impressions = b.Columns[clicksColumn].Floats[i], b.Columns[impressionsColumn].Floats[i]
		if clicks > impressions {
			return m.bad(file, b, i, "item "+string(item), "at most as many clicks as impressions",
				fmt.Sprintf("%v clicks and %v impressions", clicks, impressions))
		}
	}
	if level != arms.Item {
		if err := m.out.Hint(k, scope); err != nil {
			return err
		}
		k = scope.Key(k)
	}
	m.arms++
	if !counts {
		return m.out.Add(level, k, b.Columns[alphaColumn].Floats[i], b.Columns[betaColumn].Floats[i])
	}
	return m.out.AddCounts(level, k, clicks, impressions-clicks)
}

// explain says which rows are of the same arm, or user. A batch does not say on which line a row was.
func (m *armImporter) explain(err error) error {
	var twice *arms.DuplicateError
	if !errors.As(err, &twice) {
		return err
	}
	what, how := "arm", "--on-duplicate last takes the later one, --on-duplicate sum adds them up"
	if twice.User {
		what, how = "user", "--on-duplicate last takes the later one"
	}
	where := func(n uint64) string {
		for i := len(m.origins) - 1; ; i-- {
			from := m.origins[i].arms
			if twice.User {
				from = m.origins[i].users
			}
			if n >= from {
				return fmt.Sprintf("%s %d of %s", what, n-from+1, m.origins[i].source)
			}
		}
	}
	return fmt.Errorf("%s and %s, counted without headers and rows left out, are the same: %s",
		where(twice.First), where(twice.Second), how)
}
