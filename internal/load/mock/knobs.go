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

// mostText is how many characters all items of a feed may have.
const mostText = 8 << 20

// knob is one of them: what it is for, what it takes, and where it is.
type knob struct {
	name, usage, expects string
	at                   func(*Knobs) any // a pointer
	least, most          float64          // of numbers; of durations, most in seconds
	words                []string         // of a choice, by number: the word that is shown, and others for it
}

var (
	codings = []string{"auto on 1 true", "off 0 false", "always"}
	tags    = []string{"strong on 1 true", "weak", "off 0 false"}
	onOff   = []string{"off 0 false", "on 1 true"}
)

const (
	wait        = "a duration from 0s to 10m, such as 50ms"
	probability = "a probability from 0 to 1"
	tenMinutes  = 600
	year        = 365 * 24 * 3600
)

var table = [...]knob{
	{name: "items", expects: "a whole number from 0 to 10000",
		usage: "items of a feed", most: 10_000, at: func(k *Knobs) any { return &k.Items }},
	{name: "body", expects: "a whole number from 0 to 100000",
		usage: "characters of an item's text, on average", most: 100_000,
		at: func(k *Knobs) any { return &k.Body }},
	{name: "delay", expects: wait, usage: "how long every answer is held back", most: tenMinutes,
		at: func(k *Knobs) any { return &k.Delay }},
	{name: "jitter", expects: wait, usage: "how much longer it is held back at most", most: tenMinutes,
		at: func(k *Knobs) any { return &k.Jitter }},
	{name: "trickle", expects: wait,
		usage: "how long the body of a feed takes to come, piece by piece", most: tenMinutes,
		at: func(k *Knobs) any { return &k.Trickle }},
	{name: "hang", expects: probability, usage: "share of the requests that are never answered", most: 1,
		at: func(k *Knobs) any { return &k.Hang }},
	{name: "error", expects: probability,
		usage: "share of the requests that are answered with --status", most: 1,
		at: func(k *Knobs) any { return &k.Error }},
	{name: "status", expects: "a status from 200 to 599",
		usage: "status of errors; in a URL without error, that of every answer", least: 200,
		most: 599, at: func(k *Knobs) any { return &k.Status }},
	{name: "retry", expects: "a duration from 0s to 8760h, such as 2m",
		usage: "Retry-After of 429 and 503, in seconds; 0s says nothing", most: year,
		at: func(k *Knobs) any { return &k.Retry }},
	{name: "redirects", expects: "a whole number from 0 to 1000",
		usage: "redirects one after another, where --status is one; 0 never ends", most: 1000,
		at: func(k *Knobs) any { return &k.Redirects }},
	{name: "location", expects: "a URL or a path, at most 2000 characters",
		usage: "where redirects lead; empty is to the same feed", most: 2000,
		at: func(k *Knobs) any { return &k.Location }},
	{name: "gzip", expects: "auto, off or always",
		usage: "when answers are compressed with gzip: auto, off or always", words: codings,
		at: func(k *Knobs) any { return (*uint8)(&k.Gzip) }},
	{name: "br", expects: "auto, off or always",
		usage: "when answers are compressed with Brotli: auto, off or always", words: codings,
		at: func(k *Knobs) any { return (*uint8)(&k.Brotli) }},
	{name: "etag", expects: "strong, weak or off",
		usage: "which ETag answers have: strong, weak or off", words: tags,
		at: func(k *Knobs) any { return (*uint8)(&k.ETag) }},
	{name: "lastmod", expects: "on or off",
		usage: "whether answers have Last-Modified: on or off", words: onOff,
		at: func(k *Knobs) any { return &k.LastModified }},
	{name: "ttl", expects: "a duration from 0s to 8760h, such as 15m",
		usage: "how long clients are told to keep a feed; 0s says nothing", most: year,
		at: func(k *Knobs) any { return &k.TTL }},
	{name: "churn", expects: "a number from 0 to 1000",
		usage: "items that come with a step of the clock; 0.1 is one in ten steps", most: 1000,
		at: func(k *Knobs) any { return &k.Churn }},
	{name: "charset", expects: "one of " + strings.Join(charsetNames(), ", "),
		usage: "how XML is encoded; JSON is UTF-8 always", words: charsetNames(),
		at: func(k *Knobs) any { return (*uint8)(&k.Charset) }},
	{name: "malformed",
		expects: "off or one of " + strings.Join(damageNames()[1:], ", ") +
			", or one with a probability, such as truncated:0.1",
		usage: "what is wrong with answers, such as truncated, or truncated:0.1 for one in ten",
		words: damageNames(), at: func(k *Knobs) any { return &k.Malformed }},
}

