package featurestore

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"math"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/internal/bandit/featurestore/feasttest"
	"weir/internal/systest"
)

func TestMain(m *testing.M) { os.Exit(feasttest.Main(m)) }

// Against the real Feast: what is in its stores is in feasttest/fill.py.

// stores runs a test over both of Feast's stores.
func stores(t *testing.T, test func(t *testing.T, url string)) {
	feast := feasttest.Shared(t)
	for _, url := range []string{"feast+http://" + feast.Server, "feast+redis://" + feast.Redis.Addr + "/" +
		feasttest.Project} {
		name, _, _ := strings.Cut(url, ":")
		t.Run(name, func(t *testing.T) { test(t, url) })
	}
}

func TestFeastKnowsItsItems(t *testing.T) {
	articles := func(o *Options) {
		o.ItemView, o.ItemEntity, o.Clicks, o.Impressions = "articles", "article_id", "clicks", "impressions"
	}
	items := map[string]Arm{
		"1": {1.5, 2, true}, "1000": {1000.5, 2000, true}, "-7": {4, 5, true},
		"9007199254740993": {6, 7, true},
		// Unknown, or no int64.
		"1001": {}, "nobody": {}, "01": {}, "99999999999999999999": {}, "": {},
		"2001": {}, // alpha is null
		"2002": {}, // alpha is negative
		"2003": {}, // alpha is infinite
	}
	for _, test := range []struct {
		name    string
		options func(*Options)
		want    map[string]Arm
	}{
		{"int64", nil, items},
		{"int64, configured", func(o *Options) { o.IDType = "int64" }, items},
		{"string", articles, map[string]Arm{
			"a": {4, 8, true}, "7": {1, 6, true}, "007": {6, 1, true}, `ö/"ü`: {2, 2, true},
			"old":             {5, 5, true},
			"too many clicks": {}, "b": {}, "8": {},
		}},
		{"string, numbers alone", articles, map[string]Arm{"7": {1, 6, true}, "8": {}}},
		{"string, no old values", func(o *Options) { articles(o); o.MaxAge = 24 * time.Hour },
			map[string]Arm{"a": {4, 8, true}, "old": {}}},
		{"string, another prior", func(o *Options) { articles(o); o.Prior = [2]float64{0.5, 2} },
			map[string]Arm{"a": {3.5, 9, true}, "b": {}}},
		{"int32", func(o *Options) { o.ItemView, o.ItemEntity = "small", "small_id" },
			map[string]Arm{"5": {3.5, 1, true}, "-6": {7.25, 2, true}, "7": {}}},
		{"int32, configured",
			func(o *Options) { o.ItemView, o.ItemEntity, o.IDType = "small", "small_id", "int32" },
			map[string]Arm{"5": {3.5, 1, true}, "99999999999": {}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			stores(t, func(t *testing.T, url string) {
				s := openStore(t, url, test.options)
				ids := slices.Sorted(maps.Keys(test.want))
				for range 2 { // the second time from memory
					for i, got := range arms(t, s, ids...) {
						if want := test.want[ids[i]]; got != want {
							t.Errorf("%q: got %v, want %v", ids[i], got, want)
						}
					}
				}
				if err := s.Ready(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestFeastKnowsSegments(t *testing.T) {
	stores(t, func(t *testing.T, url string) {
		for view, want := range map[string][]string{"users": {"young", "", "", ""},
			"clusters": {"12", "-1", "", ""}} {
			s := openStore(t, url, func(o *Options) { o.UserView = view })
			got := make([]string, 4)
			if degraded, err := s.Segments(context.Background(), []string{"u1", "u2", "u3", "u4"},
				got); degraded || err != nil {
				t.Fatal(degraded, err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", view, got, want)
			}
		}
	})
}

func TestFeastIsAskedInChunks(t *testing.T) {
	stores(t, func(t *testing.T, url string) {
		s := openStore(t, url, nil)
		ids := make([]string, 1100)
		for i := range ids {
			ids[i] = strconv.Itoa(i + 1)
		}
		for i, got := range arms(t, s, ids...) {
			want := Arm{float64(i) + 1.5, 2 * float64(i+1), true}
			if i >= 1000 {
				want = Arm{}
			}
			if got != want {
				t.Fatalf("%s: got %v, want %v", ids[i], got, want)
			}
		}
		if n := s.metrics.duration.Distribution(); n.Count() != 11 {
			t.Errorf("%d fetches of %d entities, want 11", n.Count(), len(ids))
		}
	})
}

func TestFeastServerSaysWhatIsWrongWithTheNames(t *testing.T) {
	feast := feasttest.Shared(t)
	for flag, change := range map[string]func(*Options){
		"--bandit-store-item-view":   func(o *Options) { o.ItemView = "itms" },
		"--bandit-store-item-entity": func(o *Options) { o.ItemEntity = "itm_id" },
		"features":                   func(o *Options) { o.Alpha = "alfa" },
	} {
		s := openStore(t, "feast+http://user:s3cret@"+feast.Server, change)
		_, err := s.Arms(context.Background(), []string{"1"}, make([]Arm, 1))
		if err == nil || !strings.Contains(err.Error(), flag) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got error %v", flag, err)
		}
		if ready := s.Ready(); ready == nil || ready.Error() != err.Error() {
			t.Errorf("Ready says %v, expected %v", ready, err)
		}
	}
}

func TestRedisThatHangsOrEndsIsLivedThrough(t *testing.T) {
	feasttest.Shared(t) // or the test is skipped
	redis, err := feasttest.NewRedis(t.TempDir())
	feasttest.Need(t, err)
	defer func() { redis.Stop() }()
	write := func() {
		t.Helper()
		writeLikeFeast(t, "feast+redis://"+redis.Addr+"/p", nil, map[string][2]float64{"1": {2, 3}})
	}
	write()
	s := openStore(t, "feast+redis://"+redis.Addr+"/p", func(o *Options) {
		o.Timeout, o.TTL, o.Retry, o.IDType = 500*time.Millisecond, time.Nanosecond, time.Millisecond, "int64"
	})
	want := Arm{2, 3, true}
	ask := func(id string) (Arm, bool, error) {
		var dst [1]Arm
		degraded, err := s.Arms(context.Background(), []string{id}, dst[:])
		return dst[0], degraded, err
	}
	// A laden machine may be slower than the timeout.
	systest.Eventually(t, "the store answers",
		func() bool { arm, degraded, err := ask("1"); return arm == want && !degraded && err == nil })

	for name, break_ := range map[string]struct {
		never   string // fetched
		off, on func()
	}{
		"hanging": {
			"2",
			func() { must(t, redis.Signal(syscall.SIGSTOP)) },
			func() { must(t, redis.Signal(syscall.SIGCONT)) },
		},
		"ended": {
			"3",
			func() { must(t, redis.Stop()) },
			func() { must(t, redis.Start()); write() },
		},
	} {
		break_.off()
		if arm, degraded, err := ask("1"); arm != want || !degraded || err != nil {
			t.Errorf("%s: got %v, degraded %v, error %v; expected what it was before, degraded", name, arm,
				degraded, err)
		}
		if _, _, err := ask(break_.never); err == nil || !strings.Contains(err.Error(), redis.Addr) {
			t.Errorf("%s: error %v for an item that was never fetched", name, err)
		}
		if s.Ready() == nil {
			t.Errorf("%s: the store says it is ready", name)
		}
		break_.on()
		systest.Eventually(t, name+": the store is back", func() bool {
			arm, degraded, err := ask("1")
			return arm == want && !degraded && err == nil && s.Ready() == nil
		})
	}
}

func TestRedisWantsAPasswordAndSpeaksTLS(t *testing.T) {
	feasttest.Shared(t)
	cert, key := certificate(t)
	redis, err := feasttest.NewEncryptedRedis(t.TempDir(), cert, key, "--requirepass", "s3cret:@/")
	feasttest.Need(t, err)
	defer func() { redis.Stop() }()

	trust := func(o *Options) { o.CA = cert }
	for _, test := range []struct {
		url    string
		change func(*Options)
		want   string // in the error
	}{
		{"feast+rediss://:s3cret%3A%40%2F@" + redis.Addr + "/p?db=3", trust, ""},
		{"feast+rediss://default:s3cret%3A%40%2F@" + redis.Addr + "/p?db=3", trust, ""},
		{"feast+rediss://:wr0ng@" + redis.Addr + "/p?db=3", trust, "WRONGPASS"},
		{"feast+rediss://" + redis.Addr + "/p?db=3", trust, "NOAUTH"},
		{"feast+rediss://:s3cret%3A%40%2F@" + redis.Addr + "/p?db=3", nil, "certificate"},
		{"feast+redis://:s3cret%3A%40%2F@" + redis.Addr + "/p?db=3", nil, redis.Addr},
	} {
		if test.want == "" {
			writeLikeFeast(t, test.url, trust, map[string][2]float64{"1": {2, 3}})
		}
		s := openStore(t, test.url, test.change)
		var got [1]Arm
		_, err := s.Arms(context.Background(), []string{"1"}, got[:])
		switch {
		case test.want == "" && (err != nil || got[0] != Arm{2, 3, true}):
			t.Errorf("%s: got %v, error %v", test.url, got[0], err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: error %v, expected %s", test.url, err, test.want)
		case err != nil && (strings.Contains(err.Error(), "s3cret") ||
			strings.Contains(err.Error(), "wr0ng")):
			t.Errorf("%s: the password is in the error %v", test.url, err)
		}
	}
}

// writeLikeFeast writes alpha and beta of items into Redis as Feast does.
func writeLikeFeast(t testing.TB, url_ string, change func(*Options), items map[string][2]float64) {
	t.Helper()
	o := DefaultOptions()
	if change != nil {
		change(&o)
	}
	u, err := url.Parse(url_)
	must(t, err)
	f, err := newFeastRedis(u, &o)
	must(t, err)
	defer f.close()
	client, err := f.client.get(t.Context())
	must(t, err)
	double := func(n float64) string {
		return string(protowire.AppendFixed64(protowire.AppendTag(nil, valueDouble, protowire.Fixed64Type),
			math.Float64bits(n)))
	}
	for id, shape := range items {
		key := string(appendEntityKey(nil, o.ItemEntity, id, formInt64)) + f.project
		hset := client.B().Hset().Key(key).FieldValue().
			FieldValue(featureField(o.ItemView, o.Alpha), double(shape[0])).
			FieldValue(featureField(o.ItemView, o.Beta), double(shape[1])).Build()
		must(t, client.Do(t.Context(), hset).Error())
	}
}

// certificate writes one for 127.0.0.1 that is its own authority, and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	must(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
	return cert, key
}
