package server

import (
	"strings"
	"testing"
	"time"
)

// Answers without a body say nothing of one (RFC 9110, 8.6): a Content-Length of a 304 would be that of the
// 200.
func TestAnswersWithoutABodySayNothingOfOne(t *testing.T) {
	var h heads
	h.tick(time.Now())
	for status, body := range map[int]bool{200: true, 204: false, 304: false, 404: true} {
		var w Response
		w.reset()
		w.Status = status
		w.Field("Etag", `"x"`)
		got := string(h.append(nil, &w, false, true))
		for _, field := range []string{"Content-Length: 0\r\n", "Content-Type: application/json\r\n"} {
			if strings.Contains(got, field) != body {
				t.Errorf("%d: %q in %q: %t", status, field, got, !body)
			}
		}
		for _, field := range []string{"Etag: \"x\"\r\n", "Connection: close\r\n", "Date: "} {
			if !strings.Contains(got, field) {
				t.Errorf("%d: no %q in %q", status, field, got)
			}
		}
	}
}

func TestTheDateIsThatOfTheSecond(t *testing.T) {
	var h heads
	at := time.Date(2026, 1, 2, 3, 4, 5, 999_999_999, time.FixedZone("", 3600))
	for _, c := range []struct {
		pass time.Duration
		want string
	}{{0, "02:04:05"}, {time.Nanosecond, "02:04:06"}, {999 * time.Millisecond, "02:04:06"},
		{time.Second, "02:04:07"}, {-time.Hour, "01:04:07"}} {
		at = at.Add(c.pass)
		h.tick(at)
		want := "Date: Fri, 02 Jan 2026 " + c.want + " GMT\r\n"
		if string(h.date) != want || !strings.Contains(string(h.okJSON), want) {
			t.Errorf("at %v: %q and %q, want %q", at, h.date, h.okJSON, want)
		}
	}
}
