package feed

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"encoding/json"

	"weir/internal/feed/snapshot"
)

// fallback is the items for users who have too few left. The random fill wants to know quickly
// which of them are in a user's own list: a hash table of items serves one pass over the list.
type fallback struct {
	items   []fallbackItem
	ranking Ranking                 // nil draws at random
	live    *atomic.Pointer[Config] // whether ranking is asked
	table   []uint16                // open addressing: 0 is empty, else one more than the index in items
	shift   uint                    // of the hash
}

type fallbackItem struct {
	id    uint64 // number or index of a name
	inUse bool   // id may stand in a list; false for names the snapshot does not know
	json  []byte
}

// maxFallback bounds the items of a fallback file, maxOwnFallback those of a snapshot.
const (
	maxFallback    = 10_000
	maxOwnFallback = math.MaxUint16
)

// openFallback reads a fallback file, one item a line, or takes the snapshot's own when path is empty.
// Blank lines and lines that begin with # are passed over, repeated items count once. An item that begins
// with # is written with a backslash before it.
func openFallback(path string, lists *snapshot.Snapshot) (*fallback, error) {
	if path == "" {
		ids := lists.Fallback()
		ids = ids[:min(len(ids), maxOwnFallback)]
		items := make([]fallbackItem, 0, len(ids))
		for _, id := range ids {
			item := fallbackItem{id: id, inUse: true}
			if lists.Items() == snapshot.String {
				item.json = append([]byte(nil), lists.NameJSON(id)...)
			} else {
				item.json = appendNumber(nil, id)
			}
			items = append(items, item)
		}
		return newFallback(items), nil
	}
	lines, err := readLines(path)
	if err != nil {
		return nil, fmt.Errorf("--fallback: %w", err)
	}
	if lists.Items() == snapshot.Number {
		items := make([]fallbackItem, 0, len(lines))
		seen := make(map[uint64]bool, len(lines))
		for _, l := range lines {
			id, ok := parseNumber([]byte(l.text))
			if !ok || id == 0 {
				return nil, fmt.Errorf("--fallback %s, line %d: %.40q is no item of this snapshot, whose "+
					"items are numbers from 1 on", path, l.number, l.text)
			}
			if seen[id] { // 7 and 007
				continue
			}
			seen[id] = true
			items = append(items, fallbackItem{id: id, inUse: true, json: appendNumber(nil, id)})
		}
		return newFallback(items), nil
	}
	index := make(map[string]int, len(lines))
	items := make([]fallbackItem, len(lines))
	for i, l := range lines {
		if !utf8.ValidString(l.text) {
			return nil, fmt.Errorf("--fallback %s, line %d: not valid UTF-8", path, l.number)
		}
		index[l.text] = i
		quoted, err := json.Marshal(l.text)
		if err != nil {
			return nil, fmt.Errorf("--fallback %s, line %d: %w", path, l.number, err)
		}
		items[i].json = quoted
	}
	for i := range lists.Stats().Names {
		if k, ok := index[lists.Name(i)]; ok {
			items[k].id, items[k].inUse = i, true
		}
	}
	return newFallback(items), nil
}

type line struct {
	number int
	text   string
}

func readLines(path string) ([]line, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var lines []line
	seen := make(map[string]bool)
	scanner := bufio.NewScanner(f)
	n := 1
	for ; scanner.Scan(); n++ {
		text := strings.TrimSpace(scanner.Text())
		if n == 1 {
			text = strings.TrimPrefix(text, "\ufeff")
		}
		if text == "" || text[0] == '#' {
			continue
		}
		if strings.HasPrefix(text, `\#`) {
			text = text[1:]
		}
		if seen[text] {
			continue
		}
		if len(lines) == maxFallback {
			return nil, fmt.Errorf("%s, line %d: more than %d items", path, n, maxFallback)
		}
		seen[text] = true
		lines = append(lines, line{n, text})
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("%s, line %d: %w", path, n, err)
	}
	return lines, nil
}

func newFallback(items []fallbackItem) *fallback {
	size := max(16, 1<<bits.Len(uint(4*len(items))))
	f := &fallback{items: items, table: make([]uint16, size),
		shift: uint(64 - bits.TrailingZeros(uint(size)))}
	for i, item := range items {
		if !item.inUse {
			continue
		}
		at := f.hash(item.id)
		for f.table[at] != 0 {
			at = (at + 1) & uint64(size-1)
		}
		f.table[at] = uint16(i + 1)
	}
	return f
}

func (f *fallback) hash(id uint64) uint64 { return id * golden >> f.shift }

// find returns the index of an item, or -1.
func (f *fallback) find(id uint64) int {
	for at := f.hash(id); ; at = (at + 1) & uint64(len(f.table)-1) {
		i := int(f.table[at]) - 1
		if i < 0 || f.items[i].id == id {
			return i
		}
	}
}

// costly says whether a fill for a list of that length is more than an event loop should do.
func (f *fallback) costly(length int) bool {
	return length > 2048 || len(f.items) > 2048 || f.ranked() && len(f.items) > maxRankedInline
}

// maxRankedInline bounds the items that are scored inline: each is a look at memory and a sample.
const maxRankedInline = 64

// pick returns the indices of up to n items, each at most once, without those of the user's own list: the
// best for the user where there is a ranking, else drawn at random. The slice is s's and valid until its
// next use.
func (f *fallback) pick(s *scratch, user []byte, own snapshot.List, n int) []uint16 {
	n = min(n, f.left(s, own))
	if f.ranked() && f.rank(s, user, n) {
		return s.free[:n]
	}
	for i := range n { // the first n steps of a Fisher-Yates shuffle
		j := i + rand.IntN(len(s.free)-i)
		s.free[i], s.free[j] = s.free[j], s.free[i]
	}
	return s.free[:n]
}

// left has s.free be the indices of all items that are not of the user's own list, and returns how many they
// are.
func (f *fallback) left(s *scratch, own snapshot.List) int {
	s.taken = append(s.taken[:0], make([]bool, len(f.items))...)
	const step = 512
	for from := 0; from < own.Len(); from += step {
		s.items = own.Append(s.items[:0], from, from+step)
		for _, id := range s.items {
			if i := f.find(id); i >= 0 {
				s.taken[i] = true
			}
		}
	}
	s.free = s.free[:0]
	for i, taken := range s.taken {
		if !taken {
			s.free = append(s.free, uint16(i))
		}
	}
	return len(s.free)
}

// scratch is the memory of one request.
type scratch struct {
	items []uint64
	taken []bool
	free  []uint16
	score []float64
	user  []byte
}

// shortLog logs answers that came out short, a line a second at most: an empty fallback must not
// turn every request into a write of the log, and an event loop must not wait for one.
type shortLog struct {
	log  *slog.Logger
	next chan shortAnswer
}

type shortAnswer struct {
	number      uint64
	name        string
	asked, came int
}

func newShortLog(log *slog.Logger) shortLog {
	return shortLog{log: log, next: make(chan shortAnswer, 1)}
}

// note never blocks; what comes while a line waits to be written is only counted, by the metric.
func (l shortLog) note(a shortAnswer) {
	select {
	case l.next <- a:
	default:
	}
}

func (l shortLog) run(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		select {
		case <-ctx.Done():
			return
		case a := <-l.next:
			user := slog.Any("user", a.number)
			if a.name != "" {
				user = slog.String("user", a.name)
			}
			l.log.Error("too few items for an answer; add fallback items", user, "asked", a.asked,
				"given", a.came)
		}
		pause.Reset(time.Second)
	}
}
