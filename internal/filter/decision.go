package filter

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"weir/internal/filter/pieces"
	"weir/internal/filter/rules"
	"weir/internal/filter/store"
	"weir/internal/filter/syndication"
)

// decision is which items stay in an answer, and its validators. It does not change.
type decision struct {
	basis    uint64 // of the source
	global   uint64 // of the global rules
	until    int64  // when the age of an item changes it, in Unix seconds; 0 is never
	content  uint64 // version of the content that keep is of
	keep     syndication.Bits
	native   view
	modified int64                       // in Unix seconds
	fields   string                      // header fields: validators, up to the hash in the ETag
	tail     atomic.Pointer[pieces.Tail] // in the filter's format; nil until it is needed
}

// holds says whether a decision is still the one.
func (d *decision) holds(basis, global uint64, now time.Time) bool {
	return d != nil && d.basis == basis && d.global == global && (d.until == 0 || now.Unix() < d.until)
}

// decided says whether f has a decision that is still the one.
func (s *Service) decided(f *filter, now time.Time) bool {
	return f.decision.Load().holds(f.source.basis(), s.global.Load().hash, now)
}

// decide makes the decision of a filter about the content that serves, which o then holds. src.making is
// held.
func (s *Service) decide(ctx context.Context, f *filter, o *opened, now time.Time) error {
	if f.source.parts != nil {
		return s.decideComposed(ctx, f, o, now)
	}
	if err := s.open(ctx, f.source, o); err != nil {
		return err
	}
	_, err := s.decideSome(ctx, f.source, *o, f, forReader, now)
	return err
}

// decisionsAtOnce are made of one feed that was read: the others of a source with more filters are when they
// are asked for, or when the next ones are.
const decisionsAtOnce = 100

// decideSome makes decisions that are missing about a feed: that of first, unless it is nil, and those of
// other filters of the source. It says whether some are still missing. src.making is held.
func (s *Service) decideSome(ctx context.Context, src *source, o opened, first *filter, when int,
	now time.Time) (more bool, err error) {
	missing := make(map[store.ID]*filter)
	var ids []store.ID
	add := func(f *filter) {
		if missing[f.id] == nil {
			missing[f.id] = f
			ids = append(ids, f.id)
		}
	}
	if first != nil {
		add(first)
	}
	s.mu.Lock()
	for _, f := range src.filters {
		if f.source == src && !s.decided(f, now) {
			if len(ids) == decisionsAtOnce {
				more = true
				break
			}
			add(f)
		}
	}
	s.mu.Unlock()
	global := s.global.Load()
	alike := make(map[string]rules.Decision) // by what decides: many filters have the same rules
	stored, err := s.store.Several(ctx, ids)
	if err != nil {
		return false, err
	}
	done := 0
	for i := range stored {
		f, spec := missing[stored[i].ID], &stored[i].Spec
		key := decidedBy(spec)
		verdict, ok := alike[key]
		if !ok {
			verdict, err = s.verdict(*spec, global, o.feed, now)
			if err != nil && f == first {
				return false, err
			} else if err != nil {
				continue // whoever asks for it is told
			}
			alike[key] = verdict
		}
		d := &decision{basis: o.version, content: o.version, global: global.hash, keep: verdict.Keep,
			until: seconds(verdict.Until)}
		d.complete(f, &stored[i], o)
		s.remember(src, &stored[i], verdict.Matched, len(o.feed.Items), now)
		s.made[when].Add(0, 1)
		done++
		delete(missing, f.id)
	}
	if first != nil && missing[first.id] != nil {
		return false, store.ErrNotFound
	}
	return more && done > 0, nil
}

// decidedBy returns what of a specification, with the global rules, decides which items stay.
func decidedBy(spec *store.Spec) string {
	return fmt.Sprintf("%s\n%d\n%q\n%q", spec.Mode, spec.Limit, spec.Dedup, spec.Rules)
}

