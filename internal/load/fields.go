package load

import (
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"weir/internal/load/control"
	"weir/internal/load/scenario"
)

// Field is all there is to say of a member of a Plan besides what it does: its flag, its place in a form, and
// what shells and checks have to know. JSON is what forms are made of.
type Field struct {
	Name  string `json:"name"` // as the plan's JSON has it
	Flag  string `json:"flag"` // the name with hyphens, unless said otherwise; "-" where there is none
	Short string `json:"-"`
	Help  string `json:"-"` // of the flag; in `quotes` is what its value is
	// Default says that 0 stands for a default, and cannot be given.
	Default bool `json:"-"`
	// Least and Most bound whole numbers, but for the 0 that says nothing.
	Least, Most int64 `json:"-"`
	// File says that the value is the name of a file, which others than the user may not choose freely.
	File bool `json:"-"`

	Group string `json:"group,omitempty"` // of the form; a field without one is not in it
	Label string `json:"label,omitempty"`
	// Kind is int, url, lines, list, text, check, radio or select; a line of text otherwise.
	Kind string `json:"kind,omitempty"`
	// Of radio and select: values, and what they are called.
	Options     [][2]string `json:"options,omitempty"`
	Placeholder string      `json:"placeholder,omitempty"`
	Hint        string      `json:"hint,omitempty"`
	// When says for which choices the field is there: "scenario:feed,predict|model:users" is for either of
	// the two scenarios, and for the model.
	When string `json:"when,omitempty"`
	Half bool   `json:"half,omitempty"` // of the width
	Need bool   `json:"need,omitempty"`
}

// The groups of a form, in their order.
const (
	groupWhat       = "What is asked for"
	groupHow        = "How much"
	groupConditions = "Conditions"
	groupRequest    = "The request"
	groupMore       = "More"
)

