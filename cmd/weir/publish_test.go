package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"weir/internal/cluster"
	"weir/internal/cluster/clustertest"
	"weir/internal/systest"
)

// TestPublish runs the scenario of testdata/cluster: weir publish beside nodes that are processes, on an
// engine. $FILES is where www is served, and $SUM a SHA-256 that nothing has.
func TestPublish(t *testing.T) {
	systest.LongRun(t, "processes and servers")
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{Replicas: 1, Own: true})
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/cluster",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			files := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(e.WorkDir, "www"))))
			e.Defer(files.Close)
			for name, value := range map[string]string{
				"FILES": files.URL, "SUM": strings.Repeat("0", 64), "WEIR_CLUSTER": engineFlags(c)[1],
				"WEIR_CLUSTER_RESTART_DELAY": "1m"} {
				e.Setenv(name, value)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"damage": damage, "until": until,
			"engine": func(ts *testscript.TestScript, _ bool, args []string) {
				shard := int(cluster.Slot(args[1])) * c.Options.Shards >> 14
				_, err := c.Nodes[shard].Do(t.Context(), args...)
				ts.Check(err)
			}},
	})
}

// until PATTERN ARGS runs weir until what it says matches.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN ARGS")
	}
	pattern := regexp.MustCompile(args[0])
	var said []byte
	for end := time.Now().Add(time.Minute); !pattern.Match(said); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("weir %v does not come to say %q:\n%s", args[1:], args[0], said)
		}
		cmd := exec.Command("weir", args[1:]...)
		cmd.Env, cmd.Dir = append(cmd.Environ(), "WEIR_CLUSTER="+ts.Getenv("WEIR_CLUSTER")), ts.Getenv("WORK")
		said, _ = cmd.CombinedOutput() //nolint:errcheck // what it says tells
		said = bytes.TrimSpace(said)
	}
}
