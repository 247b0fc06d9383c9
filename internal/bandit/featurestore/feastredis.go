package featurestore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// feastRedis reads Feast's online store in Redis or Valkey: a pipelined HMGET for each entity.
type feastRedis struct {
	name    string // without credentials
	project string
	ages    bool // values' times of observation are wanted
	options valkey.ClientOption

	ctx    context.Context // ends at close, and all connections with it
	cancel context.CancelFunc

	client lazy[valkey.Client] // connects again by itself
}

func newFeastRedis(u *url.URL, o *Options) (*feastRedis, error) {
	project := strings.Trim(u.Path, "/")
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Hostname() == "" || project == "" || strings.Contains(project, "/") ||
		u.Fragment != "" {
		return nil, fmt.Errorf("--bandit-store: Feast's Redis store is %s://HOST:6379/PROJECT, with the "+
			"project's name from feature_store.yaml", u.Scheme)
	}
	f := &feastRedis{project: project, ages: o.MaxAge > 0}
	f.ctx, f.cancel = context.WithCancel(context.Background())

	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "6379")
	}
	f.client.create = func() (valkey.Client, error) { return valkey.NewClient(f.options) }
	f.name = u.Scheme + "://" + host + "/" + project
	f.options = valkey.ClientOption{
		InitAddress: []string{host},
		// The client's own way of waiting, a synchronous read, would not hear of a call that is cancelled.
		AlwaysPipelining: true,
		DisableCache:     true, // ours is in front
		RetryDelay:       onlyOnce,
		Dialer:           net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second},
		// A connection that is silent for so long, though answers are due or a ping is, is given up.
		ConnWriteTimeout: 5 * time.Second,
		DialCtxFn:        f.dial,
	}
	if u.User != nil {
		f.options.Username = u.User.Username()
		f.options.Password, _ = u.User.Password()
	}
	if u.Scheme == "feast+rediss" {
		if f.options.TLSConfig, err = o.tls(); err != nil {
			return nil, err
		}
		f.options.TLSConfig.ServerName = u.Hostname()
	}
	for key, values := range query {
		switch key {
		case "node":
			for _, node := range values { // is part of errors that are logged
				if host, port, err := net.SplitHostPort(node); err != nil || host == "" || port == "" ||
					strings.ContainsAny(node, "@/") {
					return nil, errors.New(
						"--bandit-store: node is HOST:PORT; credentials are those before the first host")
				}
			}
			f.options.InitAddress = append(f.options.InitAddress, values...)
		case "db":
			db, err := strconv.Atoi(values[0])
			if err != nil || db < 0 {
				return nil, errors.New("--bandit-store: db is the number of a Redis database, 0 for one")
			}
			f.options.SelectDB = db
			f.options.ForceSingleClient = true // a cluster has no databases
		default:
			return nil, fmt.Errorf("--bandit-store: a feast+redis URL takes ?db=NUMBER, or &node=HOST:PORT "+
				"for more nodes of a cluster, and no %q", key)
		}
	}
	return f, nil
}

// onlyOnce repeats a read on another connection when the one it was sent on broke, and not again.
func onlyOnce(attempts int, _ valkey.Completed, _ error) time.Duration {
	if attempts > 1 {
		return -1
	}
	return 0
}

// dial makes a connection that ends with the store.
func (f *feastRedis) dial(ctx context.Context, address string, d *net.Dialer,
	t *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.ctx, cancel)()
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if t != nil {
		encrypted := tls.Client(conn, t)
		if err := encrypted.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		conn = encrypted
	}
	return &respGuard{Conn: conn, closed: context.AfterFunc(f.ctx, func() { conn.Close() })}, nil
}

func (f *feastRedis) String() string { return f.name }

func (f *feastRedis) close() error {
	f.cancel()
	if client, made := f.client.last(); made {
		client.Close()
	}
	return nil
}

func (f *feastRedis) fetch(ctx context.Context, t *table, ids []string, values []value) error {
	client, err := f.client.get(ctx)
	if err != nil {
		return redisError(err)
	}
	as := t.form()
	if as != formAuto {
		_, err := f.ask(ctx, client, t, as, ids, values)
		return err
	}
	// A key of the wrong type is one that is not there. Until one is found, all types are tried.
	for _, as := range [...]form{formString, formInt64, formInt32} {
		found, err := f.ask(ctx, client, t, as, ids, values)
		if err != nil {
			return err
		}
		if found {
			t.learn(as)
			return nil
		}
	}
	return nil
}

