package featurestore

import (
	"fmt"
	"net"
	"sync/atomic"
)

// respGuard is a connection to Redis that ends when the other side sends what the client would panic of, in
// a goroutine of its own, or run out of memory or stack: huge, negative or malformed lengths, deep nesting,
// types that it has not asked for, and answers to nothing. Client and guard must agree on where each
// message ends, so the guard takes no line that they could read differently.
type respGuard struct {
	net.Conn
	closed  func() bool  // lets go of what would close it with the store
	sent    respScanner  // of commands
	got     respScanner  // of answers
	waiting atomic.Int64 // answers that are due
}

func (g *respGuard) Close() error {
	g.closed()
	return g.Conn.Close()
}

func (g *respGuard) Write(b []byte) (int, error) {
	n, err := g.sent.pass(b, nil)
	if err != nil {
		return 0, fmt.Errorf("BUG: commands: %w", err)
	}
	g.waiting.Add(int64(n))
	return g.Conn.Write(b)
}

func (g *respGuard) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	if _, wrong := g.got.pass(b[:n], &g.waiting); wrong != nil {
		g.Conn.Close()
		return 0, wrong
	}
	return n, err
}

// Far beyond what Feast's values, or the map of a cluster, need.
const (
	respLongest = 1 << 20 // bytes of a string
	respMost    = 1 << 16 // elements of an array with all in it, and bytes of a line
	respDeepest = 8       // arrays in arrays
)

// respScanner follows a stream of RESP, versions 2 and 3, and finds its lengths. It stands between
// messages, in a line or in a string.
type respScanner struct {
	skip   int64 // bytes of a string still to come, with its line end
	inLine bool
	kind   byte // of the line: its first byte
	length int  // of the line so far, without that
	last   byte // of the line so far
	number int64
	minus  bool

	left     [respDeepest]int64 // elements to come of the arrays that it is in
	depth    int
	elements int64 // of the message, announced so far
}

// pass looks at what comes next and returns how many messages it ends. With due, every message takes one
// from it. The error says what is wrong.
func (r *respScanner) pass(b []byte, due *atomic.Int64) (ended int, err error) {
	for len(b) > 0 {
		switch {
		case r.skip > 0:
			n := min(r.skip, int64(len(b)))
			b = b[n:]
			if r.skip -= n; r.skip == 0 && r.value() {
				ended++
			}
			continue
		case !r.inLine:
			if due != nil && r.depth == 0 && due.Add(-1) < 0 {
				return ended, badAnswer("it answers what it was not asked")
			}
			if r.depth == 0 {
				r.elements = 0
			}
			r.inLine, r.kind, r.length, r.last, r.number, r.minus = true, b[0], 0, 0, 0, false
			switch r.kind {
			case '$', '=', '!', '*', '%', '~', '+', '-', ':', ',', '(', '_', '#':
			default:
				return ended, badAnswer("a message of the type %q", r.kind)
			}
		case b[0] == '\n':
			r.inLine = false
			whole, err := r.line()
			if err != nil {
				return ended, err
			}
			if whole && r.value() {
				ended++
			}
		default:
			if err := r.char(b[0]); err != nil {
				return ended, err
			}
		}
		b = b[1:]
	}
	return ended, nil
}

// char is one byte of a line.
func (r *respScanner) char(c byte) error {
	if r.length++; r.length > respMost {
		return badAnswer("a line of more than %d bytes", respMost)
	}
	last := r.last
	r.last = c
	most := int64(respMost)
	switch r.kind {
	case '$', '=', '!':
		most = respLongest
	case '*', '%', '~':
	case '_':
		if r.length > 1 || c != '\r' {
			return badAnswer("a null with %q in it", c)
		}
		return nil
	case '#':
		if r.length > 2 || r.length == 1 && c != 't' && c != 'f' || r.length == 2 && c != '\r' {
			return badAnswer("a truth value with %q in it", c)
		}
		return nil
	default:
		return nil
	}
	switch {
	case last == '\r':
		return badAnswer("a length with a line end in it")
	case c == '-' && r.length == 1:
		r.minus = true
	case c >= '0' && c <= '9':
		if r.number = r.number*10 + int64(c-'0'); r.number > most {
			return badAnswer("it announces %s of more than %d", respThing(r.kind), most)
		}
	case c == '\r' && r.length > 1:
	default:
		return badAnswer("a length with %q in it", c)
	}
	return nil
}

// line ends a line. It reports whether a value ends with it.
func (r *respScanner) line() (whole bool, err error) {
	if r.last != '\r' {
		return false, badAnswer("a line that does not end with CRLF")
	}
	if r.minus {
		if r.number != 1 || r.kind != '$' && r.kind != '*' {
			return false, badAnswer("it announces %s of -%d", respThing(r.kind), r.number)
		}
		return true, nil
	}
	switch r.kind {
	case '$', '=', '!':
		r.skip = r.number + 2
		return false, nil
	case '*', '%', '~':
		n := r.number
		if r.kind == '%' {
			n *= 2
		}
		if n == 0 {
			return true, nil
		}
		if r.elements += n; r.elements > respMost {
			return false, badAnswer("it announces %s of more than %d", respThing(r.kind), respMost)
		}
		if r.depth == respDeepest {
			return false, badAnswer("arrays in more than %d others", respDeepest)
		}
		r.left[r.depth] = n
		r.depth++
		return false, nil
	}
	return true, nil
}

// value ends a value, and with it what it is the last element of. It reports whether that is a whole message.
func (r *respScanner) value() bool {
	for r.depth > 0 {
		if r.left[r.depth-1]--; r.left[r.depth-1] > 0 {
			return false
		}
		r.depth--
	}
	return true
}

func respThing(kind byte) string {
	if kind == '$' || kind == '=' || kind == '!' {
		return "a string"
	}
	return fmt.Sprintf("something like an array (%c)", kind)
}
