package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"weir/internal/disk"
	"weir/internal/feed/snapshot"
	"weir/internal/webui"
)

// newClient returns a client that goes from https to http for nobody, but for what is pinned.
func newClient(transport http.RoundTripper) *http.Client {
	if transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DialContext = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext
		t.DisableCompression = true // parts of a file are asked for by their bytes
		t.MaxIdleConnsPerHost = 1
		transport = t
	}
	check := func(r *http.Request, via []*http.Request) error {
		switch {
		case len(via) >= 10:
			return errors.New("redirected 10 times")
		case r.URL.Scheme != "https" && !webui.LoopbackHost(r.URL.Hostname()) &&
			r.Context().Value(pinnedKey{}) == nil:
			return errors.New("redirected to http: use https, or pin the content with #sha256=HEX")
		}
		return nil
	}
	return &http.Client{Transport: transport, CheckRedirect: check}
}

// pinnedKey is the key of a request's context that says that the content is checked by a known SHA-256.
type pinnedKey struct{}

// attempts is how often a server is asked that fails and sends nothing new.
const attempts = 6

// failure is an answer of a server, or none.
type failure struct {
	error
	final bool          // asking again does not help
	after time.Duration // as Retry-After says
}

// Unwrap returns what is wrong.
func (f *failure) Unwrap() error { return f.error }

// download is Fetch from a URL.
func (s *Store) download(ctx context.Context, src Source, known Validators,
	progress func(done, total int64)) (File, error) {
	pause, tried := s.Pause, 0
	for {
		before := s.come(src)
		f, err := s.attempt(ctx, src, known, progress)
		failed := (*failure)(nil)
		if err == nil || err == ErrUnchanged || ctx.Err() != nil || !errors.As(err, &failed) || failed.final {
			return f, err
		}
		if s.come(src) > before {
			pause, tried = s.Pause, 0
		}
		if tried++; tried == attempts {
			return f, err
		}
		wait := min(max(failed.after, pause/2+rand.N(pause)), 5*time.Minute)
		s.log.Warn("lists: the server is asked again", "url", src, "in", wait, "come", s.come(src), "error",
			withoutSecrets(err))
		select {
		case <-ctx.Done():
			return f, ctx.Err()
		case <-time.After(wait):
		}
		pause = min(2*pause, 30*time.Second)
	}
}

// attempt asks once for a file, or for the rest of it, and for its SHA-256 before.
func (s *Store) attempt(ctx context.Context, src Source, known Validators,
	progress func(done, total int64)) (File, error) {
	if src.Sum != "" {
		ctx = context.WithValue(ctx, pinnedKey{}, true)
	}
	p, err := s.openPart(src)
	if err != nil {
		return File{}, err
	}
	defer p.file.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(s.Patience, func() {
		cancel(fmt.Errorf("the server has sent nothing for %v", s.Patience))
	})
	defer stalled.Stop()
	awake := func() { stalled.Reset(s.Patience) }

	if p.done == 0 || p.done < p.Total {
		if err := s.ask(ctx, src, p, known, awake, progress); err != nil {
			return File{}, err
		}
	}
	want := src.Sum
	if want == "" {
		if want, err = s.sidecar(ctx, src); err != nil {
			return File{}, err
		}
	}
	stalled.Stop()
	f, err := s.admit(ctx, p.file.Name(), want)
	if bad := (*damaged)(nil); errors.As(err, &bad) {
		// The next attempt must not go on with it.
		return File{}, errors.Join(&failure{error: err, final: true}, p.reset())
	}
	if err != nil {
		return File{}, err
	}
	f.Validators = p.Validators
	return f, os.Remove(p.file.Name() + ".json")
}

// ask receives what is missing of a part.
func (s *Store) ask(ctx context.Context, src Source, p *part, known Validators, awake func(),
	progress func(done, total int64)) error {
	a, err := s.get(ctx, src, p, known)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	awake()
	if err := p.answered(a); err != nil {
		return err
	}
	if err := s.room(p.Total - p.done); err != nil {
		return err
	}
	return p.receive(ctx, a.Body, src.String(), awake, progress)
}

