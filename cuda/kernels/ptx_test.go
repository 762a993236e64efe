package kernels

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// make ptx and make ptx-check set this.
var compile = flag.String("ptx", "", "compile the CUDA sources with clang-19: `update` the committed PTX, or check it")

// The compiler and how it is called; --cuda-gpu-arch comes besides. Without +ptx78 clang takes the oldest version that
// knows the architecture.
const compiler = "clang-19"

var compilerFlags = strings.Fields("-x cuda --cuda-device-only --cuda-feature=+ptx78 -nocudainc -nocudalib -std=c++17 -O3 -fno-exceptions -fno-rtti -Wall -Wextra -Werror -Isrc -S -o - -")

// manifest says what the committed PTX was made from.
type manifest struct {
	Compiler string           `json:"compiler"`
	Flags    string           `json:"flags"`
	Modules  []manifestModule `json:"modules"`
}

type manifestModule struct {
	File       string           `json:"file"`
	Target     string           `json:"target"`
	PTXVersion string           `json:"ptx_version"`
	Source     string           `json:"source_sha256"` // of the flags, the unit and everything in src
	PTX        string           `json:"ptx_sha256"`    // unpacked
	Kernels    []manifestKernel `json:"kernels"`
}

type manifestKernel struct {
	Symbol      string `json:"symbol"`
	Declaration string `json:"declaration"`
	Parameters  string `json:"parameters"` // as the PTX has them
}

const manifestFile = "ptx/manifest.json"

// units are the source files.
func units(t *testing.T) []string {
	files, err := filepath.Glob("src/*.cu")
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), ".cu")
	}
	return files
}

// source is the translation unit of a source file for a target: the file, and a line for each variant.
func source(unit string, target Capability) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#include \"%s.cu\"\n", unit)
	for _, e := range entries(unit, target) {
		fmt.Fprintln(&b, e.declaration())
	}
	return b.String()
}

