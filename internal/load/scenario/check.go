package scenario

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"weir/internal/load/access"
)

const (
	checkTimeout = 10 * time.Second
	// So much of an answer is looked at.
	maxAnswer = 64 << 10
)

// Check makes one request of each sort, of a file its first 32, and says what to change if one of them
// cannot be what a person wants to measure: nobody answers, or with an error. 429 and 503 are no errors
// here: the target may be refusing load, and the run will tell.
func (s *Scenario) Check(ctx context.Context) error {
	for _, k := range s.kinds {
		for _, sample := range k.samples() {
			if err := s.try(ctx, sample); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Scenario) try(ctx context.Context, sample sample) error {
	origin := s.targets[sample.target].URL
	err := sample.try(ctx, s.asker(sample.target, s.spec.HTTP2), origin)
	if _, silent := errors.AsType[*noAnswer](err); silent && !s.spec.HTTP2 && ctx.Err() == nil {
		if sample.try(ctx, s.asker(sample.target, true), origin) == nil {
			return fmt.Errorf("%s speaks HTTP/2 only: ask with --http2", origin)
		}
	}
	return err
}

// asker is a client for one request to a target.
func (s *Scenario) asker(target int, http2 bool) *http.Client {
	transport := &http.Transport{
		// Where the target was found is where the load goes, so that is asked.
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, s.targets[target].Addr.String())
		},
		DisableCompression: true,
		DisableKeepAlives:  true,
		TLSClientConfig:    &tls.Config{InsecureSkipVerify: s.spec.Insecure},
		Protocols:          new(http.Protocols), // those of the load: see client
	}
	if http2 {
		transport.Protocols.SetHTTP2(true)
		transport.Protocols.SetUnencryptedHTTP2(true)
	} else {
		transport.Protocols.SetHTTP1(true)
	}
	return &http.Client{
		Transport:     transport,
		Timeout:       cmp.Or(s.spec.Timeout, checkTimeout),
		CheckRedirect: access.NoRedirect,
	}
}

// noAnswer is the error of a connection that was made and brought no answer.
type noAnswer struct{ error }

func (e *noAnswer) Unwrap() error { return e.error }

// request is the sample as net/http makes requests.
func (s sample) request(origin string) (*http.Request, error) {
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(s.wire)))
	if err != nil {
		return nil, fmt.Errorf("BUG: the request %.200q cannot be read: %w", s.wire, err)
	}
	if req.URL, err = url.Parse(origin + req.RequestURI); err != nil {
		return nil, fmt.Errorf("BUG: the request %.200q has no URL: %w", s.wire, err)
	}
	req.RequestURI = ""
	if _, there := req.Header["User-Agent"]; !there {
		req.Header["User-Agent"] = nil // none, as in the load
	}
	return req, nil
}

// try makes the request and judges its answer.
func (s sample) try(ctx context.Context, c *http.Client, origin string) error {
	req, err := s.request(origin)
	if err != nil {
		return err
	}
	what := req.Method + " " + req.URL.String()
	answer, err := c.Do(req.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("%s: %w", what, unreachable(ctx, c, origin, err))
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s: its answer ends early: %w", what, unreachable(ctx, c, origin, err))
	}
	switch status := answer.StatusCode; {
	case status == http.StatusMovedPermanently || status == http.StatusPermanentRedirect:
		return fmt.Errorf("%s is answered %s, to %s: redirects are not followed, so ask for that URL", what,
			answer.Status, answer.Header.Get("Location"))
	case status < 400 || status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return nil
	default:
		hint := s.hint
		switch status {
		case http.StatusUnauthorized, http.StatusForbidden:
			hint = "does it want a --header, as in 'Authorization: Bearer ...'?"
		case http.StatusMethodNotAllowed:
			hint = "is the method right (--method)?"
		}
		return fmt.Errorf("%s is answered %s%s: %s", what, answer.Status, detail(body), hint)
	}
}

// unreachable says what may be the matter when there is no answer.
func unreachable(ctx context.Context, c *http.Client, origin string, err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var timeout net.Error
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return fmt.Errorf(
			"the target cannot be reached: %w: is the server running, and is its address right?", err)
	}
	if verification, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("the target's certificate is not believed: %w: give --insecure to believe any",
			verification.Err)
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok ||
		strings.Contains(err.Error(), "HTTP response to HTTPS client") {
		return fmt.Errorf("the target does not speak TLS: ask for http://%s",
			strings.TrimPrefix(origin, "https://"))
	}
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf(
			"there is no answer within %s: is the target stuck? --timeout says how long to wait", c.Timeout)
	}
	if t, ok := c.Transport.(*http.Transport); ok && t.Protocols.HTTP2() {
		return fmt.Errorf("%w: does the target speak HTTP/2 there? leave --http2 out for HTTP/1.1", err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &noAnswer{errors.New("the target closes the connection without an answer: does it speak " +
			"HTTP/1.1 there, and not TLS (https://)?")}
	}
	return &noAnswer{fmt.Errorf("%w: does the target speak HTTP/1.1 there?", err)}
}

// detail is what an answer's body says, in short.
func detail(body []byte) string {
	var problem struct {
		Detail string `json:"detail"`
	}
	text := ""
	if json.Unmarshal(body, &problem) == nil {
		text = problem.Detail
	} else if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) {
		text, _, _ = strings.Cut(strings.TrimSpace(string(body)), "\n")
	}
	if text == "" {
		return ""
	}
	return fmt.Sprintf(" (%s)", strings.ToValidUTF8(fmt.Sprintf("%.200s", text), "?"))
}
