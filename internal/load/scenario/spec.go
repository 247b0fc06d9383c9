package scenario

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Spec is what a person asks for. Zero means the default everywhere. It is plain values, and with its files
// read into it all that a runner on another machine needs.
type Spec struct {
	// One URL; a Body that begins with @ is the name of a file to read it from, as for curl.
	URL    string `json:"url,omitempty"`
	Method string `json:"method,omitempty"` // GET, or POST with a body; feed takes it too
	Body   string `json:"body,omitempty"`
	// Headers are "Name: value", and go with every request.
	Headers []string `json:"headers,omitempty"`

	// Or a scenario - feed, predict, sequence, poll, requests - or a mix by weights as in
	// "feed=3,predict=1", at Target.
	Scenario string `json:"scenario,omitempty"`
	Target   string `json:"target,omitempty"`

	// Users are FirstUser and those that follow: of feed and predict to choose from (default 100,000), of
	// poll the readers (default 5,000). With Every each of them comes so often, which makes the rate.
	Users     int           `json:"users,omitempty"`
	FirstUser uint64        `json:"first_user,omitempty"`
	Every     time.Duration `json:"every,omitempty"` // default 5 m for poll

	// Of a prediction (400) or a feed request (20); in a mix with predict, its alone.
	Items   int `json:"items,omitempty"`
	MaxItem int `json:"max_item,omitempty"` // predictions are for items 1 to this (1,000,000)
	// How far sequence climbs before it goes back (1,000); negative: on and on.
	MaxIndex int `json:"max_index,omitempty"`

	Feeds int `json:"feeds,omitempty"` // of each reader (25)
	// How many different feeds there are (a tenth of all subscriptions).
	FeedPool int `json:"feed_pool,omitempty"`
	// Where they are, with {feed}, {user} and {n} (/feed/{feed}.rss).
	FeedURL string `json:"feed_url,omitempty"`

	// FeedURLs, Requests and Vars are the names of files, and those with Text what is in them. FeedURLs has
	// the URL of one subscription on each line.
	FeedURLs     string `json:"feed_urls,omitempty"`
	FeedURLsText string `json:"feed_urls_text,omitempty"`
	Requests     string `json:"requests,omitempty"`
	RequestsText string `json:"requests_text,omitempty"`
	Vars         string `json:"vars,omitempty"`
	VarsText     string `json:"vars_text,omitempty"`
	VarsOrder    string `json:"vars_order,omitempty"` // sequential, random

	Seed uint64 `json:"seed"`
	// As the load will, Check believes any certificate, and asks by HTTP/2.
	Insecure bool          `json:"insecure,omitempty"`
	HTTP2    bool          `json:"http2,omitempty"`
	Timeout  time.Duration `json:"timeout,omitempty"` // of Check's requests (10 s)

	// Part of Parts is this runner's share of the requests, when there are several.
	Part  int `json:"part,omitempty"`
	Parts int `json:"parts,omitempty"`
}

// How large files may be. They are held in memory, and sent to runners on other machines.
const (
	maxBody     = 16 << 20
	maxRequests = 16 << 20
	maxVars     = 64 << 20
	maxURLs     = 256 << 20
)

// random is the order of rows that is not theirs.
const random = "random"

// ReadFiles reads the files that s names into it.
func (s *Spec) ReadFiles() error {
	var err error
	if name, ok := strings.CutPrefix(s.Body, "@"); ok {
		if s.Body, err = readFile("--body", name, maxBody); err != nil {
			return err
		}
		if strings.HasPrefix(s.Body, "@") {
			return fmt.Errorf("--body %s: a body that begins with @ cannot be sent", name)
		}
	}
	for _, f := range []struct {
		flag, name string
		text       *string
		most       int64
	}{
		{"--requests", s.Requests, &s.RequestsText, maxRequests}, {"--vars", s.Vars, &s.VarsText, maxVars},
		{"--feed-urls", s.FeedURLs, &s.FeedURLsText, maxURLs},
	} {
		if f.name == "" {
			continue
		}
		if *f.text, err = readFile(f.flag, f.name, f.most); err != nil {
			return err
		}
	}
	return nil
}

