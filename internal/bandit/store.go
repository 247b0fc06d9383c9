package bandit

import (
	"cmp"
	"context"
	"errors"

	"weir/internal/bandit/arms"
	"weir/internal/disk"
)

// storeError is a feature store that did not answer.
type storeError struct{ error }

func (e *storeError) Unwrap() error { return e.error }

// features fills sc with the posteriors of a query's items: from the feature store, where there is one,
// with what events have taught above them.
func (b *Bandit) features(ctx context.Context, sc *scratch, q *query) (degraded bool, err error) {
	if b.store == nil {
		if !b.lookUp(sc, q.user, q.segment, q.keys, nil) {
			return false, errLoading
		}
		return false, nil
	}
	return b.fetch(ctx, sc, q)
}

// fetch is features where there is a store: it is asked for the user and for the items at once.
func (b *Bandit) fetch(ctx context.Context, sc *scratch, q *query) (degraded bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	segment := q.segment
	var found [1]string
	asked := make(chan error, 1)
	oldSegment := false
	if segment == nil && q.user != nil {
		user := []string{string(q.user)}
		disk.Go(func() (err error) {
			if oldSegment, err = b.store.Segments(ctx, user, found[:]); err != nil {
				found[0] = ""
				if !b.live.Load().PriorOnStoreError {
					cancel() // there is no answer without it
				}
			}
			return err
		}, func(err error) { asked <- err })
	} else {
		asked <- nil
	}
	ids := make([]string, len(q.items))
	for i := range q.items {
		ids[i] = string(q.items[i].text)
	}
	sc.fetched = append(sc.fetched[:0], make([]storeArm, len(ids))...)
	oldArms, errArms := b.store.Arms(ctx, ids, sc.fetched)
	if errArms != nil {
		clear(sc.fetched)
		if !b.live.Load().PriorOnStoreError {
			cancel()
		}
	}
	errSegment := <-asked
	if !b.live.Load().PriorOnStoreError {
		// Of two errors one may be the cancelling of the other.
		if errSegment != nil && !errors.Is(errSegment, context.Canceled) {
			return false, &storeError{errSegment}
		}
		if err := cmp.Or(errArms, errSegment); err != nil {
			return false, &storeError{err}
		}
	}
	if found[0] != "" {
		segment = []byte(found[0])
	}
	if !b.lookUp(sc, q.user, segment, q.keys, sc.fetched) {
		return false, errLoading
	}
	return oldArms || oldSegment || errArms != nil || errSegment != nil, nil
}

// segments returns the segments of the events' users as the store knows them, nil without a store. Without
// its answer an event still counts for its item.
func (b *Bandit) segments(ctx context.Context, list []event) ([]string, error) {
	if b.store == nil || b.learner.Len(arms.Segmented) == 0 && b.cfg.Learn < arms.Segmented {
		return nil, nil
	}
	var users []string
	var at []int
	for i := range list {
		if list[i].segment == nil && list[i].user != nil {
			users = append(users, string(list[i].user))
			at = append(at, i)
		}
	}
	found := make([]string, len(users))
	if _, err := b.store.Segments(ctx, users, found); err != nil {
		if !b.live.Load().PriorOnStoreError {
			return nil, &storeError{err}
		}
		clear(found)
	}
	segments := make([]string, len(list))
	for i, n := range at {
		segments[n] = found[i]
	}
	return segments, nil
}
