package mock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Knobs say how feeds are made and answered. Set changes one by its name, which is the parameter's, the
// flag's and the member's in JSON.
type Knobs struct {
	Items         int           // of a feed
	Body          int           // characters of an item's text, on average
	Delay, Jitter time.Duration // before an answer: Delay and up to Jitter more
	Trickle       time.Duration // how long a body takes, from the head to the last byte
	Hang, Error   float64       // shares of the requests that are never answered, and answered with Status
	Status        int
	Retry         time.Duration // in Retry-After of 429 and 503; 0 says nothing
	Redirects     int           // of a chain; 0 is one without an end
	Location      string        // where redirects lead; "" is the same feed
	Gzip, Brotli  Coding
	ETag          Tag
	LastModified  bool
	TTL           time.Duration // in Cache-Control and in RSS; 0 says nothing
	Churn         float64       // items that come with a step
	Charset       Charset
	Malformed     Damage
	Share         float64 // of the answers that are malformed
}

// Defaults returns a healthy upstream: 20 items that stay, at once.
func Defaults() Knobs {
	return Knobs{Items: 20, Body: 400, Status: 500, Retry: time.Second, Redirects: 1, Gzip: Auto,
		Brotli: Auto, ETag: Strong, LastModified: true, Share: 1}
}

// Coding says when answers are compressed in one way.
type Coding uint8

const (
	Auto   Coding = iota // when the client accepts it
	Never                // whatever it accepts
	Always               // also when it does not
)

// Tag says what ETag answers have.
type Tag uint8

const (
	Strong Tag = iota
	Weak
	None
)

const (
	mostItems = 10_000
	mostBody  = 100_000
	mostText  = 8 << 20 // characters of all items
	mostTime  = 10 * time.Minute
	mostTTL   = 365 * 24 * time.Hour
	mostChurn = 1000
	mostHops  = 1000
	mostURL   = 2000
)

// knob is how one of them is read and shown.
type knob struct {
	name, usage, expects string
	set                  func(*Knobs, string) bool
	show                 func(*Knobs) string
	word                 bool // shown in quotes in JSON
}

var codings, tags = []string{"auto", "off", "always"}, []string{"strong", "weak", "off"}

