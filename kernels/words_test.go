package kernels

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestWordsAreWhatTheySay asks another assembler about every instruction that the Go assembler lacks and that therefore
// stands as a WORD with its mnemonic in a comment: both must be the same.
func TestWordsAreWhatTheySay(t *testing.T) {
	files, err := filepath.Glob("*_arm64.s")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{} // mnemonic: encoding
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for at, mnemonic := range wordsOf(t, file, string(text)) {
			if other, ok := said[mnemonic]; ok && other != at {
				t.Errorf("%s: %q is 0x%s here and 0x%s elsewhere", file, mnemonic, at, other)
			}
			said[mnemonic] = at
		}
	}
	if len(said) < 100 {
		t.Fatalf("only %d different WORDs found: has their form changed?", len(said))
	}
	mnemonics := make([]string, 0, len(said))
	for mnemonic := range said {
		mnemonics = append(mnemonics, mnemonic)
	}
	slices.Sort(mnemonics)
	for i, encoding := range assembled(t, mnemonics) {
		if said[mnemonics[i]] != encoding {
			t.Errorf("WORD $0x%s stands for %q, which is 0x%s", said[mnemonics[i]], mnemonics[i], encoding)
		}
	}
}

var wordLine = regexp.MustCompile(`^\tWORD +\$0x([0-9a-f]{8}) // ([a-z].*)$`)

// wordsOf returns the instructions of a file that stand as WORD, by their encoding.
func wordsOf(t *testing.T, file, text string) map[string]string {
	words := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.Contains(line, "WORD") {
			continue
		}
		m := wordLine.FindStringSubmatch(line)
		switch {
		case m == nil:
			t.Errorf("%s: %q: want WORD $0x and eight digits // mnemonic", file, line)
		case words[m[1]] != "" && words[m[1]] != m[2]:
			t.Errorf("%s: WORD $0x%s is called %q and %q", file, m[1], words[m[1]], m[2])
		default:
			words[m[1]] = m[2]
		}
	}
	return words
}

// assembled returns the encodings of mnemonics.
func assembled(t *testing.T, mnemonics []string) []string {
	t.Helper()
	tool, err := exec.LookPath("llvm-mc-19")
	if err != nil {
		tool, err = exec.LookPath("llvm-mc")
	}
	if err != nil {
		skipWithout(t, "llvm-mc", "of Debian's llvm-19: "+err.Error())
	}
	cmd := exec.CommandContext(t.Context(), tool, "-triple=aarch64", "-mattr=+dotprod,+i8mm", "-show-encoding")
	cmd.Stdin = strings.NewReader(strings.Join(mnemonics, "\n") + "\n")
	var talk bytes.Buffer
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", tool, err, talk.String())
	}
	var encodings []string
	for _, m := range regexp.MustCompile(`encoding: \[0x(..),0x(..),0x(..),0x(..)\]`).FindAllStringSubmatch(string(out), -1) {
		encodings = append(encodings, m[4]+m[3]+m[2]+m[1])
	}
	if len(encodings) != len(mnemonics) {
		t.Fatalf("%s: %d encodings of %d instructions:\n%s", tool, len(encodings), len(mnemonics), talk.String())
	}
	return encodings
}
