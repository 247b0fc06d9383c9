package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/bandit"
	"weir/internal/config"
	"weir/internal/disk"
	"weir/internal/server"
)

func newArms() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "arms",
		Short: "What events have taught of arms",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newArmsExport())
	return cmd
}

func newArmsExport() *cobra.Command {
	var (
		o                             bandit.Flags
		address, dataDir, out, format string
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
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			usage := usageOf(cmd)
			if out == "" {
				return usage("-o FILE: where to write to, - for standard output")
			}
			if format == "" {
				if format = strings.TrimPrefix(filepath.Ext(out), "."); !slices.Contains(bandit.ArmFormats,
					format) {
					format = "jsonl"
				}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			if dataDir == "" {
				at, err := url.Parse(address)
				if err != nil || at.Host == "" {
					return usage("--server %s: expected a URL as in http://127.0.0.1:8081", address)
				}
				return exportArms(cmd, out, format, func(after string) (bandit.ArmPage, error) {
					return askForArms(ctx, address, after)
				})
			}
			if cmd.Flags().Changed("server") {
				return usage("--server and --data: arms come from one of them, name only one")
			}
			if err := o.Check(); err != nil {
				return usage("%w", err)
			}
			return exportStopped(ctx, cmd, &o, dataDir, out, format)
		},
	}
	f := cmd.Flags()
	f.StringVar(&address, "server", "http://127.0.0.1:8081", "`URL` of the admin port of a running server")
	config.Dir(f, &dataDir, "data", "", "the data directory of a server that is stopped, instead")
	f.StringVarP(&out, "output", "o", "", "`file` to write, replaced when it is whole; - for standard output")
	config.Choice(f, &format, "format", "", "jsonl, csv or arrow (default by the file's name)",
		bandit.ArmFormats...)
	o.AddFlags(f)
	return cmd
}

// armsAtOnce is how many arms are asked for at once.
const armsAtOnce = 10_000

// exportArms writes all pages to a file, or to standard output.
func exportArms(cmd *cobra.Command, out, format string,
	page func(after string) (bandit.ArmPage, error)) (err error) {
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
	for after, more := "", true; more; {
		p, err := page(after)
		if err == nil {
			err = w.Write(p.Arms)
		}
		if err != nil {
			return err
		}
		n += len(p.Arms)
		after, more = p.After, p.After != ""
	}
	if err := w.Close(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", out, counted(int64(n), "arm"))
	return err
}

// askForArms asks a running server for a page.
func askForArms(ctx context.Context, address, after string) (page bandit.ArmPage, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	at := fmt.Sprintf("%s/admin/bandit/arms?limit=%d&after=%s", strings.TrimSuffix(address, "/"), armsAtOnce,
		url.QueryEscape(after))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return page, err
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return page, fmt.Errorf("%w; is a server running there, with its admin port? "+
			"--data reads the directory of one that is stopped", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return page, err
	}
	if resp.StatusCode != http.StatusOK {
		var problem struct{ Detail string }
		if json.Unmarshal(body, &problem) != nil || problem.Detail == "" {
			problem.Detail = "it does not look like the admin port of weir"
		}
		return page, fmt.Errorf("%s: %s: %s", address, resp.Status, problem.Detail)
	}
	return page, json.Unmarshal(body, &page)
}

// exportStopped exports the arms in a data directory that no server uses.
func exportStopped(ctx context.Context, cmd *cobra.Command, o *bandit.Flags,
	dataDir, out, format string) (err error) {
	if _, err := os.Stat(filepath.Join(dataDir, "bandit")); err != nil {
		return fmt.Errorf("--data %s: no events were taken there: %w", dataDir, err)
	}
	var cfg server.Config
	if err := cfg.Fill(); err != nil {
		return err
	}
	lock, err := openData(dataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	service, err := o.Open(ctx, server.Env{DataDir: dataDir, Metrics: cfg.Metrics,
		Log: newLog(cmd.ErrOrStderr(), "text", slog.LevelWarn)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	b := service.(*bandit.Bandit)
	if err := b.AwaitArms(ctx); err != nil {
		return err
	}
	return exportArms(cmd, out, format, func(after string) (bandit.ArmPage, error) {
		return b.ListArms(ctx, after, armsAtOnce)
	})
}
