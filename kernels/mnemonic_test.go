package kernels

import (
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBytesAreTheirMnemonics disassembles the instructions of AVX-VNNI, which the assembler does not know and which
// stand in the file as bytes with the mnemonic behind them.
func TestBytesAreTheirMnemonics(t *testing.T) {
	objdump, err := exec.LookPath("objdump")
	if err != nil {
		skipWithout(t, "objdump", err.Error())
	}
	text, err := os.ReadFile("mul_i2s_avxvnni_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	var code []byte
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^\tLONG +\$0x([0-9a-f]{8}); BYTE \$0x([0-9a-f]{2}) // (.*)$`).FindAllStringSubmatch(string(text), -1) {
		bytes, err := hex.DecodeString(m[1] + m[2])
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(bytes[:4])
		code = append(code, bytes...)
		want = append(want, m[3])
	}
	if n := strings.Count(string(text), "VPDPBUSD"); n == 0 || n != len(want) {
		t.Fatalf("VPDPBUSD stands in the file %d times, %d of them as bytes", n, len(want))
	}
	file := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(file, code, 0o600); err != nil {
		t.Fatal(err)
	}
	listing, err := exec.Command(objdump, "-D", "-b", "binary", "-m", "i386:x86-64", "--no-show-raw-insn", file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, listing)
	}
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^ *[0-9a-f]+:\s+\{vex\} vpdpbusd %ymm(\d+),%ymm(\d+),%ymm(\d+)$`).FindAllStringSubmatch(string(listing), -1) {
		got = append(got, fmt.Sprintf("VPDPBUSD Y%s, Y%s, Y%s", m[1], m[2], m[3]))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the bytes are not what their comments say (-want +got):\n%s", diff)
	}
}
