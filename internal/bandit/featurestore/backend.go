package featurestore

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
)

// A backend reads one kind of feature store.
type backend interface {
	// fetch asks for the features of a table of at most Options.Chunk entities and writes them to values,
	// entity by entity, each in the order of t.features. What the store does not have stays the zero value.
	// It returns soon after ctx ends. Errors are faults or come from the connection.
	fetch(ctx context.Context, t *table, ids []string, values []value) error
	// String names the store without credentials.
	String() string
	close() error
}

// table is what is read of one kind of entity.
type table struct {
	flag     string // the flag's name for it, item or user
	entity   string // join key
	view     string // feature view
	features []string
	text     bool // values are wanted as text, and not as numbers
	idForm        // how ids are written

	without  []atomic.Int64 // by feature: entities in a row that had not that one
	wondered atomic.Int64   // when that was last said

	searched  atomic.Int64 // when versions of the view were last looked for
	versioned atomic.Bool  // there are some
}

// value is one feature of one entity. The zero value is one that the store does not have.
type value struct {
	kind   valueKind
	number float64
	text   string // of text, and of numbers if the table wants text
	at     int64  // when it was observed, in Unix nanoseconds; 0 if the store does not say
}

type valueKind uint8

const (
	kindAbsent valueKind = iota
	kindNumber
	kindText
	kindOther  // a list, for one
	kindBroken // not encoded as it should be
)

// faultKind says why a fetch failed.
type faultKind uint8

const (
	faultUnreachable faultKind = iota // no connection, or it broke
	faultTimeout                      // no answer in time
	faultBusy                         // no time left to ask: too many fetches at once
	// No time left to ask: the call has more chunks than are fetched at once.
	faultLong
	faultRefused // the store answered with an error
	faultAnswer  // its answer is not what the protocol says
	faultLost    // it has none of the items that it had
	faultBug
	faultKinds
)

func (k faultKind) String() string {
	return [faultKinds]string{"unreachable", "timeout", "busy", "long", "refused", "answer", "lost", "bug"}[k]
}

// fault is an error of a known kind.
type fault struct {
	kind faultKind
	err  error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

func badAnswer(format string, args ...any) error {
	return &fault{kind: faultAnswer, err: fmt.Errorf("its answer is wrong: "+format, args...)}
}

func refused(format string, args ...any) error {
	return &fault{kind: faultRefused, err: fmt.Errorf(format, args...)}
}

// dial makes the backend for a URL.
func dial(raw string, o *Options) (backend, error) {
	u, err := url.Parse(raw)
	if err != nil {
		// url.Parse quotes what it cannot parse, and that may hold a password.
		return nil, fmt.Errorf("--bandit-store is no URL; %s", forms)
	}
	switch u.Scheme {
	case "feast+http", "feast+https":
		return newFeastHTTP(u, o)
	case "feast+redis", "feast+rediss":
		return newFeastRedis(u, o)
	case "vertex":
		return newVertex(u, o)
	}
	return nil, fmt.Errorf("--bandit-store: there is no kind of store %q; %s", u.Scheme, forms)
}

const forms = "it looks like feast+http://HOST:6566, feast+redis://HOST:6379/PROJECT or " +
	"vertex://PROJECT/LOCATION/STORE/ENTITYTYPE"

// oneLine makes the text of a stranger fit to be quoted in an error.
func oneLine(b []byte) string {
	s := strings.Join(strings.Fields(strings.ToValidUTF8(string(b), "?")), " ")
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, s)
	const most = 300
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
