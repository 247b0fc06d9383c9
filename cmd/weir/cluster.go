package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/cluster"
	"weir/internal/cluster/operate"
	"weir/internal/config"
	"weir/internal/doctor"
)

func newCluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Check the engine that nodes of weir share, and move state into it",
		Long: `Several nodes of weir share a Valkey or Redis cluster, the engine, where weir serve has
--cluster. These commands look at its settings, and move the state of one box into it and back.

They take the flags, the variables and the --config file of weir serve.`,
		Example: `  weir cluster check --cluster valkey://10.0.0.1:6379 --cluster-restart-delay 31s
  weir cluster import --feeds feeds.weir --cluster valkey://10.0.0.1:6379 /var/lib/weir`,
	}
	cmd.AddCommand(newClusterCheck(), newClusterImport(), newClusterExport())
	return cmd
}

// clusterFlags adds the flags of weir serve about the engine to a command, and returns a function that reads
// them, and their other sources, once the command line is parsed.
func clusterFlags(cmd *cobra.Command) func() (*operate.Flags, cluster.Options, error) {
	serve := newServe().Flags()
	engine := pflag.NewFlagSet("cluster", pflag.ContinueOnError)
	serve.VisitAll(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, "cluster") {
			engine.AddFlag(f)
		}
	})
	cmd.Flags().AddFlag(serve.Lookup("config"))
	config.AddGroups(cmd, config.Group{Title: "Engine", Flags: engine})
	return func() (*operate.Flags, cluster.Options, error) {
		if _, err := fillSettings(cmd, serve); err != nil {
			return nil, cluster.Options{}, err
		}
		flags, set := new(operate.Flags), pflag.NewFlagSet("cluster", pflag.ContinueOnError)
		flags.AddFlags(set)
		var errs []error
		engine.VisitAll(func(f *pflag.Flag) {
			if f.Changed {
				errs = append(errs, set.Set(f.Name, f.Value.String()))
			}
		})
		err := errors.Join(errs...)
		if err == nil && !flags.Given() {
			err = errors.New("name the engine: --cluster valkey://HOST:PORT,HOST:PORT")
		}
		if err == nil {
			err = flags.Check()
		}
		if err != nil {
			return nil, cluster.Options{}, usage("%w", err)
		}
		options, err := flags.Options()
		return flags, options, err
	}
}

func newClusterCheck() *cobra.Command {
	var asJSON bool
	var users int64
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say whether the engine's settings keep what weir promises",
		Long: `Ask all nodes of a Valkey or Redis cluster for their settings and their state, and say of each
that breaks a promise or will hurt why it does, and what to change. Nothing is changed there.

How soon a node of the engine that has ended is started again cannot be seen from outside, and it matters:
one that is back before its replica has taken over may give items twice. Say by --cluster-restart-delay
what your service manager waits. Run the check from the machine, and with the flags, of a node of weir:
weir serve does the same when it starts, and does not start where a promise is broken.

The exit code is 1 if something is bad. What is only worth a warning leaves it at 0.`,
		Example: `  weir cluster check --cluster valkey://10.0.0.1:6379 --cluster-restart-delay 31s
  weir cluster check --config /etc/weir.toml --users 5000000
  weir cluster check --config /etc/weir.toml --json | jq '.[] | select(.breaks_promise)'`,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	cmd.Flags().Int64Var(&users, "users", 0, "how many users there will be, to see whether they fit into "+
		"memory")
	read := clusterFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		flags, options, err := read()
		if err != nil {
			return err
		}
		if users < 0 {
			return usage("--users must not be negative, got %d", users)
		}
		want := flags.Want()
		want.Users = users
		findings, err := operate.Examine(cmd.Context(), options, want)
		if err != nil {
			return err
		}
		plain := make([]doctor.Finding, len(findings))
		breaks := 0
		for i, f := range findings {
			if plain[i] = f.Finding; f.Breaks {
				breaks++
				plain[i].Why = strings.TrimSuffix("breaks a promise: "+f.Why, ": ")
			}
		}
		bad := badOf(plain)
		if bad != nil {
			bad = fmt.Errorf("%w, %d break a promise", bad, breaks)
		}
		if asJSON {
			return cmp.Or(printJSON(cmd.OutOrStdout(), findings), bad)
		}
		return cmp.Or(printFindings(cmd.OutOrStdout(), plain), bad)
	}
	return cmd
}
