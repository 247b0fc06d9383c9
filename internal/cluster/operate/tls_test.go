package operate

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/cluster"
	"weir/internal/cluster/clustertest"
	"weir/internal/doctor"
)

// TestANodeAndItsEngineShowEachOtherTheirCertificates is of Redis only: the Valkey of the tests is built
// without TLS.
func TestANodeAndItsEngineShowEachOtherTheirCertificates(t *testing.T) {
	t.Parallel()
	nodes := clustertest.Start(t, clustertest.Options{Shards: 2, Replicas: 1, TLS: true})
	other := clustertest.Start(t, clustertest.Options{Shards: 1, TLS: true, Own: true}).Certificates
	f := nodes.Certificates
	open := func(scheme string, args ...string) (*cluster.Client, error) {
		o := parse(t, append(args, "--cluster", scheme+"://"+strings.Join(nodes.Addrs(), ","))...)
		if err := o.Check(); err != nil {
			t.Fatal(err)
		}
		co, err := o.Options()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c, err := cluster.Open(ctx, co)
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return c, err
	}
	pair := []string{"--cluster-cert", f.Cert, "--cluster-key", f.Key}
	mutual := append([]string{"--cluster-ca", f.CA}, pair...)
	for name, c := range map[string]struct {
		scheme, says string
		args         []string
	}{
		"an authority that the system does not know": {"valkeys", "certificate signed by unknown authority",
			pair},
		"an authority that signed another": {"valkeys", "certificate signed by unknown authority",
			append([]string{"--cluster-ca", other.CA}, pair...)},
		"no certificate of the node": {"valkeys", "certificate required",
			[]string{"--cluster-ca", f.CA}},
		"a certificate of another authority": {"valkeys", "remote error: tls:",
			[]string{"--cluster-ca", f.CA, "--cluster-cert", other.Cert, "--cluster-key", other.Key}},
		"no TLS": {"valkey", "the cluster is not available", nil},
	} {
		if _, err := open(c.scheme, c.args...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want an error that says %q", name, err, c.says)
		}
	}

	c, err := open("valkeys", mutual...)
	if err != nil {
		t.Fatal(err)
	}
	lib := cluster.NewLibrary("tls", `define('add', function(keys, args)
		return redis.call('INCRBY', keys[1], args[1]) end)`)
	if err := c.Load(t.Context(), lib); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 100 { // of both shards
		key := c.Key(strconv.Itoa(i))
		wg.Add(1)
		c.Submit(t.Context(), cluster.Command{Slot: cluster.Slot(key), Durable: true,
			Args: lib.Call("add", []string{key}, strconv.Itoa(i+1))}, func(_ cluster.Reply, err error) {
			defer wg.Done()
			if err != nil {
				t.Errorf("a change of %s: %v", key, err)
			}
		})
	}
	wg.Wait()
	for i := range 100 {
		key := c.Key(strconv.Itoa(i))
		r, err := c.Read(t.Context(), cluster.Slot(key), "GET", key)
		if s, _ := r.ToString(); err != nil || s != strconv.Itoa(i+1) {
			t.Errorf("%s is %q, %v", key, s, err)
		}
	}
	o := parse(t, append(mutual, "--cluster", "valkeys://"+nodes.Addrs()[0])...)
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	co, err := o.Options()
	if err != nil {
		t.Fatal(err)
	}
	findings, err := Examine(t.Context(), co, o.Want())
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range findings {
		if (found.Check == "nodes" || found.Check == "WAIT") && found.Severity != doctor.OK {
			t.Errorf("%+v", found)
		}
	}
}
