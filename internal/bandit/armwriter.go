package bandit

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	rows "github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	arrowmemory "github.com/apache/arrow-go/v18/arrow/memory"
)

// ArmWriter writes arms in a form that ImportArms reads.
type ArmWriter interface {
	Write([]ListedArm) error
	Close() error
}

// ArmFormats are the names that NewArmWriter knows.
var ArmFormats = []string{"jsonl", "csv", "arrow"}

// NewArmWriter returns a writer of one of ArmFormats. Close does not close out.
func NewArmWriter(out io.Writer, format string) (ArmWriter, error) {
	switch format {
	case "jsonl":
		return lineWriter{json.NewEncoder(out)}, nil
	case "csv":
		w := csvWriter{csv.NewWriter(out)}
		return w, w.w.Write([]string{"item", "segment", "user", "alpha", "beta"})
	case "arrow":
		return newArrowWriter(out)
	}
	return nil, fmt.Errorf("expected one of %s", strings.Join(ArmFormats, ", "))
}

type lineWriter struct{ e *json.Encoder }

func (w lineWriter) Write(list []ListedArm) error {
	for _, a := range list {
		row := struct {
			Item    string  `json:"item"`
			Segment string  `json:"segment,omitempty"`
			User    string  `json:"user,omitempty"`
			Alpha   float64 `json:"alpha"`
			Beta    float64 `json:"beta"`
		}{a.Item, a.Segment, a.User, a.Alpha, a.Beta}
		if err := w.e.Encode(row); err != nil {
			return err
		}
	}
	return nil
}

func (lineWriter) Close() error { return nil }

type csvWriter struct{ w *csv.Writer }

func (w csvWriter) Write(list []ListedArm) error {
	for _, a := range list {
		number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
		if err := w.w.Write([]string{a.Item, a.Segment, a.User, number(a.Alpha),
			number(a.Beta)}); err != nil {
			return err
		}
	}
	w.w.Flush()
	return w.w.Error()
}

func (w csvWriter) Close() error { return w.Write(nil) }

type arrowWriter struct {
	w       *ipc.FileWriter
	builder *rows.RecordBuilder
}

func newArrowWriter(out io.Writer) (ArmWriter, error) {
	var fields []arrow.Field
	for _, name := range []string{"item", "segment", "user"} {
		fields = append(fields, arrow.Field{Name: name, Type: arrow.BinaryTypes.String,
			Nullable: name != "item"})
	}
	for _, name := range []string{"alpha", "beta"} {
		fields = append(fields, arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Float64})
	}
	schema := arrow.NewSchema(fields, nil)
	w, err := ipc.NewFileWriter(out, ipc.WithSchema(schema))
	return arrowWriter{w, rows.NewRecordBuilder(arrowmemory.DefaultAllocator, schema)}, err
}

func (w arrowWriter) Write(list []ListedArm) error {
	text := func(column int, s string) {
		if f := w.builder.Field(column).(*rows.StringBuilder); s == "" {
			f.AppendNull()
		} else {
			f.Append(s)
		}
	}
	for _, a := range list {
		text(0, a.Item)
		text(1, a.Segment)
		text(2, a.User)
		w.builder.Field(3).(*rows.Float64Builder).Append(a.Alpha)
		w.builder.Field(4).(*rows.Float64Builder).Append(a.Beta)
	}
	batch := w.builder.NewRecordBatch()
	defer batch.Release()
	return w.w.Write(batch)
}

func (w arrowWriter) Close() error {
	w.builder.Release()
	return w.w.Close()
}