// Fields are the members of a Plan, in the order of a form.
var Fields = []Field{
	{Name: "url", Flag: "-", Group: groupWhat, Label: "URL", Kind: "url",
		Placeholder: "http://127.0.0.1:8080/next", When: "source:url", Need: true},
	{Name: "scenario", Group: groupWhat, Label: "Scenario", Kind: "select", When: "source:scenario",
		Options: [][2]string{
			{"feed", "feed: items for random users"}, {"predict", "predict: scores of items"},
			{"sequence", "sequence: Fibonacci values"}, {"poll", "poll: readers of feeds"},
			{"requests", "requests: from a file"}, {"mix", "a mix, by weights"},
		},
		Help: "what is asked for, if not one URL: feed, predict, sequence, poll, requests (see " +
			"--requests), or a `mix`: feed=3,predict=1"},
	{Name: "target", Group: groupWhat, Label: "Target", Kind: "url",
		Placeholder: "http://127.0.0.1:8080", When: "source:scenario",
		Hint: "The origin that the scenario asks.",
		Help: "`origin` that a scenario asks: http://host:port"},
	{Name: "items", Least: 1, Most: 100_000, Group: groupWhat, Label: "Items a request", Kind: "int",
		When: "scenario:feed,predict", Half: true, Default: true,
		Help: "items of a prediction (default 400), or items asked for of a feed (default 20)"},
	{Name: "max_item", Least: 1, Most: 1 << 40, Group: groupWhat, Label: "Largest item id", Kind: "int",
		When: "scenario:predict", Half: true, Placeholder: "1000000", Default: true,
		Help: "largest id of an item that predictions are asked for (default 1000000)"},
	{Name: "max_index", Least: -1, Most: 10_000_000, Group: groupWhat, Label: "Back to 0 after", Kind: "int",
		When: "scenario:sequence", Half: true, Placeholder: "1000", Default: true,
		Help: "index from which the scenario sequence goes back to the beginning (default 1000); " +
			"negative is never"},
	{Name: "feeds", Least: 1, Most: 100_000,
		Group: groupWhat, Label: "Feeds a user", Kind: "int", When: "scenario:poll",
		Half: true, Placeholder: "25", Default: true,
		Help: "feeds that each user of the scenario poll reads (default 25)"},
	{Name: "feed_pool", Least: 1, Most: scenario.MaxSubscriptions,
		Group: groupWhat, Label: "Different feeds", Kind: "int",
		When: "scenario:poll", Half: true, Placeholder: "a tenth of all", Default: true,
		Help: "different feeds that the scenario poll reads (default a tenth of all subscriptions)"},
	{Name: "feed_url", Group: groupWhat, Label: "Path of a feed", When: "scenario:poll",
		Placeholder: "/feed/{feed}.rss",
		Help: "`path` or URL of the feeds of the scenario poll, with {feed}, {user} and {n}, the " +
			"number of the subscription (default /feed/{feed}.rss)"},
	{Name: "feed_urls", Group: groupWhat, Label: "File of feeds", When: "scenario:poll",
		Placeholder: "feeds.txt", File: true,
		Hint: "A URL a line, in the folder of --files.",
		Help: "`file` of URLs or paths that the scenario poll reads, one a line, each of them a " +
			"subscription"},
	{Name: "requests", Group: groupWhat, Label: "File of requests", When: "scenario:requests",
		Placeholder: "requests.jsonl", File: true,
		Hint: "In the folder of --files.",
		Help: "`file` of requests, JSONL: {\"method\",\"url\",\"headers\",\"body\",\"weight\"}"},
	{Name: "vars", Group: groupWhat, Label: "File of variables", When: "scenario:requests",
		Placeholder: "users.csv", File: true,
		Help: "`file` of values for {{name}} in --requests, CSV with a header"},
	{Name: "vars_order", Group: groupWhat, Label: "Rows are taken", Kind: "select",
		When:    "scenario:requests",
		Options: [][2]string{{"sequential", "in order"}, {"random", "at random"}},
		Help:    "order in which rows of --vars are taken: sequential or random (default sequential)"},

	{Name: "mode", Group: groupHow, Label: "Mode", Kind: "radio",
		Options: [][2]string{
			{"constant", "Constant"}, {"classic", "Classic"}, {"adaptive", "Adaptive"},
		},
		Help: "constant load; classic: its --stages until --stop-when; adaptive: seeks the most the " +
			"target sustains and follows it"},
	{Name: "preset", Group: groupHow, Label: "Preset", Kind: "select",
		Options: [][2]string{
			{"normal", "normal"}, {"quick", "quick: a first look"},
			{"careful", "careful: a figure to publish"},
		},
		Help: "how long a run takes, and how close a search looks: quick for a first look, normal, careful " +
			"for a figure to publish"},
	{Name: "rate", Group: groupHow, Label: "Rate", Placeholder: "5000/s", When: "model:rate",
		Need: true,
		Hint: "Per second, minute or hour: 5000/s, 300/m. Of users who come again, a multiple: 60x.",
		Help: "requests of the open model, like `5000/s`, or 60x, times what --every means: sent " +
			"when their time has come, whatever the target does"},
	{Name: "connections", Least: 1, Most: control.MaxConnections,
		Group: groupHow, Label: "Connections", Kind: "int", Placeholder: "64",
		When: "model:connections", Need: true,
		Hint: "Each sends its next request once the last is answered.",
		Help: "closed model: each of so many connections sends its next request once the last is " +
			"answered"},
	{Name: "users", Least: 1, Most: 1 << 40,
		Group: groupHow, Label: "Users", Kind: "int", Half: true, Placeholder: "5000",
		When: "model:users|scenario:feed,predict,poll", Default: true,
		Help: "users to choose from (default 100000; of poll, readers, 5000); with --every each " +
			"of them comes that often"},
	{Name: "every", Group: groupHow, Label: "Each comes every", Half: true, Placeholder: "5m",
		When: "model:users", Need: true,
		Help: "how often each of the --users comes: the rate is users/every, or " +
			"users*feeds/every for poll"},
	{Name: "stages", Group: groupHow, Label: "Stages", Placeholder: "1000/s:30s,2000/s:30s",
		When: "mode:classic", Need: true,
		Help: "`rates` of the mode classic one after another, like 1000/s:30s,2000/s:30s"},
	{Name: "duration", Group: groupHow, Label: "Duration", Half: true,
		When: "mode:adaptive|model:rate,users,connections", Default: true,
		Help: "length of the run, --warmup and --ramp not counted (default: the --preset's; 30s, and for " +
			"the mode adaptive 60s, with --healthy-when 90s)"},
	{Name: "warmup", Group: groupHow, Label: "Warm-up", Half: true, Placeholder: "0s",
		Help: "load before the figures begin to count"},
	{Name: "ramp", Group: groupHow, Label: "Ramp", Half: true, Placeholder: "0s",
		When: "model:rate,users,connections",
		Help: "time over which the load grows from nothing to its rate"},
	{Name: "arrivals", Group: groupHow, Label: "Arrivals", Half: true, Kind: "select",
		When:    "mode:adaptive,classic|model:rate,users",
		Options: [][2]string{{"constant", "even"}, {"poisson", "Poisson"}},
		Help:    "spacing of the open model: constant, or poisson as independent users make them"},

	{Name: "healthy", Flag: "healthy-when", Group: groupConditions, Label: "Healthy is",
		Kind: "lines", Placeholder: "p99 < 50ms", When: "mode:adaptive",
		Hint: "One a line. What the search keeps true; empty is a good choice.",
		Help: "what the mode adaptive keeps true, like `'p99<50ms'`; may be repeated (default: " +
			"success, shed, achieved rate and latency)"},
	{Name: "stop_when", Group: groupConditions, Label: "Stop when", Kind: "lines",
		Placeholder: "p95 > 50ms for 5s",
		Hint:        "One a line. Any of them ends the run.",
		Help:        "`condition` that ends the run, like 'p95>50ms for 5s'; may be repeated"},
	{Name: "fail_when", Group: groupConditions, Label: "Fail when", Kind: "lines",
		Placeholder: "errors > 1%",
		Hint:        "One a line. Judged over the whole run.",
		Help: "`condition` on the whole run that makes the exit code 1, like 'errors>1%'; may be " +
			"repeated"},

	{Name: "method", Short: "X", Group: groupRequest, Label: "Method", Placeholder: "GET",
		Half: true,
		Help: "`method` of the requests for one URL, or for feeds (default GET)"},
	{Name: "headers", Flag: "header", Short: "H", Group: groupRequest, Label: "Headers",
		Kind: "lines", Placeholder: "Accept: application/json",
		Hint: "One a line.",
		Help: "`'Name: value'` sent along; may be repeated"},
	{Name: "body", Short: "d", Group: groupRequest, Label: "Body", Kind: "text",
		Help: "`body` of the requests for one URL, or @file; with it the method is POST unless " +
			"said otherwise"},

	{Name: "name", Group: groupMore, Label: "Name of the run", Placeholder: "before the change",
		Help: "`name` of the run, in results and the history"},
	{Name: "target_metrics", Group: groupMore, Label: "Target’s metrics", Kind: "url",
		Placeholder: "http://127.0.0.1:8081/metrics",
		Hint:        "Prometheus metrics, for the target’s CPU and memory.",
		Help: "`URL` of the target's Prometheus metrics, for its CPU and memory: " +
			"http://127.0.0.1:8081/metrics of weir"},
	{Name: "timeout", Group: groupMore, Label: "Timeout", Half: true, Placeholder: "10s",
		Help: "time a request may take, from when it is or was to be sent"},
	{Name: "seed", Group: groupMore, Label: "Seed", Half: true, Kind: "int", Placeholder: "1",
		Help: "number that everything random depends on"},
	{Name: "pipeline", Least: 1, Most: 1 << 10, Group: groupMore, Label: "Pipelined", Half: true, Kind: "int",
		Placeholder: "1",
		Help: "requests that the closed model sends at once on a connection; the next ones " +
			"follow when all are answered"},
	{Name: "max_connections", Least: 1, Most: control.MaxConnections,
		Group: groupMore, Label: "Connections at most", Half: true,
		Kind: "int", Placeholder: "10000", Default: true,
		Help: "connections of the open model at most; requests beyond them are dropped and counted"},
	{Name: "warm", Least: 1, Most: control.MaxConnections,
		Group: groupMore, Label: "Opened beforehand", Half: true, Kind: "int",
		Placeholder: "64", Default: true,
		Help: "connections opened before the first request of the open model"},
	{Name: "threads", Least: 1, Most: 1 << 10, Group: groupMore, Label: "Threads", Half: true, Kind: "int",
		Placeholder: "as many as fit",
		Help:        "threads that make requests; 0 is as many as the machine can spare"},
	{Name: "first_user", Least: 0, Most: math.MaxInt64,
		Group: groupMore, Label: "Smallest user id", Half: true, Kind: "int",
		Placeholder: "0", When: "scenario:feed,predict,poll",
		Help: "smallest id of a user; the others follow"},
	{Name: "no_check", Group: groupMore, Label: "Begin without asking the target first",
		Kind: "check",
		Help: "begin without having asked the target once, for one whose answers are to be errors"},
	{Name: "http2", Group: groupMore, Label: "HTTP/2", Kind: "check", Half: true,
		Help: "HTTP/2 for https targets, by net/http"},
	{Name: "insecure", Group: groupMore, Label: "Believe any certificate", Kind: "check",
		Half: true,
		Help: "believe any certificate"},
	{Name: "agents", Group: groupMore, Label: "Runners on other machines",
		Placeholder: "host:port, host:port", Kind: "list",
		Help: "runners on other machines that make the load together, `host:port`,...: weir load agent"},
	{Name: "i_own_this_target", Kind: "list",
		Help: "`host` beyond loopback that the load may go to; may be repeated"},
}

