package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// FormatVersion is the version of what keys mean. It grows with every change by which nodes of an older and
// of a newer weir would not understand each other's data.
const FormatVersion = 1

// ErrFormat means that what the cluster holds was written by a version of weir that means something else by
// its keys, or was replaced.
var ErrFormat = errors.New("the cluster's data is of another format")

// FixVersion returns an ErrFormat where there is data of another version. Where there is none it has what
// comes be of this one.
func (c *Client) FixVersion(ctx context.Context) error {
	key := c.Key("{version}")
	_, err := c.Do(ctx, Command{Slot: Slot(key), Durable: true,
		Args: []string{"SET", key, strconv.Itoa(FormatVersion), "NX"}})
	if err != nil {
		return err
	}
	return c.CheckVersion(ctx)
}

// CheckVersion returns an ErrFormat where there is data of another version. It fixes nothing.
func (c *Client) CheckVersion(ctx context.Context) error {
	key := c.Key("{version}")
	text, err := c.get(ctx, key)
	if err == nil && text != "" && text != strconv.Itoa(FormatVersion) {
		err = fmt.Errorf("%w: %s is %.20q, and this weir reads version %d: use the weir that wrote it, or "+
			"another prefix", ErrFormat, key, text, FormatVersion)
	}
	return err
}

// Format is what is fixed when positions first come into a cluster.
type Format struct {
	Buckets uint64 `json:"buckets"` // hashes that ids which are no numbers are spread over
	Seed    uint64 `json:"seed"`    // of the hash that spreads them
}

// Format returns the format of the data under the client's prefix, and fixes it where there is none yet, as
// first says but for its Seed, if 0. Data of another version is an ErrFormat.
//
// From then on the client looks every so often whether the key is as it was, and when it is not, refuses all
// commands with an ErrUnavailable that is an ErrFormat too: data that was replaced, or lost, under nodes that
// are running is for people to look at.
func (c *Client) Format(ctx context.Context, first Format) (f Format, err error) {
	if err := c.FixVersion(ctx); err != nil {
		return f, err
	}
	for first.Seed == 0 {
		first.Seed = rand.Uint64()
	}
	text, err := json.Marshal(first)
	if err != nil {
		return f, err
	}
	key := c.Key("{meta}")
	_, err = c.Do(ctx, Command{Slot: Slot(key), Durable: true,
		Args: []string{"SET", key, string(text), "NX"}})
	if err != nil {
		return f, err
	}
	s, err := c.get(ctx, key)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal([]byte(s), &f); err != nil {
		return f, fmt.Errorf("%w: %s: %w", ErrFormat, key, err)
	}
	c.format.Store(&s)
	return f, nil
}

// get returns the text of a key, "" where there is none.
func (c *Client) get(ctx context.Context, key string) (string, error) {
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
	is, err := c.get(ctx, c.Key("{meta}"))
	if err != nil || is == *was {
		return
	}
	err = unavailable(fmt.Errorf("%w: %s was %s and is %q: restart this node when that is as it should be",
		ErrFormat, c.Key("{meta}"), *was, is))
	c.refused.Store(&err)
	c.o.Log.Error("cluster: the data is not what it was, and nothing is done any more", "error", err)
}
