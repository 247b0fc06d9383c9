package operate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// parse returns the flags of a command line.
func parse(t *testing.T, args ...string) *Flags {
	t.Helper()
	o, set := new(Flags), pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestMistakesInFlagsAreSaidWithoutThePassword(t *testing.T) {
	for _, c := range []struct {
		args string
		says string
	}{
		{"--cluster 10.0.0.1:6379", "--cluster: expected valkey://"},
		{"--cluster http://10.0.0.1:6379", "--cluster: expected valkey://"},
		{"--cluster valkey://10.0.0.1:0x", "is not HOST:PORT"},
		{"--cluster valkey://", "is not HOST:PORT"},
		{"--cluster valkey://me:SECRET@10.0.0.1:6379", "--cluster-password-file"},
		{"--cluster valkey://me@10.0.0.1:6379", "needs a password"},
		{"--cluster valkey://h:1 --cluster-user me", "needs a password"},
		{"--cluster valkey://you@h:1 --cluster-user me", "--cluster-user is me"},
		{"--cluster valkey://h:1 --cluster-ca ca.pem", "--cluster-ca is for TLS"},
		{"--cluster valkeys://h:1 --cluster-cert c.pem", "go together"},
		{"--cluster valkey://h:1 --cluster-replicas -1", "--cluster-replicas must be from 1"},
		{"--cluster valkey://h:1 --cluster-replicas 0", "--cluster-unsafe"},
		{"--cluster valkey://h:1 --cluster-timeout 0s", "--cluster-timeout must be"},
		{"--cluster valkey://h:1 --cluster-restart-delay -1s", "--cluster-restart-delay must not"},
		{"--cluster valkey://h:1 --cluster-prefix {a}", "--cluster-prefix must be"},
		{"--cluster-replicas 2", "--cluster-replicas is for a cluster"},
		{"--cluster-lost serve-fallback", "--cluster-lost is for a cluster"},
	} {
		err := parse(t, strings.Fields(c.args)...).Check()
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v, want an error that says %q", c.args, err, c.says)
		}
	}
}

func TestThePasswordComesFromAFileOrTheEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("p w\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(args ...string) (string, error) {
		o := parse(t, append(args, "--cluster", "valkey://h:1", "--cluster-user", "me")...)
		if err := o.Check(); err != nil {
			return "", err
		}
		co, err := o.Options()
		return co.Password, err
	}
	if got, err := read("--cluster-password-file", file); got != "p w" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	if _, err := read("--cluster-password-file", file+"x"); err == nil {
		t.Error("no error of a file that is missing")
	}
	t.Setenv(PasswordVariable, "env")
	if got, err := read(); got != "env" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	if _, err := read("--cluster-password-file", file); err == nil {
		t.Error("no error of two passwords")
	}
}

func TestWrongCertificatesAreRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--cluster-ca", file}, {"--cluster-ca", file + "x"},
		{"--cluster-cert", file, "--cluster-key", file}} {
		o := parse(t, append(args, "--cluster", "valkeys://h:1")...)
		if err := o.Check(); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Options(); err == nil || !strings.Contains(err.Error(), args[0]) {
			t.Errorf("%v: %v", args, err)
		}
	}
	o := parse(t, "--cluster", "valkeys://h:1")
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	if co, err := o.Options(); err != nil || co.TLS == nil || co.TLS.InsecureSkipVerify {
		t.Errorf("valkeys:// is without TLS: %v", err)
	}
}
