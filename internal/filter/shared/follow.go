package shared

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"weir/internal/cluster"
	"weir/internal/filter/store"
)

// CatchUp applies what has changed since the last time.
func (r *Rows) CatchUp(ctx context.Context) error { return r.reach(ctx, "") }

// reach is CatchUp where nothing need be read if a position was reached.
func (r *Rows) reach(ctx context.Context, position string) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if position != "" && !before(r.position, position) {
		return nil
	}
	defer func() {
		if err == nil {
			r.current.Store(time.Now().UnixNano())
			r.failed.Store(nil)
		} else if ctx.Err() == nil {
			r.failed.Store(&err)
		}
	}()
	for range maxReloads {
		if r.position != "" {
			again, err := r.follow(ctx)
			if !again || err != nil {
				return err
			}
			r.o.Log.Warn("this node's filters are not those of the engine, and are read anew")
		}
		if err := r.reload(ctx); err != nil || r.position == "" {
			return err
		}
	}
	again, err := r.follow(ctx)
	if again && err == nil {
		err = errors.New("the filters differ from the engine's also after they were read anew")
	}
	return err
}

// before compares positions; "" is before all.
func before(a, b string) bool {
	parse := func(id string) (ms, n uint64) {
		first, second, _ := strings.Cut(id, "-")
		ms, _ = strconv.ParseUint(first, 10, 64) //nolint:errcheck // "" is 0
		n, _ = strconv.ParseUint(second, 10, 64) //nolint:errcheck // "" is 0
		return ms, n
	}
	ams, an := parse(a)
	bms, bn := parse(b)
	return ams < bms || ams == bms && an < bn
}

// follow applies the log from the position on. again is true if all rows have to be read instead. The lock is
// held.
func (r *Rows) follow(ctx context.Context) (again bool, err error) {
	for {
		sum := ""
		if r.settled {
			sum = strconv.FormatUint(r.sum, 10)
		}
		reply, err := r.o.Client.Do(ctx, cluster.Command{Slot: r.slot, Args: Functions.Call("filter_changes",
			[]string{r.hash, r.log}, r.name, r.position, sum, strconv.Itoa(readAtOnce))})
		if err != nil {
			return false, fmt.Errorf("read changes of filters: %w", err)
		}
		verdict, entries, err := readChanges(reply)
		switch {
		case err != nil:
			return false, err
		case verdict == "lost":
			return false, ErrLost
		case verdict != "ok":
			return true, nil
		}
		for _, e := range entries {
			if err := r.apply(ctx, e.rows, e.position); err != nil {
				return false, err
			}
		}
		if len(entries) == 0 && r.settled {
			return false, nil
		}
		// All rows may have been read while they changed: only at the end of the log they are what it says.
		r.settled = len(entries) < readAtOnce
	}
}

// entry is one of the log.
type entry struct {
	position string
	rows     []store.Row
}

func readChanges(reply cluster.Reply) (verdict string, entries []entry, err error) {
	parts, err := reply.ToArray()
	if err == nil && len(parts) > 0 {
		verdict, err = parts[0].ToString()
	}
	if err == nil && len(parts) > 1 {
		entries, err = readEntries(parts[1])
	}
	if err != nil {
		err = fmt.Errorf("read changes of filters: what the engine answers is not understood: %w", err)
	}
	return verdict, entries, err
}

// readEntries reads what XRANGE answers.
func readEntries(reply cluster.Reply) (entries []entry, err error) {
	all, err := reply.ToArray()
	for _, one := range all {
		var e entry
		var fields []string
		parts, perr := one.ToArray()
		if perr != nil || len(parts) != 2 {
			return nil, errors.Join(perr, errors.New("an entry of a stream has a position and fields"))
		}
		if e.position, err = parts[0].ToString(); err == nil {
			fields, err = parts[1].AsStrSlice()
		}
		if err != nil {
			return nil, err
		}
		for i := 2; i+1 < len(fields); i += 2 { // the sum is first
			e.rows = append(e.rows, store.Row{Key: fields[i], Value: fields[i+1]})
		}
		entries = append(entries, e)
	}
	return entries, err
}

