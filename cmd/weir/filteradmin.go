package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/disk"
	"weir/internal/filter"
	"weir/internal/filter/rules"
)

// newFilter has the commands that change and show the filters of a server, and one that needs none.
func newFilter() *cobra.Command {
	cmd := &cobra.Command{Use: "filter", Short: "Filter other people's feeds"}
	cmd.AddCommand(newFilterAdd(), newFilterList(), newFilterShow(), newFilterEdit(), newFilterRemove(),
		newFilterTest(), newFilterImport(), newFilterExport(), newFilterBackup(), newFilterApply())
	return cmd
}

// ruleFlags are the flags of rules, of which one kind may be given.
type ruleFlags struct {
	keep, drop []string
	file       string
}

func (o *ruleFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&o.keep, "keep", nil, "keep the items that one of these `rules` matches, and no others")
	f.StringArrayVar(&o.drop, "drop", nil, "drop the items that one of these `rules` matches")
	f.StringVar(&o.file, "rules", "", "`file` of rules, as text that may begin with keep or drop, or as JSON")
	cmd.MarkFlagsMutuallyExclusive("keep", "drop", "rules")
}

// set reads the rules.
func (o *ruleFlags) set() (*rules.Set, error) {
	if o.file != "" {
		text, err := os.ReadFile(o.file)
		if err != nil {
			return nil, err
		}
		set, err := rules.ParseSet(text)
		if err != nil {
			return nil, usage("%s: %w", o.file, err)
		}
		return set, nil
	}
	set, flag := &rules.Set{Mode: rules.Drop}, "--drop"
	if len(o.keep) > 0 {
		set.Mode, flag = rules.Keep, "--keep"
	}
	for _, text := range append(o.keep, o.drop...) {
		list, err := rules.ParseAll(text)
		if err == nil && len(list) == 0 {
			err = errors.New("it has no rule")
		}
		if err != nil {
			return nil, usage("%s: %w", flag, err)
		}
		set.Rules = append(set.Rules, list...)
	}
	return set, nil
}

// specFlags are what an owner says of a filter, as flags.
type specFlags struct {
	ruleFlags
	title, folder, sort, format string
	tags, dedup                 []string
	limit                       int
	report                      bool
}

func (o *specFlags) add(cmd *cobra.Command) {
	o.ruleFlags.add(cmd)
	f := cmd.Flags()
	f.StringVar(&o.title, "title", "", "what the filter is called")
	f.StringSliceVar(&o.tags, "tag", nil, "tags of the filter")
	f.StringVar(&o.folder, "folder", "", "folder of the filter, A/B for one within another")
	f.IntVar(&o.limit, "limit", 0, "`number` of items at most, 0 for all")
	f.StringVar(&o.sort, "sort", "source", "`order` of items: source or newest")
	f.StringSliceVar(&o.dedup, "dedup", nil,
		"leave out items that are there twice by `what`: guid, link, title")
	f.StringVar(&o.format, "format", "",
		"`format` to answer in: rss, atom or json (default that of the source)")
	f.BoolVar(&o.report, "report-failures", false, "let an item of the feed say when its source fails")
}

// input returns what the flags that were given say.
func (o *specFlags) input(f *pflag.FlagSet) (map[string]any, error) {
	in := make(map[string]any)
	for name, value := range map[string]any{"title": o.title, "tags": o.tags, "folder": o.folder,
		"limit": o.limit, "sort": o.sort, "dedup": o.dedup, "format": o.format, "report_failures": o.report} {
		flag := strings.ReplaceAll(name, "_", "-")
		if f.Changed(flag) || name == "tags" && f.Changed("tag") {
			in[name] = value
		}
	}
	if f.Changed("keep") || f.Changed("drop") || f.Changed("rules") {
		set, err := o.set()
		if err != nil {
			return nil, err
		}
		in["mode"], in["rules"] = set.Mode, set.Rules
	}
	return in, nil
}

