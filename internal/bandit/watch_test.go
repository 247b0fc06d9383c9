package bandit

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/server"
	"weir/internal/systest"
)

func TestArmsThatAreRenamedOverThePathAreTakenUp(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "arms.weir")
	writeArms(t, path, []arm{{item: "a", alpha: 2, beta: 3}})
	f := open(t, dir, func(c *Config) { c.Arms, c.Watch = path, time.Millisecond })
	s := serve(t, f, server.Config{})
	s.posterior(`{"items":["a"]`, 2, 3, "item")
	writeArms(t, path, []arm{{item: "a", alpha: 4, beta: 5}}) // by rename
	systest.Eventually(t, "the second file", func() bool { return f.model.Load().generation == 2 })
	s.posterior(`{"items":["a"]`, 4, 5, "item")

	// What is broken is refused, once however often it is looked at.
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, []byte("weirarms and nothing else"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(broken, path); err != nil {
		t.Fatal(err)
	}
	systest.Eventually(t, "a refusal", func() bool { return f.stats.refused.Value() == 1 })
	writeArms(t, path, []arm{{item: "a", alpha: 6, beta: 7}})
	systest.Eventually(t, "the third file", func() bool { return f.model.Load().generation == 3 })
	if n := f.stats.refused.Value(); n != 1 {
		t.Errorf("a broken file was refused %d times", n)
	}
	s.posterior(`{"items":["a"]`, 6, 7, "item")

	// Asked for by hand, a file is not taken up again.
	writeArms(t, path, []arm{{item: "a", alpha: 8, beta: 9}})
	if err := f.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := f.model.Load().generation
	writeArms(t, path, []arm{{item: "a", alpha: 10, beta: 11}})
	systest.Eventually(t, "the last file", func() bool { return f.model.Load().generation > n })
	if got := f.model.Load().generation; got > n+1 {
		t.Errorf("generation %d, want %d", got, n+1)
	}
}