var table = [...]knob{
	{name: "items", usage: "items of a feed", expects: "a whole number from 0 to 10000",
		set:  func(k *Knobs, v string) bool { return whole(&k.Items, v, 0, mostItems) },
		show: func(k *Knobs) string { return strconv.Itoa(k.Items) }},
	{name: "body", usage: "characters of an item's text, on average",
		expects: "a whole number from 0 to 100000",
		set:     func(k *Knobs, v string) bool { return whole(&k.Body, v, 0, mostBody) },
		show:    func(k *Knobs) string { return strconv.Itoa(k.Body) }},
	{name: "delay", usage: "how long every answer is held back",
		expects: "a duration from 0s to 10m, such as 50ms",
		set:     func(k *Knobs, v string) bool { return duration(&k.Delay, v, mostTime) },
		show:    func(k *Knobs) string { return k.Delay.String() }, word: true},
	{name: "jitter", usage: "how much longer it is held back at most",
		expects: "a duration from 0s to 10m, such as 50ms",
		set:     func(k *Knobs, v string) bool { return duration(&k.Jitter, v, mostTime) },
		show:    func(k *Knobs) string { return k.Jitter.String() }, word: true},
	{name: "trickle", usage: "how long the body of a feed takes to come, piece by piece",
		expects: "a duration from 0s to 10m, such as 5s",
		set:     func(k *Knobs, v string) bool { return duration(&k.Trickle, v, mostTime) },
		show:    func(k *Knobs) string { return k.Trickle.String() }, word: true},
	{name: "hang", usage: "share of the requests that are never answered",
		expects: "a probability from 0 to 1",
		set:     func(k *Knobs, v string) bool { return share(&k.Hang, v, 1) },
		show:    func(k *Knobs) string { return number(k.Hang) }},
	{name: "error", usage: "share of the requests that are answered with --status",
		expects: "a probability from 0 to 1",
		set:     func(k *Knobs, v string) bool { return share(&k.Error, v, 1) },
		show:    func(k *Knobs) string { return number(k.Error) }},
	{name: "status", usage: "status of errors; in a URL without error, that of every answer",
		expects: "a status from 200 to 599",
		set:     func(k *Knobs, v string) bool { return whole(&k.Status, v, 200, 599) },
		show:    func(k *Knobs) string { return strconv.Itoa(k.Status) }},
	{name: "retry", usage: "Retry-After of 429 and 503, in seconds; 0s says nothing",
		expects: "a duration from 0s to 8760h, such as 2m",
		set:     func(k *Knobs, v string) bool { return duration(&k.Retry, v, mostTTL) },
		show:    func(k *Knobs) string { return k.Retry.String() }, word: true},
	{name: "redirects", usage: "redirects one after another, where --status is one; 0 never ends",
		expects: "a whole number from 0 to 1000",
		set:     func(k *Knobs, v string) bool { return whole(&k.Redirects, v, 0, mostHops) },
		show:    func(k *Knobs) string { return strconv.Itoa(k.Redirects) }},
	{name: "location", usage: "where redirects lead; empty is to the same feed",
		expects: "a URL or a path, at most 2000 characters",
		set:     func(k *Knobs, v string) bool { return reference(&k.Location, v) },
		show:    func(k *Knobs) string { return k.Location }, word: true},
	{name: "gzip", usage: "when answers are compressed with gzip: auto, off or always",
		expects: "auto, off or always",
		set:     func(k *Knobs, v string) bool { return choice(&k.Gzip, v, codings, 0, 1) },
		show:    func(k *Knobs) string { return codings[k.Gzip] }, word: true},
	{name: "br", usage: "when answers are compressed with Brotli: auto, off or always",
		expects: "auto, off or always",
		set:     func(k *Knobs, v string) bool { return choice(&k.Brotli, v, codings, 0, 1) },
		show:    func(k *Knobs) string { return codings[k.Brotli] }, word: true},
	{name: "etag", usage: "which ETag answers have: strong, weak or off", expects: "strong, weak or off",
		set:  func(k *Knobs, v string) bool { return choice(&k.ETag, v, tags, 0, 2) },
		show: func(k *Knobs) string { return tags[k.ETag] }, word: true},
	{name: "lastmod", usage: "whether answers have Last-Modified: on or off", expects: "on or off",
		set: func(k *Knobs, v string) bool {
			var off uint8
			ok := choice(&off, v, onOff, 0, 1)
			if ok {
				k.LastModified = off == 0
			}
			return ok
		},
		show: func(k *Knobs) string {
			if k.LastModified {
				return "on"
			}
			return "off"
		}, word: true},
	{name: "ttl", usage: "how long clients are told to keep a feed; 0s says nothing",
		expects: "a duration from 0s to 8760h, such as 15m",
		set:     func(k *Knobs, v string) bool { return duration(&k.TTL, v, mostTTL) },
		show:    func(k *Knobs) string { return k.TTL.String() }, word: true},
	{name: "churn", usage: "items that come with a step of the clock; 0.1 is one in ten steps",
		expects: "a number from 0 to 1000",
		set:     func(k *Knobs, v string) bool { return share(&k.Churn, v, mostChurn) },
		show:    func(k *Knobs) string { return number(k.Churn) }},
	{name: "charset", usage: "how XML is encoded; JSON is UTF-8 always", expects: "one of " +
		strings.Join(charsetNames(), ", "),
		set: func(k *Knobs, v string) bool {
			for i := range charsets {
				if strings.EqualFold(charsets[i].name, v) {
					k.Charset = Charset(i)
					return true
				}
			}
			return false
		},
		show: func(k *Knobs) string { return charsets[k.Charset].name }, word: true},
	{name: "malformed", usage: "what is wrong with answers, such as truncated, or truncated:0.1 for one in " +
		"ten",
		expects: "off or one of " + strings.Join(damageNames(), ", ") +
			", or one with a probability, such as truncated:0.1",
		set: func(k *Knobs, v string) bool {
			name, chance, given := strings.Cut(v, ":")
			p := 1.0
			if given && !share(&p, chance, 1) {
				return false
			}
			for i := range damages {
				if damages[i].name == name && (i > 0 || !given) {
					k.Malformed, k.Share = Damage(i), p
					return true
				}
			}
			return false
		},
		show: func(k *Knobs) string {
			if k.Malformed == 0 || k.Share == 1 {
				return damages[k.Malformed].name
			}
			return damages[k.Malformed].name + ":" + number(k.Share)
		}, word: true},
}

var onOff = []string{"on", "off"}

// Names returns the names of all knobs.
func Names() []string {
	names := make([]string, len(table))
	for i := range table {
		names[i] = table[i].name
	}
	return names
}

// find returns the index of a knob, -1 if there is none of the name.
func find(name []byte) int {
	for i := range table {
		if table[i].name == string(name) {
			return i
		}
	}
	return -1
}

// wrong is the error about a value.
func (k *knob) wrong(value string) error {
	return fmt.Errorf("%s must be %s, got %.60q", k.name, k.expects, value)
}

func unknown(name string) error {
	return fmt.Errorf("there is no knob %.60q; there are %s", name, strings.Join(Names(), ", "))
}

// Set changes the knob of a name. The error says what is expected.
func (k *Knobs) Set(name, value string) error {
	i := find([]byte(name))
	if i < 0 {
		return unknown(name)
	}
	if !table[i].set(k, value) {
		return table[i].wrong(value)
	}
	return nil
}

