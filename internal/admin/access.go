package admin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/argon2"

	"weir/internal/server"
)

// What a password costs to compute, by argon2id with one lane: enough that guessing from a stolen file is
// dear, and little enough that a login is not felt by those who are served.
const (
	hashMemory = 32 << 10 // KiB
	hashTime   = 3
	hashLength = 32
)

const (
	shortestToken    = 16
	shortestPassword = 10
	longestPassword  = 1 << 10

	sessionLife  = 12 * time.Hour
	idleLife     = 2 * time.Hour
	mostSessions = 100

	freeAttempts = 5               // wrong ones of a client before it has to wait
	longestWait  = 5 * time.Minute // between two attempts of a client that has been wrong often
	mostClients  = 1000            // whose wrong attempts are remembered
	mostLogins   = 4               // under way, of which one computes at a time
)

// Names of cookies: the session's, which scripts cannot read, and one by which they know that there is one.
const (
	sessionCookie = "weir-session"
	loggedIn      = "weir-logged-in"
)

// Access says who may use the admin port: who has the token, or has logged in with the password. People log
// in and have a session while their browser has its cookie, programs send the token with each request.
type Access struct {
	password *passwordHash // nil: there is none
	token    []byte        // its SHA-256; nil: there is none

	logins    chan struct{} // places for logins under way
	computing chan struct{} // the one place for a computation of argon2

	mu       sync.Mutex
	sessions map[[sha256.Size]byte]*session // by the SHA-256 of the cookie's value
	wrong    map[netip.Prefix]*attempts
}

type session struct{ began, used time.Time }

type attempts struct {
	wrong int
	next  time.Time // before which none counts
}

// OpenAccess reads the files of what opens the admin port; either may be missing, both is nil: everybody who
// reaches the port may use it.
func OpenAccess(passwordFile, tokenFile string) (*Access, error) {
	if passwordFile == "" && tokenFile == "" {
		return nil, nil
	}
	a := &Access{logins: make(chan struct{}, mostLogins), computing: make(chan struct{}, 1),
		sessions: map[[sha256.Size]byte]*session{}, wrong: map[netip.Prefix]*attempts{}}
	if passwordFile != "" {
		text, err := readSecret(passwordFile)
		if err == nil {
			a.password, err = parseHash(text)
		}
		if err != nil {
			return nil, fmt.Errorf("--admin-password-file: %w", err)
		}
	}
	if tokenFile != "" {
		text, err := readSecret(tokenFile)
		if err == nil && len(text) < shortestToken {
			err = fmt.Errorf("the token must have at least %d characters, or it can be guessed: "+
				"openssl rand -base64 32 makes one", shortestToken)
		}
		if err != nil {
			return nil, fmt.Errorf("--admin-token-file: %w", err)
		}
		sum := sha256.Sum256([]byte(text))
		a.token = sum[:]
	}
	return a, nil
}

// readSecret returns the first line of a file.
func readSecret(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line), nil
}

// passwordHash is a hash by argon2id.
type passwordHash struct {
	memory, time uint32
	lanes        uint8
	salt, sum    []byte
}

var errHash = errors.New("the file must hold the line that weir admin password writes, which begins with " +
	"$argon2id$v=19$")

// parseHash reads the usual form of such hashes, and refuses those that would take long.
func parseHash(text string) (*passwordHash, error) {
	parts := strings.Split(text, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != "v=19" {
		return nil, errHash
	}
	h := &passwordHash{}
	var err [2]error
	if _, e := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &h.memory, &h.time, &h.lanes); e != nil {
		return nil, errHash
	}
	h.salt, err[0] = base64.RawStdEncoding.DecodeString(parts[4])
	h.sum, err[1] = base64.RawStdEncoding.DecodeString(parts[5])
	switch {
	case errors.Join(err[:]...) != nil, len(h.salt) < 8, len(h.sum) < 16, len(h.sum) > 64:
		return nil, errHash
	case h.memory < 8<<10 || h.memory > 256<<10 || h.time < 1 || h.time > 10 || h.lanes < 1 || h.lanes > 8:
		return nil, fmt.Errorf("%w, with 8 to 256 MiB of memory, 1 to 10 passes and 1 to 8 lanes", errHash)
	}
	return h, nil
}

