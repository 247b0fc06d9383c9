package sequence

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"weir/internal/server"
	"weir/internal/strictjson"
)

// putCurrent answers PUT /current of the admin port.
func (s *Sequence) putCurrent(w *server.Response, r *server.Request) server.Outcome {
	var body struct {
		Index *uint64 `json:"index"`
	}
	err := strictjson.Read(bytes.NewReader(r.Body), &body)
	if err == nil && body.Index == nil {
		err = errors.New("index must be there")
	}
	if err != nil {
		w.Problem(http.StatusUnprocessableEntity,
			fmt.Sprintf(`the body must be {"index":N}, N a whole number from 0 to %d: %v`,
				s.live.Load().MaxIndex, err))
		return server.Done
	}
	if r.Inline() && !s.index.Inline() {
		return server.Offload
	}
	n := *body.Index
	if n > s.live.Load().MaxIndex {
		w.Problem(http.StatusUnprocessableEntity, s.wrongIndex("index", 0))
		return server.Done
	}
	err = errStopped
	s.alive(func() { err = s.set(n) })
	if err != nil {
		w.Problem(http.StatusServiceUnavailable, notSaved)
		return server.Done
	}
	w.Field("Cache-Control", "no-store")
	w.Body = append(strconv.AppendUint(append(w.Body, `{"index":`...), n, 10), '}')
	return server.Done
}

// getCache answers GET /debug/cache of the admin port.
func (s *Sequence) getCache(w *server.Response, _ *server.Request) server.Outcome {
	pairs, size := s.cache.size()
	w.Field("Cache-Control", "no-store")
	w.JSON(struct {
		Direct uint64 `json:"direct"`
		Close  uint64 `json:"close"`
		Miss   uint64 `json:"miss"`
		Pairs  int    `json:"pairs"`
		Bytes  int64  `json:"bytes"`
		Limit  int64  `json:"limit"`
	}{s.given[direct].Value(), s.given[near].Value(), s.given[miss].Value(), pairs, size, s.cache.limit})
	return server.Done
}
