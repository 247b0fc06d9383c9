package main

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/spf13/cobra"
)

// version and commit are set by the linker; see the Makefile.
var (
	version = "dev"
	commit  = "unknown"
)

// versionJSON is what /version answers.
var versionJSON = sync.OnceValue(func() []byte {
	return fmt.Appendf(nil, `{"version":%q,"commit":%q,"go":%q}`, version, commit, runtime.Version())
})

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and the Go release it was built with",
		RunE:  func(cmd *cobra.Command, _ []string) error { return printVersion(cmd) },
	}
}

func printVersion(cmd *cobra.Command) error {
	_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
	return err
}

// versionLine is what weir version prints, and weir --version.
func versionLine() string {
	return fmt.Sprintf("weir %s (%s, %s %s/%s)", version, commit, runtime.Version(),
		runtime.GOOS, runtime.GOARCH)
}
