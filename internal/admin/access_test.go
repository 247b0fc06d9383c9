package admin

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/admin/history"
	"weir/internal/metrics"
	"weir/internal/server"
)

const (
	testPassword = "correct horse battery"
	testToken    = "0123456789abcdef0123"
)

// file writes a file with a line and returns its path.
func file(t testing.TB, line string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// testOptions are those of a dashboard of a kernel without services.
func testOptions(t testing.TB, access *Access) Options {
	t.Helper()
	kernel, err := server.New(server.Config{Admin: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	past, err := history.Open("")
	if err != nil {
		t.Fatal(err)
	}
	return Options{Kernel: kernel, Metrics: metrics.New(1), History: past, Access: access,
		Log: slog.New(slog.DiscardHandler)}
}

// guarded returns a dashboard that wants a password or a token, behind its guard.
func guarded(t testing.TB) (*Admin, http.Handler) {
	t.Helper()
	hash, err := HashPassword(testPassword)
	if err != nil {
		t.Fatal(err)
	}
	access, err := OpenAccess(file(t, hash), file(t, testToken))
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(testOptions(t, access))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a, a.Guard(server.NewHandler(a.Routes()...))
}

// ask makes a request with a body and header fields, each "Name: value".
func ask(h http.Handler, method, path, body string, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func login(h http.Handler, secret string, fields ...string) *httptest.ResponseRecorder {
	return ask(h, "POST", "/admin/session", `{"secret":"`+secret+`"}`, fields...)
}

// cookie returns the session's as a header field.
func cookie(w *httptest.ResponseRecorder) string {
	for _, c := range w.Result().Cookies() {
		if c.Name == sessionCookie {
			return "Cookie: " + c.Name + "=" + c.Value
		}
	}
	return "Cookie: none=none"
}

func TestASessionLastsUntilLogoutOrItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, h := guarded(t)
		status := func(fields ...string) int {
			return ask(h, "GET", "/ui/overview", "", fields...).Code
		}
		if got := ask(h, "GET", "/ui/overview?x=1", ""); got.Code != http.StatusSeeOther ||
			got.Header().Get("Location") != "/login?to=%2Fui%2Foverview%3Fx%3D1" {
			t.Errorf("without a session: %d %v", got.Code, got.Header())
		}
		if got := login(h, "wrong horse battery"); got.Code != http.StatusUnauthorized ||
			cookie(got) != "Cookie: none=none" {
			t.Errorf("with a wrong password: %d %v", got.Code, got.Header())
		}
		first, second := login(h, testPassword), login(h, testToken)
		if first.Code != http.StatusNoContent || second.Code != http.StatusNoContent ||
			cookie(first) == cookie(second) {
			t.Fatalf("%d %d", first.Code, second.Code)
		}
		set := first.Result().Cookies()[0]
		if !set.HttpOnly || set.SameSite != http.SameSiteStrictMode || set.Secure || set.Path != "/" {
			t.Errorf("the cookie is %+v", set)
		}
		if status(cookie(first)) != http.StatusOK || status(cookie(second)) != http.StatusOK {
			t.Error("who is logged in gets no page")
		}
		ask(h, "DELETE", "/admin/session", "", cookie(first))
		if status(cookie(first)) == http.StatusOK || status(cookie(second)) != http.StatusOK {
			t.Error("a logout ends this session, and no other")
		}
		// A session that is used lasts, but not for ever.
		for range 11 {
			time.Sleep(time.Hour)
			if got := status(cookie(second)); got != http.StatusOK {
				t.Fatalf("a session that is used: %d", got)
			}
		}
		time.Sleep(time.Hour + time.Second)
		if status(cookie(second)) == http.StatusOK {
			t.Error("a session lasts for ever")
		}
		third := login(h, testPassword)
		time.Sleep(idleLife + time.Second)
		if status(cookie(third)) == http.StatusOK {
			t.Error("a session that nobody uses lasts")
		}
	})
}

func TestCookiesAreSecureUnderTLS(t *testing.T) {
	_, h := guarded(t)
	r := httptest.NewRequest("POST", "/admin/session", strings.NewReader(`{"secret":"`+testToken+`"}`))
	r.TLS = &tls.ConnectionState{}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	for _, w := range []*httptest.ResponseRecorder{w, login(h, testToken, "X-Forwarded-Proto: https")} {
		for _, c := range w.Result().Cookies() {
			if !c.Secure {
				t.Errorf("%+v", c)
			}
		}
	}
}

func TestProgramsSendTheToken(t *testing.T) {
	_, h := guarded(t)
	for fields, want := range map[string]int{
		"Authorization: Bearer " + testToken:       http.StatusOK,
		"Authorization: Bearer " + testToken + "x": http.StatusUnauthorized,
		"Authorization: Bearer " + testPassword:    http.StatusUnauthorized,
		"Authorization: Bearer ":                   http.StatusUnauthorized,
		"Cookie: weir-session=":                    http.StatusUnauthorized,
		"Cookie: weir-logged-in=1":                 http.StatusUnauthorized,
		"X-Nothing: nothing":                       http.StatusUnauthorized,
	} {
		got := ask(h, "GET", "/admin/settled", "", fields)
		if want == http.StatusOK {
			want = http.StatusNotFound // it is through, and there is no such route
		}
		if got.Code != want {
			t.Errorf("%s: %d, want %d", fields, got.Code, want)
		}
		if got.Header().Get("Cache-Control") != "private, no-store" {
			t.Errorf("%s: the answer may be kept: %v", fields, got.Header())
		}
		if (got.Code == http.StatusUnauthorized) != (got.Header().Get("WWW-Authenticate") != "") {
			t.Errorf("%s: %v", fields, got.Header())
		}
	}
}

func TestGuessingIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := guarded(t)
		access := a.o.Access
		client := network(netip.MustParseAddr("2001:db8::1"))
		guesses := func(d time.Duration) (n int) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
				// A neighbour's counts as well.
				if access.wait(network(netip.MustParseAddr("2001:db8::2")), time.Now()) == 0 {
					n++
				}
			}
			return n
		}
		if n := guesses(time.Hour); n > 40 {
			t.Errorf("in an hour one may guess %d times", n)
		}
		if access.wait(client, time.Now()) == 0 {
			t.Error("another address of the same network may go on")
		}
		if access.wait(network(netip.MustParseAddr("192.0.2.7")), time.Now()) != 0 {
			t.Error("others have to wait for it")
		}
		time.Sleep(longestWait)
		if access.wait(client, time.Now()) != 0 {
			t.Error("one has to wait for ever")
		}
		access.right(client)
		for range freeAttempts {
			if access.wait(client, time.Now()) != 0 {
				t.Error("who was right once is not believed")
			}
		}
		// The memory of it is bounded, and a client too many is not let through.
		for n := range 2 * mostClients {
			address := "198.18." + strconv.Itoa(n/250) + "." + strconv.Itoa(n%250)
			access.wait(network(netip.MustParseAddr(address)), time.Now())
		}
		if n := len(access.wrong); n > mostClients {
			t.Errorf("%d clients are remembered", n)
		}
	})
}