// verdict decides about a feed by a specification.
func (s *Service) verdict(spec store.Spec, global *globalRules, feed *syndication.Feed, now time.Time) (
	verdict rules.Decision, err error) {
	defer s.compute()()
	set, err := parseSet(spec, global)
	if err != nil {
		return verdict, err
	}
	o, err := options(spec)
	if err != nil {
		return verdict, err
	}
	verdict = set.Decide(feed, now)
	verdict.Keep = choose(feed, verdict.Keep, o)
	return verdict, nil
}

// decideComposed is decide for a filter whose answer is put together anew.
func (s *Service) decideComposed(ctx context.Context, f *filter, o *opened, now time.Time) error {
	stored, err := s.store.Get(ctx, f.id)
	if err != nil {
		return err
	}
	global := s.global.Load()
	set, err := parseSet(stored.Spec, global)
	if err != nil {
		return err
	}
	basis := f.source.basis() // what changes while it is put together is taken up by the next request
	o.release()
	var until time.Time
	if *o, until, err = s.compose(ctx, f, &stored, set, now); err != nil {
		return err
	}
	d := &decision{basis: basis, content: o.version, global: global.hash, until: seconds(until),
		keep: everything(len(o.feed.Items))}
	d.complete(f, &stored, *o)
	s.made[forReader].Add(0, 1)
	return nil
}

// complete adds the validators to a decision, which then is that of f.
func (d *decision) complete(f *filter, stored *store.Filter, o opened) {
	d.native = view(o.feed.Format)
	modified := o.modified
	if stored.Changed.After(modified) {
		modified = stored.Changed
	}
	d.modified = modified.Unix()
	d.sign(modified)
	f.decision.Store(d)
}

// warm makes decisions after a start, of the sources first that were fetched last, so that readers find
// them. No more than that is kept: many readers have what there is, and are told so.
func (s *Service) warm(ctx context.Context) {
	list := s.all()
	slices.SortFunc(list, func(a, b *source) int {
		return b.state.Load().Succeeded.Compare(a.state.Load().Succeeded)
	})
	for _, src := range list {
		if ctx.Err() != nil {
			return
		}
		s.warmSource(ctx, src)
	}
}

func (s *Service) warmSource(ctx context.Context, src *source) {
	src.making.Lock()
	defer src.making.Unlock()
	var o opened
	defer o.release()
	// What fails now is tried again, and told, when it is asked for.
	if s.open(ctx, src, &o) == nil {
		s.decideSome(ctx, src, o, nil, atStart, time.Now()) //nolint:errcheck // as above
	}
}

func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// validators are the header fields that say which version an answer is of.
const validators = "Vary: Accept-Encoding\r\nLast-Modified: " + http.TimeFormat + "\r\nETag: \"0123456789abcdef"

// sign makes the validators: the ETag is of the content, and of which items stay.
func (d *decision) sign(modified time.Time) {
	text := binary.LittleEndian.AppendUint64(make([]byte, 0, 64), d.content)
	for _, word := range d.keep {
		text = binary.LittleEndian.AppendUint64(text, word)
	}
	d.fields = fmt.Sprintf("Vary: Accept-Encoding\r\nLast-Modified: %s\r\nETag: \"%016x",
		modified.UTC().Format(http.TimeFormat), xxh3.Hash(text))
}

// validators appends the header fields of an answer, and returns the ETag in them. Each format and encoding
// has its own.
func (d *decision) validators(dst []byte, format view, zipped bool) (fields, tag []byte) {
	dst = append(dst, d.fields...)
	begin := len(dst) - len(`"0123456789abcdef`)
	dst = append(dst, '0'+byte(format))
	if zipped {
		dst = append(dst, 'z')
	}
	dst = append(dst, '"')
	end := len(dst)
	return append(dst, "\r\n"...), dst[begin:end]
}

// self returns the URL of an answer as its document has it in the place of the source's own; nil leaves that.
// It is appended to dst.
func (s *Service) self(dst []byte, id store.ID, format view, doc *document) []byte {
	if s.cfg.Base == "" || !doc.linked {
		return nil
	}
	dst = append(append(append(dst, s.cfg.Base...), s.cfg.Path...), '/')
	dst = append(dst, id.String()...)
	if format != native {
		dst = append(append(dst, '.'), syndication.Format(format).String()...)
	}
	return dst
}
