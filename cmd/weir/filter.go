package main

import "github.com/spf13/cobra"

func newFilter() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "filter",
		Short: "Filter other people's feeds",
	}
	cmd.AddCommand(append(newFilterAdmin(), newFilterApply())...)
	return cmd
}
