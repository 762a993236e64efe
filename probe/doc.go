// Package probe finds out facts about the host, no opinions: processor, caches, topology, memory, the share of them
// that this process was given, and how busy the machine is.
//
// # Basics
//
// [Local] describes this machine; [Read] describes the machine whose /proc and /sys are in an [io/fs.FS], live or
// captured. Both take milliseconds and measure nothing; [Bandwidth] measures.
//
// A thread count has to respect three limits: the affinity, the cpuset and the quota of the control group. The least of
// them is CPU.UsableCores, where a quota is rounded down: with 1.5 CPUs, a second thread is throttled in every period,
// and makes the first one wait. All groups above the process's own count as well, as far as they are visible.
//
// The facts fall into three classes of keys. [Host.Identity] is the machine: another identity is another machine, and
// [Host.Fingerprint] is its hash. [Host.Envelope] is the share that was given: what was learned is clipped to it.
// [Host.Condition] is what may shift a measurement. The identity is taken from files that no container limit changes,
// and RAM enters it as a size class, rounded up to 1, 1.25, 1.5 or 1.75 times a power of two, because a kernel reports
// some percent less than the modules hold, and another kernel some other percent.
//
// [OfProcess] shows [Read] the host as another process finds it, under the limits of its control groups and its affinity;
// [ReadProcess] tells its command line and where its memory lies, [ReadThrottling] how often its quota ran out.
//
// # Caveats
//
// Linux only: elsewhere it does not build.
//
// Unknown is 0 or "", and Host.Warnings says so in a sentence. Nothing in a file is an error or can cause a panic.
//
// Load.CPUUtilization is the load average over the CPUs. It lags by up to a minute and counts tasks that wait for a
// disk. Whoever needs the moment has to take two readings of /proc/stat.
//
// Groups above a container's own are invisible from inside a cgroup namespace; a tighter limit there shows only as
// throttling.
//
// LXCFS shows a container its share in /proc/cpuinfo and /proc/meminfo. Cores and RAM are therefore taken from sysfs
// where it has them.
//
// A CPU core (not an SMT sibling) taken offline at run time changes the identity. Cores of two speeds are told apart
// by the kernel's PMU names (Intel) or cpu_capacity (ARM); AMD's compact cores pass for performance cores.
//
// # Decisions
//
// 2026-11-21: the affinity of a live process is the union over its threads. The main thread's, which is also what
// /proc/self/status shows, is not enough: a goroutine that is locked and pinned while it runs on the main thread leaves
// it pinned for ever. A snapshot at start would miss a cpuset that is widened later.
//
// 2026-11-21: /proc, /sys and the control groups are read here rather than by gopsutil, which cannot read an fs.FS
// and knows neither quotas, cpusets, cache sharing nor kinds of cores. It serves as a second opinion in the tests.
//
// 2026-11-21: klauspost/cpuid for the features of amd64. It takes AVX from CPUID only with XCR0[2:1] set and AVX-512 only
// with XCR0[7:5] set too (read in its source, v2.4.2). golang.org/x/sys/cpu checks the same bits, but cannot tell the
// hypervisor. It is used for arm64, where it reads the kernel's hardware capabilities.
//
// 2026-11-21: the identity counts the logical CPUs that are present, not those online, so that SMT switched off at run
// time is a condition. The road not taken, counting online ones, would throw away what was learned at every switch.
//
// 2026-11-21: no utilisation from two readings of /proc/stat: its clock ticks every 10 ms, so that a reading worth
// having takes ten times as long as everything else here.
//
// 2026-11-21: no cache sizes from CPUID where sysfs has none (gVisor, some virtual machines): the leaves are made up
// there as often as not, and a wrong size is worse than an unknown one.
package probe
