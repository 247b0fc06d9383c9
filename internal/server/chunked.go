package server

import (
	"math"
	"net/http"
)

// chunkedBody decodes a chunked body (RFC 9112, section 7.1) in place, in whatever pieces it comes. It
// accepts what the grammar accepts and nothing else; chunk extensions and trailers are checked and dropped.
// The zero value is at a body's beginning.
//
// Each byte is looked at once and only content is kept, so the cost of a body does not depend on how it is
// cut.
type chunkedBody struct {
	state    chunkState
	digits   uint8 // of the size at hand
	left     int   // content of the chunk at hand that is still to come
	size     int   // content so far
	overhead int   // all other bytes so far
	end      int   // where the body ends, once it is whole
	drop     bool  // content is not kept, and buf is all new
}

// chunkState is what the bytes so far are a beginning of.
type chunkState uint8

const (
	chunkStart        chunkState = iota
	chunkSize                    // before a size
	chunkInSize                  // in it
	chunkBeforeExt               // after white space that an extension must follow
	chunkExtName                 // after a semicolon
	chunkInExtName               // in an extension's name
	chunkAfterExtName            // after white space behind that
	chunkExtValue                // after an equals sign
	chunkInExtValue              // in a value that is a token
	chunkInQuotes                // in a value that is quoted
	chunkInEscape                // after a backslash in it
	chunkAfterQuotes             // after the closing quote
	chunkSizeLF                  // before the line feed of the size's line
	chunkContent                 // before content
	chunkContentCR               // before the CR LF behind it
	chunkContentLF               // before that line feed
	chunkTrailer                 // before a trailer or the empty line
	chunkTrailerName             // in a trailer's name
	chunkTrailerValue            // in its value
	chunkTrailerLF               // before its line feed
	chunkLastLF                  // before the line feed of the empty line
	chunkDone                    // after the body
	chunkStates
	chunkNone = chunkStart // follows what breaks the grammar
)

const (
	maxChunkDigits = 15
	// All that is not content may have overheadFree bytes, and overheadEach more for each byte of content:
	// twice what content in chunks of one byte needs.
	overheadFree = 16 << 10
	overheadEach = 10
)

var (
	errChunkSize = bad(
		"a chunk must begin with its size: at most 15 hexadecimal digits, then CR LF or an extension")
	errChunkExtension = bad(
		"a chunk extension must be: semicolon, name, and perhaps an equals sign and a value")
	errChunkEnd       = bad("a chunk's content must have as many bytes as its size says, then CR LF")
	errTrailer        = bad("a trailer must be: name, colon, value, CR LF")
	errChunkOverhead  = bad("the body has more chunk extensions and trailers than content")
	errContentTooLong = &parseError{http.StatusRequestEntityTooLarge, "the body is too long"}
)

