// Package source brings the file of lists from where it was published, an https URL or a path that this
// machine sees, into a folder of this machine, where it is mapped.
//
// What it promises:
//
//   - A file is in the folder as a whole or not at all: it comes under another name, is checked by its
//     expected SHA-256 and by the checksums inside of it, synced, and renamed. It is called by its SHA-256.
//   - What has come of a download is kept, across restarts as well, and the rest is asked for with Range and
//     If-Range (RFC 9110, section 14): what the server has replaced meanwhile begins anew.
//   - Nothing is downloaded that is no snapshot, is longer than its header says, or does not fit on the disk.
//   - A server that fails or stalls is asked again, more and more rarely, and as Retry-After says.
//   - What may be a secret in a URL, its user, password, query and fragment, is in no error and no log.
//
// An expected SHA-256 is in the URL, as #sha256=, or at the URL with .sha256 behind its path, in the format
// of sha256sum. Plain http is for this machine, and for what #sha256= pins.
package source

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"

	"weir/internal/webui"
)

// Source is where a file of lists is. The zero value is none.
type Source struct {
	url *url.URL // nil for a file
	// file is a path, made absolute.
	file string
	// Sum is the expected SHA-256 in hexadecimal, "" where it is not known.
	Sum string
}

// IsURL says whether text is to be taken as a URL, and not as a path.
func IsURL(text string) bool {
	scheme, _, ok := strings.Cut(text, "://")
	return ok && (strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "http"))
}

// Parse returns the source that text, a URL or a path, names. sum is the SHA-256 that is expected, or "".
func Parse(text, sum string) (Source, error) {
	if sum != "" && !isSum(sum) {
		return Source{}, fmt.Errorf("a SHA-256 is 64 hexadecimal digits, not %.80q", sum)
	}
	if !IsURL(text) {
		path, err := filepath.Abs(text)
		return Source{file: path, Sum: strings.ToLower(sum)}, err
	}
	u, err := url.Parse(text)
	if err != nil {
		// The error holds the URL, with its secrets.
		return Source{}, errors.New("the URL of the lists cannot be read: write https://HOST/PATH")
	}
	s := Source{url: u, Sum: strings.ToLower(sum)}
	if pinned, ok := strings.CutPrefix(u.Fragment, "sha256="); ok {
		switch pinned = strings.ToLower(pinned); {
		case !isSum(pinned):
			return Source{}, fmt.Errorf("%v: #sha256= needs 64 hexadecimal digits", s)
		case sum != "" && pinned != s.Sum:
			return Source{}, fmt.Errorf("%v: #sha256= and the SHA-256 that is given differ", s)
		}
		s.Sum = pinned
	} else if u.Fragment != "" {
		return Source{}, fmt.Errorf("%v: the only fragment with a meaning is #sha256=HEX", s)
	}
	u.Fragment, u.RawFragment = "", ""
	switch {
	case u.Host == "":
		return Source{}, fmt.Errorf("%v: the URL names no host", s)
	case u.Scheme == "http" && s.Sum == "" && !webui.LoopbackHost(u.Hostname()):
		return Source{}, fmt.Errorf("%v: http is for this machine only: use https, or pin the content with "+
			"#sha256=HEX", s)
	}
	return s, nil
}

func isSum(text string) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == 32
}

// IsURL says whether the source is a URL.
func (s Source) IsURL() bool { return s.url != nil }

// Text returns what Parse reads, secrets included.
func (s Source) Text() string {
	if s.url == nil {
		return s.file
	}
	return s.url.String()
}

// String names the source without what may be a secret.
func (s Source) String() string {
	if s.url == nil {
		return s.file
	}
	return (&url.URL{Scheme: s.url.Scheme, Host: s.url.Host, Path: s.url.Path}).String()
}

// LogValue implements slog.LogValuer.
func (s Source) LogValue() slog.Value { return slog.StringValue(s.String()) }

// withoutSecrets returns err without the URL that errors of net/http hold.
func withoutSecrets(err error) error {
	for {
		wrapped := (*url.Error)(nil)
		if !errors.As(err, &wrapped) {
			return err
		}
		err = wrapped.Err
	}
}
