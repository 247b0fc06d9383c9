//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const aboutFilter = "weir mock is the upstream, on the load generator's core. Hits are of one feed of 25 " +
	"items and 24 KB, of which a filter drops nothing; nginx sends the same bytes from a file, or the file " +
	"beside it that gzip has made. Parsing and rules are Go benchmarks, each alone on the server's core."

// The fleet: who reads what.
const (
	fleetFilters  = 125_000
	fleetSources  = 20_000
	fleetNominal  = float64(fleetFilters) / 300 // requests a second, when each is polled every 5 minutes
	fleetHosts    = 200                         // that the sources are at
	hangingFeeds  = 200
	filteredRules = 20
)

// Names of figures of filtered feeds.
const (
	hit           = "hit, CPU, us"
	hitGzip       = "hit gzipped, CPU, us"
	notModified   = "304, CPU, us"
	parsing       = "parse of 24 KB, us"
	parseAllocs   = "allocations a parse"
	deciding      = "20 rules over 25 items, us"
	fleetRate     = "fleet, requests/s under 5 % shed"
	fleetMultiple = "fleet, multiple of 417/s"
	fleetMemory   = "fleet, peak memory of the cgroup, MiB"
	besideHangs   = "p99 of hits beside 200 hanging and 200 new sources, ms"
)

// feedsBehind starts a mock of feeds and a weir that may fetch from it, and calls do.
func (b *bench) feedsBehind(ctx context.Context, before []string, do func(mock, p *process) error) error {
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(addr)
	mock := server{name: "mock", core: clientCore, addr: addr, path: "/feed/1.rss",
		command: "bin/weir mock --listen 0.0.0.0:" + port + " --items 25 --body 350"}
	return b.during(ctx, mock, func(m *process) error {
		s := weirServes("--filter-allow-net", "127.0.0.0/8", "--filter-ports", port)
		s.before = before
		return b.during(ctx, s, func(p *process) error { return do(m, p) })
	})
}

