package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"strings"
	"syscall"

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
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errLogged):
		return 1
	}
	fmt.Fprintln(os.Stderr, "weir:", err)
	if _, ok := errors.AsType[*server.FlagError](err); ok {
		fmt.Fprintf(os.Stderr, "Run '%s --help' for the flags and their defaults.\n", cmd.CommandPath())
		return 2
	}
	return 1
}

// usage returns the error of a command line that cannot be understood.
func usage(format string, args ...any) error {
	return &server.FlagError{Err: fmt.Errorf(format, args...)}
}

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
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
			err = fmt.Errorf("%w%s", err, meant(similarFlags(cmd, unknown.GetSpecifiedName())))
		}
		return usage("%w", err)
	})
	root.AddCommand(newServe(), newAdmin(), newSequence(), newGenerate(), newImport(), newImportArms(),
		newArms(), newFilter(), newCluster(), newPublish(), newCtl(), newInspect(), newDoctor(),
		newRepair(), newMock(), newCacheProxy(), newLoad(), newVersion())
	finish(root)
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	cobra.CheckErr(err)
	show := help.Run
	help.Run, help.RunE = nil, func(cmd *cobra.Command, args []string) error {
		if _, rest, err := root.Find(args); err != nil || len(rest) > 0 {
			return usage("there is no command %q", strings.Join(args, " "))
		}
		show(cmd, args)
		return nil
	}
	return root
}

// finish gives a command and those below it what all have that say nothing else: one that only has others
// shows its help, one that says nothing of arguments takes none, and shells complete the values of flags.
func finish(cmd *cobra.Command) {
	switch {
	case cmd.HasSubCommands() && cmd.Args == nil:
		cmd.Args, cmd.SuggestionsMinimumDistance = onlyCommands, 2
	case cmd.Args == nil:
		cmd.Args = exactly(0, "no arguments, only flags")
	}
	if !cmd.Runnable() {
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	config.Complete(cmd)
	for _, below := range cmd.Commands() {
		finish(below)
	}
}

// interruptible returns a command's function with a context that ends at SIGINT or SIGTERM. A second one
// ends the process.
func interruptible(run func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		context.AfterFunc(ctx, stop)
		cmd.SetContext(ctx)
		return run(cmd, args)
	}
}

// onlyCommands refuses what is none of a command's own, and asks whether a similar one was meant.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usage("there is no command %q%s", args[0], meant(cmd.SuggestionsFor(args[0])))
}

// meant asks whether one of some words was meant.
func meant(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(words, " or ") + "?"
}

// similar returns those of some words that are spelled like another, as cobra finds similar commands.
func similar(word string, words []string) []string {
	finder := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, w := range words {
		finder.AddCommand(&cobra.Command{Use: w, Run: func(*cobra.Command, []string) {}})
	}
	return finder.SuggestionsFor(word)
}

// similarFlags returns the flags of a command that are spelled like a name.
func similarFlags(cmd *cobra.Command, name string) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	flags := similar(name, names)
	for i := range flags {
		flags[i] = "--" + flags[i]
	}
	return flags[:min(len(flags), 3)]
}

// exactly refuses any other number of arguments than n, naming what is expected.
func exactly(n int, what string) cobra.PositionalArgs { return takes(n, n, what) }

// takes refuses fewer and more arguments, naming what is expected.
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if n := len(args); n < least || n > most {
			return usage("%s takes %s, got %d arguments", cmd.CommandPath(), what, n)
		}
		return nil
	}
}

// many is any number of arguments.
const many = math.MaxInt
