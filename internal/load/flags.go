package load

import (
	"time"

	"github.com/spf13/pflag"
)

// Modes are what Plan.Mode can be, for completion.
var Modes = []string{"constant", "classic", "adaptive"}

// Default returns the plan that flags and forms begin with.
func Default() Plan {
	return Plan{
		Mode:           "constant",
		Arrivals:       "constant",
		Timeout:        Duration(10 * time.Second),
		MaxConnections: 10_000,
		Warm:           64,
		Seed:           1,
	}
}

// AddFlags adds a flag for every member of p, with p's values as their defaults.
func (p *Plan) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&p.Name, "name", p.Name, "`name` of the run, in results and the history")

	f.StringVarP(&p.Method, "method", "X", p.Method, "`method` of the requests for one URL, or for feeds (default GET)")
	f.StringArrayVarP(&p.Headers, "header", "H", p.Headers, "`'Name: value'` sent along; may be repeated")
	f.StringVarP(&p.Body, "body", "d", p.Body, "`body` of the requests for one URL, or @file; with it the method is POST unless said otherwise")
	f.StringVar(&p.Scenario, "scenario", p.Scenario, "what is asked for, if not one URL: feed, predict, sequence, poll, requests (see --requests), or a `mix`: feed=3,predict=1")
	f.StringVar(&p.Target, "target", p.Target, "`origin` that a scenario asks: http://host:port")
	f.IntVar(&p.Users, "users", p.Users, "users to choose from (default 100000; of poll, readers, 5000); with --every each of them comes that often")
	f.Uint64Var(&p.FirstUser, "first-user", p.FirstUser, "smallest id of a user; the others follow")
	f.DurationVar((*time.Duration)(&p.Every), "every", time.Duration(p.Every), "how often each of the --users comes: the rate is users/every, or users*feeds/every for poll")
	f.IntVar(&p.Items, "items", p.Items, "items of a prediction (default 400), or items asked for of a feed (default 20)")
	f.IntVar(&p.MaxItem, "max-item", p.MaxItem, "largest id of an item that predictions are asked for (default 1000000)")
	f.IntVar(&p.MaxIndex, "max-index", p.MaxIndex, "index from which the scenario sequence goes back to the beginning (default 1000); negative is never")
	f.IntVar(&p.Feeds, "feeds", p.Feeds, "feeds that each user of the scenario poll reads (default 25)")
	f.IntVar(&p.FeedPool, "feed-pool", p.FeedPool, "different feeds that the scenario poll reads (default a tenth of all subscriptions)")
	f.StringVar(&p.FeedURL, "feed-url", p.FeedURL, "`path` or URL of the feeds of the scenario poll, with {feed}, {user} and {n}, the number of the subscription (default /feed/{feed}.rss)")
	f.StringVar(&p.FeedURLs, "feed-urls", p.FeedURLs, "`file` of URLs or paths that the scenario poll reads, one a line, each of them a subscription")
	f.StringVar(&p.Requests, "requests", p.Requests, "`file` of requests, JSONL: {\"method\",\"url\",\"headers\",\"body\",\"weight\"}")
	f.StringVar(&p.Vars, "vars", p.Vars, "`file` of values for {{name}} in --requests, CSV with a header")

	f.StringVar(&p.VarsOrder, "vars-order", p.VarsOrder, "order in which rows of --vars are taken: sequential or random (default sequential)")

	f.StringVar(&p.Mode, "mode", p.Mode, "constant load; classic: --stages until --stop-when; adaptive: seeks the most the target sustains and follows it")
	f.StringVar(&p.Rate, "rate", p.Rate, "requests of the open model, like `5000/s`, or 60x, times what --every means: sent when their time has come, whatever the target does")
	f.IntVar(&p.Connections, "connections", p.Connections, "closed model: each of so many connections sends its next request once the last is answered")
	f.IntVar(&p.Pipeline, "pipeline", p.Pipeline, "requests that the closed model sends at once on a connection; the next ones follow when all are answered")
	f.StringVar(&p.Stages, "stages", p.Stages, "`rates` of the mode classic one after another, like 1000/s:30s,2000/s:30s")
	f.StringVar(&p.Arrivals, "arrivals", p.Arrivals, "spacing of the open model: constant, or poisson as independent users make them")
	f.DurationVar((*time.Duration)(&p.Duration), "duration", time.Duration(p.Duration), "length of the run, --warmup and --ramp not counted (default 30s; stages: theirs; adaptive: 60s, with --healthy-when 90s)")
	f.DurationVar((*time.Duration)(&p.Warmup), "warmup", time.Duration(p.Warmup), "load before the figures begin to count")
	f.DurationVar((*time.Duration)(&p.Ramp), "ramp", time.Duration(p.Ramp), "time over which the load grows from nothing to its rate")
	f.StringArrayVar(&p.Healthy, "healthy-when", p.Healthy, "what the mode adaptive keeps true, like `'p99<50ms'`; may be repeated (default: success, shed, achieved rate and latency)")
	f.StringArrayVar(&p.StopWhen, "stop-when", p.StopWhen, "`condition` that ends the run, like 'p95>50ms for 5s'; may be repeated")
	f.StringArrayVar(&p.FailWhen, "fail-when", p.FailWhen, "`condition` on the whole run that makes the exit code 1, like 'errors>1%'; may be repeated")

	f.DurationVar((*time.Duration)(&p.Timeout), "timeout", time.Duration(p.Timeout), "time a request may take, from when it is or was to be sent")
	f.IntVar(&p.MaxConnections, "max-connections", p.MaxConnections, "connections of the open model at most; requests beyond them are dropped and counted")
	f.IntVar(&p.Warm, "warm", p.Warm, "connections opened before the first request of the open model")
	f.IntVar(&p.Threads, "threads", p.Threads, "threads that make requests; 0 is as many as the machine can spare")
	f.BoolVar(&p.HTTP2, "http2", p.HTTP2, "HTTP/2 for https targets, by net/http")
	f.BoolVar(&p.Insecure, "insecure", p.Insecure, "believe any certificate")
	f.Uint64Var(&p.Seed, "seed", p.Seed, "number that everything random depends on")
	f.BoolVar(&p.NoCheck, "no-check", p.NoCheck, "begin without having asked the target once, for one whose answers are to be errors")
	f.StringVar(&p.TargetMetrics, "target-metrics", p.TargetMetrics, "`URL` of the target's Prometheus metrics, for its CPU and memory: http://127.0.0.1:8081/metrics of weir")
	f.StringSliceVar(&p.Agents, "agents", p.Agents, "runners on other machines that make the load together, `host:port`,...: weir load agent")
	f.StringSliceVar(&p.Own, "i-own-this-target", p.Own, "`host` beyond loopback that the load may go to; may be repeated")
}
