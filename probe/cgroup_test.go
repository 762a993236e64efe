package probe

import (
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const (
	unified = "35 23 0:29 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n"
	cpuV1   = "30 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
	memV1   = "32 25 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	setV1   = "31 25 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
)

func TestReadCgroup(t *testing.T) {
	for name, c := range map[string]struct {
		self, mounts string
		files        map[string]string
		want         Cgroup
	}{
		"v2: the tightest ancestor binds": {
			self: "0::/a/b/c\n", mounts: unified,
			files: map[string]string{
				"sys/fs/cgroup/a/cpu.max": "400000 100000", "sys/fs/cgroup/a/b/cpu.max": "50000 20000", "sys/fs/cgroup/a/b/c/cpu.max": "max 100000",
				"sys/fs/cgroup/a/memory.max": "1000000", "sys/fs/cgroup/a/b/memory.max": "2000000", "sys/fs/cgroup/a/b/c/memory.max": "max",
				"sys/fs/cgroup/a/b/cpuset.cpus.effective": "0-5", "sys/fs/cgroup/a/b/c/cpuset.cpus.effective": "4-7",
			},
			want: Cgroup{Version: 2, QuotaCPUs: 2.5, MemoryLimitBytes: 1000000, Cpuset: []int{4, 5}, Path: "/a/b/c"},
		},
		"v2: memory.high binds like memory.max": {
			self: "0::/a\n", mounts: unified,
			files: map[string]string{"sys/fs/cgroup/a/memory.max": "2000000", "sys/fs/cgroup/a/memory.high": "1500000"},
			want:  Cgroup{Version: 2, MemoryLimitBytes: 1500000, Path: "/a"},
		},
		"v2: no limit anywhere": {
			self: "0::/a\n", mounts: unified,
			files: map[string]string{"sys/fs/cgroup/a/cpu.max": "max 100000", "sys/fs/cgroup/a/memory.max": "max"},
			want:  Cgroup{Version: 2, Path: "/a"},
		},
		"v2: the root group has no cpu.max": {
			self: "0::/\n", mounts: unified, want: Cgroup{Version: 2, Path: "/"},
			files: map[string]string{"sys/fs/cgroup/cpuset.cpus.effective": ""},
		},
		"v2: the host's path, with the container's own group mounted": {
			self: "0::/kubepods/pod1/box\n", mounts: "35 23 0:29 /kubepods/pod1 /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
			files: map[string]string{"sys/fs/cgroup/cpu.max": "200000 100000", "sys/fs/cgroup/box/cpu.max": "100000 100000"},
			want:  Cgroup{Version: 2, QuotaCPUs: 1, Path: "/kubepods/pod1/box"},
		},
		"v2: the host's path, which does not exist here": {
			self: "0::/kubepods/pod1/box\n", mounts: unified,
			files: map[string]string{"sys/fs/cgroup/cpu.max": "300000 100000"},
			want:  Cgroup{Version: 2, QuotaCPUs: 3, Path: "/kubepods/pod1/box"},
		},
		"v2: outside the namespace": {
			self: "0::/../../other\n", mounts: "35 23 0:29 /../.. /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
			files: map[string]string{"sys/fs/cgroup/cpu.max": "300000 100000", "other/cpu.max": "100000 100000"},
			want:  Cgroup{Version: 2, QuotaCPUs: 3, Path: "/../../other"},
		},
		"v2: the mount that holds the group, among two": {
			self: "0::/a/b\n", mounts: "40 1 0:29 /x /mnt/x rw - cgroup2 cgroup2 rw\n" + unified,
			files: map[string]string{"mnt/x/cpu.max": "100000 100000", "sys/fs/cgroup/a/b/cpu.max": "700000 100000"},
			want:  Cgroup{Version: 2, QuotaCPUs: 7, Path: "/a/b"},
		},
		"v2: a root that is a prefix of the name only": {
			self: "0::/kubepods2/box\n", mounts: "35 23 0:29 /kubepods /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
			files: map[string]string{"sys/fs/cgroup/cpu.max": "300000 100000", "sys/fs/cgroup/2/box/cpu.max": "100000 100000"},
			want:  Cgroup{Version: 2, QuotaCPUs: 3, Path: "/kubepods2/box"},
		},
		"v2: a space in the mount point, a colon in the path": {
			self: "0::/a:b\n", mounts: `35 23 0:29 / /my\040groups rw - cgroup2 cgroup2 rw` + "\n",
			files: map[string]string{"my groups/a:b/cpu.max": "150000 100000"},
			want:  Cgroup{Version: 2, QuotaCPUs: 1.5, Path: "/a:b"},
		},
		"v1: controllers in hierarchies of their own": {
			self: "4:memory:/m/n\n3:cpuset:/s\n2:cpu,cpuacct:/c/d\n1:name=systemd:/x\n", mounts: cpuV1 + memV1 + setV1,
			files: map[string]string{
				"sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us": "150000", "sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us": "100000",
				"sys/fs/cgroup/cpu,cpuacct/c/d/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu,cpuacct/c/d/cpu.cfs_period_us": "100000",
				"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712",
				"sys/fs/cgroup/memory/m/memory.limit_in_bytes": "3000000", "sys/fs/cgroup/memory/m/n/memory.limit_in_bytes": "4000000",
				"sys/fs/cgroup/cpuset/s/cpuset.cpus": "1,3",
			},
			want: Cgroup{Version: 1, QuotaCPUs: 1.5, MemoryLimitBytes: 3000000, Cpuset: []int{1, 3}, Path: "/c/d"},
		},
		"hybrid: only systemd on v1, the rest on v2": {
			self: "1:name=systemd:/x\n0::/a\n", mounts: "27 25 0:23 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n" +
				"26 25 0:22 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			files: map[string]string{"sys/fs/cgroup/unified/a/cpu.max": "250000 100000"},
			want:  Cgroup{Version: 2, QuotaCPUs: 2.5, Path: "/a"},
		},
		"hybrid: CPU on v1, memory on v2": {
			self: "2:cpu,cpuacct:/c\n0::/a\n", mounts: cpuV1 + "26 25 0:22 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			files: map[string]string{
				"sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us": "300000", "sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us": "100000",
				"sys/fs/cgroup/unified/a/memory.max": "5000000", "sys/fs/cgroup/unified/a/cpu.max": "100000 100000",
			},
			want: Cgroup{Version: 1, QuotaCPUs: 3, MemoryLimitBytes: 5000000, Path: "/c"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{"proc/self/cgroup": {Data: []byte(c.self)}, "proc/self/mountinfo": {Data: []byte(c.mounts)}}
			for name, text := range c.files {
				files[name] = &fstest.MapFile{Data: []byte(text + "\n")}
			}
			rd := &tree{fsys: files}
			got, _ := readCgroup(rd, readBranches(rd))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if rd.warnings != nil {
				t.Errorf("warnings %q", rd.warnings)
			}
		})
	}
}

