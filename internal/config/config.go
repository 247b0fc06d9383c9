// Package config has the kinds of flag values that the standard ones leave out: one of a few words, the
// path of a file, a size; groups of flags in the help; and where else flags have their values from, the
// environment and a file: see Sources. A command that has such flags can complete them without knowing them:
// see Complete.
package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Choice adds a flag that takes one of a few words; value is the one it has if nobody gives one.
func Choice(f *pflag.FlagSet, p *string, name, value, usage string, words ...string) {
	*p = value
	f.Var(&choice{p, words}, name, usage)
}

type choice struct {
	p     *string
	words []string
}

// Words are the values of a flag that Choice has added; nil for another one.
func Words(f *pflag.Flag) []string {
	if c, ok := f.Value.(*choice); ok {
		return c.words
	}
	return nil
}

// Word is the type of flags that Choice adds.
const Word = "word"

// String implements pflag.Value.
func (c *choice) String() string { return *c.p }

// Type implements pflag.Value.
func (c *choice) Type() string { return Word }

// Set implements pflag.Value.
func (c *choice) Set(word string) error {
	if !slices.Contains(c.words, word) {
		last := len(c.words) - 1
		return fmt.Errorf("must be %s or %s", strings.Join(c.words[:last], ", "), c.words[last])
	}
	*c.p = word
	return nil
}

// Explain returns an error of a flag's value in words for people: without the names of Go functions.
func Explain(err error) error {
	if value, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return explain(value.GetFlag(), value.GetValue(), value.Unwrap())
	}
	return err
}

// explain says what a flag does not like about a value.
func explain(f *pflag.Flag, value string, err error) error {
	if f.Value.Type() == Word {
		return fmt.Errorf("--%s %w, got %q", f.Name, err, value)
	}
	if number, ok := errors.AsType[*strconv.NumError](err); ok {
		err = number.Err
	}
	return fmt.Errorf("invalid argument %q for \"--%s\" flag: %w", value, f.Name, err)
}

// File adds a flag that takes the path of a file, none if nobody gives one.
func File(f *pflag.FlagSet, p *string, name, usage string) { f.Var((*file)(p), name, usage) }

// Dir adds a flag that takes the path of a directory.
func Dir(f *pflag.FlagSet, p *string, name, value, usage string) {
	*p = value
	f.Var((*dir)(p), name, usage)
}

type (
	file string
	dir  string
)

func (p *file) String() string        { return string(*p) }
func (p *file) Type() string          { return "file" }
func (p *file) Set(path string) error { *p = file(path); return nil }
func (p *dir) String() string         { return string(*p) }
func (p *dir) Type() string           { return "directory" }
func (p *dir) Set(path string) error  { *p = dir(path); return nil }

// Complete has a shell complete the values of a command's flags of these kinds.
func Complete(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		switch v := f.Value.(type) {
		case *choice:
			cobra.CheckErr(cmd.RegisterFlagCompletionFunc(f.Name,
				cobra.FixedCompletions(v.words, cobra.ShellCompDirectiveNoFileComp)))
		case *file:
			cobra.CheckErr(cmd.MarkFlagFilename(f.Name))
		case *dir:
			cobra.CheckErr(cmd.MarkFlagDirname(f.Name))
		}
	})
}

// A Group is flags that belong together, under a title.
type Group struct {
	Title string
	Flags *pflag.FlagSet
}

// AddGroups adds groups of flags to a command, whose usage then shows each under its title, and the
// command's own before.
func AddGroups(cmd *cobra.Command, groups ...Group) {
	own := cmd.Flags()
	var grouped pflag.FlagSet
	for _, g := range groups {
		grouped.AddFlagSet(g.Flags)
	}
	own.AddFlagSet(&grouped)
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		rest := pflag.NewFlagSet("", pflag.ContinueOnError)
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if grouped.Lookup(f.Name) == nil {
				rest.AddFlag(f)
			}
		})
		w := cmd.OutOrStderr()
		fmt.Fprintf(w, "Usage:\n  %s\n", cmd.UseLine())
		if cmd.HasExample() {
			fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
		}
		fmt.Fprintf(w, "\nFlags:\n%s", rest.FlagUsages())
		for _, g := range groups {
			fmt.Fprintf(w, "\n%s:\n%s", g.Title, g.Flags.FlagUsages())
		}
		return nil
	})
}
