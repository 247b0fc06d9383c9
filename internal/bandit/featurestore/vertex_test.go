//go:build !novertex

package featurestore

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/aiplatform/apiv1/aiplatformpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Against servers built on the interfaces that Google publishes for both of Vertex AI's stores.

// vertexServer is both kinds of store. It answers from what it has of an entity: features by name.
type vertexServer struct {
	aiplatformpb.UnimplementedFeaturestoreOnlineServingServiceServer
	aiplatformpb.UnimplementedFeatureOnlineStoreServiceServer

	has    map[string]map[string]*aiplatformpb.FeatureValue
	stream func(*aiplatformpb.StreamingReadFeatureValuesRequest, grpc.ServerStreamingServer[aiplatformpb.ReadFeatureValuesResponse]) error // instead
	fetch  func(context.Context, *aiplatformpb.FetchFeatureValuesRequest) (*aiplatformpb.FetchFeatureValuesResponse, error)                // instead

	mu       sync.Mutex
	asked    []string // names of entity types and views
	chunks   []int
	underWay atomic.Int64
}

// StreamingReadFeatureValues answers in the reverse order of the request, features in the order of their names, and an
// entity's values in two responses.
func (v *vertexServer) StreamingReadFeatureValues(req *aiplatformpb.StreamingReadFeatureValuesRequest, s aiplatformpb.FeaturestoreOnlineServingService_StreamingReadFeatureValuesServer) error {
	v.mu.Lock()
	v.asked, v.chunks = append(v.asked, req.EntityType), append(v.chunks, len(req.EntityIds))
	v.mu.Unlock()
	if v.stream != nil {
		return v.stream(req, s)
	}
	names := slices.Sorted(slices.Values(req.FeatureSelector.IdMatcher.Ids))
	if err := s.Send(vertexHeader(names...)); err != nil {
		return err
	}
	for _, id := range slices.Backward(req.EntityIds) {
		for part := range 2 {
			view := &aiplatformpb.ReadFeatureValuesResponse_EntityView{EntityId: id}
			for j, name := range names {
				cell := &aiplatformpb.ReadFeatureValuesResponse_EntityView_Data{}
				if held := v.has[id][name]; held != nil && j%2 == part {
					cell.Data = &aiplatformpb.ReadFeatureValuesResponse_EntityView_Data_Value{Value: held}
				}
				view.Data = append(view.Data, cell)
			}
			if err := s.Send(&aiplatformpb.ReadFeatureValuesResponse{EntityView: view}); err != nil {
				return err
			}
		}
	}
	return nil
}

func vertexHeader(names ...string) *aiplatformpb.ReadFeatureValuesResponse {
	h := &aiplatformpb.ReadFeatureValuesResponse_Header{}
	for _, name := range names {
		h.FeatureDescriptors = append(h.FeatureDescriptors, &aiplatformpb.ReadFeatureValuesResponse_FeatureDescriptor{Id: name})
	}
	return &aiplatformpb.ReadFeatureValuesResponse{Header: h}
}

func (v *vertexServer) FetchFeatureValues(ctx context.Context, req *aiplatformpb.FetchFeatureValuesRequest) (*aiplatformpb.FetchFeatureValuesResponse, error) {
	v.mu.Lock()
	v.asked = append(v.asked, req.FeatureView)
	v.mu.Unlock()
	if n := v.underWay.Add(1); n > vertexParallel {
		return nil, status.Errorf(codes.ResourceExhausted, "%d requests at a time", n)
	}
	defer v.underWay.Add(-1)
	time.Sleep(time.Millisecond) // or requests would hardly ever meet
	if v.fetch != nil {
		return v.fetch(ctx, req)
	}
	entity, ok := v.has[req.DataKey.GetKey()]
	if !ok {
		return nil, status.Error(codes.NotFound, "no such entity")
	}
	list := &aiplatformpb.FetchFeatureValuesResponse_FeatureNameValuePairList{}
	for _, name := range slices.Sorted(maps.Keys(entity)) {
		pair := &aiplatformpb.FetchFeatureValuesResponse_FeatureNameValuePairList_FeatureNameValuePair{Name: name}
		if entity[name] != nil {
			pair.Data = &aiplatformpb.FetchFeatureValuesResponse_FeatureNameValuePairList_FeatureNameValuePair_Value{Value: entity[name]}
		}
		list.Features = append(list.Features, pair)
	}
	return &aiplatformpb.FetchFeatureValuesResponse{Format: &aiplatformpb.FetchFeatureValuesResponse_KeyValues{KeyValues: list}}, nil
}

// serveVertex serves v and returns the query that leads to it.
func serveVertex(t *testing.T, v *vertexServer) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := grpc.NewServer()
	aiplatformpb.RegisterFeaturestoreOnlineServingServiceServer(server, v)
	aiplatformpb.RegisterFeatureOnlineStoreServiceServer(server, v)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "endpoint=" + l.Addr().String() + "&plain=true"
}

