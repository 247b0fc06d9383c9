package bandit

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"weir/internal/metrics"
	"weir/internal/server"
)

// A zero that is given is not the default, 250 ms for a timeout for one.
func TestAZeroThatIsGivenIsNotTakenForTheDefault(t *testing.T) {
	for flag, zero := range map[string]string{
		"chunk": "0", "concurrency": "0", "timeout": "0s", "retry": "0", "cache-entries": "0",
		"item-view": "", "item-entity": "", "user-entity": "", "segment": "", "id-type": "",
	} {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		opener := Flags(flags)
		if err := flags.Parse([]string{"--bandit-store", "feast+http://127.0.0.1:1", "--bandit-store-" + flag, zero}); err != nil {
			t.Fatal(err)
		}
		service, err := opener(t.Context(), server.Env{DataDir: t.TempDir(), Metrics: metrics.New(1), Log: slog.New(slog.DiscardHandler)})
		if err == nil {
			service.Close() //nolint:errcheck // the test has failed
		}
		if err == nil || !strings.HasPrefix(err.Error(), "--bandit-store-"+flag+" must be ") {
			t.Errorf("--bandit-store-%s %q: %v", flag, zero, err)
		}
	}
}
