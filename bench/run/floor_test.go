//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A floor that loses or doubles answers would be cheap and wrong.

// startFloor compiles and runs the floor and returns its address.
func startFloor(t *testing.T, body int) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "floor")
	// Read here and not by gcc, so that go test knows of the file and forgets old results with it.
	source, err := os.ReadFile("../floor/floor.c")
	if err != nil {
		t.Fatal(err)
	}
	gcc := exec.Command("gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, "-x", "c", "-")
	gcc.Stdin = bytes.NewReader(source)
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	cmd := exec.Command(program, "--port", "0", "--body", fmt.Sprint(body))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
}

const getFeed = "GET /feed/4711 HTTP/1.1\r\nHost: floor\r\n\r\n"

// one returns the whole answer to a single request.
func one(t *testing.T, addr string, body int) []byte {
	t.Helper()
	c := dial(t, addr)
	io.WriteString(c, getFeed)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != 200 || len(got) != body {
		t.Fatalf("status %d and %d bytes, %v; want 200 and %d", r.StatusCode, len(got), err, body)
	}
	var raw bytes.Buffer
	fmt.Fprintf(&raw, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nCache-Control: %s\r\nContent-Length: "+
		"%d\r\n\r\n%s",
		r.Header.Get("Content-Type"), r.Header.Get("Cache-Control"), body, got)
	return raw.Bytes()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(30 * time.Second))
	return c
}

// expect closes the sending side and reads n answers and the end of the stream.
func expect(t *testing.T, c net.Conn, answer []byte, n int) {
	t.Helper()
	c.(*net.TCPConn).CloseWrite()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, bytes.Repeat(answer, n)) {
		t.Fatalf("%d bytes, %v; want %d answers of %d bytes", len(got), err, n, len(answer))
	}
}

func TestPipelinedRequestsCutAnywhereAreAllAnsweredOnce(t *testing.T) {
	addr := startFloor(t, 81)
	answer := one(t, addr, 81)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		c := dial(t, addr)
		c.(*net.TCPConn).SetNoDelay(true)
		n := 1 + rng.IntN(50)
		for rest := strings.Repeat(getFeed, n); rest != ""; {
			cut := min(1+rng.IntN(60), len(rest))
			io.WriteString(c, rest[:cut])
			rest = rest[cut:]
		}
		expect(t, c, answer, n)
	}
}

func TestARequestByteByByteIsAnswered(t *testing.T) {
	addr := startFloor(t, 81)
	answer := one(t, addr, 81)
	c := dial(t, addr)
	c.(*net.TCPConn).SetNoDelay(true)
	for _, b := range []byte(getFeed) {
		c.Write([]byte{b})
	}
	expect(t, c, answer, 1)
}

// Two thousand answers of 20.9 KB are beyond any socket buffer and beyond the copies that are kept.
func TestALargeBodyIsSentWholeToAReaderThatComesLate(t *testing.T) {
	const body, n = 20_900, 2000
	addr := startFloor(t, body)
	answer := one(t, addr, body)
	c := dial(t, addr)
	io.WriteString(c, strings.Repeat(getFeed, n))
	got := make([]byte, n*len(answer))
	if _, err := io.ReadFull(c, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, bytes.Repeat(answer, n)) {
		t.Fatal("the answers are not whole")
	}
	expect(t, c, nil, 0)
}
