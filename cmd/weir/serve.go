package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"weir/internal/server"
	"weir/internal/size"
)

func newServe() *cobra.Command {
	var (
		cfg                  = server.Defaults()
		dataDir              string
		logFormat, logLevel  string
		certificate, keyFile string
		maxHeader, maxBody   = size.Bytes(cfg.MaxHeader), size.Bytes(cfg.MaxBody)
		maxOutput, maxInput  = size.Bytes(cfg.MaxOutput), size.Bytes(cfg.MaxInput)
		maxStream            = size.Bytes(cfg.MaxStream)
	)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve feeds",
		Long: `Serve answers requests on --listen, and metrics, profiles and reloads on --admin.

A service runs when it is given what it serves: recommendation feeds with --feeds. Positions and
everything else that must outlive the process are kept in the --data directory, which one server
at a time may use.

SIGHUP takes up new data and certificates, as renaming a new snapshot over --feeds does for that
snapshot; SIGTERM and SIGINT finish the requests in flight, sync, and exit.`,
		Example: `  weir serve --feeds feeds.weir --data /var/lib/weir
  weir serve --feeds feeds.weir --data data --listen 127.0.0.1:8080 --tls-listen :8443 --tls-cert cert.pem --tls-key key.pem`,
		Args: exactly(0, "no arguments, only flags"),
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Listen, "listen", ":8080", "address of the public port")
	f.StringVar(&cfg.Admin, "admin", "127.0.0.1:8081", "address of the admin port (metrics, profiles, reload); keep it private; empty is off")
	f.StringVar(&cfg.TLSListen, "tls-listen", "", "address of the public port with TLS and HTTP/2; empty is off")
	f.StringVar(&certificate, "tls-cert", "", "certificate chain for --tls-listen, PEM; read again at SIGHUP")
	f.StringVar(&keyFile, "tls-key", "", "private key for --tls-listen, PEM; read again at SIGHUP")
	f.StringVar(&dataDir, "data", "weir-data", "directory of what must outlive the process")
	f.StringVar(&logFormat, "log-format", "text", "how to log: text or json")
	f.StringVar(&logLevel, "log-level", "info", "what to log: debug, info, warn or error")
	f.IntVar(&cfg.Loops, "loops", cfg.Loops, "event loops, each a thread; as many as cores")
	f.IntVar(&cfg.Workers, "workers", cfg.Workers, "workers for requests too long for an event loop")
	f.IntVar(&cfg.WorkerQueue, "worker-queue", cfg.WorkerQueue, "requests that may wait for a worker; one more is answered 503")
	f.IntVar(&cfg.MaxConnections, "max-connections", cfg.MaxConnections, "open connections; one more is answered 503 and closed")
	f.Var(&maxHeader, "max-header", "size of a request's line and headers")
	f.Var(&maxBody, "max-body", "size of a request's body for fast routes")
	f.Var(&maxStream, "max-stream", "size of a request's body for all other routes")
	f.Var(&maxOutput, "max-output", "answers waiting for one client before its requests wait too")
	f.Var(&maxInput, "max-input", "unfinished requests held in memory, all together")
	f.DurationVar(&cfg.RequestTimeout, "request-timeout", cfg.RequestTimeout, "from a request's first byte to its last")
	f.DurationVar(&cfg.IdleTimeout, "idle-timeout", cfg.IdleTimeout, "from an answer to the connection's next request")
	f.DurationVar(&cfg.WriteTimeout, "write-timeout", cfg.WriteTimeout, "without the client taking a byte of its answer")
	f.DurationVar(&cfg.LingerTimeout, "linger-timeout", cfg.LingerTimeout, "discarding what follows a refused request, so that its answer arrives")
	f.IntVar(&cfg.LeftRequests, "left-requests", cfg.LeftRequests, "requests after which a connection that net/http had to take is closed")
	f.DurationVar(&cfg.ShutdownTimeout, "shutdown-timeout", cfg.ShutdownTimeout, "for requests in flight at SIGTERM")
	f.BoolVar(&cfg.NetHTTP, "net-http", false, "serve everything by net/http, without event loops (always so where there is no epoll)")
	openers := make([]server.Opener, len(services))
	for i, flags := range services {
		openers[i] = flags(f)
	}
	cobra.CheckErr(cmd.MarkFlagFilename("feeds"))
	cobra.CheckErr(cmd.MarkFlagFilename("fallback"))
	cobra.CheckErr(cmd.MarkFlagDirname("data"))
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("log-format", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp)))
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions([]string{"debug", "info", "warn", "error"}, cobra.ShellCompDirectiveNoFileComp)))

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		log, err := newLog(cmd.ErrOrStderr(), logFormat, logLevel)
		if err != nil {
			return usageError{cmd.CommandPath(), err}
		}
		cfg.Log = log
		cfg.MaxHeader, cfg.MaxBody, cfg.MaxOutput = int(maxHeader), int(maxBody), int(maxOutput)
		cfg.MaxStream, cfg.MaxInput = int64(maxStream), int64(maxInput)
		keys, err := openCertificate(cfg.TLSListen, certificate, keyFile)
		if err != nil {
			return usageError{cmd.CommandPath(), err}
		}
		cfg.TLS = keys.config()
		// The loops keep their processors busy: without one to spare, a request on net/http
		// would wait for the runtime's monitor to look at the network, 8 ms instead of 60 us.
		if !cfg.NetHTTP {
			runtime.GOMAXPROCS(cfg.Loops + max(1, cfg.Workers))
		}
		return serve(cmd.Context(), cfg, dataDir, openers, keys)
	}
	return cmd
}

// serve runs a server until it is told to stop.
func serve(ctx context.Context, cfg server.Config, dataDir string, openers []server.Opener, keys *certificates) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)

	a, err := openApp(ctx, cfg, dataDir, openers)
	if err != nil {
		return err
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
				if err := keys.load(); err != nil {
					cfg.Log.Error("the certificate could not be read again, the old one is used on", "error", err)
				}
				a.Reload(ctx)
			}
		}
	}()
	attrs := []any{"version", version}
	for _, p := range []struct {
		name string
		addr fmt.Stringer
		on   bool
	}{
		{"listen", a.Addr(), a.Addr() != nil},
		{"tls", a.TLSAddr(), a.TLSAddr() != nil},
		{"admin", a.AdminAddr(), a.AdminAddr() != nil},
	} {
		if p.on {
			attrs = append(attrs, p.name, p.addr.String())
		}
	}
	cfg.Log.Info("weir is serving", attrs...)
	if err := a.Run(ctx); err != nil {
		return err
	}
	cfg.Log.Info("weir has stopped")
	return nil
}

func newLog(w io.Writer, format, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level must be debug, info, warn or error, got %q", level)
	}
	options := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("--log-format must be text or json, got %q", format)
}

// certificates holds the certificate of the TLS port, which may be renewed while it serves.
type certificates struct {
	cert, key string
	current   atomic.Pointer[tls.Certificate]
}

func openCertificate(listen, cert, key string) (*certificates, error) {
	switch {
	case listen == "" && cert == "" && key == "":
		return &certificates{}, nil
	case listen == "" || cert == "" || key == "":
		return nil, fmt.Errorf("--tls-listen, --tls-cert and --tls-key go together")
	}
	c := &certificates{cert: cert, key: key}
	return c, c.load()
}

func (c *certificates) load() error {
	if c.cert == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("--tls-cert %s, --tls-key %s: %w", c.cert, c.key, err)
	}
	c.current.Store(&pair)
	return nil
}

func (c *certificates) config() *tls.Config {
	if c.cert == "" {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.current.Load(), nil
		},
	}
}
