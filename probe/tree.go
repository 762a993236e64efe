package probe

import (
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"unicode"
)

// maxFileBytes bounds what is read of one file. The largest by far is proc/cpuinfo, about 1.5 KiB a CPU; what is
// needed of it stands in its first entries.
const maxFileBytes = 1 << 20

// tree reads the files of a machine, live or captured, and collects what could not be known.
type tree struct {
	fsys     fs.FS
	warnings []string
}

// text returns the content of a file without surrounding white space, or false where it cannot be read.
func (t *tree) text(name string) (string, bool) {
	f, err := t.fsys.Open(name)
	if err != nil {
		return "", false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes))
	if err != nil {
		return "", false
	}
	return strings.TrimSpace(string(data)), true
}

// value returns a one-line fact for print and key: one line, single spaces, at most 128 bytes.
func (t *tree) value(name string) string {
	s, _ := t.text(name)
	return tidy(s)
}

// integer returns the number in a file, or false where there is none.
func (t *tree) integer(name string) (int64, bool) {
	s, ok := t.text(name)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.warn("%s is ignored: %q is not a number", name, tidy(s))
		return 0, false
	}
	return n, true
}

// list returns the CPU list in a file, or false, with a warning where the file is there but makes no sense.
func (t *tree) list(name string) ([]int, bool) {
	s, ok := t.text(name)
	if !ok {
		return nil, false
	}
	cpus, err := parseList(s)
	if err != nil {
		t.warn("%s is ignored: %v", name, err)
		return nil, false
	}
	return cpus, true
}

func (t *tree) exists(name string) bool {
	_, err := fs.Stat(t.fsys, name)
	return err == nil
}

func (t *tree) warn(format string, args ...any) {
	t.warnings = append(t.warnings, printable(fmt.Sprintf(format, args...), 400))
}

// tidy makes s fit for a terminal and for a key, whatever a file held.
func tidy(s string) string { return printable(s, 128) }

// printable returns s without control characters, with single spaces, cut to so many bytes.
func printable(s string, bytes int) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > bytes {
		s = strings.ToValidUTF8(s[:bytes], "")
	}
	return s
}
