package featurestore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// feastHTTP asks Feast's feature server: POST /get-online-features.
type feastHTTP struct {
	*httpClient
	name   string // without credentials
	url    string
	header http.Header
}

func newFeastHTTP(u *url.URL, o *Options) (*feastHTTP, error) {
	if u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("--bandit-store: the feature server's URL is %s://HOST:PORT, perhaps with a "+
			"path in front of /get-online-features", u.Scheme)
	}
	f := &feastHTTP{header: jsonHeader()}
	if u.User != nil {
		// A password alone is a token, as Feast's OpenID Connect wants it.
		password, _ := u.User.Password()
		if u.User.Username() == "" {
			f.header.Set("Authorization", "Bearer "+password)
		} else {
			r := http.Request{Header: f.header}
			r.SetBasicAuth(u.User.Username(), password)
		}
	}
	plain := url.URL{Scheme: "http", Host: u.Host, Path: u.Path}
	if u.Scheme == "feast+https" {
		plain.Scheme = "https"
	}
	f.name = "feast+" + plain.String()
	f.url = plain.JoinPath("get-online-features").String()

	// The feature server closes idle connections after 5 s, and a request that meets that fails.
	var err error
	f.httpClient, err = newHTTPClient(o, o.Concurrency, 4*time.Second)
	return f, err
}

func (f *feastHTTP) String() string { return f.name }

// fetch asks in the type that the ids have, and finds it out first if need be: the server says ids back in
// their type. It takes ids in any type they can be converted to, but one that cannot be converted fails all.
func (f *feastHTTP) fetch(ctx context.Context, t *table, ids []string, values []value) error {
	if as := t.form(); as != formAuto {
		_, err := f.ask(ctx, t, as, ids, values)
		return err
	}
	// Numbers first: every type takes those. Without one among the ids, any will do to learn the type.
	asked, into := ids, values
	if !slices.ContainsFunc(ids, formInt64.fits) {
		asked, into = []string{"0"}, make([]value, len(t.features))
	}
	is, err := f.ask(ctx, t, formInt64, asked, into)
	switch {
	case err == nil && is != formString:
		t.learn(is)
		return nil
	case err != nil && !isRefused(err):
		return err
	}
	// Strings, or a server that is strict about types.
	clear(values)
	is, strictly := f.ask(ctx, t, formString, ids, values)
	if strictly != nil {
		return cmp.Or(err, strictly)
	}
	t.learn(is)
	return nil
}

func isRefused(err error) bool {
	var f *fault
	return errors.As(err, &f) && f.kind == faultRefused
}

// ask sends one request. It returns the type of the ids in the store, or formAuto if the answer does not
// tell.
func (f *feastHTTP) ask(ctx context.Context, t *table, as form, ids []string,
	values []value) (is form, err error) {
	body, rows := appendFeastRequest(nil, t, as, ids)
	if len(rows) == 0 {
		return formAuto, nil
	}
	limit := 1<<20 + 1024*int64(len(rows)*(len(t.features)+1))
	res, answer, err := f.post(ctx, f.url, f.header, body, limit)
	switch {
	case err != nil:
		return formAuto, err
	case res.StatusCode != http.StatusOK:
		return formAuto, refused("it answered %s: %s%s", res.Status, oneLine(answer),
			feastHint(res.StatusCode, t))
	}
	return decodeFeast(answer, t, rows, values)
}

func feastHint(status int, t *table) string {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return " (credentials go into the URL: feast+https://USER:PASSWORD@HOST, or " +
			"feast+https://:TOKEN@HOST)"
	case status >= 300 && status < 400:
		return " (--bandit-store must be the feature server itself)"
	case status < 500 || status == http.StatusInternalServerError:
		return fmt.Sprintf(" (asked for %q of the view %s by the join key %s: --bandit-store-%s-view, "+
			"--bandit-store-%[4]s-entity and the flags that name features must be as in the feature store)",
			t.features, t.view, t.entity, t.flag)
	}
	return ""
}

