package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/bandit"
	"weir/internal/bandit/learning"
	"weir/internal/cluster"
	"weir/internal/cluster/members"
	"weir/internal/cluster/positions"
	"weir/internal/config"
	"weir/internal/disk"
	"weir/internal/feed"
	"weir/internal/feed/snapshot"
	"weir/internal/filter"
	"weir/internal/filter/shared"
	"weir/internal/filter/store"
	"weir/internal/progress"
)

func newClusterImport() *cobra.Command {
	return newClusterMove("import", &cobra.Command{
		Short: "Move the state of a box into the engine",
		Long: `Move what a box has in its data directory into the engine: the positions of all users of the
lists in --feeds, the index of the sequence, what events have taught, and the filters. Then both are read and
compared.

The box is stopped meanwhile, or is a copy of the directory; no node is there. A position is only ever
moved forward, so this can be run again: after it was interrupted it goes on where it was, and a second run
brings what has happened since. So the box need be stopped for the second run only, after a first one
from a copy. Nodes serve from the engine once the last run has ended, and not before: then the import is
refused.`,
		Example: `  weir cluster import --feeds feeds.weir --cluster valkey://10.0.0.1:6379 /var/lib/weir`,
	}, true)
}

func newClusterExport() *cobra.Command {
	return newClusterMove("export", &cobra.Command{
		Short: "Move the state in the engine into the data directory of a box",
		Long: `Move what the engine has into the data directory of one box, which is made where there is none:
the positions of all users of the lists in --feeds, the index of the sequence, what events have taught, and
the filters. Then both are read and compared. All nodes are stopped before. The engine stays as it is.

After it was interrupted it can be run again, and goes on where it was.`,
		Example: `  weir cluster export --feeds feeds.weir --cluster valkey://10.0.0.1:6379 /var/lib/weir`,
	}, false)
}

// newClusterMove completes a command that moves state into the engine or out of it.
func newClusterMove(name string, cmd *cobra.Command, in bool) *cobra.Command {
	var feeds string
	cmd.Use, cmd.Args = name+" DATA", exactly(1, "one data directory")
	config.File(cmd.Flags(), &feeds, "feeds", "the lists that serve, whose users have the positions")
	var halfLife time.Duration
	cmd.Flags().DurationVar(&halfLife, "bandit-half-life", 0,
		"after how long an event counts half as much, as the nodes and the box are told; 0 is never")
	read := clusterFlags(cmd)
	cmd.RunE = interruptible(func(cmd *cobra.Command, args []string) (err error) {
		_, options, err := read()
		if err != nil {
			return err
		}
		ctx := cmd.Context()
		m := &mover{in: in, dir: args[0], feeds: feeds, halfLife: halfLife, out: cmd.OutOrStdout(),
			log: newLog(cmd.ErrOrStderr(), "text", slog.LevelWarn), at: options.Prefix}
		if err := m.open(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.lock.Close()) }()
		options.Log = m.log
		if m.client, err = cluster.Open(ctx, options); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.client.Close()) }()
		check := m.client.CheckVersion
		if m.in {
			check = m.client.FixVersion
		}
		if err := cmp.Or(check(ctx), m.alone(ctx)); err != nil {
			return err
		}
		for _, move := range []func(context.Context) error{m.positions, m.index, m.events, m.filters} {
			if err := move(ctx); err != nil {
				if ctx.Err() != nil {
					return fmt.Errorf("interrupted: run it again, and it goes on: %w", err)
				}
				return err
			}
		}
		return os.RemoveAll(m.stateFile())
	})
	return cmd
}

// mover moves state between a data directory and the engine.
type mover struct {
	in         bool // into the engine
	dir, feeds string
	halfLife   time.Duration
	at         string // the engine's prefix
	out        io.Writer
	log        *slog.Logger
	lock       *disk.DirLock
	client     *cluster.Client
}

// open locks the data directory.
func (m *mover) open() (err error) {
	if _, err := os.Stat(m.dir); m.in && err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	there := m.has(filepath.Join("feed", "ids.cells"))
	switch {
	case m.feeds == "" && (there || !m.in):
		return errors.New("--feeds must name the lists that serve: positions are those of their users")
	case m.feeds != "" && m.in && !there:
		return fmt.Errorf("%s has no positions: is it the data directory of the box?", m.dir)
	}
	m.lock, err = openData(m.dir)
	return err
}

// alone refuses an engine that nodes serve from: what they change while it is read is lost, and given twice.
func (m *mover) alone(ctx context.Context) error {
	all, err := members.List(ctx, m.client)
	for _, node := range all {
		if node.Here() {
			return fmt.Errorf("the node %s was heard of %v ago: stop all nodes first",
				cmp.Or(node.Address, node.ID), node.Age.Round(time.Second/10))
		}
	}
	return err
}

// has says whether there is a file in the data directory.
func (m *mover) has(name string) bool {
	_, err := os.Stat(filepath.Join(m.dir, name))
	return !errors.Is(err, fs.ErrNotExist)
}

// moveState is how far a move is that was interrupted.
type moveState struct {
	In     bool   `json:"in"`
	Prefix string `json:"prefix"`
	Lists  string `json:"lists"` // which publication
	Rank   uint64 `json:"rank"`  // of whom to go on with
}

func (m *mover) stateFile() string { return filepath.Join(m.dir, "cluster-move.json") }

