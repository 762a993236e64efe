package engine_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

func program(t *testing.T, path string) string {
	t.Helper()
	hash, err := engine.Program(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func TestAProgramIsItsBytesAndThoseOfItsBackends(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	path, copied, link := filepath.Join(dir, "llama-bench"), filepath.Join(other, "bench-2"), filepath.Join(other, "link")
	write(t, path, "#!/bin/sh\n")
	write(t, copied, "#!/bin/sh\n")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	first := program(t, path)
	if program(t, copied) != first || program(t, link) != first {
		t.Error("another name or a link makes another program")
	}
	write(t, copied, "#!/bin/sh\n\n")
	if program(t, copied) == first {
		t.Error("a changed program is the same")
	}
	backend := filepath.Join(dir, "libggml-cpu-icelake.so")
	write(t, backend, "a")
	with := program(t, path)
	write(t, backend, "b")
	if with == first || program(t, path) == with {
		t.Error("a backend beside it, or a change to it, makes no difference")
	}
	if err := os.Mkdir(filepath.Join(dir, "libggml-old.so"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("gone", filepath.Join(dir, "libggml-gone.so")); err != nil {
		t.Fatal(err)
	}
	program(t, path) // which no linker could load, and so they are no part of it
	odd := filepath.Join(t.TempDir(), "llama[1]")
	if err := os.Mkdir(odd, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(odd, "llama-bench"), "#!/bin/sh\n")
	write(t, filepath.Join(odd, "libggml-cpu-icelake.so"), "b")
	if program(t, filepath.Join(odd, "llama-bench")) != program(t, path) {
		t.Error("the name of the directory hides the backends")
	}
	if _, err := engine.Program(t.Context(), filepath.Join(dir, "nowhere")); err == nil {
		t.Error("there is no such program, want an error")
	}
}

// The flags of a build are in the libraries that it links.
func TestAProgramIsTheLibrariesOfItsBuild(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), ","), "gcc") {
			t.Fatal(err)
		}
		t.Skipf("NOT TESTED: %v", err)
	}
	dir := t.TempDir()
	build := func(args ...string) {
		t.Helper()
		cmd := exec.Command(gcc, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v: %s", err, out)
		}
	}
	for _, name := range []string{"bin", "lib"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "ggml.c"), "int ggml(void) { return FLAG; }\n")
	write(t, filepath.Join(dir, "llama.c"), "int ggml(void); int llama(void) { return ggml(); }\n")
	write(t, filepath.Join(dir, "main.c"), "int llama(void); int main(void) { return llama(); }\n")
	build("-shared", "-fPIC", "-DFLAG=0", "-o", "lib/libggml.so", "ggml.c")
	build("-shared", "-fPIC", "-Wl,--enable-new-dtags,-rpath,$ORIGIN", "-o", "lib/libllama.so", "llama.c", "-Llib", "-lggml")
	build("-Wl,-rpath,$ORIGIN/../lib", "-Wl,-rpath-link,lib", "-o", "bin/llama-bench", "main.c", "-Llib", "-lllama")
	bench := filepath.Join(dir, "bin", "llama-bench")
	first := program(t, bench)
	if program(t, bench) != first {
		t.Error("the same program is another one the second time")
	}
	build("-shared", "-fPIC", "-DFLAG=1", "-o", "lib/libggml.so", "ggml.c")
	if program(t, bench) == first {
		t.Error("a library that was built with another flag makes no difference")
	}
	if err := os.Mkdir(filepath.Join(dir, "other"), 0o700); err != nil {
		t.Fatal(err)
	}
	build("-shared", "-fPIC", "-DFLAG=2", "-o", "other/libggml.so", "ggml.c")
	beside := program(t, bench)
	t.Setenv("LD_LIBRARY_PATH", filepath.Join(dir, "other"))
	if program(t, bench) == beside {
		t.Error("a library that the environment puts before the one it was linked with makes no difference")
	}
	t.Setenv("LD_LIBRARY_PATH", "")
	if err := os.Remove(filepath.Join(dir, "lib", "libggml.so")); err != nil {
		t.Fatal(err)
	}
	if hash, err := engine.Program(t.Context(), bench); err == nil || !strings.Contains(err.Error(), "libllama.so needs libggml.so") {
		t.Errorf("%q, %v: want an error that names the library which is missing", hash, err)
	}
}
