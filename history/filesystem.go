package history

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Network filesystems by the magic number of statfs(2). Their locks and their renames promise less than local ones do.
var networkFilesystems = map[uint32]string{
	0x6969:     "NFS",
	0x517B:     "SMB",
	0xFF534D42: "CIFS",
	0xFE534D42: "SMB2",
	0x01021997: "9P",
	0x65735546: "FUSE",
	0x5346414F: "AFS",
	0x00C36400: "Ceph",
	0x0BD00BD0: "Lustre",
	0x47504653: "GPFS",
	0x19830326: "BeeGFS",
}

// networkWarning is nil for a local filesystem, and for one that cannot be asked.
func networkWarning(dir string) error {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return nil
	}
	return filesystemWarning(dir, uint32(st.Type))
}

func filesystemWarning(dir string, kind uint32) error {
	if name, ok := networkFilesystems[kind]; ok {
		return fmt.Errorf("history: %s is on %s, where locks are doubtful: let one host at a time use it, or choose a local directory", dir, name)
	}
	return nil
}
