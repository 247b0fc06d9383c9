// Package server is weir's HTTP kernel: it takes requests off the sockets at the price of the system calls
// and brings them to the services.
//
// The loops frame every request, chunked bodies and HTTP/1.0 included. A handler answers it inline, on the
// event loop that read it, without a goroutine or an allocation, and with one send for all pipelined
// answers of a read. Or, where the handler says so, it is answered by one of its service's workers, by
// whoever completes it while it is pending, by the loop when that has nothing else to do, or by net/http,
// which is given exactly that one request, its whole body and a Content-Length over an in-memory
// connection. A connection has one request out at a time, so answers keep the order of their requests.
//
// TLS and HTTP/2, and systems without epoll, are net/http's throughout, with the same routes and the same
// handlers behind an adapter.
//
// What a client can rely on: an answer reaches the connection its request came on and no other; what cannot
// be parsed by RFC 9112 is refused with 400 and a close, never guessed at; every error is a problem
// document (RFC 9457) without internals; SIGTERM loses no request that was received. What an operator can
// rely on: every queue is bounded by a field of Config, a client that does not read stops being read, and
// running out of descriptors backs off.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/metrics"
	"weir/internal/shed"
	"weir/internal/webui"
)

// Server is a kernel with its services.
type Server struct {
	cfg       Config
	live      atomic.Pointer[Config] // what may change while it serves: see Apply
	services  []Service
	states    []*serviceState
	routes    router
	admins    router // the admin port's
	unrouted  *route // counts what no route takes
	netHTTP   *netHTTPLane
	adminLane *netHTTPLane
	fast      *fastLane // nil when net/http serves everything

	listen, tls, admin net.Listener

	bounded sync.WaitGroup // calls of handlers of routes with Limits, over net/http

	shed               *shed.Shedder // nil when nothing is ever refused
	connections        atomic.Int64
	detached           atomic.Int64 // requests that workers or net/http have
	paused             atomic.Int64 // connections that are not read
	input              atomic.Int64 // bytes of buffered requests
	tooManyConnections []byte       // the answer to a connection beyond the bound

	panics, refused, acceptErrors, accepted *metrics.Counter
	closed                                  [closedReasons]*metrics.Counter
	counters                                sync.Mutex // guards making route counters
}

// Why the kernel closed a connection by itself.
const (
	closedIdle = iota
	closedRequest
	closedWrite
	closedInput
	closedFull
	closedReasons
)

// New listens on the configured addresses and prepares to serve; Run serves. The services are
// closed by Run, or by the caller when Run is not called.
func New(cfg Config, services ...Service) (*Server, error) {
	if err := cfg.Fill(); err != nil {
		return nil, err
	}
	if cfg.Shed != nil { // the caller's may change
		shedding := *cfg.Shed
		cfg.Shed = &shedding
	}
	s := &Server{cfg: cfg, services: services}
	s.live.Store(&cfg)
	s.netHTTP = newNetHTTPLane(s, &s.routes)
	s.adminLane = newNetHTTPLane(s, &s.admins)
	s.registerMetrics()
	var err error
	if s.states, err = newStates(services, cfg.CriticalServices); err != nil {
		return nil, err
	}
	s.registerHealth()
	if err := s.addShedder(); err != nil {
		return nil, err
	}
	s.addRoutes()

	var resp Response
	resp.reset()
	resp.Problem(http.StatusServiceUnavailable,
		"too many connections; raise --max-connections if the machine has room")
	var h heads
	h.tick(time.Now())
	s.tooManyConnections = h.append(nil, &resp, false, true)

	ports := cfg.Ports
	if ports == nil {
		var err error
		if ports, err = Listen(cfg); err != nil {
			return nil, err
		}
	}
	s.listen, s.tls, s.admin = ports.public, ports.tls, ports.admin
	if s.listen != nil && !cfg.NetHTTP {
		fast, err := newFastLane(s, s.listen.Addr())
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			s.closeListeners()
			return nil, fmt.Errorf("start the event loops: %w", err)
		}
		s.fast = fast
	}
	return s, nil
}

