package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// Library is functions in Lua. Nodes of weir whose code differs have libraries of different names and do not
// disturb each other; that they mean the same data by the same keys is what Format is for.
type Library struct {
	name, hash, code string
}

// prelude lets Lua register functions with the library's hash behind their names.
const prelude = "#!lua name=%LIBRARY%\n" +
	"local function define(name, callback, ...) " +
	"redis.register_function{function_name = name .. '_%HASH%', callback = callback, flags = {...}} end\n"

// NewLibrary returns a library of what lua defines, by
//
//	define('name', function(keys, args) ... end, 'flag', ...)
//
// where flags are those of redis.register_function. The name is letters, digits and underscores.
func NewLibrary(name, lua string) *Library {
	sum := sha256.Sum256([]byte(prelude + name + "\x00" + lua))
	l := &Library{name: name, hash: hex.EncodeToString(sum[:4])}
	in := strings.NewReplacer("%LIBRARY%", "weir_"+name+"_"+l.hash, "%HASH%", l.hash)
	l.code = in.Replace(prelude) + lua
	return l
}

// Function returns the name by which FCALL finds a function that the library defines.
func (l *Library) Function(name string) string { return name + "_" + l.hash }

// Call returns the arguments of a Command that calls a function. keys are of one slot.
func (l *Library) Call(name string, keys []string, args ...string) []string {
	call := make([]string, 0, 3+len(keys)+len(args))
	call = append(call, "FCALL", l.Function(name), strconv.Itoa(len(keys)))
	return append(append(call, keys...), args...)
}

// Add has a library be loaded into a primary when a function of it is first called there; that call then
// waits for it.
func (c *Client) Add(l *Library) {
	c.mu.Lock()
	c.libraries[l.hash] = l
	c.mu.Unlock()
}

// Load loads a library into all primaries. From then on one that has lost it, or is new, gets it again when
// a function of it is called there; that call then waits for it.
func (c *Client) Load(ctx context.Context, l *Library) error {
	c.Add(l)
	return c.Each(ctx, func(ctx context.Context, n Node) error {
		if !n.Primary {
			return nil
		}
		return l.loadInto(ctx, n)
	})
}

func (l *Library) loadInto(ctx context.Context, n Node) error {
	_, err := n.Do(ctx, "FUNCTION", "LOAD", l.code)
	if said, ok := err.(Error); ok && strings.Contains(string(said), "already exists") {
		return nil // it has the same code, as its name says
	}
	return err
}

// loadKey is a library that is being loaded into a node.
type loadKey struct{ addr, hash string }

// load loads the library of a function that a node does not know, and submits the call again.
func (c *Client) load(k call, from *link, said Error) {
	var name string
	if len(k.cmd.Args) > 1 {
		name = k.cmd.Args[1]
	}
	hash := name[strings.LastIndexByte(name, '_')+1:]
	key := loadKey{from.addr, hash}
	c.mu.Lock()
	l := c.libraries[hash]
	if k.hops++; l == nil || k.hops > maxHops {
		c.mu.Unlock()
		c.fail(k, said)
		return
	}
	c.loading[key] = append(c.loading[key], k)
	first := len(c.loading[key]) == 1
	c.mu.Unlock()
	if !first {
		return
	}
	c.wg.Go(func() {
		ctx, cancel := context.WithTimeout(c.ctx, c.o.Timeout)
		defer cancel()
		err := l.loadInto(ctx, Node{Addr: key.addr, Primary: true, c: c})
		c.mu.Lock()
		calls := c.loading[key]
		delete(c.loading, key)
		c.mu.Unlock()
		for _, k := range calls {
			if err != nil {
				c.fail(k, unavailable(err))
				continue
			}
			c.submit(k)
		}
	})
}
