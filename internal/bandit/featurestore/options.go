package featurestore

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"weir/internal/metrics"
)

// Options say how a store is read. The zero value of a field is its default, except where it says otherwise;
// DefaultOptions has them all.
type Options struct {
	Chunk       int           // entities in one request to the store
	Concurrency int           // requests to the store at a time, all calls together
	Timeout     time.Duration // of a call, with all its chunks

	TTL          time.Duration // how long an answer is fresh; 0 asks anew in every call
	Stale        time.Duration // how long past its TTL it may be given when the store fails; 0 is not at all
	Retry        time.Duration // while the store fails, how often it is tried in the background
	CacheEntries int           // most entities that are kept, items and users apart

	ItemEntity, UserEntity string // join keys
	ItemView, UserView     string // feature views; without UserView users have no segments
	Alpha, Beta            string // features of items: the posterior
	Clicks, Impressions    string // or the counts it is made of; these win if they are set
	Segment                string // feature of users

	IDType string        // of join keys: auto, string, int64, int32
	MaxAge time.Duration // values observed longer ago count as absent; 0 is no limit
	CA     string        // PEM file of certificate authorities to trust besides the system's

	Prior [2]float64 // what clicks and impressions are added to; 1, 1 if zero
	// Whether the store is not to be asked now, since the server is overloaded; nil never refuses.
	Refuse  func() bool
	Metrics *metrics.Registry // may be nil
	Log     *slog.Logger      // may be nil
}

// DefaultOptions returns what the flags default to.
func DefaultOptions() Options {
	return Options{
		Chunk: 100, Concurrency: 32, Timeout: 250 * time.Millisecond,
		TTL: 10 * time.Second, Stale: 10 * time.Minute, Retry: time.Second, CacheEntries: 1_000_000,
		ItemEntity: "item_id", UserEntity: "user_id", ItemView: "items",
		Alpha: "alpha", Beta: "beta", Segment: "segment", IDType: "auto",
		Prior: [2]float64{1, 1},
	}
}

// withDefaults checks o and fills in what may be left out.
func (o Options) withDefaults() (Options, error) {
	d := DefaultOptions()
	for _, s := range []struct {
		of *string
		d  string
	}{{&o.ItemEntity, d.ItemEntity}, {&o.UserEntity, d.UserEntity}, {&o.ItemView, d.ItemView},
		{&o.Segment, d.Segment}, {&o.IDType, d.IDType}} {
		if *s.of == "" {
			*s.of = s.d
		}
	}
	if o.Alpha == "" && o.Beta == "" {
		o.Alpha, o.Beta = d.Alpha, d.Beta
	}
	if o.Chunk == 0 {
		o.Chunk = d.Chunk
	}
	if o.Concurrency == 0 {
		o.Concurrency = d.Concurrency
	}
	if o.Timeout == 0 {
		o.Timeout = d.Timeout
	}
	if o.Retry == 0 {
		o.Retry = d.Retry
	}
	if o.CacheEntries == 0 {
		o.CacheEntries = d.CacheEntries
	}
	if o.Prior == [2]float64{} {
		o.Prior = d.Prior
	}
	if o.Metrics == nil {
		o.Metrics = metrics.New(1)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	const hardChunk = 10_000
	switch {
	case o.Chunk < 1 || o.Chunk > hardChunk:
		return o, fmt.Errorf("--bandit-store-chunk must be from 1 to %d, got %d", hardChunk, o.Chunk)
	case o.Concurrency < 1:
		return o, fmt.Errorf("--bandit-store-concurrency must be above 0, got %d", o.Concurrency)
	case o.Timeout < 0:
		return o, fmt.Errorf("--bandit-store-timeout must be a time above 0, got %v", o.Timeout)
	case o.TTL < 0:
		return o, fmt.Errorf("--bandit-store-cache-ttl must not be negative, got %v", o.TTL)
	case o.Stale < 0:
		return o, fmt.Errorf("--bandit-store-cache-stale must not be negative, got %v", o.Stale)
	case o.Retry < 0:
		return o, fmt.Errorf("--bandit-store-retry must be a time above 0, got %v", o.Retry)
	case o.CacheEntries < 1:
		return o, fmt.Errorf("--bandit-store-cache-entries must be above 0, got %d; "+
			"--bandit-store-cache-ttl 0 --bandit-store-cache-stale 0 does without a cache", o.CacheEntries)
	case o.MaxAge < 0:
		return o, fmt.Errorf("--bandit-store-max-age must not be negative, got %v", o.MaxAge)
	case (o.Alpha == "") != (o.Beta == ""):
		return o, errors.New("--bandit-store-alpha and --bandit-store-beta go together: name both")
	case (o.Clicks == "") != (o.Impressions == ""):
		return o, errors.New("--bandit-store-clicks and --bandit-store-impressions go together: name both")
	case !(o.Prior[0] > 0 && o.Prior[1] > 0):
		return o, fmt.Errorf("the prior must be two numbers above 0, got %v", o.Prior)
	}
	if _, ok := idForms[o.IDType]; !ok {
		return o, fmt.Errorf("--bandit-store-id-type must be auto, string, int64 or int32, got %q", o.IDType)
	}
	return o, nil
}

func (o *Options) itemTable() *table {
	t := &table{flag: "item", entity: o.ItemEntity, view: o.ItemView, features: []string{o.Alpha, o.Beta}}
	if o.Clicks != "" {
		t.features = []string{o.Clicks, o.Impressions}
	}
	t.configured, t.without = idForms[o.IDType], make([]atomic.Int64, len(t.features))
	return t
}

func (o *Options) userTable() *table {
	t := &table{flag: "user", entity: o.UserEntity, view: o.UserView, features: []string{o.Segment},
		text: true}
	t.configured, t.without = idForms[o.IDType], make([]atomic.Int64, len(t.features))
	return t
}
