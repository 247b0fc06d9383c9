package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/config"
	"weir/internal/disk"
	"weir/internal/load"
	"weir/internal/load/control"
	"weir/internal/load/report"
	"weir/internal/load/scenario"
)

func newLoad() *cobra.Command {
	plan := load.Default()
	var (
		out        outputs
		planFile   string
		prometheus string
		token      string
		quiet      bool
	)
	cmd := &cobra.Command{
		Use:   "load [URL]",
		Short: "Make load, measure it, and find where the target breaks",
		Long: `Load makes requests for one URL, or those of a --scenario that knows weir, and measures
what comes of them.

The open model sends at a --rate, whatever the target does, and counts latency from the moment a request
was to be sent. The closed model keeps a number of --connections busy. --mode adaptive searches for the
highest rate that the target sustains in good health, and follows it.

Load goes to loopback; another host must be named with --i-own-this-target. SIGINT ends a run, and its
result has what was measured until then.`,
		Example: `  weir load http://127.0.0.1:8080/feed/1 --rate 5000/s --duration 30s --fail-when 'p99>20ms'
  weir load --scenario feed --target http://127.0.0.1:8080 --users 100000 --mode adaptive --html ceiling.html
  weir load --scenario poll --target http://127.0.0.1:8091 --users 5000 --every 5m
  weir load --scenario poll --target http://127.0.0.1:8080 --feed-urls feeds.txt --rate 60x --warmup 5s
  weir load http://127.0.0.1:8080/feed/1 --connections 64 --json before.json
  weir load compare before.json after.json`,
		Args: takes(0, 1, "one URL; several go into a file for --requests"),
	}
	f := cmd.Flags()
	plan.AddFlags(f)
	out.addFlags(f)
	config.File(f, &planFile, "plan",
		"`file` with a plan, JSON as in a result's \"plan\"; flags given beside it win")
	f.StringVar(&prometheus, "prometheus", "", "`address` to serve the run's metrics on, at /metrics")
	secret(f, &token, "token", "WEIR_LOAD_TOKEN", "that the --agents want to see")
	f.BoolVarP(&quiet, "quiet", "q", false, "show nothing until the run is over")
	choices := map[string][]string{"method": {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}}
	for _, field := range load.Fields {
		if field.File {
			cobra.CheckErr(cmd.MarkFlagFilename(field.Flag))
		}
		for _, option := range field.Options {
			choices[field.Flag] = append(choices[field.Flag], option[0])
		}
	}
	delete(choices, "scenario") // which may be a mix
	for flag, values := range choices {
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag,
			cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
	}
	for flag, complete := range map[string]func(typed string) []string{"scenario": scenario.Complete,
		"stop-when": control.CompleteCondition, "fail-when": control.CompleteCondition,
		"healthy-when": control.CompleteCondition} {
		// What completes it goes on.
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag,
			func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
				return complete(typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
			}))
	}
	cmd.RunE = interruptible(func(cmd *cobra.Command, args []string) error {
		plan, err := planOf(plan, planFile, f)
		if err != nil {
			return err
		}
		if len(args) == 1 {
			plan.URL = args[0]
		}
		if plan.URL == "" && plan.Scenario == "" && plan.Requests == "" {
			return usage("say what to ask for: a URL, or --scenario with --target")
		}
		if err := load.CheckFlags(f); err != nil {
			return usage("%w", err)
		}
		if err := out.check(); err != nil {
			return err
		}
		return runLoad(cmd, plan, out, prometheus, token, quiet)
	})
	cmd.AddCommand(newLoadAgent(), newLoadCompare(), newLoadUI())
	return cmd
}

// secret adds a flag whose value is better given by an environment variable.
func secret(f *pflag.FlagSet, p *string, name, variable, usage string) {
	f.StringVar(p, name, os.Getenv(variable), "`secret` "+usage+" (default: $"+variable+")")
	f.Lookup(name).DefValue = ""
}

