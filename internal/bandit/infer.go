package bandit

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"weir/internal/server"
)

// The Open Inference Protocol, version 2, over HTTP, with its binary tensors: what clients of KServe and
// Triton speak. A request has the tensors
//
//	items    BYTES, INT64, UINT64, INT32 or UINT32 [n]   whose scores are asked for
//	user     any of these, [1]; may be left out
//	segment  the same
//
// and the parameters seed, if it is to be answered alike again, and top, for that many of the best alone, the
// best first. The answer has the tensors
//
//	scores   FP64 [n]
//	items    of the datatype they were sent in, [n]; with top, or where outputs name it
//
// By the classification extension (class_count of Triton's clients), scores are the best as texts instead:
// "score:index:item".

const (
	modelVersion = "1"
	headerLength = "Inference-Header-Content-Length"
)

func (b *Bandit) inferRoutes() []server.Route {
	routes := []server.Route{
		{Pattern: "GET /v2", Handler: b.serverMetadata},
		{Pattern: "GET /v2/health/live", Handler: b.serverLive, Class: server.Critical},
		{Pattern: "GET /v2/health/ready", Handler: b.ready, Class: server.Critical},
	}
	for _, model := range []string{"/v2/models/{model}", "/v2/models/{model}/versions/{version}"} {
		routes = append(routes,
			server.Route{Pattern: "GET " + model, Handler: b.modelMetadata},
			server.Route{Pattern: "GET " + model + "/ready", Handler: b.modelReady, Class: server.Critical},
			server.Route{Pattern: "POST " + model + "/infer", Handler: b.infer, MaxBody: maxBody},
		)
	}
	return routes
}

// serverLive answers GET /v2/health/live.
func (b *Bandit) serverLive(w *server.Response, _ *server.Request) server.Outcome {
	w.Body = append(w.Body, `{"live":true}`...)
	return server.Done
}

// ready answers GET /v2/health/ready.
func (b *Bandit) ready(w *server.Response, r *server.Request) server.Outcome {
	if h := b.Health(); h.State == server.StateDown {
		(&reply{w, r.Stripe}).fail(h.Err())
		return server.Done
	}
	w.Body = append(w.Body, `{"ready":true}`...)
	return server.Done
}

// serverMetadata answers GET /v2.
func (b *Bandit) serverMetadata(w *server.Response, _ *server.Request) server.Outcome {
	w.Body = append(w.Body,
		`{"name":"weir","version":"2","extensions":["binary_tensor_data","classification","parameters"]}`...)
	return server.Done
}

// knows answers with a problem, and returns false, when a request names a model or a version that there is
// not.
func (b *Bandit) knows(w *reply, model, version string) bool {
	switch {
	case model != b.cfg.Model:
		w.fail(&badRequest{http.StatusNotFound, "there is no model " + strconv.Quote(model) + ", only " +
			strconv.Quote(b.cfg.Model) + " (--bandit-model)"})
	case version != "" && version != modelVersion:
		w.fail(&badRequest{http.StatusNotFound, "the model has no version " + strconv.Quote(version) +
			", only " + modelVersion})
	default:
		return true
	}
	return false
}

// modelReady answers GET /v2/models/{model}/ready.
func (b *Bandit) modelReady(w *server.Response, r *server.Request) server.Outcome {
	if b.knows(&reply{w, r.Stripe}, string(r.Param(0)), string(r.Param(1))) {
		return b.ready(w, r)
	}
	return server.Done
}

// modelMetadata answers GET /v2/models/{model}.
func (b *Bandit) modelMetadata(w *server.Response, r *server.Request) server.Outcome {
	if !b.knows(&reply{w, r.Stripe}, string(r.Param(0)), string(r.Param(1))) {
		return server.Done
	}
	w.Body = appendText(append(w.Body, `{"name":`...), b.cfg.Model)
	w.Body = append(w.Body, `,"versions":["`+modelVersion+`"],"platform":"weir","inputs":[`+
		`{"name":"items","datatype":"BYTES","shape":[-1]},{"name":"user","datatype":"BYTES","shape":[1]},{"name":"segment","datatype":"BYTES","shape":[1]}],`+
		`"outputs":[{"name":"scores","datatype":"FP64","shape":[-1]},{"name":"items","datatype":"BYTES","shape":[-1]}]}`...)
	return server.Done
}

// tensor is an input as it was sent.
type tensor struct {
	datatype *datatype // nil for none that is known
	dims     int
	size     uint64 // elements
	data     int    // where its JSON begins, -1 when it is binary
	raw      []byte
	rawSize  uint64
	hasRaw   bool
}

// output is what a request says of a tensor of the answer.
type output struct {
	asked        bool
	said, binary bool
	classes      int // how many of the best as texts; 0 is none
}

// The outputs.
const (
	scoresOutput = iota
	itemsOutput
	outputs
)

var outputNames = [outputs]string{"scores", "items"}

// inference is a request of the protocol.
type inference struct {
	id                   []byte // its token
	items, user, segment tensor
	has                  [3]bool
	binary               bool // the answer is to be, where its output does not say
	outputs              [outputs]output
	order                [3]*tensor
	tensors              int
}

// inferInline and inferLater are up to how many bytes of JSON are read on the event loop, at once and later.
const (
	inferInline = 4 << 10
	inferLater  = 16 << 10
)

// rawInline and rawLater are the same for binary tensors. In more there may be few items all the same, with
// long names.
const (
	rawInline = 32 * inlineItems
	rawLater  = 16 * laterItems
)

// inferMembers is how many commas a request's JSON has besides those between items, and a few more.
const inferMembers = 32

// errMany is a request for more items than asked about.
var errMany = errors.New("many items")

// infer answers POST /v2/models/{model}/infer.
func (b *Bandit) infer(w *server.Response, r *server.Request) server.Outcome {
	a := reply{w, r.Stripe}
	if !b.knows(&a, string(r.Param(0)), string(r.Param(1))) {
		return server.Done
	}
	start := time.Now()
	head, raw, err := splitInference(r.Header(headerLength), r.Body)
	if err != nil {
		a.fail(err)
		return server.Done
	}
	if b.store != nil {
		jsonLength := len(head)
		return b.pend(r, func(ctx context.Context, sc *scratch, w *reply, body []byte) {
			err := b.parseInference(sc, body[:jsonLength], body[jsonLength:], true, b.live.Load().MaxItems)
			degraded := false
			if err == nil {
				degraded, err = b.features(ctx, sc, &sc.query)
			}
			if err != nil {
				w.fail(err)
				return
			}
			w.Field("Cache-Control", "no-store")
			b.answerInference(w, sc, degraded, start)
		})
	}
	if commas := bytes.Count(head, comma); len(head) > inferInline || commas > inlineItems+inferMembers ||
		len(raw) > rawInline {
		if r.Inline() {
			return whenIdle(len(head) <= inferLater && commas <= laterItems+inferMembers &&
				len(raw) <= rawLater)
		}
	}
	sc := b.getScratch()
	defer b.putScratch(sc)
	if err = b.parseInference(sc, head, raw, false, inlineItems); err == errMany {
		if r.Inline() {
			return whenIdle(sc.inference.items.size <= laterItems)
		}
		err = b.parseInference(sc, head, raw, false, b.live.Load().MaxItems)
	}
	if err == nil && !b.lookUp(sc, sc.query.user, sc.query.segment, sc.query.keys, nil) {
		err = errLoading
	}
	if err != nil {
		a.fail(err)
		return server.Done
	}
	w.Field("Cache-Control", "no-store")
	b.answerInference(&a, sc, false, start)
	return server.Done
}