// ask reads the hashes of the ids that can be written in a form. It reports whether any of them is there.
func (f *feastRedis) ask(ctx context.Context, client valkey.Client, t *table, as form, ids []string,
	values []value) (found bool, err error) {
	fields := f.fields(t)
	// All keys of a chunk share one piece of memory.
	size := 0
	for _, id := range ids {
		size += 20 + len(t.entity) + max(len(id), 8) + len(f.project)
	}
	var keys strings.Builder
	keys.Grow(size)
	var buf []byte
	names := make([]string, 0, len(ids))
	commands := make(valkey.Commands, 0, len(ids))
	rows := make([]int, 0, len(ids))
	for i, id := range ids {
		if !as.fits(id) {
			continue
		}
		buf = append(appendEntityKey(buf[:0], t.entity, id, as), f.project...)
		start := keys.Len()
		keys.Write(buf)
		names = append(names, keys.String()[start:])
		commands = append(commands, client.B().Hmget().Key(names[len(names)-1]).Field(fields...).Build())
		rows = append(rows, i)
	}
	if len(rows) == 0 {
		return false, nil
	}
	for k, result := range client.DoMulti(ctx, commands...) {
		answers, err := result.ToArray()
		if err != nil {
			return false, redisError(err)
		}
		if len(answers) != len(fields) {
			return false, badAnswer("%d values to an HMGET of %d fields", len(answers), len(fields))
		}
		at := int64(0)
		if f.ages && !answers[len(fields)-1].IsNil() {
			b, err := answers[len(fields)-1].AsBytes()
			if err != nil {
				return false, badAnswer("%w", err)
			}
			at = decodeTimestamp(b)
		}
		for j := range t.features {
			if answers[j].IsNil() {
				continue
			}
			b, err := answers[j].AsBytes()
			if err != nil {
				return false, badAnswer("%w", err)
			}
			found = true // even if it is a null
			v := decodeValue(b, t.text)
			if v.kind != kindAbsent {
				v.at = at
				values[rows[k]*len(t.features)+j] = v
			}
		}
	}
	return found, f.checkVersions(ctx, client, t, names)
}

// versionsEvery is how often the hashes of a fetch are searched for versions of its view.
const versionsEvery = 10 * time.Second

// checkVersions refuses a view of which Redis has several versions, while none is named: the registry says
// which is current, Redis does not, and the first one is no longer written once there is another.
func (f *feastRedis) checkVersions(ctx context.Context, client valkey.Client, t *table, keys []string) error {
	if _, named := storedView(t.view); named || !t.versioned.Load() && !due(&t.searched, versionsEvery) {
		return nil
	}
	commands := make(valkey.Commands, len(keys))
	for i, key := range keys {
		commands[i] = client.B().Hkeys().Key(key).Build()
	}
	latest, hashes := 0, 0
	for _, result := range client.DoMulti(ctx, commands...) {
		fields, err := result.AsStrSlice()
		if err != nil {
			return redisError(err)
		}
		hashes += min(len(fields), 1)
		for _, field := range fields {
			if n, ok := strings.CutPrefix(field, "_ts:"+t.view+"_v"); ok {
				v, err := strconv.Atoi(n)
				if err == nil {
					latest = max(latest, v)
				}
			}
		}
	}
	if hashes > 0 {
		t.versioned.Store(latest > 0)
	} else {
		t.searched.Store(0) // it says nothing: the next fetch is searched
	}
	if latest == 0 {
		return nil
	}
	return refused("the feature view %s has versions up to %d in Redis, and which is current the registry "+
		"says alone: "+
		"name one, as in --bandit-store-%s-view %[1]s@v%[2]d (feast feature-views describe %[1]s), or use "+
		"feast+http", t.view, latest, t.flag)
}

// storedView returns the name under which Redis has a view, and whether it names a version: view@v2 is
// view_v2, and view@v0 is view.
func storedView(view string) (name string, named bool) {
	name, version, named := strings.Cut(view, "@v")
	if n, err := strconv.Atoi(version); !named || err != nil || n < 0 {
		return view, false
	} else if n == 0 {
		return name, true
	}
	return name + "_v" + version, true
}

// fields are what is read of an entity's hash: its features, and behind them the time if it is wanted.
func (f *feastRedis) fields(t *table) []string {
	view, _ := storedView(t.view)
	fields := make([]string, 0, len(t.features)+1)
	for _, feature := range t.features {
		fields = append(fields, featureField(view, feature))
	}
	if f.ages {
		fields = append(fields, "_ts:"+view)
	}
	return fields
}

// redisError sorts the errors of the client. Those of the server are in its own words, which begin with a
// code.
func redisError(err error) error {
	var said *valkey.ValkeyError
	switch {
	case valkey.IsValkeyNil(err):
		return badAnswer("a null to an HMGET")
	case errors.As(err, &said):
		text := oneLine([]byte(said.Error()))
		code, _, _ := strings.Cut(text, " ")
		switch code {
		case "NOAUTH", "WRONGPASS", "NOPERM":
			text += " (credentials go into the URL: feast+redis://USER:PASSWORD@HOST:6379/PROJECT; the " +
				"user needs HMGET and HKEYS)"
		case "WRONGTYPE":
			text += " (the key is not Feast's; see --bandit-store-item-entity, --bandit-store-user-entity " +
				"and the project in the URL)"
		}
		return refused("it answered %s", text)
	case valkey.IsParseErr(err):
		return badAnswer("%w", err)
	}
	return err
}
