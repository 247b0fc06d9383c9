package main

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/config"
	"weir/internal/sequence"
	"weir/internal/server"
)

func newSequence() *cobra.Command {
	var (
		kernel  = newKernelFlags()
		port    int
		file    = "sequence.cells"
		seconds float64
	)
	cmd := &cobra.Command{
		Use:   "sequence",
		Short: "Serve the Fibonacci sequence alone",
		Long: `Serve the Fibonacci sequence under one shared index, alone: /current, /next and /previous on
all addresses of --port, and any value at /fib/N. weir serve has the same beside its other services.

The index is kept in --file. No move that was answered is lost when the process ends, however it
ends; after a loss of power the index may be behind by --seconds.`,
		Example: `  weir sequence --port 8080 --file f --seconds 3
  curl http://127.0.0.1:8080/next`,
	}
	f := cmd.Flags()
	f.IntVar(&port, "port", 8080, "public port, on all addresses")
	config.File(f, &file, "file", "file of the index (default sequence.cells)")
	f.Float64Var(&seconds, "seconds", 3, "how often the index is made safe against a loss of power")
	var service sequence.Flags
	own := pflag.NewFlagSet(service.Name(), pflag.ContinueOnError)
	service.AddFlags(own)
	for _, name := range []string{"sequence", "sequence-file", "sequence-sync"} {
		cobra.CheckErr(own.MarkHidden(name)) // --file and --seconds say it here
	}
	kernel.add(cmd, config.Group{Title: "Values", Flags: own})

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, keys, err := kernel.config(cmd)
		switch {
		case err != nil:
			return err
		case port < 0 || port > 65535:
			err = fmt.Errorf("--port must be a whole number from 0 to 65535, got %d", port)
		case file == "":
			err = errors.New("--file must name the file of the index")
		case !(seconds >= 0.001 && seconds <= 86400): // nor NaN
			err = fmt.Errorf("--seconds must be a number from 0.001 to 86400, got %v", seconds)
		}
		if err != nil {
			return usage("%w", err)
		}
		sync := time.Duration(seconds * float64(time.Second))
		service.SetFile(file, "--file", sync)
		cfg.Listen = ":" + strconv.Itoa(port)
		// The heap is a cache of fixed size, and there is next to no garbage: it need not double.
		debug.SetGCPercent(25)
		return kernel.serve(cmd, cfg, "", []server.Opener{&service}, keys)
	}
	return cmd
}
