package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"weir/internal/load/access"
	"weir/internal/load/client"
	"weir/internal/load/measure"
	"weir/internal/load/scenario"
	"weir/internal/server"
)

// ErrLost is wrapped by the error of a Fleet one of whose agents has failed or cannot be reached.
var ErrLost = errors.New("an agent is lost")

// patience is how long an agent may take for an answer, but for starting and ending a run. It is less than
// the silence after which the other agents give their leader up.
const patience = 2 * time.Second

// maxReply bounds what an agent answers: three histograms that are full have 600 KiB.
const maxReply = 4 << 20

// Fleet is the engines of one run on several machines. Its methods are those of a client.Engine, and may be
// called by several goroutines.
type Fleet struct {
	members []*member
	epoch   time.Time
	cancel  context.CancelFunc
	ctx     context.Context

	mu        sync.Mutex
	rest      *measure.Window // measured, and not collected yet
	collected time.Duration   // when, since epoch
	closed    bool
}

// member is an agent with a part of the run.
type member struct {
	host     string
	token    string
	patience time.Duration
	http     *http.Client

	id     string
	seen   uint64
	lost   bool
	window *measure.Window
}

// Dial starts a run on agents, each given as host:port: all of them read the spec, look its targets up and
// connect, as client.Start does. Nothing is sent before SetRate or SetConnections. Connections,
// MaxConnections and Warm are those of all agents together, Threads those of each. The spec has to have its
// files read into it.
//
// The error names the agent that refused; none of the others goes on then.
func Dial(ctx context.Context, hosts []string, token string, spec scenario.Spec, o client.Options) (*Fleet,
	error) {
	return dial(ctx, hosts, token, spec, o, patience)
}

// dial is Dial with another patience.
func dial(ctx context.Context, hosts []string, token string, spec scenario.Spec, o client.Options,
	patience time.Duration) (*Fleet, error) {
	if len(hosts) == 0 {
		return nil, errors.New("no agents: name them as --agents host:port,host:port")
	}
	f, transport, err := gathered(ctx, hosts, token, patience)
	if err != nil {
		return nil, err
	}
	if err := f.start(ctx, spec, o); err != nil {
		f.cancel()
		transport.CloseIdleConnections()
		return nil, err
	}
	f.collected = time.Since(f.epoch)
	context.AfterFunc(f.ctx, transport.CloseIdleConnections)
	return f, nil
}

// gathered returns a fleet none of whose members was asked for anything.
func gathered(ctx context.Context, hosts []string, token string, patience time.Duration) (*Fleet,
	*http.Transport, error) {
	// Agents are on the network that is measured: no proxy, and their connections stay open.
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: patience}).DialContext,
		MaxIdleConnsPerHost: 2,
		DisableCompression:  true,
		IdleConnTimeout:     time.Minute,
	}
	f := &Fleet{epoch: time.Now(), rest: measure.NewWindow()}
	there := make(map[string]bool)
	for _, host := range hosts {
		if err := access.CheckAgent(host); err != nil {
			return nil, nil, err
		}
		if there[host] {
			return nil, nil, fmt.Errorf("--agents names %s twice, and an agent makes one run at a time", host)
		}
		there[host] = true
		f.members = append(f.members, &member{host: host, token: token, patience: patience,
			http:   &http.Client{Transport: transport, CheckRedirect: access.NoRedirect},
			window: measure.NewWindow()})
	}
	f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return f, transport, nil
}

