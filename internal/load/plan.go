package load

import (
	"time"

	"weir/internal/load/scenario"
)

// Plan is all that a person says about a run: the command line, the web UI and plan files each make one.
// Durations are written as "30s", rates as "5000/s", conditions as "p99 > 50ms for 5s".
type Plan struct {
	Name string `json:"name,omitempty"`

	// What is asked for, without what its files hold.
	scenario.Spec
	Every Duration `json:"every,omitempty"` // how often each user comes

	// How much.
	Mode        string   `json:"mode"`                  // constant, classic, adaptive
	Preset      string   `json:"preset"`                // quick, normal, careful
	Rate        string   `json:"rate,omitempty"`        // "5000/s", or "60x": times what every means
	Connections int      `json:"connections,omitempty"` // closed model
	Pipeline    int      `json:"pipeline,omitempty"`    // requests at once on each of them
	Stages      string   `json:"stages,omitempty"`      // "1000/s:30s,2000/s:30s"
	Arrivals    string   `json:"arrivals,omitempty"`
	Duration    Duration `json:"duration,omitempty"`
	Warmup      Duration `json:"warmup,omitempty"`
	Ramp        Duration `json:"ramp,omitempty"`
	Healthy     []string `json:"healthy,omitempty"` // what adaptive keeps true
	StopWhen    []string `json:"stop_when,omitempty"`
	FailWhen    []string `json:"fail_when,omitempty"`

	// From where, and how.
	Timeout        Duration `json:"timeout,omitempty"`
	MaxConnections int      `json:"max_connections,omitempty"`
	Warm           int      `json:"warm,omitempty"` // connections
	Threads        int      `json:"threads,omitempty"`
	NoCheck        bool     `json:"no_check,omitempty"`       // begin without having asked
	TargetMetrics  string   `json:"target_metrics,omitempty"` // URL of the target's Prometheus metrics
	Agents         []string `json:"agents,omitempty"`         // host:port
	Own            []string `json:"i_own_this_target,omitempty"`
}

// Default returns the plan that flags and forms begin with.
func Default() Plan {
	return Plan{
		Mode:           "constant",
		Preset:         "normal",
		Arrivals:       "constant",
		Timeout:        Duration(10 * time.Second),
		MaxConnections: 10_000,
		Warm:           64,
		Spec:           scenario.Spec{Seed: 1},
	}
}

// Duration is a time.Duration that is text in JSON: "1m30s".
type Duration time.Duration

// String writes d as time.Duration does.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes d as time.Duration does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}
