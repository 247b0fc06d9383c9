package cluster

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// ParseURL reads valkey://HOST:PORT,HOST:PORT, or valkeys:// for TLS, with USER@ in front of the hosts where
// there is one. The port is 6379 if it is not given. A password is refused, as command lines and logs are
// read by others.
func ParseURL(text string) (Options, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	var o Options
	switch {
	case !ok || scheme != "valkey" && scheme != "valkeys":
		return o, errors.New("expected valkey://HOST:PORT,HOST:PORT, or valkeys:// for TLS")
	case scheme == "valkeys":
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		user, password, secret := strings.Cut(rest[:i], ":")
		if secret && password != "" || secret && user == "" {
			return o, errors.New("a password does not belong into the URL, which others can read: put it " +
				"into a file and name that by --cluster-password-file, or into WEIR_CLUSTER_PASSWORD")
		}
		var err error
		if o.User, err = url.PathUnescape(user); err != nil || user == "" {
			return o, errors.New("the user in front of the @ is not one")
		}
		rest = rest[i+1:]
	}
	rest = strings.TrimSuffix(rest, "/")
	for _, addr := range strings.Split(rest, ",") {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			host, port = strings.Trim(addr, "[]"), "6379"
		}
		number, notNumber := strconv.ParseUint(port, 10, 16)
		if host == "" || notNumber != nil || number == 0 || strings.ContainsAny(host, "/?#@ ") ||
			err != nil && strings.Contains(addr, ":") && addr[0] != '[' {
			return o, fmt.Errorf("%q is not HOST:PORT", addr)
		}
		o.Addrs = append(o.Addrs, net.JoinHostPort(host, port))
	}
	return o, nil
}