// chunkNext holds the state after each byte in each state, and chunkErrors what is wrong where there is
// none. The line feed after a size is followed by content or, after size 0, by trailers.
var chunkNext, chunkErrors = func() (next [chunkStates][256]chunkState, errs [chunkStates]*parseError) {
	isHex := func(c byte) bool { return unhex(c) <= 15 }
	isToken := func(c byte) bool { return classes[c]&inToken != 0 }
	isBlank := func(c byte) bool { return c == ' ' || c == '\t' }
	isText := func(c byte) bool { return c >= ' ' && c != 0x7f || c == '\t' }
	is := func(b byte) func(byte) bool { return func(c byte) bool { return c == b } }
	// Of several transitions for one byte the last counts.
	type on struct {
		is func(byte) bool
		to chunkState
	}
	cr, nextExt := on{is('\r'), chunkSizeLF}, on{is(';'), chunkExtName}
	blank := on{isBlank, chunkBeforeExt}
	for _, s := range []struct {
		state chunkState
		err   *parseError
		on    []on
	}{
		{chunkSize, errChunkSize, []on{{isHex, chunkInSize}}},
		{chunkInSize, errChunkSize, []on{{isHex, chunkInSize}, blank, nextExt, cr}},
		{chunkBeforeExt, errChunkSize, []on{blank, nextExt}},
		{chunkExtName, errChunkExtension, []on{{isBlank, chunkExtName}, {isToken, chunkInExtName}}},
		{chunkInExtName, errChunkExtension, []on{{isToken, chunkInExtName}, {isBlank, chunkAfterExtName},
			{is('='), chunkExtValue}, nextExt, cr}},
		{chunkAfterExtName, errChunkExtension,
			[]on{{isBlank, chunkAfterExtName}, {is('='), chunkExtValue}, nextExt}},
		{chunkExtValue, errChunkExtension, []on{{isBlank, chunkExtValue}, {isToken, chunkInExtValue},
			{is('"'), chunkInQuotes}}},
		{chunkInExtValue, errChunkExtension, []on{{isToken, chunkInExtValue}, blank, nextExt, cr}},
		{chunkInQuotes, errChunkExtension, []on{{isText, chunkInQuotes}, {is('\\'), chunkInEscape},
			{is('"'), chunkAfterQuotes}}},
		{chunkInEscape, errChunkExtension, []on{{isText, chunkInQuotes}}},
		{chunkAfterQuotes, errChunkExtension, []on{blank, nextExt, cr}},
		{chunkSizeLF, errLineEnd, []on{{is('\n'), chunkContent}}},
		{chunkContentCR, errChunkEnd, []on{{is('\r'), chunkContentLF}}},
		{chunkContentLF, errChunkEnd, []on{{is('\n'), chunkSize}}},
		{chunkTrailer, errTrailer, []on{{isToken, chunkTrailerName}, {is('\r'), chunkLastLF}}},
		{chunkTrailerName, errTrailer, []on{{isToken, chunkTrailerName}, {is(':'), chunkTrailerValue}}},
		{chunkTrailerValue, errTrailer, []on{{isText, chunkTrailerValue}, {is('\r'), chunkTrailerLF}}},
		{chunkTrailerLF, errTrailer, []on{{is('\n'), chunkTrailer}}},
		{chunkLastLF, errTrailer, []on{{is('\n'), chunkDone}}},
	} {
		errs[s.state] = s.err
		for _, on := range s.on {
			for c := range 256 {
				if on.is(byte(c)) {
					next[s.state][c] = on.to
				}
			}
		}
	}
	return next, errs
}()

// decode goes on with the body that is at the start of buf: buf[:d.size] is content that was decoded
// before, what follows is new. All of it is taken, until the body is whole; then buf[:d.size] is its
// content, and it ends at buf[d.end]. A size that leads beyond limit is refused before its content comes.
func (d *chunkedBody) decode(buf []byte, limit int) *parseError {
	if d.state == chunkStart {
		d.state = chunkSize
	}
	i := d.size
	if d.drop {
		i = 0
	}
	for i < len(buf) && d.state != chunkDone {
		if d.state == chunkContent {
			n := min(d.left, len(buf)-i)
			if !d.drop {
				copy(buf[d.size:], buf[i:i+n])
			}
			d.size += n
			i += n
			if d.left -= n; d.left == 0 {
				d.state = chunkContentCR
			}
			continue
		}
		c := buf[i]
		i++
		if d.overhead++; d.overhead > overheadFree+overheadEach*d.size {
			return errChunkOverhead
		}
		next := chunkNext[d.state][c]
		switch next {
		case chunkNone:
			return chunkErrors[d.state]
		case chunkSize:
			d.digits = 0
		case chunkInSize:
			if d.digits++; d.digits > maxChunkDigits {
				return errChunkSize
			}
			d.left = d.left<<4 | int(unhex(c))
		case chunkContent:
			if d.left > limit-d.size {
				return errContentTooLong
			}
			if d.left == 0 {
				next = chunkTrailer
			}
		case chunkDone:
			d.end = i
		}
		d.state = next
	}
	return nil
}

// done reports whether the body is whole.
func (d *chunkedBody) done() bool { return d.state == chunkDone }

// ChunkScanner finds the end of a chunked body whose content nobody wants, as a client does. The zero value
// is at a body's beginning.
type ChunkScanner struct{ body chunkedBody }

// Scan takes the body's next bytes, and returns how many of them are part of it and whether it is whole; then
// the scanner is at another one's beginning. An error says what breaks the grammar.
func (s *ChunkScanner) Scan(p []byte) (n int, whole bool, err error) {
	d := &s.body
	d.drop = true
	if err := d.decode(p, math.MaxInt); err != nil {
		return 0, false, err
	}
	if !d.done() {
		return len(p), false, nil
	}
	n, *d = d.end, chunkedBody{}
	return n, true, nil
}
