package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"weir/internal/load/report"
)

func (u *UI) listHistory(w http.ResponseWriter, _ *http.Request) {
	entries, err := u.history.list()
	if err != nil {
		u.broken(w, err)
		return
	}
	answer(w, http.StatusOK, struct {
		Keep int     `json:"keep"`
		Runs []entry `json:"runs"`
	}{u.o.Keep, entries})
}

var renderings = map[string]func(io.Writer, *report.Result) error{
	"json": report.WriteJSON,
	"csv":  report.WriteCSV,
	"html": report.WriteHTML,
}

var renderingTypes = map[string]string{
	"json": "application/json", "csv": "text/csv; charset=utf-8", "html": "text/html; charset=utf-8",
}

// getResult answers GET /api/history/{id}, for the pages, and with .json, .csv or .html after it, for
// downloading.
func (u *UI) getResult(w http.ResponseWriter, r *http.Request) {
	id, form, download := strings.Cut(r.PathValue("file"), ".")
	render, known := renderings[form]
	if download && !known {
		problem(w, http.StatusNotFound, "results come as .json, .csv and .html", "")
		return
	}
	result, err := u.history.result(id)
	if err != nil {
		u.broken(w, err)
		return
	}
	if !download {
		answer(w, http.StatusOK, result)
		return
	}
	var text bytes.Buffer
	if err := render(&text, result); err != nil {
		u.broken(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", renderingTypes[form])
	h.Set("Content-Disposition",
		mime.FormatMediaType("attachment",
			map[string]string{"filename": fmt.Sprintf("weir-load-%s.%s", id, form)}))
	// Should a browser show the page all the same, its script is not this origin's.
	h.Set("Content-Security-Policy", "sandbox")
	w.Write(text.Bytes()) //nolint:errcheck // the client may be gone
}

func (u *UI) deleteResult(w http.ResponseWriter, r *http.Request) {
	if err := u.history.remove(r.PathValue("id")); err != nil {
		u.broken(w, err)
		return
	}
	u.live.historyChanged()
	w.WriteHeader(http.StatusNoContent)
}

func (u *UI) compare(w http.ResponseWriter, r *http.Request) {
	var two [2]*report.Result
	for i, name := range []string{"a", "b"} {
		var err error
		if two[i], err = u.history.result(r.URL.Query().Get(name)); err != nil {
			u.broken(w, err)
			return
		}
	}
	c, err := report.Compare(two[:1], two[1:], report.CompareOptions{})
	if err != nil {
		u.broken(w, err)
		return
	}
	answer(w, http.StatusOK, struct {
		A          *report.Result     `json:"a"`
		B          *report.Result     `json:"b"`
		Comparison *report.Comparison `json:"comparison"`
	}{two[0], two[1], c})
}

// broken answers for an error of the history.
func (u *UI) broken(w http.ResponseWriter, err error) {
	if errors.Is(err, errNoResult) {
		problem(w, http.StatusNotFound, err.Error(), "")
		return
	}
	u.o.Log.Warn("the history", "err", err)
	problem(w, http.StatusInternalServerError, err.Error(), "")
}
