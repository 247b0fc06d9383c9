package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"

	"weir/internal/config"
	"weir/internal/load"
	"weir/internal/load/access"
	"weir/internal/load/web"
)

// newToken asks for a token that is made up. It is too short to be one.
const newToken = "new"

func newLoadUI() *cobra.Command {
	var (
		listen      string
		history     string
		keep        int
		token       string
		agents      []string
		agentsToken string
		files       string
		own         []string
	)
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Make load from a browser, and watch it",
		Long: `Serve pages that start a load run, change its rate and stop it, with plots of rate, latency
and the target as they come, and with the results of earlier runs to open, compare, download and run
again.

Who can open the pages can make load from this machine, so they are for this machine's browsers alone. To
listen on other addresses give a --token: the pages ask for it. It is sent as it is, so put TLS before it
where others can listen.`,
		Example: `  weir load ui
  weir load ui --listen 0.0.0.0:8090 --token new`,
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:8090", "`address` of the pages")
	config.Dir(f, &history, "history", "",
		"`folder` of the results (default: weir/load in the user's data folder)")
	f.IntVar(&keep, "keep", 200, "results that stay in --history; older ones go")
	secret(f, &token, "token", "WEIR_LOAD_UI_TOKEN",
		"that the pages ask for, 16 characters or more; new makes one up and prints it")
	f.StringSliceVar(&agents, "agents", nil,
		"agents that plans may name, `host:port`,...; without it they may name none")
	secret(f, &agentsToken, "agents-token", "WEIR_LOAD_TOKEN", "that the --agents want to see")
	config.Dir(f, &files, "files", "", "`folder` of the files that plans may name as requests and "+
		"variables; without it they may name none")
	f.StringSliceVar(&own, "i-own-this-target", nil,
		"`host` beyond loopback that the load may go to; may be repeated")

	cmd.RunE = interruptible(func(cmd *cobra.Command, _ []string) error {
		if keep < 1 {
			return usage("--keep must be at least 1, got %d", keep)
		}
		if history == "" {
			data, err := userData()
			if err != nil {
				return err
			}
			history = filepath.Join(data, "weir", "load")
		}
		if files != "" {
			var err error
			if files, err = filepath.Abs(files); err != nil {
				return fmt.Errorf("--files: %w", err)
			}
			if s, err := os.Stat(files); err != nil || !s.IsDir() {
				return fmt.Errorf("--files: there is no folder %s", files)
			}
		}
		made := token == newToken
		if made {
			token = rand.Text()
		}
		ui, err := web.New(web.Options{
			New: func(ctx context.Context, p load.Plan) (web.Runner, error) {
				run, err := load.New(ctx, p, load.Options{Token: agentsToken})
				if err != nil {
					return nil, err // and not a nil *load.Run
				}
				return run, nil
			},
			History: history, Keep: keep, Token: token, Own: own, Agents: agents, Files: files,
			Log: newLog(cmd.ErrOrStderr(), "text", slog.LevelInfo),
		})
		if err != nil {
			return optionError(err)
		}
		l, err := access.Listen(listen, token)
		if err != nil {
			return optionError(errors.Join(err, ui.Close()))
		}
		address := pageURL(l.Addr())
		if made {
			address += "#token=" + url.QueryEscape(token)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "load UI on %s, results in %s\n", address, history)
		return ui.Serve(cmd.Context(), l)
	})
	return cmd
}

// pageURL is what to type into a browser for an address that is listened on.
func pageURL(a net.Addr) string {
	tcp := a.(*net.TCPAddr)
	host := tcp.IP.String()
	if tcp.IP.IsUnspecified() {
		host = "127.0.0.1"
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(tcp.Port)) + "/"
}

// userData is the folder of what programs keep for a user.
func userData() (string, error) {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	if runtime.GOOS == "windows" {
		if dir := os.Getenv("LocalAppData"); dir != "" {
			return dir, nil
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("there is no home for results: %w; name a folder with --history", err)
	}
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Application Support"), nil
	}
	return filepath.Join(home, ".local", "share"), nil
}

// optionError has what the packages say of an option printed as a mistake in the command line.
func optionError(err error) error {
	if _, ok := errors.AsType[*access.OptionError](err); ok {
		return usage("%w", err)
	}
	return err
}
