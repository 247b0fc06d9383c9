package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"weir/internal/bandit/arms"
	"weir/internal/config"
	"weir/internal/disk"

	"github.com/spf13/cobra"
)

// holdsArms reports whether a file begins as one of arms does.
func holdsArms(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false // whoever opens it next says why
	}
	defer f.Close()
	begin := make([]byte, len(arms.Format.Magic))
	_, err = io.ReadFull(f, begin)
	return err == nil && string(begin) == arms.Format.Magic
}

// armQuery is what inspect is asked of a file of arms.
type armQuery struct {
	item, segment, user       string
	byItem, bySegment, byUser bool
	asJSON, verify            bool
}

func inspectArms(cmd *cobra.Command, path string, q armQuery) error {
	switch {
	case q.verify && (q.byItem || q.bySegment || q.byUser || q.asJSON):
		return usage("--verify goes with no other flag")
	case q.bySegment && !q.byItem:
		return usage("--segment goes with --item, whose arm for the segment is printed")
	case q.bySegment && q.byUser:
		return usage("--segment and --user: an arm is for one of them, name only one")
	}
	f, err := arms.Open(path)
	if err != nil {
		return err
	}
	// Looking something up in a damaged file might not end.
	took, err := verified(cmd, f.Stats().Bytes, f.Load)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	out := cmd.OutOrStdout()
	if q.verify {
		return printVerified(out, path, f.Stats().Bytes, took)
	}
	return disk.Guard(func() error {
		switch {
		case q.byItem:
			return printArm(out, f, q)
		case q.byUser:
			return printSegment(out, f, q)
		default:
			return printArms(out, f, path, q.asJSON)
		}
	})
}

func printArms(out io.Writer, f *arms.File, path string, asJSON bool) error {
	s := f.Stats()
	var segments []string
	for _, segment := range f.Segments() {
		segments = append(segments, segment.Name)
	}
	if asJSON {
		return printJSON(out, struct {
			Format      uint32   `json:"format"`
			Bytes       int64    `json:"bytes"`
			Arms        uint64   `json:"arms"`
			ItemArms    uint64   `json:"item_arms"`
			SegmentArms uint64   `json:"segment_arms"`
			UserArms    uint64   `json:"user_arms"`
			Users       uint64   `json:"users"`
			Segments    []string `json:"segments"`
		}{arms.Format.Version, s.Bytes, s.Arms, s.Arms - s.SegmentArms - s.UserArms, s.SegmentArms,
			s.UserArms, s.Users, segments})
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\tarms of format %d, %s\n", path, arms.Format.Version, config.Size(s.Bytes))
	fmt.Fprintf(w, "arms\t%d: %d of items, %d of segments, %d of users\n", s.Arms,
		s.Arms-s.SegmentArms-s.UserArms, s.SegmentArms, s.UserArms)
	fmt.Fprintf(w, "users\t%d with a segment\n", s.Users)
	fmt.Fprintf(w, "segments\t%d%s\n", s.Segments, firstOf(segments))
	return w.Flush()
}

func printArm(out io.Writer, f *arms.File, q armQuery) error {
	k, what := arms.KeyOf([]byte(q.item)), "item "+q.item
	switch {
	case q.bySegment:
		k, what = arms.SegmentScope(arms.KeyOf([]byte(q.segment))).Key(k), what+" for segment "+q.segment
	case q.byUser:
		k, what = arms.UserScope(arms.KeyOf([]byte(q.user))).Key(k), what+" for user "+q.user
	}
	alpha, beta, ok := f.Find(k)
	if !ok {
		return fmt.Errorf("there is no arm of %s", what)
	}
	if q.asJSON {
		return printJSON(out, map[string]float64{"alpha": alpha, "beta": beta})
	}
	_, err := fmt.Fprintf(out, "alpha %v, beta %v\n", alpha, beta)
	return err
}

func printSegment(out io.Writer, f *arms.File, q armQuery) error {
	segment, ok := f.Segment(arms.KeyOf([]byte(q.user)))
	if !ok {
		return fmt.Errorf("user %s has no segment", q.user)
	}
	if q.asJSON {
		return printJSON(out, map[string]string{"segment": segment.Name})
	}
	_, err := fmt.Fprintf(out, "segment %s\n", segment.Name)
	return err
}
