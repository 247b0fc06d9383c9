package access

import (
	"strings"
	"testing"
)

func TestListeningBeyondLoopbackNeedsAToken(t *testing.T) {
	for _, c := range []struct {
		address, token, says string
	}{
		{"127.0.0.1:0", "", ""},
		{"localhost:0", "", ""},
		{"0.0.0.0:0", "", "set --token"},
		{":0", "", "set --token"},
		{"0.0.0.0:0", "a secret", ""},
		{"127.0.0.1:99999", "", "--listen"},
	} {
		l, err := Listen(c.address, c.token)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s with %q: %v", c.address, c.token, err)
		}
		if err == nil {
			l.Close() //nolint:errcheck // nothing was accepted
		}
	}
}

func TestSecretsAreTheSameWhole(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{"secret", "secret", true}, {"secret", "secre", false}, {"secret", "Secret", false}, {"", "", true},
		{"", "s", false}} {
		if got := Same(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %t", c.a, c.b, got)
		}
	}
}
