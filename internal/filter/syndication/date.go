package syndication

import (
	"strings"
	"time"
)

// parseDate understands the dates that feeds have: RFC 5322, RFC 3339, W3C's, asctime, with names of days
// and months in several languages, hours of twelve, names of zones or none, which is UTC. It is false for
// what is none.
func parseDate(s string) (time.Time, bool) {
	if t, ok := parseUsual(s); ok {
		return t, true
	}
	d := dateParser{s: s, month: -1}
	return d.parse()
}

// parseUsual reads what most feeds of RSS have, such as Sat, 02 Nov 2024 08:28:28 GMT, in a fifth of the
// time.
func parseUsual(s string) (time.Time, bool) {
	const form = "Sat, 02 Nov 2024 08:28:28 "
	if len(s) < len(form)+3 || s[3] != ',' || s[7] != ' ' || s[11] != ' ' || s[16] != ' ' || s[19] != ':' ||
		s[22] != ':' || s[25] != ' ' {
		return time.Time{}, false
	}
	if zone := s[len(form):]; zone != "GMT" && zone != "+0000" {
		return time.Time{}, false
	}
	month := strings.Index("JanFebMarAprMayJunJulAugSepOctNovDec", s[8:11])
	number := func(from, to int) (n int) {
		for _, c := range []byte(s[from:to]) {
			if c < '0' || c > '9' {
				return 1 << 20
			}
			n = n*10 + int(c-'0')
		}
		return n
	}
	year, day, hour, minute, second := number(12, 16), number(5, 7), number(17, 19),
		number(20, 22), number(23, 25)
	if month < 0 || month%3 != 0 || year > 9999 || day < 1 || day > 28 || hour > 23 ||
		minute > 59 || second > 59 {
		return time.Time{}, false
	}
	return time.Date(year, time.Month(month/3+1), day, hour, minute, second, 0, time.UTC), true
}

// dateParser collects the parts of a date.
type dateParser struct {
	s                    string
	i                    int
	year, month, day     int // month is -1 until it is known
	hour, minute, second int
	nano                 int
	offset               int // seconds east of UTC
	haveDay, haveYear    bool
	haveTime, pm, am     bool
}

var months = map[string]int{
	"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "oct": 10,
	"nov": 11, "dec": 12,
	"mär": 3, "mae": 3, "mrz": 3, "mai": 5, "okt": 10, "dez": 12, // German
	"fév": 2, "fev": 2, "avr": 4, "jui": 6, "aoû": 8, "aou": 8, "déc": 12, // French; juin and juillet below
	// Spanish, Italian.
	"ene": 1, "abr": 4, "ago": 8, "set": 9, "dic": 12, "gen": 1, "mag": 5, "giu": 6, "lug": 7, "ott": 10,
	"out": 10, "mei": 5, "maa": 3, "mrt": 3, // Portuguese, Dutch
	"янв": 1, "фев": 2, "мар": 3, "апр": 4, "май": 5, "мая": 5, "июн": 6, "июл": 7, "авг": 8, "сен": 9,
	"окт": 10, "ноя": 11, "дек": 12,
}

// zones are hours, in quarters, east of UTC.
var zones = map[string]int{
	"ut": 0, "utc": 0, "gmt": 0, "z": 0, "wet": 0, "est": -20, "edt": -16, "cst": -24, "cdt": -20, "mst": -28,
	"mdt": -24, "pst": -32,
	"pdt": -28, "akst": -36, "akdt": -32, "hst": -40, "ast": -16, "adt": -12, "bst": 4, "ist": 22, "west": 4,
	"cet": 4, "cest": 8,
	"mez": 4, "mesz": 8, "met": 4, "mest": 8, "eet": 8, "eest": 12, "msk": 12, "msd": 16, "jst": 36,
	"kst": 36, "hkt": 32, "sgt": 32,
	"aest": 40, "aedt": 44, "awst": 32, "acst": 38, "nzst": 48, "nzdt": 52, "sast": 8, "brt": -12,
	"art": -12, "clt": -16,
	"a": -4, "n": 4, "m": -48, "y": 48, "et": -20, "ct": -24, "mt": -28, "pt": -32,
}

// number reads digits.
func (d *dateParser) number() (n, digits int) {
	for d.i < len(d.s) && d.s[d.i] >= '0' && d.s[d.i] <= '9' {
		if digits++; digits < 10 {
			n = n*10 + int(d.s[d.i]-'0')
		}
		d.i++
	}
	return n, digits
}

func (d *dateParser) at(c byte) bool {
	if d.i < len(d.s) && d.s[d.i] == c {
		d.i++
		return true
	}
	return false
}

func (d *dateParser) parse() (time.Time, bool) {
	for d.i < len(d.s) {
		c := d.s[d.i]
		ok := true
		switch {
		case c >= '0' && c <= '9':
			ok = d.digits()
		case (c == '+' || c == '-') && d.haveTime:
			ok = d.zone()
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80:
			ok = d.word()
		default:
			d.i++
		}
		if !ok {
			return time.Time{}, false
		}
	}
	if !d.haveYear {
		return time.Time{}, false
	}
	if d.month < 0 {
		if d.haveDay {
			return time.Time{}, false
		}
		d.month = 1
	}
	if !d.haveDay {
		d.day = 1
	}
	if d.pm && d.hour < 12 {
		d.hour += 12
	} else if d.am && d.hour == 12 {
		d.hour = 0
	}
	if d.month < 1 || d.month > 12 || d.day < 1 || d.day > 31 || d.hour > 24 ||
		d.minute > 59 || d.second > 60 {
		return time.Time{}, false
	}
	t := time.Date(d.year, time.Month(d.month), d.day, d.hour, d.minute, d.second, d.nano, time.UTC)
	if t.Day() != d.day && d.hour < 24 && d.second < 60 {
		return time.Time{}, false // 31 February
	}
	return t.Add(-time.Duration(d.offset) * time.Second), true
}

