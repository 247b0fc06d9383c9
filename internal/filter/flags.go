package filter

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"weir/internal/cluster"
	"weir/internal/config"
	"weir/internal/server"
)

// Flags is the service before it is opened. It implements server.Opener.
type Flags struct {
	cfg                         Config
	set                         *pflag.FlagSet
	on                          bool
	allow                       []string
	cacheBytes, memory, maxBody config.Bytes
}

// Name implements server.Opener.
func (o *Flags) Name() string { return "filter" }

// AddFlags implements server.Opener.
func (o *Flags) AddFlags(f *pflag.FlagSet) {
	o.set = f
	o.cacheBytes, o.maxBody = 2<<30, 32<<20
	o.cfg.Limits = server.Limits{Requests: 2000, Bytes: 64 << 20, Time: 30 * time.Second}
	f.BoolVar(&o.on, "filter", true, "serve filtered feeds; --filter=false is off")
	f.StringVar(&o.cfg.Path, "filter-path", "/filtered", "path that filtered feeds are below")
	f.StringVar(&o.cfg.Base, "filter-url", "",
		"URL of the public port as readers see it, https://feeds.example.org; feeds then name themselves "+
			"by it "+
			"(default none: they go on to name their source)")
	f.StringSliceVar(&o.allow, "filter-allow-net", nil,
		"private networks that feeds may be fetched from, 10.0.0.0/8; all but public addresses are refused "+
			"otherwise")
	f.IntSliceVar(&o.cfg.Ports, "filter-ports", []int{80, 443, 8080, 8443},
		"ports that feeds may be fetched from")
	f.Var(&o.cacheBytes, "filter-cache", "size of fetched feeds on disk")
	f.Var(&o.memory, "filter-memory",
		"memory for feeds that are read, compressed; others are made anew when they are asked for "+
			"(default two fifths of the memory there is)")
	f.Var(&o.maxBody, "filter-max-feed", "size of a feed; a larger one counts as failing")
	f.DurationVar(&o.cfg.Interval, "filter-interval", 15*time.Minute,
		"between two fetches of a feed, at least; a feed may ask for longer")
	f.DurationVar(&o.cfg.Idle, "filter-idle", 24*time.Hour, "how long a feed is fetched on that nobody reads")
	f.DurationVar(&o.cfg.Wait, "filter-wait", 10*time.Second,
		"how long a reader waits for a feed that is fetched the first time")
	o.cfg.Limits.AddFlags(f, "filter")
}

// Check implements server.Opener.
func (o *Flags) Check() error {
	if !o.on {
		return server.Off("--filter=false")
	}
	o.cfg.CacheBytes, o.cfg.Memory, o.cfg.MaxBody = int64(o.cacheBytes), int64(o.memory), int64(o.maxBody)
	o.cfg.Allow = nil
	for _, text := range o.allow {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			if address, aerr := netip.ParseAddr(text); aerr == nil {
				network, err = address.Prefix(address.BitLen())
			}
		}
		if err != nil {
			return fmt.Errorf("--filter-allow-net must be networks like 10.0.0.0/8, got %q", text)
		}
		o.cfg.Allow = append(o.cfg.Allow, network.Masked())
	}
	o.cfg.Base = strings.TrimSuffix(o.cfg.Base, "/")
	if u, err := url.Parse(o.cfg.Base); o.cfg.Base != "" &&
		(err != nil || u.Scheme != "http" && u.Scheme != "https" ||
			u.Host == "" || u.RawQuery != "" || u.Fragment != "" ||
			strings.ContainsAny(o.cfg.Base, `"'<>&\`)) {
		return fmt.Errorf("--filter-url must be a URL like https://feeds.example.org, got %q", o.cfg.Base)
	}
	switch {
	case !plainPath(o.cfg.Path):
		return fmt.Errorf("--filter-path must be a path like /filtered, got %q", o.cfg.Path)
	case slices.ContainsFunc(o.cfg.Ports, func(p int) bool { return p < 1 || p > 65535 }):
		return errors.New("--filter-ports must be numbers from 1 to 65535")
	case o.cfg.Interval < time.Second || o.cfg.Interval > longestPause:
		return fmt.Errorf("--filter-interval must be from 1s to %v, got %v", longestPause, o.cfg.Interval)
	case o.cfg.Idle <= 0 || o.cfg.Wait <= 0:
		return errors.New("--filter-idle and --filter-wait must be above 0")
	case o.cfg.Limits.Requests < 0 || o.cfg.Limits.Time < 0:
		return errors.New("--filter-max-requests and --filter-timeout must not be negative")
	case o.cfg.Limits.Time > 0 && o.cfg.Limits.Time <= o.cfg.Wait:
		return errors.New("--filter-timeout must be longer than --filter-wait")
	case o.cfg.Memory != 0 && o.cfg.Memory < 1<<20 || o.cfg.CacheBytes < 1<<20 || o.cfg.MaxBody < 1<<10:
		return errors.New("--filter-memory and --filter-cache must be at least 1MiB, and --filter-max-feed " +
			"1KiB")
	}
	return nil
}

// plainPath says whether a path can be a route: of segments of letters, digits and hyphens.
func plainPath(path string) bool {
	rest, ok := strings.CutPrefix(path, "/")
	for segment := range strings.SplitSeq(rest, "/") {
		ok = ok && segment != "" && !strings.ContainsFunc(segment, func(r rune) bool {
			return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' ||
				r == '_')
		})
	}
	return ok
}

// Path is where filtered feeds are.
func (o *Flags) Path() string { return o.cfg.Path }

// SetCluster has the service share its filters with the other nodes of a cluster, and fetch sources together
// with them. It is called before Open.
func (o *Flags) SetCluster(c *cluster.Client) { o.cfg.Cluster = c }

// Open implements server.Opener.
func (o *Flags) Open(_ context.Context, env server.Env) (server.Service, error) {
	if !o.set.Changed("filter-memory") {
		o.memory = config.Bytes(config.Memory() / 5 * 2) // what the collector keeps to is known by now
		o.cfg.Memory = int64(o.memory)
	}
	s, err := Open(o.cfg, env)
	if err != nil {
		return nil, err
	}
	s.settings = config.Settings(o.set, o.Check, func() { s.apply(o.cfg) }, map[string]string{
		"filter-interval":     "from 1s to " + longestPause.String(),
		"filter-idle":         "above 0",
		"filter-wait":         "above 0, and below --filter-timeout",
		"filter-timeout":      "above --filter-wait, or 0 for none",
		"filter-max-requests": "from 1, or 0 for no limit",
		"filter-max-memory":   "above 0",
		"filter-memory":       "from 1MiB",
	})
	return s, nil
}
