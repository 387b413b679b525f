# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Sourced after tests/programs/lib.sh by the tests with PostgreSQL, of whatever version this
# distribution has: its programs as the user postgres, with the data in $data and everything else
# in $dir/pg.
#
# shellcheck disable=SC2154 # that is lib.sh's

data=

# The programs' directory, in $bin.
need_postgres()
{
	need_packages postgresql
	bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
	[[ -x $bin/postgres ]] || skip "no PostgreSQL in /usr/lib/postgresql"
}

as_postgres()
{
	(cd / && setpriv --reuid=postgres --regid=postgres --clear-groups \
		env PATH="$bin:$PATH" LC_ALL=C "$@")
}

server()
{
	as_postgres "$@" >>"$dir/server.out" 2>&1
}

# In mode $1, as pg_ctl has it.
stop()
{
	server pg_ctl -D "$data" -w -m "$1" stop
}

query()
{
	as_postgres psql -h "$dir/pg" -p 5432 -d postgres -Atqc "$1"
}

pgbench()
{
	as_postgres "$bin/pgbench" -h "$dir/pg" "$@" postgres >>"$dir/pgbench.out" 2>&1
}

check_books()
{
	local sums

	sums=$(query "select (select sum(abalance) from pgbench_accounts),
		(select sum(tbalance) from pgbench_tellers),
		(select sum(bbalance) from pgbench_branches),
		(select sum(delta) from pgbench_history), (select count(*) > 0 from pgbench_history)")
	[[ $sums == "${sums%%|*}|${sums%%|*}|${sums%%|*}|${sums%%|*}|t" ]] ||
		fail "$1: the sums differ: $sums"
}

take_down_server()
{
	local exit_code=$?

	set +e
	[[ ! -e $data/postmaster.pid ]] ||
		server pg_ctl -D "$data" -w -m immediate stop
	(exit "$exit_code")
	take_down
}
