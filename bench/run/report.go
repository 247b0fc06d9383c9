//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// report is everything a run found; as JSON it is what --json holds. What is not the machine's and
// not another service's is the feed's.
type report struct {
	Machine     machine      `json:"machine"`
	Parameters  parameters   `json:"parameters"`
	Bars        []*bar       `json:"bars,omitempty"`
	Samples     []*sample    `json:"samples,omitempty"`
	Starts      *starts      `json:"starts,omitempty"`
	Imports     []imported   `json:"imports,omitempty"`
	Allocations *allocations `json:"allocations,omitempty"`

	Sequence *sequenceReport `json:"sequence,omitempty"`
	Bandit   *banditReport   `json:"bandit,omitempty"`
	Load     *loadReport     `json:"load,omitempty"`
	Shed     *shedReport     `json:"shed,omitempty"`
	Adaptive *adaptiveReport `json:"adaptive,omitempty"`
}

type machine struct {
	Date   string `json:"date"`
	Kernel string `json:"kernel"`
	CPU    string `json:"cpu"`
	Memory string `json:"memory"`
	Weir   string `json:"weir"` // version, commit and Go release, as weir version prints them
	Go     string `json:"go"`   // that built this program
	Load1  string `json:"load1"`

	// How late the server's core wakes up as the machine is, and as it is measured: with idle states off. The latter is nil
	// where they could not be switched off.
	Asleep *wakeups `json:"wakeups,omitempty"`
	Awake  *wakeups `json:"wakeups_measured,omitempty"`
	// Nice is how nice what was measured was, nil where it could not be chosen.
	Nice *int `json:"nice,omitempty"`
}

type parameters struct {
	Users       int     `json:"users"`
	Items       int     `json:"items"`
	MaxItem     int     `json:"max_item"`
	Connections int     `json:"connections"`
	Rounds      int     `json:"rounds"`
	Seconds     float64 `json:"seconds"`
}

func (b *bench) parameters() parameters {
	return parameters{b.users, b.items, b.maxItem, b.connections, b.rounds, b.duration.Seconds()}
}

// describe reads what can be read of the machine; what cannot stays empty.
func describe() machine {
	read := func(path string) string {
		b, _ := os.ReadFile(path)
		return strings.TrimSpace(string(b))
	}
	field := func(text, name string) string {
		for line := range strings.Lines(text) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
				return strings.TrimSpace(v)
			}
		}
		return ""
	}
	m := machine{
		Date:   time.Now().UTC().Format(time.DateOnly),
		Kernel: read("/proc/sys/kernel/osrelease"),
		CPU:    field(read("/proc/cpuinfo"), "model name"),
		Memory: field(read("/proc/meminfo"), "MemTotal"),
	}
	// The model name of a virtual machine may say next to nothing.
	m.CPU += " (family " + field(read("/proc/cpuinfo"), "cpu family") + ", model " + field(read("/proc/cpuinfo"), "model") + ")"
	if kb, err := strconv.Atoi(strings.TrimSuffix(m.Memory, " kB")); err == nil {
		m.Memory = fmt.Sprintf("%.0f GiB", float64(kb)/(1<<20))
	}
	m.Load1, _, _ = strings.Cut(read("/proc/loadavg"), " ")
	if info, ok := debug.ReadBuildInfo(); ok {
		m.Go = info.GoVersion
	}
	if out, err := exec.Command("bin/weir", "version").Output(); err == nil {
		m.Weir = strings.TrimSpace(string(out))
	}
	return m
}

// wakes says how late the server's core wakes up, where that is known.
func (m machine) wakes() string {
	var b strings.Builder
	say := func(how string, w *wakeups) {
		if w != nil {
			fmt.Fprintf(&b, "\n- %s, its core woke a process of a real-time class %.0f us late at p50, %.0f us at p99, %.0f us at most.", how, w.P50, w.P99, w.Max)
		}
	}
	say("As the machine is", m.Asleep)
	say("With idle states off, as everything here was measured", m.Awake)
	if m.Awake == nil {
		b.WriteString("\n- Idle states were on: a p99 includes how late the machine wakes a core up.")
	}
	if m.Nice == nil {
		b.WriteString("\n- Servers and load generators were no more urgent than anything else that ran.")
	} else {
		fmt.Fprintf(&b, "\n- Servers and load generators ran with a nice value of %d, so that kernel threads waited for them.", *m.Nice)
	}
	return b.String() + "\n"
}

