package config

import (
	"errors"
	"testing"
)

func TestASettingIsSetCheckedAndThenApplied(t *testing.T) {
	r := newRoof()
	lasting := 0
	settings := Settings(r.flags, func() error {
		if r.tiles < 1 {
			return errors.New("--tiles must be 1 or more")
		}
		return nil
	}, func() { lasting = r.tiles }, map[string]string{"tiles": "from 1", "colour": "red or green"})
	if len(settings) != 2 || settings[0].Flag.Name != "colour" || settings[1].Bounds != "from 1" {
		t.Fatalf("%+v", settings)
	}
	tiles := settings[1]
	if err := tiles.Set("0"); err != nil || tiles.Check() == nil {
		t.Errorf("%v: no roof has 0 tiles", err)
	}
	if err := tiles.Set("7"); err != nil || tiles.Check() != nil || lasting != 0 {
		t.Errorf("%v, %d: what is set is not in effect yet", err, lasting)
	}
	if tiles.Apply(); lasting != 7 {
		t.Errorf("%d tiles", lasting)
	}
	if err := tiles.Set("many"); err == nil || r.tiles != 7 ||
		err.Error() != `invalid argument "many" for "--tiles" flag: invalid syntax` {
		t.Errorf("%v, %d tiles", err, r.tiles)
	}
	if err := settings[0].Set("pink"); err == nil ||
		err.Error() != `--colour must be red or green, got "pink"` {
		t.Error(err)
	}
}