// Ask asks each of the agents, given as host:port, whether it is there, is of this version, takes the token
// and is free. The error names one that is not.
func Ask(ctx context.Context, hosts []string, token string) error {
	f, transport, err := gathered(ctx, hosts, token, patience)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	defer f.cancel()
	err = f.each(func(_ int, m *member) error {
		text, err := m.again(ctx, http.MethodGet, "/", nil)
		if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
			err = fmt.Errorf("%w: is weir load agent running there?", err)
		}
		if refused, ok := errors.AsType[*refusal](err); ok && refused.status == http.StatusNotFound {
			return m.names(noAgent(refused.detail))
		}
		if err != nil {
			return m.names(err)
		}
		var is status
		switch err := json.Unmarshal(text, &is); {
		case err != nil || is.Service != service:
			return m.names(noAgent(detailOf(text)))
		case is.Version != version:
			return m.names(fmt.Errorf(
				"it speaks version %d, and this is %d: use the same version of weir everywhere", is.Version,
				version))
		case is.Busy:
			return m.names(errors.New("it makes load for another run, and makes one at a time: wait, end " +
				"that run, or use another agent"))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("--agents: %w", err)
	}
	return nil
}

// noAgent says what there is where an agent was looked for, by what it answers.
func noAgent(answer string) error {
	what := "what answers is no agent: " + answer
	switch answer {
	case server.NothingHere:
		what = "a weir server answers, which makes no load"
	case server.NothingOnAdmin:
		what = "the admin port of a weir server answers, which makes no load"
	}
	return fmt.Errorf("%s; start weir load agent on that machine, and name the port of its --listen, which "+
		"is 8092 unless told otherwise", what)
}

// start orders each agent's part. When one refuses, the others' runs end.
func (f *Fleet) start(ctx context.Context, spec scenario.Spec, o client.Options) error {
	n := len(f.members)
	err := f.each(func(i int, m *member) error {
		part := order{version, spec, o}
		for _, all := range []*int{&part.Connections, &part.MaxConnections, &part.Warm} {
			if *all > 0 { // else the default
				*all = max(client.Share(*all, i, n), 1)
			}
		}
		part.Spec.Part, part.Spec.Parts = i, n
		body, err := json.Marshal(&part)
		if err != nil {
			return fmt.Errorf("BUG: an order that cannot be marshalled: %w", err)
		}
		text, err := m.do(ctx, http.MethodPost, "/runs", body)
		if err != nil {
			return m.names(err) // once the others have begun as well: then their runs can be ended
		}
		var s started
		if err := json.Unmarshal(text, &s); err != nil || s.ID == "" {
			return m.names(noAgent(detailOf(text)))
		}
		m.id = s.ID
		return nil
	})
	if err == nil {
		return nil
	}
	stop, cancelStop := context.WithTimeout(f.ctx, patience)
	defer cancelStop()
	f.each(func(_ int, m *member) error { //nolint:errcheck // what is silent is given up by its agent
		if m.id != "" {
			_, err := m.do(stop, http.MethodDelete, m.path("?seen=0&timeout=0s"), nil)
			return err
		}
		return nil
	})
	return err
}

// each calls do for all members at once and returns the first member's error, if there is any.
func (f *Fleet) each(do func(i int, m *member) error) error {
	errs := make([]error, len(f.members))
	var all sync.WaitGroup
	for i, m := range f.members {
		all.Go(func() { errs[i] = do(i, m) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// SetRate makes all agents together send so many requests a second from now on: each is told the whole
// rate, and sends its part.
func (f *Fleet) SetRate(perSecond float64) error {
	return f.set(func(int) setting { return setting{Rate: &perSecond} })
}

// SetEnd makes the schedules of all agents end so long from now; see client.Engine.
func (f *Fleet) SetEnd(after time.Duration) error {
	nanos := int64(after)
	return f.set(func(int) setting { return setting{EndNanos: &nanos} })
}

// SetConnections makes all agents together use so many connections from now on.
func (f *Fleet) SetConnections(n int) error {
	return f.set(func(i int) setting {
		part := client.Share(n, i, len(f.members))
		return setting{Connections: &part}
	})
}

func (f *Fleet) set(part func(i int) setting) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil // as an engine that is closed
	}
	return f.each(func(i int, m *member) error {
		body, err := json.Marshal(part(i))
		if err != nil {
			return fmt.Errorf("a load that cannot be: %w", err) // NaN or infinite
		}
		if m.lost {
			return m.gone(errors.New("it was lost before"))
		}
		// Setting the same load twice is setting it once.
		_, err = m.again(f.ctx, http.MethodPut, m.path("/load"), body)
		var refused *refusal
		if errors.As(err, &refused) && refused.status == http.StatusUnprocessableEntity {
			return m.names(err)
		}
		return m.fails(err)
	})
}

// Collect adds to w what all agents have measured since the last Collect, and sets its times, by this
// machine's clock, CPU and Busy, Connections and InFlight. An error wraps ErrLost and leaves w as it was:
// what the others have measured comes with the Collect after Close.
func (f *Fleet) Collect(w *measure.Window) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		err := f.each(func(_ int, m *member) error {
			if m.lost {
				return m.gone(errors.New("it was lost before"))
			}
			m.window.Reset()
			text, err := m.again(f.ctx, http.MethodPost, m.path(fmt.Sprintf("/windows?seen=%d", m.seen)), nil)
			if err != nil {
				return m.fails(err)
			}
			return m.fails(m.take(text))
		})
		f.gather()
		if err != nil {
			return err
		}
	}
	now := time.Since(f.epoch)
	f.rest.Start, f.rest.End = f.collected, now
	w.Add(f.rest)
	w.End = now
	w.Connections, w.InFlight = f.rest.Connections, f.rest.InFlight
	f.collected = now
	f.rest.Reset()
	return nil
}

// take reads a window, which it must be the first time that m sees.
func (m *member) take(text []byte) error {
	seq, err := decodeWindow(text, m.window)
	if err != nil {
		m.window.Reset()
		return err
	}
	if seq != m.seen+1 {
		m.window.Reset()
		return fmt.Errorf("it gave window %d after %d", seq, m.seen)
	}
	m.seen = seq
	return nil
}

// gather adds the members' windows to rest.
func (f *Fleet) gather() {
	f.rest.Connections, f.rest.InFlight = 0, 0
	for _, m := range f.members {
		f.rest.Add(m.window)
		f.rest.Connections += m.window.Connections
		f.rest.InFlight += m.window.InFlight
		m.window.Reset()
	}
}

// Close ends the load on all agents, which wait for the answers that are on their way, each no longer than
// the timeout and all no longer than ctx. What they measured until then comes with the next Collect. An
// agent that was lost before is not asked.
func (f *Fleet) Close(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	defer f.cancel()
	timeout := 10 * time.Second
	if end, ok := ctx.Deadline(); ok {
		timeout = max(0, time.Until(end)-time.Until(end)/10) // the answer takes its time as well
	}
	if ctx.Err() != nil { // then they end at once, and what they have is still wanted
		timeout = 0
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(f.ctx, patience)
		defer cancel()
	}
	timeout = min(timeout, maxEnd)
	err := f.each(func(_ int, m *member) error {
		m.window.Reset()
		if m.lost {
			return nil
		}
		query := url.Values{"seen": {fmt.Sprint(m.seen)}, "timeout": {timeout.String()}}
		text, err := m.retry(ctx, http.MethodDelete, m.path("?"+query.Encode()), nil)
		if err != nil {
			return m.fails(err)
		}
		return m.fails(m.take(text))
	})
	f.gather()
	return err
}

func (m *member) path(rest string) string { return "/runs/" + url.PathEscape(m.id) + rest }

func (m *member) names(err error) error { return fmt.Errorf("agent %s: %w", m.host, err) }

// fails makes a member that has an error a lost one.
func (m *member) fails(err error) error {
	if err == nil {
		return nil
	}
	m.lost = true
	return m.gone(err)
}

func (m *member) gone(err error) error {
	return fmt.Errorf("%w: %s: %w", ErrLost, m.host, err)
}

// refusal is a problem that an agent answers with.
type refusal struct {
	status int
	detail string
}

func (r *refusal) Error() string { return r.detail }

// again is retry with an end to the patience.
func (m *member) again(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, m.patience, fmt.Errorf("no answer for %v", m.patience))
	defer cancel()
	return m.retry(ctx, method, path, body)
}

