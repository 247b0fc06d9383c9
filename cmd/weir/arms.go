package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/bandit"
	"weir/internal/config"
	"weir/internal/disk"
)

func newArms() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "arms",
		Short: "What events have taught of arms",
	}
	cmd.AddCommand(newArmsExport())
	return cmd
}

func newArmsExport() *cobra.Command {
	var (
		o           bandit.Flags
		client      adminClient
		out, format string
	)
	cmd := &cobra.Command{
		Use:   "export -o FILE",
		Short: "Write the posteriors of the arms that events have taught of",
		Long: `Write the posteriors of the arms that events have taught of, as weir import-arms reads them.

They are those that predictions sample at the moment: what was imported and what events have taught since.
They come from the admin port of a running server, or with --data from the directory of one that is
stopped; then --bandit-arms, --bandit-prior and what else is said to weir serve is said here, too.`,
		Example: `  weir arms export -o learned.arrow
  weir arms export --data /var/lib/weir --bandit-arms arms.weir -o learned.jsonl
  weir import-arms learned.arrow -o arms.weir`,
		RunE: interruptible(func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return usage("-o FILE: where to write to, - for standard output")
			}
			if format == "" {
				format = strings.TrimPrefix(filepath.Ext(out), ".")
				if !slices.Contains(bandit.ArmFormats, format) {
					format = "jsonl"
				}
			}
			if client.data != "" {
				if err := o.Check(); err != nil {
					return usage("%w", err)
				}
				if _, err := os.Stat(filepath.Join(client.data, "bandit")); err != nil {
					return fmt.Errorf("--data %s: no events were taken there: %w", client.data, err)
				}
			}
			export := func() error { return exportArms(cmd, &client, out, format) }
			return client.with(cmd.Context(), &o, export)
		}),
	}
	f := cmd.Flags()
	client.flags(cmd)
	f.StringVarP(&out, "output", "o", "", "`file` to write, replaced when it is whole; - for standard output")
	config.Choice(f, &format, "format", "", "jsonl, csv or arrow (default by the file's name)",
		bandit.ArmFormats...)
	o.AddFlags(f)
	return cmd
}

// armsAtOnce is how many arms are asked for at once.
const armsAtOnce = 10_000

// exportArms writes all pages to a file, or to standard output.
func exportArms(cmd *cobra.Command, client *adminClient, out, format string) (err error) {
	to := cmd.OutOrStdout()
	if out != "-" {
		var file *disk.AtomicFile
		if file, err = disk.CreateAtomic(out); err != nil {
			return err
		}
		defer func() {
			if err == nil {
				err = file.Commit()
			}
			err = errors.Join(err, file.Abort())
		}()
		to = file
	}
	w, err := bandit.NewArmWriter(to, format)
	if err != nil {
		return err
	}
	n := 0
	query := url.Values{"limit": {strconv.Itoa(armsAtOnce)}}
	for more := true; more; {
		var page bandit.ArmPage
		err := client.get(cmd.Context(), "GET", "/admin/bandit/arms?"+query.Encode(), nil, &page)
		if err == nil {
			err = w.Write(page.Arms)
		}
		if err != nil {
			return err
		}
		n += len(page.Arms)
		query.Set("after", page.After)
		more = page.After != ""
	}
	if err := w.Close(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", out, counted(int64(n), "arm"))
	return err
}