// sourceHash is the hash of all that a PTX file is made from but the compiler.
func sourceHash(t *testing.T, unit string, target Capability) string {
	h := sha256.New()
	fmt.Fprintln(h, compilerFlags, target, source(unit, target))
	root := os.DirFS("src")
	err := fs.WalkDir(root, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(root, file)
		fmt.Fprintln(h, file, len(text))
		h.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

func readManifest(t *testing.T) manifest {
	text, err := os.ReadFile(manifestFile)
	if err != nil {
		t.Fatal(err)
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatalf("%s: %v", manifestFile, err)
	}
	return m
}

// TestSourcesAreThoseOfThePTX needs no compiler: whoever changes a source, a flag or a variant has to run make ptx.
func TestSourcesAreThoseOfThePTX(t *testing.T) {
	m := readManifest(t)
	if want := strings.Join(compilerFlags, " "); m.Flags != want {
		t.Errorf("the PTX was compiled with other flags: make ptx\n%s", cmp.Diff(want, m.Flags))
	}
	found := map[string]manifestModule{}
	for _, module := range m.Modules {
		found[module.File] = module
	}
	for _, unit := range units(t) {
		for _, target := range targets {
			file := moduleFile(unit, target)
			module, ok := found[file]
			delete(found, file)
			if !ok {
				t.Errorf("%s is not in the manifest: make ptx", file)
				continue
			}
			if want := sourceHash(t, unit, target); module.Source != want {
				t.Errorf("%s was made from other sources or variants than these: make ptx", file)
			}
			text, err := moduleText(unit, target)
			if err != nil {
				t.Error(err)
				continue
			}
			if want := describe(unit, target, module.Source, text); !cmp.Equal(want, module) {
				t.Errorf("%s is not what the manifest says (-want +got): make ptx\n%s", file, cmp.Diff(want, module))
			}
		}
	}
	for file := range found {
		t.Errorf("the manifest speaks of %s, which no source makes: make ptx", file)
	}
	files, err := filepath.Glob("ptx/*.gz")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(m.Modules) {
		t.Errorf("%d PTX files, and %d in the manifest: make ptx", len(files), len(m.Modules))
	}
}

var (
	versionLine   = regexp.MustCompile(`(?m)^\.version (\S+)$`)
	parameterLine = regexp.MustCompile(`\.param (\.\w+) `)
)

// describe is the manifest's view of a PTX file.
func describe(unit string, target Capability, sourceHash string, text []byte) manifestModule {
	m := manifestModule{File: moduleFile(unit, target), Target: target.String(), Source: sourceHash, PTX: fmt.Sprintf("%x", sha256.Sum256(text))}
	if v := versionLine.FindSubmatch(text); v != nil {
		m.PTXVersion = string(v[1])
	}
	for _, e := range entries(unit, target) {
		k := manifestKernel{Symbol: e.Symbol(), Declaration: e.declaration()}
		if body, err := only(text, e.Symbol()); err == nil {
			_, list, _ := bytes.Cut(body, []byte(".visible .entry "))
			list, _, _ = bytes.Cut(list, []byte("\n)\n"))
			for _, p := range parameterLine.FindAllSubmatch(list, -1) {
				k.Parameters += string(p[1])
			}
		}
		m.Kernels = append(m.Kernels, k)
	}
	return m
}

// TestPTXIsWhatTheCompilerMakes compiles the sources: with -ptx=update it writes the result, with -ptx=check it compares.
// Without the flag it is not run, as it takes a minute; TestSourcesAreThoseOfThePTX notices a change without it.
func TestPTXIsWhatTheCompilerMakes(t *testing.T) {
	if *compile == "" {
		t.Skip("make ptx-check runs this")
	}
	version, err := exec.CommandContext(t.Context(), compiler, "--version").Output()
	if err != nil {
		if *compile == "update" || slices.Contains(strings.Split(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), ","), "clang") {
			t.Fatalf("%s, of Debian's package of this name: %v", compiler, err)
		}
		t.Skipf("NOT TESTED: whether the committed PTX is what the compiler makes: %v", err)
	}
	first, _, _ := strings.Cut(string(version), "\n")
	m := manifest{Compiler: strings.TrimSpace(first), Flags: strings.Join(compilerFlags, " ")}
	type job struct {
		unit   string
		target Capability
		text   []byte
		err    error
	}
	var jobs []job
	for _, unit := range units(t) {
		for _, target := range targets {
			jobs = append(jobs, job{unit: unit, target: target})
		}
	}
	var wait sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range jobs {
		wait.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			j := &jobs[i]
			j.text, j.err = compiled(t.Context(), j.unit, j.target)
		})
	}
	wait.Wait()
	for _, j := range jobs {
		if j.err != nil {
			t.Fatal(j.err)
		}
		m.Modules = append(m.Modules, describe(j.unit, j.target, sourceHash(t, j.unit, j.target), j.text))
		if *compile == "update" {
			write(t, moduleFile(j.unit, j.target), zipped(t, j.text))
		} else if old, err := unpacked(moduleFile(j.unit, j.target)); err != nil || !bytes.Equal(old, j.text) {
			t.Errorf("%s is not what %s makes of the sources (%v): make ptx", moduleFile(j.unit, j.target), m.Compiler, err)
		}
	}
	text, err := json.MarshalIndent(m, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *compile == "update" {
		write(t, manifestFile, text)
	} else if old, err := os.ReadFile(manifestFile); err != nil || !bytes.Equal(old, text) {
		t.Errorf("%s is not up to date (%v): make ptx", manifestFile, err)
	}
}

func compiled(ctx context.Context, unit string, target Capability) ([]byte, error) {
	cmd := exec.CommandContext(ctx, compiler, append([]string{"--cuda-gpu-arch=" + target.String()}, compilerFlags...)...)
	cmd.Stdin = strings.NewReader(source(unit, target))
	var talk bytes.Buffer
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s for %s: %w\n%s", unit, target, err, talk.String())
	}
	return out, nil
}

// zipped is the same for the same text: no name, no time.
func zipped(t *testing.T, text []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func write(t *testing.T, name string, data []byte) {
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
