package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/internal/admin"
	"weir/internal/admin/history"
	"weir/internal/cluster/members"
	"weir/internal/cluster/operate"
	"weir/internal/disk"
	"weir/internal/metrics"
	"weir/internal/server"
)

// app is a server with its data directory and services, wired. End-to-end tests use it on port 0.
type app struct {
	*server.Server
	lock     *disk.DirLock
	log      *slog.Logger
	services []server.Service
	admin    *admin.Admin
	history  *history.History
	served   bool // Run has closed the services
}

// dataFormat is the version of the data directory's layout.
const dataFormat = "1"

// openApp takes the ports, locks the data directory and opens the services, which have been checked. Run
// serves and closes all of it. Ports come first, so that an address that is taken leaves no files behind;
// connections wait until the services are open. Without a data directory the services must have been told
// of places of their own.
func openApp(ctx context.Context, cfg server.Config, access *admin.Access, dataDir string,
	openers []server.Opener, off ...server.Opener) (_ *app, err error) {
	if err := cfg.Fill(); err != nil {
		return nil, err
	}
	cfg.Log, _ = admin.Keep(cfg.Log)
	if cfg.Ports, err = server.Listen(cfg); err != nil {
		return nil, err
	}
	a := &app{log: cfg.Log}
	defer func() {
		if err != nil {
			cfg.Ports.Close()
			err = errors.Join(err, a.close())
		}
	}()
	if dataDir != "" {
		if a.lock, err = openData(dataDir); err != nil {
			return nil, err
		}
	}
	cfg.Metrics = metrics.New(cfg.Stripes())
	cfg.Metrics.Gauge("weir_build_info", "1, with what was built as labels.", func() float64 { return 1 },
		"version", version, "commit", commit, "go", runtime.Version())
	// Services are opened before the server is there that they ask.
	env := server.Env{DataDir: dataDir, Metrics: cfg.Metrics, Log: cfg.Log, Long: oneProcessorMore,
		Reject: func() bool { return a.Server.Reject() }}
	for i, o := range openers {
		shareEngine(a.services, openers[i:])
		env.Log = cfg.Log.With("service", o.Name())
		service, err := o.Open(ctx, env)
		if err != nil {
			return nil, err
		}
		a.services = append(a.services, service)
		if engine, ok := service.(*operate.Cluster); ok {
			self, err := member(cfg.Ports, dataDir)
			if err != nil {
				return nil, err
			}
			engine.Join(self)
		}
	}
	if dataDir != "" {
		if err := extendManifest(dataDir, a.services); err != nil {
			return nil, fmt.Errorf("data directory: %w", err)
		}
	}
	if err := wire(a.services); err != nil {
		return nil, err
	}
	cfg.AdminAccess = func(next http.Handler) http.Handler { return a.admin.Guard(next) }
	if a.Server, err = server.New(cfg, a.services...); err != nil {
		return nil, err
	}
	a.Handle(server.Route{Pattern: "GET /version", Handler: serveVersion})
	if a.history, err = history.Open(fileOf(dataDir, "history")); err != nil {
		return nil, err
	}
	if a.admin, err = admin.New(admin.Options{Services: a.services, Kernel: a.Server, Metrics: cfg.Metrics,
		Version: version, History: a.history, Access: access, Settings: a.Settings(),
		SettingsFile: fileOf(dataDir, "settings.json"), Log: cfg.Log}); err != nil {
		return nil, err
	}
	for _, r := range a.admin.Routes() {
		a.Handle(r)
	}
	for _, o := range off {
		if absent, ok := o.(server.Absent); ok {
			for _, r := range absent.Absent() {
				if !a.answers(r.Pattern) {
					a.Handle(r)
				}
			}
		}
	}
	return a, nil
}

