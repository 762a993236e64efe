#!/usr/bin/env bash
# install.sh installs the Debian packages of those emulators that are missing. It needs root only where one is.
set -euo pipefail

declare -A package=([qemu-x86_64]=qemu-user [qemu-aarch64]=qemu-user)

missing=()
for program in "${!package[@]}"; do
	command -v "$program" >/dev/null || missing+=("${package[$program]}")
done
((${#missing[@]})) || exit 0

if ! command -v apt-get >/dev/null || ((EUID)); then
	echo "emulate: not installed: ${missing[*]}; make deps does it as root on Debian, elsewhere it is up to you" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet=2
apt-get install --quiet=2 --yes --no-install-recommends "${missing[@]}"
