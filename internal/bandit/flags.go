package bandit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"weir/internal/bandit/arms"
	"weir/internal/bandit/featurestore"
	"weir/internal/cluster"
	"weir/internal/config"
	"weir/internal/server"
)

// Flags is a bandit before it is opened. It implements server.Opener.
type Flags struct {
	cfg                      Config
	on                       bool
	prior, learn, storeError string
	eventsListen             string
	checkpoint, memory       config.Bytes
	set                      *pflag.FlagSet
}

// Name implements server.Opener.
func (o *Flags) Name() string { return "bandit" }

// AddFlags implements server.Opener.
func (o *Flags) AddFlags(f *pflag.FlagSet) {
	o.cfg, o.set = Defaults(), f
	cfg := &o.cfg
	o.checkpoint = config.Bytes(cfg.Checkpoint)
	f.BoolVar(&o.on, "bandit", true, "serve predictions by Thompson sampling; --bandit=false is off")
	config.File(f, &cfg.Arms, "bandit-arms",
		"posteriors of arms, written by weir import-arms (default none: all is learned from events)")
	f.DurationVar(&cfg.Watch, "bandit-arms-watch", cfg.Watch,
		"how often to look for arms renamed over --bandit-arms; negative is never")
	f.StringVar(&o.prior, "bandit-prior", "1,1", "alpha and beta of items that nothing is known of")
	f.DurationVar(&cfg.HalfLife, "bandit-half-life", 0,
		"after how long an event counts half as much; 0 is never")
	config.Choice(f, &o.learn, "bandit-learn", "item",
		"finest arms that events make: item, segment or pair (every user's own)",
		"item", "segment", "pair")
	f.Float64Var(&cfg.ArmStrength, "bandit-arm-strength", 0,
		"observations that an item's posterior is worth at most where an arm "+
			"of a segment or user begins with it (default as the prior)")
	config.Choice(f, &o.eventsListen, "events-listen", "public",
		"port that takes events: public, which is for anybody, or admin",
		"public", "admin")
	f.IntVar(&cfg.MaxItems, "bandit-max-items", cfg.MaxItems, "items of one request for predictions")
	f.IntVar(&cfg.MaxQueries, "bandit-max-queries", cfg.MaxQueries, "requests in one batch")
	f.IntVar(&cfg.MaxEvents, "bandit-max-events", cfg.MaxEvents, "events of one request")
	f.Var(&o.memory, "bandit-memory",
		"bytes for what events teach and their ids; beyond that, new arms and ids are refused "+
			"(default a quarter of the memory there is)")
	f.Float64Var(&cfg.ClientIDs, "bandit-client-ids", cfg.ClientIDs,
		"share of the ids of events that are remembered, for a day or two, "+
			"that one client may take up")
	f.DurationVar(&cfg.MaxAhead, "bandit-max-ahead", cfg.MaxAhead,
		"how far the ts of an event may be ahead of the clock")
	f.DurationVar(&cfg.Sync, "bandit-sync", cfg.Sync,
		"how often events are made safe against a loss of power")
	f.Var(&o.checkpoint, "bandit-checkpoint",
		"size of the journal of events at which what they have taught is written as a whole")
	f.StringVar(&cfg.Model, "bandit-model", cfg.Model, "name of the model in the Open Inference Protocol")
	f.StringVar(&cfg.Store, "bandit-store", "", "feature store to read posteriors and segments from: "+
		"feast+http://, feast+redis:// or vertex:// (default the arms above)")
	config.Choice(f, &o.storeError, "bandit-on-store-error", "fail",
		"when the feature store fails and nothing is cached: fail (503) or prior", "fail", "prior")
	cfg.StoreOptions.AddFlags(f)
}

