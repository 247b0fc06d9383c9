package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
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
		kernel  = newKernelFlags()
		listen  string
		dataDir string
	)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve feeds, predictions and the sequence",
		Long: `Serve answers requests on --listen, and metrics, profiles and reloads on --admin.

Recommendation feeds are served when --feeds names their lists, the Fibonacci sequence unless
--sequence=false, predictions by Thompson sampling unless --bandit=false. Positions and everything else that must outlive the process are kept in the
--data directory, which one server at a time may use.

SIGHUP takes up new data and certificates, as renaming a new snapshot over --feeds does for that
snapshot; SIGTERM and SIGINT finish the requests in flight, sync, and exit.`,
		Example: `  weir serve --feeds feeds.weir --data /var/lib/weir
  weir serve --feeds feeds.weir --data data --listen 127.0.0.1:8080 --tls-listen :8443 --tls-cert cert.pem --tls-key key.pem`,
		Args: exactly(0, "no arguments, only flags"),
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", ":8080", "address of the public port; empty is off, with --tls-listen")
	f.StringVar(&dataDir, "data", "weir-data", "directory of what must outlive the process")
	kernel.add(cmd)
	openers := make([]server.Opener, len(services))
	for i, flags := range services {
		openers[i] = flags(f)
	}
	cobra.CheckErr(cmd.MarkFlagFilename("feeds"))
	cobra.CheckErr(cmd.MarkFlagFilename("fallback"))
	cobra.CheckErr(cmd.MarkFlagFilename("sequence-file"))
	cobra.CheckErr(cmd.MarkFlagFilename("bandit-arms"))
	cobra.CheckErr(cmd.MarkFlagDirname("data"))
	for flag, values := range map[string][]string{
		"feed-fallback":         {"uniform", "bandit"},
		"bandit-learn":          {"item", "segment", "pair"},
		"bandit-on-store-error": {"fail", "prior"},
	} {
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
	}

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, keys, err := kernel.config(cmd)
		if err != nil {
			return err
		}
		cfg.Listen = listen
		switch {
		case dataDir == "": // a variable that is not set, perhaps
			err = errors.New("--data must name a directory")
		case listen == "" && cfg.TLSListen == "":
			err = errors.New("--listen may be empty only with --tls-listen: there would be no public port")
		default:
			err = checkAddress("--listen", listen)
		}
		if err != nil {
			return usageError{cmd.CommandPath(), err}
		}
		return serve(cmd.Context(), cfg, dataDir, openers, keys)
	}
	return cmd
}

// kernelFlags are the flags of every command that serves.
type kernelFlags struct {
	cfg                  server.Config
	logFormat, logLevel  string
	certificate, keyFile string
	maxHeader, maxBody   size.Bytes
	maxOutput, maxInput  size.Bytes
	shed                 *shedFlags
}

func newKernelFlags() *kernelFlags {
	cfg := server.Defaults()
	return &kernelFlags{
		cfg:       cfg,
		maxHeader: size.Bytes(cfg.MaxHeader), maxBody: size.Bytes(cfg.MaxBody),
		maxOutput: size.Bytes(cfg.MaxOutput), maxInput: size.Bytes(cfg.MaxInput),
		shed: newShedFlags(),
	}
}

// add adds the flags to a command, all but that of the public port's address.
func (k *kernelFlags) add(cmd *cobra.Command) {
	f, cfg := cmd.Flags(), &k.cfg
	f.StringVar(&cfg.Admin, "admin", "127.0.0.1:8081", "address of the admin port (metrics, profiles, reload); keep it private; empty is off")
	f.StringVar(&cfg.TLSListen, "tls-listen", "", "address of the public port with TLS and HTTP/2; empty is off")
	f.StringVar(&k.certificate, "tls-cert", "", "certificate chain for --tls-listen, PEM; read again at SIGHUP")
	f.StringVar(&k.keyFile, "tls-key", "", "private key for --tls-listen, PEM; read again at SIGHUP")
	f.StringVar(&k.logFormat, "log-format", "text", "how to log: text or json")
	f.StringVar(&k.logLevel, "log-level", "info", "what to log: debug, info, warn or error")
	f.IntVar(&cfg.Loops, "loops", cfg.Loops, "event loops, each a thread; as many as cores")
	f.IntVar(&cfg.Workers, "workers", cfg.Workers, "workers for requests too long for an event loop")
	f.IntVar(&cfg.WorkerQueue, "worker-queue", cfg.WorkerQueue, "requests that may wait for a worker; one more is answered 503")
	f.IntVar(&cfg.MaxConnections, "max-connections", cfg.MaxConnections, "open connections; one more is answered 503 and closed")
	f.Var(&k.maxHeader, "max-header", "size of a request's line and headers")
	f.Var(&k.maxBody, "max-body", "size of a request's body, but for routes with a bound of their own")
	f.Var(&k.maxOutput, "max-output", "answers waiting for one client before its requests wait too")
	f.Var(&k.maxInput, "max-input", "unfinished requests held in memory, all together")
	f.DurationVar(&cfg.RequestTimeout, "request-timeout", cfg.RequestTimeout, "from a request's first byte to its last")
	f.DurationVar(&cfg.IdleTimeout, "idle-timeout", cfg.IdleTimeout, "from an answer to the connection's next request")
	f.DurationVar(&cfg.WriteTimeout, "write-timeout", cfg.WriteTimeout, "without the client taking a byte of its answer")
	f.DurationVar(&cfg.LingerTimeout, "linger-timeout", cfg.LingerTimeout, "discarding what follows a refused request, so that its answer arrives")
	f.DurationVar(&cfg.ShutdownTimeout, "shutdown-timeout", cfg.ShutdownTimeout, "for requests in flight at SIGTERM")
	k.shed.add(cmd)
	f.BoolVar(&cfg.NetHTTP, "net-http", false, "serve everything by net/http, without event loops (always so where there is no epoll)")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("log-format", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp)))
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions([]string{"debug", "info", "warn", "error"}, cobra.ShellCompDirectiveNoFileComp)))
}

