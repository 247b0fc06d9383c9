//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// chunks is a store that keeps account of what it was asked for.
type chunks struct {
	memory
	mu    sync.Mutex
	sizes []int
	fail  string // an id that breaks the call
}

func (c *chunks) Fetch(ctx context.Context, ids []string) (features, error) {
	c.mu.Lock()
	c.sizes = append(c.sizes, len(ids))
	c.mu.Unlock()
	if slices.Contains(ids, c.fail) {
		return nil, errors.New("store down")
	}
	return c.memory.Fetch(ctx, ids)
}

func TestEntitiesAreFetchedInChunksAndMerged(t *testing.T) {
	store := &chunks{memory: memory{features{}}}
	var ids []string
	for i := range 250 {
		id := fmt.Sprint(i)
		ids = append(ids, id)
		if i != 117 {
			store.entities[id] = map[string]float64{"alpha": float64(i)}
		}
	}
	got, err := fetchAll(t.Context(), store, ids)
	if err != nil || len(got) != 249 || got["249"]["alpha"] != 249 || got["117"] != nil {
		t.Errorf("%d entities, %v", len(got), err)
	}
	if slices.Sort(store.sizes); !slices.Equal(store.sizes, []int{50, 100, 100}) {
		t.Errorf("chunks of %v", store.sizes)
	}
	store.fail = "249"
	if _, err := fetchAll(t.Context(), store, ids); err == nil || err.Error() != "store down" {
		t.Errorf("a chunk that fails is the error %v", err)
	}
}

func TestRowsOfSegmentsAreNoFeaturesOfAnItem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "arms.csv")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("item,alpha,beta,segment\n7,1.5,20,\n7,9,9,s1\n8,3,4,\n")
	got, err := readFeatures(path)
	if err != nil || len(got) != 2 || got["7"]["alpha"] != 1.5 || got["7"]["beta"] != 20 ||
		got["8"]["beta"] != 4 {
		t.Errorf("%v, %v", got, err)
	}
	write("item,alpha,beta,segment\n7,x,1,\n")
	if _, err := readFeatures(path); err == nil {
		t.Error("a letter for a number is no error")
	}
}

func post(t *testing.T, p *predictor, body string) (status int, said string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/predict", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w, err := app(p).Test(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	b, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.StatusCode, string(b)
}

func TestARequestWithoutItemsIsRefused(t *testing.T) {
	for _, body := range []string{`{"user":"u","items":[]}`, `{"items":7}`, `nothing`} {
		if status, said := post(t, &predictor{memory{features{}}}, body); status != 400 {
			t.Errorf("%s: status %d: %s", body, status, said)
		}
	}
}
