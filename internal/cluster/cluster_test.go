package cluster_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/cluster"
	"weir/internal/systest"
)

// set is a durable command.
func set(key string) cluster.Command {
	return cluster.Command{Slot: cluster.Slot(key), Durable: true, Args: []string{"SET", key, "v"}}
}

func TestSlotIsThatOfTheHashTag(t *testing.T) {
	for key, want := range map[string]uint16{"": 0, "123456789": 12739, "foo": 12182, "{foo}.bar": 12182,
		"x{foo}{bar}": 12182, "foo{}": 5542, "{foo": 13308, "foo}{foo}": 12182} {
		if got := cluster.Slot(key); got != want {
			t.Errorf("Slot(%q) is %d, expected %d", key, got, want)
		}
	}
}

func TestADurableCommandIsDoneWhenReplicasHaveIt(t *testing.T) {
	replicas := ":1\r\n"
	f := newFake(t, func(args []string) string {
		if args[0] == "WAIT" {
			return replicas
		}
		return ""
	})
	c := open(t, cluster.Options{Replicas: 1}, f)
	if r, err := c.Do(t.Context(), set("a")); err != nil {
		t.Error(r, err)
	}
	if got := f.commands(); !slices.Equal(got, []string{"SET a v", "WAIT 1 1500"}) {
		t.Errorf("the node got %q", got)
	}
	for _, replicas = range []string{":0\r\n", "-UNBLOCKED the primary is a replica now\r\n", "+OK\r\n"} {
		if r, err := c.Do(t.Context(), set("a")); !errors.Is(err, cluster.ErrUnreplicated) {
			t.Errorf("after %q: %v, %v", replicas, r, err)
		}
		read := cluster.Command{Slot: cluster.Slot("a"), Args: []string{"GET", "a"}}
		if _, err := c.Do(t.Context(), read); err != nil {
			t.Errorf("a command that need not be durable: %v", err)
		}
	}
}

func TestWithoutReplicasNobodyWaits(t *testing.T) {
	f := newFake(t, nil)
	c := open(t, cluster.Options{}, f)
	if _, err := c.Do(t.Context(), set("a")); err != nil {
		t.Fatal(err)
	}
	if got := f.commands(); !slices.Equal(got, []string{"SET a v"}) {
		t.Errorf("the node got %q", got)
	}
}

func TestWhatIsQueuedGoesOutInOneBatchWithOneWait(t *testing.T) {
	first, release := make(chan bool), make(chan bool)
	f := newFake(t, func(args []string) string {
		if args[0] == "SET" && args[1] == "first" {
			close(first)
			<-release
		}
		return ""
	})
	c := open(t, cluster.Options{Replicas: 1}, f)
	var wg sync.WaitGroup
	submit := func(key string) {
		wg.Add(1)
		c.Submit(t.Context(), set(key), func(_ cluster.Reply, err error) {
			if err != nil {
				t.Error(err)
			}
			wg.Done()
		})
	}
	submit("first")
	<-first
	want := []string{"SET first v", "WAIT 1 1500"}
	for _, key := range strings.Split("abcdefgh", "") {
		submit(key)
		want = append(want, "SET "+key+" v")
	}
	close(release)
	wg.Wait()
	if got := f.commands(); !slices.Equal(got, append(want, "WAIT 1 1500")) {
		t.Errorf("the node got %q", got)
	}
	if s := c.Stats(); s.Batches != 2 || s.Commands != 9 {
		t.Errorf("%d commands in %d batches", s.Commands, s.Batches)
	}
}