// Ports are the listeners of a server that is not there yet: connections wait for it. It owns them from New
// on.
type Ports struct{ public, tls, admin net.Listener }

// Addr is the address of the public port, or of that with TLS where it is the only one.
func (p *Ports) Addr() net.Addr {
	if p.public == nil {
		return address(p.tls)
	}
	return address(p.public)
}

// AdminAddr is that of the admin port.
func (p *Ports) AdminAddr() net.Addr { return address(p.admin) }

// Listen takes the configured addresses, for Config.Ports.
func Listen(cfg Config) (*Ports, error) {
	p := &Ports{}
	for _, l := range []struct {
		flag, addr string
		to         *net.Listener
	}{
		{"--listen", cfg.Listen, &p.public},
		{"--tls-listen", cfg.TLSListen, &p.tls},
		{"--admin", cfg.Admin, &p.admin},
	} {
		if l.addr == "" {
			continue
		}
		// Multipath TCP would cost every connection for what nobody here uses.
		var lc net.ListenConfig
		lc.SetMultipathTCP(false)
		ln, err := lc.Listen(context.Background(), "tcp", l.addr)
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("%s %s: %w", l.flag, l.addr, err)
		}
		*l.to = ln
	}
	return p, nil
}

// Close gives the addresses back.
func (p *Ports) Close() {
	for _, l := range []net.Listener{p.public, p.tls, p.admin} {
		if l != nil {
			l.Close()
		}
	}
}

func (s *Server) addRoutes() {
	s.unrouted = s.newRoute(Route{Pattern: "unrouted"})
	s.routes.nothing, s.admins.nothing = NothingHere, NothingOnAdmin
	s.Handle(Route{Pattern: "GET /health", Handler: s.health, Class: shed.Critical})
	s.addAdminRoutes()
	for i, service := range s.services {
		for _, r := range service.Routes() {
			s.handle(r, i, s.states[i])
		}
	}
}

// Handle adds a route that belongs to no service. It must be called before Run.
func (s *Server) Handle(r Route) { s.handle(r, 0, nil) }

func (s *Server) handle(r Route, service int, state *serviceState) {
	to := &s.routes
	if r.Admin {
		to = &s.admins
	}
	own := s.newRoute(r)
	own.service, own.state = service, state
	to.add(own)
}

// Routes returns the patterns of the public port's routes, in the order they were added.
func (s *Server) Routes() []string { return s.routes.patterns() }

// AdminRoutes returns the patterns of the admin port's.
func (s *Server) AdminRoutes() []string { return s.admins.patterns() }

// guardAdmin keeps pages of other sites from the admin port. A port on loopback is asked for by names of
// loopback, any other by whatever names its network has.
func (s *Server) guardAdmin(next http.Handler) http.Handler {
	if s.cfg.AdminAccess != nil {
		next = s.cfg.AdminAccess(next)
	}
	address, ok := address(s.admin).(*net.TCPAddr)
	return webui.Guard{AnyHost: !ok || !address.IP.IsLoopback(), Refuse: WriteProblem}.Handler(next)
}

// Addr, TLSAddr and AdminAddr return the address listened on, nil when that port is off.
func (s *Server) Addr() net.Addr      { return address(s.listen) }
func (s *Server) TLSAddr() net.Addr   { return address(s.tls) }
func (s *Server) AdminAddr() net.Addr { return address(s.admin) }

func address(l net.Listener) net.Addr {
	if l == nil {
		return nil
	}
	return l.Addr()
}

func (s *Server) closeListeners() { (&Ports{s.listen, s.tls, s.admin}).Close() }

