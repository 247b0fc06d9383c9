package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// roof is a set of flags of several kinds.
type roof struct {
	colour string
	tiles  int
	ratio  float64
	flat   bool
	dries  time.Duration
	holds  Bytes
	names  []string
	file   string
	flags  *pflag.FlagSet
}

func newRoof() *roof {
	r := &roof{flags: pflag.NewFlagSet("", pflag.ContinueOnError)}
	r.flags.StringVar(&r.file, "config", "", "")
	Choice(r.flags, &r.colour, "colour", "red", "", "red", "green")
	r.flags.IntVar(&r.tiles, "tiles", 1, "")
	r.flags.Float64Var(&r.ratio, "tile-ratio", 1, "")
	r.flags.BoolVar(&r.flat, "flat", false, "")
	r.flags.DurationVar(&r.dries, "dry-time-most", 0, "")
	r.flags.Var(&r.holds, "holds", "")
	r.flags.StringSliceVar(&r.names, "names", nil, "")
	return r
}

// fill parses a command line and fills in the rest from a file and an environment.
func (r *roof) fill(t *testing.T, args []string, file string, env map[string]string) (map[string]string,
	error) {
	t.Helper()
	s := Sources{Prefix: "ROOF", Lookup: func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}}
	if file != "" {
		s.File = filepath.Join(t.TempDir(), "roof.toml")
		if err := os.WriteFile(s.File, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	from, err := s.Fill(r.flags, "config")
	for name, source := range from {
		if source == s.File {
			from[name] = "file"
		}
	}
	return from, err
}

func TestTheCommandLineGoesBeforeTheEnvironmentAndThatBeforeTheFile(t *testing.T) {
	r := newRoof()
	from, err := r.fill(t, []string{"--tiles", "3"},
		"tiles = 5\ncolour = \"green\"\nholds = 4096\nflat = true\n",
		map[string]string{"ROOF_TILES": "4", "ROOF_COLOUR": "red", "ROOF_ELSE": "x"})
	want := map[string]string{"tiles": "the command line", "colour": "ROOF_COLOUR",
		"holds": "file", "flat": "file"}
	if err != nil || r.tiles != 3 || r.colour != "red" || r.holds != 4096 || !r.flat ||
		!reflect.DeepEqual(from, want) {
		t.Errorf("%+v from %v, %v", r, from, err)
	}
}

func TestTablesAreTheBeginningsOfNamesAndListsHaveSeveralValues(t *testing.T) {
	r := newRoof()
	_, err := r.fill(t, nil,
		"names = [\"a\", \"b\"]\nholds = \"1MiB\"\n[tile]\nratio = 0.25\n[dry]\ntime.most = \"2s\"\n", nil)
	if err != nil || !reflect.DeepEqual(r.names, []string{"a", "b"}) || r.holds != 1<<20 || r.ratio != 0.25 ||
		r.dries != 2*time.Second {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestEverySettingThatIsWrongIsReportedWithItsSource(t *testing.T) {
	_, err := newRoof().fill(t, nil, `
roof = 1
config = "x"
tiles = "many"
dry-time-most = "1s"
[dry]
time-most = "2s"
[flat]
a = 1
`, map[string]string{"ROOF_COLOUR": "pink", "ROOF_CONFIG": "y"})
	var setting *SettingError
	if !errors.As(err, &setting) {
		t.Fatal(err)
	}
	for _, want := range []string{"roof.toml: roof is no setting", "roof.toml: config is no setting",
		"roof.toml: flat-a is no setting", "roof.toml: dry-time-most is set twice", "ROOF_COLOUR: ",
		"must be red or green", "roof.toml: invalid argument \"many\""} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
}

func TestAFileThatCannotBeReadIsNoWrongSetting(t *testing.T) {
	var setting *SettingError
	missing := Sources{File: filepath.Join(t.TempDir(), "missing")}
	if _, err := missing.Fill(newRoof().flags); err == nil || errors.As(err, &setting) {
		t.Error(err)
	}
	if _, err := newRoof().fill(t, nil, "tiles = ", nil); err == nil || errors.As(err, &setting) {
		t.Error(err)
	}
}

func FuzzFile(f *testing.F) {
	f.Add("tiles = 5\n[tile]\nratio = 1e3\n")
	f.Add("names = [[1], {a = 1}]\ndry.time.most = 2020-01-01\n")
	f.Add("flat = [true]\nholds = nan")
	f.Fuzz(func(t *testing.T, file string) {
		r := newRoof()
		from, err := r.fill(t, nil, file, nil)
		if err == nil && from["colour"] != "" && r.colour != "red" && r.colour != "green" {
			t.Errorf("the colour is %q", r.colour)
		}
	})
}
