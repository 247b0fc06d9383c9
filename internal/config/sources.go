package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/spf13/pflag"
)

// Sources are where flags have their values from that the command line does not give. The environment goes
// before the file, and both before the defaults.
type Sources struct {
	// File is TOML, none if empty: a key is the name of a flag, and a table the beginning of the names in
	// it, so that tls-listen may be listen in [tls]. Lists are the values of flags that take several.
	File string
	// Lookup looks up an environment variable; nil is none. That of --tls-listen is PREFIX_TLS_LISTEN.
	Lookup func(name string) (string, bool)
	Prefix string
}

// Variable is the name of a flag's environment variable.
func (s *Sources) Variable(flag string) string {
	return s.Prefix + "_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// A SettingError is a value of a source that its flag does not take, or the name of no flag. Unwrap gives
// what the flag says.
type SettingError struct {
	Source string // the variable, or the file and its key
	Err    error
}

// Error implements error.
func (e *SettingError) Error() string { return e.Source + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *SettingError) Unwrap() error { return e.Err }

// Fill sets the flags that the command line has left out, and returns where each that is set has its value
// from, by its name. Of the values that are wrong it reports all, as SettingErrors that are joined; other
// errors say that the file cannot be read. Flags that are named in except are left alone.
func (s *Sources) Fill(flags *pflag.FlagSet, except ...string) (from map[string]string, err error) {
	written := map[string]any{}
	if s.File != "" {
		if _, err := toml.DecodeFile(s.File, &written); err != nil {
			return nil, fmt.Errorf("--config %s: %w", s.File, err)
		}
	}
	values, from := map[string]any{}, map[string]string{}
	var errs []error
	for _, name := range flatten(values, "", written) {
		errs = append(errs, &SettingError{s.File, fmt.Errorf("%s is set twice, once in a table", name)})
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if flags.Lookup(name) == nil || slices.Contains(except, name) {
			errs = append(errs, &SettingError{s.File, fmt.Errorf("%s is no setting", name)})
		}
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if slices.Contains(except, f.Name) {
			return
		}
		if f.Changed {
			from[f.Name] = "the command line"
			return
		}
		text, source, there := "", s.Variable(f.Name), false
		if s.Lookup != nil {
			text, there = s.Lookup(source)
		}
		if value, ok := values[f.Name]; ok && !there {
			text, source, there = textOf(value), s.File, true
		}
		if !there {
			return
		}
		if err := flags.Set(f.Name, text); err != nil {
			errs = append(errs, &SettingError{source, Explain(err)})
		}
		from[f.Name] = source
		kind := "environment"
		if source == s.File {
			kind = "file"
		}
		f.Annotations = map[string][]string{annotation: {kind}}
	})
	return from, errors.Join(errs...)
}

// annotation is that of flags which Fill has set.
const annotation = "source"

// Source says where a flag has its value from: "default", "command line", "environment" or "file".
func Source(f *pflag.Flag) string {
	switch {
	case f.Annotations[annotation] != nil:
		return f.Annotations[annotation][0]
	case f.Changed:
		return "command line"
	}
	return "default"
}

// flatten adds the values of a table, and of those in it, by the names of flags, and returns the names that
// were there already.
func flatten(values map[string]any, prefix string, table map[string]any) (twice []string) {
	for key, value := range table {
		name := prefix + key
		if inner, ok := value.(map[string]any); ok {
			twice = append(twice, flatten(values, name+"-", inner)...)
			continue
		}
		if _, there := values[name]; there {
			twice = append(twice, name)
		}
		values[name] = value
	}
	return twice
}

// textOf writes a value as on a command line.
func textOf(value any) string {
	list, ok := value.([]any)
	if !ok {
		return fmt.Sprint(value)
	}
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = fmt.Sprint(v)
	}
	return strings.Join(texts, ",")
}
