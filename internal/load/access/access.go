// Package access says who may make load from this machine, for all that can be asked to make some: whoever
// is on it, and beyond it those with the token. And it keeps what is asked of others to the addresses that
// were given.
package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"
)

// OptionError is what a user has to change on the command line.
type OptionError struct{ Reason string }

func (e *OptionError) Error() string { return e.Reason }

// refused makes an OptionError of what to change.
func refused(format string, args ...any) error {
	return &OptionError{fmt.Sprintf(format, args...)}
}

// shortestToken is what can't be guessed over a network.
const shortestToken = 16

// CheckToken refuses what could be guessed. None is none, and left to Listen.
func CheckToken(token string) error {
	if token != "" && len(token) < shortestToken {
		return refused("--token must have at least %d characters, or it can be guessed; this one has %d",
			shortestToken, len(token))
	}
	return nil
}

// Listen listens on address. Where other machines can reach that it wants a token.
func Listen(address, token string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w; choose another address", err)
	}
	if token == "" && !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
		l.Close() //nolint:errcheck // nothing was accepted
		return nil, refused("%s can be reached from other machines, whose users could make load from here: "+
			"listen on 127.0.0.1, or set --token", address)
	}
	return l, nil
}

// Serve answers on l until ctx is done; then it calls end, and waits for the requests under way. A body may
// take as long as body.
func Serve(ctx context.Context, l net.Listener, h http.Handler, body time.Duration, log *slog.Logger,
	end func() error) error {
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       body,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	err = errors.Join(err, end())
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if stopErr := s.Shutdown(stop); stopErr != nil {
		err = errors.Join(err, stopErr, s.Close())
	}
	return err
}

// Same compares secrets in a time that does not depend on where they differ.
func Same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// CheckAgent refuses what is not the address of an agent.
func CheckAgent(address string) error {
	if u, err := url.Parse("//" + address); err != nil || u.Port() == "" || u.Host != address {
		return refused("--agents takes host:port, got %q", address)
	}
	return nil
}

// NoRedirect is the CheckRedirect of a client that asks only where it was told to: what it sends, a token
// for one, is for nobody else.
func NoRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
