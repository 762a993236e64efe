#!/usr/bin/env bash
# bochs.sh REQUIRED TESTS runs tests of package kernels on an emulated Ice Lake, for the extensions that qemu lacks.
#
#   bochs.sh avx512vnni,avx512vbmi 'TestRequired|TestKernels.*/avx512'
#
# qemu knows no AVX-512, and Bochs knows only whole machines: so a CD is made of Debian's kernel, which switches the ZMM
# state on, and of a RAM disk that holds the test binary and a program that starts it. It says "exit 0" on the serial
# port if all is well. REQUIRED are the extensions for which a kernel must be there and must have run.
set -euo pipefail
cd "$(dirname "$0")"

readonly limit=900 # seconds for all of it: several times what a busy machine takes
readonly cache=../../bin/emulate isolinux=/usr/lib/ISOLINUX/isolinux.bin ldlinux=/usr/lib/syslinux/modules/bios/ldlinux.c32

die() {
	echo "emulate: $*" >&2
	exit 1
}

# What Linux must not use of this machine: Bochs 2.7 tells wrong sizes of the compact XSAVE format and of the state of
# PKU, and with FSRM but not ERMS, which its BIOS leaves off, memmove of Linux 6.1 copies what it must not.
readonly without=pku,ospke,xsaves,xsavec,fsrm

# The collector of Go 1.26 takes marked objects for free ones here, with its own AVX-512; the kernels are not asked.
readonly godebug=cpu.avx512bw=off

required=$1 tests=$2
for file in bochs genisoimage cpio; do command -v "$file" >/dev/null || die "$file is not installed: make deps"; done
for file in "$cache/vmlinuz" "$isolinux" "$ldlinux"; do [[ -r $file ]] || die "$file is missing: make deps"; done

dir=$(mktemp -d)
emulator=
trap '[[ -z $emulator ]] || kill -KILL -- "-$emulator" 2>/dev/null || true; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
mkdir -p "$dir/cd" "$dir/ram"/{proc,sys,dev,tmp}

export GOOS=linux GOARCH=amd64 CGO_ENABLED=0
${GO:-go} build -ldflags '-s -w' -o "$dir/ram/init" ./init
mkdir "$dir/overlay"
./overlay.sh "$dir/overlay"
(cd .. && ${GO:-go} test -c -ldflags '-s -w' -overlay "$dir/overlay/overlay.json" -o "$dir/ram/kernels.test" .)
(cd "$dir/ram" && find . | cpio --quiet -o -H newc) >"$dir/cd/ram"
cp "$cache/vmlinuz" "$isolinux" "$ldlinux" "$dir/cd"
cat >"$dir/cd/isolinux.cfg" <<-EOF
	default linux
	label linux
	kernel /vmlinuz
	initrd /ram
	append console=ttyS0 quiet mitigations=off nokaslr clearcpuid=$without panic=-1 reboot=triple GODEBUG=$godebug BITNET_AUTOTUNE_REQUIRE=$required RUN=$tests
EOF
genisoimage -quiet -o "$dir/cd.iso" -b isolinux.bin -c boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table "$dir/cd"

cat >"$dir/bochsrc" <<-EOF
	cpu: model=corei7_icelake_u, ips=50000000, reset_on_triple_fault=0
	memory: guest=256, host=256
	romimage: file=/usr/share/bochs/BIOS-bochs-latest, options=fastboot
	vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
	ata0-master: type=cdrom, path=$dir/cd.iso, status=inserted
	boot: cdrom
	com1: enabled=1, mode=file, dev=$dir/serial
	display_library: term
	log: $dir/log
	panic: action=fatal
EOF
echo continue >"$dir/commands" # Debian's Bochs is built with its debugger, which waits for one

start=$SECONDS
echo "emulate: Ice Lake in Bochs, requires $required"
TERM=xterm timeout --signal=KILL "$limit" bochs -q -f "$dir/bochsrc" -rc "$dir/commands" </dev/null >"$dir/screen" 2>&1 &
emulator=$! # and with it the process group that timeout makes
# Bochs draws its screen on a terminal of its own, and stops for good where nobody reads that.
until terminal=$(grep -o '/dev/pts/[0-9]*' "$dir/screen"); do
	kill -0 "$emulator" 2>/dev/null || die "Bochs did not start: $(tail -n 5 "$dir/screen")"
	sleep 0.2
done
cat "$terminal" >/dev/null 2>&1 &
wait "$emulator" || true
emulator=
[[ -e $dir/serial ]] || die "Linux did not start: $(tail -n 5 "$dir/log")"
tr -d '\r' <"$dir/serial" >"$dir/result"
grep -o 'NOT TESTED: .*' "$dir/result" | sed 's/^/    /' || true
if ! grep -qx 'emulate: exit 0' "$dir/result"; then
	tail -n 40 "$dir/result" >&2
	die "Ice Lake in Bochs failed after $((SECONDS - start)) s"
fi
echo "emulate: Ice Lake in Bochs passed in $((SECONDS - start)) s"
