package history

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// Canonical returns the one spelling of a JSON document: object keys sorted, no space between tokens, numbers as
// they were written. Two spellings of one setting thus get one config id.
func Canonical(doc []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("not JSON: more than one document")
	}
	return Marshal(v)
}

// Marshal is json.Marshal without the escaping that is meant for HTML, and so leaves canonical documents as they are.
func Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}), nil
}

// hash64 is the first 8 bytes of SHA-256, big-endian.
func hash64(doc []byte) uint64 {
	sum := sha256.Sum256(doc)
	return binary.BigEndian.Uint64(sum[:])
}
