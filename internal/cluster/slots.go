package cluster

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// slots is how many slots keys are spread over.
const slots = 16384

// crcTable is that of CRC-16/XMODEM.
var crcTable = func() (t [256]uint16) {
	for i := range t {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
		t[i] = crc
	}
	return t
}()

// Slot returns the slot of a key, 0 to 16383: that of its hash tag, the part between the first { and the
// next }, where there is one.
func Slot(key string) uint16 {
	if i := strings.IndexByte(key, '{'); i >= 0 {
		if n := strings.IndexByte(key[i+1:], '}'); n > 0 {
			key = key[i+1 : i+1+n]
		}
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^key[i]]
	}
	return crc % slots
}

// table says which shard has which slot. It does not change once it is in use.
type table struct {
	shards []shard // by their lowest slot
	slot   [slots]*shard
}

// shard is a primary with slots, and its replicas.
type shard struct {
	index    int
	addr     string
	replicas []string
	link     *link
}

// view is what one node says: who has which slots. Epochs are the versions of its claims.
type view struct {
	ranges []slotRange
	epochs map[string]uint64 // by a node's id
}

type slotRange struct {
	from, to int // both included
	nodes    []endpoint
}

type endpoint struct{ addr, id string }

// parseView reads the answers to CLUSTER SLOTS and CLUSTER NODES of the node at addr.
func parseView(addr string, claims, nodes Reply) (*view, error) {
	v := &view{epochs: make(map[string]uint64)}
	list, err := claims.ToArray()
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		r, err := parseRange(addr, e)
		if err != nil {
			return nil, err
		}
		v.ranges = append(v.ranges, r)
	}
	text, err := nodes.ToString()
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		// ID ADDRESS FLAGS PRIMARY PING-SENT PONG-RECEIVED CONFIG-EPOCH LINK-STATE SLOT...
		if fields := strings.Fields(line); len(fields) >= 8 {
			v.epochs[fields[0]], _ = strconv.ParseUint(fields[6], 10, 64)
		}
	}
	return v, nil
}

func parseRange(addr string, e Reply) (slotRange, error) {
	fields, err := e.ToArray()
	if err != nil {
		return slotRange{}, err
	}
	if len(fields) < 3 || fields[0].kind != kindInt || fields[1].kind != kindInt {
		return slotRange{}, fmt.Errorf("a range of slots of %d fields", len(fields))
	}
	r := slotRange{from: int(fields[0].n), to: int(fields[1].n)}
	if r.from < 0 || r.to < r.from || r.to >= slots {
		return slotRange{}, fmt.Errorf("a range of slots from %d to %d", r.from, r.to)
	}
	for _, f := range fields[2:] {
		node, _ := f.ToArray()
		if len(node) < 2 || node[1].kind != kindInt {
			return slotRange{}, fmt.Errorf("an address of %d fields", len(node))
		}
		var end endpoint
		if end.addr = resolve(addr, node[0].s, strconv.FormatInt(node[1].n, 10)); len(node) > 2 {
			end.id = node[2].s
		}
		r.nodes = append(r.nodes, end)
	}
	return r, nil
}

// resolve returns the address of a node that the one at addr names: without a host it is at the same one.
func resolve(addr, host, port string) string {
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(addr)
	}
	return net.JoinHostPort(host, port)
}

// newTable merges what nodes say. Where they differ on a slot, the owner with the newest claim has it: a
// primary on the wrong side of a partition goes on with an old one.
func newTable(views []*view) *table {
	var owners [slots]*slotRange
	var epochs [slots]uint64
	for _, v := range views {
		for i := range v.ranges {
			r := &v.ranges[i]
			epoch := v.epochs[r.nodes[0].id]
			for s := r.from; s <= r.to; s++ {
				if owners[s] == nil || epoch > epochs[s] {
					owners[s], epochs[s] = r, epoch
				}
			}
		}
	}
	t := new(table)
	byAddr := make(map[string]*shard)
	for s, r := range owners {
		if r == nil {
			continue
		}
		primary := r.nodes[0].addr
		if byAddr[primary] == nil {
			sh := &shard{index: len(byAddr), addr: primary}
			for _, n := range r.nodes[1:] {
				sh.replicas = append(sh.replicas, n.addr)
			}
			slices.Sort(sh.replicas)
			byAddr[primary] = sh
			t.shards = append(t.shards, shard{})
		}
		t.slot[s] = byAddr[primary]
	}
	for _, sh := range byAddr {
		t.shards[sh.index] = *sh
	}
	for s, sh := range t.slot {
		if sh != nil {
			t.slot[s] = &t.shards[sh.index]
		}
	}
	return t
}

// with returns the table with one slot moved to another primary.
func (t *table) with(slot uint16, addr string) *table {
	u := &table{shards: slices.Clone(t.shards)}
	to := slices.IndexFunc(u.shards, func(sh shard) bool { return sh.addr == addr })
	if to < 0 {
		to = len(u.shards)
		u.shards = append(u.shards, shard{index: to, addr: addr})
	}
	for s, sh := range t.slot {
		if sh != nil {
			u.slot[s] = &u.shards[sh.index]
		}
	}
	u.slot[slot] = &u.shards[to]
	return u
}

// redirect parses MOVED and ASK, as the node at addr says them.
func redirect(addr, text string) (slot uint16, to string, ok bool) {
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return 0, "", false
	}
	n, err := strconv.ParseUint(fields[1], 10, 16)
	i := strings.LastIndexByte(fields[2], ':')
	if err != nil || n >= slots || i < 0 {
		return 0, "", false
	}
	return uint16(n), resolve(addr, strings.Trim(fields[2][:i], "[]"), fields[2][i+1:]), true
}
