package sequence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"weir/internal/cluster"
	"weir/internal/config"
	"weir/internal/server"
)

// Flags is a sequence before it is opened. It implements server.Opener.
type Flags struct {
	cfg                                  Config
	set                                  *pflag.FlagSet
	on                                   bool
	cacheBytes, computeBytes, rangeBytes config.Bytes
}

// Name implements server.Opener.
func (o *Flags) Name() string { return "sequence" }

// AddFlags implements server.Opener.
func (o *Flags) AddFlags(f *pflag.FlagSet) {
	o.set = f
	o.cacheBytes, o.computeBytes, o.rangeBytes = DefaultCacheBytes, DefaultComputeBytes, DefaultRangeBytes
	f.BoolVar(&o.on, "sequence", true, "serve the Fibonacci sequence; --sequence=false is off")
	config.File(f, &o.cfg.File, "sequence-file",
		"file of the sequence's index (default sequence/current.cells in --data)")
	f.Uint64Var(&o.cfg.MaxIndex, "sequence-max-index", DefaultMaxIndex,
		"largest index of the sequence, at most 4294967295")
	f.Var(&o.cacheBytes, "sequence-cache-bytes", "digits kept to make nearby values of")
	f.IntVar(&o.cfg.Computations, "sequence-computations", 1,
		"values of about one size that are computed at a time")
	f.Var(&o.computeBytes, "sequence-compute-bytes",
		"memory for values that are being computed or sent, all together; beyond it 503")
	f.IntVar(&o.cfg.Waiting, "sequence-waiting", DefaultWaiting,
		"requests that may wait for values; one more is answered 503")
	f.Var(&o.rangeBytes, "sequence-range-bytes", "longest answer to /fib?from=A&to=B; beyond it 422")
	f.DurationVar(&o.cfg.Sync, "sequence-sync", DefaultSync,
		"how often the index is made safe against a loss of power")
	o.cfg.fileFlag = "--sequence-file"
}

// SetFile says what --sequence-file and --sequence-sync would; flag is what names the file in this command.
func (o *Flags) SetFile(file, flag string, sync time.Duration) {
	o.cfg.File, o.cfg.fileFlag, o.cfg.Sync = file, flag, sync
}

// SetCluster has the index kept by a cluster, for all nodes.
func (o *Flags) SetCluster(c *cluster.Client) { o.cfg.Cluster = c }

// Check implements server.Opener.
func (o *Flags) Check() error {
	// The zero value of a Config is its default, and no value of a flag.
	switch {
	case !o.on:
		return server.Off("--sequence=false")
	case o.cfg.MaxIndex == 0:
		return fmt.Errorf("--sequence-max-index must be a whole number from 1 to %d, got 0",
			uint64(HardMaxIndex))
	case o.cfg.Computations == 0:
		return fmt.Errorf("--sequence-computations must be a whole number from 1 to %d, got 0",
			maxComputations)
	case o.cfg.Waiting == 0:
		return errors.New("--sequence-waiting must be a whole number above 0, got 0")
	case o.cfg.Sync == 0:
		return errors.New("--sequence-sync must be a time above 0, got 0s")
	}
	o.cfg.CacheBytes, o.cfg.ComputeBytes, o.cfg.RangeBytes = int64(o.cacheBytes), int64(o.computeBytes),
		int64(o.rangeBytes)
	cfg := o.cfg
	return cfg.fill()
}

// Open implements server.Opener.
func (o *Flags) Open(_ context.Context, env server.Env) (server.Service, error) {
	s, err := Open(o.cfg, env)
	if err != nil {
		return nil, err
	}
	check := func() error {
		if err := o.Check(); err != nil {
			return err
		}
		return s.checkIndex(o.cfg.MaxIndex)
	}
	s.settings = config.Settings(o.set, check, func() { s.apply(o.cfg) }, map[string]string{
		"sequence-max-index":     "from the index there is, to 4294967295",
		"sequence-cache-bytes":   "above 0",
		"sequence-compute-bytes": "above 0",
		"sequence-range-bytes":   "above 0",
		"sequence-waiting":       "from 1",
		"sequence-sync":          "above 0",
	})
	return s, nil
}
