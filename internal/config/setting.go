package config

import (
	"fmt"

	"github.com/spf13/pflag"
)

// A Setting is a flag whose value may change while a server serves. It is changed in steps, by one goroutine
// at a time: Flag's value is set, which nobody who serves sees, then Check looks at it beside the other
// flags, as it does at the start, and then Apply has it take effect. Settings that are changed together are
// all set before the first is checked. The text of a value is read back by the flag.
type Setting struct {
	Flag *pflag.Flag
	// Bounds says which values there are, in words: "from 10ms", "from 1 to 65536".
	Bounds string
	// Check says what is wrong with the values that the flags have now.
	Check func() error
	// Apply takes up the values that the flags have now, which have been checked. It cannot fail, and those
	// who serve see them at once.
	Apply func()
}

// Settings returns the flags of a set that may change while a server serves, and that are checked and
// applied together, by their bounds.
func Settings(flags *pflag.FlagSet, check func() error, apply func(), bounds map[string]string) []Setting {
	settings := make([]Setting, 0, len(bounds))
	flags.VisitAll(func(f *pflag.Flag) {
		if b, ok := bounds[f.Name]; ok {
			settings = append(settings, Setting{f, b, check, apply})
		}
	})
	if len(settings) != len(bounds) {
		panic(fmt.Sprintf("BUG: %v are not all flags", bounds))
	}
	return settings
}

// Set has the flag take a value, or says what it does not like about that, and the flag has the value that it
// had. Nothing takes effect.
func (s Setting) Set(value string) error {
	before := s.Flag.Value.String()
	err := s.Flag.Value.Set(value)
	if err == nil {
		return nil
	}
	// Numbers are 0 after an error.
	if back := s.Flag.Value.Set(before); back != nil {
		panic(fmt.Sprintf("BUG: --%s does not take its own value: %v", s.Flag.Name, back))
	}
	return explain(s.Flag, value, err)
}
