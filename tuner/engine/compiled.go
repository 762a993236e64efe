package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Compiled is the llama-bench of bitnet.cpp with the knobs of its gemm-config.h, which are compiled in. The default is the
// program as it is; every other set of values is built once, into a directory of its own, and found there again.
type Compiled struct {
	*LlamaBench
	Header string // path of gemm-config.h
	// Build is a command for the shell that builds llama-bench into {out}, an empty directory of its own, as {out}/bin/llama-bench.
	// It is given the environment variable OUT as well.
	Build string
	Cache string // directory of the builds
	// BuildLimit is how long one build may take. If 0, 20 minutes.
	BuildLimit time.Duration

	broken map[string]Outcome // builds that failed
}

// macroKnob is a knob in the header.
type macroKnob struct {
	macro  string
	values []string
}

// compiledKnobs are the blockings of bitnet.cpp's I2_S product, by the name of the knob. The values are those that its
// authors tuned over (README of bitnet.cpp, src): more rows than 32 leave no registers.
var compiledKnobs = map[string]macroKnob{
	"gemm-row-block": {"ROW_BLOCK_SIZE", []string{"2", "4", "8", "16", "32"}},
	"gemm-col-block": {"COL_BLOCK_SIZE", []string{"32", "64", "128", "256", "512", "1024"}},
	"gemm-parallel":  {"PARALLEL_SIZE", []string{"2", "4", "8"}},
}

// Defines are the macros of gemm-config.h that a plan is built with, "ROW_BLOCK_SIZE 16".
func (p Plan) Defines() (list []string) {
	for _, s := range p {
		for _, knob := range slices.Sorted(maps.Keys(s)) {
			k, compiled := compiledKnobs[knob]
			if line := k.macro + " " + s[knob]; compiled && !slices.Contains(list, line) {
				list = append(list, line)
			}
		}
	}
	slices.Sort(list)
	return list
}

// defineLine finds the lines that define a macro as a number; there may be one for each instruction set.
func defineLine(macro string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^([ \t]*#[ \t]*define[ \t]+` + macro + `[ \t]+)(\d+)`)
}

// actParallel is in a header of a bitnet.cpp that can have its weights in two orders.
var actParallel = regexp.MustCompile(`\bACT_PARALLEL\b`)

// asideSuffix is that of the copy of the original header, which is there while another one is in its place.
const asideSuffix = ".autotune-original"

// Describe implements Engine: the knobs of the program and, after them, those of the header.
func (e *Compiled) Describe(ctx context.Context) (Description, error) {
	if file, err := filepath.EvalSymlinks(e.Header); err == nil {
		e.Header = file // a link stays one
	}
	if err := e.putBack(); err != nil {
		return Description{}, err
	}
	d, err := e.LlamaBench.Describe(ctx)
	if err != nil {
		return d, err
	}
	text, err := os.ReadFile(e.Header)
	if err != nil {
		return d, fmt.Errorf("engine: gemm-config: %w", err)
	}
	found, own := 0, defines(string(text), runtime.GOARCH)
	for _, name := range slices.Sorted(maps.Keys(compiledKnobs)) {
		k := compiledKnobs[name]
		if !defineLine(k.macro).Match(text) {
			d.Left = append(d.Left, fmt.Sprintf("%s: %s is not defined in %s", name, k.macro, e.Header))
			continue
		}
		found++
		d.Knobs = append(d.Knobs, Knob{Name: name, Values: k.values, Stage: Others, Ordered: true, Own: own[k.macro]})
	}
	if actParallel.Match(text) {
		d.Left = append(d.Left, "ACT_PARALLEL: I2_S weights lie in the file as the build that wrote it had it, and another build answers wrongly with them")
	}
	if found == 0 {
		return d, fmt.Errorf("engine: gemm-config: %s defines none of ROW_BLOCK_SIZE, COL_BLOCK_SIZE and PARALLEL_SIZE as a number", e.Header)
	}
	return d, nil
}

// Run implements Engine: it builds what is compiled in, if that was not built before, and measures the rest with it. The time
// of a build is not in the outcome.
func (e *Compiled) Run(ctx context.Context, s Setting, regimes []string, limit time.Duration) Outcome {
	built, rest := Setting{}, Setting{}
	for knob, value := range s {
		if _, compiled := compiledKnobs[knob]; compiled {
			built[knob] = value
		} else {
			rest[knob] = value
		}
	}
	if len(built) == 0 {
		return e.LlamaBench.Run(ctx, rest, regimes, limit)
	}
	if o, known := e.broken[built.String()]; known {
		return o
	}
	program, r := e.program(ctx, built)
	if r.Status != OK {
		o := Outcome{Status: r.Status, Note: "build: " + r.Note, Elapsed: r.Elapsed}
		if r.Status != Stopped {
			if e.broken == nil {
				e.broken = map[string]Outcome{}
			}
			e.broken[built.String()] = o
		}
		return o
	}
	bench := *e.LlamaBench
	bench.Path = program
	return bench.Run(ctx, rest, regimes, limit)
}

// program is the path of the program built with these values.
func (e *Compiled) program(ctx context.Context, built Setting) (string, Result) {
	original, err := os.ReadFile(e.Header)
	if err != nil {
		return "", Result{Status: Crash, Note: err.Error()}
	}
	sum := sha256.Sum256(append([]byte(built.String()+"\n"+e.Build+"\n"), original...))
	out := filepath.Join(e.Cache, hex.EncodeToString(sum[:8]))
	program := filepath.Join(out, "bin", "llama-bench")
	if _, err := os.Stat(filepath.Join(out, "complete")); err == nil {
		return program, Result{Status: OK}
	}
	r, err := e.build(ctx, original, built, out)
	if err == nil && r.Status == OK {
		if _, err = os.Stat(program); err == nil {
			err = os.WriteFile(filepath.Join(out, "complete"), []byte(built.String()+"\n"), 0o600)
		}
	}
	if err != nil {
		return "", Result{Status: Crash, Note: err.Error()}
	}
	return program, r
}

// build runs the build command with the values in the header. The original is back in its place when it returns; should this
// program be killed meanwhile, putBack does so the next time.
func (e *Compiled) build(ctx context.Context, original []byte, built Setting, out string) (r Result, err error) {
	if err := errors.Join(os.RemoveAll(out), os.MkdirAll(out, 0o700)); err != nil {
		return r, err
	}
	if err := writeWhole(e.Header+asideSuffix, original); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, e.putBack()) }()
	text := original
	for knob, value := range built {
		text = defineLine(compiledKnobs[knob].macro).ReplaceAll(text, []byte("${1}"+value))
	}
	if err := writeWhole(e.Header, text); err != nil {
		return r, err
	}
	command := strings.ReplaceAll(e.Build, "{out}", quote(out))
	return Run(ctx, Command{Path: "/bin/sh", Args: []string{"-c", command}, Env: append(os.Environ(), "OUT="+out)}, orDefault(e.BuildLimit, 20*time.Minute)), nil
}

// putBack puts the original header back, if a copy of it lies beside.
func (e *Compiled) putBack() error {
	err := os.Rename(e.Header+asideSuffix, e.Header)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("engine: gemm-config: the original could not be put back: %w", err)
	}
	return nil
}

// writeWhole replaces a file at once, so that there is never half of one, and keeps its mode.
func writeWhole(path string, data []byte) error {
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(strings.TrimSuffix(path, asideSuffix)); err == nil {
		mode = info.Mode().Perm()
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".autotune-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(data)
	if err := errors.Join(err, temp.Chmod(mode), temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
