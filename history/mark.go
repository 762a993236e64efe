package history

import (
	"crypto/sha256"
	"encoding/binary"
	"os"
	"strings"
	"sync"
)

// mark is what a user of the database leaves in history.lock, which it holds: the state of the file that it closed in
// order, so that the next one need not look at its shape, and the generation, so that an older file put in its place is
// noticed. A writer takes the state off before it begins. The mark is a hint and never synced: without a good one the
// file is looked at, as it is after each start of the kernel.
type mark struct {
	file       fileID // the zero value: somebody may have been writing when it ended
	generation uint64
}

// The mark in history.lock; FORMAT.md has the diagram.
const (
	markMagic = "BNAMRK\r\n"
	markBytes = 8 + 8 + 4*8 + 8 + 4
)

// bootID stands for this start of the kernel, or is 0, which no mark matches.
var bootID = sync.OnceValue(func() uint64 {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return 0
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(string(id))))
	return binary.BigEndian.Uint64(sum[:])
})

func (m mark) encode() []byte {
	b := append(make([]byte, 0, markBytes), markMagic...)
	b = binary.BigEndian.AppendUint64(b, bootID())
	for _, n := range []uint64{m.file.inode, uint64(m.file.size), uint64(m.file.mtime), uint64(m.file.ctime), m.generation} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return binary.BigEndian.AppendUint32(b, checksum(nil, b))
}

// readMark returns the mark in a lock file, zero where there is no good one. The state of a mark from before the
// kernel started is not trusted, its generation is.
func readMark(lock *os.File) (m mark) {
	b := make([]byte, markBytes)
	if lock == nil {
		return m
	}
	if _, err := lock.ReadAt(b, 0); err != nil || string(b[:8]) != markMagic {
		return m
	}
	body, sum := b[:markBytes-4], binary.BigEndian.Uint32(b[markBytes-4:])
	if checksum(nil, body) != sum {
		return m
	}
	n := func(i int) uint64 { return binary.BigEndian.Uint64(b[8+8*i:]) }
	m.generation = n(5)
	if boot := n(0); boot != 0 && boot == bootID() {
		m.file = fileID{inode: n(1), size: int64(n(2)), mtime: int64(n(3)), ctime: int64(n(4))}
	}
	return m
}

// leaveMark writes a mark. The caller holds the lock. That it cannot be written costs the next one a look at the file.
func (s *Store) leaveMark(m mark) {
	if s.held == nil || s.opt.ReadOnly || readMark(s.held) == m {
		return
	}
	s.held.WriteAt(m.encode(), 0)
}

// lastSeen is the greatest generation that is known to have been in the database or the snapshot.
func (s *Store) lastSeen() uint64 { return readMark(s.held).generation }
