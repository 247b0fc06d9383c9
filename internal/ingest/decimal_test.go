package ingest

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// twosComplement writes a whole number in so many bytes.
func twosComplement(t testing.TB, text string, size int) []byte {
	t.Helper()
	n, ok := new(big.Int).SetString(text, 10)
	if !ok {
		t.Fatalf("%q is no number", text)
	}
	if n.Sign() < 0 {
		n.Add(n, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	return n.FillBytes(make([]byte, size))
}

// decimalFile writes Parquet of a column item without a scale and a column share with one, of a size or,
// with size 0, each value in as many bytes as it needs.
func decimalFile(t *testing.T, size, scale int, rows [][2]string) []byte {
	t.Helper()
	physical := parquet.Types.FixedLenByteArray
	if size == 0 {
		physical = parquet.Types.ByteArray
	}
	var fields schema.FieldList
	var columns []chunk
	for i, name := range []string{"item", "share"} {
		node, err := schema.NewPrimitiveNodeLogical(name, required,
			schema.NewDecimalLogicalType(38, int32(i*scale)), physical, size, -1)
		if err != nil {
			t.Fatal(err)
		}
		fields = append(fields, node)
		var own []parquet.ByteArray
		var fixed []parquet.FixedLenByteArray
		for _, row := range rows {
			if text := row[i]; size > 0 {
				fixed = append(fixed, twosComplement(t, text, size))
			} else if text == "" {
				own = append(own, nil)
			} else {
				b := twosComplement(t, text, 17)
				for len(b) > 1 && b[0] == byte(int8(b[1])>>7) {
					b = b[1:]
				}
				own = append(own, b)
			}
		}
		if size > 0 {
			columns = append(columns, chunk{values: fixed})
		} else {
			columns = append(columns, chunk{values: own})
		}
	}
	return parquetFile(t, fields, columns...)
}

func TestDecimalsThatAreBytesAreNumbers(t *testing.T) {
	nines := strings.Repeat("9", 38)
	rows := [][2]string{
		{"0", "0"}, {"7", "500"}, {"255", "1000"}, {"65536", "1"}, {"9223372036854775807", "333"},
		{"9223372036854775808", "3"},
		{"18446744073709551615", "999"}, {"18446744073709551616", "10"}, {nines, "10"}, {"-1", "10"},
		{"-" + nines, "10"}, {"8", "1001"}, {"9", "-1"}, {"10", "-" + nines},
	}
	good := []string{"0/0", "7/0.5", "255/1", "65536/0.001", "9223372036854775807/0.333",
		"9223372036854775808/0.003", "18446744073709551615/0.999"}
	const number, share = "item: expected a number from 0 to 18446744073709551615 (--item-ids string takes " +
		"names), found ", "share: expected a share from 0 to 1, found "
	const name = "item: expected a name of 1 to 255 bytes of UTF-8, found "
	bad := []string{"row 8: " + number + "18446744073709551616", "row 9: " + number + nines,
		"row 10: " + number + "-1", "row 11: " + number + "-" + nines,
		"row 12: " + share + "1.001", "row 13: " + share + "-0.001", "row 14: " + share + "-" + nines[:35] +
			"." + nines[35:]}
	for _, c := range []struct {
		name      string
		size      int
		kind      Kind
		rows      [][2]string
		good, bad []string
	}{
		{"of one length", 16, Auto, rows, good, bad},
		{"of a length of their own", 0, Auto, rows, good, bad},
		{"more than there is a use for", 40, Auto, [][2]string{{"1", "1"}}, nil,
			[]string{"row 1: " + number + "a decimal of 40 bytes"}},
		{"nothing", 0, Auto, [][2]string{{"", "1"}, {"5", ""}, {"6", "6"}}, []string{"6/0.006"},
			[]string{"row 1: " + number + "a decimal of 0 bytes", "row 2: " + share +
				"a decimal of 0 bytes"}},
		{"as names", 16, String, rows[6:10],
			[]string{"18446744073709551615/-/0.999", "18446744073709551616/-/0.01", nines + "/-/0.01"},
			[]string{"row 4: " + name + "-1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fields := nullableFields()
			fields[0].IDs, fields[0].KindFlag = c.kind, "--item-ids"
			rows, bad := rowsOfFields(t, parquetBytes(t, decimalFile(t, c.size, 3, c.rows)), fields)
			if !slices.Equal(rows, c.good) {
				t.Errorf("rows are\n%s\nwant\n%s", strings.Join(rows, "\n"), strings.Join(c.good, "\n"))
			}
			if !slices.Equal(bad, c.bad) {
				t.Errorf("bad are\n%s\nwant\n%s", strings.Join(bad, "\n"), strings.Join(c.bad, "\n"))
			}
		})
	}
}

// A decimal and the same number in text are the same float, to the last bit.
func TestDecimalsAreTheNearestFloats(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		size, scale := 1+random.IntN(maxDecimal), random.IntN(40)
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		whole := bigOf(b)
		if n, fits := wholeOf(b); fits != whole.IsInt64() || fits && n != whole.Int64() {
			t.Fatalf("% x is %d (%v), want %s", b, n, fits, whole)
		}
		v := converter{storedType: storedType{formDecimal, scale}, field: &Field{Type: Float}}
		var c Column
		if v.decimal(&c, b); len(v.bad) > 0 {
			t.Fatalf("% x is refused: %v", b, v.bad)
		}
		want, err := strconv.ParseFloat(decimalText(whole, scale), 64)
		if err != nil || c.Floats[0] != want {
			t.Fatalf("% x with scale %d is %v, want %v %v", b, scale, c.Floats[0], want, err)
		}
	}
	var c Column
	v := converter{storedType: storedType{formDecimal, 1}, field: &Field{Type: Float},
		values: []int64{3, -7, math.MaxInt32}}
	v.append(&c, 0, 3)
	if want := []float64{0.3, -0.7, 214748364.7}; !slices.Equal(c.Floats, want) {
		t.Errorf("%v, want %v", c.Floats, want)
	}
}

func TestScalesOfDecimals(t *testing.T) {
	for _, c := range []struct {
		whole int64
		scale int
		want  string
	}{{15, 0, "15"}, {15, 1, "1.5"}, {15, 2, "0.15"}, {-15, 3, "-0.015"}, {0, 2, "0.00"},
		{15, -2, "15e2"}, {15, 101, "15e-101"}} {
		if got := decimalText(big.NewInt(c.whole), c.scale); got != c.want {
			t.Errorf("%d with scale %d is %s, want %s", c.whole, c.scale, got, c.want)
		}
	}
	if got := scaled(15, -2); got != 1500 {
		t.Errorf("15 with scale -2 is %v", got)
	}
}
