package metrics

import (
	"log/slog"
	"time"
)

// Took is how logs say what has taken the time since start: in seconds, which the field's name says.
func Took(start time.Time) slog.Attr {
	return slog.Float64("took_seconds", time.Since(start).Round(time.Millisecond).Seconds())
}
