package text_test

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"weir/internal/filter/text"
)

func TestFormsOfTexts(t *testing.T) {
	for _, c := range []struct {
		form     text.Form
		in, want string
	}{
		{0, "  Größe\n\tÉTÉ ", "grosse ete"},
		{0, "Łódź Ærø ĐÀ", "lodz aero da"},
		{0, "ΣΊΣΥΦΟΣ σίσυφος", "σισυφοσ σισυφοσ"},
		{0, "ﬁne Ｇｏ", "fine go"},
		{0, "한국어 हिन्दी", "한국어 हिन्दी"},
		{0, "soft\u00adhyphen\u200b", "softhyphen"},
		{0, "a\x00b\x7f\u0090\xffc", "ab\ufffdc"},
		{0, "R&amp;D <b>", "r&amp;d <b>"},
		{text.KeepCase, "Élan", "Elan"},
		{text.KeepAccents, "Élan", "e\u0301lan"},
		{text.KeepCase | text.KeepAccents, "Élan  Vital", "E\u0301lan Vital"},
		{text.HTML, "R&amp;D &eacute;t&eacute;&nbsp;&#x41;&bogus; & more", "r&d ete a&bogus; & more"},
		{text.HTML, "<p>one</p><p>two<br>three</p>", "one two three"},
		{text.HTML, "<b>go</b>lang, a<i>b</i>", "golang, ab"},
		{text.HTML, "x<script>if (a</b) {}</script>y<style>p{}</STYLE >z<!-- no > -->!", "x y z!"},
		{text.HTML, `<a title="1 > 0" href='x'>link</a> I <3 you, a < b`, "link i <3 you, a < b"},
		{text.HTML, "cut off <a href=", "cut off"},
		{text.HTML, "<!-- cut", ""},
		{text.HTML, "a<!DOCTYPE html>b<?xml?>c", "a b c"},
	} {
		if got := text.Of(c.in, c.form); got != c.want {
			t.Errorf("form %d of %q is %q, want %q", c.form, c.in, got, c.want)
		}
	}
}

func TestPatternsKeepTheBlanksAtTheirEnds(t *testing.T) {
	if got := text.Pattern("  Go\u00a0 on ", 0); got != " go on " {
		t.Errorf("%q", got)
	}
	if got := text.Pattern("", 0); got != "" {
		t.Errorf("%q", got)
	}
}

func TestTablesHoldValuesByFieldAndItem(t *testing.T) {
	cells := map[text.Field][2][]string{
		text.Title:    {{"First"}, {"Zweitér"}},
		text.Category: {{"A", "", "b"}, nil},
		text.Language: {nil, {"DE"}},
	}
	table := text.NewTable(2, func(table *text.Table) {
		for f := range text.Fields {
			for i := range 2 {
				table.Next()
				for _, v := range cells[f][i] {
					table.Add(v, 0)
				}
			}
		}
	})
	values := func(f text.Field, i int) (all []string) {
		for v := range table.Values(f, i) {
			all = append(all, string(v))
		}
		return all
	}
	for _, c := range []struct {
		field text.Field
		item  int
		want  []string
	}{
		{text.Title, 0, []string{"first"}}, {text.Title, 1, []string{"zweiter"}},
		{text.Category, 0, []string{"a", "b"}},
		{text.Category, 1, nil}, {text.Language, 0, nil}, {text.Language, 1, []string{"de"}},
		{text.GUID, 1, nil},
	} {
		if got := values(c.field, c.item); !slices.Equal(got, c.want) {
			t.Errorf("field %d of item %d is %q, want %q", c.field, c.item, got, c.want)
		}
	}
	if bytes, starts := table.Column(text.Title); string(
		bytes[starts[0]:starts[2]+1]) != "\x00first\x00zweiter\x00" || starts[1] != 6 {
		t.Errorf("%q, %d", bytes, starts)
	}
}

// FuzzForms checks what rules rely on, for any text.
func FuzzForms(f *testing.F) {
	f.Add("Größe", " É", uint8(0))
	f.Add("<p>a&amp;b</p><script>x", "&lt;", uint8(4))
	f.Add("\x00\xff\u00a8 \u0301", "가각", uint8(3))
	f.Fuzz(func(t *testing.T, a, b string, form uint8) {
		got := text.Of(a+b, text.Form(form&7))
		if !utf8.ValidString(got) || strings.ContainsRune(got, 0) || strings.Contains(got, "  ") ||
			got != strings.Trim(got, " ") {
			t.Fatalf("form %d of %q is %q", form&7, a+b, got)
		}
		if strings.ContainsFunc(got, func(r rune) bool { return r != ' ' && unicode.IsSpace(r) }) {
			t.Fatalf("white space in %q", got)
		}
		plain := text.Form(form) & (text.KeepCase | text.KeepAccents)
		if once := text.Of(a, plain); text.Of(once, plain) != once {
			t.Fatalf("%q becomes %q, and that %q", a, once, text.Of(once, plain))
		}
		if !utf8.ValidString(a) || !utf8.ValidString(b) {
			return
		}
		// What a text contains it contains in every form.
		for _, part := range []string{a, b} {
			if whole := text.Of("."+a+b+".", plain); !strings.Contains(whole, text.Pattern(part, plain)) {
				t.Fatalf("%q does not contain %q, as %q contains %q", whole, text.Pattern(part, plain), a+b,
					part)
			}
		}
		hangul := func(r rune) bool { return 0x1100 <= r && r <= 0x11ff || unicode.Is(unicode.Hangul, r) }
		if composed := norm.NFC.String(a); !strings.ContainsFunc(a, hangul) &&
			text.Of(composed, 0) != text.Of(norm.NFD.String(a), 0) {
			t.Fatalf("%q differs composed and taken apart: %q, %q", a, text.Of(composed, 0),
				text.Of(norm.NFD.String(a), 0))
		}
	})
}
