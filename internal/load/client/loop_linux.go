package client

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// hasLoops says whether there are event loops on this system.
const hasLoops = true

// loop is one thread of the engine: it sends requests when they are due and takes in the answers. All its
// fields but the mailbox belong to that thread.
type loop struct {
	o        *Options
	epoch    time.Time
	source   Source
	listener Listener // the source, if it is one
	targets  []*target
	epoll    int
	wakeFD   int

	conns   []*conn // by slot
	retired []*conn // closed ones, to be used again
	open    int
	most    int // connections
	flying  list
	awaited int               // answers, besides those of the first request of each in flight
	again   []unix.EpollEvent // connections that had more to read
	taken   []unix.EpollEvent

	schedule *schedule // of the open model
	held     held
	// Of the closed model: how many requests should be in flight, how many are not since the target failed,
	// and when those go on.
	wanted, parked int
	resume         int64

	now   int64 // nanoseconds since epoch
	woken int64 // when the events at hand were seen
	// looked is when they had not been there yet: what came since may have waited for this thread, and not
	// for the target.
	looked int64
	wire   []byte
	batch  []pending // of the request in wire and the pipelined ones behind it, the latter
	read   []byte
	heads  headCache

	win      *sheet
	swapped  int64 // when
	cpu      time.Duration
	spun     int64 // nanoseconds since then that were spent waiting
	spare    spare
	stopping bool
	killed   bool

	warming int // connections that Start waits for
	warmErr error
	warm    chan error

	sleeping atomic.Bool // set around a wait that only an event or wakeFD ends
	mail     atomic.Bool // inbox is not empty
	inbox    struct {
		sync.Mutex
		messages []func() // run on the loop's thread
		ended    bool
	}
	took []func()
	gone chan struct{}
	// noPwait2 says that the system knows no epoll_pwait2: waits are in milliseconds, and the rest is spun.
	noPwait2 bool
}

// target is what a loop knows of one of the targets.
type target struct {
	addr netip.AddrPort
	idle list
	// While the target refuses connections, one at a time is tried, ever more rarely.
	refusals int
	retryAt  int64
	probing  bool
	// cuts counts the connections in a row on which no answer came.
	cuts int
}

func (t *target) refusedAt(now int64) {
	t.refusals++
	t.retryAt = now + pause(t.refusals)
	t.probing = false
}

func (t *target) reached() { t.refusals, t.probing = 0, false }

// newLoops starts the threads and returns once all the connections to begin with are made.
func newLoops(ctx context.Context, o *Options, epoch time.Time, sources []Source) (workers []worker,
	err error) {
	var loops []*loop
	for i, source := range sources {
		l, err := newLoop(o, epoch, source, i, len(sources))
		if err != nil {
			for _, l := range loops {
				l.release()
			}
			return nil, err
		}
		loops = append(loops, l)
		workers = append(workers, l)
	}
	for _, l := range loops {
		go l.run()
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	var bad error
	for _, l := range loops {
		select {
		case err = <-l.warm:
		case <-ctx.Done():
			err = fmt.Errorf("connect to %s: %w", o.Targets[0].URL, ctx.Err())
		}
		bad = cmp.Or(bad, err) // all say the same
	}
	if bad != nil {
		for _, l := range loops {
			l.kill()
			<-l.gone
		}
		return nil, bad
	}
	return workers, nil
}

func newLoop(o *Options, epoch time.Time, source Source, thread, threads int) (*loop, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: -1}
		if err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, wake, &event); err != nil {
			unix.Close(wake)
		}
	}
	if err != nil {
		unix.Close(epoll)
		return nil, fmt.Errorf("epoll: %w", err)
	}
	l := &loop{
		o: o, epoch: epoch, source: source, epoll: epoll, wakeFD: wake,
		most:     Share(o.MaxConnections, thread, threads),
		schedule: newSchedule(o, thread, threads),
		resume:   never,
		spare:    spare{fd: -1},
		read:     make([]byte, readSize),
		win:      new(sheet),
		warming:  Share(o.Warm, thread, threads),
		warm:     make(chan error, 1),
		gone:     make(chan struct{}),
	}
	l.listener, _ = source.(Listener)
	for _, t := range o.Targets {
		l.targets = append(l.targets, &target{addr: t.Addr})
	}
	return l, nil
}

