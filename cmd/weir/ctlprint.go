package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"weir/internal/admin"
)

// printLines prints lines of the log, as JSON one a line.
func (c *ctl) printLines(w io.Writer, lines []json.RawMessage) error {
	for _, text := range lines {
		if c.json {
			if _, err := fmt.Fprintf(w, "%s\n", text); err != nil {
				return err
			}
			continue
		}
		var line admin.Line
		if err := json.Unmarshal(text, &line); err != nil {
			return err
		}
		fmt.Fprintf(w, "%s %-5s %-8s %s", line.Time.Local().Format(time.DateTime), line.Level, line.Service,
			line.Message)
		for _, a := range line.Attrs {
			value := a.Value
			if value == "" || strings.ContainsAny(value, " \t\n\"=") {
				value = strconv.Quote(value)
			}
			fmt.Fprintf(w, " %s=%s", a.Name, value)
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	return nil
}

// print prints an answer: a table of its rows, if it has such, or its names with their values.
func (c *ctl) print(w io.Writer, answer []byte, rows string, columns ...string) error {
	answer = bytes.TrimSpace(answer)
	if c.json {
		_, err := fmt.Fprintf(w, "%s\n", answer)
		return err
	}
	var value any
	d := json.NewDecoder(bytes.NewReader(answer))
	d.UseNumber() // as they were written
	if err := d.Decode(&value); err != nil {
		return fmt.Errorf("the answer is no JSON; is --admin the admin port of weir? %w", err)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	object, _ := value.(map[string]any)
	list, ok := object[rows].([]any)
	if !ok {
		flatten(table, "", value)
		return table.Flush()
	}
	fmt.Fprintln(table, strings.ToUpper(strings.Join(columns, "\t")))
	for _, row := range list {
		member, _ := row.(map[string]any)
		cells := make([]string, len(columns))
		for i, column := range columns {
			cells[i] = cmp.Or(cell(member[column]), "-")
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

// flatten writes the values within a value by their paths.
func flatten(w io.Writer, path string, value any) {
	at := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			flatten(w, at(name), v[name])
		}
	case []any:
		if text, plain := scalars(v); plain {
			fmt.Fprintf(w, "%s\t%s\n", path, text)
			return
		}
		for i, one := range v {
			name := strconv.Itoa(i)
			if member, ok := one.(map[string]any); ok {
				name = cmp.Or(cell(member["name"]), cell(member["address"]), name)
			}
			flatten(w, at(name), one)
		}
	default:
		fmt.Fprintf(w, "%s\t%s\n", path, cell(value))
	}
}

// scalars joins the values of a list that holds neither lists nor objects.
func scalars(list []any) (text string, ok bool) {
	texts := make([]string, len(list))
	for i, v := range list {
		switch v.(type) {
		case map[string]any, []any:
			return "", false
		}
		texts[i] = cell(v)
	}
	return strings.Join(texts, " "), true
}

// cell writes a value within a table, on one line.
func cell(value any) string {
	if value == nil {
		return ""
	}
	if list, ok := value.([]any); ok {
		text, _ := scalars(list)
		return text
	}
	return strings.Join(strings.Fields(fmt.Sprint(value)), " ")
}