// members are where the members of a plan's JSON are in Plan.
var members = func() map[string][]int {
	members := make(map[string][]int)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Plan]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if known := members[name]; len(known) == 0 || len(f.Index) < len(known) {
			members[name] = f.Index
		}
	}
	for i := range Fields {
		f := &Fields[i]
		if f.Flag == "" {
			f.Flag = strings.ReplaceAll(f.Name, "_", "-")
		}
	}
	return members
}()

func field(match func(*Field) bool) (Field, bool) {
	for i := range Fields {
		if match(&Fields[i]) {
			return Fields[i], true
		}
	}
	return Field{}, false
}

// FieldOfFlag returns the field that a flag sets.
func FieldOfFlag(flag string) (Field, bool) {
	return field(func(f *Field) bool { return f.Flag == flag })
}

// member returns the member of p that f is about, a pointer.
func (p *Plan) member(f *Field) any {
	return reflect.ValueOf(p).Elem().FieldByIndex(members[f.Name]).Addr().Interface()
}

// Files calls change with each file that p names, by its member.
func (p *Plan) Files(change func(member string, name *string) error) error {
	for i := range Fields {
		if f := &Fields[i]; f.File {
			if err := change(f.Name, p.member(f).(*string)); err != nil {
				return err
			}
		}
	}
	return nil
}

// AddFlags adds a flag for every member of p but the URL, with p's values as their defaults.
func (p *Plan) AddFlags(flags *pflag.FlagSet) {
	for i := range Fields {
		f := &Fields[i]
		if f.Flag == "-" {
			continue
		}
		switch v := p.member(f).(type) {
		case *string:
			flags.StringVarP(v, f.Flag, f.Short, *v, f.Help)
		case *[]string:
			if f.Kind == "list" { // by comma, too
				flags.StringSliceVarP(v, f.Flag, f.Short, *v, f.Help)
			} else {
				flags.StringArrayVarP(v, f.Flag, f.Short, *v, f.Help)
			}
		case *int:
			flags.IntVarP(v, f.Flag, f.Short, *v, f.Help)
		case *uint64:
			flags.Uint64VarP(v, f.Flag, f.Short, *v, f.Help)
		case *bool:
			flags.BoolVarP(v, f.Flag, f.Short, *v, f.Help)
		case *Duration:
			flags.DurationVarP((*time.Duration)(v), f.Flag, f.Short, time.Duration(*v), f.Help)
		default:
			panic("BUG: no flag can set " + f.Name)
		}
	}
}
