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
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/bandit"
	"weir/internal/config"
	"weir/internal/server"
)

// adminClient asks the admin API for a command: that of a server that runs, or of one that is made for it,
// on a data directory that no server uses.
type adminClient struct {
	admin, tokenFile, data string
	json                   bool // print answers as they are
	http                   http.Client
}

// flags adds what says which server is asked, of those that run or are stopped.
func (c *adminClient) flags(cmd *cobra.Command) {
	c.running(cmd.Flags())
	config.Dir(cmd.Flags(), &c.data, "data", "",
		"data directory of a server that is not running, instead of --admin")
	cmd.MarkFlagsMutuallyExclusive("admin", "data")
}

// running adds what says which server is asked, of those that run.
func (c *adminClient) running(f *pflag.FlagSet) {
	f.StringVar(&c.admin, "admin", "127.0.0.1:8081", "`address` of the admin port of a running server")
	config.File(f, &c.tokenFile, "token-file", "file with the token of that port, if it wants one")
}

// asJSON adds what says that answers are printed as they are.
func (c *adminClient) asJSON(f *pflag.FlagSet) {
	f.BoolVar(&c.json, "json", false, "print the answer as it is, JSON")
}

// url is that of a path of the admin port.
func (c *adminClient) url(path string) string {
	if strings.Contains(c.admin, "://") {
		return strings.TrimSuffix(c.admin, "/") + path
	}
	return "http://" + c.admin + path
}

// with runs a command that asks a service, which is opened if it is that of a server that is stopped.
func (c *adminClient) with(ctx context.Context, service server.Opener, do func() error) (err error) {
	if c.data == "" {
		return do()
	}
	if err := service.Check(); err != nil {
		return err
	}
	a, err := openApp(ctx, server.Config{Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Loops: 1, NetHTTP: true,
		Log: slog.New(slog.DiscardHandler)}, nil, c.data, []server.Opener{service})
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
	if b, ok := a.services[0].(*bandit.Bandit); ok {
		if err := b.AwaitArms(ctx); err != nil {
			return err
		}
	}
	c.admin = a.AdminAddr().String()
	return do()
}

// refusal is an answer that is none. Fields says what is wrong by the names of what was sent.
type refusal struct {
	Status int
	Detail string
	Fields map[string]string
	answer []byte
}

// Error implements error.
func (r *refusal) Error() string {
	switch {
	case r.Status == http.StatusUnauthorized:
		return "the admin port wants to know who asks: name the file of its token with --token-file"
	case r.Detail == "":
		return fmt.Sprintf("the server answers %d %s; is --admin the admin port of weir?", r.Status,
			http.StatusText(r.Status))
	}
	return r.Detail
}

// ask makes a request and returns what is answered; what is refused is a *refusal.
func (c *adminClient) ask(ctx context.Context, method, path string, body any) ([]byte, error) {
	answer, err := c.open(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	return io.ReadAll(answer)
}

// open makes a request and returns the answer to be read.
func (c *adminClient) open(ctx context.Context, method, path string, body any) (io.ReadCloser, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.url(path), bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("--admin %s: expected host:port, or a URL", c.admin)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "weir-ctl/"+version)
	if c.tokenFile != "" {
		token, err := os.ReadFile(c.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%w: is weir serve running, and is --admin its admin port?", err)
	}
	if resp.StatusCode < 300 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	refused := &refusal{answer: answer}
	if json.Unmarshal(answer, refused) != nil {
		refused.Detail = "" // no problem document
	}
	refused.Status = resp.StatusCode
	return nil, refused
}

// get asks for a value.
func (c *adminClient) get(ctx context.Context, method, path string, body, to any) error {
	answer, err := c.ask(ctx, method, path, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, to)
}

// print asks for a value, and prints it: with --json as it is, otherwise as show does once it has been read
// into to.
func (c *adminClient) print(cmd *cobra.Command, method, path string, body, to any,
	show func(w io.Writer)) error {
	answer, err := c.ask(cmd.Context(), method, path, body)
	if err != nil {
		return err
	}
	if c.json {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", bytes.TrimSpace(answer))
		return err
	}
	if err := json.Unmarshal(answer, to); err != nil {
		return err
	}
	show(cmd.OutOrStdout())
	return nil
}
