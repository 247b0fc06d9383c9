package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/config"
	"weir/internal/filter"
	"weir/internal/server"
)

// filterClient asks the admin API for a command: that of a server that runs, or of one that is made for it,
// on a data directory that no server uses.
type filterClient struct {
	admin, data string
	http        http.Client
}

// flags adds what says which server is asked.
func (c *filterClient) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.admin, "admin", "127.0.0.1:8081", "`address` of the admin port of a running server")
	config.Dir(f, &c.data, "data", "", "data directory of a server that is not running, instead of --admin")
	cmd.MarkFlagsMutuallyExclusive("admin", "data")
}

// with runs a command that asks.
func (c *filterClient) with(ctx context.Context, do func() error) (err error) {
	if c.data == "" {
		c.admin = strings.TrimSuffix(c.admin, "/")
		if !strings.Contains(c.admin, "://") {
			c.admin = "http://" + c.admin
		}
		return do()
	}
	var flags filter.Flags
	flags.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	if err := flags.Check(); err != nil {
		return err
	}
	a, err := openApp(ctx, server.Config{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Loops: 1, NetHTTP: true,
		Log: slog.New(slog.DiscardHandler)}, c.data, []server.Opener{&flags})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- a.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-served)
	}()
	c.admin = "http://" + a.AdminAddr().String()
	return do()
}

// ask makes a request and returns what is answered; what is refused is an error that says why.
func (c *filterClient) ask(ctx context.Context, method, path string, body any) ([]byte, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.admin+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf(
			"%w: is weir serve running, and is --admin its admin port? --data asks a data directory", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		var problem struct{ Detail string }
		if json.Unmarshal(answer, &problem) != nil || problem.Detail == "" {
			return nil, fmt.Errorf("the server answers %s", resp.Status)
		}
		return nil, errors.New(problem.Detail)
	}
	return answer, nil
}

// get asks for a value.
func (c *filterClient) get(ctx context.Context, method, path string, body, to any) error {
	answer, err := c.ask(ctx, method, path, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, to)
}