// appendFeastRequest appends the body that asks for ids. rows are the indices of those in it: the others
// cannot be written in that form, so the store cannot know them.
func appendFeastRequest(b []byte, t *table, as form, ids []string) (body []byte, rows []int) {
	b = append(b, `{"features":[`...)
	for i, name := range t.features {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSONString(b, t.view+":"+name)
	}
	b = append(b, `],"entities":{`...)
	b = appendJSONString(b, t.entity)
	b = append(b, ":["...)
	rows = make([]int, 0, len(ids))
	for i, id := range ids {
		if !as.fits(id) {
			continue
		}
		if len(rows) > 0 {
			b = append(b, ',')
		}
		rows = append(rows, i)
		if as == formString {
			b = appendJSONString(b, id)
		} else {
			b = append(b, id...)
		}
	}
	return append(b, `]},"full_feature_names":false}`...), rows
}

func appendJSONString(b []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic("BUG: a string that is no JSON: " + err.Error())
	}
	return append(b, quoted...)
}

// feastAnswer is what the feature server says: a column for each feature, and one for the entities.
type feastAnswer struct {
	Metadata struct {
		FeatureNames feastNames `json:"feature_names"`
	} `json:"metadata"`
	Results []struct {
		Values          []json.RawMessage `json:"values"`
		Statuses        []string          `json:"statuses"` // Feast's server in Go has none
		EventTimestamps []string          `json:"event_timestamps"`
	} `json:"results"`
}

// feastNames are a list, or a message with a list, depending on the server.
type feastNames []string

func (n *feastNames) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		return json.Unmarshal(b, (*[]string)(n))
	}
	var message struct {
		Val []string `json:"val"`
	}
	err := json.Unmarshal(b, &message)
	*n = message.Val
	return err
}

// decodeFeast reads an answer about the entities in rows into values, where entity i begins at i times the
// number of features. It returns the type of the ids, or formAuto if it does not tell.
func decodeFeast(answer []byte, t *table, rows []int, values []value) (is form, err error) {
	var a feastAnswer
	if err := json.Unmarshal(answer, &a); err != nil {
		return formAuto, badAnswer("%w", err)
	}
	names := a.Metadata.FeatureNames
	if len(names) != len(a.Results) {
		return formAuto, badAnswer("it names %d features and has %d columns", len(names), len(a.Results))
	}
	if column := slices.Index(names, t.entity); column >= 0 && len(a.Results[column].Values) > 0 {
		switch v := jsonValue(a.Results[column].Values[0], false); v.kind {
		case kindNumber:
			is = formInt64
		case kindText:
			is = formString
		}
	}
	for j, name := range t.features {
		// The columns come in an order of the server's own.
		column := slices.Index(names, name)
		if column < 0 {
			return formAuto, badAnswer("the feature %s is not among those it names", name)
		}
		c := a.Results[column]
		if len(c.Values) != len(rows) || len(c.Statuses) != 0 && len(c.Statuses) != len(rows) {
			return formAuto, badAnswer("%d values and %d statuses of %s for %d entities", len(c.Values),
				len(c.Statuses), name, len(rows))
		}
		for k, row := range rows {
			if len(c.Statuses) != 0 && c.Statuses[k] != "PRESENT" {
				// NOT_FOUND, NULL_VALUE; OUTSIDE_MAX_AGE is what the view's own ttl calls too old.
				continue
			}
			v := jsonValue(c.Values[k], t.text)
			if v.kind == kindAbsent {
				continue // a null may be PRESENT
			}
			if k < len(c.EventTimestamps) {
				if at, err := time.Parse(time.RFC3339, c.EventTimestamps[k]); err == nil && at.Unix() > 0 {
					v.at = at.UnixNano()
				}
			}
			values[row*len(t.features)+j] = v
		}
	}
	return is, nil
}

// jsonValue reads a value that is known to be well-formed.
func jsonValue(raw json.RawMessage, asText bool) value {
	if len(raw) == 0 {
		return value{}
	}
	switch c := raw[0]; {
	case c == 'n':
		return value{}
	case c == '"':
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return value{kind: kindOther}
		}
		return value{kind: kindText, text: s}
	case c == 't' || c == 'f':
		return value{kind: kindText, text: string(raw)}
	case c == '-' || c >= '0' && c <= '9':
		n, err := strconv.ParseFloat(string(raw), 64)
		if err != nil {
			return value{kind: kindOther}
		}
		v := value{kind: kindNumber, number: n}
		if asText {
			v.text = string(raw)
		}
		return v
	}
	return value{kind: kindOther}
}
