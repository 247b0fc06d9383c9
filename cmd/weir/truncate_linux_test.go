package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/internal/systest"
)

// mapped returns the files below dir that a process has mapped.
func mapped(t *testing.T, pid int, dir string) (paths []string) {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if at := strings.Index(lines.Text(), dir); at >= 0 {
			paths = append(paths, lines.Text()[at:])
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// TestTruncatingAnyMappedFileUnderLoadEndsNoProcess cuts off each file that the process has mapped,
// whichever these are, one process after the other, while all services are asked and their background
// goroutines work.
func TestTruncatingAnyMappedFileUnderLoadEndsNoProcess(t *testing.T) {
	for i, files := 0, 1; i < files; i++ {
		dir := t.TempDir()
		feeds, arms := filepath.Join(dir, "feeds.weir"), filepath.Join(dir, "arms.weir")
		numbered(3000, 100).write(t, feeds)
		var rows strings.Builder
		for i := range 20_000 {
			fmt.Fprintf(&rows, "%d,2,3\n", i)
		}
		importArms(t, arms, "items.csv", "item,alpha,beta\n"+rows.String())
		p := start(t, "--feeds", feeds, "--bandit-arms", arms, "--data", filepath.Join(dir, "data"),
			"--sync-interval", "5ms", "--sequence-sync", "5ms", "--bandit-sync", "5ms",
			"--feeds-watch", "5ms")
		p.reaches("weir_feed_warmed_ratio", 1)
		paths := mapped(t, p.cmd.Process.Pid, dir)
		if files = len(paths); files < 4 { // lists, arms, positions, the index
			t.Fatalf("only %q are mapped", paths)
		}
		done := make(chan struct{})
		var load sync.WaitGroup
		for worker := range 4 {
			load.Go(func() {
				for n := worker; ; n += 4 {
					select {
					case <-done:
						return
					default:
					}
					for _, path := range []string{fmt.Sprintf("/feed/%d", n*7%3000), "/next",
						"/fib?from=0&to=20", "/health"} {
						if status, body := p.get(path); status != 200 && status != 503 && status != 500 {
							t.Errorf("%s: %d %s", path, status, body)
						}
					}
					ask(t, "POST", "http://"+p.public+"/predict",
						fmt.Sprintf(`{"items":["%d","%d"]}`, n%20_000, n*31%20_000))
					ask(t, "POST", "http://"+p.public+"/events", fmt.Sprintf(`{"item":"%d","reward":1}`, n))
				}
			})
		}
		requests := func() float64 { n, _ := p.metric("weir_http_requests_total"); return n }
		before := requests()
		systest.Eventually(t, "load", func() bool { return requests() > before+200 })
		if err := os.Truncate(paths[i], 0); err != nil {
			t.Fatal(err)
		}
		before = requests()
		systest.Eventually(t, "requests and syncs after "+paths[i]+" was cut off",
			func() bool { return requests() > before+1000 })
		close(done)
		load.Wait()
		p.want("/version", 200)
		unused := filepath.Base(paths[i]) == "keys.cells" // for users whose ids are no ranks
		if status, body := p.get("/health"); status != 503 && !strings.Contains(body, "degraded") && !unused {
			t.Errorf("%s was cut off, and health is %d %s", paths[i], status, body)
		}
		p.cmd.Process.Signal(os.Interrupt) //nolint:errcheck // it is there, or the next line says so
		<-p.done
		if code := p.cmd.ProcessState.ExitCode(); code != 0 && code != 1 {
			t.Errorf("%s was cut off, and the process ended with %v:\n%s", paths[i],
				p.cmd.ProcessState, p.logs)
		}
	}
}
