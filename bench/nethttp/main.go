// Command nethttp answers the floor's constant body from a bare net/http server: what the standard library
// costs before it does anything. It prints "listening on ADDRESS" once it is ready.
//
// With --rate it serves exactly so many requests a second, which is the truth that a search for the most it
// bears is held against. More wait for their turn, however long that takes, are refused with 503, or are cut
// off: --beyond wait, refuse or cut. Turns follow a schedule, so that being late does not make the rate
// smaller: up to 20 ms without requests are made good. PUT /rate?to=N changes the rate at once.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to serve on")
	size := flag.Int("body", 81, "bytes of the answer, 2 or more")
	rate := flag.Float64("rate", 0, "requests a second that are served; 0 is as many as come")
	beyond := flag.String("beyond", "wait", "what becomes of more: wait, refuse or cut")
	flag.Parse()
	body := []byte("[" + strings.Repeat("1", *size-2) + "]")
	ln, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal("nethttp: ", err)
	}
	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.Write(body)
	})
	if *rate > 0 {
		p := &pacer{rate: *rate, waits: *beyond == "wait"}
		handler = p.paced(handler, *beyond == "cut")
	}
	fmt.Println("listening on", ln.Addr())
	log.Fatal("nethttp: ", http.Serve(ln, handler))
}

// burst is how much of a time without requests is made good.
const burst = 20 * time.Millisecond

// pacer gives requests their turns.
type pacer struct {
	mu    sync.Mutex
	rate  float64
	waits bool
	next  time.Time // when the next one may be served
}

// turn returns how long the request has to wait at a time, or false if it is too many.
func (p *pacer) turn(now time.Time) (wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if oldest := now.Add(-burst); p.next.Before(oldest) {
		p.next = oldest
	}
	wait = p.next.Sub(now)
	if wait > 0 && !p.waits {
		return 0, false
	}
	p.next = p.next.Add(time.Duration(float64(time.Second) / p.rate))
	return max(0, wait), true
}

func (p *pacer) paced(served http.Handler, cut bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /rate", func(w http.ResponseWriter, r *http.Request) {
		to, err := strconv.ParseFloat(r.FormValue("to"), 64)
		if err != nil || !(to >= 1 && to <= 1e7) {
			http.Error(w, "to takes 1 to 10,000,000 requests a second", http.StatusBadRequest)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.rate = to
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		wait, ok := p.turn(time.Now())
		switch {
		case ok:
			time.Sleep(wait)
			served.ServeHTTP(w, r)
		case cut:
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	return mux
}
