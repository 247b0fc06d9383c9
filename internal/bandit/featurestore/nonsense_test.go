package featurestore

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/systest"
)

// oneArm asks for one item and returns the error, and which kind of error was counted.
func oneArm(t *testing.T, s *Store) (kind string, err error) {
	t.Helper()
	_, err = s.Arms(context.Background(), []string{"1"}, make([]Arm, 1))
	for k, c := range s.metrics.errors {
		if c.Value() > 0 {
			kind += faultKind(k).String()
		}
	}
	return kind, err
}

func TestFeatureServerThatMakesNoSense(t *testing.T) {
	say := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }
	}
	columns := func(names, results string) http.HandlerFunc {
		return say(`{"metadata":{"feature_names":` + names + `},"results":` + results + `}`)
	}
	const three = `["item_id","alpha","beta"]`
	for name, test := range map[string]struct {
		do         http.HandlerFunc
		kind, want string
	}{
		"nothing":      {say(""), "answer", "wrong"},
		"no JSON":      {say("<html>"), "answer", "invalid character"},
		"another type": {say(`{"results":7}`), "answer", "cannot unmarshal"},
		"cut off":      {say(feastSaid[:200]), "answer", "unexpected end"},
		"by rows": {columns(three, `[{"values":[1,2,3]}]`), "answer",
			"3 features and has 1 columns"},
		"a feature is missing": {columns(`["item_id","alpha"]`, `[{"values":[1]},{"values":[2]}]`),
			"answer", "beta"},
		"too few values": {columns(three, `[{"values":[1]},{"values":[2]},{"values":[]}]`), "answer",
			"0 values"},
		"too many values": {columns(three, `[{"values":[1]},{"values":[2,3]},{"values":[4]}]`), "answer",
			"2 values"},
		"too few statuses": {columns(three,
			`[{"values":[1]},{"values":[2],"statuses":["PRESENT","PRESENT"]},{"values":[4]}]`), "answer",
			"2 statuses"},
		"deep": {say(strings.Repeat("[", 100_000)), "answer", "depth"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			spaces := strings.Repeat(" ", 1<<16)
			for {
				if _, err := io.WriteString(w, spaces); err != nil {
					return
				}
			}
		}, "answer", "longer than"},
		"redirected": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://s3cret.example/", http.StatusFound)
		}, "refused", "302"},
		"no token": {func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer s3cret" {
				t.Errorf("authorization %q", r.Header.Get("Authorization"))
			}
			http.Error(w, "go\naway\x00", http.StatusUnauthorized)
		}, "refused", "401 Unauthorized: go away (credentials go into the URL"},
		"a long error": {func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, strings.Repeat("ä", 1<<20), http.StatusServiceUnavailable)
		}, "refused", "503"},
		"cut connection": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "{")
		}, "unreachable", "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(test.do)
			defer server.Close()
			s := openStore(t, "feast+http://:s3cret@"+strings.TrimPrefix(server.URL, "http://"),
				func(o *Options) { o.IDType = "int64" })
			kind, err := oneArm(t, s)
			if err == nil || !strings.Contains(err.Error(), test.want) || kind != test.kind {
				t.Fatalf("error %v of kind %s, expected %s in one of kind %s", err, kind, test.want,
					test.kind)
			}
			if strings.Contains(err.Error(), "s3cret") || len(err.Error()) > 1000 {
				t.Errorf("%d bytes of error, or the token is in it: %v", len(err.Error()), err)
			}
		})
	}
}

func TestFeatureServerThatHangsIsGivenUp(t *testing.T) {
	gone := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "{")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	}))
	defer server.Close()
	s := openStore(t, "feast+"+server.URL, func(o *Options) { o.IDType = "int64" })
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan error)
	go func() {
		_, err := s.Arms(ctx, []string{"1"}, make([]Arm, 1))
		asked <- err
	}()
	systest.Eventually(t, "the server is asked", func() bool { return s.fetches.Running() == 1 })
	cancel()
	if err := <-asked; err != context.Canceled {
		t.Errorf("error %v", err)
	}
	systest.Eventually(t, "the fetch ends", func() bool { return s.fetches.Running() == 0 })
	select {
	case <-gone: // the server was told, if it ever heard of it
	case <-time.After(100 * time.Millisecond):
	}
}

// fakeRedis answers HMGET with what a test says, and all else as far as clients need it to begin.
func fakeRedis(t *testing.T, hmget string) string {
	t.Helper()
	return fakeRedisWith(t, map[string]string{"HMGET": hmget})
}

// fakeRedisWith answers those commands with what a test says.
func fakeRedisWith(t *testing.T, answers map[string]string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					args, err := redisCommand(r)
					if err != nil {
						return
					}
					answer := "+OK\r\n"
					switch args[0] {
					case "HELLO":
						answer = "-ERR unknown command 'HELLO'\r\n"
					case "CLUSTER":
						answer = "-ERR This instance has cluster support disabled\r\n"
					case "PING":
						answer = "+PONG\r\n"
					case "HKEYS":
						answer = "*0\r\n"
					}
					if said, ok := answers[args[0]]; ok {
						answer = said
					}
					if _, err := io.WriteString(c, answer); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); conns.Wait() })
	return l.Addr().String()
}

