package store

import (
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"time"
)

// ID names a filter: 128 random bits, which nobody guesses.
type ID [16]byte

// NewID returns an id that was never used.
func NewID() (id ID) {
	rand.Read(id[:]) //nolint:errcheck // it never fails
	return id
}

// String returns an id as it is in URLs: 22 characters.
func (id ID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// ParseID reads what String returns, and nothing else: an id has one spelling.
func ParseID[T string | []byte](text T) (id ID, ok bool) {
	var buf [18]byte
	if len(text) != 22 {
		return id, false
	}
	n, err := base64.RawURLEncoding.Strict().Decode(buf[:], []byte(text))
	return ID(buf[:16]), err == nil && n == 16
}

// MarshalText implements encoding.TextMarshaler.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *ID) UnmarshalText(text []byte) (err error) {
	parsed, ok := ParseID(text)
	if !ok {
		return ErrNotFound
	}
	*id = parsed
	return nil
}

// Filter is a filter as it is stored.
type Filter struct {
	ID ID `json:"id"`
	Spec
	Created time.Time `json:"created"`
	Changed time.Time `json:"changed"`
	// Matches is what is known of its rules, by no means of all.
	Matches []Match `json:"-"`
}

// Match is when a rule of a filter has matched.
type Match struct {
	Rule  uint64 // a hash of its text
	At    int64  // when it did last, in Unix seconds; 0 for not yet
	Items int64  // the Fetch.Items then of all that the filter has; where it has not, when it was tried first
}

// Spec is what its owner says of a filter. What the words mean is the service's business.
type Spec struct {
	URLs   []string `json:"urls"`
	Title  string   `json:"title,omitempty"`
	Mode   string   `json:"mode,omitempty"`  // keep or drop
	Rules  []string `json:"rules,omitempty"` // in their canonical form
	Tags   []string `json:"tags,omitempty"`
	Folder string   `json:"folder,omitempty"`
	Limit  int      `json:"limit,omitempty"`
	Sort   string   `json:"sort,omitempty"`
	Dedup  []string `json:"dedup,omitempty"`
	Format string   `json:"format,omitempty"`
	Report bool     `json:"report_failures,omitempty"` // an item of the feed says so when the source fails
}

// encode returns the stored form: equal specifications have equal ones.
func (s Spec) encode() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic("BUG: a specification that cannot be marshalled: " + err.Error())
	}
	return string(text)
}

func (f *Filter) scan(scan func(...any) error) error {
	var spec, matches []byte
	var created, changed int64
	if err := scan(&spec, &created, &changed, &matches); err != nil {
		return err
	}
	if len(matches) > 0 {
		f.Matches = make([]Match, len(matches)/binary.Size(Match{}))
	}
	if _, err := binary.Decode(matches, binary.LittleEndian, f.Matches); err != nil {
		return err
	}
	f.Created, f.Changed = time.Unix(created, 0).UTC(), time.Unix(changed, 0).UTC()
	return json.Unmarshal(spec, &f.Spec)
}

func (f *Filter) scanWithID(rows *sql.Rows) error {
	var id []byte
	err := f.scan(func(to ...any) error { return rows.Scan(append([]any{&id}, to...)...) })
	copy(f.ID[:], id)
	return err
}
