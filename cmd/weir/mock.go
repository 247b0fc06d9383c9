package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/load/mock"
	"weir/internal/server"
	"weir/internal/size"
)

func newMock() *cobra.Command {
	var (
		kernel = newKernelFlags()
		knobs  = mock.Defaults()
		listen string
		clock  string
		step   time.Duration
		cache  = size.Bytes(256 << 20)
	)
	cmd := &cobra.Command{
		Use:   "mock",
		Short: "Serve feeds made up for tests: an upstream as slow and broken as you like",
		Long: `Serve RSS, Atom and JSON feeds at /feed/{seed}.rss, .atom and .json, for whoever is to be tested with
them: large or small, slow, hanging, failing, malformed, in old charsets. The same seed, step of the
clock and parameters give the same bytes.

A knob is a flag here, a parameter of a feed's URL, and a member of what PUT /knobs takes: the flag is the
default, PUT /knobs changes it while the mock runs, the parameter is for one request. / lists them all.`,
		Example: `  weir mock
  curl 'http://127.0.0.1:8091/feed/7.rss?items=5&delay=200ms'
  curl -X PUT -d '{"error":0.01,"hang":0.001,"jitter":"100ms"}' http://127.0.0.1:8091/knobs
  weir mock --clock stepped --churn 1
  curl -X POST http://127.0.0.1:8091/clock`,
		Args: exactly(0, "no arguments, only flags"),
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:8091", "address to listen on; port 0 takes a free one")
	f.StringVar(&clock, "clock", "real", "what moves time on: real, or stepped for POST /clock")
	f.DurationVar(&step, "step", time.Minute, "how long a step of the clock takes, or is said to take in dates")
	f.Var(&cache, "cache", "memory for feeds that were made, so that they need not be again")
	knobs.AddFlags(f)
	kernel.add(cmd)
	// The weir beside which a mock mostly runs has the address; and a 503 of a mock's own would be taken for one that was asked for.
	f.Lookup("admin").DefValue, kernel.cfg.Admin = "", ""
	f.Lookup("shed").DefValue, kernel.shed.on = "false", false
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("clock", cobra.FixedCompletions([]string{"real", "stepped"}, cobra.ShellCompDirectiveNoFileComp)))

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, keys, err := kernel.config(cmd)
		if err == nil && clock != "real" && clock != "stepped" {
			err = fmt.Errorf("--clock must be real or stepped, got %q", clock)
		}
		if err == nil && step == 0 { // which is the default for mock.Open
			err = errors.New("--step must be a duration from 1s to 24h, got 0s")
		}
		var m *mock.Server
		if err == nil {
			m, err = mock.Open(mock.Options{Knobs: &knobs, Stepped: clock == "stepped", Step: step, CacheBytes: int64(cache)})
		}
		if err != nil {
			return usageError{cmd.CommandPath(), err}
		}
		cfg.Listen = listen
		open := func(ctx context.Context, _ server.Env) (server.Service, error) {
			context.AfterFunc(ctx, m.Stop) // else requests that hang would hold up the end
			return m, nil
		}
		return serve(cmd.Context(), cfg, "", []server.Opener{open}, keys)
	}
	return cmd
}