func (l *loop) setRate(c change)      { l.post(func() { l.schedule.set(c) }) }
func (l *loop) setEnd(at int64)       { l.post(func() { l.schedule.until(at) }) }
func (l *loop) setConnections(n int)  { l.post(func() { l.want(n) }) }
func (l *loop) stop()                 { l.post(l.halt) }
func (l *loop) kill()                 { l.post(func() { l.halt(); l.killed = true }) }
func (l *loop) done() <-chan struct{} { return l.gone }

func (l *loop) swap(next *sheet) *sheet {
	full := make(chan *sheet, 1)
	if l.post(func() { full <- l.swapNow(next) }) {
		return <-full
	}
	<-l.gone
	got := l.win
	l.win = next
	return got
}

// post has the loop run m; false means that it has ended.
func (l *loop) post(m func()) bool {
	l.inbox.Lock()
	defer l.inbox.Unlock()
	if l.inbox.ended {
		return false
	}
	l.inbox.messages = append(l.inbox.messages, m)
	l.mail.Store(true)
	if l.sleeping.CompareAndSwap(true, false) {
		one := [8]byte{1}
		unix.Write(l.wakeFD, one[:]) //nolint:errcheck // a full counter wakes as well
	}
	return true
}

const (
	maxEvents = 128
	// maxSends is how many requests are sent before answers are looked at again.
	maxSends = 16
)

// run is the loop's thread.
func (l *loop) run() {
	lockedThread()
	defer close(l.gone)
	l.spare.fd = openRunDelay()
	events := make([]unix.EpollEvent, maxEvents)
	l.connectAll()
	for {
		if l.mail.Load() {
			l.readInbox()
		}
		l.clock()
		l.expire()
		l.send()
		if l.stopping && (l.flying.size == 0 || l.killed) && l.release() {
			return
		}
		l.looked = l.woken
		n := l.wait(events)
		l.clock()
		l.woken = l.now
		for i := range events[:n] {
			l.dispatch(&events[i])
		}
		if len(l.again) > 0 {
			l.taken, l.again = l.again, l.taken[:0]
			for i := range l.taken {
				l.dispatch(&l.taken[i])
			}
		}
	}
}

func (l *loop) clock() { l.now = int64(time.Since(l.epoch)) }

// wait returns the number of events that are there, once there are some or something is due.
func (l *loop) wait(events []unix.EpollEvent) int {
	due := l.next()
	if due <= l.now || len(l.again) > 0 {
		return poll(l.epoll, events)
	}
	early := int64(0)
	if !l.o.Closed && l.spare.there(l.now) {
		n, over := l.spin(events, due)
		if over {
			return n
		}
		early = wakesIn
	}
	return l.sleep(events, due, early)
}

const (
	// spinFor is how long after the last event the open model asks for the next one over and over, and
	// wakesIn how much earlier than something is due it wakes up and begins to. To sleep and be woken costs
	// 10 us of both the sleeper and whoever wakes it, and takes 30 to 50 us, on a virtual machine.
	spinFor = int64(50 * time.Microsecond)
	wakesIn = int64(50 * time.Microsecond)
)

// spin asks for events until there are some, or something is due or in the mail; else, when it would take
// long, it is not over.
func (l *loop) spin(events []unix.EpollEvent, due int64) (n int, over bool) {
	began := l.now
	for n == 0 && !over {
		now := l.now
		n = poll(l.epoll, events)
		l.clock()
		if n > 0 {
			l.spun += now - began
			return n, true
		}
		l.looked = now
		over = l.now >= due || l.mail.Load()
		if l.now-began > spinFor && due-l.now > wakesIn {
			break
		}
	}
	l.spun += l.now - began
	return n, over
}

// spare watches whether there is a processor to spare for spinning, which there is not when others make the
// thread wait for its own.
type spare struct {
	fd     int // of the thread's waiting time
	buf    [64]byte
	asked  int64
	waited int64
	no     int64 // until when there is none
}

const (
	askSpare  = int64(100 * time.Millisecond)
	noSpare   = int64(time.Second)
	spareWait = 20 // percent of the time
)

