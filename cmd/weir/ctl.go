package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// ctlCommand is a command of weir ctl: a request to the admin port, and what of the answer is printed.
type ctlCommand struct {
	use, short string // words in capitals are arguments
	example    string
	method     string
	path       string            // its {NAME}s are the arguments of that name
	query      map[string]string // what flags that are parameters of the query are about, by their names
	body       map[string]string // the same of members of the body, which is an object
	// rows is the member of the answer that is a list, of which columns are printed. Without it, the answer
	// is printed as names with values.
	rows    string
	columns []string
	done    string            // printed instead
	words   map[string]string // what may be the argument, and what the path has for it
}

// ctlCommands are the routes that need nothing but their arguments. What they answer is in docs/openapi.yaml.
var ctlCommands = []ctlCommand{
	{use: "settings", short: "The settings that may change while the server serves", method: "GET",
		path: "/admin/settings", rows: "settings",
		columns: []string{"name", "value", "flags", "source", "by", "at", "bounds"}},
	{use: "reset NAME", short: "Return a setting to what the flags say", method: "DELETE",
		path: "/admin/settings/{NAME}", done: "it is what the flags say\n"},
	{use: "undo", short: "Undo the last change of settings", method: "POST", path: "/admin/settings/undo",
		done: "undone\n"},
	{use: "errors", short: "Warnings and errors, by what caused them", method: "GET", path: "/admin/errors",
		query: map[string]string{"group": "only the one of this `number`"}, rows: "groups",
		columns: []string{"group", "level", "service", "count", "last", "message", "kind"}},
	{use: "clear", short: "Forget warnings and errors", method: "DELETE", path: "/admin/errors",
		query: map[string]string{"group": "only those of this `number`"}},
	{use: "reload feeds|arms", short: "Take up the new file of a service; fails when it is refused",
		method: "POST", path: "/admin/{feeds|arms}/reload",
		words: map[string]string{"feeds": "feeds", "arms": "bandit"}},
	{use: "shed", short: "Whether the server is overloaded, by which signal", method: "GET",
		path: "/admin/shed"},
	{use: "feeds", short: "The lists that serve", method: "GET", path: "/admin/feeds"},
	{use: "survey", short: "How far users are in their lists, as counted last", method: "GET",
		path: "/admin/feeds/survey"},
	{use: "count", short: "Count anew how far users are, in the background", method: "POST",
		path: "/admin/feeds/survey"},
	{use: "user ID", short: "A user's list and position, and what comes next", method: "GET",
		path: "/admin/feeds/users/{ID}", query: map[string]string{
			"from": "where in the list the items begin", "limit": "how many items of the list",
			"size": "what the next request asks for"}},
	{use: "position ID POSITION", short: "Set a user's position", method: "PUT",
		path: "/admin/feeds/users/{ID}/position", done: "set\n"},
	{use: "restart ID", short: "Set a user to the beginning of the list", method: "DELETE",
		path: "/admin/feeds/users/{ID}/position", done: "at the beginning\n"},
	{use: "forget-user ID", short: "Forget a user's position", method: "DELETE",
		path: "/admin/feeds/users/{ID}"},
	{use: "arms", short: "The arms that events have taught of", method: "GET", path: "/admin/bandit/arms",
		query: map[string]string{"level": "item, segment or pair", "item": "only those of this item",
			"segment": "only those of this segment", "user": "only those of this user",
			"limit": "how many", "after": "where the page before ended"},
		rows: "arms", columns: []string{"level", "item", "segment", "user", "pulls", "mean", "low", "high"}},
	{use: "forget-arm", short: "Forget what events have taught of arms", method: "POST",
		example: "  weir ctl forget-arm --item emma --segment sf-readers\n  weir ctl forget-arm --all true",
		path:    "/admin/bandit/forget", body: map[string]string{"item": "of this item",
			"segment": "of this segment", "user": "of this user", "all": "true forgets all arms",
			"ids": "true forgets the ids of events"}},
	{use: "index INDEX", short: "Set the index of the sequence", method: "PUT", path: "/current",
		done: "set\n"},
	{use: "sequence", short: "The sequence's index, and its cache", method: "GET", path: "/admin/sequence"},
	{use: "cluster", short: "The engine that nodes share, as this one sees it", method: "GET",
		path: "/admin/cluster"},
	{use: "sources", short: "The sources of filters, and how fetching them went", method: "GET",
		path: "/admin/filters/sources", rows: "sources",
		columns: []string{"url", "fetched", "next", "failures", "error"}},
}

// ctl is what all commands of weir ctl have.
type ctl struct {
	adminClient
}

