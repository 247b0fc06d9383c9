package sequence

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"weir/internal/server"
	"weir/internal/size"
)

// Flags adds the sequence's flags to a command and returns what opens the sequence once they are parsed.
func Flags(flags *pflag.FlagSet) server.Opener {
	var (
		cfg          Config
		on           bool
		cacheBytes   = size.Bytes(DefaultCacheBytes)
		computeBytes = size.Bytes(DefaultComputeBytes)
		rangeBytes   = size.Bytes(DefaultRangeBytes)
	)
	flags.BoolVar(&on, "sequence", true, "serve the Fibonacci sequence; --sequence=false is off")
	flags.StringVar(&cfg.File, "sequence-file", "", "file of the sequence's index (default sequence/current.cells in --data)")
	flags.Uint64Var(&cfg.MaxIndex, "sequence-max-index", DefaultMaxIndex, "largest index of the sequence, at most 4294967295")
	flags.Var(&cacheBytes, "sequence-cache-bytes", "digits kept to make nearby values of")
	flags.IntVar(&cfg.Computations, "sequence-computations", 1, "values of about one size that are computed at a time")
	flags.Var(&computeBytes, "sequence-compute-bytes", "memory for values that are being computed or sent, all together; beyond it 503")
	flags.IntVar(&cfg.Waiting, "sequence-waiting", DefaultWaiting, "requests that may wait for values; one more is answered 503")
	flags.Var(&rangeBytes, "sequence-range-bytes", "longest answer to /fib?from=A&to=B; beyond it 422")
	flags.DurationVar(&cfg.Sync, "sequence-sync", DefaultSync, "how often the index is made safe against a loss of power")
	cfg.fileFlag = "--sequence-file"
	if flags.Lookup("file") != nil { // which says it in this command
		cfg.fileFlag = "--file"
	}
	return func(_ context.Context, env server.Env) (server.Service, error) {
		if !on {
			return nil, server.Off("--sequence=false")
		}
		// The zero value of a Config is its default, and no value of a flag.
		var err error
		switch {
		case cfg.MaxIndex == 0:
			err = fmt.Errorf("--sequence-max-index must be a whole number from 1 to %d, got 0", uint64(HardMaxIndex))
		case cfg.Computations == 0:
			err = fmt.Errorf("--sequence-computations must be a whole number from 1 to %d, got 0", maxComputations)
		case cfg.Waiting == 0:
			err = errors.New("--sequence-waiting must be a whole number above 0, got 0")
		case cfg.Sync == 0:
			err = errors.New("--sequence-sync must be a time above 0, got 0s")
		}
		if err != nil {
			return nil, &server.FlagError{Err: err}
		}
		cfg.CacheBytes, cfg.ComputeBytes, cfg.RangeBytes = int64(cacheBytes), int64(computeBytes), int64(rangeBytes)
		return Open(cfg, env)
	}
}
