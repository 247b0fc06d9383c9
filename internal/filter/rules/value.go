package rules

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// dates are the ways to write a date, and how much each stands for. Without an offset they are in UTC.
var dates = []struct {
	layout string
	years  int
	months int
	days   int
	length time.Duration
}{
	{layout: "2006", years: 1},
	{layout: "2006-01", months: 1},
	{layout: "2006-01-02", days: 1},
	{layout: "2006-01-02T15:04", length: time.Minute},
	{layout: "2006-01-02T15:04Z07:00", length: time.Minute},
	{layout: "2006-01-02T15:04:05", length: time.Second},
	{layout: "2006-01-02T15:04:05Z07:00", length: time.Second},
}

// readDate returns a date as it is written canonically, and the seconds since 1970 that it stands for.
func readDate(s string, at Place) (string, span, error) {
	for _, d := range dates {
		t, err := time.Parse(d.layout, s)
		if err != nil || strings.Contains(s, ".") {
			continue
		}
		t = t.UTC()
		end := t.AddDate(d.years, d.months, d.days).Add(d.length)
		layout := strings.TrimSuffix(d.layout, "Z07:00")
		if d.length > 0 {
			layout += "Z07:00"
		}
		return t.Format(layout), span{t.Unix(), end.Unix()}, nil
	}
	return "", span{}, wrong(at, "%.40q is no date: write 2026, 2026-11, 2026-11-22 or 2026-11-22T21:30, "+
		"with a time zone as in 2026-11-22T21:30+01:00 where it is not UTC", s)
}

// units are those of ages, the longest first.
var units = []struct {
	name    byte
	seconds int64
}{{'w', 7 * 86400}, {'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}

// readAge returns an age as it is written canonically, and as seconds.
func readAge(s string, at Place) (string, span, error) {
	malformed := wrong(at, "%.40q is no age: write a number with w, d, h, m or s for weeks to seconds, "+
		"such as 36h or 1d12h", s)
	rest, negative := strings.CutPrefix(s, "-")
	total, from := int64(0), 0
	for rest != "" {
		digits := 0
		for digits < len(rest) && '0' <= rest[digits] && rest[digits] <= '9' {
			digits++
		}
		n, err := strconv.ParseInt(rest[:digits], 10, 32)
		if err != nil || digits == len(rest) {
			return "", span{}, malformed
		}
		for from < len(units) && units[from].name != rest[digits] {
			from++
		}
		if from == len(units) {
			return "", span{}, malformed
		}
		total += n * units[from].seconds
		from++
		rest = rest[digits+1:]
	}
	if s == "" || s == "-" {
		return "", span{}, malformed
	}
	var b strings.Builder
	if negative && total > 0 {
		b.WriteByte('-')
	}
	left := total
	for _, u := range units {
		if n := left / u.seconds; n > 0 {
			b.WriteString(strconv.FormatInt(n, 10))
			b.WriteByte(u.name)
			left -= n * u.seconds
		}
	}
	if total == 0 {
		b.WriteString("0s")
	}
	if negative {
		total = -total
	}
	return b.String(), span{total, total + 1}, nil
}

// sizes are the units of lengths.
var sizes = []struct {
	name  string
	bytes int64
}{{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9},
	{"b", 1}, {"", 1}}

// readSize returns a number of bytes as it is written canonically, and as a number.
func readSize(s string, at Place) (string, span, error) {
	for _, u := range sizes {
		number, ok := strings.CutSuffix(strings.ToLower(s), u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/2/u.bytes || number[0] == '+' {
			break
		}
		n *= u.bytes
		return strconv.FormatInt(n, 10), span{n, n + 1}, nil
	}
	return "", span{}, wrong(at, "%.40q is no number of bytes: write such as 1500, 20MB or 1GiB", s)
}