// figured is a sample of one of the services: what one turn of one server found.
type figured interface {
	turn() (server string, round int)
}

// figuresOf returns get of every sample of a server that has it.
func figuresOf[S figured](samples []S, server string, get func(S) (float64, bool)) []float64 {
	var values []float64
	for _, s := range samples {
		if name, _ := s.turn(); name != server {
			continue
		}
		if v, ok := get(s); ok {
			values = append(values, v)
		}
	}
	return values
}

// ratiosOf returns a's figure over b's for every round in which both have one.
func ratiosOf[S figured](samples []S, a, b string, get func(S) (float64, bool)) []float64 {
	values := map[[2]any]float64{}
	rounds := 0
	for _, s := range samples {
		server, round := s.turn()
		rounds = max(rounds, round)
		if v, ok := get(s); ok {
			values[[2]any{server, round}] = v
		}
	}
	var ratios []float64
	for round := 1; round <= rounds; round++ {
		x, okX := values[[2]any{a, round}]
		y, okY := values[[2]any{b, round}]
		if okX && okY && y != 0 {
			ratios = append(ratios, x/y)
		}
	}
	return ratios
}

func (r *report) of(server string, get func(*sample) (float64, bool)) []float64 {
	return figuresOf(r.Samples, server, get)
}

func (r *report) ratios(a, b string, get func(*sample) (float64, bool)) []float64 {
	return ratiosOf(r.Samples, a, b, get)
}

// median returns the middle of the values, or false when there are none.
func median(values []float64) (float64, bool) {
	if len(values) == 0 {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(values))
	mid := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[mid-1] + sorted[mid]) / 2, true
	}
	return sorted[mid], true
}