func newCtl() *cobra.Command {
	c := new(ctl)
	cmd := &cobra.Command{
		Use:   "ctl",
		Short: "Ask a running server, and change it",
		Long: `Ask a running server by its admin port, and change it: the routes that the dashboard uses.

Answers are tables, or with --json what the route has answered. weir filter has the commands for filters.`,
		Example: `  weir ctl status
  weir ctl set idle-timeout=30s shed-load=4:8
  weir ctl log -f --level warn`,
	}
	for _, one := range ctlCommands {
		cmd.AddCommand(c.command(one))
	}
	cmd.AddCommand(c.newStatus(), c.newSet(), c.newLog(), c.newGet())
	for _, one := range cmd.Commands() {
		if strings.HasPrefix(one.Use, "reset ") || strings.HasPrefix(one.Use, "set ") {
			one.ValidArgsFunction = c.completeSettings
		}
	}
	c.running(cmd.PersistentFlags())
	c.asJSON(cmd.PersistentFlags())
	cobra.CheckErr(cmd.MarkPersistentFlagFilename("token-file"))
	return cmd
}

// command returns a command of the table.
func (c *ctl) command(one ctlCommand) *cobra.Command {
	words := strings.Fields(one.use)[1:]
	what := "no arguments, only flags"
	if len(words) > 0 {
		what = strings.Join(words, " and ")
	}
	cmd := &cobra.Command{Use: one.use, Short: one.short, Example: one.example,
		Args: exactly(len(words), what), ValidArgs: slices.Sorted(maps.Keys(one.words))}
	for name, usage := range one.query {
		cmd.Flags().String(name, "", usage)
	}
	for name, usage := range one.body {
		cmd.Flags().String(name, "", usage)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, query, body := one.path, url.Values{}, map[string]any{}
		for i, word := range words {
			if name := "{" + word + "}"; strings.Contains(path, name) {
				value, ok := one.words[args[i]]
				if !ok && one.words != nil {
					return usage("%q: expected %s", args[i], strings.ReplaceAll(word, "|", " or "))
				}
				path = strings.ReplaceAll(path, name, url.PathEscape(cmp.Or(value, args[i])))
				continue
			}
			body[strings.ToLower(word)] = json.RawMessage(args[i])
			if _, err := strconv.ParseUint(args[i], 10, 64); err != nil {
				return usage("%s must be a whole number from 0, got %q", word, args[i])
			}
		}
		for name := range one.query {
			if f := cmd.Flags().Lookup(name); f.Changed {
				query.Set(name, f.Value.String())
			}
		}
		for name := range one.body {
			if f := cmd.Flags().Lookup(name); f.Changed {
				body[name] = f.Value.String()
				if name == "all" || name == "ids" {
					body[name] = f.Value.String() == "true"
				}
			}
		}
		if len(query) > 0 {
			path += "?" + query.Encode()
		}
		var sent any
		if len(body) > 0 || one.body != nil {
			sent = body
		}
		answer, err := c.ask(cmd.Context(), one.method, path, sent)
		if err != nil {
			return c.explain(cmd.Context(), err)
		}
		if one.done != "" && !c.json {
			_, err = io.WriteString(cmd.OutOrStdout(), one.done)
			return err
		}
		return c.print(cmd.OutOrStdout(), answer, one.rows, one.columns...)
	}
	return cmd
}

// explain adds to an error about settings which ones may have been meant.
func (c *ctl) explain(ctx context.Context, err error) error {
	refused, ok := errors.AsType[*refusal](err)
	if !ok || len(refused.Fields) == 0 {
		return err
	}
	names, listErr := c.settings(ctx)
	if listErr != nil {
		return err
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(refused.Fields)) {
		line := name + ": " + refused.Fields[name]
		if !slices.Contains(names, name) {
			line += meant(similar(name, names))
		}
		lines = append(lines, line)
	}
	return errors.New(strings.Join(lines, "\n"))
}

// settings returns the names of the settings.
func (c *ctl) settings(ctx context.Context) (names []string, err error) {
	var answer struct{ Settings []struct{ Name string } }
	err = c.get(ctx, "GET", "/admin/settings", nil, &answer)
	for _, s := range answer.Settings {
		names = append(names, s.Name)
	}
	return names, err
}