// readFile reads a file that is not empty and not longer than most.
func readFile(flag, name string, most int64) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", flag, err)
	case int64(len(text)) > most:
		return "", fmt.Errorf(
			"%s %s: longer than %d MiB, which is the most that is held in memory; use a part of it", flag,
			name, most>>20)
	case len(text) == 0:
		return "", fmt.Errorf("%s %s: the file is empty", flag, name)
	}
	return string(text), nil
}

// parts returns the scenarios asked for; a URL is one called url.
func (s *Spec) parts() ([]part, error) {
	switch {
	case s.URL != "" && (s.Scenario != "" || s.Requests != ""):
		return nil, fmt.Errorf("%s is one URL to ask for, and --scenario and --requests say to ask for "+
			"something else: leave one of them out; where a scenario goes is --target", s.URL)
	case s.URL != "" && s.Target != "":
		return nil, errors.New(
			"a URL says where requests go, so --target goes with --scenario or --requests alone")
	case s.URL != "":
		return []part{{"url", 1}}, nil
	case s.Scenario == "" && s.Requests != "":
		return []part{{"requests", 1}}, nil
	case s.Scenario == "":
		return nil, fmt.Errorf(
			"say what to ask for: a URL, or --scenario %s with --target, or --requests FILE",
			strings.Join(names[:4], ", "))
	}
	return parseMix(s.Scenario)
}

// check finds what has no meaning for what is asked for. Numbers within bounds are the caller's to see to.
func (s *Spec) check(parts []part) error {
	has := func(names ...string) bool { return asked(parts, names...) }
	for _, f := range []struct {
		flag  string
		given bool
		of    []string // the scenarios it belongs to
	}{
		{"--items", s.Items != 0, []string{"feed", "predict"}}, {"--max-item", s.MaxItem != 0, names[1:2]},
		{"--max-index", s.MaxIndex != 0, names[2:3]}, {"--feeds", s.Feeds != 0, names[3:4]},
		{"--feed-pool", s.FeedPool != 0, names[3:4]}, {"--feed-url", s.FeedURL != "", names[3:4]},
		{"--feed-urls", s.FeedURLs != "", names[3:4]},
		{"--first-user", s.FirstUser > 0, []string{"feed", "predict", "poll"}},
	} {
		if f.given && !has(f.of...) {
			return fmt.Errorf("%s is for --scenario %s, which is not asked for", f.flag,
				strings.Join(f.of, " and "))
		}
	}
	if has("feed") && !has("predict") && s.Items > 255 {
		return fmt.Errorf("--items must be from 1 to 255 for a feed, got %d", s.Items)
	}
	switch {
	case s.Every > 0 && s.Users == 0 && !has("poll"):
		return errors.New("--every says how often each user comes, so it needs --users")
	case s.Users > 0 && s.Every == 0 && !has("feed", "predict", "poll"):
		return errors.New("--users means nothing here without --every, which says how often each of them " +
			"comes")
	case s.FeedURLs != "" && s.FeedURLsText == "":
		return fmt.Errorf("BUG: --feed-urls %s was not read", s.FeedURLs)
	case s.Body != "" && !has("url"):
		return errors.New("--body goes with one URL: bodies of a scenario are its own, those of --requests " +
			"are in the file")
	case s.Method != "" && !has("url", "feed"):
		return errors.New("--method goes with one URL or --scenario feed: methods of other scenarios are " +
			"their own, those of --requests are in the file")
	case s.Requests != "" && !has("requests"):
		return fmt.Errorf("--requests %s is not asked for by --scenario %s: leave one of them out, or mix "+
			"them as in --scenario %[2]s,requests", s.Requests, s.Scenario)
	case s.Requests == "" && has("requests"):
		return errors.New("--scenario requests needs a file of them: --requests FILE")
	case has("requests") && s.RequestsText == "":
		return fmt.Errorf("BUG: --requests %s was not read", s.Requests)
	case s.Vars != "" && !has("requests", "url"):
		return errors.New("--vars goes with --requests or one URL, where {{name}} stands for a column of " +
			"the file")
	case s.Vars != "" && s.VarsText == "":
		return fmt.Errorf("BUG: --vars %s was not read", s.Vars)
	case s.VarsOrder != "" && s.Vars == "":
		return errors.New("--vars-order needs --vars FILE")
	case s.Part < 0 || s.Parts < 0 || s.Part >= max(s.Parts, 1):
		return fmt.Errorf("BUG: part %d of %d", s.Part, s.Parts)
	}
	return nil
}
