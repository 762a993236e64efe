package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bitnet-autotune/bitnet-autotune/history/t4"
)

// Loaded are the tables of some files.
type Loaded struct {
	Tables []Scored
	// PassedOver are files of a directory that hold T4 results. They are read where they are named themselves: beside a
	// cache they mostly are the same space again.
	PassedOver []string
}

// Load reads caches, results and tables of samples, so many files at a time; a directory stands for the caches in it. A
// table is named after its file, with so much of the path before it as tells it from the others; those of samples have
// names of their own.
func Load(ctx context.Context, paths []string, workers int) (Loaded, error) {
	var loaded Loaded
	var files []string
	for _, path := range paths {
		found, passed, err := expand(path)
		if err != nil {
			return Loaded{}, err
		}
		files, loaded.PassedOver = append(files, found...), append(loaded.PassedOver, passed...)
	}
	names, err := namesOf(files)
	if err != nil {
		return Loaded{}, err
	}
	tables, errs := make([][]Scored, len(files)), make([]error, len(files))
	turns := make(chan struct{}, max(1, workers))
	var wait sync.WaitGroup
	for i, file := range files {
		wait.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			if errs[i] = context.Cause(ctx); errs[i] == nil {
				tables[i], errs[i] = readFile(names[i], file)
			}
		})
	}
	wait.Wait()
	loaded.Tables = slices.Concat(tables...)
	return loaded, cmp.Or(append(errs, distinct(loaded.Tables))...)
}

// distinct refuses two spaces of one name, which tables of samples give themselves: results are told apart by it.
func distinct(tables []Scored) error {
	seen := map[string]bool{}
	for _, t := range tables {
		if seen[t.Name] {
			return fmt.Errorf("replay: space %s: given twice; want each once", t.Name)
		}
		seen[t.Name] = true
	}
	return nil
}

// expand returns the files that a path stands for.
func expand(path string) (files, passed []string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, fmt.Errorf("replay: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, nil, fmt.Errorf("replay: %w", err)
	}
	for _, entry := range entries {
		name := filepath.Join(path, entry.Name())
		if entry.IsDir() || trim(name) == name {
			continue
		}
		format, err := formatOf(name)
		switch {
		case err != nil:
			return nil, nil, err
		case format == t4.Results:
			passed = append(passed, name)
		default:
			files = append(files, name)
		}
	}
	if len(files) == 0 {
		return nil, nil, fmt.Errorf("replay: %s: no cache in this directory; want files of Kernel Tuner that end in .json or .json.gz", path)
	}
	return files, passed, nil
}

// trim returns a file's name without the endings of caches and results.
func trim(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".json"), ".t4")
}

func formatOf(name string) (t4.Format, error) {
	file, err := os.Open(name)
	if err != nil {
		return 0, fmt.Errorf("replay: %w", err)
	}
	defer file.Close()
	rd, err := t4.NewReader(file)
	if err != nil {
		return 0, fmt.Errorf("replay: %s: %w", name, err)
	}
	return rd.Format(), nil
}

// readFile reads the tables of a file: one, or as many as a file of samples holds.
func readFile(name, path string) ([]Scored, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	defer file.Close()
	tables, err := readTables(name, path, file)
	if err != nil {
		return nil, fmt.Errorf("replay: %s: %w", path, err)
	}
	scored := make([]Scored, len(tables))
	for i, table := range tables {
		if scored[i], err = newScored(table); err != nil {
			return nil, fmt.Errorf("replay: %s: %s: %w", path, table.Name, err)
		}
	}
	return scored, nil
}

func readTables(name, path string, file io.Reader) ([]*Table, error) {
	if !strings.HasSuffix(strings.TrimSuffix(path, ".gz"), ".jsonl") {
		table, err := read(file)
		if err != nil {
			return nil, err
		}
		table.Name = name
		return []*Table{table}, nil
	}
	samples, err := readSamples(file)
	if err == nil && len(samples) == 0 {
		err = errors.New(`no "space" in any line`)
	}
	var tables []*Table
	for _, s := range samples {
		table, summed := s.Table()
		tables, err = append(tables, table), cmp.Or(err, summed)
	}
	return tables, err
}

// namesOf returns the last part of each path, and more of it where that is not enough to tell them apart.
func namesOf(files []string) ([]string, error) {
	names := make([]string, len(files))
	for i, file := range files {
		parts := strings.Split(filepath.ToSlash(trim(filepath.Clean(file))), "/")
		for from := len(parts) - 1; from >= 0; from-- {
			names[i] = strings.Join(parts[from:], "/")
			if !slices.ContainsFunc(files, func(other string) bool { return other != file && hasTail(trim(filepath.Clean(other)), names[i]) }) {
				break
			}
		}
		if at := slices.Index(names[:i], names[i]); at >= 0 {
			return nil, fmt.Errorf("replay: %s and %s: the same space twice; want each once", files[at], file)
		}
	}
	return names, nil
}

// hasTail reports whether the last parts of a path are these.
func hasTail(path, tail string) bool {
	path = filepath.ToSlash(path)
	return path == tail || strings.HasSuffix(path, "/"+tail)
}
