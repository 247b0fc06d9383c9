//go:build !man

// Command weir serves personal feeds from one box. Each subcommand has a file of its own; the services a
// server runs are listed in services.go. Built with the tag man it writes its manual pages instead.
package main

import "os"

func main() { os.Exit(run(os.Args[1:])) }
