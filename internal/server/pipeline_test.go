package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// exchange is a request and the answer it must get.
type exchange struct {
	raw, method string
	status      int
	body        string
}

// randomExchange returns a request of any kind whose answer names it.
func randomExchange(cfg Config, rnd *rand.Rand, id int) exchange {
	word := fmt.Sprintf("r%d", id)
	body := strings.Repeat("\r\n\r\n", rnd.IntN(3)) + strings.Repeat(word, rnd.IntN(400))
	switch rnd.IntN(18) {
	case 0, 1, 2:
		return exchange{get("/fast/" + word), "GET", 200, "GET " + word + " "}
	case 3:
		return exchange{post("/fast/"+word, body), "POST", 200, "POST " + word + " " + body}
	case 4:
		return exchange{get("/handed/" + word), "GET", 200, "GET handed " + word + "  "}
	case 5:
		return exchange{post("/handed/"+word, body), "POST", 200, "POST handed " + word + "  " + body}
	case 6, 7:
		return exchange{get("/offloaded/" + word), "GET", 200, "GET " + word + " "}
	case 8:
		return exchange{head_("/fast/" + word), "HEAD", 200, ""}
	case 9:
		return exchange{head_("/handed/" + word), "HEAD", 200, ""}
	case 10:
		n := rnd.IntN(40_000)
		return exchange{get(fmt.Sprintf("/big/%d", n)), "GET", 200, strings.Repeat("x", n)}
	case 11:
		return exchange{get("/either/" + word), "GET", 200, "GET " + word + " "}
	case 12:
		return exchange{head_("/either/" + word + "?handoff"), "HEAD", 200, ""}
	case 13:
		return exchange{post("/either/"+word+"?handoff", body), "POST", 200, "POST handed " + word +
			" handoff " + body}
	case 14:
		return exchange{post("/either/"+word+"?offloaded", body), "POST", 200, "POST handed " + word +
			" offloaded " + body}
	case 15:
		return exchange{streamed(cfg, "/fast/"+word, body), "POST", 200, "POST " + word + " " + body}
	case 16:
		return exchange{streamed(cfg, "/handed/"+word, body), "POST", 200, "POST handed " + word +
			"  " + body}
	default:
		n := rnd.IntN(100)
		return exchange{get(fmt.Sprintf("/stream/%d", n)), "GET", 200, strings.Repeat("s", 1000*n)}
	}
}

// check reads the answers to all in their order.
func check(r *bufio.Reader, all []exchange) error {
	for i, x := range all {
		resp, err := http.ReadResponse(r, &http.Request{Method: x.method})
		if err != nil {
			return fmt.Errorf("answer %d of %d: %w", i, len(all), err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return fmt.Errorf("body %d of %d: %w", i, len(all), err)
		}
		if resp.StatusCode != x.status || string(body) != x.body {
			return fmt.Errorf("answer %d is %d %.60q, want %d %.60q to %.60q", i, resp.StatusCode, body,
				x.status, x.body, x.raw)
		}
	}
	return nil
}

// Any mix of requests on one connection, however it is cut into segments and however slowly it
// is read, is answered in order.
func TestPipelinedMixesAreAnsweredInOrder(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		cfg.Loops, cfg.Workers, cfg.MaxOutput = 2, 2, 8<<10
		s := start(t, cfg, &echo{})
		const conns, each = 8, 500
		errs := make(chan error)
		for seed := range uint64(conns) {
			c := dial(t, s)
			rnd := rand.New(rand.NewPCG(seed, 1))
			var raw bytes.Buffer
			var all []exchange
			for id := range each {
				x := randomExchange(cfg, rnd, id)
				all = append(all, x)
				raw.WriteString(x.raw)
			}
			go sendInPieces(c, raw.Bytes(), rnd)
			go func() {
				err := check(c.r, all)
				if err != nil {
					err = fmt.Errorf("seed %d: %w", seed, err)
				}
				errs <- err
			}()
		}
		for range conns {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})
}

// sendInPieces writes data in segments of any size; what cannot be written is missed by check.
func sendInPieces(w io.Writer, data []byte, rnd *rand.Rand) {
	for len(data) > 0 {
		n := min(1+rnd.IntN(1+rnd.IntN(20_000)), len(data))
		if _, err := w.Write(data[:n]); err != nil {
			return
		}
		data = data[n:]
	}
}

// A client may send everything, say that it is done, and only then read: every byte arrives.
func TestHalfClosedClientsGetEveryAnswer(t *testing.T) {
	for name, lane := range map[string]struct {
		request string
		answer  string
		n       int
	}{
		"fast":      {get("/big/50000"), strings.Repeat("x", 50_000), 160},
		"handed":    {get("/stream/50"), strings.Repeat("s", 50_000), 160},
		"offloaded": {get("/offloaded/a"), "GET a ", 2000},
	} {
		t.Run(name, func(t *testing.T) {
			lanes(t, func(t *testing.T, cfg Config) {
				s := start(t, cfg, &echo{})
				c := dial(t, s)
				sent := make(chan error, 1)
				go func() {
					_, err := io.WriteString(c, strings.Repeat(lane.request, lane.n))
					c.CloseWrite()
					sent <- err
				}()
				if err := <-sent; err != nil {
					t.Fatal(err)
				}
				for range lane.n {
					c.expect("GET", 200, lane.answer)
				}
				c.expectClosed()
			})
		})
	}
}
