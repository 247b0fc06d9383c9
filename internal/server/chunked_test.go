package server

import (
	"bytes"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const (
	chunkToken = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
)

var (
	chunkLine = regexp.MustCompile("^([0-9A-Fa-f]{1,15})(?:[ \t]*;[ \t]*" + chunkToken +
		"(?:[ \t]*=[ \t]*(?:" + chunkToken +
		`|"(?:[\t !\x23-\x5b\x5d-\x7e\x{80}-\x{ff}]|\\` + `[\t \x21-\x7e\x{80}-\x{ff}])*"))?)*` + "\r\n")
	trailerLine = regexp.MustCompile("^" + chunkToken + `:[\t \x21-\x7e\x{80}-\x{ff}]*` + "\r\n")
)

// latin1 makes one rune of each byte, as regular expressions see runes.
func latin1(b []byte) string {
	runes := make([]rune, len(b))
	for i, c := range b {
		runes[i] = rune(c)
	}
	return string(runes)
}

// bytesIn returns the number of bytes that latin1 made s of.
func bytesIn(s string) int { return len([]rune(s)) }

// plainChunked is what chunkedBody does, on a whole body: it returns the content and where the body ends; ok
// is false for what is not a whole body by the grammar.
func plainChunked(b []byte) (content []byte, end int, ok bool) {
	for {
		line := chunkLine.FindStringSubmatch(latin1(b[end:]))
		if line == nil {
			return nil, 0, false
		}
		end += bytesIn(line[0])
		n, err := strconv.ParseInt(line[1], 16, 64)
		if err != nil {
			return nil, 0, false
		}
		if n == 0 {
			break
		}
		if n > int64(len(b)-end-2) || string(b[end+int(n):end+int(n)+2]) != "\r\n" {
			return nil, 0, false
		}
		content = append(content, b[end:end+int(n)]...)
		end += int(n) + 2
	}
	for {
		if bytes.HasPrefix(b[end:], []byte("\r\n")) {
			return content, end + 2, true
		}
		line := trailerLine.FindString(latin1(b[end:]))
		if line == "" {
			return nil, 0, false
		}
		end += bytesIn(line)
	}
}

// decodePieces decodes raw as it would come in pieces, and returns the content and how many bytes of raw the
// body has; done is false for a body that has not wholly come.
func decodePieces(raw []byte, limit int, piece func(left int) int) (content []byte, size int,
	done bool, err *parseError) {
	var d chunkedBody
	var buf []byte
	for seen := 0; ; {
		if seen == len(raw) {
			return buf[:d.size], seen, false, nil
		}
		n := piece(len(raw) - seen)
		buf = append(buf[:d.size], raw[seen:seen+n]...)
		seen += n
		if err := d.decode(buf, limit); err != nil {
			return nil, 0, false, err
		}
		if d.done() {
			return buf[:d.size], seen - (len(buf) - d.end), true, nil
		}
	}
}

func whole(left int) int { return left }

var chunkedBodies = []struct {
	name, raw, content string
	rest               int // bytes behind the body
}{
	{"empty", "0\r\n\r\n", "", 0},
	{"one chunk", "5\r\nhello\r\n0\r\n\r\n", "hello", 0},
	{"several chunks", "5\r\nhello\r\n1\r\n \r\nA\r\n0123456789\r\n0\r\n\r\n", "hello 0123456789", 0},
	{"digits of both cases, zeros before them", "00a\r\n0123456789\r\n0B\r\n0123456789a\r\n000\r\n\r\n",
		"01234567890123456789a", 0},
	{"content that looks like chunks", "d\r\n0\r\n\r\nGET / \r\n\r\n0\r\n\r\n", "0\r\n\r\nGET / \r\n", 0},
	{"another request behind it", "1\r\nx\r\n0\r\n\r\nGET /", "x", 5},
	{"extension without a value", "1;a\r\nx\r\n0;b\r\n\r\n", "x", 0},
	{"extension with a value", "1;a=b\r\nx\r\n0;c=d\r\n\r\n", "x", 0},
	{"extension with a quoted value", "1;a=\"b; \\\"c\\\\\t\xff\"\r\nx\r\n0\r\n\r\n", "x", 0},
	{"empty quoted value", "1;a=\"\"\r\nx\r\n0\r\n\r\n", "x", 0},
	{"several extensions", "1;a;b=c;d=\"e\";f\r\nx\r\n0\r\n\r\n", "x", 0},
	{"white space around semicolon and equals sign", "1 \t; a =\tb ; c = \"d\" ;e\r\nx\r\n0\r\n\r\n", "x", 0},
	{"trailers", "1\r\nx\r\n0\r\nA: b\r\nC:\r\nD:\te\xff\r\n\r\n", "x", 0},
	{"trailers that would mean something in a head",
		"1\r\nx\r\n0\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "x", 0},
}

var brokenChunkedBodies = []struct{ name, raw string }{
	{"no size", "\r\nx\r\n0\r\n\r\n"},
	{"extension without a size", ";a\r\nx\r\n0\r\n\r\n"},
	{"size that is no number", "x\r\nx\r\n0\r\n\r\n"},
	{"size with a sign", "+1\r\nx\r\n0\r\n\r\n"},
	{"negative size", "-1\r\nx\r\n0\r\n\r\n"},
	{"size with 0x", "0x1\r\nx\r\n0\r\n\r\n"},
	{"size with an underscore", "1_0\r\nx\r\n0\r\n\r\n"},
	{"size with a point", "1.0\r\nx\r\n0\r\n\r\n"},
	{"size of 16 digits", "ffffffffffffffff\r\nx\r\n0\r\n\r\n"},
	{"size of 17 digits", "ffffffffffffffff1\r\nx\r\n0\r\n\r\n"},
	{"zeros without an end", "0000000000000001\r\nx\r\n0\r\n\r\n"},
	{"white space before a size", " 1\r\nx\r\n0\r\n\r\n"},
	{"space after a size", "1 \r\nx\r\n0\r\n\r\n"},
	{"tab after a size", "1\t\r\nx\r\n0\r\n\r\n"},
	{"two numbers", "1 1\r\nx\r\n0\r\n\r\n"},
	{"line feed without CR after a size", "1\nx\r\n0\r\n\r\n"},
	{"CR without line feed after a size", "1\rx\r\n0\r\n\r\n"},
	{"two CRs after a size", "1\r\r\nx\r\n0\r\n\r\n"},
	{"semicolon alone", "1;\r\nx\r\n0\r\n\r\n"},
	{"two semicolons", "1;;a\r\nx\r\n0\r\n\r\n"},
	{"extension that ends with a semicolon", "1;a=b;\r\nx\r\n0\r\n\r\n"},
	{"extension whose name is no token", "1;a@b\r\nx\r\n0\r\n\r\n"},
	{"extension without a name", "1;=b\r\nx\r\n0\r\n\r\n"},
	{"extension with an equals sign and no value", "1;a=\r\nx\r\n0\r\n\r\n"},
	{"extension whose value is no token", "1;a=b,c\r\nx\r\n0\r\n\r\n"},
	{"extension with NUL", "1;a\x00\r\nx\r\n0\r\n\r\n"},
	{"extension with a control byte", "1;a=\x01\r\nx\r\n0\r\n\r\n"},
	{"quoted value with a control byte", "1;a=\"\x01\"\r\nx\r\n0\r\n\r\n"},
	{"quoted value with CR LF", "1;a=\"\r\n\"\r\nx\r\n0\r\n\r\n"},
	{"quoted value without an end", "1;a=\"b\r\nx\r\n0\r\n\r\n"},
	{"word after a quoted value", "1;a=\"b\"c\r\nx\r\n0\r\n\r\n"},
	{"white space after an extension", "1;a \r\nx\r\n0\r\n\r\n"},
	{"white space after a value", "1;a=b \r\nx\r\n0\r\n\r\n"},
	{"line feed without CR in an extension", "1;a\nx\r\n0\r\n\r\n"},
	{"CR within an extension", "1;a\rb\r\nx\r\n0\r\n\r\n"},
	{"more content than the size says", "1\r\nxy\r\n0\r\n\r\n"},
	{"less content than the size says", "3\r\nx\r\n0\r\n\r\n"},
	{"line feed without CR after content", "1\r\nx\n0\r\n\r\n"},
	{"CR without line feed after content", "1\r\nx\r0\r\n\r\n"},
	{"nothing between content and the next size", "1\r\nx0\r\n\r\n"},
	{"line feed alone at the end", "1\r\nx\r\n0\r\n\n"},
	{"CR alone at the end", "1\r\nx\r\n0\r\n\rGET"},
	{"trailer without a colon", "1\r\nx\r\n0\r\nA\r\n\r\n"},
	{"trailer without a name", "1\r\nx\r\n0\r\n: b\r\n\r\n"},
	{"trailer with white space before the colon", "1\r\nx\r\n0\r\nA : b\r\n\r\n"},
	{"trailer that is folded", "1\r\nx\r\n0\r\nA: b\r\n c\r\n\r\n"},
	{"trailer with NUL", "1\r\nx\r\n0\r\nA: \x00\r\n\r\n"},
	{"trailer with a CR", "1\r\nx\r\n0\r\nA: b\rC: d\r\n\r\n"},
	{"trailer with a line feed", "1\r\nx\r\n0\r\nA: b\nC: d\r\n\r\n"},
	{"a request in place of trailers", "1\r\nx\r\n0\r\nGET / HTTP/1.1\r\n\r\n"},
}

func TestChunkedBodiesAreDecodedHoweverTheyAreCut(t *testing.T) {
	for _, c := range chunkedBodies {
		for name, piece := range map[string]func(int) int{"whole": whole, "byte by byte": func(int) int {
			return 1
		}} {
			content, size, done, err := decodePieces([]byte(c.raw), 100, piece)
			if err != nil || !done || string(content) != c.content || size != len(c.raw)-c.rest {
				t.Errorf("%s, %s: got %q of %d bytes, done %t, %v; want %q of %d", c.name, name, content,
					size, done, err, c.content, len(c.raw)-c.rest)
			}
		}
		for cut := range len(c.raw) - c.rest {
			if _, _, done, err := decodePieces([]byte(c.raw[:cut]), 100, whole); done || err != nil {
				t.Errorf("%s: the first %d bytes: done %t, %v", c.name, cut, done, err)
			}
		}
	}
}

func TestChunkedBodiesThatBreakTheGrammarAreRefused(t *testing.T) {
	for _, c := range brokenChunkedBodies {
		content, _, done, err := decodePieces([]byte(c.raw), 100, whole)
		if err == nil || err.status != 400 {
			t.Errorf("%s: got %q, done %t, %v; want a 400", c.name, content, done, err)
		}
	}
}

func TestAChunkThatLeadsBeyondTheLimitIsRefusedBeforeItComes(t *testing.T) {
	for raw, tooLong := range map[string]bool{
		"a\r\n":                        false,
		"b\r\n":                        true,
		"fffffffffffffff\r\n":          true,
		"5\r\nhello\r\n5\r\n":          false,
		"5\r\nhello\r\n6\r\n":          true,
		"a\r\n0123456789\r\n0\r\n\r\n": false,
		"a\r\n0123456789\r\n1\r\n":     true,
	} {
		_, _, _, err := decodePieces([]byte(raw), 10, whole)
		if tooLong && (err == nil || err.status != 413) || !tooLong && err != nil {
			t.Errorf("%q: got %v", raw, err)
		}
	}
}

func TestExtensionsAndTrailersAreBounded(t *testing.T) {
	long := strings.Repeat("e", overheadFree)
	for name, raw := range map[string]string{
		"one extension":   "1;" + long + "\r\nx\r\n0\r\n\r\n",
		"many extensions": strings.Repeat("1;"+long[:100]+"\r\nx\r\n", overheadFree/50) + "0\r\n\r\n",
		"one trailer":     "0\r\nA: " + long + "\r\n\r\n",
		"many trailers":   "0\r\n" + strings.Repeat("A: b\r\n", overheadFree/6) + "\r\n",
	} {
		if _, _, done, err := decodePieces([]byte(raw), 1<<20, whole); err != errChunkOverhead {
			t.Errorf("%s: done %t, %v", name, done, err)
		}
	}
	// What clients really send: content byte by byte, and signed chunks.
	for name, raw := range map[string]string{
		"content byte by byte": strings.Repeat("1\r\nx\r\n", 100_000) + "0\r\n\r\n",
		"signed chunks": strings.Repeat("400;chunk-signature="+long[:64]+"\r\n"+long[:0x400]+"\r\n",
			500) + "0\r\n\r\n",
	} {
		if _, _, done, err := decodePieces([]byte(raw), 1<<20, whole); err != nil || !done {
			t.Errorf("%s: done %t, %v", name, done, err)
		}
	}
}

// In whatever pieces a body comes, the decoder takes what the plain reference takes of the whole.
func FuzzChunkedBody(f *testing.F) {
	for i, c := range chunkedBodies {
		f.Add([]byte(c.raw), uint64(i))
	}
	for i, c := range brokenChunkedBodies {
		f.Add([]byte(c.raw), uint64(i))
	}
	f.Fuzz(func(t *testing.T, raw []byte, seed uint64) {
		if len(raw) > 1<<10 {
			return
		}
		rnd := rand.New(rand.NewPCG(seed, 0))
		want, end, ok := plainChunked(raw)
		got, size, done, err := decodePieces(raw, 1<<20, func(left int) int { return 1 + rnd.IntN(left) })
		if ok != (done && err == nil) {
			t.Fatalf("done %t, %v; the reference accepts %t", done, err, ok)
		}
		if ok && (!bytes.Equal(got, want) || size != end) {
			t.Fatalf("got %q of %d bytes; the reference %q of %d", got, size, want, end)
		}
	})
}