// Run serves until ctx is done, then stops in order: listeners, loops once their answers are
// sent, net/http, services. It returns nil after an orderly stop.
func (s *Server) Run(ctx context.Context) error {
	failed := make(chan error, 8)
	fail := func(err error) {
		if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			select {
			case failed <- err:
			default:
			}
		}
	}
	public := s.newHTTPServer(s.netHTTP)
	adminServer := s.newHTTPServer(s.guardAdmin(s.adminLane))
	var accepting sync.WaitGroup
	stop := make(chan struct{})
	if s.shed != nil {
		go s.shed.Run(ctx)
	}
	accepting.Go(func() { s.watchHealth(stop) })
	if s.admin != nil {
		go func() { fail(adminServer.Serve(s.admin)) }()
	}
	if s.tls != nil {
		go func() { fail(public.ServeTLS(s.limit(s.tls), "", "")) }()
	}
	switch {
	case s.listen == nil:
	case s.fast == nil:
		go func() { fail(public.Serve(s.limit(s.listen))) }()
	default:
		s.fast.start(func(l net.Listener) { fail(public.Serve(l)) })
		accepting.Go(func() { fail(s.fast.accept(s.listen.(*net.TCPListener), stop)) })
	}

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}

	timeout, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.live.Load().ShutdownTimeout)
	defer cancel()
	close(stop)
	var shutdownErr error
	accepting.Wait()
	if s.fast != nil { // its acceptor takes what waits; only then the listener goes
		s.fast.announceStop() // who finds the port closed can rely on the loops' knowing
		s.listen.Close()
		shutdownErr = s.fast.awaitStop(timeout)
	}
	if shutdownErr = cmp.Or(shutdownErr, public.Shutdown(timeout)); shutdownErr != nil {
		public.Close() // services may wait for what is pending to be given up
	}
	if s.fast != nil {
		shutdownErr = cmp.Or(shutdownErr, s.fast.finish(timeout))
	}
	shutdownErr = cmp.Or(shutdownErr, waitFor(timeout, &s.bounded))
	for i := len(s.services) - 1; i >= 0; i-- {
		service := s.services[i]
		if closeErr := service.Close(); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("close %s: %w", service.Name(), closeErr))
		}
	}
	adminServer.Shutdown(timeout) //nolint:errcheck // the last to go; nothing is lost with it
	s.closeListeners()
	if shutdownErr != nil {
		s.cfg.Log.Error("requests in flight were given up", "timeout",
			s.live.Load().ShutdownTimeout, "error", shutdownErr)
		err = errors.Join(err, fmt.Errorf("stop: %w", shutdownErr))
	}
	return err
}

// waitFor waits for a group of goroutines, or returns the context's error when that is done before.
func waitFor(ctx context.Context, group *sync.WaitGroup) error {
	ended := make(chan struct{})
	go func() { group.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// connectionOpened counts a new connection; false means that it is one too many, and it is not
// counted.
func (s *Server) connectionOpened() bool {
	if s.connections.Add(1) > int64(s.live.Load().MaxConnections) {
		s.connections.Add(-1)
		s.closed[closedFull].Add(s.cfg.sharedStripe(), 1)
		return false
	}
	s.accepted.Add(s.cfg.sharedStripe(), 1)
	return true
}

func (s *Server) connectionClosed() { s.connections.Add(-1) }

// limit bounds the connections of a listener that net/http accepts from.
func (s *Server) limit(l net.Listener) net.Listener { return &limited{Listener: l, s: s} }

type limited struct {
	net.Listener
	s *Server
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.s.connectionOpened() {
			return &limitedConn{patientConn: patientConn{c.(*net.TCPConn), l.s}}, nil
		}
		c.SetWriteDeadline(time.Now().Add(time.Second)) //nolint:errcheck // it is closed anyway
		c.Write(l.s.tooManyConnections)                 //nolint:errcheck // as well
		c.Close()
	}
}

type limitedConn struct {
	patientConn
	once sync.Once
}

func (c *limitedConn) Close() error {
	c.once.Do(c.s.connectionClosed)
	return c.TCPConn.Close()
}
