package bandit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/bandit/arms"
	"weir/internal/server"
)

// TestAFileThatIsCutOffWhileItServesIsNoCrash takes away what is mapped. Nobody should, import-arms
// renames; cp over it does.
func TestAFileThatIsCutOffWhileItServesIsNoCrash(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		dir := t.TempDir()
		path := filepath.Join(dir, "arms.weir")
		var all []arm
		for i := range 1000 {
			all = append(all, arm{item: fmt.Sprint(i), alpha: 2, beta: 3})
		}
		writeArms(t, path, all, "u", "s")
		f := open(t, dir, func(c *Config) { c.Arms, c.Learn = path, arms.Pair })
		s := serve(t, f, kernel)
		s.posterior(`{"items":["7"]`, 2, 3, "item")
		if err := os.Truncate(path, 4096); err != nil {
			t.Fatal(err)
		}
		const says = "cannot be read"
		for range 3 {
			for path, body := range map[string]string{
				"/predict": `{"items":[1,2,3]}`, "/predict#": `{"user":"u","items":` + list(0, 300) + `}`,
				"/predict/batch": `[{"items":[1]}]`, "/events": `[{"user":"u","item":1,"reward":1,"id":"x"}]`,
				"/v2/models/bandit/infer": `{"inputs":[{"name":"items","shape":[1],"datatype":"INT64","data":[1]}]}`,
			} {
				s.problem(s.do("POST", s.url+path, body), 503, says)
			}
		}
		ids := len(f.learner.State().IDs[0])
		if n := f.learnedArms(); n != 0 || ids != 0 {
			t.Errorf("an event that failed has taught %d arms and left %d ids", n, ids)
		}
		if a := s.do("GET", s.url+"/health", ""); a.status != 503 ||
			!strings.Contains(a.body, "mapped data cannot be read") {
			t.Errorf("/health: %d %s", a.status, a.body)
		}
		s.problem(s.do("POST", s.url+"/predict", `{}`), 503, "bandit is down")
		// A good file heals it.
		writeArms(t, path, []arm{{item: "7", alpha: 4, beta: 5}})
		if err := f.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.posterior(`{"items":["7"]`, 4, 5, "item")
		s.events(`[{"user":"u","item":7,"reward":1,"id":"x"}]`, accepted{1, 0})
		if strings.Contains(s.log.String(), "BUG") {
			t.Errorf("the log holds %s", s.log)
		}
	})
}
