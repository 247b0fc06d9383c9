package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/config"
	"weir/internal/filter/httpcache"
	"weir/internal/load/access"
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
		Long: `Put the HTTP cache that filtered feeds are fetched through before an origin, as a reverse
proxy: a shared cache by RFC 9111, on disk. It serves plain HTTP, and is there so that the cache can be
judged alone, by http-cache-tests for one: make test-cache.`,
		Example: `  weir cache-proxy --upstream http://127.0.0.1:8000
  curl -i http://127.0.0.1:8092/`,
	}
	f := cmd.Flags()
	f.StringVar(&upstream, "upstream", "", "URL of the origin, whose path is put before those of requests")
	f.StringVar(&listen, "listen", "127.0.0.1:8092", "address to listen on; port 0 takes a free one")
	config.Dir(f, &dir, "data", "", "directory of the cache (default one that is removed at the end)")
	f.Var(&size, "size", "bytes of all files together; what was used least recently goes first")
	f.Var(&body, "max-body", "bytes of one body; longer ones are not passed on")
	f.DurationVar(&staleIfError, "stale-if-error", time.Hour,
		"how long past its time a response is used while the origin fails, unless it says")

	cmd.RunE = interruptible(func(cmd *cobra.Command, _ []string) (err error) {
		to, err := url.Parse(upstream)
		if err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Host == "" {
			return usage("--upstream must be an http or https URL, got %q", upstream)
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
		l, err := net.Listen("tcp", listen)
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "listening on http://%s\n", l.Addr())
		return access.Serve(cmd.Context(), l, httpcache.NewProxy(cache, to), 0, slog.New(slog.DiscardHandler),
			func() error { return nil })
	})
	return cmd
}
