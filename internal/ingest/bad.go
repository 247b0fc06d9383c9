package ingest

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// ErrBadRows is wrapped by the error of an input with more bad rows than are tolerated.
var ErrBadRows = errors.New("too many bad rows")

// A BadRow is a row that was left out, and why.
type BadRow struct {
	File string
	// Row counts from 1, 0 being no row in particular. In text it is the number of the line the row
	// begins on.
	Row int64
	// Field is the name of the field at fault, empty when the row as a whole is.
	Field string
	// Want says what was expected and how to have it otherwise, Found what was there.
	Want, Found string
}

func (b BadRow) String() string {
	where := b.File + ": "
	if b.Row > 0 {
		where += "row " + strconv.FormatInt(b.Row, 10) + ": "
	}
	if b.Field != "" {
		where += b.Field + ": "
	}
	return where + "expected " + b.Want + ", found " + b.Found
}

// Account counts bad rows and decides when there are too many. Its methods are for one goroutine.
type Account struct {
	// Max is how many are tolerated.
	Max int64
	// Report is told of each of the first ten.
	Report func(BadRow)

	count int64
}

// reported is how many bad rows are printed. The eleventh says nothing that ten did not.
const reported = 10

// Add counts a bad row. The error, once there are more than Max, wraps ErrBadRows.
func (a *Account) Add(b BadRow) error {
	a.count++
	if a.count <= a.Max {
		if a.count <= reported && a.Report != nil {
			a.Report(b)
		}
		return nil
	}
	if a.Max == 0 {
		return fmt.Errorf("%w: %s (--max-bad N tolerates N of them)", ErrBadRows, b)
	}
	return fmt.Errorf("%w: more than --max-bad %d, the last: %s", ErrBadRows, a.Max, b)
}

// Count returns the number of bad rows so far.
func (a *Account) Count() int64 { return a.count }

// shorten quotes what was found in a row, at a length that fits a line.
func shorten[T []byte | string](found T) string {
	const most = 40
	if len(found) <= most {
		return strconv.Quote(string(found))
	}
	cut := most
	for cut > most-utf8.UTFMax && !utf8.RuneStart(found[cut]) {
		cut--
	}
	return strconv.Quote(string(found[:cut])) + "..."
}
