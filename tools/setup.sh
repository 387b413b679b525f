# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Sourced by tools/quickstart, tests/run and bench/run, at the top of the source tree: root,
# packages, builds, and undoing at the end whatever was done on the way.
#
# Everything that changes the machine is registered with undo() before it is done. The list is
# worked off, last first, when the script ends, however it ends; what undoes has to bear that
# nothing has been done yet.

say()
{
	printf '%s\n' "$*" >&2
}

die()
{
	say "${0##*/}: $*"
	exit 1
}

# ---- undoing ----

undo_list=()

undo()
{
	undo_list+=("$(printf '%q ' "$@")")
}

# Undo what was registered since the list had $1 entries.
undo_to()
{
	local entry

	while ((${#undo_list[@]} > $1)); do
		entry=${undo_list[-1]}
		unset "undo_list[-1]"
		eval "$entry" || say "${0##*/}: could not undo: $entry"
	done
}

undo_all()
{
	local exit_code=$?

	trap '' INT TERM HUP
	set +e
	undo_to 0
	exit "$exit_code"
}

undo_at_exit()
{
	trap undo_all EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
}

# A directory of this run's own, removed at the end: sets work_dir.
make_work_dir()
{
	work_dir=/tmp/hugefuse-run-$$
	undo remove_work_dir
	mkdir -m 0711 "$work_dir"
}

remove_work_dir()
{
	# what is mounted in it is never removed
	rm -rf --one-file-system "$work_dir"
}

# ---- root and packages ----

# Run the script again through sudo where it is not root's: need_root "$0" "$@".
need_root()
{
	((EUID == 0)) && return
	command -v sudo >/dev/null || die "needs root, and there is no sudo: run it as root"
	say "${0##*/}: needs root, going on through sudo"
	exec sudo -- env ${CI+"CI=$CI"} "$@"
}

# shellcheck disable=SC2034 # for those who source this
build_packages=(gcc libc6-dev meson ninja-build pkg-config python3 libfuse3-dev fuse3 libnuma-dev
		liburcu-dev libjson-c-dev libncurses-dev libcap-ng-dev libseccomp-dev)
# shellcheck disable=SC2034
style_packages=(clang-format clang-tidy codespell cppcheck mandoc shellcheck)
# shellcheck disable=SC2034
mount_packages=(tmux procps)
# shellcheck disable=SC2034
vm_packages=(qemu-system-x86 busybox-static debian-archive-keyring)
# shellcheck disable=SC2034
chroot_packages=(debootstrap debian-archive-keyring)

missing_packages()
{
	local package

	for package; do
		dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null |
			grep -qx installed || printf '%s\n' "$package"
	done
}

as_root()
{
	if ((EUID == 0)); then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo -- "$@"
	else
		die "needs root for: $*"
	fi
}

# Where there is no apt, meson says later what is not there.
install_packages()
{
	local missing

	command -v apt-get >/dev/null || return 0
	mapfile -t missing < <(missing_packages "$@")
	((${#missing[@]})) || return 0
	say "installing ${missing[*]} (some minutes) ..."
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y update </dev/null >&2 ||
		say "apt-get update failed, going on with the lists that are there"
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends \
		install "${missing[@]}" </dev/null >&2 ||
		die "the packages could not be installed: ${missing[*]}"
}

need_fuse()
{
	[[ -e /dev/fuse ]] && return
	command -v modprobe >/dev/null || install_packages kmod
	modprobe fuse || true
	[[ -e /dev/fuse ]] || die "there is no /dev/fuse: the kernel has no FUSE, or hides it here"
}

# ---- building ----

# Run a command as who owns $1, so that a build through sudo leaves no files of root's.
as_owner_of()
{
	local uid gid

	uid=$(stat -c %u "$1") gid=$(stat -c %g "$1")
	shift
	if ((EUID == 0 && uid != 0)); then
		setpriv --reuid="$uid" --regid="$gid" --clear-groups \
			env HOME="${TMPDIR:-/tmp}" "$@"
	else
		"$@"
	fi
}

# Build in directory $1 with the meson options that follow; its output goes to $1.log, which
# stays where it fails.
build()
{
	local dir=$1 owner=. log=$1.log

	shift
	[[ -d $dir ]] && owner=$dir
	as_owner_of "$owner" bash -c 'build_in "$@"' build "$dir" "$@" </dev/null &>"$log" && {
		rm -f "$log"
		return
	}
	tail -n 30 "$log" >&2
	say "${0##*/}: building in $dir failed; all of its output is in $log"
	return 1
}

build_in()
{
	local dir=$1

	shift
	if [[ -e $dir/build.ninja ]]; then
		meson configure "$dir" "$@" || return
	else
		meson setup "$dir" "$@" || return
	fi
	ninja -C "$dir"
}
export -f build_in
