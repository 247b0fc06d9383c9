package bandit

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"weir/internal/server"
)

func TestClientsAreNotToldWhereAStoreIs(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		const nowhere = "127.0.0.1:1"
		down := func(prior bool) *served {
			return serve(t, open(t, t.TempDir(), func(c *Config) {
				c.StoreOptions.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError)) // which sets what is usual
				c.Store, c.PriorOnStoreError, c.Prior = "feast+http://"+nowhere, prior, [2]float64{2, 3}
			}), kernel)
		}
		const tensors = `{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":["a"]}]}`
		s := down(false)
		for path, body := range map[string]string{"/predict": `{"user":"u","items":["a"]}`, "/predict/batch": `[{"items":["a"]}]`, "/v2/models/bandit/infer": tensors} {
			a := s.do("POST", s.url+path, body)
			s.problem(a, 503, "the feature store failed: it cannot be reached")
			if strings.Contains(a.body, nowhere) {
				t.Errorf("POST %s: %s", path, a.body)
			}
		}
		s = down(true)
		a := s.do("POST", s.url+"/predict", `{"user":"u","items":["a"],"explain":true}`)
		if a.status != 200 || !strings.HasSuffix(a.body, `"explain":[{"alpha":2,"beta":3,"mean":0.4,"source":"prior"}],"degraded":true}`) {
			t.Errorf("%d %s", a.status, a.body)
		}
		if a = s.do("POST", s.url+"/v2/models/bandit/infer", tensors); a.status != 200 || !strings.Contains(a.body, `"parameters":{"degraded":true}`) {
			t.Errorf("%d %s", a.status, a.body)
		}
		// What events teach is above the prior.
		s.events(`{"user":"u","item":"a","reward":1}`, accepted{1, 0})
		if a = s.do("POST", s.url+"/predict", `{"items":["a"],"explain":true}`); !strings.Contains(a.body, `{"alpha":3,"beta":3,"mean":0.5,"source":"item"}`) {
			t.Errorf("%s", a.body)
		}
	})
}