func (r *report) writeJSON(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

func (r *report) writeMarkdown(w io.Writer) error {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "%s, %s; %s, %s, Linux %s, load average %s at the start.\n", m.Date, m.Weir, m.CPU, m.Memory, m.Kernel, m.Load1)
	b.WriteString(m.wakes())
	if r.Samples != nil {
		r.writeFeed(&b)
	}
	if r.Sequence != nil {
		r.Sequence.write(&b)
	}
	if r.Bandit != nil {
		r.Bandit.write(&b)
	}
	if r.Shed != nil {
		r.Shed.write(&b)
	}
	if r.Load != nil {
		r.Load.write(&b)
	}
	if r.Adaptive != nil {
		r.Adaptive.write(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *report) writeFeed(b *strings.Builder) {
	p := r.Parameters
	fmt.Fprintf(b, "\n### Feeds\n\n%d users x %d items up to %d, %d connections, medians of %d rounds of %.0f s.\n\n",
		p.Users, p.Items, p.MaxItem, p.Connections, p.Rounds, p.Seconds)

	if p.Users != barUsers || p.Items != barItems {
		fmt.Fprintf(b, "The bars are set for %d users x %d items: this was a quick look.\n\n", barUsers, barItems)
	}
	writeBars(b, r.Bars)
	fmt.Fprint(b, "\n| server | CPU a request | requests/s | p50 | p99 | pipelined by 16, requests/s | CPU a request | memory | exec to first answer |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, name := range names() {
		row := []string{name}
		for _, c := range columns {
			v, ok := median(r.of(name, c.get))
			if !ok {
				row = append(row, "-")
				continue
			}
			row = append(row, fmt.Sprintf(c.format, v))
		}
		if len(r.of(name, memoryOf)) > 0 {
			fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
		}
	}
	for _, n := range r.notes() {
		fmt.Fprintf(b, "\n- %s", n)
	}
	fmt.Fprintln(b)
}

var columns = []struct {
	format string
	get    func(*sample) (float64, bool)
}{
	{"%.2f us", plainCPU},
	{"%.0f", func(s *sample) (float64, bool) { return s.Plain.PerSecond, true }},
	{"%.0f us", func(s *sample) (float64, bool) { return float64(s.Plain.P50), true }},
	{"%.0f us", func(s *sample) (float64, bool) { return float64(s.Plain.P99), true }},
	{"%.0f", pipelinedRate},
	{"%.2f us", func(s *sample) (float64, bool) { return s.Pipelined.CPU, true }},
	{"%.0f MiB", func(s *sample) (float64, bool) { return float64(s.Memory) / (1 << 20), true }},
	{"%.0f ms", func(s *sample) (float64, bool) { return s.First, s.First > 0 }},
}

func plainCPU(s *sample) (float64, bool)      { return s.Plain.CPU, true }
func pipelinedRate(s *sample) (float64, bool) { return s.Pipelined.PerSecond, true }
func memoryOf(s *sample) (float64, bool)      { return float64(s.Memory), true }

// notes are the figures without a bar that help to read those with one.
func (r *report) notes() []string {
	p := r.Parameters
	var notes []string
	note := func(format string, unit float64, values []float64) {
		if v, ok := median(values); ok {
			notes = append(notes, fmt.Sprintf(format, v/unit))
		}
	}
	note("While weir was measured, others had %.0f %% of its core.", 0.01, r.of(nameWeir, func(s *sample) (float64, bool) {
		return s.Plain.Others, true
	}))
	open := func(get func(*summary) float64) func(*sample) (float64, bool) {
		return func(s *sample) (float64, bool) {
			if s.Open == nil || s.Open.Also == nil {
				return 0, false
			}
			return get(s.Open), true
		}
	}
	note("The open loop sent %.0f requests a second.", 1, r.of(nameWeir, open(func(s *summary) float64 { return s.Rate })))
	note("It noticed 99 %% of the requests that fell due within %.3f ms: much more than that in a p99 is the server's.",
		1000, r.of(nameWeir, open(func(s *summary) float64 { return float64(s.Lag) })))
	note("Beside it %.0f lent requests a second were answered back to back.",
		p.Seconds, r.of(nameWeir, open(func(s *summary) float64 { return float64(s.Also.Requests) })))
	windowOf := func(get func(*sample) *summary) func(*sample) (float64, bool) {
		return func(s *sample) (float64, bool) {
			if sum := get(s); sum != nil {
				return float64(sum.Window), true
			}
			return 0, false
		}
	}
	const inWindow = "In the median of the open loop's windows of 100 ms, where a stall of the machine does not count, the p99 "
	note(inWindow+"beside lent requests back to back: %.3f ms.", 1000, r.of(nameWeir, windowOf(func(s *sample) *summary { return s.Open })))
	note(inWindow+"with nothing beside it: %.3f ms.", 1000, r.of(nameWeir, windowOf(func(s *sample) *summary { return s.OpenAlone })))
	note(inWindow+"of the floor, with nothing beside it: %.3f ms.", 1000, r.of(nameFloor, windowOf(func(s *sample) *summary { return s.OpenAlone })))
	note("The open loop's p99 beside 1,000 lent requests a second: %.3f ms.", 1000, r.of(nameWeir, p99Of(func(s *sample) *summary { return s.OpenPaced })))
	note("The open loop's p99 with nothing beside it: %.3f ms.", 1000, r.of(nameWeir, p99Of(func(s *sample) *summary { return s.OpenAlone })))
	note("The floor's p99 in an open loop at half of its own ceiling, with nothing beside it: %.3f ms. That is the machine's part.", 1000,
		r.of(nameFloor, p99Of(func(s *sample) *summary { return s.OpenAlone })))
	note("k6 at "+strconv.Itoa(k6Rate)+" requests a second, its own slowness included: p99 %.3f ms.", 1000, r.of(nameWeir, p99Of(func(s *sample) *summary { return s.K6 })))
	if r.Starts != nil {
		if r.Starts.NotCold != "" {
			notes = append(notes, "No cold starts: "+r.Starts.NotCold+".")
		}
		var warm []float64
		for _, c := range r.Starts.Cold {
			warm = append(warm, c.Warm)
		}
		note("From a cold start until the feeds were in memory: %.1f s.", 1000, warm)
	}
	for _, i := range r.Imports {
		notes = append(notes, fmt.Sprintf("Importing %s took at most %s of memory.", i.Input, mib(i.Peak)))
	}
	return notes
}

func p99Of(get func(*sample) *summary) func(*sample) (float64, bool) {
	return func(s *sample) (float64, bool) {
		if sum := get(s); sum != nil {
			return float64(sum.P99), true
		}
		return 0, false
	}
}
