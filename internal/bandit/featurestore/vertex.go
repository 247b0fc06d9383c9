//go:build !novertex

package featurestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	aiplatform "cloud.google.com/go/aiplatform/apiv1"
	"cloud.google.com/go/aiplatform/apiv1/aiplatformpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// Vertex AI has two feature stores. The legacy one is asked for up to 100 entities of an entity type at a time and
// streams its answer; the newer one, "online", is asked for one entity of a feature view at a time. Ids are
// strings in both.

const (
	vertexChunk    = 100      // entities that a streaming read takes
	vertexParallel = 16       // entities of a chunk that are fetched at a time
	vertexMessage  = 16 << 20 // longest message that is taken
)

// vertexTarget is what both kinds have in common.
type vertexTarget struct {
	name    string
	store   string // its resource name, up to and including the store's id
	view    string // entity type or feature view of items; empty: as the table says
	options []option.ClientOption

	ctx    context.Context // ends at close
	cancel context.CancelFunc
}

func newVertex(u *url.URL, o *Options) (backend, error) {
	parts := strings.Split(strings.TrimPrefix(u.Path, "/"), "/")
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Host == "" || u.User != nil || len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") || u.Fragment != "" {
		return nil, errors.New("--bandit-store: Vertex AI's store is vertex://PROJECT/LOCATION/STORE/ENTITYTYPE; credentials are Google's application default ones")
	}
	location, store := parts[0], parts[1]
	v := &vertexTarget{}
	if len(parts) == 3 {
		v.view = parts[2]
	}
	endpoint, api, plain := location+"-aiplatform.googleapis.com:443", "legacy", false
	for key, values := range query {
		switch key {
		case "endpoint":
			endpoint = values[0]
		case "api":
			api = values[0]
		case "plain":
			if plain, err = strconv.ParseBool(values[0]); err != nil {
				return nil, errors.New("--bandit-store: plain=true is for an endpoint without encryption and credentials")
			}
		default:
			return nil, fmt.Errorf("--bandit-store: a vertex URL takes ?api=legacy or online, &endpoint=HOST:PORT and &plain=true, and no %q", key)
		}
	}
	v.name = "vertex://" + u.Host + "/" + strings.Join(parts, "/")
	v.options = []option.ClientOption{
		option.WithEndpoint(endpoint),
		option.WithGRPCDialOption(grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(vertexMessage))),
		option.WithTelemetryDisabled(), // weir has metrics of its own
	}
	if plain {
		v.options = append(v.options, option.WithoutAuthentication(),
			option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	}
	prefix := "projects/" + u.Host + "/locations/" + location
	v.ctx, v.cancel = context.WithCancel(context.Background())
	switch api {
	case "legacy":
		if o.Chunk > vertexChunk {
			return nil, fmt.Errorf("--bandit-store-chunk must be at most %d for Vertex AI, got %d", vertexChunk, o.Chunk)
		}
		v.store = prefix + "/featurestores/" + store
		b := &vertexLegacy{vertexTarget: v}
		b.client.create = func() (*aiplatform.FeaturestoreOnlineServingClient, error) {
			return aiplatform.NewFeaturestoreOnlineServingClient(v.ctx, v.options...)
		}
		return b, nil
	case "online":
		v.store = prefix + "/featureOnlineStores/" + store
		b := &vertexOnline{vertexTarget: v}
		b.client.create = func() (*aiplatform.FeatureOnlineStoreClient, error) {
			return aiplatform.NewFeatureOnlineStoreClient(v.ctx, v.options...)
		}
		return b, nil
	}
	return nil, fmt.Errorf("--bandit-store: api must be legacy, which is the default, or online, got %q", api)
}

func (v *vertexTarget) String() string { return v.name }

// resource is the full name of a table's entity type or feature view.
func (v *vertexTarget) resource(kind string, t *table) string {
	view := t.view
	if t.flag == "item" && v.view != "" {
		view = v.view
	}
	return v.store + "/" + kind + "/" + view
}

// vertexLegacy reads Vertex AI Feature Store (Legacy).
type vertexLegacy struct {
	*vertexTarget
	client lazy[*aiplatform.FeaturestoreOnlineServingClient]
}

func (v *vertexLegacy) close() error {
	v.cancel()
	if client, made := v.client.last(); made {
		return client.Close()
	}
	return nil
}

