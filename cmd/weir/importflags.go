package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"time"

	"weir/internal/config"
	"weir/internal/ingest"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
)

const leastMemory = 64 << 20

// importFlags are the flags of every command that imports.
type importFlags struct {
	makes  string // what the output holds
	ingest *ingest.Options
	maxBad *int64

	out    string
	header string
	memory config.Bytes
}

func (o *importFlags) add(cmd *cobra.Command) {
	o.memory = 1 << 30
	f := cmd.Flags()
	f.StringVarP(&o.out, "output", "o", "", "`file` to write")
	config.Choice(f, &o.header, "header", "auto",
		"whether CSV begins with the names of its columns: auto, yes or no", "auto", "yes", "no")
	f.Int64Var(o.maxBad, "max-bad", 0, "how many bad rows to leave out before giving up (default 0)")
	f.Var(&o.memory, "memory", "bytes for decoding and sorting, at least 64MiB; the process takes up to "+
		"half as much again, and 32MiB")
	config.Dir(f, &o.ingest.TempDir, "temp-dir", "",
		"for temporary files as large as the input (default that of the output)")
	f.BoolVar(&o.ingest.AllowIncomplete, "allow-incomplete", false,
		"read a directory although the job that writes it has not finished")
}

// run checks the flags, runs an import until it is done or interrupted, and prints what it says of it.
func (o *importFlags) run(cmd *cobra.Command, sources []string,
	do func(*importMeter) (rows int64, text string, err error)) error {
	switch {
	case len(sources) == 0:
		return usage("say what to import: files, directories, or - for standard input")
	case o.out == "":
		return usage("say with -o FILE where the %s are to go", o.makes)
	case o.out == "-":
		return usage("-o -: the %s go to a file, not to standard output: name one", o.makes)
	case *o.maxBad < 0:
		return usage("--max-bad %d: expected 0 or more rows", *o.maxBad)
	case o.memory < leastMemory:
		return usage("--memory %s: at least 64MiB are needed", &o.memory)
	}
	if yes := o.header == "yes"; o.header != "auto" {
		o.ingest.Header = &yes
	}
	o.ingest.Stdin, o.ingest.Memory = cmd.InOrStdin(), int64(o.memory)
	o.ingest.TempDir = cmp.Or(o.ingest.TempDir, filepath.Dir(o.out))
	// Garbage is collected in time rather than let grow to the size of the buffers.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(int64(o.memory) + int64(o.memory)/2))
	meter := &importMeter{to: cmd.ErrOrStderr()}
	o.ingest.Note = meter.say
	start := time.Now()
	rows, text, err := do(meter)
	meter.clear()
	switch {
	case errors.Is(err, context.Canceled) && cmd.Context().Err() != nil:
		return errors.New("interrupted: nothing was written")
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s in %.1f s\n%s", o.out, counted(rows, "row"),
		time.Since(start).Seconds(), text)
	return err
}

// counted writes a number of things: "1 row", "2 rows".
func counted(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// importMeter shows one progress bar after the other: bytes read, with the rows a second beside
// them, and items written.
type importMeter struct {
	to    io.Writer
	phase string
	bar   *progressbar.ProgressBar
	start time.Time // of the phase, when rows had been read
	rows  int64
	last  time.Time
}

// say prints a line above the progress bar.
func (m *importMeter) say(s string) {
	m.clear()
	fmt.Fprintln(m.to, s)
}

// bad says which row is left out.
func (m *importMeter) bad(b ingest.BadRow) { m.say("left out: " + b.String()) }

// update shows how far a phase is. It is called for every batch.
func (m *importMeter) update(phase string, rows, done, total int64) {
	now := time.Now()
	if phase != m.phase {
		m.clear()
		if total == 0 {
			total = -1 // of a pipe nobody knows
		}
		unit := ""
		if phase == "writing" {
			unit = "items"
		}
		m.phase, m.start, m.rows, m.last = phase, now, rows, now // there is no rate yet to be shown
		m.bar = newBar(phase, unit, total)
	}
	if now.Sub(m.last) < 100*time.Millisecond {
		return
	}
	m.last = now
	if phase == "reading" {
		m.bar.Describe(fmt.Sprintf("reading, %s rows/s",
			thousands(float64(rows-m.rows)/now.Sub(m.start).Seconds())))
	}
	m.bar.Set64(done)
}

// clear takes the bar away, for what is printed next.
func (m *importMeter) clear() {
	if m.bar != nil {
		m.bar.Clear()
	}
}

// thousands writes a rate for people.
func thousands(x float64) string {
	switch {
	case x >= 1e6:
		return fmt.Sprintf("%.1fM", x/1e6)
	case x >= 1e3:
		return fmt.Sprintf("%.0fk", x/1e3)
	}
	return fmt.Sprintf("%.0f", x)
}