func TestErrorsSayWhatHasBecomeOfACommand(t *testing.T) {
	var mu sync.Mutex
	var answer string
	f := newFake(t, func(args []string) string {
		mu.Lock()
		defer mu.Unlock()
		if args[0] == "SET" {
			return answer
		}
		return ""
	})
	c := open(t, cluster.Options{Replicas: 1, Timeout: time.Minute}, f)
	for _, test := range []struct {
		answer string
		is     error
	}{
		{"-CLUSTERDOWN The cluster is down\r\n", cluster.ErrUnavailable},
		{"-LOADING Redis is loading the dataset in memory\r\n", cluster.ErrUnavailable},
		{"-READONLY You can't write against a read only replica.\r\n", cluster.ErrUnavailable},
		{"-NOREPLICAS Not enough good replicas to write.\r\n", cluster.ErrUnavailable},
		{"-MASTERDOWN Link with MASTER is down\r\n", cluster.ErrUnavailable},
		{"-OOM command not allowed when used memory > 'maxmemory'.\r\n", cluster.ErrUnavailable},
		{"-TRYAGAIN Multiple keys request during rehashing of slot\r\n", cluster.ErrUnavailable},
		{"-OOM command not allowed. script: f, on @user_function:3.\r\n",
			cluster.Error("OOM command not allowed. script: f, on @user_function:3.")},
		{"-ERR wrong number of arguments\r\n", cluster.Error("ERR wrong number of arguments")},
		{hangUp, cluster.ErrUnknown},
		{"$-7\r\n", cluster.ErrUnknown},
		{"%1\r\n", cluster.ErrUnknown},
	} {
		mu.Lock()
		answer = test.answer
		mu.Unlock()
		if r, err := c.Do(t.Context(), set("a")); !errors.Is(err, test.is) {
			t.Errorf("after %q: %v, %v", test.answer, r, err)
		}
		mu.Lock()
		answer = ""
		mu.Unlock()
		if r, err := c.Do(t.Context(), set("a")); err != nil {
			t.Errorf("the command after %q: %v, %v", test.answer, r, err)
		}
	}
	s := c.Stats()
	if s.Unavailable != 7 || s.Unknown != 3 || s.Errors != 2 {
		t.Errorf("%d unavailable, %d unknown, %d errors", s.Unavailable, s.Unknown, s.Errors)
	}
}

func TestAStalledShardLetsNobodyWait(t *testing.T) {
	sent := make(chan bool)
	f := newFake(t, func(args []string) string {
		if args[0] == "SET" && args[1] == "a" {
			close(sent)
			return silent
		}
		return ""
	})
	c := open(t, cluster.Options{Replicas: 1, Timeout: time.Second}, f)
	results := make(chan error, 2)
	c.Submit(t.Context(), set("a"), func(_ cluster.Reply, err error) { results <- err })
	<-sent
	c.Submit(t.Context(), set("queued"), func(_ cluster.Reply, err error) { results <- err })
	if err := <-results; !errors.Is(err, cluster.ErrUnknown) {
		t.Errorf("the command that was sent: %v", err)
	}
	if err := <-results; err != nil && !errors.Is(err, cluster.ErrUnavailable) {
		t.Errorf("the one that was queued meanwhile: %v", err)
	}
}

func TestACommandFollowsItsSlot(t *testing.T) {
	to := newFake(t, nil)
	from := newFake(t, func(args []string) string {
		if args[0] == "SET" {
			return "-MOVED 15495 " + to.addr() + "\r\n"
		}
		return ""
	})
	c := open(t, cluster.Options{}, from)
	from.has(0, 16383, to, 2)
	to.has(0, 16383, to, 2)
	if _, err := c.Do(t.Context(), set("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(t.Context(), set("b{a}")); err != nil {
		t.Fatal(err)
	}
	if got := to.commands(); !slices.Equal(got, []string{"SET a v", "SET b{a} v"}) {
		t.Errorf("the new primary got %q", got)
	}
	if got := from.commands(); !slices.Equal(got, []string{"SET a v"}) {
		t.Errorf("the former one got %q", got)
	}
}

func TestACommandAsksTheNodeThatASlotMovesTo(t *testing.T) {
	to := newFake(t, nil)
	from := newFake(t, func(args []string) string {
		if args[0] == "SET" {
			return "-ASK 15495 " + to.addr() + "\r\n"
		}
		return ""
	})
	c := open(t, cluster.Options{Replicas: 1}, from)
	for range 2 { // the slot has not moved yet
		if _, err := c.Do(t.Context(), set("a")); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"ASKING", "SET a v", "WAIT 1 1500"}
	if got := to.commands(); !slices.Equal(got, append(want, want...)) {
		t.Errorf("the new primary got %q", got)
	}
}

func TestRedirectionsInACircleEnd(t *testing.T) {
	var f *fake
	f = newFake(t, func(args []string) string {
		if args[0] == "SET" {
			return "-MOVED 15495 " + f.addr() + "\r\n"
		}
		return ""
	})
	c := open(t, cluster.Options{}, f)
	if _, err := c.Do(t.Context(), set("a")); !errors.Is(err, cluster.ErrUnavailable) {
		t.Error(err)
	}
}

func TestTheNewestClaimToASlotCounts(t *testing.T) {
	old, newer := newFake(t, nil), newFake(t, nil)
	newer.has(0, 16383, newer, 2)
	for range 10 { // whoever answers first
		c := open(t, cluster.Options{}, old, newer)
		if got := c.Primary(7); got != newer.addr() {
			t.Fatalf("slot 7 is at %s", got)
		}
		c.Close()
	}
}

func TestASlotWithoutAPrimaryIsUnavailable(t *testing.T) {
	f := newFake(t, nil)
	f.has(0, 100, f, 1)
	c := open(t, cluster.Options{}, f)
	if _, err := c.Do(t.Context(), set("a")); !errors.Is(err, cluster.ErrUnavailable) {
		t.Error(err)
	}
	if _, err := c.Read(t.Context(), 15495, "GET", "a"); !errors.Is(err, cluster.ErrUnavailable) {
		t.Error(err)
	}
}

func TestWhoHasGoneIsNotSentFor(t *testing.T) {
	first, release := make(chan bool), make(chan bool)
	f := newFake(t, func(args []string) string {
		if args[0] == "SET" && args[1] == "first" {
			close(first)
			<-release
		}
		return ""
	})
	c := open(t, cluster.Options{Replicas: 1}, f)
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error, 5)
	submit := func(ctx context.Context, key string) {
		c.Submit(ctx, set(key), func(_ cluster.Reply, err error) { results <- err })
	}
	submit(t.Context(), "first")
	<-first
	submit(ctx, "gone")
	submit(t.Context(), "here")
	submit(ctx, "gone")
	submit(t.Context(), "too")
	cancel()
	close(release)
	var gone int
	for range 5 {
		if err := <-results; errors.Is(err, context.Canceled) && errors.Is(err, cluster.ErrUnavailable) {
			gone++
		} else if err != nil {
			t.Error(err)
		}
	}
	want := []string{"SET first v", "WAIT 1 1500", "SET here v", "SET too v", "WAIT 1 1500"}
	if got := f.commands(); gone != 2 || !slices.Equal(got, want) {
		t.Errorf("%d have gone, and the node got %q", gone, got)
	}
}

