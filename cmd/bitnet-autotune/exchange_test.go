package main

import (
	"bufio"
	"strings"
	"testing"
)

// What is exported as T4 carries records, and may be squeezed into one line on its way.
func TestIsJSONL(t *testing.T) {
	for text, want := range map[string]bool{
		`{"run":1,"seq":2,"regime":"decode"}` + "\n":     true,
		`{"host":"a","config":{"x":1},"regime":"decode"`: true,
		"":        true,
		"no JSON": true,
		`{"results":[{"records":[{"run":1,"regime":"decode"}]}],"schema_version":"1.0.0"}`: false,
		`{"cache":{"1":{"records":[{"run":1}]}}`:                                           false,
		"{\n\"device_name\": \"run\"":                                                      false,
		"{":                                                                                false,
		"\x1f\x8b\x08":                                                                     false,
	} {
		if got := isJSONL(bufio.NewReaderSize(strings.NewReader(text), 64<<10)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