// addFilter makes a filter on p and returns the path of its feed.
func addFilter(p *process, url string, rules []string) (string, error) {
	body, err := json.Marshal(map[string]any{"url": url, "mode": "drop", "rules": rules})
	if err != nil {
		return "", err
	}
	answer, err := http.Post("http://"+p.admin+"/admin/filters", "application/json", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	var made struct{ Path string }
	if err == nil {
		err = json.Unmarshal(text, &made)
	}
	if err != nil || made.Path == "" {
		return "", fmt.Errorf("a filter of %s was not made: %.200s %w", url, text, err)
	}
	return made.Path, nil
}

// fetched returns the body and the ETag of a feed.
func fetched(url string) (body []byte, etag string, err error) {
	answer, err := http.Get(url)
	if err != nil {
		return nil, "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, "", fmt.Errorf("%s: %s", url, answer.Status)
	}
	body, err = io.ReadAll(answer.Body)
	return body, answer.Header.Get("ETag"), err
}

func (b *bench) measureFilter(ctx context.Context) error {
	if err := b.measureParsing(ctx); err != nil {
		return err
	}
	if err := b.measureHits(ctx); err != nil {
		return err
	}
	if err := b.measureHanging(ctx); err != nil {
		return err
	}
	return b.measureFleet(ctx)
}

// measureParsing takes what Go benchmarks say of the parser, of gofeed and of rules.
func (b *bench) measureParsing(ctx context.Context) error {
	for round := range b.rounds {
		for _, of := range []struct{ binary, benchmark, unit, subject, name string }{
			{"syndication", "BenchmarkParse/weir/escaped", "ns/op", weir, parsing},
			{"syndication", "BenchmarkParse/gofeed/escaped", "ns/op", "gofeed", parsing},
			{"syndication", "BenchmarkParse/weir/escaped", "allocs/op", weir, parseAllocs},
			{"rules", "BenchmarkDecide", "ns/op", weir, deciding},
		} {
			found, err := benchmarks(ctx, "build/bin/"+of.binary+".test",
				"^"+strings.ReplaceAll(of.benchmark, "/", "$/^")+"$", of.unit, "200ms", "1")
			if err != nil {
				return err
			}
			value, ok := median(found[of.benchmark])
			if !ok {
				return fmt.Errorf("there is no %s in %s of %s", of.unit, of.benchmark, of.binary)
			}
			if of.unit == "ns/op" {
				value /= 1000
			}
			b.put("filter", of.subject, of.name, round+1, value)
		}
	}
	return nil
}

// measureHits compares answers that are at hand with nginx's of the same file.
func (b *bench) measureHits(ctx context.Context) error {
	return b.feedsBehind(ctx, nil, func(mock, p *process) error {
		source := "http://" + mock.addr + "/feed/7.rss"
		path, err := addFilter(p, source, []string{`title contains "nothing has this"`})
		if err != nil {
			return err
		}
		body, etag, err := fetched("http://" + p.addr + path)
		if err != nil {
			return err
		}
		file, err := b.nginxFile(body)
		if err != nil {
			return err
		}
		return b.during(ctx, file, func(n *process) error {
			_, fileTag, err := fetched("http://" + n.addr + "/feed.xml")
			if err != nil {
				return err
			}
			asked := map[string]struct {
				*process
				path, etag string
			}{weir: {p, path, etag}, nginx: {n, "/feed.xml", fileTag}}
			return b.inTurns([]string{weir, nginx}, func(name string, round int) error {
				of := asked[name]
				for _, figure := range []struct{ name, header string }{
					{hit, "Accept: */*"}, {hitGzip, "Accept-Encoding: gzip"}, {notModified,
						"If-None-Match: " + of.etag},
				} {
					l, err := b.steady(func() (*load, error) {
						return b.weirLoad(ctx, of.process, b.duration, of.path, "--connections", "64",
							"--header", figure.header)
					})
					if err != nil {
						return err
					}
					b.put("filter", name, figure.name, round, l.serverCPU)
				}
				return nil
			})
		})
	})
}

// nginxFile sends one file, and the same compressed, from one process without a log.
func (b *bench) nginxFile(body []byte) (server, error) {
	dir, err := filepath.Abs(b.path("nginx-file"))
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "feed.xml"), body, 0o644)
	}
	if err == nil {
		err = exec.Command("gzip", "-kf", filepath.Join(dir, "feed.xml")).Run()
	}
	if err != nil {
		return server{}, err
	}
	s, err := b.nginxWith(dir, "root "+dir+"; gzip_static on; open_file_cache max=100; sendfile on; etag on;")
	s.path = "/feed.xml"
	return s, err
}