// redisCommand reads an array of strings.
func redisCommand(r *bufio.Reader) ([]string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.Trim(line, "*\r\n"))
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		if line, err = r.ReadString('\n'); err != nil {
			return nil, err
		}
		size, err := strconv.Atoi(strings.Trim(line, "$\r\n"))
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:size])
	}
	return args, nil
}

func TestRedisThatMakesNoSense(t *testing.T) {
	for name, test := range map[string]struct{ hmget, kind, want string }{
		"no array":           {"+OK\r\n", "answer", ""},
		"a number":           {":7\r\n", "answer", ""},
		"an empty array":     {"*0\r\n", "answer", "0 values to an HMGET of 2 fields"},
		"a short array":      {"*1\r\n$-1\r\n", "answer", "1 values to an HMGET of 2 fields"},
		"a long array":       {"*3\r\n$-1\r\n$-1\r\n$-1\r\n", "answer", "3 values"},
		"numbers in it":      {"*2\r\n:1\r\n:2\r\n", "answer", ""},
		"errors in it":       {"*2\r\n-ERR a\r\n-ERR b\r\n", "answer", ""},
		"a null for it":      {"*-1\r\n", "answer", ""},
		"a huge value":       {"*2\r\n$999999999999999\r\nx", "answer", "a string of more than"},
		"a huge array":       {"*999999999999999\r\n", "answer", "an array"},
		"an array of -5":     {"*-5\r\n", "answer", "-5"},
		"a string of -7":     {"$-7\r\n", "answer", "-7"},
		"a map of -3":        {"%-3\r\n", "answer", "-3"},
		"a map of -1":        {"%-1\r\n", "answer", "-1"},
		"-0":                 {"*-0\r\n", "answer", "-0"},
		"arrays without end": {strings.Repeat("*1\r\n", 1<<20), "answer", "arrays in more than"},
		"many big arrays":    {strings.Repeat("*60000\r\n", 4), "answer", "more than 65536"},
		"a streamed array":   {"*?\r\n", "answer", ""},
		"a push":             {">3\r\n+message\r\n+a\r\n+b\r\n", "answer", ""},
		"attributes":         {strings.Repeat("|1\r\n", 100), "answer", ""},
		"a short line":       {"*12\n", "answer", "CRLF"},
		"a null with more":   {"_ab\r\n", "answer", ""},
		"WRONGTYPE": {"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
			"refused", "not Feast's"},
		"NOPERM":             {"-NOPERM this user has no permissions\r\n", "refused", "needs HMGET"},
		"no protocol at all": {"HTTP/1.1 400 Bad Request\r\n\r\n", "answer", ""},
	} {
		t.Run(name, func(t *testing.T) {
			addr := fakeRedis(t, test.hmget)
			s := openStore(t, "feast+redis://"+addr+"/p", func(o *Options) { o.IDType = "int64" })
			kind, err := oneArm(t, s)
			if err == nil || !strings.Contains(err.Error(), test.want) || kind != test.kind ||
				!strings.Contains(err.Error(), addr) {
				t.Errorf("error %v of kind %s, expected %s in one of kind %s", err, kind, test.want,
					test.kind)
			}
		})
	}
}

// An answer to nothing ends its connection, and the next call makes another.
func TestRedisThatAnswersTwice(t *testing.T) {
	const answer = "*2\r\n$-1\r\n$-1\r\n"
	s := openStore(t, "feast+redis://"+fakeRedis(t, answer+answer)+"/p",
		func(o *Options) { o.IDType, o.TTL, o.Stale = "int64", 0, 0 })
	for range 20 {
		oneArm(t, s) // some of them fail
	}
}

