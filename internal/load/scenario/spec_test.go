package scenario

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"weir/internal/load/client"
)

func TestWhatContradictsItselfIsRefused(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{}, "say what to ask for: a URL, or --scenario feed, predict, sequence, poll with --target, " +
			"or --requests FILE"},
		{Spec{URL: origin, Scenario: "feed"}, "leave one of them out"},
		{Spec{URL: origin, Requests: "r"}, "leave one of them out"},
		{Spec{URL: origin, Target: origin}, "--target goes with --scenario or --requests alone"},
		{Spec{URL: "localhost:8080/x"}, `"localhost:8080/x" is no URL: expected one as in http://`},
		{Spec{URL: "/x"}, `"/x" is no URL`},
		{Spec{URL: "ws://localhost/"}, "expected a URL of http or https"},
		{Spec{URL: origin, Method: "get"}, "--method: methods are written in capitals"},
		{Spec{URL: origin, Method: "GET / HTTP/1.1\r\nX:"}, "is no method"},
		{Spec{URL: origin, Headers: []string{"Accept"}}, `--header: expected "Name: value", got "Accept"`},
		{Spec{URL: origin, Headers: []string{"A: b\nC: d"}},
			"--header: the value of A holds a control character"},
		{Spec{URL: origin, Headers: []string{"Host: x"}}, "--header: Host is what the URL says"},
		{Spec{Scenario: "feed", Target: origin, Headers: []string{"A\r\nB: c"}}, "is no name of a header"},
		{Spec{URL: origin, Items: 3}, "--items is for --scenario feed and predict, which is not asked for"},
		{Spec{URL: origin, Users: 3}, "--users means nothing here without --every"},
		{Spec{URL: origin, Every: time.Second}, "so it needs --users"},
		{Spec{URL: origin, VarsOrder: "random"}, "--vars-order needs --vars FILE"},
		{Spec{URL: origin, Vars: "v", VarsText: "a\n1\n"}, "no request has a variable of v"},
		{Spec{URL: origin, FirstUser: 1}, "--first-user is for"},
		{Spec{URL: origin, FeedURL: "/x"}, "--feed-url is for --scenario poll"},
		{Spec{URL: origin, MaxIndex: -1}, "--max-index is for --scenario sequence"},

		{Spec{Scenario: "fed", Target: origin},
			`there is no scenario "fed", only feed, predict, sequence, poll, requests, or a mix as in feed=3,predict=1`},
		{Spec{Scenario: "feed=0", Target: origin},
			`the weight of feed must be a whole number from 1 to 1000000, got "0"`},
		{Spec{Scenario: "feed=x", Target: origin}, "the weight of feed must be"},
		{Spec{Scenario: "feed,", Target: origin}, `there is no scenario ""`},
		{Spec{Scenario: "feed,feed=2", Target: origin}, "feed is there twice"},
		{Spec{Scenario: "feed"}, "--target says where requests go"},
		{Spec{Scenario: "feed", Target: "localhost:8080"},
			"--target: expected a URL, as in http://127.0.0.1:8080"},
		{Spec{Scenario: "feed", Target: "http://192.0.2.1"}, "--target: load goes to this machine only"},
		{Spec{Scenario: "feed", Target: origin + "?x"}, "--target: expected an origin"},
		{Spec{Scenario: "feed", Target: origin, Method: "PUT"},
			"--method must be GET, POST or HEAD for feeds"},
		{Spec{Scenario: "feed", Target: origin, Items: 256}, "--items must be from 1 to 255 for a feed"},
		{Spec{Scenario: "feed", Target: origin, MaxItem: 9}, "--max-item is for --scenario predict"},
		{Spec{Scenario: "feed", Target: origin, Feeds: 9}, "--feeds is for --scenario poll"},
		{Spec{Scenario: "feed", Target: origin, Body: "x"}, "--body goes with one URL"},
		{Spec{Scenario: "feed", Target: origin, Requests: "r"},
			"--requests r is not asked for by --scenario feed: leave one of them out, or mix them as in " +
				"--scenario feed,requests"},
		{Spec{Scenario: "feed", Target: origin, Vars: "v", VarsText: "a\n1\n"},
			"--vars goes with --requests or one URL"},
		{Spec{Scenario: "predict", Target: origin, Items: 10, MaxItem: 9},
			"--items 10 is more than there are: --max-item 9"},
		{Spec{Scenario: "predict", Target: origin, Method: "POST"},
			"--method goes with one URL or --scenario feed"},
		{Spec{Scenario: "poll", Target: origin, Users: 2_000_000}, "more than 10000000 subscriptions"},
		{Spec{Scenario: "poll", Target: origin, FeedPool: 5}, "--feed-pool 5 is too few for --feeds 25"},
		{Spec{Scenario: "poll", Target: origin, FeedURL: "/{id}"},
			`--feed-url: expected {feed}, {user} and {n} and no other braces, got "/{id}"`},
		{Spec{Scenario: "poll", Target: origin, FeedURL: "/{user}"}, "--feed-url /{user} has no {feed}"},
		{Spec{Scenario: "poll", Target: origin, FeedURL: "http://{user}/{feed}"}, "path and query alone"},
		{Spec{Scenario: "poll", Target: origin, FeedURL: "/{feed}#{user}"}, "cannot stand behind a #"},
		{Spec{Scenario: "poll", Target: origin, FeedURL: "/{feed}\r\nX: y"}, "invalid control character"},
		{Spec{Scenario: "requests", Target: origin},
			"--scenario requests needs a file of them: --requests FILE"},
		{Spec{Requests: "r", RequestsText: `{"url":"/"}`}, "r:1: url: --target says where requests go"},
	} {
		sc, err := Open(t.Context(), c.spec, nil)
		if err == nil {
			t.Errorf("%+v is taken: %s; expected %q", c.spec, sc, c.want)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v says %q, expected %q", c.spec, err, c.want)
		}
	}
}

