# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Sourced by the tests with real programs, which install them by apt: what tests/mount/lib.sh has,
# and packages.

# shellcheck source=tests/mount/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../mount/lib.sh"

# Install packages that are missing, without starting their services.
need_packages()
{
	local package missing=()

	for package; do
		dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null |
			grep -q 'ok installed' || missing+=("$package")
	done
	((${#missing[@]})) || return 0
	command -v apt-get >/dev/null || skip "needs ${missing[*]}"
	export RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive
	apt-get -q -y update </dev/null >/dev/null || true
	apt-get -q -y --no-install-recommends install "${missing[@]}" </dev/null >/dev/null ||
		skip "cannot install ${missing[*]}"
}

# Run a command until it succeeds, at most $1 seconds.
wait_for()
{
	local until=$((SECONDS + $1))

	shift
	until "$@" &>/dev/null; do
		((SECONDS < until)) || return 1
		sleep 0.1
	done
}

counter()
{
	cat "$dir/mnt/.hugefuse/hugepages-2048kB/$1"
}
