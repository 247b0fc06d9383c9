// Command nethttp answers the floor's constant body from a bare net/http server: what the standard
// library costs before it does anything. It prints "listening on ADDRESS" once it is ready.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to serve on")
	size := flag.Int("body", 81, "bytes of the answer, 2 or more")
	flag.Parse()
	body := []byte("[" + strings.Repeat("1", *size-2) + "]")
	ln, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal("nethttp: ", err)
	}
	fmt.Println("listening on", ln.Addr())
	log.Fatal("nethttp: ", http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.Write(body)
	})))
}
