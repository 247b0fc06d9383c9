package main

import (
	"go/ast"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/load/measure"
	"weir/internal/load/report"
	"weir/internal/systest"
)

// documents returns the texts of what users read, by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	texts := make(map[string]string)
	for _, path := range append(paths, "../../README.md", "../../CHANGELOG.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(text)
	}
	return texts
}

func TestDocumentsLinkToWhatIsThere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)
	found := 0
	for path, text := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			found++
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", path, m[1], err)
			}
		}
	}
	if found == 0 {
		t.Error("no link found")
	}
}

func TestDocumentsNameOnlyFlagsThatExist(t *testing.T) {
	known := map[string]bool{"--help": true, "--inplace": true} // the second one is rsync's
	var learn func(c *cobra.Command)
	learn = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) { known["--"+f.Name] = true })
		for _, sub := range c.Commands() {
			learn(sub)
		}
	}
	learn(newRoot())
	flag := regexp.MustCompile("`(--[a-z-]+)")
	found := 0
	for path, text := range documents(t) {
		for _, m := range flag.FindAllStringSubmatch(text, -1) {
			found++
			if !known[m[1]] {
				t.Errorf("%s names %s, which is no flag of any command", path, m[1])
			}
		}
	}
	if found == 0 {
		t.Error("no flag found")
	}
}

// metricsOfLoad returns all metrics that a load run can show.
func metricsOfLoad() string {
	one := 1.0
	e := report.NewExporter()
	e.Add(measure.NewWindow(), report.Point{P50: &one, TargetCPU: &one, TargetMemory: &one, Ceiling: &one})
	w := httptest.NewRecorder()
	e.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

// metricsOfNodes returns the names in the code of metrics that a server has which shares an engine with
// others.
func metricsOfNodes(t *testing.T) map[string]bool {
	names := map[string]bool{}
	of := regexp.MustCompile(`^"(weir_[a-z_]*(?:cluster|bandit_stream)_?[a-z_]*)"$`)
	for _, f := range goFiles(t) {
		ast.Inspect(f.File, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok {
				if m := of.FindStringSubmatch(lit.Value); m != nil {
					names[m[1]] = true
				}
			}
			return true
		})
	}
	return names
}

func TestDocumentsNameOnlyMetricsThatExist(t *testing.T) {
	// A store has metrics of its own.
	_, public, admin := startAPI(t, "--bandit-store", "feast+http://127.0.0.1:1")
	callAPI(t, "GET", public+"/health", "", 0)
	var exposed string
	systest.Eventually(t, "the metrics of a request", func() bool {
		exposed = string(callAPI(t, "GET", admin+"/metrics", "", 0).body)
		return strings.Contains(exposed, "weir_http_requests_total{")
	})
	exposed += metricsOfLoad()
	help := regexp.MustCompile(`(?m)^# TYPE (weir_[a-z0-9_]+) (\w+)$`)
	known := make(map[string]bool)
	for _, m := range help.FindAllStringSubmatch(exposed, -1) {
		known[m[1]] = true
		if m[2] == "histogram" {
			known[m[1]+"_bucket"], known[m[1]+"_sum"], known[m[1]+"_count"] = true, true, true
		}
	}
	for name := range metricsOfNodes(t) {
		known[name] = true
	}
	metric := regexp.MustCompile(`\bweir_[a-z0-9_]+`)
	found := 0
	for path, text := range documents(t) {
		for _, name := range metric.FindAllString(text, -1) {
			found++
			if !known[name] {
				t.Errorf("%s names %s, which is no metric of a server or a load run", path, name)
			}
		}
	}
	if found == 0 {
		t.Error("no metric found")
	}
}
