package featurestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

// Vertex AI has two feature stores, both asked by their REST methods. The legacy one takes up to 100
// entities of an entity type at a time (streamingReadFeatureValues) and answers with a list of messages:
// one with the names of the features, the others with values of one entity each. The newer one, "online",
// takes one entity of a feature view at a time (fetchFeatureValues). Ids are strings in both.

const (
	vertexChunk    = 100      // entities that a legacy read takes
	vertexParallel = 16       // entities of a chunk that are fetched at a time
	vertexAnswer   = 16 << 20 // longest answer that is taken
	vertexScope    = "https://www.googleapis.com/auth/cloud-platform"
)

// vertex reads one of Vertex AI's feature stores.
type vertex struct {
	*httpClient
	name   string
	store  string // URL of its resource, up to and including the store's id
	view   string // entity type or feature view of items; empty: as the table says
	online bool
	tokens *tokens // nil: no credentials are sent
}

func newVertex(u *url.URL, o *Options) (backend, error) {
	parts := strings.Split(strings.TrimPrefix(u.Path, "/"), "/")
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Host == "" || u.User != nil || len(parts) < 2 || len(parts) > 3 ||
		slices.Contains(parts, "") || u.Fragment != "" {
		return nil, errors.New(
			"--bandit-store: Vertex AI's store is vertex://PROJECT/LOCATION/STORE/ENTITYTYPE; credentials " +
				"are Google's application default ones")
	}
	location, store := parts[0], parts[1]
	endpoint, api, plain := location+"-aiplatform.googleapis.com", "legacy", false
	for key, values := range query {
		switch key {
		case "endpoint":
			endpoint = values[0]
		case "api":
			api = values[0]
		case "plain":
			if plain, err = strconv.ParseBool(values[0]); err != nil {
				return nil, errors.New(
					"--bandit-store: plain=true is for an endpoint without encryption and credentials")
			}
		default:
			return nil, fmt.Errorf("--bandit-store: a vertex URL takes ?api=legacy or online, "+
				"&endpoint=HOST:PORT and &plain=true, and no %q", key)
		}
	}
	v := &vertex{name: "vertex://" + u.Host + "/" + strings.Join(parts, "/")}
	if len(parts) == 3 {
		v.view = parts[2]
	}
	collection, conns := "featurestores", o.Concurrency
	switch api {
	case "legacy":
		if o.Chunk > vertexChunk {
			return nil, fmt.Errorf("--bandit-store-chunk must be at most %d for Vertex AI, got %d",
				vertexChunk, o.Chunk)
		}
	case "online":
		v.online = true
		collection, conns = "featureOnlineStores", o.Concurrency*vertexParallel
	default:
		return nil, fmt.Errorf("--bandit-store: api must be legacy, which is the default, or online, got %q",
			api)
	}
	if v.httpClient, err = newHTTPClient(o, conns, 90*time.Second); err != nil {
		return nil, err
	}
	base := url.URL{Scheme: "https", Host: endpoint}
	if plain {
		base.Scheme = "http"
	} else {
		v.tokens = newTokens()
	}
	v.store = base.JoinPath("v1/projects", u.Host, "locations", location, collection, store).String()
	return v, nil
}

func (v *vertex) String() string { return v.name }

func (v *vertex) close() error {
	if v.tokens != nil {
		v.tokens.close()
	}
	return v.httpClient.close()
}

