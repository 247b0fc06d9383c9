package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/config"
	"weir/internal/filter/httpcache"
)

func newCacheProxy() *cobra.Command {
	var (
		upstream, listen, dir string
		size                  = config.Bytes(1 << 30)
		body                  = config.Bytes(32 << 20)
		staleIfError          time.Duration
	)
	cmd := &cobra.Command{
		Use:   "cache-proxy --upstream URL",
		Short: "Put the cache of filtered feeds before an origin, to be judged alone",
		Long: `Put the HTTP cache that filtered feeds are fetched through before an origin, as a reverse proxy: a
shared cache by RFC 9111, on disk. It serves plain HTTP, and is there so that the cache can be judged
alone, by http-cache-tests for one: make test-cache.`,
		Example: `  weir cache-proxy --upstream http://127.0.0.1:8000
  curl -i http://127.0.0.1:8092/`,
		Args: exactly(0, "no arguments, only flags"),
	}
	f := cmd.Flags()
	f.StringVar(&upstream, "upstream", "", "URL of the origin, whose path is put before those of requests")
	f.StringVar(&listen, "listen", "127.0.0.1:8092", "address to listen on; port 0 takes a free one")
	config.Dir(f, &dir, "data", "", "directory of the cache (default one that is removed at the end)")
	f.Var(&size, "size", "bytes of all files together; what was used least recently goes first")
	f.Var(&body, "max-body", "bytes of one body; longer ones are not passed on")
	f.DurationVar(&staleIfError, "stale-if-error", time.Hour,
		"how long past its time a response is used while the origin fails, unless it says")

	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		to, err := url.Parse(upstream)
		if err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Host == "" {
			return usageError{cmd.CommandPath(),
				fmt.Errorf("--upstream must be an http or https URL, got %q", upstream)}
		}
		if dir == "" {
			if dir, err = os.MkdirTemp("", "weir-cache-"); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		}
		transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64,
			ResponseHeaderTimeout: time.Minute}
		cache, err := httpcache.Open(dir, httpcache.Options{Fetch: transport, MaxBytes: int64(size),
			MaxBody:      int64(body),
			StaleIfError: staleIfError, Surrogate: "weir"})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, cache.Close()) }()
		return serveUntilSignal(cmd.OutOrStdout(), listen, httpcache.NewProxy(cache, to))
	}
	return cmd
}

// serveUntilSignal serves plain HTTP until the process is told to end.
func serveUntilSignal(out io.Writer, address string, h http.Handler) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "listening on http://%s\n", l.Addr())
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	stop() // a second signal ends the process
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return s.Shutdown(ctx)
}
