# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Completion of hugefuse(8) for bash. It needs nothing of bash-completion. Verbs and options are
# those that the program's own help names.

# Mount points, with spaces and the like as they are.
_hugefuse_mounts()
{
	local path type

	while read -r _ path type _; do
		[[ $type == *hugefuse ]] && printf '%b\n' "${path//\\/\\0}"
	done <"${_hugefuse_mounts_file:-/proc/mounts}"
}

# The words among the lines of $1 that begin with $cur, quoted as the shell wants them.
_hugefuse_words()
{
	local word

	while IFS= read -r word; do
		[[ $word == "$cur"* ]] || continue
		# %q quotes commas as well
		[[ $word != *[!A-Za-z0-9_./,=%+:@-]* ]] || printf -v word %q "$word"
		COMPREPLY+=("$word")
	done <<<"$1"
}

_hugefuse_paths()
{
	local word

	# a name may have anything in it but the end of a line
	while IFS= read -r word; do
		[[ -d $word ]] && word+=/
		COMPREPLY+=("$word")
	done < <(compgen "$1" -- "$cur")
	compopt -o nospace -o filenames 2>/dev/null
}

_hugefuse_verbs()
{
	"${COMP_WORDS[0]}" --help 2>/dev/null | sed -n 's/^  \([a-z]\+\) .*/\1/p'
	printf '%s\n' --help --version
}

_hugefuse_options()
{
	"${COMP_WORDS[0]}" "$1" --help 2>/dev/null | sed -n '3,$p' |
		grep -oE '^ +(-[a-zA-Z], )?--?[a-z]+' | grep -oE -e '--?[a-zA-Z]+'
}

_hugefuse_mount_options()
{
	printf '%s\n' backing=auto backing=thp backing=hugetlb pagesize=2M pagesize=1G size= \
		min_size= max_size= nr_inodes= uid= gid= mode= fault_mutexes= region_lock=inode \
		region_lock=global fault_threads= ahead=on ahead=off on_exhausted=sigbus \
		on_exhausted=wait plain=auto plain=deny plain=cached split_queue=off \
		split_queue=tenant-node split_queue=tenant split_queue=global split_marks= lockstat nolockstat confine noconfine fsname= \
		numa=local numa=preferred: numa=bind: numa=interleave fallback=remote \
		fallback=small fallback=wait fallback=fail avail_mask=on avail_mask=off \
		alloc_sleep_ms=
}

# The value of the option $1 of verb $2; returns 1 where it takes none.
_hugefuse_value()
{
	local before

	case $2:$1 in
	ls:--sort) _hugefuse_words $'size\nresident\nreserved\nmappings\npath' ;;
	top:--sort) _hugefuse_words $'total\nresident\nreserved\nname' ;;
	maps:-p | maps:--pid) _hugefuse_words "$(compgen -G '/proc/[0-9]*' | cut -d / -f 3)" ;;
	run:-m | run:--mountpoint) _hugefuse_words "$(_hugefuse_mounts)" ;;
	mount:-d | mount:--debug) _hugefuse_words $'mount\nfuse\ncontrol\nfault\nall' ;;
	mount:-o | mount:--options)
		before=${cur%"${cur##*,}"}
		_hugefuse_words "$(_hugefuse_mount_options | sed "s|^|$before|")"
		compopt -o nospace 2>/dev/null
		;;
	top:-d | top:--delay | top:-n | top:--count) ;;
	*) return 1 ;;
	esac
}

_hugefuse_operand()
{
	case $1 in
	umount | stat | ls | maps | lockstat | top | resize)
		_hugefuse_words "$(_hugefuse_mounts)"
		;;
	mount) _hugefuse_paths -d ;;
	why | quota | numa)
		_hugefuse_words "$(_hugefuse_mounts)"
		_hugefuse_paths -f
		;;
	run) _hugefuse_words "$(compgen -c -- "$cur")" ;;
	esac
}

_hugefuse()
{
	local cur=${COMP_WORDS[COMP_CWORD]} previous='' verb=${COMP_WORDS[1]-}

	COMPREPLY=()
	((COMP_CWORD < 2)) || previous=${COMP_WORDS[COMP_CWORD - 1]}
	if ((COMP_CWORD <= 1)); then
		_hugefuse_words "$(_hugefuse_verbs)"
	elif _hugefuse_value "$previous" "$verb"; then
		:
	elif [[ $cur == -* ]]; then
		_hugefuse_words "$(_hugefuse_options "$verb")"
	else
		_hugefuse_operand "$verb"
	fi
}

complete -F _hugefuse hugefuse
