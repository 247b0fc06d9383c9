package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mayImport says which of weir's packages each of them may import. Services do not import each other, and
// nothing below imports a service: docs/ARCHITECTURE.md. A new package needs a line here.
var mayImport = map[string][]string{
	"weir/internal/disk":        {},
	"weir/internal/disk/record": {"weir/internal/disk", "weir/internal/metrics"},
	"weir/internal/metrics":     {"weir/internal/disk"},
	"weir/internal/cluster":     {"weir/internal/metrics"},
	"weir/internal/cluster/operate": {"weir/internal/cluster", "weir/internal/cluster/members",
		"weir/internal/cluster/publications", "weir/internal/config", "weir/internal/doctor",
		"weir/internal/metrics", "weir/internal/server", "weir/internal/webui"},
	"weir/internal/strictjson":        {},
	"weir/internal/config":            {},
	"weir/internal/webui":             {"weir/internal/webui/uplot"},
	"weir/internal/webui/uplot":       {},
	"weir/internal/webui/webuitest":   {"weir/internal/systest"},
	"weir/internal/systest":           {},
	"weir/internal/jsonscan":          {},
	"weir/internal/ingest":            {"weir/internal/disk", "weir/internal/jsonscan"},
	"weir/internal/ingest/ingesttest": {},
	"weir/internal/progress": {"weir/internal/progress/cells", "weir/internal/disk",
		"weir/internal/disk/record", "weir/internal/metrics"},
	"weir/internal/progress/cells": {"weir/internal/disk", "weir/internal/disk/record",
		"weir/internal/metrics"},
	"weir/internal/progress/positionstest": {"weir/internal/progress", "weir/internal/systest"},
	"weir/internal/journal": {"weir/internal/disk", "weir/internal/disk/record",
		"weir/internal/metrics"},
	"weir/internal/server": {"weir/internal/shed", "weir/internal/disk",
		"weir/internal/strictjson", "weir/internal/metrics", "weir/internal/config", "weir/internal/webui"},
	"weir/internal/server/servertest": {"weir/internal/server"},
	"weir/internal/shed":              {"weir/internal/metrics"},
	"weir/internal/admin/history":     {"weir/internal/disk/record"},
	"weir/internal/admin": {"weir/internal/server", "weir/internal/disk", "weir/internal/strictjson",
		"weir/internal/config", "weir/internal/webui", "weir/internal/admin/history",
		"weir/internal/metrics", "weir/internal/shed"},
	"weir/internal/doctor": {"weir/internal/shed", "weir/internal/disk",
		"weir/internal/config"},
	"weir/internal/flight":                        {"weir/internal/metrics"},
	"weir/internal/bandit/featurestore":           {"weir/internal/flight", "weir/internal/metrics"},
	"weir/internal/bandit/featurestore/feasttest": {"weir/internal/systest"},
	"weir/internal/bandit/beta":                   {},
	"weir/internal/sequence/decimal":              {},
	"weir/internal/sequence": {"weir/internal/sequence/decimal", "weir/internal/server",
		"weir/internal/progress", "weir/internal/cluster", "weir/internal/cluster/positions",
		"weir/internal/disk", "weir/internal/strictjson", "weir/internal/metrics", "weir/internal/config",
		"weir/internal/webui"},
	"weir/internal/bandit/arms": {"weir/internal/disk", "weir/internal/disk/record"},
	"weir/internal/bandit/learning": {"weir/internal/bandit/arms", "weir/internal/cluster",
		"weir/internal/disk", "weir/internal/disk/record", "weir/internal/journal", "weir/internal/metrics"},
	"weir/internal/bandit/learning/learningtest": {"weir/internal/bandit/arms",
		"weir/internal/bandit/learning"},
	"weir/internal/bandit": {"weir/internal/bandit/arms", "weir/internal/bandit/beta",
		"weir/internal/bandit/featurestore", "weir/internal/bandit/learning", "weir/internal/cluster",
		"weir/internal/server", "weir/internal/ingest", "weir/internal/jsonscan", "weir/internal/disk",
		"weir/internal/metrics", "weir/internal/config", "weir/internal/webui"},
	"weir/internal/filter/syndication": {"weir/internal/filter/text", "weir/internal/jsonscan"},
	"weir/internal/load/access":        {},
	"weir/internal/load/measure":       {},
	"weir/internal/load/client":        {"weir/internal/load/measure", "weir/internal/server"},
	"weir/internal/load/control":       {"weir/internal/load/measure"},
	"weir/internal/load/scenario": {"weir/internal/load/access", "weir/internal/load/client",
		"weir/internal/strictjson"},
	"weir/internal/load/agent": {"weir/internal/load/access", "weir/internal/load/client",
		"weir/internal/load/measure", "weir/internal/load/scenario", "weir/internal/server",
		"weir/internal/strictjson", "weir/internal/webui"},
	"weir/internal/load/report": {"weir/internal/load/control", "weir/internal/load/measure",
		"weir/internal/webui/uplot",
		"weir/internal/strictjson", "weir/internal/metrics"},
	"weir/internal/load/mock": {"weir/internal/server"},
	"weir/internal/load": {"weir/internal/load/access", "weir/internal/load/agent",
		"weir/internal/load/client", "weir/internal/load/control", "weir/internal/load/measure",
		"weir/internal/load/report", "weir/internal/load/scenario", "weir/internal/strictjson"},
	"weir/internal/load/web": {"weir/internal/load/access", "weir/internal/load",
		"weir/internal/load/control", "weir/internal/load/report",
		"weir/internal/disk", "weir/internal/webui"},
	"weir/internal/filter/fetch":     {},
	"weir/internal/filter/httpcache": {"weir/internal/disk"},
	"weir/internal/filter": {"weir/internal/filter/fetch", "weir/internal/filter/httpcache",
		"weir/internal/filter/opml", "weir/internal/filter/pieces",
		"weir/internal/filter/rules", "weir/internal/filter/selection", "weir/internal/filter/store",
		"weir/internal/filter/syndication", "weir/internal/filter/shared", "weir/internal/cluster",
		"weir/internal/server", "weir/internal/strictjson", "weir/internal/metrics", "weir/internal/config",
		"weir/internal/webui"},
	"weir/internal/filter/shared": {"weir/internal/filter/store", "weir/internal/cluster"},
	"weir/internal/filter/pieces": {"weir/internal/filter/syndication"},
	"weir/internal/filter/store":  {"weir/internal/disk"},
	"weir/internal/feed/snapshot": {"weir/internal/disk", "weir/internal/disk/record"},
	"weir/internal/feed/source": {"weir/internal/feed/snapshot", "weir/internal/disk",
		"weir/internal/webui"},
	"weir/internal/feed": {"weir/internal/feed/snapshot", "weir/internal/feed/source",
		"weir/internal/cluster", "weir/internal/cluster/members", "weir/internal/cluster/positions",
		"weir/internal/cluster/publications", "weir/internal/server", "weir/internal/progress",
		"weir/internal/ingest", "weir/internal/disk", "weir/internal/disk/record", "weir/internal/strictjson",
		"weir/internal/metrics", "weir/internal/config", "weir/internal/webui"},
	"weir/internal/filter/text":      {},
	"weir/internal/filter/opml":      {"weir/internal/filter/rules", "weir/internal/filter/selection"},
	"weir/internal/filter/selection": {"weir/internal/filter/syndication", "weir/internal/filter/text"},
	"weir/internal/filter/rules": {"weir/internal/filter/syndication", "weir/internal/filter/text",
		"weir/internal/strictjson"},
	"weir/internal/cluster/clustertest":  {"weir/internal/systest"},
	"weir/internal/cluster/members":      {"weir/internal/cluster", "weir/internal/disk"},
	"weir/internal/cluster/publications": {"weir/internal/cluster", "weir/internal/cluster/members"},
	"weir/internal/cluster/positions": {"weir/internal/cluster", "weir/internal/metrics",
		"weir/internal/progress"},
}

