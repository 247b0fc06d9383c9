package main

import (
	"fmt"

	"weir/internal/bandit"
	"weir/internal/bandit/arms"
	"weir/internal/config"

	"github.com/spf13/cobra"
)

func newImportArms() *cobra.Command {
	var (
		o         bandit.ImportOptions
		common    = importFlags{makes: "arms", ingest: &o.Ingest, maxBad: &o.MaxBad}
		duplicate string
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
  weir import-arms --clicks-column wins --impressions-column shown --on-duplicate sum days/ -o arms.weir`,
		Args: cobra.ArbitraryArgs,
		RunE: interruptible(func(cmd *cobra.Command, sources []string) (err error) {
			o.Duplicates = map[string]arms.Duplicates{"refuse": arms.Refuse, "last": arms.Last,
				"sum": arms.Sum}[duplicate]
			if o.Prior, err = bandit.ParsePrior(prior); err != nil {
				return usage("--prior %s: %w", prior, err)
			}
			return common.run(cmd, sources, func(meter *importMeter) (rows int64, text string, err error) {
				o.Bad, o.Progress = meter.bad, meter.update
				s, err := bandit.ImportArms(cmd.Context(), sources, common.out, o)
				return s.Rows, fmt.Sprintf(`arms        %d: %d of items, %d of segments, %d of users
users       %d with a segment
segments    %d
bytes       %d (%s)
bad rows    %d left out
`, s.Arms, s.Arms-s.SegmentArms-s.UserArms, s.SegmentArms, s.UserArms, s.Users, s.Segments, s.Bytes,
					config.Size(s.Bytes), s.Bad), err
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&o.ItemColumn, "item-column", "",
		"`name` of the column of items, or its number in CSV without a header")
	f.StringVar(&o.SegmentColumn, "segment-column", "", "`name` or number of the column of segments of users")
	f.StringVar(&o.UserColumn, "user-column", "", "`name` or number of the column of users")
	f.StringVar(&o.AlphaColumn, "alpha-column", "", "`name` or number of the column of alphas, above 0")
	f.StringVar(&o.BetaColumn, "beta-column", "", "`name` or number of the column of betas, above 0")
	f.StringVar(&o.ClicksColumn, "clicks-column", "",
		"`name` or number of the column of clicks; with it they win over alpha and beta")
	f.StringVar(&o.ImpressionsColumn, "impressions-column", "",
		"`name` or number of the column of impressions")
	f.StringVar(&prior, "prior", prior,
		"`alpha,beta` that clicks and impressions are added to; that of the server, its --bandit-prior")
	config.Choice(f, &duplicate, "on-duplicate", "refuse", "when there are several rows of an arm or a "+
		"user: refuse, take the last, or sum them up", "refuse", "last", "sum")
	common.add(cmd)
	return cmd
}
