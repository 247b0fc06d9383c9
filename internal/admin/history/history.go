// Package history keeps figures of a server for an hour, once a second, and for a week, once a minute, in a
// file of a fixed size that survives a kill, and gives them as JSON, several moments as one where there are
// many.
//
// The file begins with a header of package disk/record, whose fields are the names of services. Moments
// follow, each where its time says: an hour of seconds, then a week of minutes. A moment has a checksum, so
// one that a kill or a loss of power has torn is one that is not there.
package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/zeebo/xxh3"

	"weir/internal/disk/record"
)

// Figures of a moment, as columns of the history. Latencies are in seconds.
const (
	Requests = iota // a second
	Errors          // 5xx a second, without what was rejected
	Rejected        // a second
	P50
	P90
	P99
	Probability // of rejection of class normal
	Pressure    // of the dominant signal
	CPU         // processors
	Memory      // bytes of the process
	Heap        // bytes of live and dead objects
	GC          // share of the time paused for it
	Goroutines
	Descriptors
	Connections
	SyncLag // seconds
	Columns
)

// Names are those of figures in answers, and whether of several moments the largest is shown, not the mean.
var Names = [Columns]struct {
	Name    string
	Largest bool
}{
	{"requests", false}, {"errors", true}, {"rejected", true}, {"p50", false}, {"p90", true}, {"p99", true},
	{"probability", true}, {"pressure", true}, {"cpu", false}, {"memory", true}, {"heap", false},
	{"gc", true},
	{"goroutines", true}, {"descriptors", true}, {"connections", false}, {"sync_lag", true},
}

// Of each service there are requests and errors a second, p50 and p99, from History.Column on.
const (
	mostServices  = 8
	ofService     = 4
	serviceName   = 24 // bytes
	historyFields = mostServices * serviceName
)

// The rings.
const (
	BySecond = iota
	ByMinute
)

// A ring has as many moments as are kept, each a step after the other.
type ring struct {
	step, size int64 // seconds, moments
	at         int64 // where it begins in the file
	rows       []row
}

// row is a moment: Unix seconds, 0 for none yet, and its figures.
// Moment is the figures of one: Requests and so on, then those of services.
type Moment [Columns + mostServices*ofService]float32

type row struct {
	t      int64
	values Moment
}

// rowSize is a row in the file: seconds, figures, and a checksum of both, little-endian.
const rowSize = 8 + (Columns+mostServices*ofService)*4 + 8

var historyFormat = record.Format{Magic: "WEIRhist", Version: 1, Is: "a history of figures",
	Replace: "remove it"}

// History is the figures of the last hour, once a second, and of the last week, once a minute, in a file of
// fixed size that is written a row at a time: after a kill it has all but the row that was being written. It
// may be used from any goroutine.
type History struct {
	mu       sync.Mutex
	f        *os.File // nil: in memory alone
	services []string // of the columns behind the first ones
	rings    [2]*ring
	failed   error
}

// Open opens the history in a file, or begins one; "" keeps it in memory. A file that cannot be read is
// begun anew: nothing depends on it.
func Open(path string) (*History, error) {
	h := &History{}
	at := int64(record.PageSize)
	for i, r := range []ring{{step: 1, size: 3600}, {step: 60, size: 7 * 24 * 60}} {
		r.at, r.rows = at, make([]row, r.size)
		at += r.size * rowSize
		h.rings[i] = &r
	}
	if path == "" {
		return h, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	h.f = f
	if err = h.load(path); err != nil {
		h.services = nil
		if err = f.Truncate(0); err == nil {
			if err = f.Truncate(at); err == nil {
				err = h.writeNames()
			}
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("history: %w", err), f.Close())
	}
	return h, nil
}

// load reads the file. Rows that are damaged or not written yet are none.
func (h *History) load(path string) error {
	page := make([]byte, record.PageSize)
	n, err := h.f.ReadAt(page, 0)
	if err != nil {
		return err
	}
	fields, err := historyFormat.Parse(path, page[:n], historyFields)
	if err != nil {
		return err
	}
	for name := range slices.Chunk(fields, serviceName) {
		if text := strings.TrimRight(string(name), "\x00"); text != "" {
			h.services = append(h.services, text)
		}
	}
	for _, r := range h.rings {
		data := make([]byte, r.size*rowSize)
		if _, err := h.f.ReadAt(data, r.at); err != nil {
			return err
		}
		i := 0
		for one := range slices.Chunk(data, rowSize) {
			body := one[:rowSize-8]
			if binary.LittleEndian.Uint64(one[rowSize-8:]) == xxh3.Hash(body) {
				r.rows[i].t = int64(binary.LittleEndian.Uint64(body))
				for c := range r.rows[i].values {
					r.rows[i].values[c] = math.Float32frombits(binary.LittleEndian.Uint32(body[8+4*c:]))
				}
			}
			i++
		}
	}
	return nil
}

func (h *History) writeNames() error {
	fields := make([]byte, historyFields)
	for i, name := range h.services {
		copy(fields[i*serviceName:(i+1)*serviceName], name)
	}
	_, err := h.f.WriteAt(historyFormat.Page(fields), 0)
	return err
}

// Column returns where the figures of a service are, a new column for a new one; false is no room.
func (h *History) Column(name string) (int, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.services, name)
	if i < 0 {
		if len(h.services) == mostServices || len(name) > serviceName {
			return 0, false
		}
		i = len(h.services)
		h.services = append(h.services, name)
		if h.f != nil && h.failed == nil {
			h.failed = h.writeNames()
		}
	}
	return Columns + i*ofService, true
}

