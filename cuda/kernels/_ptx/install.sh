#!/usr/bin/env bash
# install.sh gets what make ptx and make ptx-check need of Debian's packages: clang 19, which compiles CUDA to PTX without
# a toolkit. Another version makes other PTX.
set -euo pipefail

[[ -e /usr/bin/clang-19 ]] && exit 0
command -v apt-get >/dev/null || { echo "ptx: make check needs clang-19; make deps knows only how Debian gets it" >&2; exit 1; }
((EUID == 0)) || { echo "ptx: make check needs the package clang-19: run make deps as root" >&2; exit 1; }
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends clang-19 >/dev/null
