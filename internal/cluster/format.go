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
//
// From then on the client looks every so often whether the key is as it was, and when it is not, refuses all
// commands with an ErrUnavailable that is an ErrFormat too: data that was replaced, or lost, under nodes that
// are running is for people to look at.
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
	_, err = c.Do(ctx, Command{Slot: Slot(key), Durable: true,
		Args: []string{"SET", key, string(text), "NX"}})
	if err != nil {
		return Format{}, err
	}
	s, err := c.readFormat(ctx)
	if err != nil {
		return Format{}, err
	}
	f, err := c.parseFormat(s)
	if err == nil {
		c.format.Store(&s)
	}
	return f, err
}

// CheckVersion returns an ErrFormat where there is data of another version. It fixes nothing.
func (c *Client) CheckVersion(ctx context.Context) error {
	s, err := c.readFormat(ctx)
	if err == nil && s != "" {
		_, err = c.parseFormat(s)
	}
	return err
}

func (c *Client) parseFormat(text string) (f Format, err error) {
	key := c.Key("{meta}")
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return Format{}, fmt.Errorf("%w: %s: %w", ErrFormat, key, err)
	}
	if f.Version != FormatVersion {
		return Format{}, fmt.Errorf("%w: %s is of version %d, and this weir reads version %d: use the weir "+
			"that wrote it, or another prefix", ErrFormat, key, f.Version, FormatVersion)
	}
	return f, nil
}

// readFormat returns the text of the format, "" where there is none.
func (c *Client) readFormat(ctx context.Context) (string, error) {
	key := c.Key("{meta}")
	r, err := c.Do(ctx, Command{Slot: Slot(key), Args: []string{"GET", key}})
	if err != nil || r.IsNil() {
		return "", err
	}
	return r.ToString()
}

// checkFormat looks whether the format is as it was when it was read first.
func (c *Client) checkFormat(ctx context.Context) {
	was := c.format.Load()
	if was == nil || c.refused.Load() != nil {
		return
	}
	is, err := c.readFormat(ctx)
	if err != nil || is == *was {
		return
	}
	err = unavailable(fmt.Errorf("%w: %s was %s and is %q: restart this node when that is as it should be",
		ErrFormat, c.Key("{meta}"), *was, is))
	c.refused.Store(&err)
	c.o.Log.Error("cluster: the data is not what it was, and nothing is done any more", "error", err)
}
