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

// addrsEnv begins the name of the variable that tells a victim where the nodes of a server are.
const addrsEnv = "WEIR_TEST_CLUSTER_"

func TestMain(m *testing.M) {
	positionstest.Victim(shared, sharedIndex)
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

// connect returns a client of the server that a directory is named after, as those of the tests are, whose
// keys have a prefix for it.
func connect(dir string) (*cluster.Client, error) {
	s := clustertest.Redis
	if strings.Contains(dir, string(clustertest.Valkey)) {
		s = clustertest.Valkey
	}
	return cluster.Open(context.Background(), cluster.Options{
		Addrs: strings.Split(os.Getenv(addrsEnv+string(s)), ","), Replicas: 1,
		Prefix: fmt.Sprintf("%x", xxh3.HashString(dir))})
}

var shared = positionstest.Positions{Shared: true, Open: func(dir string, _ positionstest.Faults) (
	progress.Positions, error) {
	c, err := connect(dir)
	if err != nil {
		return nil, err
	}
	p, err := positions.Open(context.Background(), c, positions.Options{})
	return closing{p, c}, err
}}

var sharedIndex = positionstest.Index{Shared: true, Open: func(dir string, _ positionstest.Faults) (
	progress.Index, error) {
	c, err := connect(dir)
	if err != nil {
		return nil, err
	}
	x, err := positions.OpenIndex(context.Background(), c, "sequence")
	return closingIndex{x, c}, err
}}

// onBoth runs a test on a cluster of each server.
func onBoth(t *testing.T, test func(t *testing.T, c *clustertest.Cluster)) {
	t.Parallel()
	for _, s := range clustertest.Servers() {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			c := clustertest.Start(t, clustertest.Options{Server: s, Replicas: 1})
			if err := os.Setenv(addrsEnv+string(s), strings.Join(c.Addrs(), ",")); err != nil {
				t.Fatal(err)
			}
			test(t, c)
		})
	}
}

func TestPositions(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *clustertest.Cluster) { positionstest.RunPositions(t, shared) })
}

func TestIndex(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *clustertest.Cluster) { positionstest.RunIndex(t, sharedIndex) })
}