// planOf returns the plan of the flags, on top of what planFile says.
func planOf(plan load.Plan, planFile string, given *pflag.FlagSet) (load.Plan, error) {
	if planFile == "" {
		return plan, nil
	}
	text, err := os.ReadFile(planFile)
	if err != nil {
		return plan, fmt.Errorf("--plan: %w", err)
	}
	filed, err := load.ReadPlan(text)
	if err != nil {
		return plan, fmt.Errorf("--plan %s: %w", planFile, err)
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	filed.AddFlags(flags)
	given.Visit(func(f *pflag.Flag) {
		over := flags.Lookup(f.Name)
		if over == nil || err != nil {
			return // one of the command, not of the plan
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			err = over.Value.(pflag.SliceValue).Replace(list.GetSlice())
			return
		}
		err = over.Value.Set(f.Value.String())
	})
	return filed, err
}

// runLoad makes the load of a plan and shows what comes of it.
func runLoad(cmd *cobra.Command, plan load.Plan, out outputs, prometheus, token string, quiet bool) error {
	ctx := cmd.Context()
	o := load.Options{Token: token}
	if prometheus != "" {
		exporter := report.NewExporter()
		o.Observe = exporter.Add
		closeMetrics, err := serveMetrics(prometheus, exporter.Handler(), cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		defer closeMetrics()
	}
	run, err := load.New(ctx, plan, o)
	if _, impossible := errors.AsType[*load.PlanError](err); impossible {
		return usage("%w", err)
	}
	if err != nil {
		return err
	}
	var showing sync.WaitGroup
	apart := func() {} // puts what is written next on a line of its own
	if !quiet {
		view := report.LiveOn(os.Stderr, os.Getenv)
		view.Title, view.Seconds = run.String(), plan.Whole().Seconds()
		live := report.NewLive(view)
		apart = live.Close
		showing.Go(func() {
			for p := range run.Watch() {
				live.Add(p)
			}
			live.Close()
		})
	}
	over := make(chan struct{})
	context.AfterFunc(ctx, func() {
		whenLong(over, func() {
			apart()
			fmt.Fprintf(cmd.ErrOrStderr(), "weir: waiting for answers, up to the --timeout of %v; a second "+
				"Ctrl-C ends it at once, without a result\n", time.Duration(plan.Timeout))
		})
	})
	result, err := run.Do(ctx)
	close(over)
	showing.Wait()
	if result == nil {
		return err
	}
	err = errors.Join(err, out.write(cmd.OutOrStdout(), result))
	for _, v := range result.Verdicts {
		if v.Failed {
			err = errors.Join(err, fmt.Errorf("--fail-when %s: it was %s", v.Condition, v.Got))
		}
	}
	return err
}

// whenLong calls say if it takes long until something is over.
func whenLong(over <-chan struct{}, say func()) {
	select {
	case <-over:
	case <-time.After(time.Second):
		say()
	}
}

// serveMetrics serves a run's metrics until the function it returns is called.
func serveMetrics(address string, metrics http.Handler, log io.Writer) (func(), error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--prometheus: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go s.Serve(l) //nolint:errcheck // it ends by Close
	fmt.Fprintf(log, "metrics on http://%s/metrics\n", l.Addr())
	return func() { s.Close() }, nil
}

// outputs are the files that a result goes to.
type outputs struct {
	json, csv, html, svg string
}

func (o *outputs) addFlags(f *pflag.FlagSet) {
	config.File(f, &o.json, "json", "`file` for the result as JSON; - is standard output")
	config.File(f, &o.csv, "csv", "`file` for the course of the run as CSV; - is standard output")
	config.File(f, &o.html, "html", "`file` for a page with plots, which needs nothing else")
	config.File(f, &o.svg, "svg", "`file` for a picture of rate and latency")
}

// formats are the outputs with their flags and what writes them.
func (o *outputs) formats() []outputFormat {
	return []outputFormat{
		{"--json", o.json, report.WriteJSON}, {"--csv", o.csv, report.WriteCSV},
		{"--html", o.html, report.WriteHTML}, {"--svg", o.svg, report.WriteSVG},
	}
}

type outputFormat struct {
	flag, path string
	write      func(io.Writer, *report.Result) error
}

// check refuses files that cannot be written, and that one takes two forms, before there is any load.
func (o *outputs) check() error {
	taken := make(map[string]string)
	for _, f := range o.formats() {
		if f.path == "" {
			continue
		}
		path := filepath.Clean(f.path)
		if other, there := taken[path]; there {
			return usage("%s and %s both go to %s: only one of them can", other, f.flag, f.path)
		}
		taken[path] = f.flag
	}
	for path, flag := range taken {
		if s, err := os.Stat(filepath.Dir(path)); path != "-" && (err != nil || !s.IsDir()) {
			return fmt.Errorf("%s %s: there is no directory %s", flag, path, filepath.Dir(path))
		}
		if s, err := os.Stat(path); err == nil && s.IsDir() {
			return fmt.Errorf("%s %s is a directory; name a file", flag, path)
		}
	}
	return nil
}

// write writes every output that was asked for, and for people a summary, unless standard output is taken.
// A file is whole or as it was.
func (o *outputs) write(stdout io.Writer, result *report.Result) error {
	var errs []error
	if !slices.ContainsFunc(o.formats(), func(f outputFormat) bool { return f.path == "-" }) {
		errs = append(errs, report.Summary(stdout, result))
	}
	result = report.WithoutSecrets(result)
	for _, f := range o.formats() {
		switch f.path {
		case "":
		case "-":
			errs = append(errs, f.write(stdout, result))
		default:
			var b bytes.Buffer
			err := f.write(&b, result)
			if err == nil {
				// Requests may be nobody else's business.
				err = disk.WriteFileAtomic(f.path, b.Bytes(), 0o600)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", f.flag, err))
			}
		}
	}
	return errors.Join(errs...)
}
