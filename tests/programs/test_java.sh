#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Java with its heap in the mount's pages, where it survives the garbage collector and is given back
# when the program ends: on hugetlb with -XX:+UseLargePages, on thp in a file of the mount. With too
# few pages Java says so itself. And a file that a Java program maps and writes.
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

write_mapper()
{
	cat >"$dir/Mapper.java" <<'END'
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.*;

public class Mapper {
	static int at(int i) {
		return i * 0x9E3779B1 >>> 3;
	}

	public static void main(String[] args) throws Exception {
		int size = Integer.parseInt(args[1]), wrong = 0;
		MappedByteBuffer map;

		try (FileChannel file = FileChannel.open(Path.of(args[0]),
				StandardOpenOption.CREATE, StandardOpenOption.READ,
				StandardOpenOption.WRITE)) {
			map = file.map(FileChannel.MapMode.READ_WRITE, 0, size);
		}
		for (int i = 0; i < size / 4; i++)
			map.putInt(i * 4, at(i));
		map.force();
		byte[] content = Files.readAllBytes(Path.of(args[0]));
		java.nio.ByteBuffer read = java.nio.ByteBuffer.wrap(content);
		for (int i = 0; i < size / 4; i++)
			wrong += read.getInt(i * 4) != at(i) ? 1 : 0;
		System.out.println(wrong == 0 && content.length == size ? "right" : "wrong: " + wrong);
		System.out.flush();
		System.in.read();
	}
}
END
	(cd "$dir" && javac Mapper.java)
}

# Start a command in the background, waiting for a line on its standard input, until it has done
# its work.
start()
{
	rm -f "$dir/go" "$dir/out"
	mkfifo "$dir/go"
	"$@" <"$dir/go" >"$dir/out" 2>&1 &
	java=$!
	exec 9>"$dir/go"
	wait_for 60 grep -qE '^(right|wrong)' "$dir/out" || fail "$(cat "$dir/out")"
	grep -q '^right$' "$dir/out" || fail "$(cat "$dir/out")"
}

start_heap()
{
	start "$HUGEFUSE" run -m "$dir/mnt" -- java -XX:+UseLargePages -XX:+AlwaysPreTouch \
		-XX:LargePageSizeInBytes=2m -Xms${heap_mb}m -Xmx${heap_mb}m \
		-XX:ReservedCodeCacheSize=${code_mb}m -XX:+UseSerialGC -cp "$dir" Heap
}

start_heap_in_file()
{
	start java "-XX:AllocateHeapAt=$dir/mnt" -XX:+AlwaysPreTouch -Xms${heap_mb}m \
		-Xmx${heap_mb}m -XX:+UseSerialGC -cp "$dir" Heap
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
	start_heap
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
	start_heap
	end_java
	grep -q 'warning: Failed to reserve and commit memory' "$dir/out" || fail "no warning: $(cat "$dir/out")"
	wait_for 5 all_free 4 || fail "pages are still in use"
	"$HUGEFUSE" umount "$dir/mnt"
}

test_heap_in_file()
{
	local resident

	"$HUGEFUSE" mount -o "backing=thp,size=${heap_mb}M" "$dir/mnt"
	start_heap_in_file
	(($(counter free_hugepages) == 0)) || fail "$(counter free_hugepages) pages are free"
	resident=$(smaps_kb "$java" Rss) # it leaves a little of it untouched
	((resident > heap_mb * 900)) || fail "only $resident kB of the heap are resident"
	expect_pmd_mapped "$java" "$resident"
	expect_no_fallback
	end_java
	wait_for 5 all_free $((heap_mb / 2)) || fail "pages are still in use"
	"$HUGEFUSE" umount "$dir/mnt"
}

test_heap_too_large()
{
	local r=0

	"$HUGEFUSE" mount -o "backing=thp,size=$((heap_mb - 2))M" "$dir/mnt"
	java "-XX:AllocateHeapAt=$dir/mnt" -Xms${heap_mb}m -Xmx${heap_mb}m -XX:+UseSerialGC \
		-cp "$dir" Heap </dev/null >"$dir/out" 2>&1 || r=$?
	((r == 1)) || fail "java ended with $r: $(cat "$dir/out")"
	grep -q 'Error in mapping Java heap at the given filesystem directory' "$dir/out" ||
		fail "$(cat "$dir/out")"
	all_free $((heap_mb / 2 - 1)) || fail "pages are in use"
	"$HUGEFUSE" umount "$dir/mnt"
}

test_mapped_buffer()
{
	"$HUGEFUSE" mount -o "backing=thp,size=${heap_mb}M" "$dir/mnt"
	start java -Xmx256m -cp "$dir" Mapper "$dir/mnt/file" $((heap_mb << 20))
	expect_pmd_mapped "$java" $((heap_mb * 1024))
	expect_no_fallback
	end_java
	rm "$dir/mnt/file"
	wait_for 5 all_free $((heap_mb / 2)) || fail "pages are still in use"
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
need_packages default-jdk-headless
make_dir
trap take_down_java EXIT
mkdir "$dir/mnt"
before=$(machine_state)
write_program
write_mapper
for test in test_large_pages test_too_few test_heap_in_file test_heap_too_large \
	test_mapped_buffer; do
	echo "$test"
	"$test"
done
expect_state "$before" "the end"
