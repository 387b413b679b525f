# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Sourced by tests/run: checks of the source itself. Each prints what is wrong and returns 1, or
# returns 77 where the tool that it needs is not there.

# shellcheck disable=SC2034 # for tests/run
style_checks=(layers format spelling shell spdx length cppcheck tidy)

source_files()
{
	find fs include lib tools tests bench man docs .ci -type f ! -name '*.pyc' \
		! -path 'tests/fuzz/seeds/*' 2>/dev/null | sort
	find . -maxdepth 1 -type f \( -name '*.build' -o -name '*_options.txt' -o -name '*.md' \
		-o -name .clang-format \) | sort
}

c_files()
{
	source_files | grep '\.[ch]$'
}

scripts()
{
	source_files | xargs grep -lE '^#!/bin/(ba)?sh|^# shellcheck shell='
}

skip_check()
{
	echo "skipped: $*"
	return 77
}

check_layers()
{
	python3 tests/style/layers
}

# Other versions break lines otherwise.
check_format()
{
	local tool=clang-format-14

	command -v "$tool" >/dev/null || tool=clang-format
	"$tool" --version 2>/dev/null | grep -q 'version 14\.' ||
		skip_check "needs clang-format 14" || return
	c_files | xargs "$tool" --dry-run -Werror
}

check_spelling()
{
	command -v codespell >/dev/null || skip_check "needs codespell" || return
	# .Nd is mdoc, the others are names in the tests
	source_files | xargs codespell --ignore-words-list nd,te,childs
}

check_shell()
{
	command -v shellcheck >/dev/null || skip_check "needs shellcheck" || return
	scripts | xargs shellcheck -x
}

check_spdx()
{
	local missing

	# text for readers, and pictures, have their licence in LICENSE
	missing=$(source_files | grep -vE '\.(md|json|txt|png|svg)$|/COPYING|/LICENSE' |
		xargs grep -L 'SPDX-License-Identifier:' || true)
	[[ -z $missing ]] || {
		printf '%s: no SPDX line\n' "$missing"
		return 1
	}
}

# Files of at most 600 lines, tests of 700, and functions of at most 80.
check_length()
{
	c_files | xargs awk '
		function report(what) { print what; faults++ }
		FNR == 1 { name = FILENAME; max = name ~ /^tests/ ? 700 : 600; start = 0 }
		FNR == max + 1 { report(name ": more than " max " lines") }
		/^{/ { start = FNR }
		/^}/ && start {
			if (FNR - start - 1 > 80)
				report(name ":" start ": a function of more than 80 lines")
			start = 0
		}
		END { exit faults > 0 }'
}

# Of what is installed; tests call what does not return where cppcheck thinks it does. alloca(3)
# is for those who must not call malloc(3).
check_cppcheck()
{
	command -v cppcheck >/dev/null || skip_check "needs cppcheck" || return
	cppcheck --quiet --enable=warning,portability,performance --std=c11 -j "$(nproc)" \
		--error-exitcode=1 --inline-suppr --suppress=allocaCalled \
		--suppress=nullPointerArithmeticRedundantCheck --suppress=missingIncludeSystem \
		-D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DHF_LOCK_STAT=1 -DHF_LOCK_CHECK=1 -DHF_USDT=0 \
		-I. -Iinclude fs lib tools 2>&1
}

# What .clang-tidy says, of what is installed; other versions find other things. A file that was
# well, and what it includes, is not looked at again until it changes: build-tidy/ remembers.
check_tidy()
{
	clang-tidy --version 2>/dev/null | grep -q 'version 14\.' ||
		skip_check "needs clang-tidy 14" || return
	[[ -e build-tidy/compile_commands.json ]] ||
		meson setup build-tidy -Dtests=disabled >/dev/null || return
	find fs lib tools -name '*.c' | sort |
		xargs -P "$(nproc)" -n 1 tests/style/tidy build-tidy
}
