package featurestore

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"weir/internal/bandit/featurestore/feasttest"
)

// BenchmarkArmsFromRedis is a call for 400 items that memory knows nothing of, with Redis on this machine.
func BenchmarkArmsFromRedis(b *testing.B) {
	redis, err := feasttest.NewRedis(b.TempDir())
	feasttest.Need(b, err)
	defer func() { redis.Stop() }()
	// Callers ask for different items, or they would share what they fetch.
	const callers, items = 8, 400
	ids := numbered("", callers*items)
	shapes := make(map[string][2]float64)
	for i, id := range ids {
		shapes[id] = [2]float64{float64(i) + 1, 2}
	}
	url := "feast+redis://" + redis.Addr + "/p"
	writeLikeFeast(b, url, nil, shapes)
	s := openStore(b, url, func(o *Options) { o.TTL, o.Stale = 0, 0 })
	var caller atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(callers / runtime.GOMAXPROCS(0))
	b.RunParallel(func(pb *testing.PB) {
		first := int(caller.Add(1)-1) % callers * items
		dst := make([]Arm, items)
		for pb.Next() {
			if _, err := s.Arms(context.Background(), ids[first:first+items], dst); err != nil ||
				dst[items-1].Alpha != float64(first+items) {
				b.Error(dst[items-1], err)
			}
		}
	})
}
