package history

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
)

// Export writes the records that f matches as JSONL: one Record a line, in the order of Records, under the JSON names
// of its fields. What Import reads back is equal in every bit.
func (s *Store) Export(ctx context.Context, w io.Writer, f Filter) error {
	out := bufio.NewWriter(w)
	err := s.Records(ctx, f, func(r Record) error {
		line, err := marshal(r)
		if err != nil {
			return fmt.Errorf("history: export: run %d seq %d: %w", r.Run, r.Seq, err)
		}
		if _, err = out.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("history: export: %w", err)
		}
		return nil
	})
	if flushed := out.Flush(); err == nil && flushed != nil {
		err = fmt.Errorf("history: export: %w", flushed)
	}
	return err
}

// importBatch is how many records are stored in one transaction: large enough that the sync of the disk does not
// matter, small enough that others wait for milliseconds.
const importBatch = 500

// Import stores what Export wrote and returns how many records were new. Empty lines are passed over. A line that is
// no record ends it with an error that names the line; the lines before it are stored, and repeating the import after
// mending it adds only the rest.
func (s *Store) Import(ctx context.Context, r io.Reader) (n int, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), 4*maxValueBytes)
	var batch []Record
	var bad error
	line, first := 0, 1
	store := func() error {
		verb := fmt.Sprintf("import: lines %d to %d", first, line)
		pairs, err := encodeAll(verb, batch)
		if err != nil || len(pairs) == 0 {
			return err
		}
		added, err := s.addPairs(ctx, verb, pairs)
		n, first, batch = n+added, line+1, batch[:0]
		return err
	}
	for bad == nil && lines.Scan() {
		line++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		rec, err := parseLine(lines.Bytes())
		if err != nil {
			bad = fmt.Errorf("history: import: line %d: %w", line, err)
			continue
		}
		if batch = append(batch, rec); len(batch) == importBatch {
			if err := store(); err != nil {
				return n, err
			}
		}
	}
	if err := lines.Err(); err != nil {
		bad = fmt.Errorf("history: import: line %d: %w", line+1, err)
	}
	if err := store(); err != nil {
		return n, err
	}
	return n, bad
}

// parseLine reads one record and makes sure that it could be stored.
func parseLine(line []byte) (r Record, err error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return r, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return r, fmt.Errorf("more than one JSON document")
	}
	_, _, err = r.encode()
	return r, err
}