// member is what other nodes of a cluster know of this one.
func member(ports *server.Ports, dataDir string) (members.Member, error) {
	m := members.Member{Address: reached(ports.Addr()), Admin: reached(ports.AdminAddr()), Version: version,
		Started: time.Now().UTC()}
	var err error
	m.ID, err = members.OpenID(dataDir)
	return m, err
}

// reached is how other machines may reach a listener: one of all addresses is at this machine's name.
func reached(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return ""
	}
	host := tcp.IP.String()
	if name, err := os.Hostname(); err == nil && tcp.IP.IsUnspecified() {
		host = name
	}
	return net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}

// fileOf is a file of a data directory, "" where there is none: what would be kept there is in memory alone.
func fileOf(dataDir, name string) string {
	if dataDir == "" {
		return ""
	}
	return filepath.Join(dataDir, name)
}

// answers says whether a service that is on has a route of the same method and path.
func (a *app) answers(pattern string) bool {
	wild := regexp.MustCompile(`\{[^}]*\}`)
	return slices.ContainsFunc(a.Routes(), func(p string) bool {
		return wild.ReplaceAllString(p, "{}") == wild.ReplaceAllString(pattern, "{}")
	})
}

// processors guards changes of their number.
var processors sync.Mutex

// oneProcessorMore is server.Env.Long. To have them all the time would be simpler: four more, one for each
// class of the sequence's computations, made handed-off requests 19 to 68 % dearer in four turns on one
// core.
func oneProcessorMore() (done func()) {
	add := func(n int) {
		processors.Lock()
		defer processors.Unlock()
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + n)
	}
	add(1)
	return func() { add(-1) }
}

// openData makes and locks a data directory and checks its version, and that nothing of it is missing.
func openData(dir string) (lock *disk.DirLock, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w; name another one with --data", err)
	}
	path := filepath.Join(dir, "format")
	// Refused before the lock, which would be a file too many.
	if err = checkFormat(path); err == nil || errors.Is(err, os.ErrNotExist) {
		lock, err = disk.LockDir(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err = checkFormat(path); errors.Is(err, os.ErrNotExist) {
		err = disk.WriteFileAtomic(path, []byte(dataFormat+"\n"), 0o600)
	}
	if err = cmp.Or(err, checkManifest(dir)); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory: %w", err), lock.Close())
	}
	return lock, nil
}

// checkFormat refuses a data directory that another version of weir has written.
func checkFormat(path string) error {
	format, err := os.ReadFile(path)
	if found := strings.TrimSpace(string(format)); err == nil && found != dataFormat {
		err = fmt.Errorf("%s says version %.20q, this weir reads version %s: use the weir that wrote it, "+
			"or another --data directory", path, found, dataFormat)
	}
	return err
}

// Run serves until ctx is done and then stops in order. It may be called once.
func (a *app) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, a.admin.Close)() // streams of events would hold up the end
	sampling, stop := context.WithCancel(ctx)
	sampled := make(chan struct{})
	go func() { a.admin.Run(sampling); close(sampled) }()
	err := a.Server.Run(ctx) // closes the services
	a.served = true
	stop()
	<-sampled
	return errors.Join(err, a.close())
}

// Reload has every service that can do so take up new data.
func (a *app) Reload(ctx context.Context) {
	for _, s := range a.services {
		if r, ok := s.(server.Reloader); ok {
			r.Reload(ctx) //nolint:errcheck // the service logs why; the old data serves on
		}
	}
}

// close closes what was opened without having been run.
func (a *app) close() error {
	var errs []error
	for i := len(a.services) - 1; i >= 0 && !a.served; i-- {
		errs = append(errs, a.services[i].Close())
	}
	if a.history != nil {
		errs = append(errs, a.history.Close())
	}
	if a.lock != nil {
		errs = append(errs, a.lock.Close())
		a.lock = nil
	}
	return errors.Join(errs...)
}

// serveVersion answers GET /version.
func serveVersion(w *server.Response, _ *server.Request) server.Outcome {
	w.Body = append(w.Body, versionJSON()...)
	return server.Done
}