// check refuses what cannot be, whoever made it.
func (k *Knobs) check() error {
	if uint(k.Gzip) >= uint(len(codings)) || uint(k.Brotli) >= uint(len(codings)) ||
		uint(k.ETag) >= uint(len(tags)) ||
		uint(k.Charset) >= uint(len(charsets)) || uint(k.Malformed) >= uint(len(damages)) {
		return fmt.Errorf("gzip, br, etag, charset and malformed must be constants of this package")
	}
	again := *k
	for i := range table {
		if v := table[i].show(k); !table[i].set(&again, v) {
			return table[i].wrong(v)
		}
	}
	return k.together()
}

// together refuses knobs that cannot be at the same time.
func (k *Knobs) together() error {
	switch {
	case k.Items*k.Body > mostText:
		return fmt.Errorf("items times body must be at most %d, got %d times %d", mostText, k.Items, k.Body)
	case k.Gzip == Always && k.Brotli == Always:
		return fmt.Errorf("gzip and br cannot both be always: choose one")
	case k.Malformed == invalid && charsets[k.Charset].invalid == "":
		return fmt.Errorf("malformed must not be invalid in %s, of which every byte is a character: choose "+
			"another charset", charsets[k.Charset].name)
	}
	return nil
}

// MarshalJSON writes an object with a member for each knob.
func (k Knobs) MarshalJSON() ([]byte, error) {
	dst := []byte{'{'}
	for i := range table {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendQuote(dst, table[i].name)
		dst = append(dst, ':')
		if v := table[i].show(&k); table[i].word {
			dst = strconv.AppendQuote(dst, v)
		} else {
			dst = append(dst, v...)
		}
	}
	return append(dst, '}'), nil
}

// UnmarshalJSON changes the knobs that an object has members for, or none when one of them is wrong.
func (k *Knobs) UnmarshalJSON(data []byte) error {
	changed := *k
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf(`knobs must be a JSON object, such as {"delay":"50ms","error":0.01}`)
	}
	given := 0
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		i := find([]byte(name.(string)))
		if i < 0 {
			return unknown(name.(string))
		}
		if given&(1<<i) != 0 {
			return fmt.Errorf("%s is given twice", table[i].name)
		}
		given |= 1 << i
		v, err := d.Token()
		if err != nil {
			return err
		}
		text := fmt.Sprint(v)
		switch v.(type) {
		case string, json.Number, bool:
		default:
			return fmt.Errorf("%s must be %s", table[i].name, table[i].expects)
		}
		if !table[i].set(&changed, text) {
			return table[i].wrong(text)
		}
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("there must be nothing after the object")
	}
	if err := changed.together(); err != nil {
		return err
	}
	*k = changed
	return nil
}

// AddFlags adds a flag for every knob, with its present value as the default.
func (k *Knobs) AddFlags(f *pflag.FlagSet) {
	for i := range table {
		f.Var(&flag{k, &table[i]}, table[i].name, table[i].usage)
	}
}

// flag is a knob as a flag.
type flag struct {
	knobs *Knobs
	knob  *knob
}

func (f *flag) String() string { return f.knob.show(f.knobs) }
func (f *flag) Type() string   { return "value" }
func (f *flag) Set(v string) error {
	if !f.knob.set(f.knobs, v) {
		return fmt.Errorf("expected %s", f.knob.expects)
	}
	return nil
}

// The readers below change nothing and return false when v is not what they are for. They are on the way of
// every request with parameters, and do not allocate.

func whole(to *int, v string, least, most int) bool {
	n := 0
	if len(v) == 0 || len(v) > 9 {
		return false
	}
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return false
		}
		n = 10*n + int(v[i]-'0')
	}
	if n < least || n > most {
		return false
	}
	*to = n
	return true
}

func duration(to *time.Duration, v string, most time.Duration) bool {
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 || d > most {
		return false
	}
	*to = d
	return true
}

func share(to *float64, v string, most float64) bool {
	if len(v) == 0 || v[0] != '.' && (v[0] < '0' || v[0] > '9') { // no sign, no Inf, no NaN
		return false
	}
	p, err := strconv.ParseFloat(v, 64)
	if err != nil || !(p >= 0 && p <= most) {
		return false
	}
	*to = p
	return true
}

// reference takes what can stand in Location.
func reference(to *string, v string) bool {
	if _, err := url.Parse(v); err != nil || len(v) > mostURL ||
		strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return false
	}
	*to = v
	return true
}

// choice takes one of names, or what stands for yes and no, which are the indexes on and off.
func choice[T ~uint8](to *T, v string, names []string, on, off T) bool {
	for i, name := range names {
		if v == name {
			*to = T(i)
			return true
		}
	}
	switch v {
	case "1", "true", "on":
		*to = on
	case "0", "false", "off":
		*to = off
	default:
		return false
	}
	return true
}

func number(p float64) string { return strconv.FormatFloat(p, 'g', -1, 64) }
