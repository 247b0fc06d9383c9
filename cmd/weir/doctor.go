package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/doctor"
	"weir/internal/server"
)

func newDoctor() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what on this machine will hurt under load, and how to mend it",
		Long: `Look at the settings, limits, clocks and disks that a server depends on, and say of each
that will hurt under load why it does, which command mends it, and how to make that last. Nothing is
changed, and root is not needed: what cannot be looked at is said to be unseen. To know how fast the disk
syncs, a temporary file is written in the --data directory, or above it if it is not there yet.

Limits are those of this process: run it as the user and in the unit or container of the server. The
flags, the variables and the --config file are those of weir serve, which logs what is bad when it
starts. The commands want root.

The exit code is 1 if something is bad. What is only worth a warning leaves it at 0.`,
		Example: `  weir doctor --data /var/lib/weir
  systemd-run --pipe -p User=weir -p LimitNOFILE=200000 weir doctor --config /etc/weir.toml
  weir doctor --json | jq '.[] | select(.severity == "bad")'`,
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "as JSON")
	// The flags are those of serve, and so are their other sources.
	serve := newServe().Flags()
	for _, name := range []string{"config", "data", "listen", "tls-listen", "admin", "max-connections",
		"loops", "memory-ratio"} {
		f.AddFlag(serve.Lookup(name))
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if _, err := fillSettings(cmd, serve); err != nil {
			return err
		}
		cfg := server.Config{Listen: textFlag(serve, "listen"), TLSListen: textFlag(serve, "tls-listen"),
			Admin: textFlag(serve, "admin")}
		var ratio float64
		var errs [3]error
		cfg.MaxConnections, errs[0] = serve.GetInt("max-connections")
		cfg.Loops, errs[1] = serve.GetInt("loops")
		ratio, errs[2] = serve.GetFloat64("memory-ratio")
		if err := errors.Join(errs[:]...); err != nil {
			return err
		}
		if err := limitMemory(ratio); err != nil {
			return err
		}
		findings := examine(cfg, textFlag(serve, "data")).Examine()
		if asJSON {
			return cmp.Or(printJSON(cmd.OutOrStdout(), findings), badOf(findings))
		}
		return cmp.Or(printFindings(cmd.OutOrStdout(), findings), badOf(findings))
	}
	return cmd
}

// badOf returns an error where findings are bad.
func badOf(findings []doctor.Finding) error {
	if bad := len(doctor.Of(findings, doctor.Bad)); bad > 0 {
		return fmt.Errorf("%d of %d checks are bad", bad, len(findings))
	}
	return nil
}

// textFlag returns the value of a flag as text.
func textFlag(f *pflag.FlagSet, name string) string { return f.Lookup(name).Value.String() }

// examine returns this machine and what a server of these settings will ask of it.
func examine(cfg server.Config, dataDir string) *doctor.Machine {
	m := doctor.This()
	m.Data, m.MaxConnections, m.Loops = dataDir, cfg.MaxConnections, cfg.Loops
	m.Listen = strings.Join([]string{cfg.Listen, cfg.TLSListen, cfg.Admin}, ",")
	m.MemoryLimit = debug.SetMemoryLimit(-1)
	return m
}

// logWorst logs what is bad on this machine. It leaves out how fast the disk syncs: that takes a while, and
// weir_sync_seconds says it of the files that matter.
func logWorst(log *slog.Logger, m *doctor.Machine) {
	m.Sync = nil
	for _, f := range doctor.Of(m.Examine(), doctor.Bad) {
		log.Warn("this machine will hurt under load; see weir doctor", "check", f.Check, "found", f.Found)
	}
}

// printFindings writes a line a finding, and below those that hurt why and what to do.
func printFindings(out io.Writer, findings []doctor.Finding) error {
	var text strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&text, "%-6s  %-16s  %s\n", f.Severity, f.Check, f.Found)
		for _, l := range []struct{ title, text string }{
			{"why", f.Why}, {"mend", f.Mend}, {"keep", f.Keep},
		} {
			if l.text != "" {
				fmt.Fprintf(&text, "        %-16s  %s\n", l.title+":", l.text)
			}
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}
