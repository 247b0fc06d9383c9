package journal

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/disk/record"
	"weir/internal/systest"
)

// The test binary is its own victim: with victimEnv set it appends to the journal in that directory, and
// says so, until it is killed.
const victimEnv = "WEIR_TEST_JOURNAL"

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimEnv); dir != "" {
		fmt.Fprintln(os.Stderr, victim(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// victim returns only with an error. It appends batches and prints a line "FIRST RECORDS" after each, in
// one write: the number of its first record and how many there are. Records are numbered through all
// restarts. A goroutine makes checkpoints all the time.
func victim(dir string) error {
	type state struct {
		keeper
		at Position
	}
	k := new(keeper)
	j, err := Open(dir, Options{Segment: 4 * record.PageSize, Sync: 2 * time.Millisecond}, k.load, k.replay)
	if err != nil {
		return err
	}
	states := make(chan state, 1)
	go func() {
		for s := range states {
			if err := j.Checkpoint(s.at, s.save); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
	}()
	// Only the last records, so that a round does not get slower and slower.
	var b Batch
	for n := next(k.records); ; n += b.Len() {
		b.Reset()
		first := len(k.records)
		for i := range 1 + rand.IntN(5) {
			k.records = append(k.records, numberedRecord(n+i))
			b.Add([]byte(k.records[first+i]))
		}
		if err := j.Append(&b); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(os.Stdout, n, b.Len()); err != nil {
			return err
		}
		k.records = slices.Clone(k.records[max(0, len(k.records)-window):])
		select {
		case states <- state{keeper{k.records}, j.Position()}:
		default:
		}
	}
}

// window is how many records a victim keeps.
const window = 300

// numberedRecord returns record n, whose length and text tell which it is.
func numberedRecord(n int) string { return fmt.Sprint(n, " ", strings.Repeat("y", n%211)) }

// next returns the number of the record after the last of records.
func next(records []string) int {
	if len(records) == 0 {
		return 0
	}
	var n int
	fmt.Sscan(records[len(records)-1], &n) //nolint:errcheck // the caller compares
	return n + 1
}

func TestKillLosesNoAcknowledgedBatch(t *testing.T) {
	systest.LongRun(t, "many processes to kill")
	rounds := 20
	if os.Getenv("WEIR_SOAK") != "" {
		rounds = 1000
	}
	dir := t.TempDir()
	acknowledged, checkpoints := 0, 0
	var before Position
	round := 0
	for round < rounds || checkpoints < rounds/4 && round < 10*rounds { // a slow disk may need more of them
		round++
		first := acknowledged
		for _, line := range systest.KillAfter(t, 1+rand.IntN(2000), victimEnv+"="+dir) {
			var n, records int
			if _, err := fmt.Sscan(line, &n, &records); err != nil {
				t.Fatalf("line %q: %v", line, err)
			}
			if n != acknowledged && (n < acknowledged || acknowledged != first) {
				t.Fatalf("round %d: record %d follows %d", round, n, acknowledged)
			}
			acknowledged = n + records
		}
		j, k := mustOpen(t, dir, Options{})
		for i, r := range k.records {
			if n := next(k.records) - len(k.records) + i; r != numberedRecord(n) {
				t.Fatalf("round %d: record %d is %.20q", round, n, r)
			}
		}
		// Ahead by the batch that was in flight, no more.
		if got := next(k.records); got < acknowledged || got > acknowledged+5 {
			t.Fatalf("round %d: %d records, and %d were acknowledged", round, got, acknowledged)
		}
		if j.Checkpointed() > before {
			checkpoints++
		}
		before = j.Checkpointed()
		acknowledged = next(k.records)
		mustClose(t, j)
	}
	if checkpoints < rounds/4 {
		t.Errorf("%d of %d rounds made a checkpoint", checkpoints, round)
	}
	t.Logf("%d records survived %d kills, the journal is at %d", acknowledged, round, before)
}
