package featurestore

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// arm reads an item's row. wrong says what is wrong with values that are there and cannot be used.
func (o *Options) arm(row []value) (a Arm, wrong string) {
	if row[0].kind == kindAbsent || row[1].kind == kindAbsent {
		return Arm{}, ""
	}
	names := [2]string{o.Alpha, o.Beta}
	if o.Clicks != "" {
		names = [2]string{o.Clicks, o.Impressions}
	}
	var n [2]float64
	for i := range n {
		var ok bool
		if row[i].kind == kindBroken {
			return Arm{}, fmt.Sprintf("the feature %s is not encoded as one", names[i])
		}
		if n[i], ok = row[i].float(); !ok {
			return Arm{}, fmt.Sprintf("the feature %s is no number", names[i])
		}
		if math.IsNaN(n[i]) || math.IsInf(n[i], 0) {
			return Arm{}, fmt.Sprintf("the feature %s is %v", names[i], n[i])
		}
	}
	if o.Clicks != "" {
		if clicks, impressions := n[0], n[1]; clicks < 0 || clicks > impressions {
			return Arm{}, fmt.Sprintf("%v %s of %v %s", clicks, names[0], impressions, names[1])
		}
		return Arm{Alpha: o.Prior[0] + n[0], Beta: o.Prior[1] + n[1] - n[0], Known: true}, ""
	}
	for i := range n {
		if n[i] <= 0 {
			return Arm{}, fmt.Sprintf("the feature %s must be above 0 and is %v", names[i], n[i])
		}
	}
	return Arm{Alpha: n[0], Beta: n[1], Known: true}, ""
}

// longestSegment bounds what one user takes up in the cache.
const longestSegment = 1024

// segment reads a user's row, as arm does. Numbers are segments as well, those of a clustering for one.
func (o *Options) segment(row []value) (segment, wrong string) {
	switch {
	case row[0].kind == kindAbsent:
		return "", ""
	case row[0].kind == kindBroken:
		return "", fmt.Sprintf("the feature %s is not encoded as one", o.Segment)
	case row[0].kind == kindOther:
		return "", fmt.Sprintf("the feature %s is neither text nor a number", o.Segment)
	case len(row[0].text) > longestSegment:
		return "", fmt.Sprintf("the feature %s has %d bytes, more than %d", o.Segment, len(row[0].text),
			longestSegment)
	}
	return row[0].text, ""
}

// float returns a value as a number. Some stores write numbers as text: JSON has no NaN, and 64-bit
// integers are strings in the JSON of protocol buffers.
func (v *value) float() (float64, bool) {
	switch v.kind {
	case kindNumber:
		return v.number, true
	case kindText:
		f, err := strconv.ParseFloat(strings.TrimSpace(v.text), 64)
		return f, err == nil
	}
	return 0, false
}
