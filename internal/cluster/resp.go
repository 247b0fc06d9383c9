package cluster

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Limits of what a server may answer. A server that goes beyond them is not one, and the connection ends.
const (
	maxBulk  = 512 << 20 // bytes; the servers' own limit
	maxElems = 1 << 24
	maxDepth = 16
	maxAhead = 64 << 10 // bytes or elements that are allocated before they have come
)

// ErrNil is of a Reply that is null, where a value is asked for.
var ErrNil = errors.New("the engine has no such value")

// Error is an error reply, without the minus in front: a code, a space, and what the engine says.
type Error string

func (e Error) Error() string { return "the engine says: " + string(e) }

// Reply is an answer in RESP2: null, an integer, a string, an error or an array of replies. It owns its
// memory.
type Reply struct {
	kind  kind
	n     int64
	s     string
	elems []Reply
}

type kind byte

const (
	kindNil kind = iota
	kindInt
	kindString
	kindError
	kindArray
)

// IsNil says whether the reply is null, as that of GET is for a key that is not there.
func (r Reply) IsNil() bool { return r.kind == kindNil }

// Err returns the error where the reply is one, else nil.
func (r Reply) Err() error {
	if r.kind == kindError {
		return Error(r.s)
	}
	return nil
}

// ToInt64 returns an integer.
func (r Reply) ToInt64() (int64, error) {
	if r.kind == kindInt {
		return r.n, nil
	}
	return 0, r.not("an integer")
}

// AsInt64 returns an integer, or what a string says in decimal.
func (r Reply) AsInt64() (int64, error) {
	if r.kind == kindString {
		return strconv.ParseInt(r.s, 10, 64)
	}
	return r.ToInt64()
}

// ToString returns a string.
func (r Reply) ToString() (string, error) {
	if r.kind == kindString {
		return r.s, nil
	}
	return "", r.not("a string")
}

// ToArray returns the elements of an array. They are not to be changed.
func (r Reply) ToArray() ([]Reply, error) {
	if r.kind == kindArray {
		return r.elems, nil
	}
	return nil, r.not("an array")
}

// AsStrSlice returns an array of strings; null is an empty one.
func (r Reply) AsStrSlice() ([]string, error) {
	return elements(r, func(e Reply) (string, error) {
		if e.IsNil() {
			return "", nil
		}
		return e.ToString()
	})
}

// AsIntSlice returns an array of integers, or of strings that say them; null is 0.
func (r Reply) AsIntSlice() ([]int64, error) {
	return elements(r, func(e Reply) (int64, error) {
		if e.IsNil() {
			return 0, nil
		}
		return e.AsInt64()
	})
}

// AsStrMap returns an array of keys and values by turns, as that of HGETALL is.
func (r Reply) AsStrMap() (map[string]string, error) {
	pairs, err := r.AsStrSlice()
	if err != nil {
		return nil, err
	}
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("the engine answers with %d keys and values", len(pairs))
	}
	m := make(map[string]string, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m, nil
}

func elements[T any](r Reply, as func(Reply) (T, error)) ([]T, error) {
	elems, err := r.ToArray()
	if err != nil {
		return nil, err
	}
	values := make([]T, len(elems))
	for i, e := range elems {
		if values[i], err = as(e); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// not is the error of a reply of another kind than expected.
func (r Reply) not(expected string) error {
	switch r.kind {
	case kindNil:
		return ErrNil
	case kindError:
		return Error(r.s)
	}
	return fmt.Errorf("the engine answers with %s, expected %s",
		[...]string{kindInt: "an integer", kindString: "a string", kindArray: "an array"}[r.kind], expected)
}

// appendCommand appends a command as RESP: an array of strings.
func appendCommand(dst []byte, args ...string) []byte {
	dst = appendCount(dst, '*', len(args))
	for _, arg := range args {
		dst = appendCount(dst, '$', len(arg))
		dst = append(dst, arg...)
		dst = append(dst, '\r', '\n')
	}
	return dst
}

func appendCount(dst []byte, mark byte, n int) []byte {
	dst = strconv.AppendInt(append(dst, mark), int64(n), 10)
	return append(dst, '\r', '\n')
}

// readReply reads one reply. An error means that the connection is of no more use.
func readReply(r *bufio.Reader) (Reply, error) { return readNested(r, 0) }

func readNested(r *bufio.Reader, depth int) (Reply, error) {
	line, err := readLine(r)
	if err != nil {
		return Reply{}, err
	}
	switch rest := line[1:]; line[0] {
	case ':':
		n, ok := parseInt(rest)
		if !ok {
			return Reply{}, malformed(line)
		}
		return Reply{kind: kindInt, n: n}, nil
	case '+':
		return Reply{kind: kindString, s: string(rest)}, nil
	case '-':
		return Reply{kind: kindError, s: string(rest)}, nil
	case '$':
		n, ok := parseInt(rest)
		switch {
		case !ok || n < -1 || n > maxBulk:
			return Reply{}, malformed(line)
		case n == -1:
			return Reply{}, nil
		}
		s, err := readBulk(r, int(n))
		return Reply{kind: kindString, s: s}, err
	case '*':
		n, ok := parseInt(rest)
		switch {
		case !ok || n < -1 || n > maxElems || depth == maxDepth:
			return Reply{}, malformed(line)
		case n == -1:
			return Reply{}, nil
		}
		elems := make([]Reply, 0, min(int(n), maxAhead/16))
		for range n {
			e, err := readNested(r, depth+1)
			if err != nil {
				return Reply{}, err
			}
			elems = append(elems, e)
		}
		return Reply{kind: kindArray, elems: elems}, nil
	}
	return Reply{}, malformed(line)
}

// readLine returns a line of at least its mark, without its end, until the next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		return nil, malformed(line)
	}
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, malformed(line)
	}
	return line[:len(line)-2], nil
}

// readBulk reads n bytes and the end of the line after them.
func readBulk(r *bufio.Reader, n int) (string, error) {
	if n+2 <= r.Size() {
		b, err := r.Peek(n + 2)
		if err != nil {
			return "", noEOF(err)
		}
		if b[n] != '\r' || b[n+1] != '\n' {
			return "", malformed(b)
		}
		s := string(b[:n])
		_, err = r.Discard(n + 2)
		return s, err
	}
	b := make([]byte, 0, maxAhead)
	for len(b) < n+2 {
		if len(b) == cap(b) {
			b = append(make([]byte, 0, min(2*cap(b), n+2)), b...)
		}
		m, err := r.Read(b[len(b):min(cap(b), n+2)])
		b = b[:len(b)+m]
		if err != nil {
			return "", noEOF(err)
		}
	}
	if b[n] != '\r' || b[n+1] != '\n' {
		return "", malformed(b[n:])
	}
	return string(b[:n]), nil
}

// noEOF tells an end within a reply from one between two.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// parseInt parses a decimal integer without the allocation that strconv needs for bytes.
func parseInt(b []byte) (n int64, ok bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	var u uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		u = u*10 + uint64(c-'0')
	}
	switch {
	case negative && u <= 1<<63:
		return -int64(u), true
	case !negative && u < 1<<63:
		return int64(u), true
	}
	return 0, false
}

func malformed(line []byte) error {
	return fmt.Errorf("what the engine sends is not RESP2: %.40q", line)
}
