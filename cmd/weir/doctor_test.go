package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/fstest"

	"weir/internal/doctor"
)

func TestServeLogsWhatIsBadOnTheMachine(t *testing.T) {
	m := doctor.This()
	m.Files = fstest.MapFS{
		"proc/sys/net/core/somaxconn":   {Data: []byte("128\n")},
		"proc/sys/vm/max_map_count":     {Data: []byte("32768\n")}, // worth a warning of weir doctor alone
		"proc/sys/vm/overcommit_memory": {Data: []byte("0\n")},
	}
	var out bytes.Buffer
	logWorst(slog.New(slog.NewTextHandler(&out, nil)), m)
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") ||
		!strings.Contains(got, `check="accept queue" found="net.core.somaxconn is 128"`) {
		t.Errorf("it logs %q", got)
	}
}
