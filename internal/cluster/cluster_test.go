package cluster_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"weir/internal/cluster"
)

func TestACommandGoesToTheShardOfItsSlot(t *testing.T) {
	c, err := cluster.Open(t.Context(), cluster.Options{Addrs: start(t, 3)[:1], Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Add(1)
		key := c.Key(fmt.Sprintf("k:{%d}", i))
		c.Submit(t.Context(), cluster.Command{Slot: cluster.Slot(key), Durable: true,
			Args: []string{"SET", key, fmt.Sprint(i)}}, func(r cluster.Reply, err error) {
			if s, _ := r.ToString(); err != nil || s != "OK" {
				t.Error(s, err)
			}
			wg.Done()
		})
	}
	wg.Wait()
	for i := range 1000 {
		key := c.Key(fmt.Sprintf("k:{%d}", i))
		r, err := c.Read(t.Context(), cluster.Slot(key), "GET", key)
		if s, _ := r.ToString(); err != nil || s != fmt.Sprint(i) {
			t.Fatal(i, s, err)
		}
	}
	lib := cluster.NewLibrary("test", `define('add', function(keys, args)
		return redis.call('INCRBY', keys[1], args[1]) end)`)
	if err := c.Load(t.Context(), lib); err != nil {
		t.Fatal(err)
	}
	if err := c.Load(t.Context(), lib); err != nil {
		t.Fatal(err)
	}
	key := c.Key("n")
	call := cluster.Command{Slot: cluster.Slot(key), Durable: true, Args: lib.Call("add", []string{key}, "5")}
	r, err := c.Do(t.Context(), call)
	if n, _ := r.ToInt64(); err != nil || n != 5 {
		t.Fatal(n, err)
	}
	c.Each(t.Context(), func(ctx context.Context, n cluster.Node) error {
		if n.Primary {
			_, err = n.Do(ctx, "FUNCTION", "FLUSH")
		}
		return err
	})
	r, err = c.Do(t.Context(), call)
	if n, _ := r.ToInt64(); err != nil || n != 10 {
		t.Fatal(n, err)
	}
	f, err := c.Format(t.Context(), cluster.Format{Buckets: 100})
	if err != nil || f.Buckets != 100 || f.Seed == 0 {
		t.Fatal(f, err)
	}
	if g, err := c.Format(t.Context(), cluster.Format{Buckets: 7}); err != nil || g != f {
		t.Fatal(g, err)
	}
	t.Logf("%+v", c.Stats())
}
