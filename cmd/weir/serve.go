package main

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/admin"
	"weir/internal/config"
	"weir/internal/server"
	"weir/internal/shed"
	"weir/internal/webui"
)

func newServe() *cobra.Command {
	var (
		kernel  = newKernelFlags()
		listen  string
		dataDir string
		file    string
		check   bool
	)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve feeds, predictions and the sequence",
		Long: `Serve answers requests on --listen, and metrics, profiles and reloads on --admin.

Recommendation feeds are served when --feeds names their lists, the Fibonacci sequence unless
--sequence=false, predictions by Thompson sampling unless --bandit=false. Positions and everything else
that must outlive the process are kept in the --data directory, which one server at a time may use.

Every flag may also be set by an environment variable, --tls-listen by WEIR_TLS_LISTEN, and by --config, a
file of TOML, as listen in [tls] or as tls-listen. The command line goes before the environment, and that
before the file. --check says what is wrong with all of it, or where each setting comes from, and exits.

SIGHUP takes up new data and certificates, as renaming a new snapshot over --feeds does for that
snapshot; SIGTERM and SIGINT finish the requests in flight, sync, and exit.`,
		Example: `  weir serve --feeds feeds.weir --data /var/lib/weir
  weir serve --feeds feeds.weir --listen 127.0.0.1:8080 --tls-listen :8443 --tls-cert c.pem --tls-key k.pem`,
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", ":8080", "address of the public port; empty is off, with --tls-listen")
	config.Dir(f, &dataDir, "data", "weir-data", "directory of what must outlive the process")
	config.File(f, &file, "config", "file of settings, TOML, for what neither flags nor the environment say")
	f.BoolVar(&check, "check", false, "check the settings, say where each comes from, and exit")
	groups := kernel.groups()
	services := newServices()
	for _, s := range services {
		set := pflag.NewFlagSet(s.Name(), pflag.ContinueOnError)
		s.AddFlags(set)
		groups = append(groups, config.Group{Title: "Service " + s.Name(), Flags: set})
	}
	config.AddGroups(cmd, groups...)

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		from, err := fillSettings(cmd, cmd.Flags())
		if err != nil {
			return err
		}
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
			return usage("%w", err)
		}
		if check {
			return printSources(cmd, from, dataDir, services)
		}
		return kernel.serve(cmd, cfg, dataDir, services, keys)
	}
	return cmd
}

// fillSettings sets those flags of serve that the command line has left out, by the environment and the
// file, and returns where each that is set has its value from.
func fillSettings(cmd *cobra.Command, flags *pflag.FlagSet) (map[string]string, error) {
	sources := config.Sources{File: cmp.Or(textFlag(flags, "config"), os.Getenv("WEIR_CONFIG")),
		Prefix: "WEIR",
		Lookup: os.LookupEnv}
	from, err := sources.Fill(flags, "config", "check", "help")
	if wrong := (*config.SettingError)(nil); errors.As(err, &wrong) {
		err = usage("%w", err)
	}
	return from, err
}

