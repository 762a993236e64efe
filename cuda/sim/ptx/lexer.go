package ptx

import (
	"fmt"
	"strings"
)

// A token is a word with all its dotted parts (ld.global.u32, %tid.x, .param), a number, a string, or one character of
// punctuation. The end of the text is the empty token.
type token struct {
	text string
	line int
}

func (t token) String() string {
	if t.text == "" {
		return "the end of the text"
	}
	return fmt.Sprintf("%q", t.text)
}

func letter(c byte) bool {
	return c == '_' || c == '$' || c == '%' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// lex cuts PTX into tokens and drops comments.
func lex(text string) ([]token, error) {
	tokens := make([]token, 0, len(text)/5) // of PTX by compilers, a little too much
	line := 1
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '\n':
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case strings.HasPrefix(text[i:], "//"):
			i += len(text[i:]) - len(strings.TrimLeftFunc(text[i:], func(r rune) bool { return r != '\n' }))
		case strings.HasPrefix(text[i:], "/*"):
			end := strings.Index(text[i+2:], "*/")
			if end < 0 {
				return nil, fmt.Errorf("ptx: line %d: a comment has no end", line)
			}
			line += strings.Count(text[i:i+2+end], "\n")
			i += end + 4
		case c == '"':
			end := strings.IndexAny(text[i+1:], "\"\n")
			if end < 0 || text[i+1+end] == '\n' {
				return nil, fmt.Errorf("ptx: line %d: a string has no end", line)
			}
			tokens = append(tokens, token{text[i : i+end+2], line})
			i += end + 2
		case letter(c) || digit(c) || c == '.' && i+1 < len(text) && letter(text[i+1]):
			end := wordEnd(text, i)
			tokens = append(tokens, token{text[i:end], line})
			i = end
		case strings.IndexByte("{}[]()<>,;:+-!|@=*", c) >= 0:
			tokens = append(tokens, token{text[i : i+1], line})
			i++
		default:
			return nil, fmt.Errorf("ptx: line %d: PTX has no character %q", line, c)
		}
	}
	return append(tokens, token{"", line}), nil
}

// wordEnd follows letters, digits, dots between them, and the :: of L1::no_allocate.
func wordEnd(text string, start int) int {
	i := start + 1
	for i < len(text) {
		switch c := text[i]; {
		case letter(c) || digit(c):
			i++
		case c == '.' && i+1 < len(text) && (letter(text[i+1]) || digit(text[i+1])):
			i++
		case c == ':' && i+2 < len(text) && text[i+1] == ':' && (letter(text[i+2]) || digit(text[i+2])):
			i += 2
		default:
			return i
		}
	}
	return i
}
