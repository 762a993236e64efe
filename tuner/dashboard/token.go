package dashboard

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// token is the hash of the word that writes demand. Hashes are compared, so that neither the length nor a common beginning
// shows in the time.
type token [sha256.Size]byte

// Lengths of a token.
const (
	leastToken = 16
	mostToken  = 4096
)

// readToken reads the token in a file, and makes one where there is none.
func readToken(path string) (token, error) {
	text, err := readBounded(path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = makeToken(path)
	}
	if err != nil {
		return token{}, fmt.Errorf("token-file %s: %w", path, err)
	}
	text = bytes.TrimSpace(text)
	if len(text) < leastToken || len(text) > mostToken || bytes.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return token{}, fmt.Errorf("token-file %s: want one word of %d to %d printable characters", path, leastToken, mostToken)
	}
	return sha256.Sum256(text), nil
}

// readBounded reads no more of a file than a token can be, and not at all what is no file: a pipe would never end.
func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, reason(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, reason(err)
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, mostToken+2))
}

// makeToken writes a new token, complete before the file has its name, which only its owner may read.
func makeToken(path string) ([]byte, error) {
	word := make([]byte, 32)
	rand.Read(word)
	text := []byte(base64.RawURLEncoding.EncodeToString(word) + "\n")
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return nil, fmt.Errorf("it cannot be made: %w", reason(err))
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
		return nil, fmt.Errorf("it cannot be made: %w", reason(err))
	}
	return text, nil
}

// reason drops from an error the path that the message around it names already.
func reason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// in reports whether a request carries the token.
func (t token) in(r *http.Request) bool {
	scheme, word, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(word))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], t[:]) == 1
}
