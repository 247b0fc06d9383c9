package admin

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"weir/internal/disk"
)

// hidden stands for what is not shown.
const hidden = "(hidden)"

var (
	// secretName finds names of values that nobody else should see.
	secretName = regexp.MustCompile(`(?i)passw(or)?d|secret|token|authorization|cookie|credential|api_?key`)
	// secretText finds credentials as HTTP and URLs have them.
	secretText = regexp.MustCompile(`(?i)\b(bearer |basic )[\w.~+/=-]{6,}|` +
		`\b((?:password|secret|token|api_?key)["']? ?[=:] ?["']?)[^\s"'&,;]+`)
	userinfo = regexp.MustCompile(`(\w+://)[^/\s@"']+@`)
	// query finds the queries of URLs: feeds of some sites have their key there.
	query = regexp.MustCompile(`(\w+://[^\s?"'<>]+)\?[^\s"'<>]*`)
)

// newCleaner returns a function that takes out of a text what a page must not show: credentials, the users
// and queries of URLs, and of paths below a directory of the machine's root all but the last name. Paths of
// requests stay: nothing on the machine is called like the first of their names, or they are taken for such.
func newCleaner() func(string) string {
	var roots []string
	entries, _ := os.ReadDir("/")
	for _, e := range entries {
		if e.IsDir() || e.Type()&os.ModeSymlink != 0 {
			roots = append(roots, regexp.QuoteMeta(e.Name()))
		}
	}
	paths := regexp.MustCompile(`(^|[\s"'(=:\[,])/(?:` + strings.Join(roots, "|") +
		`)(?:/[^\s"'()\[\],:;]*)+`)
	return func(text string) string {
		text = secretText.ReplaceAllString(text, "$1$2"+hidden)
		text = userinfo.ReplaceAllString(text, "$1"+hidden+"@")
		text = query.ReplaceAllString(text, "$1?"+hidden)
		return paths.ReplaceAllStringFunc(text, func(found string) string {
			before, path, _ := strings.Cut(found, "/")
			return before + "…/" + filepath.Base("/"+path)
		})
	}
}

var (
	numbers = regexp.MustCompile(`0x[0-9a-f]+|[0-9]+`)
	quoted  = regexp.MustCompile(`"[^"]*"`)
)

// kindOf says what kind of error an error is: what the system said, its type, or where it is only a text,
// that without the numbers and names in it.
func kindOf(err error) string {
	if _, ok := errors.AsType[*disk.PanicError](err); ok {
		return strings.Join(append([]string{"panic"}, stackOf(err)...)[:2], " in ")
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	for inner := err; inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	kind := fmt.Sprintf("%T", err)
	switch kind {
	case "*errors.errorString", "*fmt.wrapError", "*fmt.wrapErrors", "*errors.joinError":
		return quoted.ReplaceAllString(numbers.ReplaceAllString(err.Error(), "#"), `"…"`)
	}
	return kind
}

// mostFrames is how many functions of a stack are shown.
const mostFrames = 8

// stackOf returns where an error panicked, as functions with their files' names and lines, the innermost
// first; nil for other errors.
func stackOf(err error) (frames []string) {
	p, ok := errors.AsType[*disk.PanicError](err)
	if !ok {
		return nil
	}
	// A function and the place in it alternate, behind the line that names the goroutine.
	lines := bytes.Split(p.Stack, []byte{'\n'})
	for i := 1; i+1 < len(lines); i += 2 {
		if bytes.HasPrefix(lines[i], []byte("panic(")) {
			frames = nil // all up to here is about the panic
			continue
		}
		// The arguments come last; a method's receiver is in parentheses as well.
		function := string(lines[i][:max(0, bytes.LastIndexByte(lines[i], '('))])
		if len(frames) == 0 && strings.HasPrefix(function, "runtime.") {
			continue
		}
		place, _, _ := bytes.Cut(bytes.TrimSpace(lines[i+1]), []byte(" "))
		frames = append(frames, filepath.Base(function)+" "+filepath.Base(string(place)))
	}
	return frames[:min(len(frames), mostFrames)]
}
