package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine/enginetest"
)

// header is in the form of bitnet.cpp's: a set of sizes for each instruction set.
const header = `#define ACT_PARALLEL
#if defined(__AVX__)
#define ROW_BLOCK_SIZE 4
#define COL_BLOCK_SIZE 128
#define PARALLEL_SIZE 4
#elif defined(__ARM_NEON)
#define ROW_BLOCK_SIZE 8
#define COL_BLOCK_SIZE 256
#define PARALLEL_SIZE 8
#endif
`

// compiled is a Compiled over the stand-in. A build notes itself and takes the header with it; the program that it makes is
// the stand-in, which fails if the header asks for 32 rows.
func compiled(t *testing.T, build string) (e *engine.Compiled, builds func() int) {
	t.Helper()
	bench, model := standIn(t)
	dir := t.TempDir()
	head, log := filepath.Join(dir, "gemm-config.h"), filepath.Join(dir, "log")
	if err := os.WriteFile(head, []byte(header), 0o640); err != nil {
		t.Fatal(err)
	}
	command := strings.NewReplacer("HEADER", head, "BENCH", bench, "LOG", log).Replace(build)
	e = &engine.Compiled{
		LlamaBench: &engine.LlamaBench{Path: bench, Model: model, Prompt: 64, Generate: 8, Limits: engine.Limits{Cores: 4}},
		Header:     head, Build: command, Cache: filepath.Join(dir, "builds"),
	}
	e.Env = append(os.Environ(), enginetest.Quiet+"=1")
	if _, err := e.Describe(context.Background()); err != nil {
		t.Fatal(err)
	}
	return e, func() int {
		data, err := os.ReadFile(log)
		if err != nil {
			return 0
		}
		return strings.Count(string(data), "\n")
	}
}

const goodBuild = `echo built >> LOG; mkdir {out}/bin; cp HEADER "$OUT"/header; ln -s BENCH {out}/bin/llama-bench`

func original(t *testing.T, e *engine.Compiled) {
	t.Helper()
	data, err := os.ReadFile(e.Header)
	if err != nil || string(data) != header {
		t.Errorf("the header is not the original (%v):\n%s", err, data)
	}
	info, err := os.Stat(e.Header)
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("its mode is %v (%v), want 0640", info.Mode(), err)
	}
	if files, _ := filepath.Glob(filepath.Join(filepath.Dir(e.Header), "*.autotune-*")); len(files) > 0 {
		t.Errorf("left behind: %v", files)
	}
}

func TestWhatIsCompiledInIsBuiltOnce(t *testing.T) {
	e, builds := compiled(t, goodBuild)
	set := engine.Setting{"gemm-row-block": "16", "threads": "2"}
	regimes := []string{engine.Decode}
	for range 2 {
		if o := e.Run(context.Background(), set, regimes, time.Minute); o.Status != engine.OK || o.Facts["n_threads"] != "2" {
			t.Fatalf("%s: %s, threads %s", o.Status, o.Note, o.Facts["n_threads"])
		}
		original(t, e)
	}
	e.Run(context.Background(), nil, regimes, time.Minute)
	e.Run(context.Background(), engine.Setting{"threads": "4"}, regimes, time.Minute)
	if builds() != 1 {
		t.Errorf("%d builds of one set of values, want 1", builds())
	}
	made, err := filepath.Glob(filepath.Join(e.Cache, "*", "header"))
	if err != nil || len(made) != 1 {
		t.Fatalf("builds %v, %v", made, err)
	}
	data, err := os.ReadFile(made[0])
	if want := strings.NewReplacer("ROW_BLOCK_SIZE 4", "ROW_BLOCK_SIZE 16", "ROW_BLOCK_SIZE 8", "ROW_BLOCK_SIZE 16").Replace(header); err != nil || string(data) != want {
		t.Errorf("built with (%v)\n%s, want\n%s", err, data, want)
	}
}

func TestTheHeaderIsPutBackWhateverHappens(t *testing.T) {
	set := engine.Setting{"gemm-col-block": "32"}
	for name, c := range map[string]struct {
		build string
		want  engine.Status
	}{
		"the build fails":        {"echo 'error: no such register' >&2; exit 1", engine.ExitStatus},
		"the build makes none":   {"true", engine.Crash},
		"the build hangs":        {"sleep 600", engine.Hang},
		"memory ends":            {"kill -KILL $$", engine.OutOfMemory},
		"somebody ends the run":  {"sleep 600", engine.Stopped},
		"the program is no good": {`mkdir {out}/bin; printf '#!/bin/sh\nexit 3\n' > {out}/bin/llama-bench; chmod +x {out}/bin/llama-bench`, engine.ExitStatus},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := compiled(t, c.build)
			e.BuildLimit = 30 * time.Second
			ctx := context.Background()
			if c.want == engine.Hang {
				e.BuildLimit = 100 * time.Millisecond
			}
			if c.want == engine.Stopped {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
			}
			o := e.Run(ctx, set, []string{engine.Decode}, time.Minute)
			if o.Status != c.want {
				t.Errorf("%s (%s), want %s", o.Status, o.Note, c.want)
			}
			original(t, e)
		})
	}
}

func TestAHeaderLeftByAKilledRunIsPutBack(t *testing.T) {
	e, _ := compiled(t, goodBuild)
	if err := os.Rename(e.Header, e.Header+".autotune-original"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(e.Header, []byte("#define ROW_BLOCK_SIZE 32\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := e.Describe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	original(t, e)
	last := d.Knobs[len(d.Knobs)-1]
	own := map[string]string{"amd64": "4", "arm64": "8"}[runtime.GOARCH]
	if last.Name != "gemm-row-block" || last.Own != own {
		t.Errorf("the last knob is %s, the engine's own %s: want gemm-row-block and %s", last.Name, last.Own, own)
	}
	if left := strings.Join(d.Left, "\n"); !strings.Contains(left, "ACT_PARALLEL: I2_S weights lie in the file") {
		t.Errorf("left out %q: want why ACT_PARALLEL is", left)
	}
}

func TestALinkToTheHeaderStaysOne(t *testing.T) {
	e, builds := compiled(t, goodBuild)
	file := e.Header
	e.Header = filepath.Join(t.TempDir(), "link.h")
	if err := os.Symlink(file, e.Header); err != nil {
		t.Fatal(err)
	}
	link := e.Header
	if _, err := e.Describe(context.Background()); err != nil {
		t.Fatal(err)
	}
	if o := e.Run(context.Background(), engine.Setting{"gemm-row-block": "16"}, []string{engine.Decode}, time.Minute); o.Status != engine.OK || builds() != 1 {
		t.Fatalf("%s: %s, %d builds", o.Status, o.Note, builds())
	}
	if target, err := os.Readlink(link); err != nil || target != file {
		t.Errorf("the link is %q (%v), want one to %s", target, err, file)
	}
	original(t, e)
}
