package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/config"
	"weir/internal/server"
)

// run executes one command line and returns its exit code, which exitCodes says.
func run(args []string) int {
	root := newRoot()
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	if err == nil {
		return 0
	}
	if errors.Is(err, errLogged) {
		return 1
	}
	fmt.Fprintln(os.Stderr, "weir:", err)
	var usage usageError
	var flags *server.FlagError
	if errors.As(err, &flags) {
		usage.command = cmd.CommandPath()
	}
	if errors.As(err, &usage) || flags != nil {
		fmt.Fprintf(os.Stderr, "Run '%s --help' for the flags and their defaults.\n", usage.command)
		return 2
	}
	return 1
}

// usageError is a command line that cannot be understood.
type usageError struct {
	command string
	err     error
}

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

const exitCodes = `Exit codes of every command:

    0  it did what it was asked; a server or a load run was ended by SIGINT or SIGTERM
    1  it failed: a file is missing or damaged, a port is taken, a condition of --fail-when holds, or
       weir doctor has found something bad
    2  the command line cannot be understood or makes no sense; nothing was created`

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Serve personal feeds from one box",
		Long: "weir serves personal feeds, predictions and a sequence from one box, and finds " +
			"where it breaks.\n\n" + exitCodes,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          onlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if v, err := cmd.Flags().GetBool("version"); err != nil || !v {
				return errors.Join(err, cmd.Help())
			}
			return printVersion(cmd)
		},
	}
	// cobra's own --version is printed by a template, and text/template makes the linker keep every
	// exported method.
	root.Flags().BoolP("version", "v", false, "version for weir")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		err = config.Explain(err)
		var unknown *pflag.NotExistError
		if errors.As(err, &unknown) {
			err = fmt.Errorf("%w%s", err, meant(similarFlags(cmd, unknown.GetSpecifiedName())))
		}
		return usageError{cmd.CommandPath(), err}
	})
	root.AddCommand(newServe(), newAdmin(), newSequence(), newGenerate(), newImport(), newImportArms(),
		newArms(), newFilter(), newCluster(), newPublish(), newCtl(), newInspect(), newDoctor(),
		newRepair(), newMock(), newCacheProxy(), newLoad(), newVersion())
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	cobra.CheckErr(err)
	show := help.Run
	help.Run, help.RunE = nil, func(cmd *cobra.Command, args []string) error {
		if _, rest, err := root.Find(args); err != nil || len(rest) > 0 {
			return usageError{root.CommandPath(),
				fmt.Errorf("there is no command %q", strings.Join(args, " "))}
		}
		show(cmd, args)
		return nil
	}
	return root
}

// onlyCommands refuses what is none of a command's own, and asks whether a similar one was meant.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError{cmd.CommandPath(), fmt.Errorf("there is no command %q%s", args[0],
		meant(cmd.SuggestionsFor(args[0])))}
}

// meant asks whether one of some words was meant.
func meant(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(words, " or ") + "?"
}

// similarFlags returns the flags of a command that are spelled like a name.
func similarFlags(cmd *cobra.Command, name string) (flags []string) {
	// What finds similar commands finds similar flags as well.
	finder := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			finder.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	for _, similar := range finder.SuggestionsFor(name) {
		if len(flags) < 3 {
			flags = append(flags, "--"+similar)
		}
	}
	return flags
}

// atLeast refuses fewer arguments than n, naming what is expected.
func atLeast(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return usageError{cmd.CommandPath(), fmt.Errorf("%s takes %s", cmd.CommandPath(), what)}
		}
		return nil
	}
}

// exactly refuses any other number of arguments than n, naming what is expected.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError{cmd.CommandPath(), fmt.Errorf("%s takes %s, got %d arguments",
				cmd.CommandPath(), what, len(args))}
		}
		return nil
	}
}
