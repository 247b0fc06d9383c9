package main

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"weir/internal/bandit/featurestore/feasttest"
)

// withFeast are tests after which Feast, if one of them has started it, is stopped. Those that run beside
// each other mostly wait for engines and processes; go test -parallel says it otherwise.
type withFeast struct{ *testing.M }

func (m withFeast) Run() int {
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	return feasttest.Main(m.M)
}

// TestMain lets the scripts run this very binary as the command weir.
func TestMain(m *testing.M) {
	testscript.Main(withFeast{m}, map[string]func(){
		"weir": func() { os.Exit(runAndTell(os.Args[1:])) },
	})
}

// TestScripts runs the scenarios of testdata/script.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"damage": damage, "upstream": upstream,
		},
	})
}

// damage FILE OFFSET inverts the byte at an offset; negative ones count from the end.
func damage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: damage FILE OFFSET")
	}
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	at, err := strconv.Atoi(args[1])
	ts.Check(err)
	if at < 0 {
		at += len(data)
	}
	data[at] ^= 0xff
	ts.Check(os.WriteFile(path, data, 0o644))
}
