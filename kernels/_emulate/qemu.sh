#!/usr/bin/env bash
# qemu.sh GOARCH:CPU:REQUIRED... runs the tests of package kernels on emulated CPUs, one after the other.
#
#   qemu.sh amd64:Haswell:avx2 arm64:cortex-a72:neon
#
# GOARCH says which qemu runs the test binary, which is built once; CPU is one of its models; REQUIRED are the
# extensions, separated by commas, for which a kernel must be there and must have run. What is left out is the rest of
# the operating system, of which qemu's user mode is no witness: workers pinned to CPUs, huge pages, and an allocation
# of half the address space, for which it keeps books that fill the memory.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly skip='^Test(Alloc|Memory|HugePages|Workers|Pool|NewPool)'
readonly limit=300 # seconds a CPU may take: five times what the slowest does on a busy machine

die() {
	echo "emulate: $*" >&2
	exit 1
}

declare -A qemu=([amd64]=qemu-x86_64 [arm64]=qemu-aarch64)
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT

for job; do
	IFS=: read -r arch cpu required <<<"$job"
	emulator=${qemu[$arch]-}
	[[ $emulator ]] || die "$job: GOARCH must be one of ${!qemu[*]}"
	command -v "$emulator" >/dev/null || die "$emulator is not installed: make deps"
	binary=$built/$arch.test
	[[ -e $binary ]] || GOOS=linux GOARCH=$arch CGO_ENABLED=0 ${GO:-go} test -c -o "$binary" .
	start=$SECONDS
	echo "emulate: $arch $cpu, requires ${required:-nothing}"
	if ! BITNET_AUTOTUNE_REQUIRE=$required timeout --kill-after=5 "$limit" "$emulator" -cpu "$cpu" "$binary" \
		-test.short -test.skip "$skip" -test.v >"$built/log" 2>&1; then
		grep -v -e '^qemu-.*warning' -e '^ *--- PASS' -e '^=== ' "$built/log" | tail -n 40 >&2
		die "$arch $cpu failed after $((SECONDS - start)) s"
	fi
	grep -o 'NOT TESTED: .*' "$built/log" | sed 's/^/    /' || true
	echo "emulate: $arch $cpu passed in $((SECONDS - start)) s"
done
