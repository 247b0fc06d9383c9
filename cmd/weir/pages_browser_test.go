package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"weir/internal/systest"
	"weir/internal/webui/webuitest"
)

// teachAPI teaches arms that differ in pulls and means, one of them for a user.
func teachAPI(t *testing.T, public string) {
	t.Helper()
	var body bytes.Buffer
	for i := range 130 {
		for pull := range 1 + i*i%97 {
			fmt.Fprintf(&body, `{"item":"item%d","reward":%d}`+"\n", i, min(1, (pull*31+i)%(i%7+2)))
		}
	}
	body.WriteString(`{"item":"dune","reward":1,"user":"bob"}` + "\n")
	if got := callAPI(t, http.MethodPost, public+"/events", body.String(), 0); got.StatusCode != 200 {
		t.Fatalf("%s %s", got.Status, got.body)
	}
}

func TestThePagesOfServicesWorkInABrowser(t *testing.T) {
	systest.LongRun(t, "a browser")
	_, public, admin := startAPI(t)
	teachAPI(t, public)
	b := webuitest.Open(t, admin, 1280, 900, "light")
	says := func(selector, text string) string {
		return fmt.Sprintf("document.querySelector(%q).innerText.includes(%q)", selector, text)
	}

	t.Run("feed", func(t *testing.T) {
		b.Go("/ui/feed")
		b.Wait(says("#feed-state", "Generation") + " && " + says("#feed-surveyed", "Nobody has counted"))
		for n := range 3 {
			callAPI(t, http.MethodGet, fmt.Sprintf("%s/feed/1?size=%d", public, n+1), "", 0)
		}
		b.Fill("feed-id", "1")
		b.Click("#feed-form button")
		b.Wait(says("#feed-seen", "6 of 290") + " && document.querySelectorAll('.next').length === 10")
		if next := b.Text("document.querySelector('.next').innerText"); !strings.Contains(next, "7") {
			t.Errorf("the next item is shown as %q", next)
		}
		b.Fill("feed-set", "100")
		b.Click("#feed-seen form button")
		b.Wait(says("#feed-seen", "100 of 290"))
		b.Click("#feed-count")
		b.Wait(says("#feed-surveyed", "Have had nothing") +
			" && document.querySelectorAll('.feed-bars li').length === 21")
		b.Look("feed")
		b.Click("#feed-reset")
		b.Click("#feed-reset") // a slip does nothing
		b.Wait(says("#feed-seen", "0 of 290"))
		b.Click("#feed-reload")
		b.Wait(says("#feed-last", "generation 2 was taken up"))
		b.Fill("feed-id", "3")
		b.Click("#feed-form button")
		b.Wait(says("#feed-seen", "There is no list for 3"))
	})

	t.Run("bandit", func(t *testing.T) {
		b.Go("/ui/bandit")
		b.Wait(says("#bandit-count", "132 arms") +
			" && document.querySelectorAll('.bandit-interval').length === 25")
		b.Click("#bandit-list tbody tr:nth-child(1) input")
		b.Click("#bandit-list tbody tr:nth-child(2) input")
		b.Fill("bandit-item", "dune")
		b.Click("#bandit-add button")
		b.Wait("document.querySelectorAll('#bandit-chosen button').length === 3 && " +
			"document.querySelector('#bandit-plot canvas')")
		b.Wait("document.querySelector('#bandit-rates canvas')")
		callAPI(t, http.MethodPost, public+"/events", `{"item":"item1","reward":1}`, 0)
		b.Wait(says("#bandit-state", "Scores given"))
		b.Look("bandit")
		b.Click(".bandit-pager button:last-child")
		b.Wait(says(".bandit-pager", "26 to 50"))
		b.Fill("bandit-search", "ITEM12")
		b.Wait(says("#bandit-count", "11 of 132 arms") +
			" && document.querySelectorAll('.bandit-interval').length === 11")
		b.Click("#bandit-list tbody tr:nth-child(1) button")
		b.Click("#bandit-list tbody tr:nth-child(1) button")
		b.Wait(says(".bandit-pager", "1 to 10"))
		b.Fill("bandit-search", "nobody")
		b.Wait(says("#bandit-list", "No arm has that in its name"))
	})

	t.Run("sequence", func(t *testing.T) {
		b.Go("/ui/sequence")
		b.Wait(says("#sequence-index", "Digits of the value"))
		b.Fill("sequence-to", "x")
		b.Click("#sequence-form button")
		b.Wait(says("#sequence-wrong", "whole number"))
		b.Fill("sequence-to", "3000")
		b.Click("#sequence-form button")
		b.Wait(says("#sequence-value", "F(3000) = 4106158863079712603335683787192671052201"))
		callAPI(t, http.MethodGet, public+"/next", "", 0)
		callAPI(t, http.MethodGet, public+"/fib/50000", "", 0)
		b.Wait(says("#sequence-index", "3,001"))
		b.Wait(says("#connection", "Live"))
		b.Look("sequence")
		// Who cannot be asked says so, and is asked again.
		b.Eval("window.ask = fetch; window.fetch = () => Promise.reject(new Error('cut'))")
		b.Wait(says("main [role=alert]:not([hidden])", "The server does not answer"))
		b.Eval("window.fetch = window.ask")
		b.Wait(says("#sequence-index", "3,001") +
			" && document.querySelector('main .actions[role=alert]').hidden")
	})
	b.Clean()

	// The browser itself complains of what is refused.
	b.Go("/ui/feed")
	b.Fill("feed-id", "ada")
	b.Click("#feed-form button")
	b.Wait(says("#feed-wrong", "whole number"))
}
