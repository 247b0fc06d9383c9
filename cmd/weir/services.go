package main

import (
	"errors"

	"github.com/spf13/pflag"

	"weir/internal/bandit"
	"weir/internal/feed"
	"weir/internal/sequence"
	"weir/internal/server"
)

// wire lets services use each other. They do not know of one another; what they have in common is said here.
func wire(services []server.Service) error {
	var feeds *feed.Feed
	var predictions *bandit.Bandit
	for _, s := range services {
		switch s := s.(type) {
		case *feed.Feed:
			feeds = s
		case *bandit.Bandit:
			predictions = s
		}
	}
	if feeds == nil || !feeds.WantsRanker() {
		return nil
	}
	switch {
	case predictions == nil:
		return flagError("--feed-fallback bandit: the bandit is off; leave --bandit=false out, or use --feed-fallback uniform")
	case predictions.HasStore():
		return flagError("--feed-fallback bandit: a feature store is too slow for it; use --bandit-arms instead of --bandit-store, or --feed-fallback uniform")
	}
	return feeds.SetRanker(func(items []string) feed.Ranking { return predictions.Ranking(items) })
}

func flagError(text string) error { return &server.FlagError{Err: errors.New(text)} }

// services lists what weir serves: a service is one folder and one line. Each adds its flags and
// returns what opens it once they are parsed.
var services = []func(*pflag.FlagSet) server.Opener{
	feed.Flags,
	sequence.Flags,
	bandit.Flags,
}
