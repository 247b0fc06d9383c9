package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"weir/internal/load/measure"
	"weir/internal/strictjson"
)

// maxResult is the longest result that is read: ten times the longest that is written.
const maxResult = 32 << 20

// WriteJSON writes r, indented, with a newline at its end. What is not known, infinite or no number, which
// JSON has no word for, is written as 0: a run's result is not lost for that.
func WriteJSON(w io.Writer, r *Result) error {
	c := *r
	if r.Ceiling != nil {
		ceiling := *r.Ceiling
		c.Ceiling = &ceiling
		finite(&ceiling.Rate, &ceiling.Low, &ceiling.High, &ceiling.Seconds)
	}
	c.Verdicts = slices.Clone(r.Verdicts)
	for i := range c.Verdicts {
		finite(&c.Verdicts[i].Value)
	}
	return writeJSON(w, &c)
}

func writeJSON(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

func finite(values ...*float64) {
	for _, v := range values {
		if *v-*v != 0 {
			*v = 0
		}
	}
}

// ReadJSON reads what WriteJSON wrote, this version's or a later one's of the same number. The text may
// come from anywhere: errors say what is wrong with it, and the histogram in it decodes.
func ReadJSON(rd io.Reader) (*Result, error) {
	text, err := io.ReadAll(io.LimitReader(rd, maxResult+1))
	if err != nil {
		return nil, fmt.Errorf("reading a result: %w", err)
	}
	if len(text) > maxResult {
		return nil, fmt.Errorf("a result has at most %d MiB, this is longer", maxResult>>20)
	}
	var r Result
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // a plan's seed has more digits than a float
	if err := d.Decode(&r); err != nil {
		return nil, fmt.Errorf("this is not a result of weir load (--json writes one): %w",
			strictjson.Plain(err))
	}
	if d.More() {
		return nil, fmt.Errorf("there is more than one result in this file: at byte %d", d.InputOffset())
	}
	if r.Version != Version {
		return nil, fmt.Errorf(
			"this is not a result of weir load that this weir reads: its version is %d, expected %d",
			r.Version, Version)
	}
	if _, err := measure.Decode(r.Histogram); err != nil {
		return nil, fmt.Errorf("the result's field \"histogram\": %w", err)
	}
	if r.Failures == nil {
		r.Failures = make(map[string]uint64)
	}
	return &r, nil
}
