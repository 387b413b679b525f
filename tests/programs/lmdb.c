/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lmdb: write to an LMDB environment until killed, or check it.
 *
 * usage: lmdb write|check DIR NUMBER WRITEMAP
 *
 * A writer puts keys "NUMBER:i" and prints i after each commit. The check prints how many keys
 * NUMBER has, all from 0 on and with the value that belongs to them, or fails.
 */
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PER_COMMIT 50

static void check(int r, const char *what)
{
	if (r == 0)
		return;
	fprintf(stderr, "lmdb: %s: %s\n", what, mdb_strerror(r));
	exit(1);
}

static void fill(char value[200], int i)
{
	memset(value, 'a' + i % 26, 200);
	snprintf(value, 200, "%d", i * 7919);
}

static void put(MDB_env *env, int number, int first)
{
	char name[32], value[200];
	MDB_txn *txn;
	MDB_dbi dbi;

	check(mdb_txn_begin(env, NULL, 0, &txn), "begin");
	check(mdb_dbi_open(txn, NULL, 0, &dbi), "open");
	for (int i = first; i < first + PER_COMMIT; i++) {
		MDB_val key = {(size_t)snprintf(name, sizeof(name), "%d:%09d", number, i),
			       name};
		MDB_val data = {sizeof(value), value};

		fill(value, i);
		check(mdb_put(txn, dbi, &key, &data, 0), "put");
	}
	check(mdb_txn_commit(txn), "commit");
}

static int count(MDB_env *env, int number)
{
	char name[32], value[200];
	MDB_txn *txn;
	MDB_dbi dbi;

	check(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), "begin");
	check(mdb_dbi_open(txn, NULL, 0, &dbi), "open");
	for (int i = 0;; i++) {
		MDB_val key = {(size_t)snprintf(name, sizeof(name), "%d:%09d", number, i),
			       name};
		MDB_val data;
		int r = mdb_get(txn, dbi, &key, &data);

		if (r == MDB_NOTFOUND) {
			mdb_txn_abort(txn);
			return i;
		}
		check(r, "get");
		fill(value, i);
		if (data.mv_size != sizeof(value) ||
		    memcmp(data.mv_data, value, sizeof(value)) != 0) {
			fprintf(stderr, "lmdb: %s: another value\n", name);
			exit(1);
		}
	}
}

int main(int argc, char **argv)
{
	MDB_env *env;
	int number;

	if (argc != 5)
		return 2;
	number = atoi(argv[3]);
	check(mdb_env_create(&env), "create");
	check(mdb_env_set_mapsize(env, 64 << 20), "mapsize");
	check(mdb_env_open(env, argv[2], atoi(argv[4]) ? MDB_WRITEMAP : 0, 0600), "env");
	if (strcmp(argv[1], "check") == 0) {
		printf("%d\n", count(env, number));
		return 0;
	}
	for (int i = 0;; i = (i + PER_COMMIT) % 20000) {
		put(env, number, i);
		printf("%d\n", i + PER_COMMIT);
		fflush(stdout);
	}
}
