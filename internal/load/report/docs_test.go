package report

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/load/measure"
)

func documentation(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/load.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fieldsOf collects the paths of all fields in the JSON form of a type.
func fieldsOf(typ reflect.Type, path string, out map[string]reflect.Kind) {
	switch {
	case typ.Kind() == reflect.Pointer:
		fieldsOf(typ.Elem(), path, out)
	case typ.Kind() == reflect.Slice:
		fieldsOf(typ.Elem(), path+"[]", out)
	case typ.Kind() == reflect.Struct && typ != reflect.TypeFor[time.Time]():
		for f := range typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			fieldsOf(f.Type, strings.TrimPrefix(path+"."+name, "."), out)
		}
	default:
		out[path] = typ.Kind()
	}
}

func TestEveryFieldIsDocumented(t *testing.T) {
	_, section, found := strings.Cut(documentation(t), "### The JSON of a result")
	if !found {
		t.Fatal("docs/load.md has no section on the JSON of a result")
	}
	section, _, _ = strings.Cut(section, "\n### ")
	documented := make(map[string]string) // units
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]*)\\|").FindAllStringSubmatch(section,
		-1) {
		if _, twice := documented[m[1]]; twice {
			t.Errorf("%s is documented twice", m[1])
		}
		documented[m[1]] = strings.TrimSpace(m[2])
	}
	fields := make(map[string]reflect.Kind)
	fieldsOf(reflect.TypeFor[Result](), "", fields)
	for _, path := range slices.Sorted(maps.Keys(fields)) {
		unit, is := documented[path]
		if !is {
			t.Errorf("the field %s is not documented", path)
			continue
		}
		number := slices.Contains([]reflect.Kind{reflect.Float64, reflect.Uint64, reflect.Int}, fields[path])
		if number && unit == "" && path != "version" {
			t.Errorf("the field %s is documented without its unit", path)
		}
		delete(documented, path)
	}
	for path := range documented {
		t.Errorf("%s is documented and is no field", path)
	}
}

func TestEveryMetricIsDocumented(t *testing.T) {
	one := 1.0
	e := NewExporter()
	e.Add(measure.NewWindow(), Point{P50: &one, P90: &one, P99: &one, Max: &one, TargetCPU: &one,
		TargetMemory: &one, Ceiling: &one})
	w := httptest.NewRecorder()
	e.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text := documentation(t)
	shown := regexp.MustCompile(`(?m)^# TYPE (weir_load_\w+)`).FindAllStringSubmatch(w.Body.String(), -1)
	if len(shown) == 0 {
		t.Fatal("no metric is shown")
	}
	known := make(map[string]bool)
	for _, m := range shown {
		known[m[1]] = true
		if !strings.Contains(text, "`"+m[1]+"`") {
			t.Errorf("the metric %s is not documented", m[1])
		}
	}
	for _, m := range regexp.MustCompile("`(weir_load_\\w+)`").FindAllStringSubmatch(text, -1) {
		if !known[m[1]] {
			t.Errorf("docs/load.md names %s, which is no metric of a run", m[1])
		}
	}
}

func TestEveryKindOfFailureIsDocumented(t *testing.T) {
	text := documentation(t)
	for kind := range measure.Failures {
		if !strings.Contains(text, "| `"+kind.String()+"` |") {
			t.Errorf("errors of the kind %s are not documented", kind)
		}
	}
}

// Readers of results come with results of others.
func FuzzReadJSON(f *testing.F) {
	var good bytes.Buffer
	r := sample(f)
	r.Trace = r.Trace[:3]
	if err := WriteJSON(&good, r); err != nil {
		f.Fatal(err)
	}
	f.Add(good.Bytes())
	f.Add([]byte(`{"version":1}`))
	f.Add(
		[]byte(`{"version":1,"plan":[[[]]],"trace":[{"t":1e308,"seconds":-1,"served":1e308}],"ceiling":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ReadJSON(bytes.NewReader(text))
		if err != nil {
			return
		}
		for name, write := range map[string]func(io.Writer, *Result) error{"JSON": WriteJSON, "CSV": WriteCSV, "HTML": WriteHTML, "SVG": WriteSVG, "a summary": Summary} {
			var b bytes.Buffer
			if err := write(&b, r); err != nil {
				t.Errorf("what was read cannot be written as %s: %v", name, err)
			}
			if name == "JSON" && !json.Valid(b.Bytes()) {
				t.Error("what is written is no JSON")
			}
		}
		c, err := Compare([]*Result{r}, []*Result{r}, CompareOptions{Worse: 0.1})
		if err != nil {
			t.Fatal(err)
		}
		if c.Failed {
			t.Error("a result is worse than itself")
		}
		if err := c.WriteJSON(io.Discard); err != nil {
			t.Error(err)
		}
	})
}
