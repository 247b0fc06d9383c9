package answer

import (
	"strings"
	"testing"
	"time"
)

func TestParseFindsStatusAndLengthOrSaysWhatIsWrong(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nDate: x\r\ncontent-LENGTH:  3\r\n\r\n"
	for _, c := range []struct {
		name, in       string
		status, length int
		err            string
	}{
		{"incomplete head", "HTTP/1.1 200 OK\r\nContent-Len", 0, 0, ""},
		{"head only", ok, 200, len(ok) + 3, ""},
		{"whole", ok + "[1]", 200, len(ok) + 3, ""},
		{"no length", "HTTP/1.1 200 OK\r\n\r\n", 0, 0, "without Content-Length"},
		{"bad length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", 0, 0, "not a length"},
		{"bad status", "HTTP/1.1 abc OK\r\n\r\n", 0, 0, "not a status"},
		{"no HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", 0, 0, "not an HTTP/1.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, length, err := Parse([]byte(c.in))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil || status != c.status || length != c.length {
				t.Fatalf("got %d, %d, %v, want %d, %d", status, length, err, c.status, c.length)
			}
		})
	}
}

func TestQuantilesAreOfTheNearestRank(t *testing.T) {
	var times []time.Duration
	for i := 1000; i > 0; i-- {
		times = append(times, time.Duration(i)*time.Microsecond)
	}
	if got, want := QuantilesOf(times), (Quantiles{500, 990, 999, 1000}); got != want {
		t.Errorf("quantiles of 1 to 1000 are %v, want %v", got, want)
	}
	if got := QuantilesOf(nil); got != (Quantiles{}) {
		t.Errorf("quantiles of nothing are %v", got)
	}
}
