package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"weir/internal/server"
)

// Flags adds the feed's flags to a command and returns what opens the feed once they are parsed.
func Flags(flags *pflag.FlagSet) server.Opener {
	var cfg Config
	var fill string
	flags.StringVar(&cfg.Path, "feeds", "", "snapshot of the recommendation lists, written by weir import or weir generate")
	flags.StringVar(&cfg.Fallback, "fallback", "", "file of up to 10,000 items, one a line, for users who have too few left; # begins a comment, \\# an item (default the snapshot's most frequent)")
	flags.StringVar(&fill, "feed-fallback", "uniform", "which fallback items fill short feeds: uniform, drawn at random, or bandit, the best samples for the user")
	flags.DurationVar(&cfg.Watch, "feeds-watch", time.Second, "how often to look for a snapshot renamed over --feeds; negative is never")
	flags.DurationVar(&cfg.Sync, "sync-interval", time.Second, "how often positions are made safe against a loss of power")
	flags.BoolVar(&cfg.LockMemory, "lock-memory", false, "keep the snapshot in memory (mlock; needs the limit, ulimit -l)")
	return func(ctx context.Context, env server.Env) (server.Service, error) {
		if cfg.Path == "" {
			for _, name := range []string{"fallback", "feed-fallback", "lock-memory"} {
				if flags.Changed(name) {
					return nil, &server.FlagError{Err: fmt.Errorf("--%s is for feeds: name their lists with --feeds", name)}
				}
			}
			return nil, server.Off("no lists are given for feeds, use --feeds FILE")
		}
		if cfg.Sync <= 0 {
			return nil, &server.FlagError{Err: fmt.Errorf("--sync-interval must be above 0, got %v", cfg.Sync)}
		}
		if cfg.Watch == 0 {
			return nil, &server.FlagError{Err: errors.New("--feeds-watch must not be 0; negative is never")}
		}
		switch fill {
		case "uniform", "bandit":
			cfg.RankFallback = fill == "bandit"
		default:
			return nil, &server.FlagError{Err: fmt.Errorf("--feed-fallback must be uniform or bandit, got %q", fill)}
		}
		return Open(ctx, cfg, env)
	}
}
