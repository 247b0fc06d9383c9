package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/config"
	"weir/internal/feed"
)

func newGenerate() *cobra.Command {
	var o feed.GenerateOptions
	var out string
	cmd := &cobra.Command{
		Use:   "generate -o FILE",
		Short: "Make up feeds, to try weir and to measure it",
		Long: `Make up feeds, to try weir and to measure it: lists of different items for the users
0 to --users less one. The same flags give the same file. An existing file is replaced once
the new one is complete.`,
		Example: "  weir generate --users 5000000 --items 200 --max-item 10000000 -o feeds.weir",
		// An interrupted run takes its unfinished file with it.
		RunE: interruptible(func(cmd *cobra.Command, _ []string) error {
			switch out {
			case "":
				return usage("say with -o FILE where the feeds are to go")
			case "-":
				return usage("-o -: the feeds go to a file, not to standard output: name one")
			}
			if err := o.Check(); err != nil {
				return usage("%w", err)
			}
			bar := newBar("generating", "users", int64(o.Users))
			o.Published = published()
			o.Progress = func(users uint64) { bar.Set64(int64(users)) }
			start := time.Now()
			stats, err := feed.Generate(cmd.Context(), out, o)
			bar.Exit()
			if errors.Is(err, context.Canceled) {
				return fmt.Errorf("interrupted: %s is as it was", out)
			} else if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d users, %d items each, %s, %d bits an item, "+
				"in %.1f s\n", out, stats.Users, stats.Longest, config.Size(stats.Bytes), stats.ItemBits,
				time.Since(start).Seconds())
			return err
		}),
	}
	f := cmd.Flags()
	f.StringVarP(&out, "output", "o", "", "`file` to write")
	f.Uint64Var(&o.Users, "users", 100_000,
		"how many users, 0 to 4294967295; their ids are 0 to that less one")
	f.IntVar(&o.Items, "items", 200, "items of every list, 0 to 65535")
	f.Uint32Var(&o.MaxItem, "max-item", 1_000_000, "largest item id, at most 4294967295; the smallest is 1")
	f.Uint64Var(&o.Seed, "seed", 1, "number that everything random depends on")
	return cmd
}

// published is when lists that are made now are made: the time, or what SOURCE_DATE_EPOCH says in seconds
// since 1970, so that the same lists make the same file.
func published() time.Time {
	if seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		return time.Unix(seconds, 0)
	}
	return time.Now()
}
