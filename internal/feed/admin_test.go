package feed

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/server"
	"weir/internal/systest"
)

// ask sends a request to the admin port.
func (s *served) ask(method, path string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.admin+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(body))
}

// Lists of half of the users are a mistake more often than not.
func TestListsThatLoseUsersAreRefusedUntilForced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "feeds.weir")
	numbered(100, 20).write(t, path, dense, false)
	s := serveFeed(t, dir, server.Config{}, func(c *Config) { c.MinShare = 0.5 })
	s.take(0, 1, 5)
	for _, users := range []int{49, 0} {
		numbered(users, 20).write(t, path, dense, false)
		status, body := s.ask("POST", "/admin/feeds/reload")
		if status != http.StatusConflict || !strings.Contains(body, "force=1") ||
			!strings.Contains(body, "create feeds.weir.force") {
			t.Errorf("lists of %d users: %d %s, want a refusal that says how to force it", users,
				status, body)
		}
		s.wantAt(5, 1)
	}
	numbered(50, 20).write(t, path, dense, false)
	if status, body := s.ask("POST", "/admin/feeds/reload"); status != 200 {
		t.Errorf("lists of half of the users: %d %s", status, body)
	}
	numbered(20, 20).write(t, path, dense, false)
	if status, body := s.ask("POST", "/admin/feeds/reload?force=1"); status != 200 {
		t.Errorf("a reload that is forced: %d %s", status, body)
	}
	if status, body := s.ask("POST",
		"/admin/feeds/reload?force=x"); status != http.StatusUnprocessableEntity {
		t.Errorf("force=x: %d %s", status, body)
	}
}

func TestAFileBesideThemForcesListsThatWereRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "feeds.weir")
	numbered(100, 20).write(t, path, dense, false)
	f := open(t, dir, func(c *Config) { c.MinShare, c.Watch = 0.5, time.Millisecond })
	numbered(10, 20).write(t, path, dense, false)
	systest.Eventually(t, "the refusal", func() bool { return f.stats.refused.Value() == 1 })
	if err := os.WriteFile(path+".force", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	systest.Eventually(t, "the new lists", func() bool { return f.value("weir_feed_users") == 10 })
	if _, err := os.Lstat(path + ".force"); err == nil {
		t.Error("the file is still there, for lists to come")
	}
}

func TestADeletedUserIsForgottenAndErased(t *testing.T) {
	eachShape(t, func(t *testing.T, as shape, names bool) {
		dir := writeDemo(t, as, names)
		s := serveFeed(t, dir, server.Config{}, func(c *Config) { c.tend = time.Millisecond })
		s.take(0, 4, 7)
		s.problem(404, "DELETE", "/admin/feeds/users/4", "")
		if status, body := s.ask("DELETE", "/admin/feeds/users/4"); status != 200 ||
			body != `{"forgotten":true}` {
			t.Errorf("%d %s", status, body)
		}
		for _, path := range []string{"/admin/feeds/users/4", "/admin/feeds/users/nobody"} {
			if status, body := s.ask("DELETE", path); status != 200 || body != `{"forgotten":false}` {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
		s.wantAt(0, 4)
		fewer := demo()
		delete(fewer, 4)
		fewer.write(t, s.cfg.Path, as, names)
		if status, body := s.ask("POST", "/admin/feeds/reload"); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		// What says that somebody is to be erased goes when nothing of them is left.
		systest.Eventually(t, "the end of the erasing", func() bool {
			_, err := os.Lstat(filepath.Join(dir, "feed", "forgotten"))
			return err != nil
		})
	})
}
