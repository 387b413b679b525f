#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The completion for bash, as the shell would call it: it offers every verb and every option that
# the program's help has, mount points with odd names, and keys.
set -euo pipefail
source_dir=$(dirname "$0")/../..
# shellcheck source=tools/completion/hugefuse.bash
source "$source_dir/tools/completion/hugefuse.bash"

fail()
{
	echo "FAILED: $*" >&2
	exit 1
}

[[ -x ${HUGEFUSE-} ]] || fail "set HUGEFUSE to the program under test"
_hugefuse_mounts_file=$(mktemp)
work_dir=$(mktemp -d)
trap 'rm -rf "$_hugefuse_mounts_file" "$work_dir"' EXIT
printf '%s\n' 'x /mnt/a\040b fuse.hugefuse rw 0 0' 'proc /proc proc rw 0 0' \
	'pool /mnt/c fuse.hugefuse rw 0 0' 'y /mnt/other fuse.sshfs rw 0 0' \
	>"$_hugefuse_mounts_file"

# The answers for the words given, the last of which is being completed, a line each.
answers()
{
	COMP_WORDS=("$HUGEFUSE" "$@")
	COMP_CWORD=$#
	COMPREPLY=()
	_hugefuse
	((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}"
}

expect()
{
	local wanted=$1 got

	shift
	got=$(answers "$@" | sort | paste -sd ' ')
	[[ $got == "$wanted" ]] || fail "$*: '$got', not '$wanted'"
}

offered()
{
	local wanted=$1

	shift
	answers "$@" | grep -xF -e "$wanted" >/dev/null || fail "$*: '$wanted' is not offered"
}

verbs_of_help()
{
	"$HUGEFUSE" --help | sed -n 's/^  \([a-z]\+\) .*/\1/p'
}

options_of_help()
{
	"$HUGEFUSE" "$1" --help | sed -n '3,$p' | grep -oE '^ +(-[a-zA-Z], )?--?[a-zA-Z]+' |
		grep -oE -e '--?[a-zA-Z]+'
}

for verb in $(verbs_of_help); do
	offered "$verb" "${verb:0:1}"
	for option in $(options_of_help "$verb"); do
		offered "$option" "$verb" -
	done
done
expect 'stat' st
expect '--help' --h
expect '/mnt/c' stat /mnt/c
[[ $(answers ls /mnt/a) == '/mnt/a\ b' ]] || fail "a space: $(answers ls /mnt/a)"
[[ $(answers umount '' | wc -l) == 2 ]] || fail "umount: $(answers umount '')"
expect 'mappings path reserved resident size' ls --sort ''
expect 'reserved resident' ls --sort res
expect 'name reserved resident total' top --sort ''
expect 'backing=auto backing=hugetlb backing=thp' mount -o backing
offered 'size=1G,min_size=' mount -o size=1G,min
expect '' probe ''
offered $$ maps -p ''
offered /mnt/c run -m ''
offered true run tru
mkdir "$work_dir/directory"
: >"$work_dir/a file"
expect "$work_dir/directory/" mount "$work_dir/d"
[[ $(answers why "$work_dir/a") == "$work_dir/a file" ]] || fail "why: $(answers why "$work_dir/a")"
expect '' nonsense ''
