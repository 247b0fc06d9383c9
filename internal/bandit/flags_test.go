package bandit

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"weir/internal/metrics"
	"weir/internal/server"
)

// opened parses flags and opens the bandit they make.
func opened(t *testing.T, args ...string) error {
	t.Helper()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	var o Flags
	o.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := o.Check(); err != nil {
		return err
	}
	service, err := o.Open(t.Context(), server.Env{DataDir: t.TempDir(), Metrics: metrics.New(1),
		Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		if err := service.Close(); err != nil {
			t.Error(err)
		}
	}
	return err
}

// A zero that is given is not the default, 250 ms for a timeout for one.
func TestAZeroThatIsGivenIsNotTakenForTheDefault(t *testing.T) {
	for flag, c := range map[string][2]string{
		"chunk":       {"0", "above 0; without it, it is 100"},
		"concurrency": {"0", "above 0; without it, it is 32"},
		"timeout":     {"0s", "above 0; without it, it is 250ms"},
		"retry":       {"0", "above 0; without it, it is 1s"},
		"item-view":   {"", "a name; without it, it is items"},
		"id-type":     {"", "auto, string, int64 or int32; without it, it is auto"},
		"cache-entries": {"0", "above 0; --bandit-store-cache-ttl 0 --bandit-store-cache-stale 0 does " +
			"without a cache; without it, it is 1000000"},
		"item-entity": {"", "a name; without it, it is item_id"},
		"user-entity": {"", "a name; without it, it is user_id"},
		"segment":     {"", "a name; without it, it is segment"},
	} {
		err := opened(t, "--bandit-store", "feast+http://127.0.0.1:1", "--bandit-store-"+flag, c[0])
		if want := "--bandit-store-" + flag + " must be " + c[1]; err == nil || err.Error() != want {
			t.Errorf("--bandit-store-%s %q: %v, want %s", flag, c[0], err, want)
		}
	}
}

func TestAModelOfSeveralPartsOfAPathIsRefused(t *testing.T) {
	if err := opened(t, "--bandit-model=a/b"); err == nil ||
		!strings.HasPrefix(err.Error(), "--bandit-model must have no slash") {
		t.Errorf("%v", err)
	}
}

func TestFlagsThatDoNothingAreRefused(t *testing.T) {
	const redis, vertex = "--bandit-store=feast+redis://127.0.0.1:1/shop",
		"--bandit-store=vertex://shop/europe-west1/store"
	for _, c := range []struct{ flags, says string }{
		{"--bandit-store-timeout=1s --bandit-store-user-view=users",
			"--bandit-store-timeout, --bandit-store-user-view: there is no feature store to apply to; name " +
				"one with --bandit-store, or leave it out"},
		{"--bandit=false --bandit-prior=2,2 --bandit-arms=arms.weir",
			"--bandit-arms, --bandit-prior: the bandit is off; leave it out, or --bandit=false"},
		{"--bandit=false " + redis, "--bandit-store: the bandit is off"},
		// Even if it is the default.
		{"--bandit-store-chunk=100", "--bandit-store-chunk: there is no feature store"},
		{"--bandit-store= --bandit-store-chunk=100", "--bandit-store-chunk: there is no feature store"},
		{"--bandit-on-store-error=prior", "--bandit-on-store-error: there is no feature store to fail"},
		{redis + " --bandit-on-store-error=prior", ""},
		{"--bandit-arms-watch=2s",
			"--bandit-arms-watch: there is no file to look at; name one with --bandit-arms"},
		{redis + " --bandit-arms-watch=2s", "--bandit-arms-watch: there is no file to look at"},
		{redis + " --bandit-store-chunk=7 --bandit-store-id-type=int64 --bandit-store-item-entity=i " +
			"--bandit-store-item-view=v", ""},
		{redis + " --bandit-store-ca=ca.pem", "--bandit-store-ca does nothing here: it is for " +
			"feast+https://, feast+rediss:// and vertex://; leave it out"},
		{redis + " --bandit-store-segment=s", "--bandit-store-segment does nothing here: without " +
			"--bandit-store-user-view nobody has a segment"},
		{redis + " --bandit-store-user-entity=u", "--bandit-store-user-entity does nothing here: without " +
			"--bandit-store-user-view nobody has a segment"},
		{redis + " --bandit-store-user-entity=u --bandit-store-segment=s --bandit-store-user-view=v", ""},
		{redis + " --bandit-store-alpha=a --bandit-store-clicks=c --bandit-store-impressions=i",
			"--bandit-store-alpha does nothing here: --bandit-store-clicks and --bandit-store-impressions " +
				"are read instead"},
		{redis + " --bandit-store-beta=b --bandit-store-clicks=c --bandit-store-impressions=i",
			"--bandit-store-beta does nothing here"},
		{redis + " --bandit-store-alpha=a --bandit-store-beta=b", ""},
		{redis + " --bandit-store-cache-ttl=0 --bandit-store-cache-stale=0 --bandit-store-cache-entries=7",
			"--bandit-store-cache-entries does nothing here: with --bandit-store-cache-ttl 0 and"},
		{redis + " --bandit-store-cache-ttl=0 --bandit-store-cache-entries=7", ""},
		{vertex + " --bandit-store-item-view=v", ""},
		{vertex + "/type --bandit-store-item-view=v", "--bandit-store-item-view does nothing here: the URL " +
			"of --bandit-store names the view of items"},
		{vertex + " --bandit-store-item-entity=i",
			"--bandit-store-item-entity does nothing here: Vertex AI knows entities by their ids alone"},
		{vertex + " --bandit-store-user-view=v --bandit-store-user-entity=i",
			"--bandit-store-user-entity does nothing here: Vertex AI"},
		{vertex + " --bandit-store-id-type=int64", "--bandit-store-id-type does nothing here: Vertex AI"},
	} {
		if err := opened(t, strings.Fields(c.flags)...); (err == nil) != (c.says == "") || err != nil &&
			!strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.flags, err, c.says)
		}
	}
}