// printSources checks what the services have been told, and prints where each setting comes from, without
// its value: that may be a secret.
func printSources(cmd *cobra.Command, from map[string]string, dataDir string,
	services []server.Opener) error {
	if _, _, err := checkServices(slog.New(slog.DiscardHandler), services); err != nil {
		return usage("%w", err)
	}
	live, err := admin.ReadLive(fileOf(dataDir, "settings.json"))
	if err != nil {
		return err
	}
	for name, by := range live {
		from[name] = "changed live by " + by + ", in the data directory"
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, name := range slices.Sorted(maps.Keys(from)) {
		fmt.Fprintf(w, "%s\t%s\n", name, from[name])
	}
	return w.Flush()
}

// kernelFlags are the flags of every command that serves.
type kernelFlags struct {
	cfg                  server.Config
	logFormat, logLevel  string
	certificate, keyFile string
	passwordFile         string
	tokenFile            string
	maxHeader, maxBody   config.Bytes
	maxOutput, maxInput  config.Bytes
	shed                 *shedFlags
	level                slog.LevelVar
	flags                *pflag.FlagSet // all of these
}

func newKernelFlags() *kernelFlags {
	cfg := server.Defaults()
	return &kernelFlags{
		cfg:       cfg,
		maxHeader: config.Bytes(cfg.MaxHeader), maxBody: config.Bytes(cfg.MaxBody),
		maxOutput: config.Bytes(cfg.MaxOutput), maxInput: config.Bytes(cfg.MaxInput),
		shed:  newShedFlags(),
		flags: pflag.NewFlagSet("kernel", pflag.ContinueOnError),
	}
}

// groups are the flags, all but that of the public port's address, by what they are about.
func (k *kernelFlags) groups() []config.Group {
	cfg := &k.cfg
	group := func(title string, add func(f *pflag.FlagSet)) config.Group {
		f := pflag.NewFlagSet(title, pflag.ContinueOnError)
		f.SortFlags = false
		add(f)
		k.flags.AddFlagSet(f)
		return config.Group{Title: title, Flags: f}
	}
	return []config.Group{
		group("Ports and logs", func(f *pflag.FlagSet) {
			f.StringVar(&cfg.Admin, "admin", "127.0.0.1:8081", "address of the admin port (dashboard, "+
				"metrics, profiles); other than loopback only with one of the next two; empty is off")
			config.File(f, &k.passwordFile, "admin-password-file",
				"file of the admin port's password, written by weir admin password")
			config.File(f, &k.tokenFile, "admin-token-file",
				"file of the admin port's token, which programs send as Authorization: Bearer")
			f.StringVar(&cfg.TLSListen, "tls-listen", "",
				"address of the public port with TLS and HTTP/2; empty is off")
			config.File(f, &k.certificate, "tls-cert",
				"certificate chain for --tls-listen, PEM; read again at SIGHUP")
			config.File(f, &k.keyFile, "tls-key", "private key for --tls-listen, PEM; read again at SIGHUP")
			config.Choice(f, &k.logFormat, "log-format", "text", "how to log: text or json", "text", "json")
			config.Choice(f, &k.logLevel, "log-level", "info", "what to log: debug, info, warn or error",
				"debug", "info", "warn", "error")
		}),
		group("Limits", func(f *pflag.FlagSet) {
			f.IntVar(&cfg.MaxConnections, "max-connections", cfg.MaxConnections,
				"open connections; one more is answered 503 and closed")
			f.Var(&k.maxHeader, "max-header", "size of a request's line and headers")
			f.Var(&k.maxBody, "max-body",
				"size of a request's body, but for routes with a bound of their own")
			f.Var(&k.maxOutput, "max-output", "answers waiting for one client before its requests wait too")
			f.Var(&k.maxInput, "max-input", "unfinished requests held in memory, all together")
			f.IntVar(&cfg.Workers, "workers", cfg.Workers,
				"workers of each service, for requests too long for an event loop")
			f.IntVar(&cfg.WorkerQueue, "worker-queue", cfg.WorkerQueue,
				"requests of a service that may wait for its workers; one more is answered 503")
			f.StringSliceVar(&cfg.CriticalServices, "critical-services", nil, "services without which "+
				"/health is 503, separated by commas; empty is none (default those that were given data)")
			f.IntVar(&cfg.Loops, "loops", cfg.Loops, "event loops, each a thread; as many as cores")
			f.BoolVar(&cfg.NetHTTP, "net-http", false,
				"serve everything by net/http, without event loops (always so where there is no epoll)")
		}),
		group("Timeouts", func(f *pflag.FlagSet) {
			f.DurationVar(&cfg.RequestTimeout, "request-timeout", cfg.RequestTimeout,
				"from a request's first byte to its last")
			f.DurationVar(&cfg.IdleTimeout, "idle-timeout", cfg.IdleTimeout,
				"from an answer to the connection's next request")
			f.DurationVar(&cfg.WriteTimeout, "write-timeout", cfg.WriteTimeout,
				"without the client taking a byte of its answer")
			f.DurationVar(&cfg.LingerTimeout, "linger-timeout", cfg.LingerTimeout,
				"discarding what follows a refused request, so that its answer arrives")
			f.DurationVar(&cfg.ShutdownTimeout, "shutdown-timeout", cfg.ShutdownTimeout,
				"for requests in flight at SIGTERM")
		}),
		group("Overload", k.shed.add),
	}
}

// add adds the flags to a command that has its own, and shows them by what they are about.
func (k *kernelFlags) add(cmd *cobra.Command, more ...config.Group) {
	config.AddGroups(cmd, append(more, k.groups()...)...)
}

// config returns what the flags say, once they are parsed, and has limited memory as they say.
func (k *kernelFlags) config(cmd *cobra.Command) (server.Config, *certificates, error) {
	cobra.CheckErr(k.level.UnmarshalText([]byte(k.logLevel)))
	log, _ := admin.Keep(newLog(cmd.ErrOrStderr(), k.logFormat, &k.level))
	cfg, err := k.read()
	if err != nil {
		return server.Config{}, nil, usage("%w", err)
	}
	cfg.Log, cfg.Settings = log, k.settings
	keys, err := openCertificate(k.certificate, k.keyFile)
	if err != nil {
		return server.Config{}, nil, k.failure(log, err)
	}
	slog.SetDefault(log) // for what libraries have to say
	cfg.TLS = keys.config()
	if err := limitMemory(k.shed.memory); err != nil {
		log.Warn("the limit of memory could not be found; set GOMEMLIMIT if there is one", "error", err)
	}
	return cfg, keys, nil
}

// read returns what the flags say now, or what is wrong with it.
func (k *kernelFlags) read() (server.Config, error) {
	cfg := k.cfg
	cfg.MaxHeader, cfg.MaxBody, cfg.MaxOutput = int(k.maxHeader), int(k.maxBody), int(k.maxOutput)
	cfg.MaxInput = int64(k.maxInput)
	err := k.check(&cfg)
	if err == nil {
		cfg.Shed, err = k.shed.config()
	}
	return cfg, err
}

// settings are those of the flags that may change while s serves.
func (k *kernelFlags) settings(s *server.Server) []config.Setting {
	bounds := map[string]string{
		"log-level":        "debug, info, warn or error",
		"max-connections":  "from 1",
		"max-body":         "from 1, and with --max-header at most --max-input",
		"max-input":        "from --max-header and --max-body together",
		"request-timeout":  "above 0; over TLS, heads keep to that of the start",
		"idle-timeout":     "above 0; over TLS, that of the start holds",
		"write-timeout":    "above 0",
		"linger-timeout":   "above 0",
		"shutdown-timeout": "above 0",
		"memory-ratio":     "from 0, for no limit, to 1; GOMEMLIMIT in the environment goes before it",
	}
	if k.shed.on {
		bounds["shed-interval"], bounds["shed-pause"], bounds["shed-wait"] = "from 10ms", "from 0", "above 0"
		for _, sig := range shedSignals {
			order := "soft below hard"
			if sig.signal == shed.MemoryAvailable {
				order = "soft above hard"
			}
			bounds[sig.flag] = "SOFT:HARD, from 0 and " + order + ", or off"
		}
	}
	check := func() error {
		_, err := k.read()
		return err
	}
	return config.Settings(k.flags, check, func() {
		cfg, err := k.read()
		if err == nil {
			err = errors.Join(k.level.UnmarshalText([]byte(k.logLevel)), s.Apply(cfg))
			limitMemory(k.shed.memory) //nolint:errcheck // there is no limit to take a share of
		}
		if err != nil {
			panic("BUG: settings that were checked cannot be applied: " + err.Error())
		}
	}, bounds)
}

// leastHeader is the least --max-header there is use for: a browser sends more, a client with no frills
// half of it.
const leastHeader = 256

// check refuses what cannot work. Zeros are defaults in server.Config: who writes one on a command line means
// something else, no bound for example, and must not get the default without a word.
func (k *kernelFlags) check(cfg *server.Config) error {
	for _, name := range []string{
		"loops", "workers", "worker-queue", "max-connections",
		"request-timeout", "idle-timeout", "write-timeout", "linger-timeout", "shutdown-timeout",
	} {
		if f := k.flags.Lookup(name); f.Value.String() == "0" || f.Value.String() == "0s" {
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
	if k.passwordFile == "" && k.tokenFile == "" && !onLoopback(cfg.Admin) {
		return fmt.Errorf("--admin %s can be reached from other machines, whose users could do everything "+
			"there: say --admin-password-file or --admin-token-file, or an address like 127.0.0.1:8081",
			cfg.Admin)
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

// onLoopback says whether only this machine can reach an address. Names but localhost may change their mind.
func onLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	return address == "" || webui.LoopbackHost(host)
}

// serve runs a server until it is told to stop.
func (k *kernelFlags) serve(cmd *cobra.Command, cfg server.Config, dataDir string, openers []server.Opener,
	keys *certificates) error {
	on, off, err := checkServices(cfg.Log, openers)
	if err != nil {
		return usage("%w", err)
	}
	access, err := admin.OpenAccess(k.passwordFile, k.tokenFile)
	if err != nil {
		return k.failure(cfg.Log, err)
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)

	// The loops keep their processors busy: without one to spare, a request on net/http
	// would wait for the runtime's monitor to look at the network, 8 ms instead of 60 us. Many
	// more than can run make the scheduler dearer: 6 for one loop cost a handed-off request a tenth.
	if !cfg.NetHTTP {
		runtime.GOMAXPROCS(cfg.Loops + max(1, cfg.Loops/2))
	}
	cfg.Log.Info("the Go runtime keeps to", "GOMEMLIMIT", memoryLimit(), "GOMAXPROCS", runtime.GOMAXPROCS(0))
	logWorst(cfg.Log, examine(cfg, dataDir))
	a, err := openApp(ctx, cfg, access, dataDir, on, off...)
	switch {
	case err != nil && ctx.Err() != nil: // as it was told to
		cfg.Log.Info("weir has stopped before it served", "error", err)
		return nil
	case err != nil:
		return k.failure(cfg.Log, err)
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
				if err := keys.load(); err != nil {
					cfg.Log.Error("the certificate could not be read again, the old one is used on", "error",
						err)
				}
				a.Reload(ctx)
			}
		}
	}()
	attrs := []any{"version", version}
	for i, addr := range []net.Addr{a.Addr(), a.TLSAddr(), a.AdminAddr()} {
		if addr != nil {
			attrs = append(attrs, [...]string{"listen", "tls", "admin"}[i], addr.String())
		}
	}
	cfg.Log.Info("weir is serving", attrs...)
	if err := a.Run(ctx); err != nil {
		return k.failure(cfg.Log, err)
	}
	cfg.Log.Info("weir has stopped")
	return nil
}

// failure returns an error that main prints, or has printed it where the log is JSON: then it is that to
// its last line.
func (k *kernelFlags) failure(log *slog.Logger, err error) error {
	if k.logFormat != "json" {
		return err
	}
	log.Error("weir has failed", "error", err)
	return errLogged
}

// errLogged is a failure that the log has told.
var errLogged = errors.New("see the log")

// checkServices returns the services that will be opened and those that stay off, which it says.
func checkServices(log *slog.Logger, services []server.Opener) (on, off []server.Opener, err error) {
	var reasons []error
	for _, s := range services {
		switch err := s.Check(); {
		case errors.Is(err, server.ErrOff):
			off = append(off, s)
			if err != server.ErrOff { // which says nothing of what would turn it on
				reasons = append(reasons, err)
			}
		case err != nil:
			return nil, nil, err
		default:
			on = append(on, s)
		}
	}
	for _, reason := range reasons {
		log.Info("a service stays " + reason.Error())
	}
	return on, off, checkTogether(on)
}

// newLog returns a log of a format, which is a flag that has been checked, and from a level on. Durations are
// numbers in it, and their unit is part of their names.
func newLog(w io.Writer, format string, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			return slog.Float64(a.Key+"_seconds", a.Value.Duration().Round(time.Millisecond).Seconds())
		}
		return a
	}}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
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