// Few compute at a time, so that memory and processors are bounded, whoever asks.
func TestManyLoginsAtOnceAreRefused(t *testing.T) {
	a, _ := guarded(t)
	access := a.o.Access
	access.computing <- struct{}{} // somebody computes for long
	results := make(chan error, 10*mostLogins)
	var all sync.WaitGroup
	for range cap(results) {
		all.Go(func() {
			_, err := access.is(t.Context(), "wrong horse battery")
			results <- err
		})
	}
	for range cap(results) - mostLogins {
		if err := <-results; err == nil {
			t.Fatal("it computed beside another")
		}
	}
	if ok, err := access.is(t.Context(), testToken); !ok || err != nil {
		t.Errorf("the token waits for passwords: %v", err)
	}
	<-access.computing
	all.Wait()
	for range mostLogins {
		if err := <-results; err != nil {
			t.Errorf("one that had a place: %v", err)
		}
	}
}

func TestSecretsThatCannotBeAreRefused(t *testing.T) {
	good, err := HashPassword(testPassword)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ password, token, says string }{
		"a password as it is":    {testPassword, "", "weir admin password"},
		"another kind of hash":   {"$2y$10$abcdefghijklmnopqrstuv", "", "weir admin password"},
		"a hash too dear":        {strings.Replace(good, "m=32768", "m=4194304", 1), "", "256 MiB"},
		"a hash of no passes":    {strings.Replace(good, "t=3", "t=0", 1), "", "passes"},
		"a short token":          {"", "short", "16 characters"},
		"a hash that is cut":     {good[:len(good)-40], "", "weir admin password"},
		"a salt that is no code": {strings.Replace(good, "p=1$", "p=1$!", 1), "", "weir admin password"},
	} {
		password, token := "", ""
		if c.password != "" {
			password = file(t, c.password)
		} else {
			token = file(t, c.token)
		}
		if _, err := OpenAccess(password, token); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want it to say %q", name, err, c.says)
		}
	}
	if _, err := HashPassword("short"); err == nil {
		t.Error("a short password is taken")
	}
	if a, err := OpenAccess("", ""); a != nil || err != nil {
		t.Errorf("no files: %v, %v", a, err)
	}
}

func FuzzPasswordHash(f *testing.F) {
	f.Add("$argon2id$v=19$m=32768,t=3,p=1$c29tZXNhbHQ$aGFzaGhhc2hoYXNoaGFzaA")
	f.Add("$argon2id$v=19$m=99999999,t=3,p=1$c29tZXNhbHQ$aGFzaA")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := parseHash(text)
		if err == nil && (h.memory > 256<<10 || h.time > 10 || h.lanes > 8 ||
			len(h.salt) < 8 || len(h.sum) < 16) {
			t.Errorf("%q is taken as %+v", text, h)
		}
	})
}