// retry asks once more when no answer came: a request that was answered, and whose answer was lost, gets
// the same one, so nothing is lost and nothing counts twice.
func (m *member) retry(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	text, err := m.do(ctx, method, path, body)
	var refused *refusal
	if err != nil && !errors.As(err, &refused) && ctx.Err() == nil {
		text, err = m.do(ctx, method, path, body)
	}
	return text, err
}

// do makes one request and returns the body of an answer that is none of a refusal.
func (m *member) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+m.host+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if m.token != "" {
		req.Header.Set("Authorization", "Bearer "+m.token)
	}
	resp, err := m.http.Do(req)
	if err != nil {
		return nil, m.plain(ctx, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	switch {
	case err != nil:
		return nil, m.plain(ctx, err)
	case len(text) > maxReply:
		return nil, fmt.Errorf("an answer of more than %d bytes", maxReply)
	case resp.StatusCode >= 300:
		return nil, &refusal{resp.StatusCode, detailOf(text)}
	}
	return text, nil
}

// plain takes the request out of an error's text: there is always the same one.
func (m *member) plain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) &&
		!errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	var whole *url.Error
	if errors.As(err, &whole) {
		err = whole.Err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		strings.Contains(err.Error(), "connection reset") {
		return fmt.Errorf("the connection ended: %w", err)
	}
	return err
}
