// Package operate is what the person who runs a cluster of weir nodes sees and does: the flags that name the
// engine, the check of its settings, its state for /health, metrics and the dashboard.
//
// Check asks all nodes of the engine and says which settings break a promise or hurt. What breaks a promise
// keeps a node from starting, unless the flags say that it may: then the node's health is degraded with that
// reason for as long as it runs.
//
// The password comes from a file or the environment. It is in no flag, error, log or answer.
package operate

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"weir/internal/cluster"
	"weir/internal/config"
	"weir/internal/server"
)

// PasswordVariable is the environment variable that holds the engine's password.
const PasswordVariable = "WEIR_CLUSTER_PASSWORD"

// Flags say which engine a node uses, and how. The zero value of what they are parsed into is a box: no
// engine. It implements server.Opener.
type Flags struct {
	engine             string
	ca, cert, key      string
	user, passwordFile string
	prefix             string
	replicas           int
	timeout            time.Duration
	lost               string
	unsafe             bool
	restartDelay       time.Duration
	set                *pflag.FlagSet
	at                 cluster.Options // of Check, as --cluster says
}

// The words of --cluster-lost.
const (
	lostRefuse   = "refuse"
	lostFallback = "serve-fallback"
)

// Name implements server.Opener.
func (o *Flags) Name() string { return "cluster" }

// AddFlags implements server.Opener.
func (o *Flags) AddFlags(f *pflag.FlagSet) {
	o.set = f
	f.StringVar(&o.engine, "cluster", "", "keep state in this Valkey or Redis cluster, for many nodes: "+
		"valkey://HOST:PORT,HOST:PORT, valkeys:// with TLS; some of its nodes are enough")
	f.StringVar(&o.user, "cluster-user", "", "user of the engine's ACL (default the default user)")
	config.File(f, &o.passwordFile, "cluster-password-file",
		"file of the engine's password; without it, "+PasswordVariable+" in the environment")
	config.File(f, &o.ca, "cluster-ca", "certificates that may sign the engine's, PEM (default the system's)")
	config.File(f, &o.cert, "cluster-cert", "certificate chain that this node shows the engine, PEM")
	config.File(f, &o.key, "cluster-key", "private key of --cluster-cert, PEM")
	f.IntVar(&o.replicas, "cluster-replicas", 1,
		"replicas that must have a change before it is answered; all that a shard has is the strict form")
	f.StringVar(&o.prefix, "cluster-prefix", "weir", "beginning of the names of all keys")
	f.DurationVar(&o.timeout, "cluster-timeout", 2*time.Second,
		"for an answer of the engine, its replicas' included; later is 503")
	f.DurationVar(&o.restartDelay, "cluster-restart-delay", 0, "what you promise: an engine's node that "+
		"has ended is started again no sooner than this. Above twice its cluster-node-timeout keeps every "+
		"promise, unless appendfsync is always")
	config.Choice(f, &o.lost, "cluster-lost", lostRefuse, "what feeds answer while the engine does not: "+
		"refuse, 503, or serve-fallback, fallback items that are marked", lostRefuse, lostFallback)
	f.BoolVar(&o.unsafe, "cluster-unsafe", false,
		"serve though the engine's settings do not keep the promises; see weir cluster check")
}

// Given says whether there is an engine.
func (o *Flags) Given() bool { return o.engine != "" }

// FallbackWhenLost says whether feeds are fallback items while the engine is lost.
func (o *Flags) FallbackWhenLost() bool { return o.lost == lostFallback }

// Check implements server.Opener.
func (o *Flags) Check() error {
	if !o.Given() {
		var lonely error
		o.set.VisitAll(func(f *pflag.Flag) {
			if f.Changed && strings.HasPrefix(f.Name, "cluster-") && lonely == nil {
				lonely = fmt.Errorf("--%s is for a cluster: name its engine with --cluster", f.Name)
			}
		})
		return cmp.Or(lonely, server.ErrOff)
	}
	at, err := cluster.ParseURL(o.engine)
	if err != nil {
		return fmt.Errorf("--cluster: %w", err)
	}
	if o.at = at; o.user != "" {
		if at.User != "" && at.User != o.user {
			return fmt.Errorf("--cluster-user is %s, and --cluster says %s", o.user, at.User)
		}
		o.at.User = o.user
	}
	for _, f := range []string{"cluster-ca", "cluster-cert", "cluster-key"} {
		if at.TLS == nil && o.set.Lookup(f).Value.String() != "" {
			return fmt.Errorf("--%s is for TLS: write --cluster valkeys://", f)
		}
	}
	switch {
	case (o.cert == "") != (o.key == ""):
		return errors.New("--cluster-cert and --cluster-key go together")
	case o.passwordFile != "" && os.Getenv(PasswordVariable) != "":
		return errors.New("--cluster-password-file and " + PasswordVariable + " are both set: keep one")
	case o.at.User != "" && o.passwordFile == "" && os.Getenv(PasswordVariable) == "":
		return fmt.Errorf("--cluster-user needs a password: --cluster-password-file or %s", PasswordVariable)
	case o.replicas < 0:
		return fmt.Errorf("--cluster-replicas must be from 1, got %d", o.replicas)
	case o.replicas == 0 && !o.unsafe:
		return errors.New("--cluster-replicas 0 gives items twice when a primary of the engine is lost: " +
			"say --cluster-unsafe as well if that is what you want")
	case o.timeout < 10*time.Millisecond:
		return fmt.Errorf("--cluster-timeout must be from 10ms, got %v", o.timeout)
	case o.restartDelay < 0:
		return fmt.Errorf("--cluster-restart-delay must not be negative, got %v", o.restartDelay)
	case o.prefix == "" || len(o.prefix) > 64 || strings.ContainsFunc(o.prefix, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '{' || r == '}'
	}):
		return fmt.Errorf("--cluster-prefix must be 1 to 64 letters, digits and signs, without blanks and "+
			"braces, got %.80q", o.prefix)
	}
	return nil
}

// Options returns how to reach the engine, after a Check that returned nil. It reads the files that the
// flags name.
func (o *Flags) Options() (cluster.Options, error) {
	co := o.at
	co.Prefix, co.Replicas, co.Timeout = o.prefix, o.replicas, o.timeout
	co.Password = os.Getenv(PasswordVariable)
	if o.passwordFile != "" {
		text, err := os.ReadFile(o.passwordFile)
		if err != nil {
			return co, fmt.Errorf("--cluster-password-file: %w", err)
		}
		if co.Password = strings.TrimRight(string(text), "\r\n"); co.Password == "" {
			return co, fmt.Errorf("--cluster-password-file %s is empty", o.passwordFile)
		}
	}
	if co.TLS == nil {
		return co, nil
	}
	co.TLS = co.TLS.Clone()
	if o.ca != "" {
		text, err := os.ReadFile(o.ca)
		if err != nil {
			return co, fmt.Errorf("--cluster-ca: %w", err)
		}
		co.TLS.RootCAs = x509.NewCertPool()
		if !co.TLS.RootCAs.AppendCertsFromPEM(text) {
			return co, fmt.Errorf("--cluster-ca %s holds no certificate in PEM", o.ca)
		}
	}
	if o.cert != "" {
		pair, err := tls.LoadX509KeyPair(o.cert, o.key)
		if err != nil {
			return co, fmt.Errorf("--cluster-cert %s, --cluster-key %s: %w", o.cert, o.key, err)
		}
		co.TLS.Certificates = []tls.Certificate{pair}
	}
	return co, nil
}
