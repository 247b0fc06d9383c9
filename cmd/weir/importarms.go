package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"weir/internal/bandit"
	"weir/internal/bandit/arms"

	"github.com/spf13/cobra"
)

func newImportArms() *cobra.Command {
	var (
		o         bandit.ImportOptions
		out       string
		header    = "auto"
		duplicate = "refuse"
		prior     = "1,1"
	)
	cmd := &cobra.Command{
		Use:   "import-arms SOURCE... -o FILE",
		Short: "Make arms for predictions of the posteriors that a pipeline has written",
		Long: `Make arms for predictions of the posteriors that a pipeline has written.

A SOURCE is a file, a directory of part files, or - for standard input: Parquet, Arrow IPC, CSV,
TSV or JSONL, plain or as .gz or .zst, whatever its name. A row is an item with alpha and beta, or
with clicks and impressions, which are added to the prior; with a segment or a user it is the item's
posterior for these alone. A source with users and segments and no items says of which segment
users are. Sources of all kinds may be given together. Columns are guessed by their names unless flags
name them, and what was guessed is said. An existing file is replaced once the new one is complete;
on failure it stays as it is.`,
		Example: `  weir import-arms posteriors.parquet/ -o arms.weir
  weir import-arms items.csv by-segment.csv users.csv -o arms.weir
  weir import-arms --clicks-column wins --impressions-column shown --on-duplicate sum days/*.jsonl.gz -o arms.weir`,
		RunE: func(cmd *cobra.Command, sources []string) error {
			usage := func(format string, args ...any) error {
				return usageError{cmd.CommandPath(), fmt.Errorf(format, args...)}
			}
			var err error
			switch {
			case len(sources) == 0:
				return usage("say what to import: files, directories, or - for standard input")
			case out == "":
				return usage("say with -o FILE where the arms are to go")
			case out == "-":
				return usage("-o -: the arms go to a file, not to standard output: name one")
			case o.MaxBad < 0:
				return usage("--max-bad %d: expected 0 or more rows", o.MaxBad)
			}
			switch duplicate {
			case "refuse":
				o.Duplicates = arms.Refuse
			case "last":
				o.Duplicates = arms.Last
			case "sum":
				o.Duplicates = arms.Sum
			default:
				return usage("--on-duplicate %s: expected refuse, last or sum", duplicate)
			}
			if o.Prior, err = bandit.ParsePrior(prior); err != nil {
				return usage("--prior %s: %w", prior, err)
			}
			if o.Ingest.Header, err = headerChoice(header); err != nil {
				return usage("%w", err)
			}
			o.Ingest.Stdin = cmd.InOrStdin()
			return runImportArms(cmd, sources, out, o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&out, "output", "o", "", "`file` to write")
	f.StringVar(&o.ItemColumn, "item-column", "", "`name` of the column of items, or its number in CSV without a header")
	f.StringVar(&o.SegmentColumn, "segment-column", "", "`name` or number of the column of segments of users")
	f.StringVar(&o.UserColumn, "user-column", "", "`name` or number of the column of users")
	f.StringVar(&o.AlphaColumn, "alpha-column", "", "`name` or number of the column of alphas, above 0")
	f.StringVar(&o.BetaColumn, "beta-column", "", "`name` or number of the column of betas, above 0")
	f.StringVar(&o.ClicksColumn, "clicks-column", "", "`name` or number of the column of clicks; with it they win over alpha and beta")
	f.StringVar(&o.ImpressionsColumn, "impressions-column", "", "`name` or number of the column of impressions")
	f.StringVar(&prior, "prior", prior, "`alpha,beta` that clicks and impressions are added to; that of the server, its --bandit-prior")
	f.StringVar(&header, "header", header, "whether CSV begins with the names of its columns: auto, yes or no")
	f.StringVar(&duplicate, "on-duplicate", duplicate, "when there are several rows of an arm or a user: refuse, take the last, or sum them up")
	f.Int64Var(&o.MaxBad, "max-bad", 0, "how many bad rows to leave out before giving up (default 0)")
	f.StringVar(&o.Ingest.TempDir, "temp-dir", "", "`directory` for temporary files as large as the output (default that of the output)")
	f.BoolVar(&o.Ingest.AllowIncomplete, "allow-incomplete", false, "read a directory although the job that writes it has not finished")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("on-duplicate", cobra.FixedCompletions([]string{"refuse", "last", "sum"}, cobra.ShellCompDirectiveNoFileComp)))
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("header", cobra.FixedCompletions([]string{"auto", "yes", "no"}, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

func runImportArms(cmd *cobra.Command, sources []string, out string, o bandit.ImportOptions) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	meter := newImportMeter(cmd.ErrOrStderr(), out, &o.Ingest)
	o.Bad, o.Progress = meter.bad, meter.update

	start := time.Now()
	s, err := bandit.ImportArms(ctx, sources, out, o)
	meter.clear()
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.New("interrupted: nothing was written")
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), `%s: %s in %.1f s
arms        %d: %d of items, %d of segments, %d of users
users       %d with a segment
segments    %d
bytes       %d (%s)
bad rows    %d left out
`, out, counted(s.Rows, "row"), time.Since(start).Seconds(), s.Arms, s.Arms-s.SegmentArms-s.UserArms, s.SegmentArms, s.UserArms,
		s.Users, s.Segments, s.Bytes, byteSize(s.Bytes), s.Bad)
	return err
}
