package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/internal/disk"
	"weir/internal/feed/snapshot"
)

// Store is the folder that files come into. Fetch is for one goroutine at a time.
type Store struct {
	dir    string
	log    *slog.Logger
	client *http.Client

	// Patience is how long a server may send nothing, Pause how long the first pause between attempts is.
	Patience, Pause time.Duration
}

// File is a file in the store.
type File struct {
	Path       string `json:"-"`
	Sum        string `json:"sha256"`
	Bytes      int64  `json:"bytes"`
	Validators        // of the server's answer it came with
}

// Validators say to a server which version of a file is known.
type Validators struct {
	ETag     string `json:"etag,omitempty"`
	Modified string `json:"modified,omitempty"`
}

// ErrUnchanged means that the server has what is known already.
var ErrUnchanged = errors.New("the lists have not changed")

// Open opens the store in a folder, which is made where it is not there. transport may be nil.
func Open(dir string, transport http.RoundTripper, log *slog.Logger) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("folder of lists: %w", err)
	}
	return &Store{dir: dir, log: log, client: newClient(transport), Patience: 30 * time.Second,
		Pause: 500 * time.Millisecond}, nil
}

// Path returns where the file of a SHA-256 is, or would be.
func (s *Store) Path(sum string) string { return filepath.Join(s.dir, sum+".weir") }

// Find returns the file of a SHA-256, if it is in the store.
func (s *Store) Find(sum string) (File, bool) {
	info, err := os.Stat(s.Path(sum))
	if err != nil || !isSum(sum) {
		return File{}, false
	}
	return File{Path: s.Path(sum), Sum: sum, Bytes: info.Size()}, true
}

// Fetch brings a file into the store, unless it is there. progress, which may be nil, is told how many
// bytes of how many have come. With known validators the error is ErrUnchanged where the server says so.
func (s *Store) Fetch(ctx context.Context, src Source, known Validators,
	progress func(done, total int64)) (File, error) {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	if src.Sum != "" {
		if f, ok := s.Find(src.Sum); ok {
			return f, nil
		}
	}
	if !src.IsURL() {
		return s.take(ctx, src, progress)
	}
	f, err := s.download(ctx, src, known, progress)
	if err != nil && err != ErrUnchanged {
		err = fmt.Errorf("%v: %w", src, withoutSecrets(err))
	}
	return f, err
}

// take brings a file of this machine into the store: by another name for it where that can be, else by a
// copy.
func (s *Store) take(ctx context.Context, src Source, progress func(done, total int64)) (File, error) {
	temp := filepath.Join(s.dir, "taken.part")
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return File{}, err
	}
	info, err := os.Stat(src.file)
	if err != nil {
		return File{}, fmt.Errorf("%w: nodes that do not see this path need a URL", err)
	}
	if !info.Mode().IsRegular() {
		return File{}, fmt.Errorf("%s is not a file", src.file)
	}
	if os.Link(src.file, temp) != nil {
		if err := s.copy(ctx, src.file, temp, info.Size(), progress); err != nil {
			return File{}, errors.Join(err, os.Remove(temp))
		}
	}
	f, err := s.admit(ctx, temp, src.Sum)
	if err != nil {
		return File{}, errors.Join(fmt.Errorf("%s: %w", src.file, err), os.Remove(temp))
	}
	return f, nil
}

func (s *Store) copy(ctx context.Context, from, to string, size int64,
	progress func(done, total int64)) error {
	if err := s.room(size); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	done := int64(0)
	for n := int64(1); err == nil && n > 0; {
		n, err = io.Copy(out, io.LimitReader(in, 1<<22))
		done += n
		progress(done, size)
		err = errors.Join(err, ctx.Err())
	}
	return errors.Join(err, out.Close())
}

