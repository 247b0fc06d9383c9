package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

// drawn returns a result's picture, how many of its elements are of each class, and all its text.
func drawn(t testing.TB, r *Result) (picture string, classes map[string]int, text string) {
	t.Helper()
	var b bytes.Buffer
	if err := WriteSVG(&b, r); err != nil {
		t.Fatal(err)
	}
	picture = b.String()
	classes = make(map[string]int)
	d := xml.NewDecoder(&b)
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return picture, classes, text
		}
		if err != nil {
			t.Fatalf("the picture is no XML: %v\n%s", err, picture)
		}
		switch e := token.(type) {
		case xml.StartElement:
			for _, a := range e.Attr {
				if a.Name.Local == "class" {
					classes[a.Value]++
				}
			}
			if e.Name.Local == "script" || e.Name.Local == "image" {
				t.Errorf("the picture has a %s", e.Name.Local)
			}
		case xml.CharData:
			text += string(e) + "\n"
		}
	}
}

func TestPictureShowsTheRun(t *testing.T) {
	picture, classes, text := drawn(t, realistic(t))
	for class, n := range map[string]int{"intended": 2, "served": 2, "shed": 2, "p50": 2, "p99": 2,
		"ceiling": 2, "band": 1, "warm": 2} {
		if classes[class] != n {
			t.Errorf("%d elements are of class %s, expected %d", classes[class], class, n)
		}
	}
	if classes["errors"] != 0 {
		t.Error("errors are drawn where there are none")
	}
	for _, want := range []string{"feed, one core", "ceiling 42,000/s", "60k/s", "10 ms", "\n60 s"} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	if len(picture) > 64<<10 {
		t.Errorf("the picture has %d bytes", len(picture))
	}
}

func TestPictureEscapesAndSurvives(t *testing.T) {
	r := sample(t)
	r.Name = "</text><script>\x00\xff\u202e"
	if _, _, text := drawn(t, r); !strings.Contains(text, "</text><script>???") {
		t.Errorf("the name is shown as\n%.100s", text)
	}
	for _, r := range []*Result{{}, {Trace: []Point{{}}},
		{Trace: []Point{{At: math.NaN(), Seconds: math.Inf(1), Served: math.Inf(1), P99: pointer(-1)},
			{At: -5, Served: math.MaxFloat64, P99: pointer(math.MaxFloat64)}}}} {
		if picture, _, _ := drawn(t, r); strings.Contains(picture, "NaN") ||
			strings.Contains(picture, "Inf") {
			t.Errorf("the picture has places that are none:\n%s", picture)
		}
	}
}

func TestAxesHaveRoundSteps(t *testing.T) {
	for most, want := range map[float64]float64{0: 1, 4: 1, 5: 2, 42000: 20000, 60: 20, 0.3: 0.1, 100: 50} {
		if got := niceStep(most, 4); math.Abs(got/want-1) > 1e-9 {
			t.Errorf("up to %v the step is %v, expected %v", most, got, want)
		}
	}
}

func TestPictureInABrowser(t *testing.T) {
	ctx, complaints := browser(t)
	picture, _, _ := drawn(t, realistic(t))
	for _, scheme := range []string{"light", "dark"} {
		page := fmt.Sprintf(
			`<!doctype html><html data-plots="1"><body style="color-scheme:light dark">%s</body></html>`,
			picture)
		look(t, ctx, page, "svg-"+scheme, scheme, 900, 520)
		fill := ask[string](t, ctx, `getComputedStyle(document.querySelector(".back")).fill`)
		if dark := fill == "rgb(20, 23, 27)"; dark != (scheme == "dark") {
			t.Errorf("%s: the background is %s", scheme, fill)
		}
		// No text leaves the picture or runs into other text.
		if bad := ask[string](t, ctx,
			`(() => { const all = [...document.querySelectorAll("text")].map(e => [e.textContent, e.getBBox()]);
			for (const [a, p] of all) { if (p.x < 0 || p.x + p.width > `+fmt.Sprint(svgWidth)+`) return a;
				for (const [b, q] of all) if (p !== q && p.x < q.x + q.width && q.x < p.x + p.width && p.y < q.y + q.height - 2 && q.y < p.y + p.height - 2) return a + " and " + b; }
			return ""; })()`); bad != "" {
			t.Errorf("%s: text runs over: %s", scheme, bad)
		}
	}
	if list := complaints(); len(list) > 0 {
		t.Errorf("the browser complains: %q", list)
	}
}

func TestThinKeepsSumsAndSpikes(t *testing.T) {
	var trace []Point
	for i := range 1001 {
		p := Point{At: float64(i+1) / 10, Seconds: 0.1, Served: 100, P99: pointer(10.0), Max: pointer(10.0)}
		if i == 500 {
			p.Max = pointer(5000.0)
		}
		trace = append(trace, p)
	}
	out := thin(trace, 100)
	if len(out) > 100 || out[len(out)-1].At != 100.1 {
		t.Fatalf("%d points to %v", len(out), out[len(out)-1].At)
	}
	var sum, most float64
	for _, p := range out {
		sum += p.Served * p.Seconds
		most = max(most, *p.Max)
	}
	near(t, "the sum", sum, 10010)
	near(t, "the spike", most, 5000)
	if trace[0].Seconds != 0.1 || len(trace) != 1001 || time.Duration(trace[500].At*10) != 501 {
		t.Error("the trace was changed")
	}
}
