package server

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestBoundsThatCannotWorkAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"negative count":   {Config{Loops: -1}, "-1"},
		"negative size":    {Config{MaxHeader: -5}, "-5"},
		"negative timeout": {Config{IdleTimeout: -time.Second}, "-1s"},
		"no room for one":  {Config{MaxBody: 1 << 20, MaxInput: 1 << 20}, "1048576"},
	} {
		if s, err := New(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v; want an error that says %s", name, s, err, c.want)
		}
	}
}

func TestZeroBoundsAreDefaults(t *testing.T) {
	s, err := New(Config{MaxHeader: 1234})
	if err != nil {
		t.Fatal(err)
	}
	want := Defaults()
	want.MaxHeader = 1234
	got := s.cfg
	got.Metrics, got.Log = nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if s.Addr() != nil || s.TLSAddr() != nil || s.AdminAddr() != nil {
		t.Error("a port that is off has an address")
	}
}