// admit checks a file that is complete, and gives it its name.
func (s *Store) admit(ctx context.Context, path, want string) (File, error) {
	sum, size, err := Sum(ctx, path)
	if err != nil {
		return File{}, err
	}
	if want != "" && sum != want {
		return File{}, &damaged{fmt.Errorf("its SHA-256 is %s, expected %s: publish what belongs together",
			sum, want)}
	}
	if err := check(ctx, path); err != nil {
		return File{}, &damaged{err}
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrPermission) {
		file, err = os.Open(path) // another name of a file that may only be read
	}
	if err != nil {
		return File{}, err
	}
	err = file.Sync()
	if err = errors.Join(err, file.Close()); err != nil {
		return File{}, err
	}
	if err := os.Rename(path, s.Path(sum)); err != nil {
		return File{}, err
	}
	return File{Path: s.Path(sum), Sum: sum, Bytes: size}, disk.SyncDir(s.dir)
}

// damaged is the error of a file that did not come as it was sent.
type damaged struct{ error }

// Unwrap returns what is wrong.
func (d *damaged) Unwrap() error { return d.error }

// check checks a file by its own checksums.
func check(ctx context.Context, path string) error {
	lists, err := snapshot.Open(path)
	if err != nil {
		return named(err, path)
	}
	return named(errors.Join(lists.Verify(ctx, nil), lists.Close()), path)
}

// named returns err without a path that nobody has named.
func named(err error, path string) error {
	if err == nil {
		return nil
	}
	return &renamed{err, path}
}

type renamed struct {
	error
	path string
}

// Error implements error.
func (r *renamed) Error() string { return strings.ReplaceAll(r.error.Error(), r.path, "the file") }

// Unwrap returns the error with its path.
func (r *renamed) Unwrap() error { return r.error }

// Sum returns the SHA-256 and the size of a file.
func Sum(ctx context.Context, path string) (sum string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	for n := int64(1); err == nil && n > 0; size += n {
		n, err = io.Copy(h, io.LimitReader(f, 1<<24))
		err = errors.Join(err, ctx.Err())
	}
	return hex.EncodeToString(h.Sum(nil)), size, err
}

// SumOfLists is Sum of a file of lists, which it checks.
func SumOfLists(ctx context.Context, path string) (string, error) {
	if err := check(ctx, path); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	sum, _, err := Sum(ctx, path)
	return sum, err
}

// leastFree is what a download leaves free on the disk, in bytes.
const leastFree = 64 << 20

// room refuses n bytes more where there is no room for them.
func (s *Store) room(n int64) error {
	v, err := disk.VolumeOf(s.dir)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err == nil && uint64(max(0, n))+leastFree > v.Free {
		err = fmt.Errorf("%d MiB are to come, and %d MiB are free where %s is: make room", n>>20, v.Free>>20,
			s.dir)
	}
	return err
}

// Keep deletes all files but those of some SHA-256, and what is left of downloads but that of one source.
func (s *Store) Keep(part Source, sums ...string) {
	entries, _ := os.ReadDir(s.dir)
	for _, e := range entries {
		name, kind, _ := strings.Cut(e.Name(), ".")
		if kind == "weir" && !slices.Contains(sums, name) || kind != "weir" && kind != "json" &&
			name != s.partName(part) {
			os.Remove(filepath.Join(s.dir, e.Name())) //nolint:errcheck // the next call tries again
		}
	}
}

// state is what is known across restarts of the file that serves from a URL.
type state struct {
	URL string `json:"url"` // without secrets
	File
}

// Remember makes f what Recall returns for src.
func (s *Store) Remember(src Source, f File) error {
	b, err := json.Marshal(state{src.String(), f})
	if err != nil {
		return err
	}
	return disk.WriteFileAtomic(filepath.Join(s.dir, "current.json"), b, 0o600)
}

// Recall returns the file that was remembered last, if it is of src and still there.
func (s *Store) Recall(src Source) (File, bool) {
	var st state
	b, err := os.ReadFile(filepath.Join(s.dir, "current.json"))
	if err != nil || json.Unmarshal(b, &st) != nil || st.URL != src.String() {
		return File{}, false
	}
	f, ok := s.Find(st.Sum)
	f.Validators = st.Validators
	return f, ok && f.Bytes == st.Bytes && (src.Sum == "" || src.Sum == f.Sum)
}

// SumOf returns the SHA-256 by which a file in a store is called, "" of another path.
func SumOf(path string) string {
	sum := strings.TrimSuffix(filepath.Base(path), ".weir")
	if !isSum(sum) {
		return ""
	}
	return sum
}
