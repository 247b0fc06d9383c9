package featurestore

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/pflag"
)

// AddFlags adds the flags that set o, with what DefaultOptions returns for defaults.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	d := DefaultOptions()
	o.Prior = d.Prior
	f.IntVar(&o.Chunk, "bandit-store-chunk", d.Chunk,
		"entities asked of the feature store in one request (Vertex AI takes at most 100)")
	f.IntVar(&o.Concurrency, "bandit-store-concurrency", d.Concurrency,
		"requests to the feature store at a time")
	f.DurationVar(&o.Timeout, "bandit-store-timeout", d.Timeout,
		"how long the feature store may take for all entities of a prediction")
	f.DurationVar(&o.TTL, "bandit-store-cache-ttl", d.TTL,
		"how long what the feature store said is used without asking again; 0 asks for every prediction")
	f.DurationVar(&o.Stale, "bandit-store-cache-stale", d.Stale,
		"how long past its TTL it is used while the feature store fails; 0 is not at all")
	f.DurationVar(&o.Retry, "bandit-store-retry", d.Retry,
		"while the feature store fails: how often to try it in the background")
	f.IntVar(&o.CacheEntries, "bandit-store-cache-entries", d.CacheEntries,
		"entities whose features are kept in memory, about 140 bytes each, items and users apart")
	f.StringVar(&o.ItemEntity, "bandit-store-item-entity", d.ItemEntity,
		"join key of items in the feature store")
	f.StringVar(&o.UserEntity, "bandit-store-user-entity", d.UserEntity,
		"join key of users in the feature store")
	f.StringVar(&o.ItemView, "bandit-store-item-view", d.ItemView, "feature view of items")
	f.StringVar(&o.UserView, "bandit-store-user-view", d.UserView,
		"feature view of users; without one users have no segments")
	f.StringVar(&o.Alpha, "bandit-store-alpha", d.Alpha,
		"feature of items that is the alpha of their posterior")
	f.StringVar(&o.Beta, "bandit-store-beta", d.Beta, "feature of items that is the beta of their posterior")
	f.StringVar(&o.Clicks, "bandit-store-clicks", d.Clicks, "feature of items that counts clicks, instead "+
		"of alpha and beta (with --bandit-store-impressions)")
	f.StringVar(&o.Impressions, "bandit-store-impressions", d.Impressions,
		"feature of items that counts impressions, instead of alpha and beta (with --bandit-store-clicks)")
	f.StringVar(&o.Segment, "bandit-store-segment", d.Segment, "feature of users that is their segment")
	f.StringVar(&o.IDType, "bandit-store-id-type", d.IDType,
		"type of join keys in the feature store: string, int64, int32, or auto, which finds out")
	f.DurationVar(&o.MaxAge, "bandit-store-max-age", d.MaxAge,
		"take values that were observed longer ago for absent; 0 takes all")
	f.StringVar(&o.CA, "bandit-store-ca", d.CA,
		"PEM file of certificate authorities to trust besides the system's")
}

// flagPrefix is what all flags of AddFlags begin with.
const flagPrefix = "bandit-store-"

// CheckFlags refuses flags that were given and do nothing, beside those that are wrong: who has given one
// counts on it. store is what names the store, "" for none.
func (o *Options) CheckFlags(flags *pflag.FlagSet, store string) error {
	given := func(name string) bool { return flags.Changed(flagPrefix + name) }
	if store == "" {
		var idle []string
		flags.VisitAll(func(f *pflag.Flag) {
			if f.Changed && strings.HasPrefix(f.Name, flagPrefix) {
				idle = append(idle, "--"+f.Name)
			}
		})
		if len(idle) > 0 {
			return fmt.Errorf("%s: there is no feature store to apply to; name one with --bandit-store, or "+
				"leave it out", strings.Join(idle, ", "))
		}
		return nil
	}

	// A zero stands for the default in Options: who writes one has meant no limit by it, or none at all.
	for _, name := range []string{"chunk", "concurrency", "timeout", "retry", "cache-entries", "item-view",
		"item-entity", "user-entity", "segment", "id-type"} {
		f := flags.Lookup(flagPrefix + name)
		what := "above 0"
		switch {
		case name == "cache-entries":
			what += "; --bandit-store-cache-ttl 0 --bandit-store-cache-stale 0 does without a cache"
		case name == "id-type":
			what = "auto, string, int64 or int32"
		case f.Value.Type() == "string":
			what = "a name"
		}
		if v := f.Value.String(); f.Changed && (v == "0" || v == "0s" || v == "") {
			return fmt.Errorf("--%s must be %s; without it, it is %s", f.Name, what, f.DefValue)
		}
	}

	u, err := url.Parse(store)
	if err != nil {
		return nil // Open says so
	}
	vertex := u.Scheme == "vertex"
	for _, r := range []struct {
		when    bool
		because string
		flags   []string
	}{
		{vertex, "Vertex AI knows entities by their ids alone",
			[]string{"item-entity", "user-entity", "id-type"}},
		{vertex && strings.Count(strings.Trim(u.Path, "/"), "/") == 2,
			"the URL of --bandit-store names the view of items", []string{"item-view"}},
		{u.Scheme != "feast+https" && u.Scheme != "feast+rediss" &&
			!vertex, "it is for feast+https://, feast+rediss:// and vertex://", []string{"ca"}},
		{o.UserView == "", "without --bandit-store-user-view nobody has a segment",
			[]string{"user-entity", "segment"}},
		{o.Clicks != "" || o.Impressions != "",
			"--bandit-store-clicks and --bandit-store-impressions are read instead",
			[]string{"alpha", "beta"}},
		{o.Stale == 0 && o.TTL == 0,
			"with --bandit-store-cache-ttl 0 and --bandit-store-cache-stale 0 there is no cache",
			[]string{"cache-entries"}},
	} {
		for _, name := range r.flags {
			if r.when && given(name) {
				return fmt.Errorf("--%s%s does nothing here: %s; leave it out", flagPrefix, name, r.because)
			}
		}
	}
	return nil
}