func TestASlowShardFailsCommandsBeforeItsQueueIsEndless(t *testing.T) {
	first, release := make(chan bool), make(chan bool)
	var once sync.Once
	f := newFake(t, func(args []string) string {
		if args[0] == "SET" {
			once.Do(func() { close(first) })
			<-release
		}
		return ""
	})
	c := open(t, cluster.Options{Timeout: time.Minute}, f)
	var wg sync.WaitGroup
	var mu sync.Mutex
	failed := 0
	submit := func() {
		wg.Add(1)
		c.Submit(t.Context(), set("a"), func(_ cluster.Reply, err error) {
			mu.Lock()
			defer mu.Unlock()
			defer wg.Done()
			if err != nil && !errors.Is(err, cluster.ErrUnavailable) {
				t.Error(err)
			} else if err != nil {
				failed++
			}
		})
	}
	submit()
	<-first
	const queued = 20_000
	for range queued {
		submit()
	}
	mu.Lock()
	if failed == 0 || failed == queued {
		t.Errorf("%d of %d have failed", failed, queued)
	}
	mu.Unlock()
	close(release)
	wg.Wait()
}

func TestCloseWaitsForWhatIsQueued(t *testing.T) {
	first, release := make(chan bool), make(chan bool)
	f := newFake(t, func(args []string) string {
		if args[0] == "SET" && args[1] == "first" {
			close(first)
			<-release
		}
		return ""
	})
	c := open(t, cluster.Options{}, f)
	results := make(chan error, 2)
	submit := func(key string) {
		c.Submit(t.Context(), set(key), func(_ cluster.Reply, err error) { results <- err })
	}
	submit("first")
	<-first
	submit("second")
	closed := make(chan error)
	go func() { closed <- c.Close() }()
	for !errors.Is(answerOf(c), cluster.ErrUnavailable) { // Close has yet to begin
	}
	select {
	case err := <-results:
		t.Errorf("before there was an answer: %v", err)
	default:
	}
	close(release)
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// answerOf returns the error of a command that fails at once, or nil for one that is queued.
func answerOf(c *cluster.Client) error {
	var mu sync.Mutex
	var failed error
	c.Submit(context.Background(), set("more"), func(_ cluster.Reply, err error) {
		mu.Lock()
		failed = err
		mu.Unlock()
	})
	mu.Lock()
	defer mu.Unlock()
	return failed
}

func TestDataThatWasReplacedIsNotTouched(t *testing.T) {
	var mu sync.Mutex
	meta := `{"buckets":10,"seed":4}`
	f := newFake(t, func(args []string) string {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case args[0] != "GET":
			return ""
		case strings.HasSuffix(args[1], "{version}"):
			return bulk(strconv.Itoa(cluster.FormatVersion))
		case meta == "":
			return "$-1\r\n"
		}
		return bulk(meta)
	})
	for _, other := range []string{"", `{"buckets":10,"seed":5}`} {
		c := open(t, cluster.Options{}, f)
		if _, err := c.Format(t.Context(), cluster.Format{Buckets: 10}); err != nil {
			t.Fatal(err)
		}
		cluster.CheckFormat(c, t.Context())
		if _, err := c.Do(t.Context(), set("a")); err != nil {
			t.Errorf("with the same data: %v", err)
		}
		mu.Lock()
		was := meta
		meta = other
		mu.Unlock()
		cluster.CheckFormat(c, t.Context())
		_, err := c.Do(t.Context(), set("a"))
		if !errors.Is(err, cluster.ErrUnavailable) || !errors.Is(err, cluster.ErrFormat) {
			t.Errorf("with %q: %v", other, err)
		}
		mu.Lock()
		meta = was
		mu.Unlock()
	}
}

