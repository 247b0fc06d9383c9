package cluster_test

import (
	"os"
	"testing"

	"weir/internal/cluster/clustertest"
)

func TestMain(m *testing.M) { os.Exit(clustertest.Main(m)) }
