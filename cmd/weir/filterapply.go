package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"weir/internal/config"
	"weir/internal/filter/rules"
	"weir/internal/filter/selection"
	"weir/internal/filter/syndication"

	"github.com/spf13/cobra"
)

// mostFeed is how many bytes of a feed are read.
const mostFeed = 32 << 20

// filterApply is what weir filter apply does.
type filterApply struct {
	set         *rules.Set
	as          *syndication.Format // nil for that of the first feed
	contentType string
	selection   selection.Options
	verbose     bool
}

func newFilterApply() *cobra.Command {
	var apply filterApply
	var given ruleFlags
	var as, sort, dedup string
	cmd := &cobra.Command{
		Use:   "apply [--keep RULES | --drop RULES | --rules FILE] FILE...",
		Short: "Filter a feed that is in a file",
		Long: `Filter a feed that is in a file, or - for standard input: RSS, RDF, Atom or JSON Feed. The
feed without the items that rules drop goes to standard output, made of the very bytes of the file.
Several files become one feed, in the format of the first.

A rule is such as 'title contains "go" and not age > 30d'; docs/filtering.md has them all. What may be wrong
with a rule is said on standard error, and with -v also which items were dropped, and by which rule.`,
		Example: `  weir filter apply --drop 'title contains words "sponsored"' feed.xml
  curl -s https://go.dev/blog/feed.atom | weir filter apply --keep 'age < 52w' --as json -
  weir filter apply -v --rules rules.txt --sort newest --limit 20 news.xml blog.xml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, files []string) (err error) {
			if len(files) == 0 {
				return usage("say which file holds the feed, or - for standard input")
			}
			if err := apply.selection.Sort.UnmarshalText([]byte(sort)); err != nil {
				return usage("--sort: %w", err)
			}
			if err := apply.selection.Dedup.UnmarshalText([]byte(dedup)); err != nil {
				return usage("--dedup: %w", err)
			}
			if apply.selection.Limit < 0 {
				return usage("--limit %d: expected a number of items, or 0 for all", apply.selection.Limit)
			}
			if format, ok := map[string]syndication.Format{"rss": syndication.RSS, "atom": syndication.Atom,
				"json": syndication.JSON}[as]; ok {
				apply.as = &format
			}
			if apply.set, err = given.set(); err != nil {
				return err
			}
			return apply.run(cmd, files)
		},
	}
	f := cmd.Flags()
	given.add(cmd)
	config.Choice(f, &as, "as", "", "format to write: rss, atom or json (default that of the file)",
		"rss", "atom", "json")
	f.StringVar(&apply.contentType, "content-type", "",
		"the `type` the feed was served with, of which the charset counts")
	config.Choice(f, &sort, "sort", "source", "order of items: source or newest", "source", "newest")
	f.StringVar(&dedup, "dedup", "",
		"leave out items that are there twice by `what`: guid, link, title, or several with commas")
	f.IntVar(&apply.selection.Limit, "limit", 0, "`number` of items at most, 0 for all")
	f.BoolVarP(&apply.verbose, "verbose", "v", false, "tell what is dropped, and why")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("dedup",
		cobra.FixedCompletions([]string{"guid", "link", "title"}, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

func (a *filterApply) run(cmd *cobra.Command, files []string) error {
	told := cmd.ErrOrStderr()
	for _, p := range a.set.Problems() {
		fmt.Fprintf(told, "weir: rule %d: %s\n", p.Rule+1, p)
	}
	now := time.Now()
	var first *syndication.Feed
	var items []syndication.Ref
	for i, file := range files {
		f, err := a.read(cmd, file)
		if err != nil {
			return err
		}
		for _, damage := range f.Damage {
			fmt.Fprintf(told, "weir: %s is damaged: %s\n", file, damage)
		}
		d := a.set.Decide(f, now)
		items = f.Refs(items, d.Keep)
		if i == 0 {
			first = f
		} else {
			a.selection.Sort = selection.Newest
		}
		if a.verbose {
			a.explain(told, f, d)
		}
	}
	items = selection.Select(items, a.selection)
	var pieces [][]byte
	switch {
	case a.as != nil && *a.as != first.Format:
		pieces = [][]byte{first.Convert(nil, *a.as, items, "")}
	case a.selection.Sort == selection.AsFound:
		keep := syndication.NewBits(len(first.Items))
		for _, r := range items {
			keep.Set(r.Item)
		}
		pieces = first.Pieces(nil, keep, "")
	default:
		pieces, _ = first.Arrange(nil, items, "")
	}
	for _, piece := range pieces {
		if _, err := cmd.OutOrStdout().Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// read reads a feed from a file or from standard input.
func (a *filterApply) read(cmd *cobra.Command, file string) (*syndication.Feed, error) {
	source, err := readFile(cmd, file, mostFeed+1)
	var f *syndication.Feed
	if err == nil {
		f, err = syndication.Parse(source, syndication.Options{ContentType: a.contentType,
			MaxBytes: mostFeed})
	}
	if err != nil {
		if file == "-" {
			file = "standard input"
		}
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return f, nil
}

// explain tells which items of a feed are dropped, and by which rule.
func (a *filterApply) explain(w io.Writer, f *syndication.Feed, d rules.Decision) {
	dropped := 0
	for i := range f.Items {
		if d.Keep.Has(i) {
			continue
		}
		dropped++
		why := "no rule keeps it"
		if d.By[i] != nil {
			why = d.By[i].String()
		}
		fmt.Fprintf(w, "dropped %s: %s\n", itemName(&f.Items[i]), why)
	}
	for i, n := range d.Matched {
		if n == 0 {
			fmt.Fprintf(w, "matches none of the items: %s\n", a.set.Rules[i])
		}
	}
	fmt.Fprintf(w, "%d of %s dropped\n", dropped, counted(int64(len(f.Items)), "item"))
}

// itemName names an item by its title, or by what else it has.
func itemName(it *syndication.Item) string {
	if title := strings.Join(strings.Fields(it.Title), " "); title != "" {
		return fmt.Sprintf("%q", title)
	}
	return fmt.Sprintf("%q", it.Key())
}
