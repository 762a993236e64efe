package engine

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// ownLibrary are the libraries that a build of the llama.cpp family makes besides its programs.
var ownLibrary = regexp.MustCompile(`^lib(llama|ggml)[\w.-]*\.so[\w.]*$`)

// backend are those of them that lie beside a program and are loaded as it runs.
var backend = regexp.MustCompile(`^libggml.*\.so`)

// libraryDirs are where the system's linker looks besides the directories that a program names.
var libraryDirs = []string{"/usr/local/lib", "/usr/local/lib64", "/lib64", "/usr/lib64", "/lib", "/usr/lib"}

// Program is 32 hex digits that stand for a program: its own bytes, and those of the libraries of its build, which hold most of
// what is compiled with flags. The error says which library cannot be found: then nobody knows what would run.
func Program(ctx context.Context, path string) (string, error) {
	path, err := exec.LookPath(path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", fmt.Errorf("engine: command: %w", err)
	}
	files := map[string]string{}
	err = collect("program", path, files)
	if err == nil {
		err = collectBackends(filepath.Dir(path), files)
	}
	if err != nil {
		return "", fmt.Errorf("engine: command: %w", err)
	}
	return hashFiles(ctx, files)
}

// collectBackends adds those that lie beside a program, which loads them as it runs.
func collectBackends(dir string, files map[string]string) error {
	beside, err := os.ReadDir(dir) // and not a pattern: the name of the directory is anybody's
	if err != nil {
		return err
	}
	for _, entry := range beside {
		path := filepath.Join(dir, entry.Name())
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || !backend.MatchString(entry.Name()) {
			continue // no linker can load it
		}
		if err := collect(entry.Name(), path, files); err != nil {
			return err
		}
	}
	return nil
}

// collect adds a file under a name, and the libraries of the build that it needs under theirs. What is no ELF file needs none.
func collect(name, path string, files map[string]string) error {
	files[name] = path
	file, err := elf.Open(path)
	if err != nil {
		return nil // a script
	}
	defer file.Close()
	needed, err := file.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	dirs := searched(file, filepath.Dir(path))
	for _, name := range needed {
		if _, known := files[name]; known || !ownLibrary.MatchString(name) {
			continue
		}
		i := slices.IndexFunc(dirs, func(dir string) bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil })
		if i < 0 {
			return fmt.Errorf("%s needs %s, which is in none of the directories that it names, nor beside it", path, name)
		}
		if err := collect(name, filepath.Join(dirs[i], name), files); err != nil {
			return err
		}
	}
	return nil
}

// searched are the directories in which the libraries of a file are looked for, in the linker's order (ld.so(8)): those it names,
// those of the environment, its own, and the system's.
func searched(file *elf.File, own string) (dirs []string) {
	dirs = append(named(file, elf.DT_RPATH, own), filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))...)
	dirs = append(append(dirs, named(file, elf.DT_RUNPATH, own)...), own)
	dirs = append(dirs, libraryDirs...)
	for _, dir := range libraryDirs {
		multiarch, _ := filepath.Glob(filepath.Join(dir, "*-linux-gnu")) // the pattern is sound
		dirs = append(dirs, multiarch...)
	}
	return dirs
}

// named are the directories that a file names.
func named(file *elf.File, tag elf.DynTag, own string) (dirs []string) {
	lists, err := file.DynString(tag)
	if err != nil {
		return nil
	}
	for _, list := range lists {
		for _, dir := range filepath.SplitList(list) {
			dirs = append(dirs, strings.NewReplacer("$ORIGIN", own, "${ORIGIN}", own).Replace(dir))
		}
	}
	return dirs
}

// hashFiles is 32 hex digits that stand for the contents of files and the names by which they are found.
func hashFiles(ctx context.Context, files map[string]string) (string, error) {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		sum, err := hashFile(files[name])
		if err != nil {
			return "", fmt.Errorf("engine: command: %w", err)
		}
		fmt.Fprintf(h, "%s %s\n", name, sum)
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// hashFile is 64 hex digits that stand for a file.
func hashFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