func (s *spare) there(now int64) bool {
	if since := now - s.asked; since >= askSpare {
		waited, ok := runDelay(s.fd, s.buf[:])
		if !ok || s.asked > 0 && (waited-s.waited)*100 > since*spareWait {
			s.no = now + noSpare
		}
		s.asked, s.waited = now, waited
	}
	return now >= s.no
}

// sleep waits for events until early before something is due.
func (l *loop) sleep(events []unix.EpollEvent, due, early int64) (n int) {
	left := due - l.now
	if left < never/2 { // else nothing is due
		if left -= early; left <= 0 {
			return poll(l.epoll, events)
		}
	}
	if l.noPwait2 {
		return l.sleepMillis(events, left)
	}
	var errno unix.Errno
	l.sleeping.Store(true)
	if l.mail.Load() {
		left = 0
	}
	if n, errno = doze(l.epoll, events, min(left, maxDoze)); n == 0 && errno == 0 && left > maxDoze {
		if left < never/2 {
			left -= maxDoze
		} else {
			left = never
		}
		n, errno = sleep(l.epoll, events, left)
	}
	l.sleeping.Store(false)
	if began := l.now; n > 0 {
		if l.clock(); l.now-began > atOnce {
			l.looked = l.now // what ended the wait came then
		}
	}
	switch errno {
	case 0, unix.EINTR:
	case unix.ENOSYS, unix.EPERM:
		l.noPwait2 = true
	default:
		panic("BUG: epoll_pwait2: " + errno.Error())
	}
	return n
}

// atOnce is how long a wait may take for events that are there already.
const atOnce = int64(5 * time.Microsecond)

// maxDoze is how long a wait is made without the scheduler's knowledge before one with it: under load the
// next event comes within it.
const maxDoze = int64(50 * time.Microsecond)

// sleepMillis is sleep by a system call that knows milliseconds only.
func (l *loop) sleepMillis(events []unix.EpollEvent, left int64) int {
	ms := left / int64(time.Millisecond)
	if ms == 0 {
		return poll(l.epoll, events)
	}
	l.sleeping.Store(true)
	if l.mail.Load() {
		ms = 0
	}
	n, err := unix.EpollWait(l.epoll, events, int(min(ms, 1000)))
	l.sleeping.Store(false)
	if err != nil && err != unix.EINTR {
		panic("BUG: epoll_wait: " + err.Error())
	}
	return max(n, 0)
}

// next returns when something is due: a request, the end of a timeout, or of a pause.
func (l *loop) next() int64 {
	if l.held.is {
		return l.now
	}
	at := int64(never)
	if !l.stopping {
		at = min(l.schedule.at, l.resume)
	}
	if c := l.flying.front; c != nil {
		at = min(at, c.since+int64(l.o.Timeout))
	}
	return at
}

func (l *loop) readInbox() {
	l.inbox.Lock()
	l.took, l.inbox.messages = l.inbox.messages, l.took[:0]
	l.mail.Store(false)
	l.inbox.Unlock()
	for _, m := range l.took {
		m()
	}
	clear(l.took)
}

func (l *loop) halt() {
	if l.stopping {
		return
	}
	l.clock()
	l.miss()
	l.stopping = true
}

// swapNow is swap on the loop's own thread.
func (l *loop) swapNow(next *sheet) *sheet {
	full := l.win
	full.Connections, full.InFlight = l.open, l.flying.size+l.awaited
	l.clock()
	cpu := threadCPU()
	if took := l.now - l.swapped; took > 0 {
		full.Busy = min(max(float64(int64(cpu-l.cpu)-l.spun)/float64(took), 0), 1)
	}
	l.swapped, l.cpu, l.spun = l.now, cpu, 0
	l.win = next
	return full
}

// release frees what the loop holds from the kernel. It is refused, and returns false, when a message has
// come in meanwhile.
func (l *loop) release() bool {
	l.inbox.Lock()
	defer l.inbox.Unlock()
	if len(l.inbox.messages) > 0 {
		return false
	}
	l.inbox.ended = true
	l.swapNow(l.win) // for Busy
	for _, c := range l.conns {
		if c.state != closed {
			unix.Close(c.fd)
		}
	}
	l.win.Connections, l.win.InFlight = 0, 0
	unix.Close(l.epoll)
	unix.Close(l.wakeFD)
	if l.spare.fd >= 0 {
		unix.Close(l.spare.fd)
	}
	return true
}
