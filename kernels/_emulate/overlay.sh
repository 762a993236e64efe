#!/usr/bin/env bash
# overlay.sh DIR writes to DIR/overlay.json a build overlay (go help build) in which mul/i2s/avxvnni runs on AVX-512 VNNI.
#
# No emulator of Debian has AVX-VNNI. But the kernel differs from one for AVX-512 in nothing but the encoding of VPDPBUSD,
# so with the mnemonic instead of the bytes, which TestBytesAreTheirMnemonics compares, the assembler makes AVX-512 of it.
set -euo pipefail
dir=$1
cd "$(dirname "$0")/.."

readonly routines=mul_i2s_avxvnni_amd64.s row=mul_i2s_avxvnni_amd64.go
sed -E 's|^\tLONG .*// (VPDPBUSD .*)|\t\1|' $routines >"$dir/$routines"
sed 's/probe\.AVX2|probe\.AVXVNNI/probe.AVX512|probe.AVX512VNNI/' $row >"$dir/$row"
for file in $routines $row; do
	! cmp -s "$file" "$dir/$file" || { echo "emulate: $file has nothing to replace: has its form changed?" >&2; exit 1; }
done
echo "{\"Replace\": {\"$PWD/$routines\": \"$dir/$routines\", \"$PWD/$row\": \"$dir/$row\"}}" >"$dir/overlay.json"
