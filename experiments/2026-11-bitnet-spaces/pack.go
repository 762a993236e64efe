package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bitnet-autotune/bitnet-autotune/experiments/replay"
)

// pack makes one table of the journals of a directory: the host once, then of each space its head and a line for each
// point.
func pack(dir, table string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return err
	}
	slices.Sort(names)
	var lines []replay.Line
	for _, name := range names {
		spaces, err := readTable(name)
		if err != nil {
			return err
		}
		for _, s := range spaces {
			if len(lines) == 0 {
				lines = append(lines, replay.Line{Host: s.Host})
			}
			lines = append(lines, replay.Line{Head: &s.Head})
			for i := range s.Rows {
				if s.Rows[i].SetupMs > float64(stopped.Milliseconds()) {
					s.Rows[i].SetupMs = 0
				}
				lines = append(lines, replay.Line{Row: &s.Rows[i]})
			}
		}
	}
	if len(lines) == 0 {
		return errors.New("no journal in " + dir)
	}
	return write(table, lines)
}

func write(name string, lines []replay.Line) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	text := bufio.NewWriter(z)
	out := json.NewEncoder(text)
	for _, line := range lines {
		err = errors.Join(err, out.Encode(line))
	}
	return errors.Join(err, text.Flush(), z.Close(), file.Close())
}

// readTable reads a table or a journal.
func readTable(name string) ([]*replay.Samples, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	spaces, err := replay.ReadSamples(file)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "replay: ") + " (" + name + ")")
	}
	return spaces, nil
}
