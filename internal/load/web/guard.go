package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"weir/internal/load/access"
)

// policy lets the pages load what comes from here, and nothing else. No script and no style is inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// cookieName is of the cookie that stands for the token. It has no __Host- prefix, which wants TLS.
const cookieName = "weir-load"

// guard refuses what other sites' pages ask for and who does not have the token.
func (u *UI) guard(next http.Handler) http.Handler {
	sameOrigin := http.NewCrossOriginProtection()
	sameOrigin.SetDenyHandler(http.HandlerFunc(refuseOrigin))
	next = sameOrigin.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		api := strings.HasPrefix(r.URL.Path, "/api/")
		if api {
			h.Set("Cache-Control", "no-store")
		}
		switch {
		case u.o.Token == "" && !access.LoopbackHost(r.Host):
			problem(w, http.StatusMisdirectedRequest, "this address is for loopback names, like 127.0.0.1 and localhost; for others start weir load ui with --token", "")
		case api && foreign(r):
			refuseOrigin(w, r)
		case api && r.URL.Path != "/api/session" && !u.known(r):
			h.Set("WWW-Authenticate", `Bearer realm="weir load"`)
			problem(w, http.StatusUnauthorized, "this needs the token that weir load ui was started with", "")
		case api && (r.Method == http.MethodPost || r.Method == http.MethodPut) && r.ContentLength != 0 && !isJSON(r):
			problem(w, http.StatusUnsupportedMediaType, "send application/json", "")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func refuseOrigin(w http.ResponseWriter, _ *http.Request) {
	problem(w, http.StatusForbidden, "pages of other sites may not use this", "")
}

// foreign says whether a browser makes the request for a page of another origin. Reading is refused as well: a stream of
// events opened from elsewhere takes a connection.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none": // none: typed by a person
	default:
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	_, host, ok := strings.Cut(origin, "://")
	return !ok || !strings.EqualFold(host, r.Host)
}

func isJSON(r *http.Request) bool {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "application/json")
}

// known says whether the request has the token, or a cookie that was given for it.
func (u *UI) known(r *http.Request) bool {
	if u.o.Token == "" {
		return true
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return access.Same(token, u.o.Token)
	}
	c, err := r.Cookie(cookieName)
	return err == nil && access.Same(c.Value, u.cookie())
}

// cookie stands for the token while this process lives. The token cannot be had from it.
func (u *UI) cookie() string {
	mac := hmac.New(sha256.New, u.key)
	mac.Write([]byte(u.o.Token))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// postSession takes the token and gives the cookie.
func (u *UI) postSession(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4096)).Decode(&body); err != nil {
		problem(w, http.StatusBadRequest, `send {"token": "..."}`, "token")
		return
	}
	if u.o.Token != "" && !access.Same(body.Token, u.o.Token) {
		problem(w, http.StatusUnauthorized, "this is not the token that weir load ui was started with", "token")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: u.cookie(), Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
	w.WriteHeader(http.StatusNoContent)
}
