package mock

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// sound says what a strict reader thinks of a document.
func sound(f Format, body []byte) error {
	if !utf8.Valid(body) {
		return errors.New("invalid UTF-8")
	}
	if f == JSON {
		if !json.Valid(body) {
			return errors.New("invalid JSON")
		}
		return nil
	}
	if !bytes.HasPrefix(body, []byte("<?xml")) {
		return errors.New("does not begin with an XML declaration")
	}
	d := xml.NewDecoder(bytes.NewReader(body))
	elements := 0
	for {
		t, err := d.Token()
		if err == io.EOF {
			if elements == 0 {
				return errors.New("has no element")
			}
			return nil
		}
		if err != nil {
			return err
		}
		if e, ok := t.(xml.StartElement); ok {
			elements++
			if e.Name.Space != "" && !strings.Contains(e.Name.Space, ":") {
				return errors.New("a prefix that is not declared: " + e.Name.Space)
			}
		}
	}
}

func TestMalformedFeedsAreMalformedAndOthersAreNot(t *testing.T) {
	s := stepped(t)
	wellFormed := map[Damage]bool{undamaged: true, dates: true, guids: true, mistyped: true,
		miscoded: true, cut: true}
	for i := range damages {
		d := Damage(i)
		for f := range formats {
			if f == JSON && !damages[i].json {
				continue
			}
			for seed := range uint64(12) {
				p := page0(seed, f)
				p.damage = d
				err := sound(f, s.render(p).body)
				if (err == nil) != wellFormed[d] {
					t.Errorf("%s.%s, seed %d: a strict reader says %v", damages[i].name, formatNames[f], seed,
						err)
				}
			}
		}
	}
}

func TestDatesAndIdsCanBeWrongInSoundFeeds(t *testing.T) {
	for f := range formats {
		p := page0(3, f)
		p.damage = dates
		parsed := parse(t, string(feed(p, 60)))
		for i, it := range parsed.Items {
			if it.PublishedParsed != nil || (it.Published == "") != (i%4 == 3) {
				t.Errorf("%s: item %d has the date %q, understood as %v", formatNames[f], i, it.Published,
					it.PublishedParsed)
			}
		}
		p.damage = guids
		same, none := 0, 0
		for _, it := range parse(t, string(feed(p, 60))).Items {
			switch it.GUID {
			case "tag:example.org,2026:the-same":
				same++
			case "":
				none++
			}
		}
		if same != 15 || none != 5 {
			t.Errorf("%s: %d items with the same id, %d without", formatNames[f], same, none)
		}
	}
}

func TestEveryDamageReachesTheClient(t *testing.T) {
	ways(t, func(t *testing.T, start func(*Server) string) {
		s := stepped(t)
		url := start(s)
		fine := get(t, url+"/feed/5.rss").body
		for i := 1; i < len(damages); i++ {
			name := damages[i].name
			if Damage(i) == cut {
				continue // below
			}
			for f := range formats {
				if f == JSON && !damages[i].json {
					get(t, url+"/feed/5.json?malformed="+name).want(t, 400, "malformed must not be "+name)
					continue
				}
				r := get(t, url+"/feed/5."+formatNames[f]+"?malformed="+name).want(t, 200)
				if r.body == fine && Damage(i) != mistyped && Damage(i) != miscoded {
					t.Errorf("%s: the feed is as it should be", name)
				}
				typ, coding := r.header.Get("Content-Type"), r.header.Get("Content-Encoding")
				switch Damage(i) {
				case mistyped:
					if typ != "application/octet-stream" {
						t.Errorf("%s: %s", name, typ)
					}
				case html:
					if typ != "text/html; charset=utf-8" {
						t.Errorf("%s: %s", name, typ)
					}
				case miscoded:
					if coding != "gzip" {
						t.Errorf("%s: %s", name, coding)
					}
				default:
					if !strings.HasPrefix(typ, contentTypes[f]) || coding != "" {
						t.Errorf("%s: %s %s", name, typ, coding)
					}
				}
			}
		}
		if got := s.Stats().Malformed["bomb"]; got != 2 {
			t.Errorf("%d bombs counted, want 2", got)
		}
		// Defaults that JSON cannot have leave JSON as it is.
		k := s.Knobs()
		k.Malformed = bomb
		if err := s.SetKnobs(k); err != nil {
			t.Fatal(err)
		}
		if err := sound(JSON, []byte(get(t, url+"/feed/5.json").want(t, 200).body)); err != nil {
			t.Error(err)
		}
	})
}

func TestCutEndsTheConnectionInTheBody(t *testing.T) {
	ways(t, func(t *testing.T, start func(*Server) string) {
		s := stepped(t)
		url := start(s)
		fine := get(t, url+"/feed/5.rss")
		for _, query := range []string{"?malformed=cut", "?malformed=cut:1&items=20"} {
			resp, err := client.Get(url + "/feed/5.rss" + query)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("the body ends with %v after %d bytes", err, len(body))
			}
			if resp.ContentLength != int64(len(fine.body)) || string(body) != fine.body[:len(fine.body)/2] {
				t.Errorf("%d bytes of %d, want half of %d", len(body), resp.ContentLength, len(fine.body))
			}
		}
		if got := s.Stats().Malformed["cut"]; got != 2 {
			t.Errorf("%d cut, want 2", got)
		}
		// What has no body has nothing to be cut.
		if r := ask(t, "HEAD", url+"/feed/5.rss?malformed=cut", ""); r.status != http.StatusOK {
			t.Errorf("HEAD: %d", r.status)
		}
		get(t, url+"/feed/5.rss?malformed=cut", "If-None-Match: *").want(t, 304)
	})
}

// What a strict decoder of each charset refuses; Go's take bytes that Microsoft's tables leave out for
// control characters.
func TestInvalidBytesAreNoCharactersOfTheCharset(t *testing.T) {
	s := stepped(t)
	for i := range charsets {
		c := &charsets[i]
		k := Defaults()
		k.Charset, k.Malformed = Charset(i), invalid
		if err := k.together(); (err == nil) != (c.invalid != "") {
			t.Errorf("%s with invalid bytes %q: %v", c.name, c.invalid, err)
		}
		if c.invalid == "" {
			for b := 0xa0; b < 0x100; b++ { // below are control characters, by IANA
				if text, err := c.encoding.NewDecoder().Bytes([]byte{byte(b)}); err != nil ||
					bytes.ContainsRune(text, utf8.RuneError) {
					t.Errorf("%s has no character %#x", c.name, b)
				}
			}
			continue
		}
		for _, f := range []Format{RSS, Atom} {
			p := page0(3, f)
			p.charset = Charset(i)
			fine := s.render(p).body
			p.damage = invalid
			body := s.render(p).body
			at := bytes.Index(body, []byte(c.invalid))
			if len(body) != len(fine)+len(c.invalid) || at < 0 ||
				!bytes.Equal(slices.Concat(body[:at], body[at+len(c.invalid):]), fine) {
				t.Errorf("%s.%s: the feed is not the sound one with %q in it", c.name, formatNames[f],
					c.invalid)
			}
		}
		if c.encoding == nil {
			continue
		}
		text, err := c.encoding.NewDecoder().Bytes([]byte(c.invalid + "\x00a"))
		if err == nil && !bytes.ContainsRune(text, utf8.RuneError) &&
			!strings.ContainsFunc(string(text), unicode.IsControl) {
			t.Errorf("%s: %q is read as %q", c.name, c.invalid, text)
		}
	}
}