func TestLoadGoesOnlyWhereItMay(t *testing.T) {
	for _, s := range []Spec{
		{URL: "http://192.0.2.1/"},
		{Scenario: "feed", Target: "http://192.0.2.1"},
		{Scenario: "poll", Target: origin, FeedURL: "http://192.0.2.1/{feed}"},
		{Requests: "r", RequestsText: "{\"url\":\"http://127.0.0.1/\"}\n{\"url\":\"http://192.0.2.1/\"}"},
	} {
		if _, err := Open(t.Context(), s, nil); !errors.Is(err, client.ErrNotOwned) {
			t.Errorf("%+v: %v, expected %v", s, err, client.ErrNotOwned)
		}
		if _, err := Open(t.Context(), s, []string{"192.0.2.1"}); err != nil {
			t.Error(err)
		}
	}
}

func TestANameThatNobodyKnowsIsSaid(t *testing.T) {
	look := resolve
	defer func() { resolve = look }()
	resolve = func(context.Context, string, []string) (client.Target, error) {
		return client.Target{}, &net.DNSError{Err: "no such host", Name: "nohost", IsNotFound: true}
	}
	_, err := Open(t.Context(), Spec{Scenario: "feed", Target: "http://nohost"}, nil)
	if want := "--target: lookup nohost: no such host: is the name of the host right?"; err == nil ||
		err.Error() != want {
		t.Errorf("%v, expected %q", err, want)
	}
}

func TestAFileGoesToAllItsOrigins(t *testing.T) {
	sc := open(t, Spec{Requests: "r", Target: "http://localhost:81", RequestsText: `{"url":"/a"}
{"url":"http://LOCALHOST:81/b"}
{"url":"http://127.0.0.1:82/c"}`})
	var hosts []string
	for _, target := range sc.Targets() {
		hosts = append(hosts, target.Host)
	}
	if strings.Join(hosts, " ") != "localhost:81 127.0.0.1:82" {
		t.Errorf("targets %q, expected one of each origin", hosts)
	}
	s := sc.Source(0, 1)
	for _, want := range []int{0, 0, 1, 0} {
		if wire, q := s.Next(nil); q.Target != want {
			t.Errorf("%q goes to %d, expected %d", wire, q.Target, want)
		}
	}
	if text := sc.String(); text != "requests: 3 of r, in turn at http://localhost:81, http://127.0.0.1:82" {
		t.Error(text)
	}
}
