package main

import (
	"io"
	"testing"
	"testing/synctest"
	"time"
)

func TestImportMeterShowsARateOnceThereIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &importMeter{to: io.Discard}
		for _, step := range []struct {
			after time.Duration
			phase string
			rows  int64
			want  string
		}{
			{0, "reading", 1000, "reading"},
			{time.Millisecond, "reading", 2000, "reading"},
			{199 * time.Millisecond, "reading", 3000, "reading, 10k rows/s"},
			{time.Second, "writing", 4000, "writing"},
		} {
			time.Sleep(step.after)
			m.update(step.phase, step.rows, step.rows, 10_000)
			if got := m.bar.State().Description; got != step.want {
				t.Errorf("at %d rows it says %q, want %q", step.rows, got, step.want)
			}
		}
	})
}
