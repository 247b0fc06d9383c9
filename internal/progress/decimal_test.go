package progress

import "testing"

func TestDecimalNumbersAreToldFromOtherNames(t *testing.T) {
	for s, want := range map[string]uint64{"0": 0, "7": 7, "123": 123,
		"18446744073709551615": 18446744073709551615} {
		if n, ok := decimal([]byte(s)); !ok || n != want {
			t.Errorf("%s is %d, %t", s, n, ok)
		}
	}
	for _, s := range []string{
		"", "00", "0123", "+1", "-1", " 1", "1 ", "1e3", "0x1", "18446744073709551616",
		"28446744073709551615",
		"99999999999999999999", "100000000000000000000", "\u0661",
	} {
		if n, ok := decimal([]byte(s)); ok {
			t.Errorf("%q is said to be the number %d", s, n)
		}
	}
}
