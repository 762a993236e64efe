//go:build linux && (amd64 || arm64)

package driver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// scratch is a directory that lives as long as the tests: a library that was loaded stays loaded.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "libcuda"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// compile makes a shared library of C source, once.
func compile(t testing.TB, name, source string, defines ...string) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), ","), "gcc") {
			t.Fatalf("BITNET_AUTOTUNE_REQUIRE asks for gcc: %v", err)
		}
		t.Skipf("NOT TESTED: what needs a driver's library: %v", err)
	}
	path := filepath.Join(scratch, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	args := append([]string{"-shared", "-fPIC", "-o", path}, defines...)
	if out, err := exec.Command(gcc, append(args, source, "-lpthread")...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return path
}

// fakeLibrary starts the fake driver over with a plan.
func fakeLibrary(t testing.TB, plan string) library {
	t.Helper()
	lib, err := open(compile(t, "libcuda.so.1", "testdata/libcuda.c"))
	if err != nil {
		t.Fatal(err)
	}
	text := append([]byte(plan), 0)
	call(lib.symbol("fake_configure"), uintptr(unsafe.Pointer(&text[0])))
	return lib
}

// openFake opens the fake driver, which is closed without a leak at the end of the test.
func openFake(t testing.TB, plan string) *Driver {
	t.Helper()
	lib := fakeLibrary(t, plan)
	d, err := Open(lib.table())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Close()
		if live := call(lib.symbol("fake_live")); live != 0 {
			t.Errorf("%d objects outlive the driver's Close", live)
		}
	})
	return d
}