// The least of the groups' headrooms binds, not that of the group with the least limit.
func TestMemoryHeadroom(t *testing.T) {
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"proc/self/cgroup": "0::/a/b", "proc/self/mountinfo": unified,
		"sys/fs/cgroup/a/memory.max": "8000", "sys/fs/cgroup/a/memory.current": "7500", "sys/fs/cgroup/a/memory.stat": "inactive_file 200",
		"sys/fs/cgroup/a/b/memory.max": "4000", "sys/fs/cgroup/a/b/memory.current": "1000", "sys/fs/cgroup/a/b/memory.stat": "inactive_file 9999",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	rd := &tree{fsys: files}
	c, headroom := readCgroup(rd, readBranches(rd))
	if c.MemoryLimitBytes != 4000 || headroom != 700 {
		t.Errorf("limit %d, headroom %d; want 4000, 700", c.MemoryLimitBytes, headroom)
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		n     int
		quota float64
		want  int
	}{
		{8, 0, 8}, {8, 1.5, 1}, {8, 0.3, 1}, {8, 7.65, 7}, {8, 8, 8}, {8, 64, 8}, {2, 1.999, 1}, {0, 0, 1}, {4, 3, 3}, {4, math.Inf(1), 4},
	} {
		if got := cut(c.n, c.quota); got != c.want {
			t.Errorf("%d CPUs with a quota of %g: %d, want %d", c.n, c.quota, got, c.want)
		}
	}
}

// Whatever the files say, the facts stay in bounds, and nothing panics.
func FuzzReadCgroup(f *testing.F) {
	f.Add("0::/a/b\n", unified, "150000 100000", "max", "0-3")
	f.Add("0::/../..\n", "35 23 0:29 /.. /../../etc rw - cgroup2 c rw\n", "-1 0", "-1", "0-4294967295")
	f.Add("4:memory:/\n2:cpu,cpuacct:/a\n3:cpuset:/a\n", cpuV1+memV1+setV1, "-1", "9223372036854771712", "")
	f.Add("0::"+strings.Repeat("/a", 500), unified, "9223372036854775807 1", "99999999999999999999", "7,,")
	f.Fuzz(func(t *testing.T, self, mounts, quota, memory, cpus string) {
		files := fstest.MapFS{"proc/self/cgroup": {Data: []byte(self)}, "proc/self/mountinfo": {Data: []byte(mounts)}}
		for _, dir := range []string{"sys/fs/cgroup/", "sys/fs/cgroup/a/", "sys/fs/cgroup/a/b/", "sys/fs/cgroup/cpu,cpuacct/a/", "sys/fs/cgroup/memory/", "sys/fs/cgroup/cpuset/a/"} {
			for name, text := range map[string]string{
				"cpu.max": quota, "cpu.cfs_quota_us": quota, "cpu.cfs_period_us": "100000", "memory.max": memory, "memory.limit_in_bytes": memory,
				"memory.current": memory, "memory.stat": memory, "cpuset.cpus.effective": cpus, "cpuset.cpus": cpus,
			} {
				files[dir+name] = &fstest.MapFile{Data: []byte(text)}
			}
		}
		h, err := Read(files, Inputs{Arch: "amd64", Affinity: []int{0, 1, 2, 3}})
		if err != nil {
			t.Fatal(err)
		}
		g := h.Cgroup
		if !(g.QuotaCPUs >= 0) || math.IsInf(g.QuotaCPUs, 0) || g.MemoryLimitBytes >= unlimited || len(g.Cpuset) > maxCPU+1 {
			t.Errorf("out of bounds: %+v", g)
		}
		if h.CPU.UsableCores < 1 || h.CPU.UsableCores > 4 || h.CPU.UsablePhysical < 1 || h.CPU.UsablePhysical > h.CPU.UsableCores {
			t.Errorf("usable: %+v", h.CPU)
		}
		for _, w := range h.Warnings {
			if strings.ContainsAny(w, "\n\r\x00\x1b") || len(w) > 1000 {
				t.Errorf("warning unfit for a terminal: %q", w)
			}
		}
	})
}
