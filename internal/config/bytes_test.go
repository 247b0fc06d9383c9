package config

import "testing"

func TestSizesAreReadAndShown(t *testing.T) {
	for text, want := range map[string]struct {
		bytes Bytes
		shown string
	}{
		"1":       {1, "1"},
		"1000":    {1000, "1000"},
		"1048576": {1 << 20, "1MiB"},
		"1536KiB": {1536 << 10, "1536KiB"},
		"1 MiB":   {1 << 20, "1MiB"},
		"16GiB":   {16 << 30, "16GiB"},
		"2048MiB": {2 << 30, "2GiB"},
	} {
		var b Bytes
		if err := b.Set(text); err != nil || b != want.bytes || b.String() != want.shown {
			t.Errorf("%q is %d, %s, %v; want %d, %s", text, b, b.String(), err, want.bytes, want.shown)
		}
	}
}

func TestWhatIsNoSizeIsRefused(t *testing.T) {
	for _, text := range []string{"", "0", "-1", "MiB", "1.5MiB", "1MB", "1mib", "lots",
		"9223372036854775807KiB", "9223372036854775808"} {
		b := Bytes(7)
		if err := b.Set(text); err == nil || b != 7 {
			t.Errorf("%q is taken for %d, %v", text, b, err)
		}
	}
}