// writeFilter writes a filter for people.
func writeFilter(w io.Writer, f filter.Shown) {
	fmt.Fprintln(w, strings.TrimSpace(f.ID.String()+"  "+f.Title))
	fmt.Fprintf(w, "  path    %s\n", f.Path)
	for _, u := range f.URLs {
		fmt.Fprintf(w, "  source  %s\n", u)
	}
	for i, rule := range f.Rules {
		matched := ""
		if i < len(f.Matches) && f.Matches[i].Items > 0 {
			matched = fmt.Sprintf("  (matches %d now)", f.Matches[i].Items)
		}
		fmt.Fprintf(w, "  %-6s  %d: %s%s\n", f.Mode, i+1, rule, matched)
	}
	for _, s := range f.Source {
		if s.Failures > 0 {
			fmt.Fprintf(w, "  failing %s: %s (%d times)\n", s.URL, s.Error, s.Failures)
		}
	}
	for _, n := range f.Notes {
		fmt.Fprintf(w, "  note    rule %d: %s\n", n.Rule, n.Text)
	}
}

// asks completes a command that asks a server, with a client, the arguments, and what its flags say of a
// filter if it has a spec, which is looked at before anything is opened. With shows it has --json.
func asks(cmd *cobra.Command, shows bool, spec *specFlags,
	run func(c *adminClient, cmd *cobra.Command, in map[string]any, args []string) error) *cobra.Command {
	var c adminClient
	c.flags(cmd)
	if shows {
		c.asJSON(cmd.Flags())
	}
	if spec != nil {
		spec.add(cmd)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		var in map[string]any
		if spec != nil {
			if in, err = spec.input(cmd.Flags()); err != nil {
				return err
			}
		}
		var service filter.Flags
		service.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
		return c.with(cmd.Context(), &service, func() error { return run(&c, cmd, in, args) })
	}
	return cmd
}

func newFilterAdd() *cobra.Command {
	return asks(&cobra.Command{
		Use:   "add URL...",
		Short: "Add a filter of one feed, or of several as one",
		Example: `  weir filter add https://example.org/rss --drop 'title contains "advert"'
  weir filter add https://a.example/rss https://b.example/atom --sort newest --limit 50 --title Both`,
		Args: takes(1, many, "the URL of a feed, or of a page that links to one, or several"),
	}, true, new(specFlags), func(c *adminClient, cmd *cobra.Command, in map[string]any,
		urls []string) error {
		for i := range urls {
			var err error
			if urls[i], err = c.discover(cmd, urls[i]); err != nil {
				return err
			}
		}
		in["urls"] = urls
		return c.show(cmd, "POST", "/admin/filters", in)
	})
}

// discover returns the URL of a feed for that of a page that links to one, and others as they are. What a
// running server cannot read now may be added all the same; one that is stopped is not asked.
func (c *adminClient) discover(cmd *cobra.Command, url string) (string, error) {
	if c.data != "" {
		return url, nil
	}
	var found filter.Discovery
	err := c.get(cmd.Context(), "POST", "/admin/filters/discover", map[string]string{"url": url}, &found)
	var refused *refusal
	if errors.As(err, &refused) && (refused.Status == http.StatusBadGateway ||
		refused.Status == http.StatusGatewayTimeout) {
		cmd.PrintErrf("%s: %s; it is added all the same\n", url, refused.Detail)
		return url, nil
	}
	if err != nil || !found.Page {
		return url, err
	}
	feeds := slices.DeleteFunc(found.Feeds, func(f filter.Found) bool { return f.Icon })
	switch len(feeds) {
	case 0:
		return "", fmt.Errorf("%s is a page that links to no feed: give the URL of the feed itself", url)
	case 1:
		cmd.PrintErrf("%s is a page; its feed is %s\n", url, feeds[0].URL)
		return feeds[0].URL, nil
	}
	var list strings.Builder
	for _, f := range feeds {
		fmt.Fprintf(&list, "\n  %s  %s", f.URL, f.Title)
	}
	return "", fmt.Errorf("%s is a page that links to several feeds, of which one is to be given:%s", url,
		strings.TrimRight(list.String(), " "))
}