// get asks for a file from where part ends.
func (s *Store) get(ctx context.Context, src Source, p *part, known Validators) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, src.url.String(), nil)
	if err != nil {
		return nil, withoutSecrets(err)
	}
	r.Header.Set("Accept-Encoding", "identity")
	r.Header.Set("User-Agent", "weir")
	if known.ETag != "" {
		r.Header.Set("If-None-Match", known.ETag)
	}
	if known.Modified != "" {
		r.Header.Set("If-Modified-Since", known.Modified)
	}
	if p.done > 0 {
		if condition := p.condition(); condition != "" {
			r.Header.Set("If-Range", condition)
		}
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", p.done))
	}
	a, err := s.client.Do(r)
	if err == nil {
		return a, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return nil, &failure{error: withoutSecrets(err)}
}

// sidecar asks for the SHA-256 beside a file; "" is none.
func (s *Store) sidecar(ctx context.Context, src Source) (string, error) {
	u := *src.url
	u.Path, u.RawPath = u.Path+".sha256", ""
	a, err := s.get(ctx, Source{url: &u}, &part{}, Validators{})
	if err != nil {
		return "", err
	}
	defer a.Body.Close()
	switch {
	case a.StatusCode == http.StatusOK:
	case a.StatusCode < 500 && a.StatusCode != http.StatusTooManyRequests:
		return "", nil
	default:
		return "", refused(a, ".sha256 ")
	}
	text, err := io.ReadAll(io.LimitReader(a.Body, 4096))
	if err != nil {
		return "", &failure{error: withoutSecrets(err)}
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	first, _, _ = strings.Cut(first, "\n")
	if first = strings.ToLower(strings.TrimPrefix(first, `\`)); !isSum(first) {
		return "", nil // a page that says that there is nothing, perhaps
	}
	return first, nil
}

// SumBeside returns the SHA-256 that is beside a URL, "" where there is none.
func SumBeside(ctx context.Context, src Source) (string, error) {
	s := Store{client: newClient(nil)}
	sum, err := s.sidecar(ctx, src)
	if err != nil {
		err = fmt.Errorf("%v: %w", src, err)
	}
	return sum, err
}

// Read returns the content of a URL.
func Read(ctx context.Context, src Source) (io.ReadCloser, error) {
	s := Store{client: newClient(nil)}
	a, err := s.get(ctx, src, new(part), Validators{})
	if err == nil && a.StatusCode != http.StatusOK {
		a.Body.Close()
		err = refused(a, "")
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", src, err)
	}
	return a.Body, nil
}

// refused is the error of an answer without a file.
func refused(a *http.Response, what string) error {
	f := &failure{error: fmt.Errorf("%sis answered %s", what, a.Status)}
	seconds, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if at, date := http.ParseTime(a.Header.Get("Retry-After")); date == nil {
		f.after = time.Until(at)
	} else if err == nil {
		f.after = time.Duration(seconds) * time.Second
	}
	switch {
	case a.StatusCode >= 500, a.StatusCode == http.StatusTooManyRequests,
		a.StatusCode == http.StatusRequestTimeout:
	default:
		f.final = true
	}
	return f
}

// part is a file that is not all there yet, and beside it, in JSON, what it is a part of.
type part struct {
	file *os.File
	done int64
	partState
}

// partState is what is known of a part.
type partState struct {
	URL   string `json:"url"` // without secrets
	Sum   string `json:"sha256,omitempty"`
	Total int64  `json:"total"` // bytes; 0 is not known
	Validators
}

// partName is the name of a part of what src names.
func (s *Store) partName(src Source) string {
	if !src.IsURL() {
		return ""
	}
	return fmt.Sprintf("%016x.part", xxh3.HashString(src.String()+" "+src.Sum))
}

// come is how many bytes of a source have come.
func (s *Store) come(src Source) int64 {
	info, err := os.Stat(filepath.Join(s.dir, s.partName(src)))
	if err != nil {
		return 0
	}
	return info.Size()
}

// openPart opens what has come of a source, and nothing where none of it can be used.
func (s *Store) openPart(src Source) (*part, error) {
	path := filepath.Join(s.dir, s.partName(src))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	p := &part{file: f}
	b, err := os.ReadFile(path + ".json")
	if err != nil || json.Unmarshal(b, &p.partState) != nil || p.URL != src.String() || p.Sum != src.Sum ||
		p.Sum == "" && p.condition() == "" {
		p.partState = partState{URL: src.String(), Sum: src.Sum}
		return p, p.truncate(f.Truncate(0))
	}
	if p.done, err = f.Seek(0, io.SeekEnd); err == nil && p.Total > 0 && p.done > p.Total {
		p.done, err = 0, f.Truncate(0)
	}
	return p, p.truncate(err)
}

// truncate closes a part that could not be opened.
func (p *part) truncate(err error) error {
	if err != nil {
		return errors.Join(err, p.file.Close())
	}
	return nil
}

// reset begins a part anew.
func (p *part) reset() error {
	p.done = 0
	return p.file.Truncate(0)
}

// condition is by what a server is told which version the part is of: a weak ETag does not say.
func (v Validators) condition() string {
	if v.ETag != "" && !strings.HasPrefix(v.ETag, "W/") {
		return v.ETag
	}
	return v.Modified
}

// answered takes up what the head of an answer says of the part.
func (p *part) answered(a *http.Response) error {
	known := Validators{ETag: a.Header.Get("ETag"), Modified: a.Header.Get("Last-Modified")}
	switch a.StatusCode {
	case http.StatusNotModified:
		return ErrUnchanged
	case http.StatusOK:
		if err := p.reset(); err != nil {
			return err
		}
		p.Total = max(0, a.ContentLength)
	case http.StatusPartialContent:
		var from, to, total int64
		n, err := fmt.Sscanf(a.Header.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &total)
		if n != 3 || from != p.done || to != total-1 || p.Total > 0 && total != p.Total {
			err := fmt.Errorf("the server sends %q, asked for bytes from %d on: %w",
				a.Header.Get("Content-Range"), p.done, err)
			return errors.Join(&failure{error: err}, p.reset())
		}
		p.Total = total
	case http.StatusRequestedRangeNotSatisfiable:
		return errors.Join(&failure{error: errors.New("the server has another file by now")}, p.reset())
	default:
		return refused(a, "")
	}
	if a.Header.Get("Content-Encoding") != "" {
		return &failure{error: fmt.Errorf("the server encodes the file as %q: turn that off",
			a.Header.Get("Content-Encoding")), final: true}
	}
	p.Validators = known
	b, err := json.Marshal(p.partState)
	if err != nil {
		return err
	}
	return disk.WriteFileAtomic(p.file.Name()+".json", b, 0o600)
}

// receive appends a body to the part, no more than the header of the lists says that there is.
func (p *part) receive(ctx context.Context, body io.Reader, name string, awake func(),
	progress func(done, total int64)) error {
	if _, err := p.file.Seek(p.done, io.SeekStart); err != nil {
		return err
	}
	measured := false
	for buf := make([]byte, 1<<18); ; {
		n, err := body.Read(buf)
		if n > 0 {
			awake()
			if _, err := p.file.Write(buf[:n]); err != nil {
				return err
			}
			p.done += int64(n)
		}
		if !measured && (p.done >= snapshot.HeaderBytes || err == io.EOF) {
			if err := p.measure(name); err != nil {
				return errors.Join(&failure{error: err, final: true}, p.reset())
			}
			measured = true
		}
		if measured && p.done > p.Total {
			err := fmt.Errorf("%w: the server sends more than the %d bytes of the lists", errLength, p.Total)
			return errors.Join(&failure{error: err, final: true}, p.reset())
		}
		progress(p.done, p.Total)
		switch {
		case err == io.EOF && p.done == p.Total:
			return nil
		case err == nil:
		default:
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return &failure{error: fmt.Errorf("%d of %d bytes have come: %w", p.done, p.Total,
				withoutSecrets(err))}
		}
	}
}

var errLength = errors.New("the length is wrong")

// measure takes the length of the file from the header of the lists.
func (p *part) measure(name string) error {
	header := make([]byte, snapshot.HeaderBytes)
	n, err := p.file.ReadAt(header, 0)
	if err != nil && err != io.EOF {
		return err
	}
	total, _, err := snapshot.Measure(name, header[:n])
	if err != nil {
		return err
	}
	if p.Total > 0 && p.Total != total {
		return fmt.Errorf("%w: the server says %d bytes, the header of the lists %d", errLength, p.Total,
			total)
	}
	p.Total = total
	return nil
}