// systemCalls are what only packages that talk to the system import: disk, and the Linux files of kernels.
var systemCalls = []string{"unsafe", "golang.org/x/sys/unix", "golang.org/x/sys/windows"}

// kernels are the packages whose Linux files talk to the system: both ends of a connection, and what
// watches the box.
var kernels = []string{"weir/internal/server", "weir/internal/load/client", "weir/internal/shed",
	"weir/internal/doctor"}

// forTests are packages that only tests and each other import.
var forTests = []string{"weir/internal/systest", "weir/internal/webui/webuitest",
	"weir/internal/ingest/ingesttest", "weir/internal/bandit/featurestore/feasttest",
	"weir/internal/cluster/clustertest", "weir/cmd/localcluster",
	"weir/internal/bandit/learning/learningtest", "weir/internal/progress/positionstest"}

// goFile is a Go file of the module that is no test.
type goFile struct {
	path, pkg string
	*ast.File
}

// goFiles parses all of the module's files, whatever system they are for.
func goFiles(t *testing.T) []goFile {
	t.Helper()
	var files []goFile
	for _, root := range []string{"internal", "cmd"} {
		err := filepath.WalkDir(filepath.Join("../..", root),
			func(path string, d fs.DirEntry, err error) error {
				switch {
				case err != nil:
					return err
				case d.IsDir() && (d.Name() == "testdata" || d.Name() == "deps"):
					return fs.SkipDir
				case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
					return nil
				}
				f, err := parser.ParseFile(token.NewFileSet(), path, nil,
					parser.ParseComments|parser.SkipObjectResolution)
				if err != nil {
					return err
				}
				path = strings.TrimPrefix(filepath.ToSlash(path), "../../")
				files = append(files, goFile{path, "weir/" + path[:strings.LastIndexByte(path, '/')], f})
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(files) == 0 {
		t.Fatal("no Go files found")
	}
	return files
}

func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	for _, f := range goFiles(t) {
		command := strings.HasPrefix(f.pkg, "weir/cmd/") // may import everything but what is for tests
		allowed, known := mayImport[f.pkg]
		if !known && !command {
			t.Errorf("%s: the package %s is not in the table of who may import whom", f.path, f.pkg)
			continue
		}
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(forTests, name) && !slices.Contains(forTests, f.pkg) {
				t.Errorf("%s imports %s, which is for tests", f.path, name)
			}
			if command {
				continue
			}
			if strings.HasPrefix(name, "weir/") && !slices.Contains(allowed, name) {
				t.Errorf("%s imports %s, which %s may not", f.path, name, f.pkg)
			}
			kernel := f.pkg == "weir/internal/disk" || slices.Contains(kernels, f.pkg) &&
				strings.HasSuffix(f.path, "_linux.go")
			if slices.Contains(systemCalls, name) && !kernel {
				t.Errorf("%s imports %s, which belongs into internal/disk or a kernel's _linux.go", f.path,
					name)
			}
		}
	}
}

// guarded are the packages whose goroutines may touch mapped memory: they are started by internal/disk, so
// that a fault in one is its owner's error. Generating lists reads none.
var guarded = []string{"weir/internal/feed", "weir/internal/feed/snapshot", "weir/internal/bandit",
	"weir/internal/bandit/arms",
	"weir/internal/bandit/learning", "weir/internal/progress", "weir/internal/progress/cells",
	"weir/internal/journal", "weir/internal/disk/record", "weir/internal/filter/httpcache"}

// waiting are those that start goroutines by disk.Go and wait for them by a sync.WaitGroup.
var waiting = []string{"weir/internal/progress/cells", "weir/internal/filter/httpcache"}

func TestGoroutinesThatTouchMappedMemoryAreGuarded(t *testing.T) {
	for _, f := range goFiles(t) {
		if !slices.Contains(guarded, f.pkg) || f.path == "internal/feed/generate.go" {
			continue
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: a goroutine is started by go; use disk.Go or server.Background", f.path)
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "sync" && n.Sel.Name == "WaitGroup" &&
					!slices.Contains(waiting, f.pkg) {
					t.Errorf("%s: a sync.WaitGroup, whose Go does not guard; use server.Background", f.path)
				}
			}
			return true
		})
	}
}

