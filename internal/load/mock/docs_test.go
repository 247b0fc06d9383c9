package mock

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func TestTheDocumentNamesEverything(t *testing.T) {
	text, err := os.ReadFile("../../../docs/mock.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(text)
	for i := range table {
		k := Defaults()
		row := "| `" + table[i].name + "` | " + (&flag{&k, &table[i]}).String() + " |"
		if table[i].name == "gzip" || table[i].name == "br" {
			row = "| `gzip`, `br` | auto |"
		}
		if !strings.Contains(doc, row) {
			t.Errorf("docs/mock.md lacks the row %q", row)
		}
	}
	for i := 1; i < len(damages); i++ {
		if row := "\n| `" + damages[i].name + "` | "; !strings.Contains(doc, row) {
			t.Errorf("docs/mock.md lacks %q", row)
		}
	}
	for _, name := range charsetNames() {
		if !strings.Contains(doc, name) {
			t.Errorf("docs/mock.md lacks the charset %s", name)
		}
	}
	var stats map[string]any
	if err := json.Unmarshal(mustJSON(stepped(t).Stats()), &stats); err != nil {
		t.Fatal(err)
	}
	for name := range stats {
		if !strings.Contains(doc, "`"+name+"`") {
			t.Errorf("docs/mock.md lacks the member %s of /stats", name)
		}
	}
	for _, r := range stepped(t).Routes() {
		if pattern := strings.Replace(r.Pattern, "{name}", "{seed}.rss", 1); !strings.Contains(doc, "`"+pattern+"`") {
			t.Errorf("docs/mock.md lacks %s", pattern)
		}
	}
}

func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