// set reads v into the knob's place; false changes nothing. It is on the way of every request with
// parameters.
func (n *knob) set(k *Knobs, v string) bool {
	switch to := n.at(k).(type) {
	case *int:
		i, err := strconv.ParseUint(v, 10, 31)
		if err != nil || float64(i) < n.least || float64(i) > n.most {
			return false
		}
		*to = int(i)
	case *time.Duration:
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 || d > time.Duration(n.most)*time.Second {
			return false
		}
		*to = d
	case *float64:
		return share(to, v, n.most)
	case *string: // what can stand in Location
		if _, err := url.Parse(v); err != nil || float64(len(v)) > n.most ||
			strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return false
		}
		*to = v
	case *uint8:
		return n.choice(to, v)
	case *bool:
		var i uint8
		if !n.choice(&i, v) {
			return false
		}
		*to = i == 1
	case *Damage:
		name, chance, given := strings.Cut(v, ":")
		p, kind := 1.0, uint8(0)
		if given && !share(&p, chance, 1) || !n.choice(&kind, name) || given && kind == 0 {
			return false
		}
		*to, k.Share = Damage(kind), p
	}
	return true
}

func (n *knob) choice(to *uint8, v string) bool {
	for i, words := range n.words {
		for word := range strings.SplitSeq(words, " ") {
			if strings.EqualFold(word, v) {
				*to = uint8(i)
				return true
			}
		}
	}
	return false
}

// share takes a number without a sign that is finite.
func share(to *float64, v string, most float64) bool {
	if len(v) == 0 || v[0] != '.' && (v[0] < '0' || v[0] > '9') {
		return false
	}
	p, err := strconv.ParseFloat(v, 64)
	if err != nil || !(p >= 0 && p <= most) {
		return false
	}
	*to = p
	return true
}

// show writes the knob so that set reads the same from it, and says whether that is a number.
func (n *knob) show(k *Knobs) (text string, number bool) {
	word := func(i uint8) string {
		if int(i) >= len(n.words) {
			return "" // which set refuses
		}
		first, _, _ := strings.Cut(n.words[i], " ")
		return first
	}
	switch v := n.at(k).(type) {
	case *int:
		return strconv.Itoa(*v), true
	case *float64:
		return strconv.FormatFloat(*v, 'g', -1, 64), true
	case *time.Duration:
		return v.String(), false
	case *string:
		return *v, false
	case *uint8:
		return word(*v), false
	case *bool:
		if *v {
			return "on", false
		}
		return "off", false
	case *Damage:
		text = word(uint8(*v))
		if *v != 0 && k.Share != 1 {
			text += ":" + strconv.FormatFloat(k.Share, 'g', -1, 64)
		}
		return text, false
	}
	panic("BUG: a knob of a kind that cannot be shown: " + n.name)
}

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
	again := *k
	for i := range table {
		if v, _ := table[i].show(k); !table[i].set(&again, v) {
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
		if v, number := table[i].show(&k); number {
			dst = append(dst, v...)
		} else {
			dst = strconv.AppendQuote(dst, v)
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

type flag struct {
	knobs *Knobs
	knob  *knob
}

func (f *flag) String() string {
	text, _ := f.knob.show(f.knobs)
	return text
}
func (f *flag) Type() string { return "value" }
func (f *flag) Set(v string) error {
	if !f.knob.set(f.knobs, v) {
		return fmt.Errorf("expected %s", f.knob.expects)
	}
	return nil
}
