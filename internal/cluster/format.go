package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
)

// FormatVersion is the version of what keys mean. It grows with every change by which nodes of an older and
// of a newer weir would not understand each other's data.
const FormatVersion = 1

// ErrFormat means that what the cluster holds was written by a version of weir that means something else by
// its keys.
var ErrFormat = errors.New("the cluster's data is of another format")

// Format is what is fixed when data first comes into a cluster.
type Format struct {
	Version int    `json:"version"`
	Buckets uint64 `json:"buckets"` // hashes that ids which are no numbers are spread over
	Seed    uint64 `json:"seed"`    // of the hash that spreads them
}

// Format returns the format of the data under the client's prefix, and fixes it where there is none yet, as
// first says but for its Version and, if 0, its Seed. Data of another version is an ErrFormat.
func (c *Client) Format(ctx context.Context, first Format) (Format, error) {
	first.Version = FormatVersion
	for first.Seed == 0 {
		first.Seed = rand.Uint64()
	}
	text, err := json.Marshal(first)
	if err != nil {
		return Format{}, err
	}
	key := c.Key("{meta}")
	_, err = c.Do(ctx, Command{Slot: Slot(key), Durable: true, Args: []string{"SET", key, string(text), "NX"}})
	if err != nil {
		return Format{}, err
	}
	r, err := c.Do(ctx, Command{Slot: Slot(key), Args: []string{"GET", key}})
	if err != nil {
		return Format{}, err
	}
	var f Format
	s, err := r.ToString()
	if err == nil {
		err = json.Unmarshal([]byte(s), &f)
	}
	switch {
	case err != nil:
		return Format{}, fmt.Errorf("%w: %s: %w", ErrFormat, key, err)
	case f.Version != FormatVersion:
		return Format{}, fmt.Errorf("%w: %s is of version %d, and this weir reads version %d: use the weir "+
			"that wrote it, or another prefix", ErrFormat, key, f.Version, FormatVersion)
	}
	return f, nil
}
