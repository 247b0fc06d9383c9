//go:build linux

package main

import (
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestArmsAreOfEveryItemAndValid(t *testing.T) {
	b := &bench{dir: t.TempDir(), arms: 1000}
	if err := b.writeBanditInputs(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(b.path("bandit", "arms.csv"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	if err != nil || len(rows) != 1+1000+banditSegments*1000/segmentedItems {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	seen := map[string]bool{}
	for _, row := range rows[1:] {
		alpha, err1 := strconv.ParseFloat(row[1], 64)
		beta, err2 := strconv.ParseFloat(row[2], 64)
		arm := row[0] + " " + row[3]
		if err1 != nil || err2 != nil || !(alpha > 0 && beta > 0) || alpha+beta > 1.1e6 || seen[arm] {
			t.Fatalf("row %v", row)
		}
		seen[arm] = true
	}
}

func TestEveryFormAsksForTheSameItemsAndIsText(t *testing.T) {
	all := draw(3, 1_000_000)
	for _, a := range all {
		if len(a.items) != predictItems ||
			len(slices.Compact(slices.Sorted(slices.Values(a.items)))) != predictItems {
			t.Errorf("%d items, or one of them twice", len(a.items))
		}
		for _, f := range forms {
			r := f.write(a)
			if got := decode(t, r); got.user != a.user || !slices.Equal(got.items, a.items) {
				t.Errorf("%s asks for %s and %v, want %+v", f.name, got.user, got.items, a)
			}
			if !utf8.ValidString(r.Body) || strings.Contains(r.Body, "{{") {
				t.Errorf("%s cannot be in a file of weir load", f.name)
			}
		}
	}
}

// decode reads a request in any form.
func decode(t *testing.T, r request) (a asked) {
	t.Helper()
	body, length := r.Body, r.Headers["Inference-Header-Content-Length"]
	if length == "" {
		var p struct {
			User  string
			Items []any
		}
		d := json.NewDecoder(strings.NewReader(body))
		d.UseNumber()
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		a.user = p.User
		for _, item := range p.Items {
			n, err := strconv.ParseInt(fmt.Sprint(item), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			a.items = append(a.items, n)
		}
		return a
	}
	n, err := strconv.Atoi(length)
	if err != nil {
		t.Fatal(err)
	}
	var head struct {
		Inputs []struct {
			Name, Datatype string
			Shape          []int
			Parameters     struct {
				Size int `json:"binary_data_size"`
			}
		}
	}
	if err := json.Unmarshal([]byte(body[:n]), &head); err != nil {
		t.Fatal(err)
	}
	rest := []byte(body[n:])
	for _, in := range head.Inputs {
		tensor := rest[:in.Parameters.Size]
		rest = rest[in.Parameters.Size:]
		for range in.Shape[0] {
			var text string
			if in.Datatype == "INT64" {
				text, tensor = fmt.Sprint(int64(binary.LittleEndian.Uint64(tensor))), tensor[8:]
			} else {
				end := 4 + binary.LittleEndian.Uint32(tensor)
				text, tensor = string(tensor[4:end]), tensor[end:]
			}
			if in.Name == "user" {
				a.user = text
				continue
			}
			id, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			a.items = append(a.items, id)
		}
		if len(tensor) != 0 {
			t.Errorf("%d bytes of %s are too many", len(tensor), in.Name)
		}
	}
	if len(rest) != 0 {
		t.Errorf("%d bytes after the tensors", len(rest))
	}
	return a
}

func TestAnswersWithoutScoresAreNotMeasured(t *testing.T) {
	scores := func(n int, s string) string { return `{"scores":[0.5` + strings.Repeat(","+s, n-1) + `]}` }
	for said, want := range map[string]string{
		scores(predictItems, "0.25"): "",
		scores(predictItems, "0.5"):  "scores from 0.5 to 0.5",
		scores(predictItems, "1.5"):  "scores from 0.5 to 1.5",
		scores(7, "0.25"):            "7 scores, want 400",
		"nothing":                    "invalid character",
	} {
		s := httptest.NewServer(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, said) }))
		err := checkScores(t.Context(), s.Listener.Addr().String(), predictText(asked{"u1", []int64{1}}))
		s.Close()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.30s: error %v, want %q", said, err, want)
		}
	}
}
