package client

import (
	"strings"
	"testing"
)

func TestConnectionsKeepToTheLimitOfOpenFiles(t *testing.T) {
	closed := Options{Closed: true, Connections: 937, MaxConnections: 10_000, Threads: 4}
	if err := closed.within(1000); err == nil ||
		!strings.Contains(err.Error(), "937 connections are more than the 936") ||
		!strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("got %v", err)
	}
	if closed.Connections--; closed.within(1000) != nil || closed.Connections != 936 || closed.Threads != 4 {
		t.Errorf("got %+v", closed)
	}
	open := Options{MaxConnections: 10_000, Warm: 5000, Threads: 4}
	if err := open.within(1000); err != nil || open.MaxConnections != 936 || open.Warm != 936 ||
		open.Threads != 4 {
		t.Errorf("got %+v, %v", open, err)
	}
	if err := open.within(10); err != nil || open.MaxConnections != 1 || open.Warm != 1 || open.Threads != 1 {
		t.Errorf("got %+v, %v", open, err)
	}
	if n := mostFiles(); n < 20 {
		t.Errorf("only %d files may be open?", n)
	}
}
