package t4

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The bounds on what a file may ask of memory: the text of one entry or of one field of the header, and its nesting.
const (
	maxText  = 4 << 20
	maxDepth = 32
)

// errTorn means that the file ends in the middle of something.
var errTorn = errors.New("the file ends in the middle")

// scanner reads JSON, in Python's dialect, one value at a time.
type scanner struct {
	in     io.Reader
	buf    []byte // read from in and not yet taken
	space  []byte // that buf lies in
	line   int
	budget int    // bytes that may still be read before reset
	text   []byte // of the value that raw is reading, without space
	depth  int
}

func newScanner(r io.Reader) *scanner {
	return &scanner{in: r, space: make([]byte, 64<<10), line: 1, budget: maxText}
}

// reset begins a new entry.
func (s *scanner) reset() { s.budget = maxText }

// fill makes sure that buf holds a byte.
func (s *scanner) fill() error {
	for tries := 0; len(s.buf) == 0; tries++ {
		n, err := s.in.Read(s.space)
		s.buf = s.space[:n]
		switch {
		case n > 0:
			return nil
		case err != nil:
			return torn(err)
		case tries == 100:
			return io.ErrNoProgress
		}
	}
	return nil
}

func (s *scanner) read() (byte, error) {
	if len(s.buf) == 0 {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	c := s.buf[0]
	s.buf = s.buf[1:]
	if s.budget--; s.budget < 0 {
		return 0, fmt.Errorf("more than %d bytes in one entry", maxText)
	}
	if c == '\n' {
		s.line++
	}
	return c, nil
}

// torn tells the end of what was written from other trouble. A gzip file of a killed run ends unexpectedly, too.
func torn(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errTorn
	}
	return err
}

// peek returns the next byte that is no space, without taking it.
func (s *scanner) peek() (byte, error) {
	for {
		if len(s.buf) == 0 {
			if err := s.fill(); err != nil {
				return 0, err
			}
		}
		switch c := s.buf[0]; c {
		case ' ', '\t', '\r', '\n':
			if _, err := s.read(); err != nil {
				return 0, err
			}
		default:
			return c, nil
		}
	}
}

// take takes c, after space.
func (s *scanner) take(c byte) error {
	got, err := s.peek()
	if err != nil {
		return err
	}
	if got != c {
		return fmt.Errorf("found %q; want %q", got, c)
	}
	_, err = s.read()
	return err
}

// more is called between members. It takes a comma and reports true, or takes the closing bracket and reports false.
// A comma before the bracket is forgiven: Kernel Tuner leaves one.
func (s *scanner) more(first bool, end byte) (bool, error) {
	c, err := s.peek()
	if err != nil {
		return false, err
	}
	if c == ',' && !first {
		if err := s.take(','); err != nil {
			return false, err
		}
		if c, err = s.peek(); err != nil {
			return false, err
		}
	} else if c != end && !first {
		return false, fmt.Errorf("found %q; want ',' or %q", c, end)
	}
	if c == end {
		return false, s.take(end)
	}
	return true, nil
}

// object reads an object; member reads the value of each key.
func (s *scanner) object(member func(key string) error) error {
	if err := s.take('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := s.more(first, '}')
		if err != nil || !more {
			return err
		}
		key, err := s.key()
		if err != nil {
			return err
		}
		if err := member(key); err != nil {
			return within(key, err)
		}
	}
}

// key reads the name of a member and the colon.
func (s *scanner) key() (string, error) {
	key, err := s.string()
	if err != nil {
		return "", err
	}
	return key, s.take(':')
}

// array reads an array; element reads each of its values.
func (s *scanner) array(element func() error) error {
	if err := s.take('['); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := s.more(first, ']')
		if err != nil || !more {
			return err
		}
		if err := element(); err != nil {
			return err
		}
	}
}

// string reads a string.
func (s *scanner) string() (string, error) {
	c, err := s.peek()
	if err != nil {
		return "", err
	}
	if c != '"' {
		return "", fmt.Errorf("found %q; want a string", c)
	}
	text, err := s.raw()
	if err != nil {
		return "", err
	}
	return unquote(text), nil
}

// unquote returns the string that a JSON string spells.
func unquote(text string) string {
	if !strings.ContainsFunc(text, func(c rune) bool { return c == '\\' || c > 0x7e }) {
		return text[1 : len(text)-1]
	}
	var plain string
	if json.Unmarshal([]byte(text), &plain) != nil {
		panic("t4: not a JSON string") // raw has checked it
	}
	return plain
}