// config returns what the flags say, once they are parsed, and has limited memory as they say.
func (k *kernelFlags) config(cmd *cobra.Command) (server.Config, *certificates, error) {
	log, err := newLog(cmd.ErrOrStderr(), k.logFormat, k.logLevel)
	if err != nil {
		return server.Config{}, nil, usageError{cmd.CommandPath(), err}
	}
	cfg := k.cfg
	cfg.Log = log
	cfg.MaxHeader, cfg.MaxBody, cfg.MaxOutput = int(k.maxHeader), int(k.maxBody), int(k.maxOutput)
	cfg.MaxInput = int64(k.maxInput)
	if err := k.check(cmd, &cfg); err != nil {
		return server.Config{}, nil, usageError{cmd.CommandPath(), err}
	}
	if cfg.Shed, err = k.shed.config(); err != nil {
		return server.Config{}, nil, usageError{cmd.CommandPath(), err}
	}
	keys, err := openCertificate(k.certificate, k.keyFile)
	if err != nil {
		return server.Config{}, nil, err
	}
	cfg.TLS = keys.config()
	if err := k.shed.limitMemory(); err != nil {
		log.Warn("the limit of memory could not be found; set GOMEMLIMIT if there is one", "error", err)
	}
	return cfg, keys, nil
}

// leastHeader is the least --max-header there is use for: a browser sends more, a client with no frills half of it.
const leastHeader = 256

// check refuses what cannot work. Zeros are defaults in server.Config: who writes one on a command line means
// something else, no bound for example, and must not get the default without a word.
func (k *kernelFlags) check(cmd *cobra.Command, cfg *server.Config) error {
	for _, name := range []string{
		"loops", "workers", "worker-queue", "max-connections",
		"request-timeout", "idle-timeout", "write-timeout", "linger-timeout", "shutdown-timeout",
	} {
		if f := cmd.Flags().Lookup(name); f.Changed && (f.Value.String() == "0" || f.Value.String() == "0s") {
			return fmt.Errorf("--%s must be above 0; without it, it is %s", name, f.DefValue)
		}
	}
	if (cfg.TLSListen == "") != (k.certificate == "") || (k.certificate == "") != (k.keyFile == "") {
		return errors.New("--tls-listen, --tls-cert and --tls-key go together")
	}
	for flag, address := range map[string]string{"--admin": cfg.Admin, "--tls-listen": cfg.TLSListen} {
		if err := checkAddress(flag, address); err != nil {
			return err
		}
	}
	if cfg.MaxHeader < leastHeader {
		return fmt.Errorf("--max-header must be at least %d bytes, got %d", leastHeader, cfg.MaxHeader)
	}
	return cfg.Fill()
}

// checkAddress refuses what nobody can listen on, before anything is opened. Empty is off.
func checkAddress(flag, address string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Errorf("%s must be host:port or :port, got %q: %w", flag, address, err)
	}
	return nil
}

// serve runs a server until it is told to stop.
func serve(ctx context.Context, cfg server.Config, dataDir string, openers []server.Opener, keys *certificates) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)

	// The loops keep their processors busy: without one to spare, a request on net/http
	// would wait for the runtime's monitor to look at the network, 8 ms instead of 60 us. Many
	// more than can run make the scheduler dearer: 6 for one loop cost a lent request a tenth.
	if !cfg.NetHTTP {
		runtime.GOMAXPROCS(cfg.Loops + max(1, cfg.Loops/2))
	}
	cfg.Log.Info("the Go runtime keeps to", "GOMEMLIMIT", memoryLimit(), "GOMAXPROCS", runtime.GOMAXPROCS(0))
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

func openCertificate(cert, key string) (*certificates, error) {
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
