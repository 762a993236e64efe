#!/usr/bin/env bash
# install.sh gets the browser that make browser needs of Debian's packages, as root, unless it is there.
set -euo pipefail

! command -v chromium >/dev/null || exit 0
command -v apt-get >/dev/null || { echo "make browser needs chromium; make deps knows only how Debian gets it" >&2; exit 1; }
((EUID == 0)) || { echo "make browser needs the package chromium: run make deps as root" >&2; exit 1; }
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends chromium >/dev/null
