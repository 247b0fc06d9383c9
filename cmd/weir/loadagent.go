package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"weir/internal/load/access"
	"weir/internal/load/agent"
)

func newLoadAgent() *cobra.Command {
	var o agent.Options
	var listen string
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Make load for a weir load on another machine",
		Long: `Wait for a weir load --agents on another machine, and make its part of the load from here.

Beyond loopback leaders have to show the --token. An agent loads nothing but this machine, and the hosts
that it was itself told to with --i-own-this-target. It makes one run at a time, which ends when its
leader is silent for three seconds.`,
		Example: `  WEIR_LOAD_TOKEN=secret weir load agent --listen :8092 --i-own-this-target shop.example
  WEIR_LOAD_TOKEN=secret weir load http://shop.example/ --rate 50000/s \
    --agents box1:8092,box2:8092 --i-own-this-target shop.example`,
		RunE: interruptible(func(cmd *cobra.Command, _ []string) error {
			l, err := access.Listen(listen, o.Token)
			if err != nil {
				return optionError(err)
			}
			o.Log = newLog(cmd.ErrOrStderr(), "text", slog.LevelInfo)
			s := agent.New(o)
			fmt.Fprintf(cmd.OutOrStdout(), "weir load agent on %s\n", l.Addr())
			return s.Serve(cmd.Context(), l)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:8092",
		"`address` that leaders come to; beyond loopback with --token")
	secret(f, &o.Token, "token", "WEIR_LOAD_TOKEN", "that leaders have to show")
	f.StringSliceVar(&o.Own, "i-own-this-target", nil,
		"`host` beyond loopback that the load may go to; may be repeated")
	return cmd
}
