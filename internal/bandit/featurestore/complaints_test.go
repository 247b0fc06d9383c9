package featurestore

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestComplaintsAreCountedAllAndLoggedSome(t *testing.T) {
	var log bytes.Buffer
	bubble(t, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) },
		func(t *testing.T, s *Store, f *fakeStore) {
			// alpha is 1 more than the number.
			arms(t, s, "i-1", "i-2", "iNaN", "iInf", "i1")
			if n := s.metrics.invalid.Value(); n != 4 {
				t.Errorf("%d counted, want 4", n)
			}
			if n := strings.Count(log.String(), "cannot be used"); n != 1 ||
				!strings.Contains(log.String(), "i-1") {
				t.Errorf("%d lines in the log: %s", n, &log)
			}
			log.Reset()
			f.answer(down)
			for i := range 29 {
				s.Arms(context.Background(), []string{fmt.Sprint("x", i)}, make([]Arm, 1))
				time.Sleep(time.Second)
			}
			synctest.Wait()
			if n := strings.Count(log.String(), "connection refused"); n != 3 {
				t.Errorf("%d lines in 29 s, want 3: %s", n, &log)
			}
		})
}

func TestEachKindOfFailureIsLoggedAndItsEndOnce(t *testing.T) {
	var log bytes.Buffer
	bubble(t, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) },
		func(t *testing.T, s *Store, f *fakeStore) {
			ask := func() {
				s.Arms(context.Background(), []string{"i1"}, make([]Arm, 1))
				s.Segments(context.Background(), []string{"u1"}, make([]string, 1))
				synctest.Wait()
			}
			for _, broken := range []func(context.Context, []string) error{down, hang, func(context.Context, []string) error { return refused("it answered 500") }} {
				f.answer(broken)
				ask()
				time.Sleep(s.o.Retry + s.o.Timeout)
			}
			synctest.Wait()
			for _, say := range []string{"connection refused", "no answer within", "it answered 500"} {
				if n := strings.Count(log.String(), say); n != 1 {
					t.Errorf("%q is logged %d times: %s", say, n, &log)
				}
			}
			f.answer(nil)
			time.Sleep(s.o.Retry + s.o.Timeout)
			ask()
			// A failure that was not logged has no end that would be.
			f.answer(down)
			s.Arms(context.Background(), []string{"i2"}, make([]Arm, 1))
			f.answer(nil)
			time.Sleep(s.o.Retry + s.o.Timeout)
			synctest.Wait()
			if n := strings.Count(log.String(), "answers again"); n != 1 || s.Ready() != nil {
				t.Errorf("its end is logged %d times, ready %v: %s", n, s.Ready(), &log)
			}
		})
}

// What nobody has is no error to the store where the project, a view or a feature is misspelled, and
// everybody has the prior.
func TestAStoreThatKnowsNobodyIsWonderedAt(t *testing.T) {
	var log bytes.Buffer
	wondered := func(change func(*Options), test func(t *testing.T, s *Store, f *fakeStore, check func(warnings int, say string))) {
		log.Reset()
		bubble(t, func(o *Options) {
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			if change != nil {
				change(o)
			}
		}, func(t *testing.T, s *Store, f *fakeStore) {
			test(t, s, f, func(warnings int, say string) {
				t.Helper()
				if n := strings.Count(log.String(), say); n != warnings {
					t.Errorf("%d warnings with %s, want %d: %s", n, say, warnings, &log)
				}
			})
		})
	}
	wondered(nil, func(t *testing.T, s *Store, f *fakeStore, check func(int, string)) {
		arms(t, s, numbered("x", strangers-1)...)
		check(0, "WARN")
		arms(t, s, numbered("y", strangers)...)
		check(1, "WARN")
		check(1, `and the names of features are to be looked at" store=fake view=items entity=item_id features="[alpha beta]"`)
		time.Sleep(wonderEvery - time.Second)
		arms(t, s, "z")
		check(1, "WARN")
		time.Sleep(time.Second)
		arms(t, s, "z2")
		check(2, "WARN")
		if fetched, unknown := s.metrics.fetched["item"].Value(), s.metrics.unknown["item"].Value(); fetched != 2*strangers+1 || unknown != fetched {
			t.Errorf("%d fetched, %d unknown", fetched, unknown)
		}
	})
	wondered(nil, func(t *testing.T, s *Store, f *fakeStore, check func(int, string)) {
		arms(t, s, numbered("x", strangers-s.o.Chunk)...)
		arms(t, s, append(numbered("y", s.o.Chunk-1), "i1")...) // one is known, wherever it is in its chunk
		arms(t, s, numbered("z", strangers-s.o.Chunk)...)
		check(0, "WARN")
		arms(t, s, numbered("w", s.o.Chunk)...) // it may have known somebody once
		check(1, "WARN")
		if unknown := s.metrics.unknown["item"].Value(); unknown != 2*strangers-1 {
			t.Errorf("%d unknown", unknown)
		}
	})
	wondered(nil, func(t *testing.T, s *Store, f *fakeStore, check func(int, string)) {
		f.lacks = 1
		arms(t, s, numbered("i", strangers)...)
		check(1, "features=[beta]")
		if unknown := s.metrics.unknown["item"].Value(); unknown != strangers {
			t.Errorf("%d unknown", unknown)
		}
	})
	wondered(nil, func(t *testing.T, s *Store, f *fakeStore, check func(int, string)) {
		_, err := s.Segments(t.Context(), numbered("x", strangers), make([]string, strangers))
		must(t, err)
		check(1, "features=[segment]")
		if n := s.metrics.unknown["user"].Value(); n != strangers || s.metrics.unknown["item"].Value() != 0 {
			t.Errorf("%d unknown users", n)
		}
	})
}