func double(n float64) *aiplatformpb.FeatureValue {
	return &aiplatformpb.FeatureValue{Value: &aiplatformpb.FeatureValue_DoubleValue{DoubleValue: n}}
}

func TestVertexKnowsItemsAndSegments(t *testing.T) {
	old := double(4)
	old.Metadata = &aiplatformpb.FeatureValue_Metadata{GenerateTime: timestamppb.New(time.Now().Add(-48 * time.Hour))}
	v := &vertexServer{has: map[string]map[string]*aiplatformpb.FeatureValue{
		"half": {"alpha": double(2), "beta": nil},
		"list": {"alpha": {Value: &aiplatformpb.FeatureValue_DoubleArrayValue{}}, "beta": double(1)},
		"old":  {"alpha": old, "beta": double(1)},
		"int":  {"alpha": {Value: &aiplatformpb.FeatureValue_Int64Value{Int64Value: 3}}, "beta": double(1)},
		"u1":   {"segment": {Value: &aiplatformpb.FeatureValue_StringValue{StringValue: "young"}}},
		"u2":   {"segment": {Value: &aiplatformpb.FeatureValue_Int64Value{Int64Value: 12}}},
		"u3":   {"segment": {Value: &aiplatformpb.FeatureValue_BoolValue{BoolValue: true}}},
		"u4":   {"segment": nil},
	}}
	want := map[string]Arm{"half": {}, "list": {}, "old": {}, "int": {3, 1, true}, "nobody": {}}
	for i := range 250 {
		id := fmt.Sprint("i", i)
		v.has[id] = map[string]*aiplatformpb.FeatureValue{"alpha": double(float64(i) + 1), "beta": double(7)}
		want[id] = Arm{float64(i) + 1, 7, true}
	}
	query := serveVertex(t, v)

	for api, names := range map[string][2]string{
		"legacy": {"projects/p-1/locations/europe-west4/featurestores/fs/entityTypes/films", "projects/p-1/locations/europe-west4/featurestores/fs/entityTypes/people"},
		"online": {"projects/p-1/locations/europe-west4/featureOnlineStores/fs/featureViews/films", "projects/p-1/locations/europe-west4/featureOnlineStores/fs/featureViews/people"},
	} {
		t.Run(api, func(t *testing.T) {
			v.asked, v.chunks = nil, nil
			s := openStore(t, "vertex://p-1/europe-west4/fs/films?api="+api+"&"+query, func(o *Options) {
				o.MaxAge, o.UserView = 24*time.Hour, "people"
				o.Concurrency = 1 // of chunks, so that the server sees only one chunk's requests at a time
			})
			ids := slices.Sorted(maps.Keys(want))
			for i, got := range arms(t, s, ids...) {
				if got != want[ids[i]] {
					t.Errorf("%s: got %v, want %v", ids[i], got, want[ids[i]])
				}
			}
			segments := make([]string, 5)
			if degraded, err := s.Segments(context.Background(), []string{"u1", "u2", "u3", "u4", "u5"}, segments); degraded || err != nil {
				t.Fatal(degraded, err)
			}
			if want := []string{"young", "12", "true", "", ""}; !slices.Equal(segments, want) {
				t.Errorf("segments %q, want %q", segments, want)
			}
			if asked := slices.Compact(slices.Clone(v.asked)); !slices.Equal(asked, names[:]) {
				t.Errorf("asked of %q, want %q", asked, names)
			}
			slices.Sort(v.chunks)
			if api == "legacy" && !slices.Equal(v.chunks, []int{5, 55, 100, 100}) {
				t.Errorf("chunks of %v", v.chunks)
			}
		})
	}
}