// digits reads a date of numbers, a time, a day or a year.
func (d *dateParser) digits() bool {
	start := d.i
	n, digits := d.number()
	switch {
	case d.i < len(d.s) && d.s[d.i] == ':' && !d.haveTime:
		d.i = start
		return d.clock()
	case digits == 8 && !d.haveYear:
		d.year, d.month, d.day, d.haveYear, d.haveDay = n/10000, n/100%100, n%100, true, true
	case digits == 4 && !d.haveYear:
		d.year, d.haveYear = n, true
		d.rest()
	case digits == 6 && d.haveDay && !d.haveTime:
		d.hour, d.minute, d.second, d.haveTime = n/10000, n/100%100, n%100, true
	case digits > 2:
		return d.haveYear && d.haveTime // something after the date
	case d.i+1 < len(d.s) && (d.s[d.i] == '/' || d.s[d.i] == '.') && !d.haveDay && d.s[d.i+1] >= '0' &&
		d.s[d.i+1] <= '9':
		american := d.s[d.i] == '/'
		d.i++
		m, _ := d.number()
		if american && n <= 12 || m > 12 {
			n, m = m, n
		}
		d.day, d.month, d.haveDay = n, m, true
		if d.at('/') || d.at('.') {
			y, digits := d.number()
			d.setYear(y, digits)
		}
	case !d.haveDay:
		d.day, d.haveDay = n, true
	case !d.haveYear:
		d.setYear(n, digits)
	default:
		return d.haveTime
	}
	return true
}

func (d *dateParser) setYear(y, digits int) {
	if digits <= 2 {
		if y += 1900; y < 1970 {
			y += 100
		}
	}
	d.year, d.haveYear = y, true
}

// rest reads what may follow a year: -MM, -MM-DD, -DDD, and T.
func (d *dateParser) rest() {
	if d.haveDay || d.month > 0 || d.i+2 >= len(d.s) || d.s[d.i] != '-' && d.s[d.i] != '/' {
		return
	}
	sep, back := d.s[d.i], d.i
	d.i++
	n, digits := d.number()
	switch digits {
	case 3: // the day of the year
		t := time.Date(d.year, 1, n, 0, 0, 0, 0, time.UTC)
		d.month, d.day, d.haveDay = int(t.Month()), t.Day(), true
	case 1, 2:
		d.month = n
		if d.at(sep) {
			d.day, _ = d.number()
			d.haveDay = true
		}
	default:
		d.i = back + 1
		return
	}
	if !d.at('T') {
		d.at('t')
	}
}

// clock reads hh:mm, hh:mm:ss and hh:mm:ss.fraction.
func (d *dateParser) clock() bool {
	d.haveTime = true
	d.hour, _ = d.number()
	d.i++
	d.minute, _ = d.number()
	if !d.at(':') {
		return true
	}
	d.second, _ = d.number()
	if d.at('.') || d.at(',') {
		for unit := 100_000_000; d.i < len(d.s) && d.s[d.i] >= '0' && d.s[d.i] <= '9'; d.i++ {
			d.nano += int(d.s[d.i]-'0') * unit
			unit /= 10
		}
	}
	return true
}

// zone reads +hhmm, +hh:mm or +h.
func (d *dateParser) zone() bool {
	sign := 1
	if d.s[d.i] == '-' {
		sign = -1
	}
	d.i++
	n, digits := d.number()
	switch {
	case digits == 0:
		return true // a dash
	case d.at(':'):
		m, _ := d.number()
		n = n*60 + m
	case digits > 2:
		n = n/100*60 + n%100
	default:
		n *= 60
	}
	d.offset = sign * n * 60
	return n < 24*60
}

// word reads the name of a month, a zone, or half a day. Others, such as days, say nothing.
func (d *dateParser) word() bool {
	start := d.i
	for d.i < len(d.s) && (d.s[d.i]|0x20 >= 'a' && d.s[d.i]|0x20 <= 'z' || d.s[d.i] >= 0x80) {
		d.i++
	}
	var room [12]byte
	w := room[:0]
	for i := start; i < d.i && d.s[i] < 0x80 && len(w) < len(room); i++ {
		w = append(w, d.s[i]|0x20)
	}
	if len(w) < d.i-start { // not ASCII, or no word of a date
		w = []byte(strings.ToLower(d.s[start:d.i]))
	}
	switch string(w) {
	case "am":
		d.am = true
		return true
	case "pm":
		d.pm = true
		return true
	case "t":
		return true
	}
	if d.haveTime {
		if quarters, ok := zones[string(w)]; ok {
			d.offset = quarters * 900
			return true
		}
	}
	day := !d.haveDay && d.i < len(d.s) && d.s[d.i] == ',' // martes is no month
	if d.month < 0 && !day {
		if len(w) > 4 && string(w[:4]) == "juil" {
			d.month = 7
		} else {
			prefix := w
			for i, n := 0, 0; i < len(w); n++ {
				if n == 3 {
					prefix = w[:i]
					break
				}
				for i++; i < len(w) && w[i]&0xc0 == 0x80; i++ {
				}
			}
			if m, ok := months[string(prefix)]; ok {
				d.month = m
			}
		}
	}
	return true
}
