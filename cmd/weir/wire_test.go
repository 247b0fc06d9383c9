package main

import (
	"os"
	"path/filepath"
	"testing"

	"weir/internal/bandit"
	"weir/internal/server"
	"weir/internal/systest"
)

func TestTheBanditFillsShortFeedsWithTheBest(t *testing.T) {
	dir := t.TempDir()
	feeds, csv, arms := filepath.Join(dir, "feeds.weir"), filepath.Join(dir, "arms.csv"),
		filepath.Join(dir, "arms.weir")
	numbered(2, 3).write(t, feeds, 501, 502, 503, 504)
	if err := os.WriteFile(csv, []byte("item,segment,alpha,beta\n501,,1,1000000\n502,,1000000,1\n"+
		"503,,1000,1000\n504,,1,1000000\n504,s,1000000,1\n502,s,1,1000000\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(dir, "users.csv")
	if err := os.WriteFile(users, []byte("user,segment\n77,s\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := bandit.ImportArms(t.Context(), []string{csv, users}, arms,
		bandit.ImportOptions{Prior: [2]float64{1, 1}}); err != nil {
		t.Fatal(err)
	}
	for _, netHTTP := range []bool{false, true} {
		p := serveHere(t, server.Config{NetHTTP: netHTTP}, filepath.Join(t.TempDir(), "data"), "--feeds",
			feeds, "--bandit-arms", arms, "--feed-fallback", "bandit")
		systest.Eventually(t, "ready", func() bool { status, _ := p.get("/health"); return status == 200 })
		for range 20 {
			p.want("/feed/9?size=2", 200, "[502,503]")
			p.want("/feed/77?size=2", 200, "[504,503]") // who is of segment s
		}
		if status, body := ask(t, "POST", "http://"+p.public+"/events",
			`{"item":501,"reward":1}`); status != 200 {
			t.Errorf("an event: %d %s", status, body)
		}
	}
	ends(t, 2, []string{"--listen", "127.0.0.1:0", "--admin", "", "--data", filepath.Join(dir, "d"),
		"--feeds", feeds, "--feed-fallback", "bandit", "--bandit=false"},
		"--feed-fallback", "--bandit=false")
	ends(t, 2, []string{"--listen", "127.0.0.1:0", "--admin", "", "--data", filepath.Join(dir, "d"),
		"--feeds", feeds, "--feed-fallback", "best"}, "--feed-fallback", "uniform or bandit", `"best"`)
	ends(t, 2, []string{"--listen", "127.0.0.1:0", "--admin", "", "--data", filepath.Join(dir, "d"),
		"--feeds", feeds, "--feed-fallback", "bandit", "--bandit-store", "feast+http://127.0.0.1:1"},
		"--feed-fallback", "--bandit-store")
}
