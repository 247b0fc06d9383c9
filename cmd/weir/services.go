package main

import (
	"github.com/spf13/pflag"

	"weir/internal/bandit"
	"weir/internal/feed"
	"weir/internal/sequence"
	"weir/internal/server"
)

// services lists what weir serves: a service is one folder and one line. Each adds its flags and
// returns what opens it once they are parsed.
var services = []func(*pflag.FlagSet) server.Opener{
	feed.Flags,
	sequence.Flags,
	bandit.Flags,
}
