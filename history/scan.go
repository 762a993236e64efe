package history

import (
	"bytes"
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// Chunks of a scan: what is read before the lock is released to others for a moment.
const (
	chunkKeys  = 4096
	chunkBytes = 1 << 20
)

// pair is a key and its value.
type pair struct{ key, value []byte }

// scan calls visit, in key order and without holding the lock, for every pair of a bucket whose key has the prefix
// and for which keep, if not nil, is true.
func (s *Store) scan(ctx context.Context, bucket, prefix []byte, keep func(key []byte) bool, visit func(key, value []byte) error) error {
	from := append([]byte{}, prefix...)
	for from != nil {
		var chunk []pair
		err := s.exclusive(ctx, func() error {
			return s.view(ctx, func(tx *bolt.Tx, _ state) error {
				var err error
				chunk, from, err = readChunk(tx.Bucket(bucket), prefix, from, keep)
				return err
			})
		})
		if err != nil {
			return err
		}
		for _, p := range chunk {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := visit(p.key, p.value); err != nil {
				return err
			}
		}
	}
	return nil
}

// readChunk copies pairs from a key on, and returns the key to go on from, nil at the end.
func readChunk(b *bolt.Bucket, prefix, from []byte, keep func([]byte) bool) (chunk []pair, next []byte, err error) {
	if b == nil {
		return nil, nil, fmt.Errorf("%w: a bucket is missing", ErrCorrupt)
	}
	c := b.Cursor()
	var last []byte
	var size, seen int
	for k, v := c.Seek(from); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
		if seen++; seen > chunkKeys || size > chunkBytes {
			return chunk, bytes.Clone(k), nil
		}
		if len(k) > maxKeyBytes || len(v) > maxValueBytes || (last != nil && bytes.Compare(k, last) <= 0) {
			return nil, nil, fmt.Errorf("%w: keys out of order or too long after %x", ErrCorrupt, last)
		}
		last = append(last[:0], k...)
		if keep == nil || keep(k) {
			chunk = append(chunk, pair{bytes.Clone(k), bytes.Clone(v)})
			size += len(k) + len(v)
		}
	}
	return chunk, nil, nil
}