// HashPassword returns what --admin-password-file holds for a password.
func HashPassword(password string) (string, error) {
	if len(password) < shortestPassword || len(password) > longestPassword {
		return "", fmt.Errorf("a password must have from %d to %d characters", shortestPassword,
			longestPassword)
	}
	salt := make([]byte, 16)
	rand.Read(salt) //nolint:errcheck // never fails
	sum := argon2.IDKey([]byte(password), salt, hashTime, hashMemory, 1, hashLength)
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=1$%s$%s", hashMemory, hashTime,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(sum)), nil
}

func (h *passwordHash) is(password string) bool {
	sum := argon2.IDKey([]byte(password), h.salt, h.time, h.memory, h.lanes, uint32(len(h.sum)))
	return subtle.ConstantTimeCompare(sum, h.sum) == 1
}

// isToken says whether text is the token, in a time that does not depend on where they differ.
func (a *Access) isToken(text string) bool {
	sum := sha256.Sum256([]byte(text))
	return a.token != nil && subtle.ConstantTimeCompare(sum[:], a.token) == 1
}

// forEverybody says which paths are: what a browser needs to log in, and what asks whether the process
// is there.
func forEverybody(path string) bool {
	return path == "/login" || path == "/admin/session" || path == "/health/live" ||
		strings.HasPrefix(path, "/ui/assets/")
}

// private forbids to keep answers. A handler's own word on that does not count here.
type private struct{ http.ResponseWriter }

func (p private) WriteHeader(status int) {
	p.Header().Set("Cache-Control", "private, no-store")
	p.ResponseWriter.WriteHeader(status)
}

func (p private) Write(data []byte) (int, error) {
	p.Header().Set("Cache-Control", "private, no-store")
	return p.ResponseWriter.Write(data)
}

// Unwrap is for http.ResponseController.
func (p private) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Flush is for who streams.
func (p private) Flush() { http.NewResponseController(p.ResponseWriter).Flush() } //nolint:errcheck