// Whatever Redis sends to any command, the call it is an answer to ends. A panic of the client ends the
// process.
func FuzzRedis(f *testing.F) {
	for _, seed := range []string{"*-5\r\n", "$-7\r\n", "%-3\r\n", "*1\r\n*1\r\n*1\r\n",
		"*2\r\n$1\r\n1\r\n$-1\r\n", ">2\r\n+subscribe\r\n+a\r\n", "_\r\n", "#t\r\n",
		"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n", "%1\r\n+proto\r\n:3\r\n",
		"-MOVED 1 127.0.0.1:1\r\n", "-ASK 1 :1\r\n", "-LOADING\r\n", "=15\r\ntxt:Some string\r\n",
		"*1\r\n*3\r\n:-5\r\n:99999999\r\n*2\r\n:1\r\n:1\r\n", "*3\r\n+message\r\n+a\r\n+b\r\n"} {
		for _, command := range []string{"HELLO", "CLUSTER", "HMGET", "HKEYS", "PING", "CLIENT"} {
			f.Add(command, []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, command string, answer []byte) {
		addr := fakeRedisWith(t, map[string]string{command: string(answer)})
		o := DefaultOptions()
		o.IDType, o.Timeout, o.TTL, o.Stale = "int64", 20*time.Millisecond, 0, 0
		s, err := Open("feast+redis://"+addr+"/p", o)
		must(t, err)
		for range 2 {
			s.Arms(t.Context(), []string{"1", "2"},
				make([]Arm, 2)) //nolint:errcheck // how it ends is the answer's business
		}
		must(t, s.Close())
	})
}

func TestRedisThatNeverSaysAWord(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	s := openStore(t, fmt.Sprintf("feast+redis://%s/p", l.Addr()),
		func(o *Options) { o.Timeout = 20 * time.Millisecond })
	if kind, err := oneArm(t, s); kind != "timeout" || err == nil {
		t.Errorf("error %v of kind %s", err, kind)
	}
	// It is still being connected to; Close, at the end of the test, does not wait for that.
}

func TestURLsThatCannotBe(t *testing.T) {
	for _, url := range []string{"", "feast", "http://h", "feast+http://", "feast+http:///x",
		"feast+http://h?x=1", "feast+http://u:s3cret@h#f",
		"feast+redis://h", "feast+redis:///p", "feast+redis://u:s3cret@h/a/b", "feast+redis://h/p?db=x",
		"feast+redis://h/p?db=-1", "feast+redis://h/p?ssl=true", "feast+redis://h/p?node=u:s3cret@h:6379",
		"feast+redis://h/p?node=redis://:s3cret@h:1", "feast+redis://h/p?node=h",
		"feast+redis://u:s3cret@h:port/p", "redis://u:s3cret@h/p", "feast+redis://u:s3cret%zz@h/p"} {
		_, err := Open(url, DefaultOptions())
		if err == nil || !strings.HasPrefix(err.Error(), "--bandit-store") ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: error %v", url, err)
		}
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	for flag, change := range map[string]func(*Options){
		"--bandit-store-chunk":         func(o *Options) { o.Chunk = -1 },
		"--bandit-store-concurrency":   func(o *Options) { o.Concurrency = -1 },
		"--bandit-store-timeout":       func(o *Options) { o.Timeout = -1 },
		"--bandit-store-cache-ttl":     func(o *Options) { o.TTL = -1 },
		"--bandit-store-cache-stale":   func(o *Options) { o.Stale = -1 },
		"--bandit-store-retry":         func(o *Options) { o.Retry = -1 },
		"--bandit-store-cache-entries": func(o *Options) { o.CacheEntries = -1 },
		"--bandit-store-max-age":       func(o *Options) { o.MaxAge = -1 },
		"--bandit-store-beta":          func(o *Options) { o.Beta = "" },
		"--bandit-store-impressions":   func(o *Options) { o.Clicks = "clicks" },
		"--bandit-store-id-type":       func(o *Options) { o.IDType = "int128" },
		"--bandit-store-ca":            func(o *Options) { o.CA = "/nowhere.pem" },
		"prior":                        func(o *Options) { o.Prior = [2]float64{1, 0} },
	} {
		o := DefaultOptions()
		change(&o)
		if _, err := Open("feast+https://h", o); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: error %v", flag, err)
		}
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	var hang atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hang.Load() {
			io.Copy(io.Discard, r.Body) // or the server does not hear of a client that goes
			<-r.Context().Done()
			return
		}
		io.WriteString(
			w,
			`{"metadata":{"feature_names":["item_id","alpha","beta"]},"results":[{"values":[1]},{"values":[2]},{"values":[3]}]}`)
	}))
	defer server.Close()
	redis := fakeRedis(t, "*2\r\n$-1\r\n$-1\r\n")
	silent := fakeRedis(t, "")
	before := runtime.NumGoroutine()
	for _, url := range []string{"feast+" + server.URL, "feast+redis://" + redis + "/p", "feast+redis://" +
		silent + "/p", "feast+redis://127.0.0.1:1/p"} {
		o := DefaultOptions()
		o.IDType, o.TTL, o.Stale, o.Timeout = "int64", 0, 0, 50*time.Millisecond
		s, err := Open(url, o)
		must(t, err)
		for i := range 20 {
			hang.Store(i%4 == 3)
			ctx, cancel := context.WithCancel(t.Context())
			if i%3 == 2 {
				cancel()
			}
			s.Arms(ctx, []string{"1"}, make([]Arm, 1)) // how it ends is not what this is about
			cancel()
		}
		must(t, s.Close())
	}
	systest.Eventually(t, "all goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}

func TestFeatureServerThatIsNotThere(t *testing.T) {
	s := openStore(t, "feast+http://127.0.0.1:1/base", nil)
	kind, err := oneArm(t, s)
	if err == nil || kind != "unreachable" ||
		!strings.HasPrefix(err.Error(), "feature store feast+http://127.0.0.1:1/base: ") ||
		strings.Contains(err.Error(), "Post") {
		t.Errorf("error %v of kind %s", err, kind)
	}
}
