package history

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
)

// Export writes the records that f matches as JSONL: one Record a line, in the order of Records, under the JSON names
// of its fields. What Import reads back is equal in every bit.
func (s *Store) Export(ctx context.Context, w io.Writer, f Filter) error {
	out := bufio.NewWriter(w)
	err := s.Records(ctx, f, func(r Record) error {
		line, err := Marshal(r)
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
	line := 0
	return s.importAll(ctx, "lines", &line, lines(r, &line))
}

// ImportRecords stores records from elsewhere and returns how many were new. The first error ends it; the records before
// it are stored.
func (s *Store) ImportRecords(ctx context.Context, records iter.Seq2[Record, error]) (n int, err error) {
	at := 0
	return s.importAll(ctx, "records", &at, func(yield func(Record, error) bool) {
		for rec, err := range records {
			if at++; !yield(rec, err) {
				return
			}
		}
	})
}

// importAll stores records in batches; at is where the one at hand stands, in units for the errors.
func (s *Store) importAll(ctx context.Context, units string, at *int, records iter.Seq2[Record, error]) (n int, err error) {
	var batch []Record
	first := 1
	store := func() error {
		verb := fmt.Sprintf("import: %s %d to %d", units, first, *at)
		pairs, err := encodeAll(verb, batch)
		if err != nil || len(pairs) == 0 {
			return err
		}
		added, err := s.addPairs(ctx, verb, pairs)
		n, first, batch = n+added, *at+1, batch[:0]
		return err
	}
	var bad error
	for rec, err := range records {
		if bad = err; bad != nil {
			bad = fmt.Errorf("history: import: %w", bad)
			break
		}
		if batch = append(batch, rec); len(batch) == importBatch {
			if err := store(); err != nil {
				return n, err
			}
		}
	}
	if err := store(); err != nil {
		return n, err
	}
	return n, bad
}

// lines returns the records of a JSONL file and counts its lines.
func lines(r io.Reader, line *int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		text := bufio.NewScanner(r)
		text.Buffer(make([]byte, 0, 64<<10), 4*maxValueBytes)
		for text.Scan() {
			*line++
			if len(bytes.TrimSpace(text.Bytes())) == 0 {
				continue
			}
			rec, err := parseLine(text.Bytes())
			if err != nil {
				err = fmt.Errorf("line %d: %w", *line, err)
			}
			if !yield(rec, err) {
				return
			}
		}
		if err := text.Err(); err != nil {
			yield(Record{}, fmt.Errorf("line %d: %w", *line+1, err))
		}
	}
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