func newFilterList() *cobra.Command {
	var tag, folder, search string
	var failing bool
	cmd := &cobra.Command{Use: "list", Short: "List filters", Example: `  weir filter list --folder News
  weir filter list --failing --json | jq -r '.[].id'`}
	cmd.Flags().StringVar(&tag, "tag", "", "only those with this tag")
	cmd.Flags().StringVar(&folder, "folder", "", "only those in this folder or one within it")
	cmd.Flags().StringVar(&search, "search", "", "only those with these `words` in title, URL, folder or "+
		"tags")
	cmd.Flags().BoolVar(&failing, "failing", false, "only those of which a source cannot be fetched")
	return asks(cmd, true, nil, func(c *adminClient, cmd *cobra.Command, _ map[string]any, _ []string) error {
		query := url.Values{"tag": {tag}, "folder": {folder}, "q": {search}}
		if failing {
			query.Set("state", "failing")
		}
		all := []filter.Shown{}
		for more := true; more; {
			var page struct {
				Filters []filter.Shown
				After   string
			}
			if err := c.get(cmd.Context(), "GET", "/admin/filters?"+query.Encode(), nil, &page); err != nil {
				return err
			}
			all = append(all, page.Filters...)
			query.Set("after", page.After)
			more = page.After != ""
		}
		if c.json {
			return printJSON(cmd.OutOrStdout(), all)
		}
		table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "ID\tTITLE\tFOLDER\tTAGS\tSOURCES")
		for _, f := range all {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", f.ID, cmp.Or(f.Title, "-"), cmp.Or(f.Folder, "-"),
				cmp.Or(strings.Join(f.Tags, ","), "-"), strings.Join(f.URLs, " "))
		}
		return table.Flush()
	})
}

// filterPath is the path of a filter.
func filterPath(id string) string { return "/admin/filters/" + url.PathEscape(id) }

// show makes a request for one filter, and prints the filter as it is then.
func (c *adminClient) show(cmd *cobra.Command, method, path string, in any) error {
	var f filter.Shown
	return c.print(cmd, method, path, in, &f, func(w io.Writer) { writeFilter(w, f) })
}

func newFilterShow() *cobra.Command {
	return asks(&cobra.Command{Use: "show ID",
		Short: "Show a filter, how its sources are, and rules that match nothing",
		Args:  exactly(1, "the id of a filter"),
	}, true, nil, func(c *adminClient, cmd *cobra.Command, _ map[string]any, args []string) error {
		return c.show(cmd, "GET", filterPath(args[0]), nil)
	})
}

func newFilterEdit() *cobra.Command {
	var urls []string
	cmd := &cobra.Command{Use: "edit ID", Short: "Change a filter; what no flag names stays",
		Args:    exactly(1, "the id of a filter"),
		Example: `  weir filter edit 4f0Jc1mJ3k8sYvEXAMPLEw --drop 'title contains "advert"' --limit 20`}
	cmd.Flags().StringArrayVar(&urls, "url", nil, "URLs of the sources, in the place of those that it has")
	return asks(cmd, true, new(specFlags), func(c *adminClient, cmd *cobra.Command, in map[string]any,
		args []string) error {
		if len(urls) > 0 {
			in["urls"] = urls
		}
		return c.show(cmd, "PATCH", filterPath(args[0]), in)
	})
}

func newFilterRemove() *cobra.Command {
	return asks(&cobra.Command{Use: "rm ID...", Short: "Remove filters",
		Args: takes(1, many, "the id of a filter, or several"),
	}, false, nil, func(c *adminClient, cmd *cobra.Command, _ map[string]any, ids []string) error {
		for _, id := range ids {
			if _, err := c.ask(cmd.Context(), "DELETE", filterPath(id), nil); err != nil {
				return fmt.Errorf("%s: %w", id, err)
			}
		}
		return nil
	})
}

