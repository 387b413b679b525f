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

# What the metapackage $1 depends on, of the form $2: the version that this distribution has.
dependency_of()
{
	local package

	command -v apt-cache >/dev/null || return 0
	package=$(apt-cache depends "$1" 2>/dev/null || true)
	if [[ -z $package ]]; then
		apt-get -q -y update </dev/null >/dev/null || true
		package=$(apt-cache depends "$1" 2>/dev/null || true)
	fi
	sed -nE "s/^ *Depends: ($2)\$/\\1/p" <<<"$package" | head -n 1
}

# kB of process $1, in the lines of smaps that are named after it, of what is mapped from the
# mount, through it or directly.
smaps_kb()
{
	local pid=$1

	shift
	awk -v dir="$dir/mnt/" -v names="$*" '
		BEGIN { split(names, list); for (i in list) wanted[list[i] ":"] }
		$1 ~ /^[0-9a-f]+-[0-9a-f]+$/ { ours = index($0, dir) || index($0, "/run/hugefuse/") }
		ours && $1 in wanted { sum += $2 }
		END { print sum + 0 }' "/proc/$pid/smaps"
}

# At least $2 kB of what process $1 has mapped of the mount are in huge page table entries.
expect_pmd_mapped()
{
	local kb

	kb=$(smaps_kb "$1" ShmemPmdMapped FilePmdMapped)
	((kb >= $2)) || fail "only $kb kB of $2 are mapped by huge pages: $(grep -A 25 -F \
		"$dir/mnt/" "/proc/$1/smaps")"
}

fault_stat()
{
	awk -v name="$1" '$1 == name { print $2 }' "$dir/mnt/.hugefuse/fault_stat"
}

# No huge page that a file was to have was made of base pages.
expect_no_fallback()
{
	(($(fault_stat base_fallback) == 0)) || fail "$(fault_stat base_fallback) fallbacks"
}