// positions moves those of all users.
func (m *mover) positions(ctx context.Context) (err error) {
	if m.feeds == "" {
		return nil
	}
	lists, err := snapshot.Open(m.feeds)
	if err != nil {
		return fmt.Errorf("--feeds: %w", err)
	}
	defer func() { err = errors.Join(err, lists.Close()) }()
	local, err := progress.OpenLocal(filepath.Join(m.dir, "feed"), progress.Options{Name: "move",
		Logger: m.log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, local.Close()) }()
	shared, err := positions.Open(ctx, m.client, positions.Options{Log: m.log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shared.Close()) }()

	state := moveState{In: m.in, Prefix: m.at, Lists: lists.Publication().String()}
	var before moveState
	if text, err := os.ReadFile(m.stateFile()); err == nil && json.Unmarshal(text, &before) == nil {
		if state.Rank = before.Rank; before != state {
			state.Rank = 0 // of another move
		}
	}
	bar := newBar("moving positions", "users", int64(lists.Slots()))
	t := feed.Transfer{Lists: lists, From: local, To: shared, Begin: state.Rank,
		// Before any that nodes use, and after all.
		FromVersion: math.MaxUint64, ToVersion: 1,
		Done: func(rank uint64) {
			bar.Set64(int64(rank)) //nolint:errcheck // shows less
			state.Rank = rank
			if text, err := json.Marshal(state); err == nil {
				// Without it the next run begins at the first user.
				disk.WriteFileAtomic(m.stateFile(), text, 0o600) //nolint:errcheck // as said
			}
		}}
	if !m.in {
		t.From, t.To = shared, local
	}
	checking := newBar("checking", "users", int64(lists.Slots()))
	t.Checked = func(rank uint64) { checking.Set64(int64(rank)) } //nolint:errcheck // shows less
	found, err := t.Run(ctx)
	bar.Exit()      //nolint:errcheck // as well
	checking.Exit() //nolint:errcheck // as well
	switch {
	case errors.Is(err, positions.ErrOutdated):
		return fmt.Errorf("nodes have served from the engine already, and positions there may be ahead: " +
			"begin with an engine that has none, or under another --cluster-prefix")
	case err != nil:
		return fmt.Errorf("positions: %w", err)
	}
	_, err = fmt.Fprintf(m.out, "positions  %s with %s behind them, checksum %016x on both sides\n",
		counted(int64(found.Users), "user"), counted(int64(found.Items), "item"), found.Checksum)
	return err
}

// index moves that of the sequence.
func (m *mover) index(ctx context.Context) (err error) {
	file := filepath.Join("sequence", "current.cells")
	if m.in && !m.has(file) {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(m.dir, "sequence"), 0o700); err != nil {
		return err
	}
	local, err := progress.OpenIndex(filepath.Join(m.dir, file), progress.Options{Name: "move",
		Logger: m.log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, local.Close()) }()
	shared, err := positions.OpenIndex(ctx, m.client, "sequence")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shared.Close()) }()
	var from, to progress.Index = local, shared
	if !m.in {
		from, to = shared, local
	}
	want, err := from.Get(ctx)
	at, errTo := to.Get(ctx)
	if err := errors.Join(err, errTo); err != nil {
		return fmt.Errorf("index of the sequence: %w", err)
	}
	if at < want {
		if _, err := to.CompareAndSwap(ctx, at, want); err != nil {
			return fmt.Errorf("index of the sequence: %w", err)
		}
		if at, err = to.Get(ctx); err != nil {
			return fmt.Errorf("index of the sequence: %w", err)
		}
	}
	if at != want {
		return fmt.Errorf("the index of the sequence is %d and should be %d: is something else moving it? "+
			"Stop it, and run this again", at, want)
	}
	_, err = fmt.Fprintf(m.out, "sequence   index %d on both sides\n", want)
	return err
}

// events moves what they have taught.
func (m *mover) events(ctx context.Context) error {
	dir := filepath.Join(m.dir, "bandit")
	if files, err := filepath.Glob(filepath.Join(dir, "*.journal")); err != nil || m.in && len(files) == 0 {
		return err
	}
	cfg := bandit.Defaults()
	move := learning.Export
	if m.in {
		move = learning.Import
	}
	found, err := move(ctx, dir, m.client, learning.Options{HalfLife: m.halfLife, Memory: math.MaxInt64 / 8,
		ClientIDs: 1, Sync: cfg.Sync, Checkpoint: math.MaxInt64, Log: m.log,
		Go: func(_ string, fn func(context.Context)) { go fn(ctx) }})
	if err != nil {
		return fmt.Errorf("events: %w", err)
	}
	_, err = fmt.Fprintf(m.out, "events     %s and %s on both sides\n", counted(int64(found.Arms), "arm"),
		counted(int64(found.IDs), "id"))
	return err
}

// filters moves the filters and the global rules.
func (m *mover) filters(ctx context.Context) (err error) {
	file := filepath.Join(filter.Folder, filter.StoreFile)
	if m.in && !m.has(file) {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(m.dir, filter.Folder), 0o700); err != nil {
		return err
	}
	s, err := store.Open(filepath.Join(m.dir, file), m.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	rows, err := shared.OpenRows(ctx, shared.Options{Client: m.client, Store: s, Log: m.log,
		Changed: func(_, _ *store.Filter) {}, Set: func(_, _ string) {}, Fetched: func(string) {}})
	if err == nil {
		err = m.client.Load(ctx, shared.Functions)
	}
	if err != nil {
		return fmt.Errorf("filters: %w", err)
	}
	if m.in {
		_, err = rows.Import(ctx)
	}
	// After it the store has what the engine has, by the sum that both keep.
	if err = cmp.Or(err, rows.CatchUp(ctx)); err == nil && !m.in {
		err = s.Disown(ctx)
	}
	n := int64(0)
	if err == nil {
		for _, rowErr := range s.Rows(ctx) {
			if err = cmp.Or(err, rowErr); err == nil {
				n++
			}
		}
	}
	if err != nil {
		return fmt.Errorf("filters: %w", err)
	}
	_, err = fmt.Fprintf(m.out, "filters    %s on both sides\n", counted(n, "row"))
	return err
}