func newFilterTest() *cobra.Command {
	return asks(&cobra.Command{
		Use:     "test URL...",
		Short:   "Show what a filter would keep and drop now, and by which rule; nothing is stored",
		Example: `  weir filter test https://example.org/rss --drop 'title contains "advert"'`,
		Args:    takes(1, many, "the URL of a feed, or several"),
	}, true, new(specFlags), func(c *adminClient, cmd *cobra.Command, in map[string]any,
		urls []string) error {
		in["urls"] = urls
		var p filter.Preview
		show := func(w io.Writer) { writePreview(w, p) }
		return c.print(cmd, "POST", "/admin/filters/preview", in, &p, show)
	})
}

// writePreview writes for people what a filter would make of its sources.
func writePreview(w io.Writer, p filter.Preview) {
	for _, it := range p.Items {
		verdict, why := "drop", cmp.Or(it.Reason, it.Rule)
		if it.Kept {
			verdict = "keep"
		}
		if why != "" {
			why = "  (" + why + ")"
		}
		fmt.Fprintf(w, "%s  %s%s\n", verdict, it.Title, why)
	}
	for _, found := range p.Feeds {
		if !found.Icon {
			fmt.Fprintf(w, "the page links to %s  %s\n", found.URL, found.Title)
		}
	}
	for _, n := range p.Notes {
		fmt.Fprintf(w, "note: rule %d: %s\n", n.Rule, n.Text)
	}
	for _, d := range p.Damage {
		fmt.Fprintf(w, "mended: %s\n", d)
	}
}

func newFilterImport() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{Use: "import FILE",
		Short: "Add a filter for each feed of an OPML file that can be one and is not there yet",
		Args:  exactly(1, "the OPML file, or - for standard input")}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would be added, and what not")
	return asks(cmd, true, nil, func(c *adminClient, cmd *cobra.Command, _ map[string]any,
		args []string) error {
		text, err := readFile(cmd, args[0], math.MaxInt64)
		if err != nil {
			return err
		}
		in := map[string]any{"opml": string(text), "dry_run": dry}
		var answer filter.Imported
		return c.print(cmd, "POST", "/admin/filters/opml", in, &answer, func(w io.Writer) {
			for _, r := range answer.Reasons {
				fmt.Fprintf(w, "skipped %s  %s: %s\n", r.URL, r.Title, r.Reason)
			}
			verb := "added"
			if dry {
				verb = "would be added"
			}
			fmt.Fprintf(w, "%d filters %s\n", answer.Added, verb)
		})
	})
}

// readFile reads a file up to a number of bytes, or standard input where it is -.
func readFile(cmd *cobra.Command, path string, most int64) ([]byte, error) {
	in := cmd.InOrStdin()
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, most))
}

func newFilterExport() *cobra.Command {
	return asks(&cobra.Command{Use: "export", Short: "Write all filters to standard output, as OPML"}, false,
		nil, func(c *adminClient, cmd *cobra.Command, _ map[string]any, _ []string) error {
			text, err := c.ask(cmd.Context(), "GET", "/admin/filters/opml", nil)
			if err == nil {
				_, err = cmd.OutOrStdout().Write(text)
			}
			return err
		})
}

func newFilterBackup() *cobra.Command {
	return asks(&cobra.Command{Use: "backup FILE",
		Short: "Copy the database of all filters, while it is in use",
		Args:  exactly(1, "the file to write"),
	}, false, nil, func(c *adminClient, cmd *cobra.Command, _ map[string]any, args []string) error {
		text, err := c.ask(cmd.Context(), "GET", "/admin/filters/backup", nil)
		if err != nil {
			return err
		}
		return disk.WriteFileAtomic(args[0], text, 0o600)
	})
}
