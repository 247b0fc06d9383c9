package main

import "github.com/spf13/cobra"

func newFilter() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "filter",
		Short: "Filter other people's feeds",
		Args:  onlyCommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(append(newFilterAdmin(), newFilterApply())...)
	return cmd
}
