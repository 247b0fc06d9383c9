package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/cluster"
	"weir/internal/cluster/publications"
	"weir/internal/feed/source"
)

// publish is weir publish.
type publish struct {
	timeout                          time.Duration
	rollback, cancel, status, asJSON bool
	force, behind                    bool
	sum                              string
}

func newPublish() *cobra.Command {
	p := new(publish)
	cmd := &cobra.Command{
		Use:   "publish [FILE|URL]",
		Short: "Have all nodes of a cluster serve new lists, at the same moment",
		Long: `Have all nodes of a cluster serve new lists: each fetches them, checks them and maps them
beside those that serve; when all that are there have them, all take them up. No request fails for it, and
no item is given twice. What each node does is said meanwhile, a line a node.

A URL, https, is best: nodes need not share anything. A FILE is for nodes that all see that path, with that
content; others say so, and nothing is served. The content is known by its SHA-256: that of #sha256=HEX in
the URL, --checksum, the .sha256 beside it, or else of the URL's content, which is read once for it.

When --timeout ends before all nodes have the lists, they do not serve, and the nodes go on: the same command
waits again, --behind has them serve all the same, and --cancel withdraws them. Nodes that are behind answer
503 to users whose list is another, until they have it. A node that starts takes up what was published last.

--rollback publishes the lists before those that serve once more, which nodes still have. Positions of users
whose list changes begin anew, as always.

The exit code is 1 unless all nodes that are there serve the lists.`,
		Example: `  weir publish https://lists.example/2026-11-23.weir --cluster valkey://10.0.0.1:6379
  weir publish /mnt/shared/feeds.weir --config /etc/weir.toml --timeout 30m
  weir publish --status --config /etc/weir.toml
  weir publish --rollback --config /etc/weir.toml`,
		Args: takes(0, 1, "one FILE or URL"),
	}
	f := cmd.Flags()
	f.DurationVar(&p.timeout, "timeout", 10*time.Minute, "how long to wait for nodes")
	f.StringVar(&p.sum, "checksum", "", "the SHA-256 that the lists must have")
	f.BoolVar(&p.rollback, "rollback", false, "serve the lists before those that serve")
	f.BoolVar(&p.status, "status", false, "say what serves, on which nodes, and what was published before")
	f.BoolVar(&p.cancel, "cancel", false, "withdraw what does not serve yet")
	f.BoolVar(&p.force, "force", false, "take up lists with far fewer users than those that serve")
	f.BoolVar(&p.behind, "behind", false, "serve after --timeout though nodes do not have the lists")
	f.BoolVar(&p.asJSON, "json", false, "with --status, print JSON")
	cmd.MarkFlagsMutuallyExclusive("rollback", "status", "cancel")
	read := clusterFlags(cmd)
	cmd.RunE = interruptible(func(cmd *cobra.Command, args []string) error {
		switch alone := p.rollback || p.status || p.cancel; {
		case alone == (len(args) == 1):
			return usage("name one of FILE, URL, --rollback, --status and --cancel")
		case p.timeout <= 0:
			return usage("--timeout must be above 0, got %v", p.timeout)
		case p.asJSON && !p.status:
			return usage("--json goes with --status")
		}
		var src source.Source
		if len(args) == 1 {
			var err error
			if src, err = source.Parse(args[0], p.sum); err != nil {
				return usage("%v", err)
			}
		}
		_, options, err := read()
		if err != nil {
			return err
		}
		options.Log = slog.New(slog.DiscardHandler)
		ctx := cmd.Context()
		c, err := cluster.Open(ctx, options)
		if err != nil {
			return fmt.Errorf("--cluster: %w", err)
		}
		defer c.Close()
		if err := c.CheckVersion(ctx); err != nil {
			return fmt.Errorf("--cluster: %w", err)
		}
		out := cmd.OutOrStdout()
		switch {
		case p.status:
			return p.printStatus(ctx, c, out)
		case p.cancel:
			withdrawn, err := publications.Cancel(ctx, c)
			if err == nil {
				fmt.Fprintf(out, "%s is withdrawn\n", publications.Name(withdrawn.Number))
			}
			return err
		}
		return p.publish(ctx, c, src, out)
	})
	return cmd
}

