package featurestore

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The answer is one of Feast 0.67's, columns in an order of its own included.
const feastSaid = `{"results":[
{"values":[1001,1002,1003,9],"statuses":["PRESENT","PRESENT","PRESENT","PRESENT"],"event_timestamps":["1970-01-01T00:00:00Z","1970-01-01T00:00:00Z","1970-01-01T00:00:00Z","1970-01-01T00:00:00Z"]},
{"values":[1.25,2.0,4.0,null],"statuses":["PRESENT","PRESENT","PRESENT","NOT_FOUND"],"event_timestamps":["2026-11-21T14:44:13Z","2026-11-21T14:44:13Z","2026-11-21T14:44:13Z","1970-01-01T00:00:00Z"]},
{"values":[3.5,7.0,null,null],"statuses":["PRESENT","OUTSIDE_MAX_AGE","PRESENT","NOT_FOUND"],"event_timestamps":["2026-11-21T14:44:13Z","2026-11-21T14:44:13Z","2026-11-21T14:44:13Z","1970-01-01T00:00:00Z"]}],
"metadata":{"feature_names":["item_id","beta","alpha"]}}`

func itemsTable(t *testing.T) *table {
	t.Helper()
	o, err := DefaultOptions().withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return o.itemTable()
}

func TestFeastAnswerIsReadByColumnNames(t *testing.T) {
	values := make([]value, 8)
	is, err := decodeFeast([]byte(feastSaid), itemsTable(t), []int{0, 1, 2, 3}, values)
	if err != nil || is != formInt64 {
		t.Fatalf("ids of type %v, error %v", is, err)
	}
	at := time.Date(2026, 11, 21, 14, 44, 13, 0, time.UTC).UnixNano()
	want := []value{
		{kind: kindNumber, number: 3.5, at: at}, {kind: kindNumber, number: 1.25, at: at},
		{}, {kind: kindNumber, number: 2, at: at}, // alpha is too old
		{}, {kind: kindNumber, number: 4, at: at}, // alpha is null
		{}, {},
	}
	if !slices.Equal(values, want) {
		t.Errorf("got  %+v\nwant %+v", values, want)
	}
}

// feastLike answers as Feast does for items with ids of one type: alpha is 1 more than the id's length,
// beta is 2.
func feastLike(t *testing.T, idsAre form, asked func(ids []json.RawMessage)) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Features []string                     `json:"features"`
			Entities map[string][]json.RawMessage `json:"entities"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.URL.Path != "/get-online-features" ||
			r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		ids := body.Entities["item_id"]
		asked(ids)
		var echo, alphas, betas []any
		for _, raw := range ids {
			id := strings.Trim(string(raw), `"`)
			if idsAre == formInt64 {
				n, ok := integer(id)
				if !ok {
					http.Error(w, "invalid literal for int()", http.StatusInternalServerError)
					return
				}
				echo = append(echo, n)
			} else {
				echo = append(echo, id)
			}
			alphas, betas = append(alphas, len(id)+1), append(betas, 2)
		}
		type column struct {
			Values []any `json:"values"`
		}
		json.NewEncoder(w).Encode(map[string]any{
			"metadata": map[string]any{"feature_names": []string{"item_id", "alpha", "beta"}},
			"results":  []column{{echo}, {alphas}, {betas}},
		})
	}))
	t.Cleanup(server.Close)
	return server
}

func TestFeastServerSaysWhichTypeIdsHave(t *testing.T) {
	for _, test := range []struct {
		idsAre form
		ids    []string
		want   []Arm
	}{
		{formInt64, []string{"7", "x", "12"}, []Arm{{2, 2, true}, {}, {3, 2, true}}},
		{formInt64, []string{"x", "y"}, []Arm{{}, {}}},
		{formString, []string{"7", "x", "12"}, []Arm{{2, 2, true}, {2, 2, true}, {3, 2, true}}},
		{formString, []string{"x", "yy"}, []Arm{{2, 2, true}, {3, 2, true}}},
		{formString, []string{"007", "+7", "-0"}, []Arm{{4, 2, true}, {3, 2, true}, {3, 2, true}}},
		{formInt64, []string{"007", "+7", "-0"}, []Arm{{}, {}, {}}},
	} {
		t.Run(fmt.Sprint(test.idsAre, test.ids), func(t *testing.T) {
			var mu sync.Mutex
			requests := 0
			server := feastLike(t, test.idsAre, func([]json.RawMessage) {
				mu.Lock()
				requests++
				mu.Unlock()
			})
			o := DefaultOptions()
			o.TTL, o.Stale, o.Timeout = 0, 0, time.Minute
			s, err := Open("feast+"+server.URL, o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			got := make([]Arm, len(test.ids))
			for range 2 {
				if degraded, err := s.Arms(context.Background(), test.ids, got); degraded || err != nil {
					t.Fatal(degraded, err)
				}
				if !slices.Equal(got, test.want) {
					t.Fatalf("got %v, want %v", got, test.want)
				}
			}
			if requests > 3 {
				t.Errorf("%d requests for two calls: the type is not remembered", requests)
			}
		})
	}
}
