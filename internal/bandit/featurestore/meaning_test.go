package featurestore

import (
	"math"
	"strings"
	"testing"
)

func num(n float64) value { return value{kind: kindNumber, number: n} }
func txt(s string) value  { return value{kind: kindText, text: s} }

func TestWhatValuesMean(t *testing.T) {
	shapes, counts := DefaultOptions(), DefaultOptions()
	counts.Clicks, counts.Impressions, counts.Prior = "clicks", "views", [2]float64{0.5, 2}
	for _, test := range []struct {
		o     Options
		row   [2]value
		want  Arm
		wrong string // part of what is said of it
	}{
		{shapes, [2]value{num(2), num(3)}, Arm{2, 3, true}, ""},
		{shapes, [2]value{txt(" 2.5 "), txt("3e2")}, Arm{2.5, 300, true}, ""},
		{shapes, [2]value{num(5e-324), num(math.MaxFloat64)}, Arm{5e-324, math.MaxFloat64, true}, ""},
		{shapes, [2]value{num(2), {}}, Arm{}, ""},
		{shapes, [2]value{{}, txt("x")}, Arm{}, ""},
		{shapes, [2]value{num(0), num(1)}, Arm{}, "alpha must be above 0"},
		{shapes, [2]value{num(1), num(-1)}, Arm{}, "beta must be above 0"},
		{shapes, [2]value{num(math.NaN()), num(1)}, Arm{}, "alpha is NaN"},
		{shapes, [2]value{num(1), txt("Infinity")}, Arm{}, "beta is +Inf"},
		{shapes, [2]value{txt("many"), num(1)}, Arm{}, "alpha is no number"},
		{shapes, [2]value{{kind: kindOther}, num(1)}, Arm{}, "alpha is no number"},
		{shapes, [2]value{num(1), {kind: kindBroken}}, Arm{}, "beta is not encoded"},
		{counts, [2]value{num(3), num(10)}, Arm{3.5, 9, true}, ""},
		{counts, [2]value{num(0), num(0)}, Arm{0.5, 2, true}, ""},
		{counts, [2]value{num(10), num(10)}, Arm{10.5, 2, true}, ""},
		{counts, [2]value{num(11), num(10)}, Arm{}, "11 clicks of 10 views"},
		{counts, [2]value{num(-1), num(10)}, Arm{}, "-1 clicks of 10 views"},
		{counts, [2]value{num(1), num(math.Inf(1))}, Arm{}, "views is +Inf"},
	} {
		got, wrong := test.o.arm(test.row[:])
		if got != test.want || !strings.Contains(wrong, test.wrong) || (wrong == "") != (test.wrong == "") {
			t.Errorf("%+v: got %v, %q, want %v, %q", test.row, got, wrong, test.want, test.wrong)
		}
	}

	long := strings.Repeat("x", longestSegment)
	for _, test := range []struct {
		v           value
		want, wrong string
	}{
		{value{}, "", ""},
		{txt("young"), "young", ""},
		{value{kind: kindNumber, number: 12, text: "12"}, "12", ""},
		{txt(long), long, ""},
		{txt(long + "x"), "", "1025 bytes"},
		{value{kind: kindOther}, "", "neither text nor a number"},
		{value{kind: kindBroken}, "", "not encoded"},
	} {
		got, wrong := shapes.segment([]value{test.v})
		if got != test.want || !strings.Contains(wrong, test.wrong) || (wrong == "") != (test.wrong == "") {
			t.Errorf("%.40v: got %.40q, %q", test.v, got, wrong)
		}
	}
}
