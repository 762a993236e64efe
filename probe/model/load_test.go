package model_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model/modeltest"
)

func TestLoadPreset(t *testing.T) {
	for _, name := range []string{"bitnet-b1.58-2b-4t", "BitNet-b1.58-2B-4T"} {
		if m, err := model.Load(name); err != nil || m.Source != "preset" || m.Name != "bitnet-b1.58-2b-4t" {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

func TestLoadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "my model.gguf")
	if err := modeltest.WriteI2S(path, modeltest.Small(), 1); err != nil {
		t.Fatal(err)
	}
	m, err := model.Load(path)
	if err != nil || m.Source != path || m.Layers != 3 || m.TernaryWeights() != 3*(2*256*256+2*128*256+3*512*256) {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.gguf")
	if err := os.WriteFile(text, []byte("PK\x03\x04 not a model"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"":                                  `unknown preset or file "": the nearest presets are`,
		"bitnt-2b":                          `the nearest presets are bitnet-b1.58-2b-4t, `,
		"2b-4t":                             `the nearest presets are bitnet-b1.58-2b-4t, `,
		"falcon3-7b":                        `the nearest presets are falcon3-7b-1.58, `,
		"flacon-e-3b":                       `the nearest presets are falcon-e-3b, `,
		"bitnet-embeding-270m":              `the nearest presets are bitnet-embedding-270m, `,
		strings.Repeat("long", 1000):        "file name too long",
		"two\nlines":                        `unknown preset or file "two\nlines"`,
		filepath.Join(dir, "absent.gguf"):   filepath.Join(dir, "absent.gguf") + ": no such file or directory",
		"absent.GGUF":                       "open absent.GGUF: no such file or directory",
		filepath.Join(text, "deeper"):       "not a directory",
		dir:                                 dir + ": is not a regular file",
		text:                                text + `: magic: "PK\x03\x04" is not "GGUF"`,
		"/dev/null":                         "/dev/null: is not a regular file",
		filepath.Join(dir, "line\nbreak.x"): "line\uFFFDbreak.x: no such file",
	} {
		t.Run(filepath.Base(name[:min(len(name), 40)]), func(t *testing.T) {
			m, err := model.Load(name)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("%+v, error %v, want one with %q", m, err, want)
			}
			if len(name) < 1000 {
				oneLine(t, err)
			}
		})
	}
}