// publish publishes src; the zero Source goes back.
func (p *publish) publish(ctx context.Context, c *cluster.Client, src source.Source, out io.Writer) error {
	o := publications.Options{Force: p.force, Behind: p.behind,
		Report: func(number uint64, nodes []publications.Node) {
			for _, n := range nodes {
				fmt.Fprintf(out, "%s  %s  %v\n", publications.Name(number), nodeName(n), n.Fact)
			}
		}}
	if !p.rollback {
		sum, err := sumOf(ctx, src, out)
		if err != nil {
			return err
		}
		o.Source, o.SHA256 = src.Text(), sum
	}
	ctx, stop := context.WithTimeout(ctx, p.timeout)
	defer stop()
	done, err := publications.Publish(ctx, c, o)
	if behind := (*publications.BehindError)(nil); errors.As(err, &behind) {
		advice := "the same command waits again, --behind serves them all the same, --cancel withdraws them"
		if p.behind {
			advice = "no node could serve them; the same command waits again, --cancel withdraws them"
		}
		return fmt.Errorf("%w\n%s", err, advice)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s serves on all nodes\n", publications.Name(done.Number))
	return err
}

// sumOf returns the SHA-256 of what will be published: it is read where nobody says.
func sumOf(ctx context.Context, src source.Source, out io.Writer) (string, error) {
	if src.Sum != "" {
		return src.Sum, nil
	}
	if !src.IsURL() {
		return source.SumOfLists(ctx, src.Text())
	}
	sum, err := source.SumBeside(ctx, src)
	if err != nil || sum != "" {
		return sum, err
	}
	fmt.Fprintf(out, "there is no %v.sha256, so all of the file is read for its SHA-256\n", src)
	body, err := source.Read(ctx, src)
	if err != nil {
		return "", err
	}
	defer body.Close()
	h := sha256.New()
	if _, err := io.Copy(h, body); err != nil {
		return "", fmt.Errorf("%v: %w", src, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func nodeName(n publications.Node) string { return cmp.Or(n.Address, n.ID) }

// status is what --status prints as JSON. Sources are without secrets.
type status struct {
	Serving   *publications.Publication  `json:"serving"`
	Preparing *publications.Publication  `json:"preparing"`
	History   []publications.Publication `json:"history"`
	Nodes     []publications.Node        `json:"nodes"`
}

func (p *publish) printStatus(ctx context.Context, c *cluster.Client, out io.Writer) error {
	ctx, stop := context.WithTimeout(ctx, p.timeout)
	defer stop()
	r, err := publications.Read(ctx, c)
	if err != nil {
		return err
	}
	nodes, err := publications.Nodes(ctx, c)
	if err != nil {
		return err
	}
	all := []*publications.Publication{r.Serving, r.Preparing}
	for i := range r.History {
		all = append(all, &r.History[i])
	}
	for _, one := range all {
		if one != nil {
			one.Source = withoutSecrets(one.Source, one.SHA256)
		}
	}
	if p.asJSON {
		return printJSON(out, status{r.Serving, r.Preparing, append([]publications.Publication{},
			r.History...), append([]publications.Node{}, nodes...)})
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(state string, one *publications.Publication) {
		if one == nil {
			return
		}
		again := ""
		if one.Again != 0 {
			again = ", the lists of " + publications.Name(one.Again)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.12s\t%s%s\n", publications.Name(one.Number), state,
			one.At.Format(time.RFC3339), one.SHA256, one.Source, again)
	}
	line("prepared", r.Preparing)
	line("serves", r.Serving)
	for i := range r.History {
		state := "before"
		if r.History[i].Withdrawn {
			state = "withdrawn"
		}
		line(state, &r.History[i])
	}
	if r.Serving == nil && r.Preparing == nil {
		fmt.Fprintln(w, "nothing was published yet")
	}
	for _, n := range nodes {
		seen := ""
		if !n.Here() {
			seen = ", gone for " + n.Age.Round(time.Second).String()
		}
		fmt.Fprintf(w, "%s\tweir %s\t%v%s\n", nodeName(n), strings.TrimPrefix(n.Version, "v"), n.Fact, seen)
	}
	return w.Flush()
}

// withoutSecrets names a source without what may be a secret.
func withoutSecrets(text, sum string) string {
	src, err := source.Parse(text, sum)
	if err != nil {
		return "a source that cannot be read"
	}
	return src.String()
}