// Check implements server.Opener.
func (o *Flags) Check() error {
	if !o.on {
		if err := checkOff(o.set); err != nil {
			return err
		}
		return server.Off("--bandit=false")
	}
	o.cfg.EventsAdmin = o.eventsListen == "admin"
	o.cfg.Checkpoint = int64(o.checkpoint)
	if o.set.Changed("bandit-memory") {
		o.cfg.Memory = int64(o.memory)
	}
	return o.cfg.readFlags(o.set, o.prior, o.learn, o.storeError)
}

// SetCluster has the events kept by a cluster's engine, nil for none, from Open on.
func (o *Flags) SetCluster(c *cluster.Client) { o.cfg.Cluster = c }

// HasStore reports whether the flags name a feature store.
func (o *Flags) HasStore() bool { return o.cfg.Store != "" }

// Open implements server.Opener.
func (o *Flags) Open(ctx context.Context, env server.Env) (server.Service, error) {
	if !o.set.Changed("bandit-memory") {
		o.cfg.Memory = config.Memory() / 4 // what the collector keeps to is known by now
	}
	b, err := Open(ctx, o.cfg, env)
	if err != nil {
		return nil, err
	}
	bounds := map[string]string{
		"bandit-max-items":   "from 1",
		"bandit-max-queries": "from 1",
		"bandit-max-events":  "from 1",
		"bandit-max-ahead":   "from 0",
	}
	if o.cfg.Cluster == nil {
		bounds["bandit-sync"] = "above 0"
	}
	if o.cfg.Arms != "" {
		bounds["bandit-arms-watch"] = "not 0; negative is never"
	}
	if o.cfg.Store != "" {
		bounds["bandit-on-store-error"] = "fail or prior"
	}
	b.settings = config.Settings(o.set, o.Check, func() { b.apply(o.cfg) }, bounds)
	return b, nil
}

// checkOff refuses what was said of a bandit that is off.
func checkOff(flags *pflag.FlagSet) error {
	var idle []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed && (strings.HasPrefix(f.Name, "bandit-") || f.Name == "events-listen") {
			idle = append(idle, "--"+f.Name)
		}
	})
	if len(idle) > 0 {
		return fmt.Errorf("%s: the bandit is off; leave it out, or --bandit=false", strings.Join(idle, ", "))
	}
	return nil
}

// readFlags takes up the flags that are words, and refuses those that cannot work.
func (c *Config) readFlags(flags *pflag.FlagSet, prior, learn, storeError string) error {
	var err error
	if c.Prior, err = ParsePrior(prior); err != nil {
		return fmt.Errorf("--bandit-prior %s: %w", prior, err)
	}
	switch learn {
	case "item":
		c.Learn = arms.Item
	case "segment":
		c.Learn = arms.Segmented
	case "pair":
		c.Learn = arms.Pair
	}
	c.PriorOnStoreError = storeError == "prior"
	switch {
	case c.Store == "" && flags.Changed("bandit-on-store-error"):
		return errors.New("--bandit-on-store-error: there is no feature store to fail; name one with " +
			"--bandit-store, or leave it out")
	case c.Arms == "" && flags.Changed("bandit-arms-watch"):
		return errors.New("--bandit-arms-watch: there is no file to look at; name one with --bandit-arms, " +
			"or leave it out")
	}
	if err := errors.Join(c.StoreOptions.CheckFlags(flags, c.Store), c.check()); err != nil || c.Store == "" {
		return err
	}
	o := c.StoreOptions
	o.Prior = c.Prior
	return featurestore.Check(c.Store, o)
}

// ParsePrior reads the alpha and beta of a prior.
func ParsePrior(s string) ([2]float64, error) {
	a, b, ok := strings.Cut(s, ",")
	if ok {
		alpha, errA := strconv.ParseFloat(strings.TrimSpace(a), 64)
		beta, errB := strconv.ParseFloat(strings.TrimSpace(b), 64)
		if errA == nil && errB == nil && arms.ValidShape(alpha) && arms.ValidShape(beta) {
			return [2]float64{alpha, beta}, nil
		}
	}
	return [2]float64{}, fmt.Errorf("expected alpha and beta, two numbers above 0, as in 1,1")
}
