package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"weir/internal/config"
	"weir/internal/feed"
	"weir/internal/ingest"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
)

func newImport() *cobra.Command {
	o := feed.ImportOptions{Fallback: 50}
	var (
		out       string
		header    = "auto"
		duplicate = "merge"
		userIDs   = "auto"
		itemIDs   = "auto"
		memory    = config.Bytes(1 << 30)
	)
	cmd := &cobra.Command{
		Use:   "import SOURCE... -o FILE",
		Short: "Make feeds of the lists that a pipeline has written",
		Long: `Make feeds of the lists that a pipeline has written.

A SOURCE is a file, a directory of part files, or - for standard input: Parquet, Arrow IPC, CSV,
TSV or JSONL, plain or as .gz or .zst, whatever its name. A row is a user with a list of items, or
a user with one item and perhaps a rank or a score. Columns are guessed by their names unless
flags name them, and what was guessed is said. An existing file is replaced once the new one is
complete; on failure it stays as it is.`,
		Example: `  weir import recommendations.parquet/ -o feeds.weir
  weir import --user-column customer --score-column s *.csv.gz -o feeds.weir
  aws s3 cp s3://bucket/batch.json.out - | weir import - -o feeds.weir`,
		RunE: func(cmd *cobra.Command, sources []string) error {
			usage := func(format string, args ...any) error {
				return usageError{cmd.CommandPath(), fmt.Errorf(format, args...)}
			}
			var err error
			switch {
			case len(sources) == 0:
				return usage("say what to import: files, directories, or - for standard input")
			case out == "":
				return usage("say with -o FILE where the feeds are to go")
			case out == "-":
				return usage("-o -: the feeds go to a file, not to standard output: name one")
			case o.MaxBad < 0:
				return usage("--max-bad %d: expected 0 or more rows", o.MaxBad)
			case o.Fallback < 0 || o.Fallback > 65535:
				return usage("--fallback %d: expected 0 to 65535 items", o.Fallback)
			}
			if o.UserIDs, err = idKind("--user-ids", userIDs); err != nil {
				return usage("%w", err)
			}
			if o.ItemIDs, err = idKind("--item-ids", itemIDs); err != nil {
				return usage("%w", err)
			}
			if o.Apart, err = choice("--on-duplicate-user", duplicate, "merge", "refuse"); err != nil {
				return usage("%w", err)
			}
			if o.Ingest.Header, err = headerChoice(header); err != nil {
				return usage("%w", err)
			}
			if o.Memory = int64(memory); o.Memory < leastMemory {
				return usage("--memory %s: at least 64MiB are needed", &memory)
			}
			o.Ingest.Stdin = cmd.InOrStdin()
			return runImport(cmd, sources, out, o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&out, "output", "o", "", "`file` to write")
	f.StringVar(&o.UserColumn, "user-column", "", "`name` of the column of users, or its number in CSV without a header")
	f.StringVar(&o.ItemColumn, "item-column", "", "`name` or number of the column with one item a row, or of the member in lists of structs")
	f.StringVar(&o.ItemsColumn, "items-column", "", "`name` or number of the column with a list of items")
	f.StringVar(&o.RankColumn, "rank-column", "", "`name` or number of the column to arrange a user's items by, ascending")
	f.StringVar(&o.ScoreColumn, "score-column", "", "`name` or number of the column to arrange a user's items by, descending")
	f.StringVar(&userIDs, "user-ids", userIDs, "what users are: auto, number (0 to 18446744073709551615) or string (1 to 255 bytes)")
	f.StringVar(&itemIDs, "item-ids", itemIDs, "what items are: auto, number or string")
	f.StringVar(&header, "header", header, "whether CSV begins with the names of its columns: auto, yes or no")
	f.StringVar(&duplicate, "on-duplicate-user", duplicate, "when a user is in several files or has several lists: merge them in the order of the sources, or refuse")
	f.Int64Var(&o.MaxBad, "max-bad", 0, "how many bad rows to leave out before giving up (default 0)")
	f.IntVar(&o.Fallback, "fallback", o.Fallback, "how many of the most frequent items to keep for users who have none left, 0 to 65535")
	f.Var(&memory, "memory", "bytes for sort buffers, at least 64MiB; the process takes up to half as much again, and 32MiB")
	f.StringVar(&o.Ingest.TempDir, "temp-dir", "", "`directory` for temporary files as large as the input (default that of the output)")
	f.BoolVar(&o.Ingest.AllowIncomplete, "allow-incomplete", false, "read a directory although the job that writes it has not finished")
	cobra.CheckErr(cmd.MarkFlagDirname("temp-dir"))
	for flag, values := range map[string][]string{
		"header":            {"auto", "yes", "no"},
		"user-ids":          {"auto", "number", "string"},
		"item-ids":          {"auto", "number", "string"},
		"on-duplicate-user": {"merge", "refuse"},
	} {
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
	}
	return cmd
}

const leastMemory = 64 << 20

func runImport(cmd *cobra.Command, sources []string, out string, o feed.ImportOptions) error {
	// Garbage is collected in time rather than let grow to the size of the buffers.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(o.Memory + o.Memory/2))
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	meter := newImportMeter(cmd.ErrOrStderr(), out, &o.Ingest)
	o.Bad, o.Progress, o.Published = meter.bad, meter.update, published()

	start := time.Now()
	stats, err := feed.Import(ctx, sources, out, o)
	meter.clear()
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return errors.New("interrupted: nothing was written")
	}
	if err != nil {
		return err
	}
	return printSummary(cmd.OutOrStdout(), out, stats, time.Since(start))
}

func printSummary(w io.Writer, out string, s feed.ImportStats, took time.Duration) error {
	items := ""
	if s.Names > 0 {
		items = fmt.Sprintf(", %d different", s.Names)
	}
	_, err := fmt.Fprintf(w, `%s: %s in %.1f s
users       %d
items       %d%s
shortest    %s
longest     %s
bytes       %d (%s)
duplicates  %s left out
bad rows    %d left out
`, out, counted(s.Rows, "row"), took.Seconds(), s.Users, s.Items, items, counted(int64(s.Shortest), "item"), counted(int64(s.Longest), "item"),
		s.Bytes, byteSize(s.Bytes), counted(s.Duplicates, "item"), s.Bad)
	return err
}

// counted writes a number of things: "1 row", "2 rows".
func counted(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// importMeter shows one progress bar after the other: bytes read, with the rows a second beside
// them, and items written.
type importMeter struct {
	to    io.Writer
	phase string
	bar   *progressbar.ProgressBar
	start time.Time // of the phase, when rows had been read
	rows  int64
	last  time.Time
}

// newImportMeter returns a meter that also says what was guessed, and which rows are bad. Temporary files
// go beside the output unless o names another place.
func newImportMeter(to io.Writer, out string, o *ingest.Options) *importMeter {
	m := &importMeter{to: to}
	o.Note = m.say
	if o.TempDir == "" {
		o.TempDir = filepath.Dir(out)
	}
	return m
}

// say prints a line above the progress bar.
func (m *importMeter) say(s string) {
	m.clear()
	fmt.Fprintln(m.to, s)
}

// bad says which row is left out.
func (m *importMeter) bad(b ingest.BadRow) { m.say("left out: " + b.String()) }

// update shows how far a phase is. It is called for every batch.
func (m *importMeter) update(phase string, rows, done, total int64) {
	now := time.Now()
	if phase != m.phase {
		m.clear()
		if total == 0 {
			total = -1 // of a pipe nobody knows
		}
		unit := ""
		if phase == "writing" {
			unit = "items"
		}
		m.phase, m.start, m.rows, m.last = phase, now, rows, now // there is no rate yet to be shown
		m.bar = newBar(phase, unit, total)
	}
	if now.Sub(m.last) < 100*time.Millisecond {
		return
	}
	m.last = now
	if phase == "reading" {
		m.bar.Describe(fmt.Sprintf("reading, %s rows/s", thousands(float64(rows-m.rows)/now.Sub(m.start).Seconds())))
	}
	m.bar.Set64(done)
}

// clear takes the bar away, for what is printed next.
func (m *importMeter) clear() {
	if m.bar != nil {
		m.bar.Clear()
	}
}

// thousands writes a rate for people.
func thousands(x float64) string {
	switch {
	case x >= 1e6:
		return fmt.Sprintf("%.1fM", x/1e6)
	case x >= 1e3:
		return fmt.Sprintf("%.0fk", x/1e3)
	}
	return fmt.Sprintf("%.0f", x)
}

func idKind(flag, value string) (ingest.Kind, error) {
	for _, k := range []ingest.Kind{ingest.Auto, ingest.Number, ingest.String} {
		if value == k.String() {
			return k, nil
		}
	}
	return 0, fmt.Errorf("%s %s: expected auto, number or string", flag, value)
}

// headerChoice reads --header; nil is auto.
func headerChoice(value string) (*bool, error) {
	if value == "auto" {
		return nil, nil
	}
	no, err := choice("--header", value, "yes", "no")
	if err != nil {
		return nil, fmt.Errorf("--header %s: expected auto, yes or no", value)
	}
	yes := !no
	return &yes, nil
}

// choice reports whether a flag has the second of its two values.
func choice(flag, value, first, second string) (bool, error) {
	if value != first && value != second {
		return false, fmt.Errorf("%s %s: expected %s or %s", flag, value, first, second)
	}
	return value == second, nil
}
