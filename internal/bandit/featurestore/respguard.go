package featurestore

import (
	"fmt"
	"net"
)

// respGuard is a connection to Redis that ends when the other side announces something huge. The client makes
// room for what is announced before it comes, and panics in a goroutine of its own when that is beyond all
// memory, so it must not get to see it.
type respGuard struct {
	net.Conn
	closed func() bool // lets go of what would close it with the store
	resp   respLengths
}

func (g *respGuard) Close() error {
	g.closed()
	return g.Conn.Close()
}

func (g *respGuard) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	if wrong := g.resp.pass(b[:n]); wrong != nil {
		g.Conn.Close()
		return 0, wrong
	}
	return n, err
}

// Far beyond what Feast's values, or the map of a cluster, need.
const (
	respLongest = 1 << 20 // bytes of a string
	respMost    = 1 << 16 // elements of an array, and bytes of a line
)

// respLengths follows a stream of RESP, versions 2 and 3, as far as its lengths go. It stands between messages, in a
// line or in a string.
type respLengths struct {
	skip   int64 // bytes of a string still to come, with its line end
	inLine bool
	kind   byte // of the line: its first byte
	length int  // of the line so far
	number int64
	absent bool // the number is negative: a null
}

// pass looks at what was received next. The error says what is too much.
func (r *respLengths) pass(b []byte) error {
	for len(b) > 0 {
		switch {
		case r.skip > 0:
			n := min(r.skip, int64(len(b)))
			r.skip -= n
			b = b[n:]
			continue
		case !r.inLine:
			*r = respLengths{inLine: true, kind: b[0]}
		case b[0] == '\n':
			r.inLine = false
			if !r.absent && (r.kind == '$' || r.kind == '=' || r.kind == '!') {
				r.skip = r.number + 2
			}
		default:
			if err := r.char(b[0]); err != nil {
				return err
			}
		}
		b = b[1:]
	}
	return nil
}

// char is one byte of a line.
func (r *respLengths) char(c byte) error {
	if r.length++; r.length > respMost {
		return badAnswer("a line of more than %d bytes", respMost)
	}
	most := int64(respMost)
	switch r.kind {
	case '$', '=', '!': // strings
		most = respLongest
	case '*', '%', '~', '>', '|': // arrays, maps, sets, pushes, attributes
	default:
		return nil
	}
	switch {
	case c == '-':
		r.absent = true
	case c >= '0' && c <= '9':
		if r.number = r.number*10 + int64(c-'0'); r.number > most {
			return badAnswer("it announces %s of more than %d", respThing(r.kind), most)
		}
	case c == '\r':
	default:
		return badAnswer("a length with %q in it", c)
	}
	return nil
}

func respThing(kind byte) string {
	if kind == '$' || kind == '=' || kind == '!' {
		return "a string"
	}
	return fmt.Sprintf("something like an array (%c)", kind)
}
