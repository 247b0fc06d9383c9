package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"weir/internal/load/access"
	"weir/internal/webui"
)

// cookieName is of the cookie that stands for the token. It has no __Host- prefix, which wants TLS.
const cookieName = "weir-load"

// guard refuses what other sites' pages ask for and who does not have the token.
func (u *UI) guard(next http.Handler) http.Handler {
	api := func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/api/") }
	known := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if api(r) {
			w.Header().Set("Cache-Control", "no-store")
		}
		if api(r) && r.URL.Path != "/api/session" && !u.known(r) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="weir load"`)
			problem(w, http.StatusUnauthorized, "this needs the token that weir load ui was started with", "")
			return
		}
		next.ServeHTTP(w, r)
	})
	return webui.Guard{
		AnyHost: u.o.Token != "",
		Open:    func(r *http.Request) bool { return !api(r) },
		Refuse: func(w http.ResponseWriter, status int, detail string) {
			if status == http.StatusMisdirectedRequest {
				detail += "; for others start weir load ui with --token"
			}
			problem(w, status, detail, "")
		},
	}.Handler(known)
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
		problem(w, http.StatusUnauthorized, "this is not the token that weir load ui was started with",
			"token")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: u.cookie(), Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
	w.WriteHeader(http.StatusNoContent)
}
