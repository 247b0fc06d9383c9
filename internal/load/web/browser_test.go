package web

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"weir/internal/load"
)

// fakeUI is a UI over fakes, served.
func fakeUI(t *testing.T, tick time.Duration, change ...func(*Options)) (*UI, string) {
	t.Helper()
	o := Options{New: fakeNew(tick), History: t.TempDir()}
	for _, f := range change {
		f(&o)
	}
	u, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(u)
	t.Cleanup(func() {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
		s.Close()
	})
	return u, s.URL
}

// painted says whether the canvas of a plot has anything on it.
const painted = `((id) => { const c = document.querySelector('[data-plot="' + id + '"] canvas'); if (!c || !c.width) return false;
	const empty = document.createElement('canvas'); empty.width = c.width; empty.height = c.height; return c.toDataURL() !== empty.toDataURL(); })`

// tall says how much of the height of a plot a line takes, by its colour.
const tall = `((id, name) => {
	const c = document.querySelector('[data-plot="' + id + '"] canvas'), copy = document.createElement('canvas');
	copy.width = c.width; copy.height = c.height;
	const read = copy.getContext('2d', { willReadFrequently: true });
	const probe = document.createElement('span');
	probe.style.color = 'var(--' + name + ')';
	document.body.append(probe);
	read.fillStyle = getComputedStyle(probe).color;
	probe.remove();
	read.fillRect(0, 0, 1, 1);
	const want = read.getImageData(0, 0, 1, 1).data;
	read.clearRect(0, 0, 1, 1);
	read.drawImage(c, 0, 0);
	const got = read.getImageData(0, 0, c.width, c.height).data;
	let top = c.height, bottom = 0;
	for (let i = 0; i < got.length; i += 4) {
		if (got[i + 3] < 200 || [0, 1, 2].some((j) => Math.abs(got[i + j] - want[j]) > 10)) continue;
		const y = Math.floor(i / 4 / c.width);
		top = Math.min(top, y); bottom = Math.max(bottom, y);
	}
	return (bottom - top) / c.height; })`

// Keys that chromedp's package kb names.
const (
	arrowLeft  = kb.ArrowLeft
	arrowRight = kb.ArrowRight
	home       = kb.Home
)

// selectAll selects what the focused field holds.
func selectAll() chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := chromedp.Evaluate[chromedp.Void]("document.activeElement.select()")(ctx, tab)
		return err
	})
}

func planFor(t *testing.T, text string) load.Plan {
	t.Helper()
	p, err := load.ReadPlan([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}