// number reads a number.
func (s *scanner) number() (float64, error) {
	s.text = s.text[:0]
	if err := s.value(); err != nil {
		return 0, err
	}
	return number(string(s.text))
}

// scalar reads a number, a string, true or false, and returns its spelling.
func (s *scanner) scalar() (string, error) {
	text, err := s.raw()
	if err != nil {
		return "", err
	}
	return text, scalar(text)
}

// raw reads any value and returns its text without space.
func (s *scanner) raw() (string, error) {
	s.text = s.text[:0]
	if err := s.value(); err != nil {
		return "", err
	}
	return string(s.text), nil
}

// value appends the next value to text.
func (s *scanner) value() error {
	c, err := s.peek()
	if err != nil {
		return err
	}
	switch c {
	case '{', '[':
		return s.nested(c)
	case '"':
		return s.quoted()
	}
	return s.word()
}

// nested appends an object or an array.
func (s *scanner) nested(open byte) error {
	if s.depth++; s.depth > maxDepth {
		return fmt.Errorf("nested more than %d deep", maxDepth)
	}
	defer func() { s.depth-- }()
	s.text = append(s.text, open)
	var err error
	if open == '[' {
		err = s.elements()
	} else {
		err = s.members()
	}
	s.text = append(s.text, open+2) // ] and } stand two after [ and {
	return err
}

// elements appends the elements of an array.
func (s *scanner) elements() error {
	first := true
	return s.array(func() error {
		if !first {
			s.text = append(s.text, ',')
		}
		first = false
		return s.value()
	})
}

// members appends the members of an object.
func (s *scanner) members() error {
	if err := s.take('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := s.more(first, '}')
		if err != nil || !more {
			return err
		}
		if !first {
			s.text = append(s.text, ',')
		}
		if err := s.member(); err != nil {
			return err
		}
	}
}

// member appends a key and its value.
func (s *scanner) member() error {
	c, err := s.peek()
	if err != nil {
		return err
	}
	if c != '"' {
		return fmt.Errorf("found %q; want a key", c)
	}
	if err := s.quoted(); err != nil {
		return err
	}
	if err := s.take(':'); err != nil {
		return err
	}
	s.text = append(s.text, ':')
	return s.value()
}

// quoted appends a string.
func (s *scanner) quoted() error {
	begin := len(s.text)
	plain := true // no escapes, ASCII
	for escaped := false; ; {
		c, err := s.read()
		if err != nil {
			return err
		}
		s.text = append(s.text, c)
		if c == '"' && !escaped && len(s.text) > begin+1 {
			break
		}
		plain = plain && c >= ' ' && c < 0x7f && c != '\\'
		escaped = c == '\\' && !escaped
	}
	if text := s.text[begin:]; !plain && !json.Valid(text) {
		return fmt.Errorf("%.40q is not a JSON string", text)
	}
	return nil
}

// word appends a number, true, false or null.
func (s *scanner) word() error {
	begin := len(s.text)
	for {
		if err := s.fill(); err != nil {
			return err // a word never ends a file, so it may be half
		}
		n := 0
		for n < len(s.buf) && inWord(s.buf[n]) {
			n++
		}
		if s.budget -= n; s.budget < 0 {
			return fmt.Errorf("more than %d bytes in one entry", maxText)
		}
		s.text = append(s.text, s.buf[:n]...)
		if s.buf = s.buf[n:]; len(s.buf) > 0 {
			break
		}
	}
	text := s.text[begin:]
	if string(text) == "true" || string(text) == "false" || string(text) == "null" || numeral(string(text)) {
		return nil
	}
	c, _ := s.peek()
	return fmt.Errorf("found %.40q; want a value", string(text)+string(rune(c)))
}

func inWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'
}

// keyError is an error and the way to the value in which it was found.
type keyError struct {
	path string
	err  error
}

func (e *keyError) Error() string { return e.path + ": " + e.err.Error() }
func (e *keyError) Unwrap() error { return e.err }

// within says in which key err was found; nil stays nil.
func within(key string, err error) error {
	if err == nil {
		return nil
	}
	const most = 120 // of a hostile key
	if len(key) > most {
		key = key[:most] + "…"
	}
	if inner, ok := err.(*keyError); ok {
		return &keyError{key + ": " + inner.path, inner.err}
	}
	return &keyError{key, err}
}
