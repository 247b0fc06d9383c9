package fetch

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// refused are the networks that no stranger's URL leads to: the special-purpose registries of IANA (RFC
// 6890), and those whose addresses carry an IPv4 address that a gateway would go on to.
var refused = prefixes(
	"0.0.0.0/8",        // this network
	"10.0.0.0/8",       // private
	"100.64.0.0/10",    // shared by carriers; metadata of one cloud at 100.100.100.200
	"127.0.0.0/8",      // loopback
	"168.63.129.16/32", // agent and metadata of one cloud
	"169.254.0.0/16",   // link-local; metadata of most clouds
	"172.16.0.0/12",    // private
	"192.0.0.0/24",     // protocol assignments; metadata of one cloud
	"192.0.2.0/24",     // documentation
	"192.88.99.0/24",   // 6to4 relays
	"192.168.0.0/16",   // private
	"198.18.0.0/15",    // benchmarks
	"198.51.100.0/24",  // documentation
	"203.0.113.0/24",   // documentation
	"224.0.0.0/4",      // multicast
	"240.0.0.0/4",      // reserved, and broadcast
	"2001::/23",        // Teredo, ORCHID and other protocol assignments
	"2001:db8::/32",    // documentation
	"2002::/16",        // 6to4: an IPv4 address within
	"3fff::/20",        // documentation
)

// global is where public IPv6 addresses are. All that is special lies outside, or in refused: loopback,
// mapped and compatible IPv4 addresses, NAT64 (64:ff9b::/96 and 64:ff9b:1::/48), unique local, link-local,
// multicast.
var global = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

// Public says whether an address belongs to the public internet. An IPv4 address mapped into IPv6 is judged
// as what it is; one with a zone is not public.
func Public(addr netip.Addr) bool {
	addr = addr.Unmap()
	if !addr.IsValid() || addr.Zone() != "" || addr.Is6() && !global.Contains(addr) {
		return false
	}
	return !slices.ContainsFunc(refused, func(p netip.Prefix) bool { return p.Contains(addr) })
}

func (o *Options) allowsPort(port int) bool { return slices.Contains(o.Ports, port) }

// control is called with every address that is about to be connected to.
func (o *Options) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("%w: %s address %q", ErrRefused, network, address)
	}
	addr := to.Addr().Unmap()
	allowed := slices.ContainsFunc(o.Allow, func(p netip.Prefix) bool {
		return p.Contains(addr.WithZone(""))
	})
	if !allowed && !Public(addr) {
		return fmt.Errorf("%w: %s is no public address; networks that may be fetched from are named by "+
			"--filter-allow-net",
			ErrRefused, addr)
	}
	if !o.allowsPort(int(to.Port())) {
		return fmt.Errorf("%w: port %d is not one of %v", ErrRefused, to.Port(), o.Ports)
	}
	return nil
}