// completeSettings completes the names of settings for a shell, by asking the server.
func (c *ctl) completeSettings(cmd *cobra.Command, _ []string, _ string) ([]string,
	cobra.ShellCompDirective) {
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	names, err := c.settings(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	directive := cobra.ShellCompDirectiveNoFileComp
	if strings.HasPrefix(cmd.Use, "set ") {
		for i := range names {
			names[i] += "="
		}
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return names, directive
}

func (c *ctl) newSet() *cobra.Command {
	return &cobra.Command{
		Use:     "set NAME=VALUE...",
		Short:   "Change settings, all or none, at once and for the starts to come",
		Example: "  weir ctl set max-connections=50000 idle-timeout=30s",
		Args:    takes(1, many, "settings, as NAME=VALUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			values := map[string]string{}
			for _, arg := range args {
				name, value, ok := strings.Cut(arg, "=")
				if _, twice := values[name]; !ok || twice {
					return usage("expected settings as NAME=VALUE, each once, got %q", arg)
				}
				values[strings.TrimPrefix(name, "--")] = value
			}
			answer, err := c.ask(cmd.Context(), "PATCH", "/admin/settings", values)
			if err != nil {
				return c.explain(cmd.Context(), err)
			}
			if c.json {
				return c.print(cmd.OutOrStdout(), answer, "")
			}
			var now struct {
				Settings []struct{ Name, Value string }
			}
			if err := json.Unmarshal(answer, &now); err != nil {
				return err
			}
			for _, s := range now.Settings {
				if _, set := values[s.Name]; set {
					fmt.Fprintf(cmd.OutOrStdout(), "%s is %s\n", s.Name, s.Value)
				}
			}
			return nil
		},
	}
}

func (c *ctl) newStatus() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "How the server and its services are; exits with 1 unless it is up",
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := c.ask(cmd.Context(), "GET", "/health/ready", nil)
			refused, ok := errors.AsType[*refusal](err)
			if ok && refused.Status == http.StatusServiceUnavailable && refused.Detail == "" {
				answer, err = refused.answer, errors.New("the server is down")
			} else if err != nil {
				return err
			}
			if c.json {
				return errors.Join(c.print(cmd.OutOrStdout(), answer, ""), err)
			}
			type state struct{ Status, Reason string }
			var health struct {
				state
				Services map[string]state
			}
			if err := json.Unmarshal(answer, &health); err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintf(w, "server\t%s\n", health.Status)
			for _, name := range slices.Sorted(maps.Keys(health.Services)) {
				s := health.Services[name]
				fmt.Fprintln(w, strings.TrimRight(name+"\t"+s.Status+"\t"+s.Reason, "\t"))
			}
			var overload struct {
				Pressure float64
				Dominant string
			}
			// It is not there with --shed=false.
			if c.get(cmd.Context(), "GET", "/admin/shed", nil, &overload) == nil {
				fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("pressure\t%.0f %%\t%s", 100*overload.Pressure,
					overload.Dominant), "\t"))
			}
			return errors.Join(w.Flush(), err)
		},
	}
}

func (c *ctl) newGet() *cobra.Command {
	return &cobra.Command{
		Use:     "get PATH",
		Short:   "Ask any route of the admin port",
		Example: "  weir ctl get /admin/bandit/arms?limit=3 --json",
		Args:    exactly(1, "the path of a route"),
		RunE: func(cmd *cobra.Command, args []string) error {
			answer, err := c.ask(cmd.Context(), "GET", "/"+strings.TrimPrefix(args[0], "/"), nil)
			if err != nil {
				return err
			}
			if !json.Valid(answer) { // metrics
				_, err = cmd.OutOrStdout().Write(answer)
				return err
			}
			return c.print(cmd.OutOrStdout(), answer, "")
		},
	}
}

// awaitLine waits for a line of the log after one of a number. It is false when the events have ended that
// tell of lines.
func awaitLine(events *bufio.Scanner, last uint64) bool {
	for kind := ""; events.Scan(); {
		if k, ok := strings.CutPrefix(events.Text(), "event: "); ok {
			kind = k
		}
		var line struct{ Seq uint64 }
		data, ok := strings.CutPrefix(events.Text(), "data: ")
		if ok && kind == "log" && json.Unmarshal([]byte(data), &line) == nil && line.Seq > last {
			return true
		}
	}
	return false
}

func (c *ctl) newLog() *cobra.Command {
	var follow bool
	var lines int
	cmd := &cobra.Command{
		Use:     "log",
		Short:   "The last lines of the log",
		Example: "  weir ctl log -f --level warn --service feed",
	}
	f := cmd.Flags()
	f.BoolVarP(&follow, "follow", "f", false, "go on with new lines, until it is interrupted")
	f.IntVarP(&lines, "lines", "n", 50, "how many lines at first")
	f.String("level", "", "from this level on: debug, info, warn or error")
	f.String("service", "", "only those of this service; kernel is all services'")
	f.String("text", "", "only those with this text")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("level", cobra.FixedCompletions(
		[]string{"debug", "info", "warn", "error"}, cobra.ShellCompDirectiveNoFileComp)))
	cmd.RunE = interruptible(func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		query := url.Values{"limit": {strconv.Itoa(lines)}}
		for _, name := range []string{"level", "service", "text"} {
			if f := cmd.Flags().Lookup(name); f.Changed {
				query.Set(name, f.Value.String())
			}
		}
		var stream io.ReadCloser
		var events *bufio.Scanner
		for last := uint64(0); ; {
			if follow && stream == nil { // before lines are asked for, so that none is missed
				var err error
				if stream, err = c.open(ctx, "GET", "/admin/events", nil); err != nil {
					return err
				}
				defer stream.Close()
				events = bufio.NewScanner(stream)
				events.Buffer(nil, 1<<20)
			}
			var answer struct {
				Last  uint64
				Lines []json.RawMessage
			}
			err := c.get(ctx, "GET", "/admin/log?"+query.Encode(), nil, &answer)
			if err == nil && answer.Last < last { // it was started again
				last = 0
				query.Set("after", "0")
				continue
			}
			if err == nil {
				err = c.printLines(cmd.OutOrStdout(), answer.Lines)
			}
			if err == nil && follow {
				last = answer.Last
				query.Set("after", strconv.FormatUint(last, 10))
				query.Del("limit")
				if !awaitLine(events, last) {
					stream = nil
				}
			}
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil || !follow:
				return err
			}
		}
	})
	return cmd
}