// TestPackagesDoNotExecuteTemplates: text/template calls methods by names that the linker cannot know, so
// that it keeps every exported method of every type, and the program is half as large again. make check
// looks at what was linked.
func TestPackagesDoNotExecuteTemplates(t *testing.T) {
	for _, f := range goFiles(t) {
		for _, spec := range f.Imports {
			if spec.Path.Value == `"text/template"` || spec.Path.Value == `"html/template"` {
				t.Errorf("%s imports %s", f.path, spec.Path.Value)
			}
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			if n, ok := n.(*ast.SelectorExpr); ok &&
				slices.Contains([]string{"SetVersionTemplate", "SetHelpTemplate", "SetUsageTemplate"},
					n.Sel.Name) {
				t.Errorf("%s: cobra executes templates once it is given one by %s", f.path, n.Sel.Name)
			}
			return true
		})
	}
}

func TestEveryPackageHasOneAttachedComment(t *testing.T) {
	commented := make(map[string][]string)
	for _, f := range goFiles(t) {
		others := commented[f.pkg]
		if f.Doc == nil {
			commented[f.pkg] = others // the package is there, its comment may not be
			continue
		}
		commented[f.pkg] = append(others, f.path)
		name := "Package " + f.Name.Name
		if f.Name.Name == "main" {
			name = "Command " + f.pkg[strings.LastIndexByte(f.pkg, '/')+1:]
		}
		if text := f.Doc.Text(); !strings.HasPrefix(text, name+" ") {
			t.Errorf("%s: the package comment begins with %.40q, expected %q", f.path, text, name)
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(commented)) {
		if paths := commented[pkg]; len(paths) != 1 {
			t.Errorf("%s has %d package comments %q, expected one, attached to the package clause", pkg,
				len(paths), paths)
		}
	}
}
