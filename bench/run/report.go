//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// machine is what was measured on.
type machine struct {
	Date   string `json:"date"`
	Kernel string `json:"kernel"`
	CPU    string `json:"cpu"`
	Memory string `json:"memory"`
	Weir   string `json:"weir"` // version, commit and Go release
	Load1  string `json:"load1"`

	// Whether idle states of the cores were switched off.
	Awake bool `json:"awake"`
	Nice  *int `json:"nice,omitempty"` // of what was measured, nil where it could not be chosen
}

// describe reads what can be read of the machine and prepares it for measuring. What cannot be read stays
// empty.
func describe() (m machine, restore func()) {
	m.Date = time.Now().UTC().Format(time.DateOnly)
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(release))
	}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		log.Print(err)
	}
	// The model name of a virtual machine may say next to nothing.
	if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 {
		m.CPU = fmt.Sprintf("%s (family %s, model %s)", cpus[0].ModelName, cpus[0].CPUFamily, cpus[0].Model)
	}
	if mem, err := fs.Meminfo(); err == nil && mem.MemTotalBytes != nil {
		m.Memory = fmt.Sprintf("%.0f GiB", float64(*mem.MemTotalBytes)/(1<<30))
	}
	if out, err := exec.Command("bin/weir", "version").Output(); err == nil {
		m.Weir = strings.TrimSpace(string(out))
	}
	if load, err := fs.LoadAvg(); err == nil {
		m.Load1 = fmt.Sprintf("%.2f", load.Load1)
		if load.Load1 > 0.5 {
			log.Printf("the load average is %s: somebody else is at work here, and the figures will show it",
				m.Load1)
		}
	}
	restore = func() {}
	if awake, err := stayAwake(); err != nil {
		log.Print(err)
	} else {
		restore = func() { awake.Close() }
		m.Awake = true
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if before, err := beNice(measuredNice); err != nil {
		log.Printf("others may run in between: %v", err)
	} else {
		m.Nice = new(measuredNice)
		beNice(before) //nolint:errcheck // upwards it may
	}
	return m, restore
}

// report is everything that a run found; as JSON it is what --json holds.
type report struct {
	Machine    machine             `json:"machine"`
	Parameters map[string]any      `json:"parameters"`
	Bars       []decided           `json:"bars"`
	Figures    []figure            `json:"figures"`
	Notes      map[string][]string `json:"notes,omitempty"`
	services   []string
}

type figure struct {
	Service string    `json:"service"`
	Subject string    `json:"subject"`
	Name    string    `json:"name"`
	Values  []float64 `json:"values"` // one a round
}

func (b *bench) report(m machine) *report {
	r := &report{Machine: m, Notes: b.notes, services: b.services, Parameters: map[string]any{
		"users": b.users, "items": b.items, "max_item": b.maxItem, "arms": b.arms,
		"connections": b.connections,
		"rounds":      b.rounds, "seconds": b.duration.Seconds(),
	}}
	for _, bar := range bars {
		if slices.Contains(b.services, bar.service) {
			r.Bars = append(r.Bars, b.decide(bar))
		}
	}
	for _, k := range b.order {
		r.Figures = append(r.Figures, figure{k.service, k.subject, k.name, b.of(k)})
	}
	return r
}

func (r *report) writeJSON(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

func (r *report) writeMarkdown(to io.Writer) error {
	var w strings.Builder
	m, p := r.Machine, r.Parameters
	fmt.Fprintf(&w, "%s, %s; %s, %s, Linux %s, load average %s at the start. Medians of %d rounds of %.0f "+
		"s.\n",
		m.Date, m.Weir, m.CPU, m.Memory, m.Kernel, m.Load1, p["rounds"], p["seconds"])
	fmt.Fprintf(&w, "%d users x %d items up to %d; %d items with arms.\n\n", p["users"], p["items"],
		p["max_item"], p["arms"])
	if p["users"] != barUsers || p["arms"] != barArms {
		fmt.Fprintf(&w, "The bars are about %d users and %d items with arms: this was a quick look.\n\n",
			barUsers, barArms)
	}
	m.writeConditions(&w)
	for _, s := range services() {
		if slices.Contains(r.services, s.name) {
			r.writeService(&w, s)
		}
	}
	_, err := io.WriteString(to, w.String())
	return err
}

// writeConditions says how the machine was kept to what is measured.
func (m *machine) writeConditions(w io.Writer) {
	if m.Awake {
		fmt.Fprintln(w, "- Idle states of the cores were switched off.")
	} else {
		fmt.Fprintln(w, "- Idle states were on: a p99 includes how late the machine wakes a core.")
	}
	if m.Nice == nil {
		fmt.Fprintln(w, "- Servers and load generators were no more urgent than anything else that ran.")
	} else {
		fmt.Fprintf(w, "- Servers and load generators ran with a nice value of %d, so that kernel threads "+
			"wait.\n", *m.Nice)
	}
}

func (r *report) writeService(w *strings.Builder, s service) {
	fmt.Fprintf(w, "\n### %s\n\n%s\n\n| figure | bar | aim | measured | lowest..highest | | how |\n"+
		"|---|---|---|---|---|---|---|\n",
		s.title, s.about)
	for _, b := range r.Bars {
		if b.Service == s.name {
			w.WriteString(b.row())
		}
	}
	var names, subjects []string
	medians := map[[2]string]string{}
	for _, f := range r.Figures {
		if f.Service != s.name {
			continue
		}
		if !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
		if !slices.Contains(subjects, f.Subject) {
			subjects = append(subjects, f.Subject)
		}
		if v, ok := median(f.Values); ok {
			medians[[2]string{f.Name, f.Subject}] = digits(v)
		}
	}
	if len(names) > 0 {
		fmt.Fprintf(w, "\n| median of the rounds | %s |\n|---|%s\n", strings.Join(subjects, " | "),
			strings.Repeat("---|", len(subjects)))
	}
	for _, name := range names {
		fmt.Fprintf(w, "| %s |", name)
		for _, subject := range subjects {
			v, ok := medians[[2]string{name, subject}]
			if !ok {
				v = "-"
			}
			fmt.Fprintf(w, " %s |", v)
		}
		fmt.Fprintln(w)
	}
	for i, n := range r.Notes[s.name] {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "- %s\n", n)
	}
}
