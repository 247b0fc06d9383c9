package report

import (
	"math"
	"strconv"
	"strings"
	"unicode"
)

// Count writes n with its thousands apart: 1,234,567.
func Count(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	var b strings.Builder
	for i, c := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// digits3 writes v, at least 0, to three digits where it has that many before the point, else to as many as
// it has.
func digits3(v float64) string {
	switch {
	case v >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 9.995:
		return trimZeros(strconv.FormatFloat(v, 'f', 1, 64))
	default:
		return trimZeros(strconv.FormatFloat(v, 'f', 2, 64))
	}
}

func trimZeros(s string) string {
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// PerSecond writes a rate: 12,345/s, 7.5/s.
func PerSecond(rate float64) string {
	switch {
	case rate-rate != 0 || rate < 0:
		return "-"
	case rate >= 99.5 && rate < math.MaxInt64:
		return Count(uint64(math.Round(rate))) + "/s"
	}
	return digits3(rate) + "/s"
}

// Micros writes a time in microseconds: 812 µs, 1.23 ms, 2.5 s.
func Micros(us float64) string {
	switch {
	case us-us != 0 || us < 0:
		return "-"
	case us == 0:
		return "0"
	case us < 0.9995:
		return digits3(us*1e3) + " ns"
	case us < 999.5:
		return digits3(us) + " µs"
	case us < 999.5e3:
		return digits3(us/1e3) + " ms"
	}
	return digits3(us/1e6) + " s"
}

// Seconds writes how long something lasted: 0.25 s, 30 s, 12m05s, 2h00m.
func Seconds(s float64) string {
	switch {
	case s-s != 0 || s < 0:
		return "-"
	case s < 119.5:
		return digits3(s) + " s"
	case s < 3600:
		n := int(math.Round(s))
		return strconv.Itoa(n/60) + "m" + two(n%60) + "s"
	case s < 1e9:
		n := int(math.Round(s / 60))
		return strconv.Itoa(n/60) + "h" + two(n%60) + "m"
	}
	return "forever"
}

func two(n int) string {
	if n < 10 {
		return "0" + strconv.Itoa(n)
	}
	return strconv.Itoa(n)
}

// Share writes a share of one as percent: 99.2 %.
func Share(s float64) string {
	switch {
	case s-s != 0 || s < 0:
		return "-"
	case s > 0 && s < 0.0001:
		return "under 0.01 %"
	case s < 1 && s > 0.9995:
		return "99.9 %" // all is only all
	}
	return digits3(s*100) + " %"
}

// Size writes bytes: 512 B, 1.5 KiB, 3.2 GiB.
func Size(b float64) string {
	if b-b != 0 || b < 0 {
		return "-"
	}
	for i, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if v := b / math.Exp2(float64(10*i)); v < 1023.5 {
			return digits3(v) + " " + unit
		}
	}
	return digits3(b/math.Exp2(40)) + " TiB"
}

// Plain makes text safe for a terminal: what is no letter, sign or space becomes a question mark, so that a
// name or a target's answer cannot move the cursor, change colours or reverse the reading order.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return ' '
		case r == unicode.ReplacementChar, !unicode.IsGraphic(r):
			return '?'
		}
		return r
	}, text)
}
