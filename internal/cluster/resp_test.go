package cluster

import (
	"bufio"
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

func read(text string) (Reply, error) { return readReply(bufio.NewReader(strings.NewReader(text))) }

func array(elems ...Reply) Reply { return Reply{kind: kindArray, elems: elems} }

func TestRepliesAreRead(t *testing.T) {
	x := Reply{kind: kindString, s: "x"}
	long := strings.Repeat("x", 3*maxAhead)
	for text, want := range map[string]Reply{
		":-42\r\n":                            {kind: kindInt, n: -42},
		":9223372036854775807\r\n":            {kind: kindInt, n: 1<<63 - 1},
		":-9223372036854775808\r\n":           {kind: kindInt, n: -1 << 63},
		"+OK\r\n":                             {kind: kindString, s: "OK"},
		"+\r\n":                               {kind: kindString},
		"-ERR no\r\n":                         {kind: kindError, s: "ERR no"},
		"$-1\r\n":                             {},
		"*-1\r\n":                             {},
		"$0\r\n\r\n":                          {kind: kindString},
		"$4\r\na\r\nb\r\n":                    {kind: kindString, s: "a\r\nb"},
		"$196608\r\n" + long + "\r\n":         {kind: kindString, s: long},
		"*0\r\n":                              {kind: kindArray, elems: []Reply{}},
		"*2\r\n*1\r\n:1\r\n$-1\r\n":           array(array(Reply{kind: kindInt, n: 1}), Reply{}),
		"*2\r\n-ERR in a list\r\n$1\r\nx\r\n": array(Reply{kind: kindError, s: "ERR in a list"}, x),
	} {
		if r, err := read(text); err != nil || !reflect.DeepEqual(r, want) {
			t.Errorf("%.60q is %+v, %v", text, r, err)
		}
	}
}

func TestWhatIsNoReplyIsAnError(t *testing.T) {
	for _, text := range []string{"", "\n", "\r\n", ":\r\n", ":1\n", ":-\r\n", ":1x\r\n", "+", "+OK\r",
		":9223372036854775808\r\n", ":99999999999999999999\r\n", "$-2\r\n", "$536870913\r\n", "$2\r\nabc\r\n",
		"$5\r\nab", "$99999999\r\nab", "*-2\r\n", "*2\r\n:1\r\n", "*99999999\r\n", "%1\r\n+a\r\n+b\r\n",
		strings.Repeat("*1\r\n", 40) + ":1\r\n", "+" + strings.Repeat("x", 1<<20) + "\r\n"} {
		if r, err := read(text); err == nil {
			t.Errorf("%.60q is %+v", text, r)
		}
	}
}

func TestRepliesSayWhatTheyAre(t *testing.T) {
	number, text, none := Reply{kind: kindInt, n: 7}, Reply{kind: kindString, s: "8"}, Reply{}
	list := Reply{kind: kindArray, elems: []Reply{text, text, none, none}}
	if n, err := text.AsInt64(); n != 8 || err != nil {
		t.Error(n, err)
	}
	if _, err := text.ToInt64(); err == nil {
		t.Error("a string is an integer")
	}
	if s, err := number.ToString(); err == nil {
		t.Errorf("a number is %q", s)
	}
	if _, err := none.ToString(); err != ErrNil || !none.IsNil() {
		t.Error(err)
	}
	if m, err := list.AsStrMap(); err != nil || len(m) != 2 || m["8"] != "8" {
		t.Error(m, err)
	}
	if s, err := list.AsIntSlice(); err != nil || !reflect.DeepEqual(s, []int64{8, 8, 0, 0}) {
		t.Error(s, err)
	}
	if _, err := (Reply{kind: kindError, s: "ERR no"}).ToArray(); err != Error("ERR no") {
		t.Error(err)
	}
}

// appendReply writes a reply as RESP2.
func appendReply(dst []byte, r Reply) []byte {
	switch r.kind {
	case kindInt:
		return appendCount(dst, ':', int(r.n))
	case kindString:
		return append(append(appendCount(dst, '$', len(r.s)), r.s...), '\r', '\n')
	case kindError:
		return append(append(append(dst, '-'), r.s...), '\r', '\n')
	case kindArray:
		dst = appendCount(dst, '*', len(r.elems))
		for _, e := range r.elems {
			dst = appendReply(dst, e)
		}
		return dst
	}
	return append(dst, "$-1\r\n"...)
}

// FuzzReadReply compares what is read of bytes at hand with what is read as they trickle in, and reads what
// was read once more from how it is written.
func FuzzReadReply(f *testing.F) {
	f.Add([]byte("*3\r\n:-1\r\n$3\r\na\r\n\r\n*2\r\n+OK\r\n-ERR no\r\n"))
	f.Add([]byte("$-1\r\n*-1\r\n$20\r\nab"))
	f.Add([]byte("*1\r\n*1\r\n*1\r\n*16777216\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		whole := bytes.NewReader(b)
		r, err := readReply(bufio.NewReader(whole))
		slowly, errSlowly := readReply(bufio.NewReaderSize(iotest.OneByteReader(bytes.NewReader(b)), 64))
		// A line may be longer than the smaller buffer.
		if err == nil && errSlowly == nil && !reflect.DeepEqual(r, slowly) {
			t.Errorf("%q is %+v and %+v", b, r, slowly)
		}
		if err != nil {
			return
		}
		again, err := readReply(bufio.NewReader(io.MultiReader(bytes.NewReader(appendReply(nil, r)))))
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Errorf("%+v is written and read as %+v, %v", r, again, err)
		}
	})
}
