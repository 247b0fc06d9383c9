package filter

import (
	"context"
	"errors"
	"slices"
	"sync"

	"weir/internal/cluster"
	"weir/internal/filter/shared"
	"weir/internal/filter/store"
)

// rows is where filters and settings are changed. When a method returns nil, the change is stored and serves
// on this node. Everything is read from the store.
type rows interface {
	// Add stores new filters.
	Add(ctx context.Context, filters ...store.Filter) error
	// Update replaces a filter if it is still the one that was read, and fails with store.ErrChanged or
	// store.ErrNotFound.
	Update(ctx context.Context, read, changed store.Filter) error
	// Delete removes a filter.
	Delete(ctx context.Context, read store.Filter) error
	// Set stores a setting.
	Set(ctx context.Context, name, value string) error
}

// local are the rows of a server by itself, which the store has.
type local struct {
	*Service
	writing sync.Mutex // so that what serves changes in the order of the store
}

func (l *local) Add(ctx context.Context, filters ...store.Filter) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.store.Add(ctx, filters...); err != nil {
		return err
	}
	for i := range filters {
		l.changed(nil, &filters[i])
	}
	return nil
}

func (l *local) Update(ctx context.Context, read, changed store.Filter) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.store.Update(ctx, read, changed.Spec, changed.Changed); err != nil {
		return err
	}
	l.changed(&read, &changed)
	return nil
}

func (l *local) Delete(ctx context.Context, read store.Filter) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.store.Delete(ctx, read.ID); err != nil {
		return err
	}
	l.changed(&read, nil)
	return nil
}

func (l *local) Set(ctx context.Context, name, value string) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.store.Set(ctx, name, value); err != nil {
		return err
	}
	return l.setGlobal(value)
}

// openRows opens what filters are changed in. A server by itself takes over what was a cluster's.
func (s *Service) openRows() (err error) {
	if s.cfg.Cluster != nil {
		s.common, err = s.openCommon(s.cfg.Cluster)
		return err
	}
	s.rows = &local{Service: s}
	position, err := s.store.Position(context.Background())
	if err != nil || position == "" {
		return err
	}
	return s.store.Disown(context.Background())
}

// changed takes up that the store has another filter than before; nil is none.
func (s *Service) changed(before, after *store.Filter) {
	if before != nil {
		s.labels.count(before.Spec, -1)
	}
	if after != nil {
		s.enter(*after)
		s.labels.count(after.Spec, 1)
	} else if before != nil {
		s.remove(before.ID)
	}
	if before != nil {
		s.forget(before.URLs)
	}
}

// setGlobal takes up the global rules as they are stored.
func (s *Service) setGlobal(text string) error {
	global, err := parseGlobal(text, s.items.Load())
	if err == nil {
		s.global.Store(global)
	}
	return err
}

// forget removes what is known of sources that no filter has any more.
func (s *Service) forget(urls []string) {
	urls = slices.DeleteFunc(slices.Clone(urls), func(url string) bool { return s.source(url) != nil })
	if len(urls) == 0 {
		return
	}
	if err := s.store.Forget(context.Background(), urls...); err != nil {
		s.log.Warn("what is known of sources without filters could not be removed", "error", err)
	}
}

// ofCluster says whether an error is that of a cluster which may do better later.
func ofCluster(err error) bool {
	return errors.Is(err, cluster.ErrUnavailable) || errors.Is(err, cluster.ErrUnreplicated) ||
		errors.Is(err, cluster.ErrUnknown) || errors.Is(err, shared.ErrLost)
}
