package history

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Snapshot is what readers need: everything learned and every pin. It must not be modified.
type Snapshot struct {
	Generation uint64    `json:"-"`       // of the database when it was written
	Learned    []Learned `json:"learned"` // by host, model, target, objective; the newest first among equals
	Pins       []Pin     `json:"pins"`    // by model
}

// ErrNoSnapshot means that nothing was ever published in the directory.
var ErrNoSnapshot = errors.New("nothing was published yet")

// A snapshot file is a header and a JSON payload; FORMAT.md has the diagram.
const (
	snapshotMagic       = "BNACFG\r\n"
	snapshotHeaderBytes = 32
	maxSnapshotBytes    = 64 << 20
)

// encode returns the bytes of the file.
func (snap *Snapshot) encode() ([]byte, error) {
	payload, err := Marshal(snap)
	if err != nil {
		return nil, err
	}
	if len(payload) > maxSnapshotBytes {
		return nil, fmt.Errorf("snapshot of %d bytes: want at most %d", len(payload), maxSnapshotBytes)
	}
	file := make([]byte, 0, snapshotHeaderBytes+len(payload))
	file = append(file, snapshotMagic...)
	file = binary.BigEndian.AppendUint32(file, uint32(FormatNewest))
	file = binary.BigEndian.AppendUint32(file, uint32(FormatOldestReader))
	file = binary.BigEndian.AppendUint64(file, snap.Generation)
	file = binary.BigEndian.AppendUint32(file, uint32(len(payload)))
	file = binary.BigEndian.AppendUint32(file, checksum(file, payload))
	return append(file, payload...), nil
}

// decodeSnapshot is the inverse of encode.
func decodeSnapshot(file []byte) (*Snapshot, error) {
	if len(file) < snapshotHeaderBytes || string(file[:8]) != snapshotMagic {
		return nil, fmt.Errorf("%w: %d bytes that do not begin with its magic", ErrCorrupt, len(file))
	}
	header, payload := file[:snapshotHeaderBytes], file[snapshotHeaderBytes:]
	if want := binary.BigEndian.Uint32(header[24:]); uint64(want) != uint64(len(payload)) {
		return nil, fmt.Errorf("%w: payload of %d bytes where the header says %d", ErrCorrupt, len(payload), want)
	}
	if checksum(header[:snapshotHeaderBytes-crc32.Size], payload) != binary.BigEndian.Uint32(header[28:]) {
		return nil, fmt.Errorf("%w: checksum differs", ErrCorrupt)
	}
	if reader := binary.BigEndian.Uint32(header[12:]); reader > uint32(FormatNewest) {
		return nil, newer(uint64(binary.BigEndian.Uint32(header[8:])))
	}
	snap := &Snapshot{Generation: binary.BigEndian.Uint64(header[16:])}
	if err := json.Unmarshal(payload, snap); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return snap, nil
}

// ReadSnapshot reads the snapshot in dir. It takes no lock, never opens the database and writes nothing. The error
// wraps ErrNoSnapshot if there is none, ErrCorrupt if it is not what was written, ErrNewer if a later version is
// needed to read it.
func ReadSnapshot(dir string) (*Snapshot, error) {
	snap, _, err := loadSnapshot(filepath.Join(dir, snapshotName))
	return snap, err
}

// loadSnapshot returns the snapshot at path and the identity of the file that it was read from.
func loadSnapshot(path string) (snap *Snapshot, id fileID, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNoSnapshot
	}
	if err != nil {
		return nil, id, fmt.Errorf("history: read snapshot %s: %w", path, reason(err))
	}
	defer file.Close()
	if id, err = fstatFile(file); err == nil {
		snap, err = readSnapshotFrom(file)
	}
	if err != nil {
		return nil, id, fmt.Errorf("history: read snapshot %s: %w", path, reason(err))
	}
	return snap, id, nil
}

func readSnapshotFrom(file *os.File) (*Snapshot, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > snapshotHeaderBytes+maxSnapshotBytes {
		return nil, fmt.Errorf("%w: not a regular file of at most %d bytes", ErrCorrupt, maxSnapshotBytes)
	}
	content := make([]byte, info.Size())
	if _, err := io.ReadFull(file, content); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return decodeSnapshot(content)
}

// keptSnapshot returns what the snapshot in dir keeps: nothing, of generation 0, where there is none or a damaged one,
// which may then be replaced. Any other error means that something may stand there that must not be lost.
func keptSnapshot(dir string) (*Snapshot, error) {
	snap, err := ReadSnapshot(dir)
	if errors.Is(err, ErrNoSnapshot) || errors.Is(err, ErrCorrupt) {
		return &Snapshot{}, nil
	}
	return snap, err
}

// peekGeneration is what the header of the snapshot in dir says, unchecked, or 0.
func peekGeneration(dir string) uint64 {
	file, err := os.Open(filepath.Join(dir, snapshotName))
	if err != nil {
		return 0
	}
	defer file.Close()
	var header [snapshotHeaderBytes]byte
	if _, err := file.ReadAt(header[:], 0); err != nil {
		return 0
	}
	return binary.BigEndian.Uint64(header[16:])
}

// writeSnapshot replaces the snapshot in dir. The caller holds the lock.
func writeSnapshot(dir string, snap *Snapshot) error {
	content, err := snap.encode()
	if err != nil {
		return err
	}
	path := filepath.Join(dir, snapshotName)
	temp := path + newSuffix
	if err := writeSynced(temp, content); err != nil {
		os.Remove(temp)
		return err
	}
	return renameDurably(temp, path)
}

// writeSynced writes a file and waits until it is on the disk.
func writeSynced(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// fileID tells one state of a file from another. The zero value is no file's.
type fileID struct {
	inode uint64
	size  int64
	mtime int64 // ns since 1970
	ctime int64 // likewise; unlike mtime, nobody can set it
}

func newFileID(st *unix.Stat_t) fileID {
	return fileID{st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}
}

// statFile returns the identity of the file at path.
func statFile(path string) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fileID{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return newFileID(&st), nil
}

// fstatFile returns the identity of an open file.
func fstatFile(file *os.File) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return fileID{}, err
	}
	return newFileID(&st), nil
}
