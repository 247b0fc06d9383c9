package main

import (
	"fmt"

	"weir/internal/config"
	"weir/internal/feed"
	"weir/internal/ingest"

	"github.com/spf13/cobra"
)

func newImport() *cobra.Command {
	o := feed.ImportOptions{Fallback: 50}
	var (
		common                      = importFlags{makes: "feeds", ingest: &o.Ingest, maxBad: &o.MaxBad}
		duplicate, userIDs, itemIDs string
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
		Args: cobra.ArbitraryArgs,
		RunE: interruptible(func(cmd *cobra.Command, sources []string) error {
			if o.Fallback < 0 || o.Fallback > 65535 {
				return usage("--fallback %d: expected 0 to 65535 items", o.Fallback)
			}
			o.UserIDs, o.ItemIDs, o.Apart = idKinds[userIDs], idKinds[itemIDs], duplicate == "refuse"
			o.Published = published()
			return common.run(cmd, sources, func(meter *importMeter) (rows int64, text string, err error) {
				o.Memory, o.Bad, o.Progress = int64(common.memory), meter.bad, meter.update
				s, err := feed.Import(cmd.Context(), sources, common.out, o)
				items := ""
				if s.Names > 0 {
					items = fmt.Sprintf(", %d different", s.Names)
				}
				return s.Rows, fmt.Sprintf(`users       %d
items       %d%s
shortest    %s
longest     %s
bytes       %d (%s)
duplicates  %s left out
bad rows    %d left out
`, s.Users, s.Items, items, counted(int64(s.Shortest), "item"), counted(int64(s.Longest), "item"), s.Bytes,
					config.Size(s.Bytes), counted(s.Duplicates, "item"), s.Bad), err
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&o.UserColumn, "user-column", "",
		"`name` of the column of users, or its number in CSV without a header")
	f.StringVar(&o.ItemColumn, "item-column", "",
		"`name` or number of the column with one item a row, or of the member in lists of structs")
	f.StringVar(&o.ItemsColumn, "items-column", "", "`name` or number of the column with a list of items")
	f.StringVar(&o.RankColumn, "rank-column", "",
		"`name` or number of the column to arrange a user's items by, ascending")
	f.StringVar(&o.ScoreColumn, "score-column", "",
		"`name` or number of the column to arrange a user's items by, descending")
	config.Choice(f, &userIDs, "user-ids", "auto", "what users are: auto, number (0 to "+
		"18446744073709551615) or string (1 to 255 bytes)", "auto", "number", "string")
	config.Choice(f, &itemIDs, "item-ids", "auto", "what items are: auto, number or string",
		"auto", "number", "string")
	config.Choice(f, &duplicate, "on-duplicate-user", "merge", "when a user is in several files or has "+
		"several lists: merge them in the order of the sources, or refuse", "merge", "refuse")
	f.IntVar(&o.Fallback, "fallback", o.Fallback,
		"how many of the most frequent items to keep for users who have none left, 0 to 65535")
	common.add(cmd)
	return cmd
}

// idKinds are the words of --user-ids and --item-ids.
var idKinds = map[string]ingest.Kind{"auto": ingest.Auto, "number": ingest.Number, "string": ingest.String}
