package feed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/pflag"

	"weir/internal/cluster"
	"weir/internal/cluster/members"
	"weir/internal/config"
	"weir/internal/feed/source"
	"weir/internal/server"
)

// Flags is a feed before it is opened. It implements server.Opener.
type Flags struct {
	cfg  Config
	fill string
	set  *pflag.FlagSet
}

// The words of --feed-fallback.
const (
	fillUniform = "uniform"
	fillBandit  = "bandit"
)

// Name implements server.Opener.
func (o *Flags) Name() string { return "feed" }

// AddFlags implements server.Opener.
func (o *Flags) AddFlags(f *pflag.FlagSet) {
	o.set = f
	config.File(f, &o.cfg.Path, "feeds",
		"snapshot of the recommendation lists, written by weir import or weir generate: a file, an https "+
			"URL, or "+Published+", what weir publish names")
	config.File(f, &o.cfg.Fallback, "fallback",
		"file of up to 10,000 items, one a line, for users who have too few left; "+
			"# begins a comment, \\# an item (default the snapshot's most frequent)")
	config.Choice(f, &o.fill, "feed-fallback", fillUniform,
		"which fallback items fill short feeds: uniform, drawn at random, or "+
			"bandit, the best samples for the user", fillUniform, fillBandit)
	f.DurationVar(&o.cfg.Watch, "feeds-watch", time.Second,
		"how often to look for a snapshot renamed over --feeds; negative is never")
	f.DurationVar(&o.cfg.Poll, "feeds-poll", defaultPoll,
		"how often --feeds is asked for newer lists if it is a URL; negative is never")
	f.Float64Var(&o.cfg.MinShare, "feeds-min-share", 0.5,
		"refuse new lists with fewer users than this share of those before, "+
			"unless forced; 0 takes any but empty ones")
	f.DurationVar(&o.cfg.Sync, "sync-interval", time.Second,
		"how often positions are made safe against a loss of power")
	f.BoolVar(&o.cfg.LockMemory, "lock-memory", false,
		"keep the snapshot in memory (mlock; needs the limit, ulimit -l)")
}

// Check implements server.Opener.
func (o *Flags) Check() error {
	switch {
	case o.cfg.Path == "":
		for _, name := range []string{"fallback", "feed-fallback", "lock-memory"} {
			if o.set.Changed(name) {
				return fmt.Errorf("--%s is for feeds: name their lists with --feeds", name)
			}
		}
		return server.Off("no lists are given for feeds, use --feeds FILE")
	case o.cfg.Sync <= 0:
		return fmt.Errorf("--sync-interval must be above 0, got %v", o.cfg.Sync)
	case o.cfg.MinShare < 0 || o.cfg.MinShare > 1:
		return fmt.Errorf("--feeds-min-share must be a number from 0 to 1, got %v", o.cfg.MinShare)
	case o.cfg.Watch == 0:
		return errors.New("--feeds-watch must not be 0; negative is never")
	case o.cfg.Poll == 0:
		return errors.New("--feeds-poll must not be 0; negative is never")
	}
	if _, err := source.Parse(o.cfg.Path, ""); err != nil {
		return fmt.Errorf("--feeds: %w", err)
	}
	o.cfg.RankFallback = o.fill == fillBandit
	return nil
}

// WantsRanker reports whether the flags say to fill short feeds by scores, so that the feed needs SetRanker.
func (o *Flags) WantsRanker() bool { return o.cfg.RankFallback }

// WantsCluster reports whether the flags name lists that only a cluster has.
func (o *Flags) WantsCluster() bool { return o.cfg.Path == Published }

// SetCluster has the feed keep positions in the engine that several nodes share, and serve what its record
// of publications says.
func (o *Flags) SetCluster(c *cluster.Client) { o.cfg.Cluster = c }

// SetMembers has the feed say there which lists it has.
func (o *Flags) SetMembers(m *members.Members) { o.cfg.Members = m }

// SetFallbackWhenLost says whether feeds are fallback items while the engine does not answer.
func (o *Flags) SetFallbackWhenLost(on bool) { o.cfg.FallbackWhenLost = on }

// Open implements server.Opener.
func (o *Flags) Open(ctx context.Context, env server.Env) (server.Service, error) {
	f, err := Open(ctx, o.cfg, env)
	if err != nil {
		return nil, err
	}
	check := func() error {
		err := o.Check()
		if err == nil && o.cfg.RankFallback && !f.ranks() {
			err = errors.New("--feed-fallback bandit: there is no bandit, or one with a feature store, which " +
				"is too slow for it")
		}
		return err
	}
	f.settings = config.Settings(o.set, check, func() { f.apply(o.cfg) }, map[string]string{
		"feed-fallback":   "uniform, or bandit where there is one without a feature store",
		"feeds-watch":     "not 0; negative is never",
		"feeds-min-share": "from 0 to 1",
		"feeds-poll":      "not 0; negative is never",
		"sync-interval":   "above 0",
	})
	return f, nil
}

// Absent implements server.Absent.
func (o *Flags) Absent() []server.Route {
	none := func(w *server.Response, _ *server.Request) server.Outcome {
		w.Problem(http.StatusNotFound, "no lists are loaded, so there are no feeds: start weir serve with "+
			"--feeds FILE, which weir import "+
			"or weir generate writes")
		return server.Done
	}
	return []server.Route{{Pattern: "GET /feed/{user}", Handler: none},
		{Pattern: "POST /feed/{user}", Handler: none}}
}