func TestVertexAnswersNonsense(t *testing.T) {
	type send = grpc.ServerStreamingServer[aiplatformpb.ReadFeatureValuesResponse]
	view := func(id string, cells int) *aiplatformpb.ReadFeatureValuesResponse {
		v := &aiplatformpb.ReadFeatureValuesResponse_EntityView{EntityId: id}
		for range cells {
			v.Data = append(v.Data, &aiplatformpb.ReadFeatureValuesResponse_EntityView_Data{
				Data: &aiplatformpb.ReadFeatureValuesResponse_EntityView_Data_Value{Value: double(1)},
			})
		}
		return &aiplatformpb.ReadFeatureValuesResponse{EntityView: v}
	}
	for name, test := range map[string]struct {
		stream func(*aiplatformpb.StreamingReadFeatureValuesRequest, send) error
		fetch  func(context.Context, *aiplatformpb.FetchFeatureValuesRequest) (*aiplatformpb.FetchFeatureValuesResponse, error)
		want   string
		kind   faultKind
	}{
		"no header": {stream: func(_ *aiplatformpb.StreamingReadFeatureValuesRequest, s send) error { return s.Send(view("a", 2)) },
			want: "2 values", kind: faultAnswer},
		"too few cells": {stream: func(_ *aiplatformpb.StreamingReadFeatureValuesRequest, s send) error {
			s.Send(vertexHeader("alpha", "beta"))
			return s.Send(view("a", 1))
		}, want: "1 values", kind: faultAnswer},
		"somebody else": {stream: func(_ *aiplatformpb.StreamingReadFeatureValuesRequest, s send) error {
			s.Send(vertexHeader("alpha", "beta"))
			return s.Send(view("b", 2))
		}, want: `"b"`, kind: faultAnswer},
		"a huge message": {stream: func(_ *aiplatformpb.StreamingReadFeatureValuesRequest, s send) error {
			return s.Send(vertexHeader(strings.Repeat("x", vertexMessage)))
		}, want: "larger than max", kind: faultAnswer},
		"wrong store": {stream: func(*aiplatformpb.StreamingReadFeatureValuesRequest, send) error {
			return status.Error(codes.NotFound, "The EntityType does not exist.")
		}, want: "see the URL", kind: faultRefused},
		"no permission": {stream: func(*aiplatformpb.StreamingReadFeatureValuesRequest, send) error {
			return status.Error(codes.PermissionDenied, "Permission denied.")
		}, want: "GOOGLE_APPLICATION_CREDENTIALS", kind: faultRefused},
		"no list": {fetch: func(context.Context, *aiplatformpb.FetchFeatureValuesRequest) (*aiplatformpb.FetchFeatureValuesResponse, error) {
			return &aiplatformpb.FetchFeatureValuesResponse{}, nil
		}, want: "no list", kind: faultAnswer},
		"internal error": {fetch: func(context.Context, *aiplatformpb.FetchFeatureValuesRequest) (*aiplatformpb.FetchFeatureValuesResponse, error) {
			return nil, status.Error(codes.Internal, "oops")
		}, want: "Internal: oops", kind: faultRefused},
	} {
		t.Run(name, func(t *testing.T) {
			v := &vertexServer{stream: test.stream, fetch: test.fetch}
			api := "legacy"
			if test.fetch != nil {
				api = "online"
			}
			s := openStore(t, "vertex://p/l/s/e?api="+api+"&"+serveVertex(t, v), nil)
			_, err := s.Arms(context.Background(), []string{"a"}, make([]Arm, 1))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, expected %s in it", err, test.want)
			}
			if s.metrics.errors[test.kind].Value() == 0 { // it may have been tried again
				t.Errorf("no error of kind %v counted", test.kind)
			}
		})
	}
}

func TestVertexThatHangsIsGivenUp(t *testing.T) {
	v := &vertexServer{
		stream: func(_ *aiplatformpb.StreamingReadFeatureValuesRequest, s grpc.ServerStreamingServer[aiplatformpb.ReadFeatureValuesResponse]) error {
			s.Send(vertexHeader("alpha", "beta"))
			<-s.Context().Done()
			return s.Context().Err()
		},
		fetch: func(ctx context.Context, _ *aiplatformpb.FetchFeatureValuesRequest) (*aiplatformpb.FetchFeatureValuesResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}
	query := serveVertex(t, v)
	for _, api := range []string{"legacy", "online"} {
		s := openStore(t, "vertex://p/l/s/e?api="+api+"&"+query, func(o *Options) { o.Timeout = 50 * time.Millisecond })
		_, err := s.Arms(context.Background(), []string{"a"}, make([]Arm, 1))
		if err == nil || !strings.Contains(err.Error(), "--bandit-store-timeout") {
			t.Errorf("%s: error %v", api, err)
		}
		if s.metrics.errors[faultTimeout].Value() == 0 { // as above
			t.Errorf("%s: no timeout counted", api)
		}
	}
}

func TestVertexURLs(t *testing.T) {
	for _, url := range []string{"vertex://p", "vertex://p/l", "vertex://p/l/s/e/x", "vertex://p//s/e", "vertex://u:s3cret@p/l/s/e",
		"vertex://p/l/s/e?api=v3", "vertex://p/l/s/e?port=1", "vertex://p/l/s/e?plain=perhaps"} {
		if _, err := Open(t.Context(), url, DefaultOptions()); err == nil || !strings.Contains(err.Error(), "--bandit-store: ") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: error %v", url, err)
		}
	}
	o := DefaultOptions()
	o.Chunk = 101
	if _, err := Open(t.Context(), "vertex://p/l/s/e", o); err == nil || !strings.Contains(err.Error(), "--bandit-store-chunk") {
		t.Errorf("a chunk of 101: error %v", err)
	}
	s := openStore(t, "vertex://p/l/s/e", nil)
	if got := s.backend.String(); got != "vertex://p/l/s/e" {
		t.Errorf("it is called %s", got)
	}
}
