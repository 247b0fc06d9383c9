package feed

import (
	"math/bits"

	"weir/internal/metrics"
)

// stats counts what happens.
type stats struct {
	items, fallback, short, empty, reloaded, refused, lost *metrics.Counter
	stripes                                                int
}

func (f *Feed) register(m *metrics.Registry) {
	f.stats = stats{
		items:    m.Counter("weir_feed_items_total", "Items given from users' own lists."),
		fallback: m.Counter("weir_feed_fallback_items_total", "Fallback items given."),
		short:    m.Counter("weir_feed_short_answers_total", "Answers with fewer items than asked for."),
		empty:    m.Counter("weir_feed_empty_answers_total", "Requests for which there was no item at all."),
		reloaded: m.Counter("weir_feed_reloads_total", "New lists taken up or refused.", "result", "loaded"),
		refused:  m.Counter("weir_feed_reloads_total", "New lists taken up or refused.", "result", "refused"),
		lost: m.Counter("weir_feed_degraded_answers_total",
			"Answers of fallback items alone because positions could not be asked for."),
		stripes: 1 << bits.Len(uint(m.Stripes()-1)),
	}
	current := func(value func(g *generation) float64) func() float64 {
		return func() float64 {
			if g := f.current.Load(); g != nil {
				return value(g)
			}
			return 0
		}
	}
	m.Gauge("weir_feed_generation", "Number of the generation that serves, from 1 at start.",
		current(func(g *generation) float64 { return float64(g.number) }))
	m.Gauge("weir_feed_snapshot_timestamp_seconds",
		"When the snapshot that serves was written, in Unix time.",
		current(func(g *generation) float64 { return float64(g.file.ModTime().UnixMilli()) / 1000 }))
	m.Gauge("weir_feed_publication", "Number of the publication that serves, 0 without a cluster.",
		current(func(g *generation) float64 { return float64(g.from.publication.Number) }))
	m.Gauge("weir_feed_users", "Users of the snapshot that serves.",
		current(func(g *generation) float64 { return float64(g.lists.Stats().Users) }))
	m.Gauge("weir_feed_exhausted_users", "Users whose position is at the end of their list.",
		current(func(g *generation) float64 { return float64(g.positions.Exhausted()) }))
	m.Gauge("weir_feed_exhausted_ratio", "Share of users whose position is at the end of their list.",
		current(func(g *generation) float64 {
			return float64(g.positions.Exhausted()) / max(1, float64(g.lists.Stats().Users))
		}))
	m.Gauge("weir_feed_warmed_ratio", "Share of the lists that has been read into memory and checked.",
		current(func(g *generation) float64 {
			return float64(g.lists.Warmed()) / max(1, float64(g.lists.ListBytes()))
		}))
	m.Gauge("weir_feed_changed_in_place",
		"1 when the snapshot that serves was written to, which nobody may do.",
		current(func(g *generation) float64 {
			if g.altered.Load() {
				return 1
			}
			return 0
		}))
}