// measureHanging asks for one feed that is at hand, while others wait for sources that never answer and for
// sources that nobody has asked for before.
func (b *bench) measureHanging(ctx context.Context) error {
	return b.feedsBehind(ctx, nil, func(mock, p *process) error {
		source := "http://" + mock.addr
		path, err := addFilter(p, source+"/feed/7.rss", nil)
		if err != nil {
			return err
		}
		if _, _, err := fetched("http://" + p.addr + path); err != nil {
			return err
		}
		for round := range b.rounds {
			var others strings.Builder
			for i := range 2 * hangingFeeds {
				// At hosts of their own: a host that hangs is not asked by all at once.
				url := fmt.Sprintf("http://127.0.%d.%d:%s/feed/%d.rss", 1+round, 1+i%250, portOf(mock.addr),
					1000*round+i)
				if i%2 == 0 {
					url += "?hang=1"
				}
				other, err := addFilter(p, url, nil)
				if err != nil {
					return err
				}
				fmt.Fprintf(&others, "{\"url\":%q}\n", other)
			}
			file := b.path("hanging.jsonl")
			if err := os.WriteFile(file, []byte(others.String()), 0o644); err != nil {
				return err
			}
			over := make(chan error, 1)
			go func() {
				_, err := b.overload(ctx, p, b.duration, "--scenario", "requests", "--requests", file,
					"--connections", "400", "--timeout", "30s")
				over <- err
			}()
			l, err := b.openLoop(ctx, p, 5000, path, "--warm", "100")
			<-over // of those that hang nothing is expected
			if err != nil {
				return err
			}
			b.put("filter", weir, besideHangs, round+1, l.p99/1000)
		}
		return nil
	})
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// measureFleet finds how often 5,000 readers of 25 feeds each could come, in a cgroup of 768 MiB.
func (b *bench) measureFleet(ctx context.Context) error {
	g, err := newMemoryGroup(limitedMemory)
	if err != nil {
		b.note("The fleet was not measured: %v.", err)
		return nil
	}
	before := []string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(g.dir, "cgroup.procs")}
	err = b.feedsBehind(ctx, before, func(mock, p *process) error {
		file, err := b.fleet(ctx, mock, p)
		if err != nil {
			return err
		}
		poll := []string{"--scenario", "poll", "--feed-urls", file}
		// Sources are fetched, and readers know what they have, before the search begins.
		const patience = 30 // rounds of 10 s
		for round := 1; ; round++ {
			l, err := b.overload(ctx, p, 10*time.Second,
				append(poll, "--rate", fmt.Sprintf("%.0f/s", 10*fleetNominal))...)
			if err != nil {
				return err
			}
			log.Printf("filter: %.0f/s of the fleet served, %.0f/s refused", l.served, l.refused)
			if l.refused < l.served/1000 {
				break
			}
			if round == patience {
				return fmt.Errorf("the fleet is not at hand after %d s: of the last ten's %.0f requests "+
					"%.0f were refused", 10*patience, l.refused+l.served, l.refused)
			}
		}
		l, err := b.overload(ctx, p, 60*time.Second, append(poll, "--mode", "adaptive", "--healthy-when",
			"shed<5%")...)
		if err != nil {
			return err
		}
		if l.ceiling == nil {
			return fmt.Errorf("the search for the fleet's ceiling says nothing")
		}
		b.put("filter", weir, fleetRate, 1, l.ceiling.Low)
		b.put("filter", weir, fleetMultiple, 1, l.ceiling.Low/fleetNominal)
		peak, err := g.number(g.peak, "")
		if err != nil {
			return err
		}
		b.put("filter", weir, fleetMemory, 1, mib(int64(peak)))
		if kills, err := g.number(g.kills, "oom_kill"); err != nil || kills > 0 {
			return fmt.Errorf("%d processes of the fleet's cgroup were killed: %w", kills, err)
		}
		return nil
	})
	if removed := g.remove(); err == nil {
		err = removed
	}
	return err
}

// fleetSize is how many filters there are: a tenth where users are few.
func (b *bench) fleetSize() int {
	if b.users < barUsers {
		return fleetFilters / 10
	}
	return fleetFilters
}

// fleet makes the filters and returns the file of their paths.
func (b *bench) fleet(ctx context.Context, mock, p *process) (string, error) {
	rules := make([]string, filteredRules)
	paths := make([]string, b.fleetSize())
	for i := range paths {
		for r := range rules {
			rules[r] = fmt.Sprintf("title contains words \"word%d\"", (i+r*977)%5000)
		}
		source := i % (len(paths) * fleetSources / fleetFilters)
		url := fmt.Sprintf("http://127.0.10.%d:%s/feed/%d.rss", 1+source%fleetHosts, portOf(mock.addr),
			source)
		path, err := addFilter(p, url, rules)
		if err != nil {
			return "", err
		}
		paths[i] = path
		if i%10000 == 0 {
			log.Printf("filter: %d of the fleet's %d filters are made", i, len(paths))
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
	}
	file := b.path("fleet.txt")
	return file, os.WriteFile(file, []byte(strings.Join(paths, "\n")+"\n"), 0o644)
}
