#!/usr/bin/env bash
# install.sh gets what make emulate needs of Debian's packages: it installs those programs that are missing, as
# root, and unpacks a kernel to bin/emulate.
set -euo pipefail
cd "$(dirname "$0")/../.."

die() {
	echo "emulate: $*" >&2
	exit 1
}

missing=()
while read -r file packages; do
	[[ -e $file ]] || missing+=($packages)
done <<-EOF
	/usr/bin/qemu-x86_64 qemu-user
	/usr/bin/bochs bochs bochs-term bochsbios vgabios
	/usr/bin/genisoimage genisoimage
	/usr/bin/cpio cpio
	/usr/bin/objdump binutils
	/usr/bin/llvm-mc-19 llvm-19
	/usr/lib/ISOLINUX/isolinux.bin isolinux
	/usr/lib/syslinux/modules/bios/ldlinux.c32 syslinux-common
EOF
kernel=bin/emulate/vmlinuz
((${#missing[@]})) || [[ ! -e $kernel ]] || exit 0

command -v apt-get >/dev/null || die "make check needs ${missing[*]} and a Linux kernel; make deps knows only how Debian gets them"
if ((${#missing[@]})); then
	((EUID == 0)) || die "make check needs the packages ${missing[*]}: run make deps as root"
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
[[ ! -e $kernel ]] || exit 0

# The kernel is not installed, for that would change how this machine boots.
mkdir -p bin/emulate
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
chmod 755 "$dir"
package=$(apt-cache depends linux-image-cloud-amd64 | awk '$1 == "Depends:" { print $2; exit }')
[[ $package ]] || die "no package linux-image-cloud-amd64: apt-get update"
(cd "$dir" && apt-get download -qq "$package")
dpkg-deb --fsys-tarfile "$dir"/*.deb | tar -xO --wildcards './boot/vmlinuz-*' >"$dir/vmlinuz"
mv "$dir/vmlinuz" "$kernel"