func (v *vertex) fetch(ctx context.Context, t *table, ids []string, values []value) error {
	header := jsonHeader()
	if v.tokens != nil {
		if err := v.tokens.set(ctx, header); err != nil {
			return err
		}
	}
	view := t.view
	if t.flag == "item" && v.view != "" {
		view = v.view
	}
	if !v.online {
		return v.readLegacy(ctx, t, header, v.store+"/entityTypes/"+url.PathEscape(view)+
			":streamingReadFeatureValues", ids, values)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		next    atomic.Int64
		workers sync.WaitGroup
		to      = v.store + "/featureViews/" + url.PathEscape(view) + ":fetchFeatureValues"
	)
	for range min(len(ids), vertexParallel) {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(ids) {
					return
				}
				if err := v.readOnline(ctx, t, header, to, ids[i],
					values[i*len(t.features):(i+1)*len(t.features)]); err != nil {
					cancel(err) // keeps the first one
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// legacyMessage is one element of the answer to streamingReadFeatureValues. An error may come behind values.
type legacyMessage struct {
	Header struct {
		FeatureDescriptors []struct {
			ID string `json:"id"`
		} `json:"featureDescriptors"`
	} `json:"header"`
	EntityView struct {
		EntityID string `json:"entityId"`
		Data     []struct {
			Value  vertexValue `json:"value"`
			Values struct {
				Values []vertexValue `json:"values"`
			} `json:"values"`
		} `json:"data"`
	} `json:"entityView"`
	Error *vertexError `json:"error"`
}

// readLegacy fetches entities of the legacy store.
func (v *vertex) readLegacy(ctx context.Context, t *table, header http.Header, to string, ids []string,
	values []value) error {
	type matcher struct {
		IDs []string `json:"ids"`
	}
	answer, err := v.ask(ctx, t, header, to, map[string]any{
		"entityIds":       ids,
		"featureSelector": map[string]matcher{"idMatcher": {t.features}},
	})
	if err != nil {
		return err
	}
	var messages []legacyMessage
	if err := json.Unmarshal(answer, &messages); err != nil {
		return badAnswer("%w", err)
	}
	rows := make(map[string]int, len(ids))
	for i, id := range ids {
		rows[id] = i
	}
	var columns []int // of the header's features, in the table; -1 for one that was not asked for
	for _, m := range messages {
		if m.Error != nil {
			return m.Error.fault(t)
		}
		if described := m.Header.FeatureDescriptors; described != nil {
			columns = columns[:0]
			for _, d := range described {
				columns = append(columns, slices.Index(t.features, d.ID))
			}
		}
		// The values of an entity may come in several messages. Cells that are not in this one are empty.
		id, data := m.EntityView.EntityID, m.EntityView.Data
		if len(data) == 0 {
			continue
		}
		row, asked := rows[id]
		if !asked {
			return badAnswer("it has values of %q, which was not asked for", id)
		}
		if len(data) != len(columns) {
			return badAnswer("%d values of %q for the %d features of its header", len(data), id, len(columns))
		}
		for j, cell := range data {
			held := cell.Value
			if list := cell.Values.Values; len(list) > 0 {
				held = list[0] // the latest
			}
			if held != nil && columns[j] >= 0 {
				values[row*len(t.features)+columns[j]] = held.decode(t.text)
			}
		}
	}
	return nil // entities that no message names are unknown
}

// readOnline fetches one entity of the newer store into its row.
func (v *vertex) readOnline(ctx context.Context, t *table, header http.Header, to, id string,
	row []value) error {
	answer, err := v.ask(ctx, t, header, to, map[string]any{
		"dataKey":    map[string]string{"key": id},
		"dataFormat": "KEY_VALUE",
	})
	var failed *vertexError
	if errors.As(err, &failed) && failed.Status == "NOT_FOUND" {
		return nil // the entity; a view that does not exist is not told from it
	}
	if err != nil {
		return err
	}
	var said struct {
		KeyValues *struct {
			Features []struct {
				Name  string      `json:"name"`
				Value vertexValue `json:"value"`
			} `json:"features"`
		} `json:"keyValues"`
	}
	if err := json.Unmarshal(answer, &said); err != nil {
		return badAnswer("%w", err)
	}
	if said.KeyValues == nil {
		return badAnswer("it is no list of names and values")
	}
	for _, pair := range said.KeyValues.Features {
		if j := slices.Index(t.features, pair.Name); j >= 0 && pair.Value != nil {
			row[j] = pair.Value.decode(t.text)
		}
	}
	return nil
}

// ask returns the answer to one request, or the error it answers with.
func (v *vertex) ask(ctx context.Context, t *table, header http.Header, to string,
	request any) ([]byte, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	res, answer, err := v.post(ctx, to, header, body, vertexAnswer)
	if err != nil || res.StatusCode == http.StatusOK {
		return answer, err
	}
	// A method that streams has its error in a list.
	var one struct{ Error *vertexError }
	var list []struct{ Error *vertexError }
	if json.Unmarshal(answer, &one) == nil && one.Error != nil {
		return nil, one.Error.fault(t)
	}
	if json.Unmarshal(answer, &list) == nil && len(list) > 0 && list[0].Error != nil {
		return nil, list[0].Error.fault(t)
	}
	return nil, refused("it answered %s: %s", res.Status, oneLine(answer))
}

// vertexValue is the JSON of a FeatureValue: one value under the name of its type, perhaps with metadata.
type vertexValue map[string]json.RawMessage

func (f vertexValue) decode(asText bool) value {
	var v value
	for name, raw := range f {
		switch name {
		case "metadata":
		// 64-bit integers are written as strings.
		case "doubleValue", "int64Value", "stringValue", "boolValue":
			v = jsonValue(raw, asText)
		default:
			v = value{kind: kindOther}
		}
	}
	var metadata struct {
		GenerateTime time.Time `json:"generateTime"`
	}
	if v.kind != kindAbsent && json.Unmarshal(f["metadata"], &metadata) == nil &&
		!metadata.GenerateTime.IsZero() {
		v.at = metadata.GenerateTime.UnixNano()
	}
	return v
}

// vertexError is the JSON of an error of Google's APIs.
type vertexError struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func (e *vertexError) Error() string {
	return fmt.Sprintf("it answered %s: %s", oneLine([]byte(e.Status)), oneLine([]byte(e.Message)))
}

// fault says of what kind an error is, and which flags may be wrong.
func (e *vertexError) fault(t *table) error {
	kind, hint := faultRefused, ""
	switch e.Status {
	case "UNAVAILABLE", "CANCELLED":
		kind = faultUnreachable
	case "DEADLINE_EXCEEDED":
		kind = faultTimeout
	case "PERMISSION_DENIED", "UNAUTHENTICATED":
		hint = " (credentials are Google's application default ones; GOOGLE_APPLICATION_CREDENTIALS names " +
			"their file)"
	case "NOT_FOUND", "INVALID_ARGUMENT", "FAILED_PRECONDITION", "UNIMPLEMENTED":
		hint = fmt.Sprintf(" (asked for %q: see the URL, its api=legacy or online, --bandit-store-%s-view "+
			"and the flags that name features)", t.features, t.flag)
	}
	return &fault{kind: kind, err: fmt.Errorf("%w%s", e, hint)}
}

// tokens are Google's application default credentials. The one in use is renewed before it expires.
type tokens struct {
	lazy[credential]
	ctx    context.Context // ends at close
	cancel context.CancelFunc
	source oauth2.TokenSource // of the attempt under way alone
	quota  string
}

// credential is a token, and the project that requests are charged to, if the credentials name one.
type credential struct {
	token *oauth2.Token
	quota string
}

const (
	tokenTimeout = 10 * time.Second // of a request for a token
	tokenRenewal = 3 * time.Minute  // before a token expires
)

func newTokens() *tokens {
	k := &tokens{}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.create = k.obtain
	k.expires = func(c credential) time.Time { return c.token.Expiry }
	return k
}

// obtain asks for a token. Calls do not overlap.
func (k *tokens) obtain() (credential, error) {
	if k.source == nil {
		ctx := context.WithValue(k.ctx, oauth2.HTTPClient, &http.Client{Timeout: tokenTimeout})
		found, err := google.FindDefaultCredentials(ctx, vertexScope)
		if err != nil {
			return credential{}, refused("%w", err)
		}
		var file struct {
			QuotaProject string `json:"quota_project_id"`
		}
		_ = json.Unmarshal(found.JSON, &file) // without a file there is none
		k.source, k.quota = oauth2.ReuseTokenSourceWithExpiry(nil, found.TokenSource, tokenRenewal),
			file.QuotaProject
	}
	token, err := k.source.Token()
	var answered *oauth2.RetrieveError
	if errors.As(err, &answered) {
		return credential{}, refused("no token for Google's application default credentials: %s",
			oneLine([]byte(err.Error())))
	}
	return credential{token, k.quota}, err
}

// set adds a token to a request's header.
func (k *tokens) set(ctx context.Context, h http.Header) error {
	c, err := k.get(ctx)
	if err != nil {
		return err
	}
	h.Set("Authorization", c.token.Type()+" "+c.token.AccessToken)
	if c.quota != "" {
		h.Set("X-Goog-User-Project", c.quota)
	}
	return nil
}

func (k *tokens) close() {
	k.cancel()
	k.last()
}
