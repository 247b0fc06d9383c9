package positions_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"weir/internal/cluster"
	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/positions"
	"weir/internal/progress"
	"weir/internal/progress/positionstest"
)

// addrsEnv tells a victim which servers its positions are on.
const addrsEnv = "WEIR_TEST_CLUSTER"

func TestMain(m *testing.M) {
	addrs := strings.Split(os.Getenv(addrsEnv), ",")
	positionstest.Victim(shared(addrs), sharedIndex(addrs))
	os.Exit(clustertest.Main(m))
}

// closing closes the client with what is kept by it.
type closing struct {
	progress.Positions
	c *cluster.Client
}

func (p closing) Close() error { return errors.Join(p.Positions.Close(), p.c.Close()) }

type closingIndex struct {
	progress.Index
	c *cluster.Client
}

func (x closingIndex) Close() error { return errors.Join(x.Index.Close(), x.c.Close()) }

// connect returns a client whose keys have a prefix for a directory.
func connect(addrs []string, dir string) (*cluster.Client, error) {
	return cluster.Open(context.Background(), cluster.Options{Addrs: addrs, Replicas: 1,
		Prefix: fmt.Sprintf("%x", xxh3.HashString(dir))})
}

func shared(addrs []string) positionstest.Positions {
	return positionstest.Positions{Shared: true, Open: func(dir string, _ positionstest.Faults) (
		progress.Positions, error) {
		c, err := connect(addrs, dir)
		if err != nil {
			return nil, err
		}
		p, err := positions.Open(context.Background(), c, positions.Options{})
		return closing{p, c}, err
	}}
}

func sharedIndex(addrs []string) positionstest.Index {
	return positionstest.Index{Shared: true, Open: func(dir string, _ positionstest.Faults) (
		progress.Index, error) {
		c, err := connect(addrs, dir)
		if err != nil {
			return nil, err
		}
		x, err := positions.OpenIndex(context.Background(), c, "sequence")
		return closingIndex{x, c}, err
	}}
}

// onBoth runs a test on a cluster of each server.
func onBoth(t *testing.T, test func(t *testing.T, c *clustertest.Cluster)) {
	for _, s := range clustertest.Servers() {
		t.Run(string(s), func(t *testing.T) {
			c := clustertest.Start(t, clustertest.Options{Server: s, Replicas: 1})
			t.Setenv(addrsEnv, strings.Join(c.Addrs(), ","))
			test(t, c)
		})
	}
}

func TestPositions(t *testing.T) {
	onBoth(t, func(t *testing.T, c *clustertest.Cluster) { positionstest.RunPositions(t, shared(c.Addrs())) })
}

func TestIndex(t *testing.T) {
	onBoth(t, func(t *testing.T, c *clustertest.Cluster) {
		positionstest.RunIndex(t, sharedIndex(c.Addrs()))
	})
}
