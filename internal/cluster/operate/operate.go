package operate

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"weir/internal/cluster"
	"weir/internal/cluster/members"
	"weir/internal/server"
	"weir/internal/webui"
)

//go:embed pages
var pages embed.FS

// Cluster is an engine that is in use. It implements server.Service: the first that is opened, and the last
// that is closed.
type Cluster struct {
	client     *cluster.Client
	flags      *Flags
	options    cluster.Options
	log        *slog.Logger
	background *server.Background
	report     atomic.Pointer[Report]
	members    *members.Members // nil before Join
	nodes      atomic.Pointer[nodes]
	wrong      atomic.Pointer[string] // with other nodes
}

var _ server.Service = (*Cluster)(nil)

// Report is what the last look at the engine has found.
type Report struct {
	At       time.Time `json:"at"`
	Error    string    `json:"error,omitempty"` // no node could be asked; the findings are those of before
	Findings []Finding `json:"findings"`
}

// lookEvery is how often a node looks at the engine's settings again: they may be changed under it.
const lookEvery = time.Minute

// Open implements server.Opener: it looks at the engine's settings, and connects.
func (o *Flags) Open(ctx context.Context, env server.Env) (server.Service, error) {
	options, err := o.Options()
	if err != nil {
		return nil, err
	}
	options.Log, options.Metrics = env.Log, env.Metrics
	c := &Cluster{flags: o, options: options, log: env.Log}
	findings, err := Examine(ctx, options, o.Want())
	if err != nil {
		return nil, fmt.Errorf("--cluster: %w", err)
	}
	c.report.Store(&Report{At: time.Now(), Findings: findings})
	if err := Breaking(findings); err != nil {
		if !o.unsafe {
			return nil, fmt.Errorf("--cluster: the engine does not keep what weir promises; see weir "+
				"cluster check, or say --cluster-unsafe to serve all the same:\n%w", err)
		}
		c.log.Warn("the engine does not keep what weir promises, and --cluster-unsafe serves all the same",
			"error", err)
	}
	if c.client, err = cluster.Open(ctx, options); err != nil {
		return nil, fmt.Errorf("--cluster: %w", err)
	}
	if err := c.client.FixVersion(ctx); errors.Is(err, cluster.ErrFormat) {
		return nil, errors.Join(fmt.Errorf("--cluster: %w", err), c.client.Close())
	}
	c.background = env.Background(o.Name())
	c.background.Go("looks at the engine", c.watch)
	return c, nil
}

// Client returns the client that all services share.
func (c *Cluster) Client() *cluster.Client { return c.client }

// Join makes this node one that the others know of, until Close.
func (c *Cluster) Join(self members.Member) {
	c.members = members.Join(c.client, self, c.log)
	c.background.Go("looks at the nodes", c.follow)
}

// FallbackWhenLost says whether feeds are fallback items while the engine is lost.
func (c *Cluster) FallbackWhenLost() bool { return c.flags.FallbackWhenLost() }

// Members is this node among the others, nil before Join.
func (c *Cluster) Members() *members.Members { return c.members }

// watch looks at the engine now and then.
func (c *Cluster) watch(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.look(ctx)
		}
	}
}

// look examines the engine, and logs what breaks a promise since the look before.
func (c *Cluster) look(ctx context.Context) *Report {
	before := c.report.Load()
	now := &Report{At: time.Now()}
	findings, err := Examine(ctx, c.options, c.flags.Want())
	if now.Findings = findings; err != nil {
		now.Error, now.Findings = err.Error(), before.Findings
	}
	for i := range now.Findings {
		if f := &now.Findings[i]; f.Breaks && !before.Findings[i].Breaks {
			c.log.Error("a setting of the engine breaks a promise; see weir cluster check", "check", f.Check,
				"found", f.Found, "mend", f.Mend)
		}
	}
	c.report.Store(now)
	return now
}

// Name implements server.Service.
func (c *Cluster) Name() string { return c.flags.Name() }

// Health implements server.Service. A node is never down for want of the engine: predictions go on.
func (c *Cluster) Health() server.Health {
	r := c.report.Load()
	for _, f := range r.Findings {
		if f.Breaks {
			return server.Degraded(fmt.Sprintf("the engine breaks a promise (%s: %s); see weir cluster check",
				f.Check, f.Found))
		}
	}
	if r.Error != "" {
		return server.Degraded("the engine cannot be reached: " + r.Error)
	}
	for _, sh := range c.client.Stats().Shards {
		if sh.Err != nil {
			return server.Degraded(fmt.Sprintf("the primary %s cannot be reached: %v; its users are "+
				"answered 503", sh.Addr, sh.Err))
		}
	}
	if wrong := c.wrong.Load(); wrong != nil && *wrong != "" {
		return server.Degraded("other nodes: " + *wrong)
	}
	return c.background.Health()
}

