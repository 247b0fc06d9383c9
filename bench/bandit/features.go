//go:build cgo

package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// chunk is how many entities a store gives in one call, at most.
const chunk = 100

// features are those of some entities, by the entity's id and the feature's name.
type features map[string]map[string]float64

// featureStore gives the features of at most chunk entities a call. Those it does not know are
// missing in what it gives.
type featureStore interface {
	Fetch(ctx context.Context, ids []string) (features, error)
}

// memory is a store that has everything at hand. It gives its own inner maps, not copies.
type memory struct{ entities features }

func (m memory) Fetch(_ context.Context, ids []string) (features, error) {
	if len(ids) > chunk {
		return nil, fmt.Errorf("%d entities asked for, %d at most", len(ids), chunk)
	}
	found := make(features, len(ids))
	for _, id := range ids {
		if f, ok := m.entities[id]; ok {
			found[id] = f
		}
	}
	return found, nil
}

// fetchAll asks the store for any number of entities, chunk by chunk and all chunks at once. The
// first error ends the call.
func fetchAll(ctx context.Context, store featureStore, ids []string) (features, error) {
	if len(ids) <= chunk {
		return store.Fetch(ctx, ids)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		all sync.WaitGroup
		mu  sync.Mutex
	)
	merged := make(features, len(ids))
	for part := range slices.Chunk(ids, chunk) {
		all.Go(func() {
			found, err := store.Fetch(ctx, part)
			if err != nil {
				cancel(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for id, f := range found {
				merged[id] = f
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return merged, nil
}

// readFeatures reads alpha and beta of every item from a file of item,alpha,beta,segment. Rows with a
// segment are left out.
func readFeatures(path string) (features, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord = 4
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	all := features{}
	for _, row := range rows[1:] {
		if row[3] != "" {
			continue
		}
		alpha, err1 := strconv.ParseFloat(row[1], 64)
		beta, err2 := strconv.ParseFloat(row[2], 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		// A field is part of its whole row, which it would keep.
		all[strings.Clone(row[0])] = map[string]float64{"alpha": alpha, "beta": beta}
	}
	return all, nil
}
