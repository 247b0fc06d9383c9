package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/load/report"
)

func newLoadCompare() *cobra.Command {
	var asJSON bool
	var worse string
	cmd := &cobra.Command{
		Use:   "compare BEFORE AFTER",
		Short: "Say how two results of weir load differ",
		Long: `Compare two results of weir load --json: rates, latencies, errors and ceilings side by side,
and which of the differences are more than chance; of the others, below which change these runs can
decide nothing. Either side may be several runs, by comma, which shows what differs from run to run.
With --fail-over the exit code is 1 when a figure of the second is worse by more than that.`,
		Example: `  weir load compare before.json after.json --fail-over 10%
  weir load compare a1.json,a2.json,a3.json b1.json,b2.json,b3.json`,
		Args: exactly(2, "two files that weir load --json wrote, or two lists of them by comma"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var o report.CompareOptions
			var err error
			if o.Worse, err = share(worse); err != nil {
				return usage("--fail-over: %w", err)
			}
			var results [2][]*report.Result
			for i, paths := range args {
				for path := range strings.SplitSeq(paths, ",") {
					r, err := readResult(path)
					if err != nil {
						return err
					}
					results[i] = append(results[i], r)
				}
			}
			c, err := report.Compare(results[0], results[1], o)
			if err != nil {
				return err
			}
			write := c.WriteText
			if asJSON {
				write = c.WriteJSON
			}
			if err := write(cmd.OutOrStdout()); err != nil {
				return err
			}
			if c.Failed {
				return fmt.Errorf("%s is worse than %s by more than %s", args[1], args[0], worse)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "as JSON")
	f.StringVar(&worse, "fail-over", "",
		"`percentage` by which the second may be worse before the exit code is 1")
	return cmd
}

// share reads a percentage; nothing is 0.
func share(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !percent || !(v > 0 && v < 1e6) {
		return 0, fmt.Errorf("expected a percentage like 10%%, got %q", text)
	}
	return v / 100, nil
}

// readResult reads a result of weir load.
func readResult(path string) (*report.Result, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := report.ReadJSON(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}