// Close implements server.Service.
func (c *Cluster) Close() error {
	c.background.Stop()
	var err error
	if c.members != nil {
		err = c.members.Close()
	}
	return errors.Join(err, c.client.Close())
}

// Pages implements server.Pager.
func (c *Cluster) Pages() []webui.Page {
	files, err := fs.Sub(pages, "pages")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return []webui.Page{{Name: "cluster", Title: "Cluster", Files: files}}
}

// Routes implements server.Service.
func (c *Cluster) Routes() []server.Route {
	return []server.Route{
		{Pattern: "GET /admin/cluster", Handler: c.get, Admin: true},
		{Pattern: "POST /admin/cluster/check", Handler: c.check, Admin: true},
	}
}

// Absent implements server.Absent.
func (o *Flags) Absent() []server.Route {
	none := func(w *server.Response, _ *server.Request) server.Outcome {
		w.Problem(http.StatusNotFound, "this server keeps its state on its own disk, and is one box: start "+
			"weir serve with --cluster valkey://HOST:PORT,HOST:PORT to share an engine with others")
		return server.Done
	}
	return []server.Route{{Pattern: "GET /admin/cluster", Handler: none, Admin: true},
		{Pattern: "POST /admin/cluster/check", Handler: none, Admin: true}}
}

// status is the answer to GET /admin/cluster. Counts are since the start.
type status struct {
	Prefix       string  `json:"prefix"`
	Replicas     int     `json:"replicas"` // that must have a change
	Lost         string  `json:"lost"`
	Unsafe       bool    `json:"unsafe"`
	Shards       []shown `json:"shards"`
	Commands     uint64  `json:"commands"`
	Batches      uint64  `json:"batches"`
	Moved        uint64  `json:"moved"`
	Asked        uint64  `json:"asked"`
	Unavailable  uint64  `json:"unavailable"`  // commands that were not executed
	Unreplicated uint64  `json:"unreplicated"` // commands that were, on too few replicas
	Unknown      uint64  `json:"unknown"`      // commands that were sent and not answered
	Errors       uint64  `json:"errors"`       // commands that the engine refused as wrong
	WaitP50      float64 `json:"wait_p50"`     // seconds
	WaitP99      float64 `json:"wait_p99"`
	Report       *Report `json:"report"`
	// Nodes are as this one saw them last, within seconds.
	Nodes shownNodes `json:"nodes"`
}

// shown is a shard of the engine.
type shown struct {
	Address  string   `json:"address"`
	Replicas []string `json:"replicas"`
	Slots    int      `json:"slots"`
	Queued   int      `json:"queued"`
	Error    string   `json:"error,omitempty"`
}

func (c *Cluster) get(w *server.Response, _ *server.Request) server.Outcome {
	of := c.client.Stats()
	s := status{Prefix: c.options.Prefix, Replicas: c.options.Replicas, Lost: c.flags.lost,
		Unsafe: c.flags.unsafe, Shards: []shown{}, Commands: of.Commands, Batches: of.Batches,
		Moved: of.Moved, Asked: of.Asked, Unavailable: of.Unavailable, Unreplicated: of.Unreplicated,
		Unknown: of.Unknown, Errors: of.Errors, WaitP50: of.Wait50.Seconds(), WaitP99: of.Wait99.Seconds(),
		Report: c.report.Load()}
	if n := c.nodes.Load(); n != nil {
		s.Nodes = n.show(c.members.ID())
	} else {
		s.Nodes = (&nodes{at: time.Now()}).show("")
	}
	for _, sh := range of.Shards {
		one := shown{Address: sh.Addr, Replicas: append([]string{}, sh.Replicas...), Slots: sh.Slots,
			Queued: sh.Queued}
		if sh.Err != nil {
			one.Error = sh.Err.Error()
		}
		s.Shards = append(s.Shards, one)
	}
	w.Field("Cache-Control", "no-store")
	w.JSON(s)
	return server.Done
}

// check answers POST /admin/cluster/check. Handlers of the admin port may block.
func (c *Cluster) check(w *server.Response, _ *server.Request) server.Outcome {
	w.Field("Cache-Control", "no-store")
	w.JSON(c.look(c.background.Context()))
	return server.Done
}