// Put adds a moment to the ring of seconds or of minutes. The error is the first that a write to the
// file had; after it the history goes on in memory.
func (h *History) Put(which int, t int64, values *Moment) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rings[which]
	i := t / r.step % r.size
	r.rows[i] = row{t, *values}
	if h.f == nil || h.failed != nil {
		return nil
	}
	text := binary.LittleEndian.AppendUint64(make([]byte, 0, rowSize), uint64(t))
	for _, v := range values {
		text = binary.LittleEndian.AppendUint32(text, math.Float32bits(v))
	}
	text = binary.LittleEndian.AppendUint64(text, xxh3.Hash(text))
	_, h.failed = h.f.WriteAt(text, r.at+i*rowSize)
	return h.failed
}

// Close closes the file.
func (h *History) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.f == nil {
		return nil
	}
	defer func() { h.f = nil }()
	return h.f.Close()
}

// Past is what has been: columns of one length, null where nothing is known.
type Past struct {
	Range    string                          `json:"range"`
	Step     int64                           `json:"step_seconds"`
	Time     []int64                         `json:"time"`
	Columns  map[string][]*Figure            `json:"columns"`
	Services map[string]map[string][]*Figure `json:"services"`
}

// Figure is a number with four digits that count.
type Figure float32

// MarshalJSON implements json.Marshaler.
func (f Figure) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%.4g", float32(f)), nil }

// Ranges are what can be asked for: a ring, and how many of its last moments.
var Ranges = map[string]struct {
	ring    int
	moments int64
}{"hour": {BySecond, 3600}, "day": {ByMinute, 24 * 60}, "week": {ByMinute, 7 * 24 * 60}}

// Read returns at most points moments of a range that ends now, several as one where there are more.
func (h *History) Read(name string, points int, now int64) Past {
	h.mu.Lock()
	defer h.mu.Unlock()
	which := Ranges[name]
	r := h.rings[which.ring]
	each := (which.moments + int64(points) - 1) / int64(points)
	p := Past{Range: name, Step: each * r.step, Time: []int64{}, Columns: map[string][]*Figure{},
		Services: map[string]map[string][]*Figure{}}
	var merged [][len(Moment{})]*Figure
	// Groups begin at multiples of their length, so that a moment is always in the same one.
	for from := (now - which.moments*r.step) / p.Step * p.Step; from <= now; from += p.Step {
		var sum, known [len(Moment{})]float64
		there := false
		for t := from; t < from+p.Step; t += r.step {
			one := &r.rows[t/r.step%r.size]
			if one.t/r.step != t/r.step || one.t > now {
				continue
			}
			there = true
			for c, v := range one.values {
				switch {
				case v != v: // NaN: there was nothing to know
				case largest(c):
					sum[c], known[c] = max(sum[c], float64(v)), 1
				default:
					sum[c], known[c] = sum[c]+float64(v), known[c]+1
				}
			}
		}
		if !there && len(p.Time) == 0 {
			continue // before the beginning
		}
		var figures [len(Moment{})]*Figure
		for c := range figures {
			if known[c] > 0 {
				v := Figure(sum[c] / known[c])
				figures[c] = &v
			}
		}
		p.Time, merged = append(p.Time, from), append(merged, figures)
	}
	column := func(c int) []*Figure {
		all := make([]*Figure, len(merged))
		for i := range merged {
			all[i] = merged[i][c]
		}
		return all
	}
	for c, one := range Names {
		p.Columns[one.Name] = column(c)
	}
	for i, name := range h.services {
		at := Columns + i*ofService
		p.Services[name] = map[string][]*Figure{"requests": column(at), "errors": column(at + 1),
			"p50": column(at + 2), "p99": column(at + 3)}
	}
	return p
}

// largest says whether of several moments the largest Figure of a column is shown.
func largest(c int) bool {
	if c < Columns {
		return Names[c].Largest
	}
	return (c-Columns)%ofService%2 == 1 // errors, p99
}
