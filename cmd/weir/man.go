//go:build man

package main

import (
	"log"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// main writes a page for each command to the directory it is given. weir itself cannot: cobra/doc would
// double what the linker keeps.
func main() {
	root := newRoot()
	root.DisableAutoGenTag = true
	plain(root)
	header := doc.GenManHeader{Section: "1", Source: "weir " + version, Manual: "weir"}
	if err := os.MkdirAll(os.Args[1], 0o755); err != nil {
		log.Fatal(err)
	}
	if err := doc.GenManTree(root, &header, os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// plain has what help says of a command and those below taken as it is, and not for Markdown.
func plain(cmd *cobra.Command) {
	escape := strings.NewReplacer("*", `\*`, "_", `\_`, "<", `\<`, "`", "\\`").Replace
	cmd.Long = escape(cmd.Long)
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		_, usage := pflag.UnquoteUsage(f)
		f.Usage = escape(usage)
	})
	for _, c := range cmd.Commands() {
		plain(c)
	}
}
