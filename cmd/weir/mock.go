package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/config"
	"weir/internal/load/mock"
	"weir/internal/server"
)

func newMock() *cobra.Command {
	var (
		kernel = newKernelFlags()
		knobs  = mock.Defaults()
		listen string
		clock  string
		step   time.Duration
		cache  = config.Bytes(256 << 20)
	)
	cmd := &cobra.Command{
		Use:   "mock",
		Short: "Serve feeds made up for tests: an upstream as slow and broken as you like",
		Long: `Serve RSS, Atom and JSON feeds at /feed/{seed}.rss, .atom and .json, for whoever is to be
tested with them: large or small, slow, hanging, failing, malformed, in old charsets. The same seed, step
of the clock and parameters give the same bytes.

A knob is a flag here, a parameter of a feed's URL, and a member of what PUT /knobs takes: the flag is the
default, PUT /knobs changes it while the mock runs, the parameter is for one request. / lists them all.`,
		Example: `  weir mock
  curl 'http://127.0.0.1:8091/feed/7.rss?items=5&delay=200ms'
  curl -X PUT -d '{"error":0.01,"hang":0.001,"jitter":"100ms"}' http://127.0.0.1:8091/knobs
  weir mock --clock stepped --churn 1
  curl -X POST http://127.0.0.1:8091/clock`,
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:8091", "address to listen on; port 0 takes a free one")
	config.Choice(f, &clock, "clock", "real", "what moves time on: real, or stepped for POST /clock",
		"real", "stepped")
	f.DurationVar(&step, "step", time.Minute,
		"how long a step of the clock takes, or is said to take in dates")
	f.Var(&cache, "cache", "memory for feeds that were made, so that they need not be again")
	knobs.AddFlags(f)
	kernel.add(cmd)
	// The weir beside which a mock mostly runs has the address; and a 503 of a mock's own would be taken
	// for one that was asked for.
	f.Lookup("admin").DefValue, kernel.cfg.Admin = "", ""
	f.Lookup("shed").DefValue, kernel.shed.on = "false", false

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, keys, err := kernel.config(cmd)
		if err == nil && step == 0 { // which is the default for mock.Open
			err = errors.New("--step must be a duration from 1s to 24h, got 0s")
		}
		var m *mock.Server
		if err == nil {
			m, err = mock.Open(mock.Options{Knobs: &knobs, Stepped: clock == "stepped", Step: step,
				CacheBytes: int64(cache)})
		}
		if err != nil {
			return usage("%w", err)
		}
		cfg.Listen = listen
		return kernel.serve(cmd, cfg, "", []server.Opener{opened{m}}, keys)
	}
	return cmd
}

// opened is a mock that was opened by its options, as an Opener without flags.
type opened struct{ *mock.Server }

func (opened) AddFlags(*pflag.FlagSet) {}
func (opened) Check() error            { return nil }

// Open implements server.Opener.
func (o opened) Open(ctx context.Context, _ server.Env) (server.Service, error) {
	context.AfterFunc(ctx, o.Stop) // else requests that hang would hold up the end
	return o.Server, nil
}
