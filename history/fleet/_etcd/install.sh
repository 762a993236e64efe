#!/usr/bin/env bash
# install.sh gets the etcd that the tests of package fleet start: Debian's etcd-server, as root.
set -euo pipefail

die() {
	echo "etcd: $*" >&2
	exit 1
}

command -v etcd >/dev/null && exit 0
command -v apt-get >/dev/null || die "the tests of history/fleet need etcd; make deps knows only how Debian gets it"
((EUID == 0)) || die "the tests of history/fleet need the package etcd-server: run make deps as root"

# The package would start a server of its own, which nobody asked for.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
	trap 'rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends etcd-server >/dev/null
command -v etcd >/dev/null || die "the package etcd-server is installed, and there is no etcd"
