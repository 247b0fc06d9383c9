package main

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"weir/internal/cluster"
	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/operate"
)

// composed is what of a compose file the tests look at.
type composed struct {
	Services map[string]struct {
		Image    string
		Build    struct{ Context, Dockerfile string }
		Command  []string
		Volumes  []string
		Secrets  []string
		Networks yaml.Node
	}
	Secrets map[string]struct{ File string }
}

func readCompose(t *testing.T) (c composed) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// composedFlags parses the command of a service as weir does.
func composedFlags(t *testing.T, c composed, service string) *pflag.FlagSet {
	t.Helper()
	command := c.Services[service].Command
	if len(command) == 0 || command[0] != "serve" {
		t.Fatalf("%s does not serve: %q", service, command)
	}
	serve := newServe()
	if err := serve.ParseFlags(command[1:]); err != nil {
		t.Fatalf("%s: %v", service, err)
	}
	return serve.Flags()
}

func TestComposeFileFitsTogether(t *testing.T) {
	c := readCompose(t)
	var engines []string
	for name, s := range c.Services {
		var networks map[string]struct {
			Address string `yaml:"ipv4_address"`
		}
		if strings.HasPrefix(name, "engine") {
			if err := s.Networks.Decode(&networks); err != nil {
				t.Fatal(err)
			}
			engines = append(engines, networks["weir"].Address+":6379")
		}
		for _, volume := range s.Volumes {
			file, _, _ := strings.Cut(volume, ":")
			if _, err := os.Stat(filepath.Join("../../deploy", file)); err != nil && file != "./feeds" {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, secret := range s.Secrets {
			if c.Secrets[secret].File == "" {
				t.Errorf("%s: there is no secret %s", name, secret)
			}
		}
	}
	if len(engines) != 6 {
		t.Errorf("there are %d nodes of the engine, want 3 shards with a replica each", len(engines))
	}
	slices.Sort(engines)
	if form := strings.Join(c.Services["form"].Command, " "); !strings.Contains(strings.Join(
		strings.Fields(strings.ReplaceAll(form, "\\\n", " ")), " "), strings.Join(engines, " ")) {
		t.Errorf("form makes no cluster of %q:\n%s", engines, form)
	}
	var serves, admin []string
	for _, node := range []string{"weir1", "weir2", "weir3"} {
		flags := composedFlags(t, c, node)
		port := func(flag string) string {
			_, port, err := net.SplitHostPort(flags.Lookup(flag).Value.String())
			if err != nil {
				t.Errorf("%s: --%s: %v", node, flag, err)
			}
			return node + ":" + port
		}
		serves, admin = append(serves, port("listen")), append(admin, port("admin"))
		at, err := cluster.ParseURL(flags.Lookup("cluster").Value.String())
		if err != nil {
			t.Fatal(err)
		}
		for _, addr := range at.Addrs {
			if !slices.Contains(engines, addr) {
				t.Errorf("%s: --cluster names %s, which is none of %q", node, addr, engines)
			}
		}
	}
	for file, want := range map[string][]string{"nginx.conf": serves, "prometheus.yml": admin} {
		text, err := os.ReadFile(filepath.Join("../../deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		if got := regexp.MustCompile(`weir\d:\d+`).FindAllString(string(text), -1); !slices.Equal(got, want) {
			t.Errorf("%s names %q, and the compose file has %q", file, got, want)
		}
	}
	var prometheus map[string]any
	text, _ := os.ReadFile("../../deploy/prometheus.yml")
	if err := yaml.Unmarshal(text, &prometheus); err != nil {
		t.Errorf("prometheus.yml: %v", err)
	}
}

// TestComposedEngineKeepsThePromises starts what the compose file says on this machine, and has weir judge
// it.
func TestComposedEngineKeepsThePromises(t *testing.T) {
	c := readCompose(t)
	engine := clustertest.Start(t, clustertest.Options{Server: clustertest.Valkey, Replicas: 1, Own: true,
		Config: strings.Join(c.Services["engine1"].Command, " ")})
	flags, set := new(operate.Flags), pflag.NewFlagSet("cluster", pflag.ContinueOnError)
	flags.AddFlags(set)
	composedFlags(t, c, "weir1").Visit(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, "cluster") {
			if err := set.Set(f.Name, f.Value.String()); err != nil {
				t.Error(err)
			}
		}
	})
	if err := set.Set("cluster", "valkey://"+strings.Join(engine.Addrs(), ",")); err != nil {
		t.Fatal(err)
	}
	if err := flags.Check(); err != nil {
		t.Fatal(err)
	}
	options, err := flags.Options()
	if err != nil {
		t.Fatal(err)
	}
	findings, err := operate.Examine(t.Context(), options, flags.Want())
	if err != nil {
		t.Fatal(err)
	}
	if err := operate.Breaking(findings); err != nil {
		t.Error(err)
	}
}
