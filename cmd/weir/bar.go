package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// newBar is a progress bar on standard error, or one that shows nothing when that is no terminal.
// unit is what is counted; "" is bytes.
func newBar(what, unit string, total int64) *progressbar.ProgressBar {
	var out io.Writer = io.Discard
	if term.IsTerminal(int(os.Stderr.Fd())) {
		out = os.Stderr
	}
	options := []progressbar.Option{
		progressbar.OptionSetWriter(out),
		progressbar.OptionSetDescription(what),
		progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetSpinnerChangeInterval(0), // its goroutine races with Clear
	}
	if unit == "" {
		options = append(options, progressbar.OptionShowBytes(true))
	} else {
		options = append(options, progressbar.OptionShowIts(), progressbar.OptionSetItsString(unit))
	}
	return progressbar.NewOptions64(total, options...)
}