// Guard returns the admin port's handler behind what says who may use it. It is server.Config.AdminAccess.
func (a *Admin) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/ui/assets/") {
			next.ServeHTTP(w, r)
			return
		}
		w = private{w}
		if access := a.o.Access; access == nil || forEverybody(r.URL.Path) || access.known(r, time.Now()) {
			next.ServeHTTP(w, r)
			return
		}
		if r.Method == http.MethodGet && (r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, "/ui/")) {
			to := "/login"
			if r.URL.Path != "/" {
				to += "?to=" + url.QueryEscape(r.URL.RequestURI())
			}
			http.Redirect(w, r, to, http.StatusSeeOther)
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="weir"`)
		server.WriteProblem(w, http.StatusUnauthorized,
			"log in at /login, or send the admin port's token as Authorization: Bearer")
	})
}

// known says whether a request has the token or a session, which goes on by it.
func (a *Access) known(r *http.Request, now time.Time) bool {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return a.isToken(token)
	}
	c, err := r.Cookie(sessionCookie)
	if err != nil {
		return false
	}
	key := sha256.Sum256([]byte(c.Value))
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.sessions[key]
	if s == nil {
		return false
	}
	if now.Sub(s.began) > sessionLife || now.Sub(s.used) > idleLife {
		delete(a.sessions, key)
		return false
	}
	s.used = now
	return true
}

// begin begins a session and returns its cookie's value. Where there are too many, that ends which was used
// longest ago.
func (a *Access) begin(now time.Time) string {
	value := rand.Text()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.sessions) >= mostSessions {
		var oldest [sha256.Size]byte
		first := now
		for key, s := range a.sessions {
			if !s.used.After(first) {
				oldest, first = key, s.used
			}
		}
		delete(a.sessions, oldest)
	}
	a.sessions[sha256.Sum256([]byte(value))] = &session{now, now}
	return value
}

// end ends a session.
func (a *Access) end(value string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.sessions, sha256.Sum256([]byte(value)))
}

// network is what shares attempts: an address, or what a customer has of IPv6.
func network(client netip.Addr) netip.Prefix {
	client = client.Unmap()
	bits := 32
	if client.Is6() {
		bits = 64
	}
	p, _ := client.WithZone("").Prefix(bits) //nolint:errcheck // the zero Prefix for what is none
	return p
}

// wait returns how long a client has to wait for its next attempt, and counts it as wrong until right says
// that it was not: attempts at the same time count as well.
func (a *Access) wait(client netip.Prefix, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.wrong[client]
	if t == nil {
		if len(a.wrong) >= mostClients {
			for key, other := range a.wrong { // whoever may try again anyway
				if other.next.Before(now) {
					delete(a.wrong, key)
				}
			}
		}
		if len(a.wrong) >= mostClients {
			return longestWait
		}
		t = &attempts{}
		a.wrong[client] = t
	}
	if left := t.next.Sub(now); left > 0 {
		return left
	}
	if t.wrong++; t.wrong >= freeAttempts {
		t.next = now.Add(min(time.Second<<min(t.wrong-freeAttempts, 10), longestWait))
	}
	return 0
}

func (a *Access) right(client netip.Prefix) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.wrong, client)
}

// errBusy says that enough logins are under way.
var errBusy = errors.New("others are logging in; try again in a second")

// is says whether secret is the token or the password. Few compute at a time, and few wait for that.
func (a *Access) is(ctx context.Context, secret string) (bool, error) {
	if a.isToken(secret) {
		return true, nil
	}
	if a.password == nil {
		return false, nil
	}
	select {
	case a.logins <- struct{}{}:
		defer func() { <-a.logins }()
	default:
		return false, errBusy
	}
	select {
	case a.computing <- struct{}{}:
		defer func() { <-a.computing }()
	case <-ctx.Done():
		return false, errBusy
	}
	return a.password.is(secret), nil
}

// login answers POST /admin/session.
func (a *Admin) login(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Secret string `json:"secret"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 2*longestPassword)).Decode(&body)
	if err != nil || len(body.Secret) > longestPassword {
		server.WriteProblem(w, http.StatusBadRequest, `send {"secret": "..."}, the password or the token`)
		return
	}
	access := a.o.Access
	if access == nil {
		server.WriteProblem(w, http.StatusConflict, "this admin port is for everybody who reaches it")
		return
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	addr, _ := netip.ParseAddr(host) // the zero Addr for what is none
	client := network(addr)
	if left := access.wait(client, time.Now()); left > 0 {
		seconds := int(left/time.Second) + 1
		server.WriteProblem(w, http.StatusTooManyRequests, fmt.Sprintf(
			"that was wrong too often; try again in %d s", seconds))
		return
	}
	switch ok, err := access.is(r.Context(), body.Secret); {
	case err != nil:
		server.WriteProblem(w, http.StatusTooManyRequests, err.Error())
	case !ok:
		a.o.Log.Warn("a login on the admin port was wrong", "client", host)
		server.WriteProblem(w, http.StatusUnauthorized, "that is neither the password nor the token")
	default:
		access.right(client)
		setCookies(w, r, access.begin(time.Now()), sessionLife)
		w.WriteHeader(http.StatusNoContent)
	}
}

// logout answers DELETE /admin/session.
func (a *Admin) logout(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(sessionCookie); err == nil && a.o.Access != nil {
		a.o.Access.end(c.Value)
	}
	setCookies(w, r, "", 0)
	w.WriteHeader(http.StatusNoContent)
}

// setCookies sets those of a session, or with no life takes them away.
func setCookies(w http.ResponseWriter, r *http.Request, value string, life time.Duration) {
	age := -1
	if life > 0 {
		age = int(life / time.Second)
	}
	// A proxy in front that ends TLS says so.
	secure := r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
	for _, c := range []http.Cookie{
		{Name: sessionCookie, Value: value, HttpOnly: true},
		{Name: loggedIn, Value: strconv.Itoa(min(len(value), 1))},
	} {
		c.Path, c.MaxAge, c.SameSite, c.Secure = "/", age, http.SameSiteStrictMode, secure
		http.SetCookie(w, &c)
	}
}

// loginPage answers GET /login.
func (a *Admin) loginPage(w http.ResponseWriter, r *http.Request) {
	if a.o.Access == nil {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	a.loginHTML.ServeHTTP(w, r)
}