// apply writes rows, and the position that they come to, and tells of what has changed. The lock is held.
func (r *Rows) apply(ctx context.Context, rows []store.Row, position string) error {
	var ids []store.ID
	for _, row := range rows {
		if id, ok := store.ParseID(row.Key); ok {
			ids = append(ids, id)
		}
	}
	there, err := r.o.Store.RowsOf(ctx, ids)
	if err != nil {
		return err
	}
	now := make(map[string]store.Row, len(there))
	for _, row := range there {
		now[row.Key] = row
	}
	type step struct{ was, is store.Row }
	var steps []step
	var changed []store.Row
	sum := r.sum
	for _, row := range rows {
		if strings.HasPrefix(row.Key, told) {
			continue
		}
		was, ok := now[row.Key]
		if name, setting := row.Setting(); setting && !ok {
			if was.Value, err = r.o.Store.Setting(ctx, name); err != nil {
				return err
			}
		}
		was.Key = row.Key
		if now[row.Key] = row; was != row {
			sum = add(sum, mark(row)-mark(was))
			steps, changed = append(steps, step{was, row}), append(changed, row)
		}
	}
	whole := ""
	if position != "" {
		whole = r.name + " " + position
	}
	if err := r.o.Store.Apply(ctx, changed, whole); err != nil {
		return err
	}
	r.sum = sum
	if position != "" {
		r.position = position
	}
	r.applied.Add(int64(len(changed)))
	for _, s := range steps {
		if name, ok := s.is.Setting(); ok {
			r.o.Set(name, s.is.Value)
			continue
		}
		was, _ := s.was.Filter()  //nolint:errcheck // it was in the store
		after, _ := s.is.Filter() //nolint:errcheck // Apply has read it
		r.o.Changed(was, after)
	}
	for _, row := range rows {
		if url, ok := strings.CutPrefix(row.Key, told); ok {
			r.o.Fetched(url)
		}
	}
	return nil
}

// reload makes the store have what the engine has, and leaves the position as it is until that is done, so
// that a kill in between begins anew. The lock is held.
func (r *Rows) reload(ctx context.Context) error {
	name, last, err := r.head(ctx)
	if err != nil {
		return fmt.Errorf("read filters: %w", err)
	}
	if r.name != "" && name != r.name {
		return ErrLost
	}
	none := func([]store.Row) error { return nil }
	if r.position == "" {
		if r.sum != 0 { // nothing is changed before it is known that nothing is lost by that
			alone, err := r.scan(ctx, none)
			if err == nil && len(alone) > 0 {
				err = fmt.Errorf("%w (%d)", ErrForeign, len(alone))
			}
			if err != nil {
				return err
			}
		}
		if name == "" {
			return nil
		}
		r.name = name
		if err := r.apply(ctx, nil, "0-0"); err != nil { // the engine is the authority from here on
			r.name = ""
			return err
		}
	}
	r.reloaded.Add(1)
	r.settled = false
	alone, err := r.scan(ctx, func(rows []store.Row) error { return r.apply(ctx, rows, "") })
	if err != nil {
		return err
	}
	return r.apply(ctx, alone, last)
}

// head returns the name of the engine's rows, "" if there are none, and the end of the log.
func (r *Rows) head(ctx context.Context) (name, last string, err error) {
	reply, err := r.o.Client.Do(ctx, cluster.Command{Slot: r.slot, Args: []string{"HGET", r.hash, "@"}})
	if err != nil || reply.IsNil() {
		return "", "", err
	}
	if name, err = reply.ToString(); err != nil {
		return "", "", err
	}
	reply, err = r.o.Client.Do(ctx, cluster.Command{Slot: r.slot,
		Args: []string{"XREVRANGE", r.log, "+", "-", "COUNT", "1"}})
	if err != nil {
		return "", "", err
	}
	entries, err := readEntries(reply)
	if err == nil && len(entries) == 0 {
		err = ErrLost
	}
	if err != nil {
		return "", "", err
	}
	return name, entries[0].position, nil
}

// scan calls take for all rows of the engine, page by page, and returns the removal of those that only the
// store has. It counts the sum anew.
func (r *Rows) scan(ctx context.Context, take func([]store.Row) error) (alone []store.Row, err error) {
	there := make(map[string]bool)
	for cursor, more := "0", true; more; more = cursor != "0" {
		var rows []store.Row
		if cursor, rows, err = r.page(ctx, cursor); err != nil {
			return nil, fmt.Errorf("read filters: %w", err)
		}
		for _, row := range rows {
			there[row.Key] = true
		}
		if err := take(rows); err != nil {
			return nil, err
		}
	}
	r.sum = 0
	for row, err := range r.o.Store.Rows(ctx) {
		if err != nil {
			return nil, err
		}
		if r.sum = add(r.sum, mark(row)); !there[row.Key] {
			alone = append(alone, store.Row{Key: row.Key})
		}
	}
	return alone, nil
}

// page returns some of the engine's rows, and where the next ones are.
func (r *Rows) page(ctx context.Context, cursor string) (next string, rows []store.Row, err error) {
	reply, err := r.o.Client.Do(ctx, cluster.Command{Slot: r.slot,
		Args: []string{"HSCAN", r.hash, cursor, "COUNT", "500"}})
	if err != nil {
		return "", nil, err
	}
	parts, err := reply.ToArray()
	if err != nil || len(parts) != 2 {
		return "", nil, errors.Join(err, errors.New("HSCAN answers by a cursor and fields"))
	}
	if next, err = parts[0].ToString(); err != nil {
		return "", nil, err
	}
	fields, err := parts[1].AsStrSlice()
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] != "#" && fields[i] != "@" {
			rows = append(rows, store.Row{Key: fields[i], Value: fields[i+1]})
		}
	}
	return next, rows, err
}