func TestNothingIsLeftRunningAfterClose(t *testing.T) {
	before := runtime.NumGoroutine()
	f := newFake(t, nil)
	c := open(t, cluster.Options{}, f)
	if _, err := c.Do(t.Context(), set("a")); err != nil {
		t.Error(err)
	}
	if _, err := c.Read(t.Context(), 1, "GET", "b"); err != nil {
		t.Error(err)
	}
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Error(err)
	}
	if _, err := c.Do(t.Context(), set("a")); !errors.Is(err, cluster.ErrUnavailable) {
		t.Errorf("a command after Close: %v", err)
	}
	// What accepts for the fake goes on, and nothing for each connection.
	systest.Eventually(t, "goroutines to end", func() bool { return runtime.NumGoroutine() <= before+1 })
}

func TestAPasswordIsSentFirst(t *testing.T) {
	f := newFake(t, func(args []string) string {
		if args[0] == "AUTH" && args[len(args)-1] != "right" {
			return "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
		}
		return ""
	})
	c := open(t, cluster.Options{Password: "right"}, f)
	if _, err := c.Do(t.Context(), set("a")); err != nil {
		t.Error(err)
	}
	f.mu.Lock()
	got := slices.Clone(f.got[0])
	f.mu.Unlock()
	if !slices.Equal(got, []string{"AUTH", "default", "right"}) {
		t.Errorf("the first command was %q", got)
	}
	_, err := cluster.Open(t.Context(), cluster.Options{Addrs: []string{f.addr()}, Password: "wrong"})
	if err == nil || !strings.Contains(err.Error(), "WRONGPASS") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("with another password: %v", err)
	}
}

func TestTLSVerifiesTheNode(t *testing.T) {
	s := httptest.NewUnstartedServer(nil) // has a certificate for 127.0.0.1
	s.StartTLS()
	defer s.Close()
	f := serveFake(t, tlsListener(t, &tls.Config{Certificates: s.TLS.Certificates}), nil)
	trusted := x509.NewCertPool()
	trusted.AddCert(s.Certificate())
	c := open(t, cluster.Options{TLS: &tls.Config{RootCAs: trusted}}, f)
	if _, err := c.Do(t.Context(), set("a")); err != nil {
		t.Error(err)
	}
	_, err := cluster.Open(t.Context(), cluster.Options{Addrs: []string{f.addr()}, TLS: new(tls.Config)})
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without trust: %v", err)
	}
}

func TestURLs(t *testing.T) {
	for text, want := range map[string]string{
		"valkey://a:1":             "a:1",
		"valkey://a:1,b:2/":        "a:1 b:2",
		"valkey://a,[::1],[::1]:7": "a:6379 [::1]:6379 [::1]:7",
		"valkey://me@a:1":          "me a:1",
		"valkeys://m%40e@a:1":      "tls m@e a:1",
	} {
		o, err := cluster.ParseURL(text)
		got := strings.Join(o.Addrs, " ")
		if o.User != "" {
			got = o.User + " " + got
		}
		if o.TLS != nil {
			got = "tls " + got
		}
		if err != nil || got != want {
			t.Errorf("%s is %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "a:1", "redis://a:1", "valkey://", "valkey://a:b", "valkey://a:0",
		"valkey://a:1,,b:2", "valkey://a:1/0", "valkey://@a:1", "valkey://::1", "valkey://a:65536"} {
		if o, err := cluster.ParseURL(text); err == nil {
			t.Errorf("%s is %+v", text, o)
		}
	}
	for _, text := range []string{"valkey://me:secret@a:1", "valkeys://:secret@a:1"} {
		_, err := cluster.ParseURL(text)
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "file") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
