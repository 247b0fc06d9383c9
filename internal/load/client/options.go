package client

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
)

// fill replaces zeros by defaults and refuses what cannot work. Bounds are the caller's to see to.
func (o *Options) fill() error {
	if len(o.Targets) == 0 {
		return errors.New("no target: give a URL to load")
	}
	for _, t := range o.Targets {
		if !t.Addr.IsValid() || t.Addr.Port() == 0 {
			return fmt.Errorf("target %q has no address: it has to be looked up first", t.URL)
		}
	}
	if o.Closed && o.Connections == 0 {
		return errors.New("the closed model needs --connections of 1 or more")
	}
	o.MaxConnections = cmp.Or(o.MaxConnections, 10_000)
	o.Warm = min(cmp.Or(o.Warm, 64), o.MaxConnections)
	o.Pipeline = max(o.Pipeline, 1)
	if o.Pipeline > 1 && (!o.Closed || len(o.Targets) > 1 || o.byNetHTTP()) {
		return errors.New(
			"--pipeline is for --connections, and for one target that speaks HTTP/1.1 without TLS")
	}
	if o.Closed {
		o.Warm = o.Connections
	}
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.Threads = min(cmp.Or(o.Threads, min(max(runtime.GOMAXPROCS(0)/2, 1), 4)), o.MaxConnections)
	return o.within(mostFiles())
}

// spareFiles is how many files a run may have open besides its connections.
const spareFiles = 64

// within keeps the connections to the number of files that the system lets this process open: in the open
// model there are fewer at most, in the closed one it cannot be.
func (o *Options) within(files int) error {
	most := max(1, files-spareFiles)
	if o.Closed && o.Connections > most {
		return fmt.Errorf("%d connections are more than the %d that the limit of open files has room for: "+
			"raise it (ulimit -n, LimitNOFILE=), or use more machines (--agents)",
			o.Connections, most)
	}
	o.MaxConnections, o.Threads = min(o.MaxConnections, most), min(o.Threads, most)
	if !o.Closed {
		o.Warm = min(o.Warm, most)
	}
	return nil
}

// byNetHTTP says whether requests go by net/http and not by the event loops.
func (o *Options) byNetHTTP() bool {
	if !hasLoops || o.HTTP2 || o.Whole || o.netHTTP {
		return true
	}
	for _, t := range o.Targets {
		if strings.HasPrefix(t.URL, "https:") {
			return true
		}
	}
	return false
}

// Share returns what one of some threads or machines has of n, so that the shares of all add up to n.
func Share(n, thread, threads int) int {
	s := n / threads
	if thread < n%threads {
		s++
	}
	return s
}
