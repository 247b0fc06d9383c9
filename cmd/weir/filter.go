package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newFilter() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "filter",
		Short: "Filter other people's feeds",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{cmd.CommandPath(),
					fmt.Errorf("there is no command %q%s", args[0], meant(cmd.SuggestionsFor(args[0])))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(append(newFilterAdmin(), newFilterApply())...)
	return cmd
}