func (v *vertexLegacy) fetch(ctx context.Context, t *table, ids []string, values []value) error {
	client, err := v.client.get(ctx)
	if err != nil {
		return vertexError(err, t)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends a stream that is not read to its end
	stream, err := client.StreamingReadFeatureValues(ctx, &aiplatformpb.StreamingReadFeatureValuesRequest{
		EntityType:      v.resource("entityTypes", t),
		EntityIds:       ids,
		FeatureSelector: &aiplatformpb.FeatureSelector{IdMatcher: &aiplatformpb.IdMatcher{Ids: t.features}},
	})
	if err != nil {
		return vertexError(err, t)
	}
	rows := make(map[string]int, len(ids))
	for i, id := range ids {
		rows[id] = i
	}
	var columns []int // of the header's features, in the table; -1 for one that was not asked for
	for {
		res, err := stream.Recv()
		if err == io.EOF {
			return nil // who was not in it is unknown
		}
		if err != nil {
			return vertexError(err, t)
		}
		if described := res.GetHeader().GetFeatureDescriptors(); described != nil {
			columns = columns[:0]
			for _, d := range described {
				columns = append(columns, slices.Index(t.features, d.GetId()))
			}
		}
		// What there is of an entity may come in several responses. The cells that are not in this one are empty.
		view := res.GetEntityView()
		data := view.GetData()
		if len(data) == 0 {
			continue
		}
		row, asked := rows[view.GetEntityId()]
		if !asked {
			return badAnswer("it has values of %q, which was not asked for", view.GetEntityId())
		}
		if len(data) != len(columns) {
			return badAnswer("%d values of %q for the %d features of its header", len(data), view.GetEntityId(), len(columns))
		}
		for j, cell := range data {
			held := cell.GetValue()
			if list := cell.GetValues().GetValues(); len(list) > 0 {
				held = list[0] // the latest
			}
			if held != nil && columns[j] >= 0 {
				values[row*len(t.features)+columns[j]] = vertexValue(held, t.text)
			}
		}
	}
}

// vertexOnline reads Vertex AI Feature Store, the one with online stores and feature views.
type vertexOnline struct {
	*vertexTarget
	client lazy[*aiplatform.FeatureOnlineStoreClient]
}

func (v *vertexOnline) close() error {
	v.cancel()
	if client, made := v.client.last(); made {
		return client.Close()
	}
	return nil
}

func (v *vertexOnline) fetch(ctx context.Context, t *table, ids []string, values []value) error {
	client, err := v.client.get(ctx)
	if err != nil {
		return vertexError(err, t)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	view := v.resource("featureViews", t)
	var (
		next    atomic.Int64
		workers sync.WaitGroup
	)
	for range min(len(ids), vertexParallel) {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(ids) {
					return
				}
				if err := fetchVertex(ctx, client, view, t, ids[i], values[i*len(t.features):(i+1)*len(t.features)]); err != nil {
					cancel(err) // the first one is kept
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// fetchVertex fetches one entity into its row.
func fetchVertex(ctx context.Context, client *aiplatform.FeatureOnlineStoreClient, view string, t *table, id string, row []value) error {
	res, err := client.FetchFeatureValues(ctx, &aiplatformpb.FetchFeatureValuesRequest{
		FeatureView: view,
		DataKey:     &aiplatformpb.FeatureViewDataKey{KeyOneof: &aiplatformpb.FeatureViewDataKey_Key{Key: id}},
		DataFormat:  aiplatformpb.FeatureViewDataFormat_KEY_VALUE,
	})
	switch {
	case status.Code(err) == codes.NotFound:
		return nil // so it says of an entity; of a view that there is none of as well
	case err != nil:
		return vertexError(err, t)
	}
	list, ok := res.GetFormat().(*aiplatformpb.FetchFeatureValuesResponse_KeyValues)
	if !ok {
		return badAnswer("it is no list of names and values")
	}
	for _, pair := range list.KeyValues.GetFeatures() {
		if j := slices.Index(t.features, pair.GetName()); j >= 0 && pair.GetValue() != nil {
			row[j] = vertexValue(pair.GetValue(), t.text)
		}
	}
	return nil
}

// vertexValue reads a value of either kind of store.
func vertexValue(f *aiplatformpb.FeatureValue, asText bool) value {
	v := value{kind: kindNumber}
	switch held := f.GetValue().(type) {
	case nil:
		return value{}
	case *aiplatformpb.FeatureValue_DoubleValue:
		v.number = held.DoubleValue
		if asText {
			v.text = strconv.FormatFloat(v.number, 'g', -1, 64)
		}
	case *aiplatformpb.FeatureValue_Int64Value:
		v.number = float64(held.Int64Value)
		if asText {
			v.text = strconv.FormatInt(held.Int64Value, 10)
		}
	case *aiplatformpb.FeatureValue_StringValue:
		v = value{kind: kindText, text: held.StringValue}
	case *aiplatformpb.FeatureValue_BoolValue:
		v = value{kind: kindText, text: strconv.FormatBool(held.BoolValue)}
	default:
		v = value{kind: kindOther}
	}
	if at := f.GetMetadata().GetGenerateTime(); at.IsValid() {
		v.at = at.AsTime().UnixNano()
	}
	return v
}

// vertexError sorts the errors of Google's client.
func vertexError(err error, t *table) error {
	s, ok := status.FromError(err)
	if !ok {
		return err // of making the client, of credentials for one
	}
	hint := ""
	switch s.Code() {
	case codes.Unavailable, codes.Canceled:
		return err
	case codes.DeadlineExceeded:
		return &fault{kind: faultTimeout, err: err}
	case codes.ResourceExhausted:
		if strings.Contains(s.Message(), "larger than max") {
			return badAnswer("%s", oneLine([]byte(s.Message())))
		}
	case codes.PermissionDenied, codes.Unauthenticated:
		hint = " (credentials are Google's application default ones; GOOGLE_APPLICATION_CREDENTIALS names their file)"
	case codes.NotFound, codes.InvalidArgument, codes.FailedPrecondition, codes.Unimplemented:
		hint = fmt.Sprintf(" (asked for %q: see the URL, its api=legacy or online, --bandit-store-%s-view and the flags that name features)", t.features, t.flag)
	}
	return refused("it answered %s: %s%s", s.Code(), oneLine([]byte(s.Message())), hint)
}
