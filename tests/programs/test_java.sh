#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Java with -XX:+UseLargePages: the heap is in the mount's pages, survives its garbage collector,
# and is given back when the program ends. With too few pages Java says so itself and goes on.
set -euo pipefail
# shellcheck source=tests/programs/lib.sh
source "$(dirname "$0")/lib.sh"

heap_mb=64
code_mb=16

write_program()
{
	cat >"$dir/Heap.java" <<'END'
public class Heap {
	public static void main(String[] args) throws Exception {
		int[][] blocks = new int[64][];
		long sum = 0, expected = 0;

		for (int round = 0; round < 400; round++) {
			int[] block = new int[100000];

			for (int i = 0; i < block.length; i++)
				block[i] = round * 31 + i;
			blocks[round % blocks.length] = block;
		}
		for (int b = 0; b < blocks.length; b++) {
			int round = 384 + b < 400 ? 384 + b : 320 + b;

			for (int i = 0; i < blocks[b].length; i++) {
				sum += blocks[b][i];
				expected += round * 31 + i;
			}
		}
		System.out.println(sum == expected ? "right" : "wrong: " + sum);
		System.out.flush();
		System.in.read();
	}
}
END
	(cd "$dir" && javac Heap.java)
}

# Start it in the background, waiting for a line on its standard input, until it has done its work.
start_java()
{
	rm -f "$dir/go" "$dir/out"
	mkfifo "$dir/go"
	"$HUGEFUSE" run -m "$dir/mnt" -- java -XX:+UseLargePages -XX:+AlwaysPreTouch \
		-XX:LargePageSizeInBytes=2m -Xms${heap_mb}m -Xmx${heap_mb}m \
		-XX:ReservedCodeCacheSize=${code_mb}m -XX:+UseSerialGC -cp "$dir" Heap \
		<"$dir/go" >"$dir/out" 2>&1 &
	java=$!
	exec 9>"$dir/go"
	wait_for 60 grep -qE '^(right|wrong)' "$dir/out" || fail "$(cat "$dir/out")"
	grep -q '^right$' "$dir/out" || fail "$(cat "$dir/out")"
}

end_java()
{
	echo >&9
	exec 9>&-
	wait "$java" || fail "java ended with $?: $(cat "$dir/out")"
}

test_large_pages()
{
	local nr_pages=$((heap_mb / 2 + 40)) used

	"$HUGEFUSE" mount -o "backing=hugetlb,size=$((2 * nr_pages))M" "$dir/mnt"
	start_java
	used=$((nr_pages - $(counter free_hugepages)))
	((used >= heap_mb / 2)) || fail "$used pages are used, the heap has $((heap_mb / 2))"
	end_java
	wait_for 5 all_free "$nr_pages" || fail "pages are still in use"
	"$HUGEFUSE" umount "$dir/mnt"
}

all_free()
{
	(($(counter free_hugepages) == $1))
}

test_too_few()
{
	"$HUGEFUSE" mount -o "backing=hugetlb,size=8M" "$dir/mnt"
	start_java
	end_java
	grep -q 'warning: Failed to reserve and commit memory' "$dir/out" || fail "no warning: $(cat "$dir/out")"
	wait_for 5 all_free 4 || fail "pages are still in use"
	"$HUGEFUSE" umount "$dir/mnt"
}

take_down_java()
{
	local exit_code=$?

	set +e
	[[ -z ${java-} ]] || kill -KILL "$java" 2>/dev/null
	(exit "$exit_code")
	take_down
}

require_root
need_packages openjdk-17-jdk-headless
make_dir
trap take_down_java EXIT
mkdir "$dir/mnt"
before=$(machine_state)
write_program
for test in test_large_pages test_too_few; do
	echo "$test"
	"$test"
done
expect_state "$before" "the end"
