package main

import (
	"errors"
	"fmt"

	"weir/internal/bandit"
	"weir/internal/cluster"
	"weir/internal/cluster/operate"
	"weir/internal/feed"
	"weir/internal/filter"
	"weir/internal/sequence"
	"weir/internal/server"
)

// newServices lists what weir serves: a service is one folder and one line. The engine comes first, so that
// the others find it open, and is closed last.
func newServices() []server.Opener {
	return []server.Opener{new(operate.Flags), new(feed.Flags), new(sequence.Flags), new(bandit.Flags),
		new(filter.Flags)}
}

// shareEngine gives those services that are still to be opened the engine that one of those before has.
func shareEngine(opened []server.Service, rest []server.Opener) {
	engine := find[*operate.Cluster](opened)
	if engine == nil {
		return
	}
	if feeds := find[*feed.Flags](rest); feeds != nil {
		feeds.SetMembers(engine.Members())
		feeds.SetFallbackWhenLost(engine.FallbackWhenLost())
	}
	for _, o := range rest {
		if user, ok := o.(interface{ SetCluster(*cluster.Client) }); ok {
			user.SetCluster(engine.Client())
		}
	}
}

// checkTogether refuses flags of services that do not go together. Services do not know of one another;
// what they have in common is said in this file. on are those that will be opened.
func checkTogether(on []server.Opener) error {
	feeds, predictions := find[*feed.Flags](on), find[*bandit.Flags](on)
	if filters := find[*filter.Flags](on); filters != nil {
		for path, taken := range map[string]bool{"/feed": feeds != nil,
			"/fib":       find[*sequence.Flags](on) != nil,
			"/v2/models": predictions != nil} {
			if taken && filters.Path() == path {
				return fmt.Errorf("--filter-path %s is where another service answers: choose another path, "+
					"or turn that off", path)
			}
		}
	}
	if feeds != nil && feeds.WantsCluster() && find[*operate.Flags](on) == nil {
		return errors.New("--feeds published is for nodes of a cluster: name its engine with --cluster, or " +
			"lists with --feeds FILE")
	}
	switch {
	case feeds == nil || !feeds.WantsRanker():
	case predictions == nil:
		return errors.New("--feed-fallback bandit: the bandit is off; leave --bandit=false out, or use " +
			"--feed-fallback uniform")
	case predictions.HasStore():
		return errors.New("--feed-fallback bandit: a feature store is too slow for it; use --bandit-arms " +
			"instead of --bandit-store, or --feed-fallback uniform")
	}
	return nil
}

// wire lets services use each other.
func wire(services []server.Service) error {
	feeds, predictions := find[*feed.Feed](services), find[*bandit.Bandit](services)
	if feeds == nil || predictions == nil || predictions.HasStore() {
		return nil
	}
	return feeds.SetRanker(func(items []string) feed.Ranking { return predictions.Ranking(items) })
}

// find returns the one of a type, or nil.
func find[T, E any](all []E) (found T) {
	for _, one := range all {
		if t, ok := any(one).(T); ok {
			return t
		}
	}
	return found
}
