package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// flipBit changes a bit of a file.
func flipBit(t *testing.T, path string, at int64) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedDataAreRefusedUntilTheyAreRepaired(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	p := start(t, "--data", data, "--bandit-sync", "1ms")
	for _, item := range []string{"a", "b", "c"} {
		ask(t, "POST", "http://"+p.public+"/events", `{"item":"`+item+`","reward":1}`)
		p.reaches("weir_bandit_journal_unsynced_bytes", 0)
	}
	p.kill()
	segment := filepath.Join(data, "bandit", "00000000000000000000.journal")
	flipBit(t, segment, 2*4096+40) // the frame of b, which that of c knows to have been synced
	before, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--data", data}
	fails(t, args, segment, "at offset", "weir repair --accept-loss")

	out, err := exec.Command("weir", "repair", data).CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 {
		t.Errorf("repair without --accept-loss: %v", err)
	}
	wantSays(t, "repair without --accept-loss", string(out), "--accept-loss", "copy the directory")
	if after, err := os.ReadFile(segment); err != nil || string(after) != string(before) {
		t.Errorf("repair without --accept-loss changed the journal, error %v", err)
	}
	for _, says := range []string{"bandit: repaired, without what was damaged", "bandit: not damaged"} {
		out, err := exec.Command("weir", "repair", "--accept-loss", data).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		wantSays(t, "repair", string(out), says)
	}
	index := filepath.Join(data, "sequence", "current.cells")
	flipBit(t, index, 4096+20)
	fails(t, args, index, "weir repair --accept-loss")
	out, err = exec.Command("weir", "repair", "--accept-loss", data).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	wantSays(t, "repair", string(out), index+": repaired")
	p = start(t, args...)
	if n, _ := p.metric("weir_bandit_learned_arms"); n != 1 {
		t.Errorf("%v arms are left, want that of a", n)
	}
	stop(t, p)
}

func TestAHeaderWithAWrongBitIsMendedAndWhatIsLostCanBeMovedAway(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	args := []string{"--data", data, "--bandit-sync", "1ms"}
	p := start(t, args...)
	for range 3 {
		ask(t, "GET", "http://"+p.public+"/next", "")
	}
	ask(t, "POST", "http://"+p.public+"/events", `{"item":"a","reward":1}`)
	stop(t, p)
	repair := func(fails bool, says ...string) {
		t.Helper()
		out, err := exec.Command("weir", "repair", "--accept-loss", data).CombinedOutput()
		if (err != nil) != fails {
			t.Fatalf("%v: %s", err, out)
		}
		wantSays(t, "repair", string(out), says...)
	}
	const version = 8
	for _, name := range []string{"bandit/00000000000000000000.journal", "sequence/current.cells",
		"sequence/current.cells.redo"} {
		flipBit(t, filepath.Join(data, name), version)
		fails(t, args, name, "version 0", "weir repair --accept-loss")
		repair(false, name+": repaired, a bit of its header was wrong")
	}
	p = start(t, args...)
	if n, _ := p.metric("weir_bandit_learned_arms"); n != 1 {
		t.Errorf("%v arms are left, want that of a", n)
	}
	if _, index := ask(t, "GET", "http://"+p.public+"/current", ""); !strings.Contains(index, "2") {
		t.Errorf("the sequence is at %s, want what three steps lead to", index)
	}
	stop(t, p)

	journal := filepath.Join(data, "bandit", "00000000000000000000.journal")
	flipBit(t, journal, version)
	flipBit(t, journal, version+10)
	repair(true, "nothing of", "move it away")
	if err := os.RemoveAll(filepath.Join(data, "bandit")); err != nil {
		t.Fatal(err)
	}
	repair(false, "repaired, without")
	stop(t, start(t, args...))
}

// Without what was in a file all would begin anew, in silence.
func TestAMissingFileIsRefusedUntilTheLossIsAccepted(t *testing.T) {
	feeds := filepath.Join(t.TempDir(), "feeds.weir")
	numbered(10, 20).write(t, feeds)
	for _, gone := range [][]string{
		{"feed/ids.cells"}, {"feed/keys.cells"}, {"feed/ids.cells", "feed/keys.cells", "feed/keys.log"},
		{"feed"},
		{"sequence/current.cells"}, {"bandit"},
	} {
		data := filepath.Join(t.TempDir(), "data")
		args := []string{"--data", data, "--feeds", feeds}
		stop(t, start(t, args...))
		for _, name := range gone {
			if err := os.RemoveAll(filepath.Join(data, name)); err != nil {
				t.Fatal(err)
			}
		}
		fails(t, args, gone[0], "is missing", "weir repair --accept-loss "+data)
		if _, err := os.Stat(filepath.Join(data, gone[0])); err == nil {
			t.Errorf("a start without %s made it again", gone[0])
		}
		out, err := exec.Command("weir", "repair", "--accept-loss", data).CombinedOutput()
		if err != nil {
			t.Errorf("repair without %v: %v: %s", gone, err, out)
		}
		wantSays(t, "repair", string(out), data+": repaired, without", gone[0])
		stop(t, start(t, args...))
	}
}
