package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"weir/internal/config"
	"weir/internal/disk"
	"weir/internal/feed/snapshot"

	"github.com/spf13/cobra"
)

func newInspect() *cobra.Command {
	var user, item, segment string
	var asJSON, verify bool
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Print what is in a snapshot of feeds or a file of arms, or check it",
		Long: `Print the header and the statistics of a snapshot of feeds, or one user's list, or check the
whole of it. The header and the index are checked in any case.

Of a file of arms, print statistics, or the posterior of an item, for a segment or a user if one
is named, or the segment of a user. The whole of it is checked in any case.`,
		Example: `  weir inspect feeds.weir
  weir inspect --user 17 --json feeds.weir
  weir inspect --verify feeds.weir
  weir inspect --item shoes --segment summer arms.weir`,
		Args: exactly(1, "one file"),
		RunE: interruptible(func(cmd *cobra.Command, args []string) (err error) {
			byUser := cmd.Flags().Changed("user")
			if holdsArms(args[0]) {
				return inspectArms(cmd, args[0], armQuery{item: item, segment: segment, user: user,
					byItem: cmd.Flags().Changed("item"), bySegment: cmd.Flags().Changed("segment"),
					byUser: byUser, asJSON: asJSON, verify: verify})
			}
			for _, flag := range []string{"item", "segment"} {
				if cmd.Flags().Changed(flag) {
					return usage("--%s is for files of arms, and %s is none", flag, args[0])
				}
			}
			if verify && (byUser || asJSON) {
				return usage("--verify goes with neither --user nor --json")
			}
			s, err := snapshot.Open(args[0])
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			out := cmd.OutOrStdout()
			if verify {
				took, err := verified(cmd, s.Stats().Bytes, s.Verify)
				if err != nil {
					return err
				}
				return printVerified(out, args[0], s.Stats().Bytes, took)
			}
			// The file is mapped: a reader sees a fault, not an error, when somebody cuts it off.
			return disk.Guard(func() error {
				if byUser {
					return printList(out, s, user, asJSON)
				}
				return printSnapshot(out, s, args[0], asJSON)
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&user, "user", "",
		"print the list of the user of this `id`, an item a line; of arms, the user's segment")
	f.StringVar(&item, "item", "", "of arms, print the posterior of the item of this `id`")
	f.StringVar(&segment, "segment", "", "of arms, with --item: that for the segment of this `name`")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVar(&verify, "verify", false, "check every checksum; exit 1 and name what is broken")
	return cmd
}

// verified has the whole of a file checked, under a progress bar, and returns how long that took.
func verified(cmd *cobra.Command, bytes int64, check func(context.Context, func(done, all int64)) error) (
	took time.Duration, err error) {
	bar := newBar("checking", "", bytes)
	start := time.Now()
	err = check(cmd.Context(), func(done, _ int64) { bar.Set64(done) })
	bar.Exit()
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted: not all was checked")
	}
	return time.Since(start), err
}

func printVerified(out io.Writer, path string, bytes int64, took time.Duration) error {
	_, err := fmt.Fprintf(out, "%s: %s, every checksum is right, in %.1f s\n", path, config.Size(bytes),
		took.Seconds())
	return err
}

// snapshotReport is what inspect --json prints of a snapshot.
type snapshotReport struct {
	Format   uint32    `json:"format"`
	Made     string    `json:"publication"`
	Bytes    int64     `json:"bytes"`
	Users    uint64    `json:"users"`
	UserKind string    `json:"user_kind"`
	Index    string    `json:"index"`
	Slots    uint64    `json:"slots"`
	Items    uint64    `json:"items"`
	ItemKind string    `json:"item_kind"`
	MaxItem  *uint64   `json:"max_item,omitempty"`
	Names    *uint64   `json:"names,omitempty"`
	ItemBits int       `json:"item_bits"`
	Shortest int       `json:"shortest"`
	Longest  int       `json:"longest"`
	Fallback []any     `json:"fallback"`
	Sections []section `json:"sections"`
}

type section struct {
	Name   string `json:"name"`
	Offset uint64 `json:"offset"`
	Bytes  uint64 `json:"bytes"`
}

func newSnapshotReport(s *snapshot.Snapshot) snapshotReport {
	st := s.Stats()
	r := snapshotReport{
		Format: snapshot.Format.Version, Made: s.Publication().String(), Bytes: st.Bytes,
		Users: st.Users, UserKind: s.Users().String(), Index: "hashed", Slots: s.Slots(),
		Items: st.Items, ItemKind: s.Items().String(), ItemBits: st.ItemBits,
		Shortest: st.Shortest, Longest: st.Longest,
		Fallback: itemsOf(s, s.Fallback()),
	}
	if s.Dense() {
		r.Index = "dense"
	}
	if s.Items() == snapshot.String {
		r.Names = &st.Names
	} else {
		r.MaxItem = &st.MaxItem
	}
	for _, p := range s.Sections() {
		r.Sections = append(r.Sections, section{p.Name, p.Offset, p.Length})
	}
	return r
}

// firstOf lists the first few, after a colon.
func firstOf[T any](all []T) (list string) {
	const most = 5
	for i, one := range all[:min(len(all), most)] {
		list += fmt.Sprint([...]string{": ", ", "}[min(i, 1)], one)
	}
	if len(all) > most {
		list += ", ..."
	}
	return list
}

func printSnapshot(out io.Writer, s *snapshot.Snapshot, path string, asJSON bool) error {
	r := newSnapshotReport(s)
	if asJSON {
		return printJSON(out, r)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\tsnapshot of format %d, %s\n", path, r.Format, config.Size(r.Bytes))
	fmt.Fprintf(w, "publication\t%s\n", r.Made)
	fmt.Fprintf(w, "users\t%d, ids are %ss, index %s, %d slots\n", r.Users, r.UserKind, r.Index, r.Slots)
	fmt.Fprintf(w, "items\t%d, ids are %ss", r.Items, r.ItemKind)
	if r.Names != nil {
		fmt.Fprintf(w, ", %d names", *r.Names)
	} else {
		fmt.Fprintf(w, " up to %d", *r.MaxItem)
	}
	fmt.Fprintf(w, ", %d bits an item\n", r.ItemBits)
	fmt.Fprintf(w, "lists\t%d to %d items\n", r.Shortest, r.Longest)
	fmt.Fprintf(w, "fallback\t%d items", len(r.Fallback))
	fmt.Fprint(w, firstOf(r.Fallback), "\n\nsection\toffset\tbytes\n")
	for _, p := range r.Sections {
		fmt.Fprintf(w, "%s\t%d\t%d\n", p.Name, p.Offset, p.Bytes)
	}
	return w.Flush()
}

func printList(out io.Writer, s *snapshot.Snapshot, user string, asJSON bool) error {
	rank, ok := s.FindString([]byte(user))
	var id any = user
	if s.Users() == snapshot.Number {
		number, err := strconv.ParseUint(user, 10, 64)
		if err != nil {
			return fmt.Errorf("--user %q: the users of this snapshot are numbers, 0 to 18446744073709551615",
				user)
		}
		rank, ok = s.FindNumber(number)
		id = number
	}
	var list snapshot.List
	if ok {
		var err error
		if list, err = s.List(rank); err != nil {
			return err
		}
	}
	if list.Tag() == 0 {
		return fmt.Errorf("user %s is not in the snapshot", user)
	}
	items := itemsOf(s, list.Append(nil, 0, list.Len()))
	if asJSON {
		return printJSON(out, struct {
			User  any    `json:"user"`
			Tag   string `json:"tag"`
			Items []any  `json:"items"`
		}{id, fmt.Sprintf("%012x", list.Tag()), items})
	}
	for _, item := range items {
		if _, err := fmt.Fprintln(out, item); err != nil {
			return err
		}
	}
	return nil
}

// itemsOf is items as people know them: numbers or names.
func itemsOf(s *snapshot.Snapshot, items []uint64) []any {
	known := make([]any, len(items))
	for i, item := range items {
		if s.Items() == snapshot.String {
			known[i] = s.Name(item)
		} else {
			known[i] = item
		}
	}
	return known
}

func printJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
