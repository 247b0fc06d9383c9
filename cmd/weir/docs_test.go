package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
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
	for _, c := range newRoot().Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) { known["--"+f.Name] = true })
	}
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
