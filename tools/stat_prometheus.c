/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hugefuse stat --prometheus: the text format that node_exporter's textfile collector takes
 * (https://prometheus.io/docs/instrumenting/exposition_formats/). Counters begin anew when
 * somebody clears them and when the mount begins, as the format expects of counters.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/escape.h"
#include "tools/stat_output.h"

struct scrape {
	const struct mount_snapshot *mounts;
	size_t nr_mounts;
	FILE *out;
};

static void print_family(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* ---- samples: name{label="value",...} number ---- */

static void print_label_value(FILE *out, const char *text)
{
	while (*text != '\0') {
		int length = utf8_sequence(text);

		if (*text == '\\' || *text == '"')
			fprintf(out, "\\%c", *text);
		else if (*text == '\n')
			fputs("\\n", out);
		else if (length == 0)
			fputs("\xef\xbf\xbd", out);
		else
			fwrite(text, (size_t)length, 1, out);
		text += length ? length : 1;
	}
}

static void begin_sample(FILE *out, const char *name, const struct mount_snapshot *mount)
{
	fprintf(out, "%s{mount=\"", name);
	print_label_value(out, mount->mountpoint);
	fputc('"', out);
}

static void add_label(FILE *out, const char *label, const char *value)
{
	fprintf(out, ",%s=\"", label);
	print_label_value(out, value);
	fputc('"', out);
}

static void add_number_label(FILE *out, const char *label, uint64_t value)
{
	fprintf(out, ",%s=\"%" PRIu64 "\"", label, value);
}

static void end_sample(FILE *out, uint64_t value)
{
	fprintf(out, "} %" PRIu64 "\n", value);
}

static void end_seconds(FILE *out, double seconds)
{
	fprintf(out, "} %.15g\n", seconds);
}

/* ---- pools ---- */

struct pool_metric {
	const char *name, *help;
	size_t offset; /* of the number of pages in struct snapshot_pool */
	bool per_node;
};

#define POOL(member) offsetof(struct snapshot_pool, member)

static const struct pool_metric pool_metrics[] = {
	{"size_bytes", "Memory of the pool.", POOL(nr), true},
	{"free_bytes", "Memory of the pool that is not instantiated.", POOL(free), true},
	{"surplus_bytes", "Memory of the pool beyond its persistent size.", POOL(surplus),
	 true},
	{"reserved_bytes", "Memory that is promised but not instantiated.", POOL(resv), false},
	{"overcommit_bytes", "Memory that may be added as surplus.", POOL(overcommit), false},
};

static void print_pools(const struct scrape *scrape, const struct pool_metric *metric,
			bool nodes)
{
	char name[64];

	snprintf(name, sizeof(name), "hugefuse_%s_%s", nodes ? "node" : "pool", metric->name);
	print_family(scrape->out, name, "gauge", metric->help);
	for (size_t i = 0; i < scrape->nr_mounts; i++) {
		const struct mount_snapshot *mount = &scrape->mounts[i];

		for (int j = 0; j < mount->nr_pools; j++) {
			const struct snapshot_pool *pool = &mount->pools[j];

			if (nodes != (pool->node >= 0))
				continue;
			begin_sample(scrape->out, name, mount);
			if (nodes)
				add_number_label(scrape->out, "node", (uint64_t)pool->node);
			add_number_label(scrape->out, "page_size", pool->page_size);
			end_sample(scrape->out,
				   *(const uint64_t *)((const char *)pool + metric->offset) *
					   pool->page_size);
		}
	}
}

static void print_all_pools(const struct scrape *scrape)
{
	for (size_t i = 0; i < sizeof(pool_metrics) / sizeof(pool_metrics[0]); i++) {
		print_pools(scrape, &pool_metrics[i], false);
		if (pool_metrics[i].per_node)
			print_pools(scrape, &pool_metrics[i], true);
	}
}

/* ---- tenants ---- */

static const struct tenant_metric {
	const char *name, *help;
	size_t offset; /* of the number of kB in struct snapshot_tenant */
} tenant_metrics[] = {
	{"hugefuse_tenant_size_bytes", "Most that the tenant may have.",
	 offsetof(struct snapshot_tenant, size_kb)},
	{"hugefuse_tenant_min_size_bytes", "Memory that is set aside for the tenant.",
	 offsetof(struct snapshot_tenant, min_size_kb)},
	{"hugefuse_tenant_used_bytes", "Memory that the tenant uses.",
	 offsetof(struct snapshot_tenant, used_kb)},
	{"hugefuse_tenant_reserved_bytes", "Memory of min_size that the tenant does not use.",
	 offsetof(struct snapshot_tenant, reserved_kb)},
};

static void print_tenants(const struct scrape *scrape, const struct tenant_metric *metric)
{
	bool first = true;

	for (size_t i = 0; i < scrape->nr_mounts; i++) {
		const struct mount_snapshot *mount = &scrape->mounts[i];

		for (size_t j = 1; j < mount->tenants.count; j++) {
			const struct snapshot_tenant *tenant = &mount->tenants.tenants[j];
			uint64_t kb =
				*(const uint64_t *)((const char *)tenant + metric->offset);

			if (kb == SNAPSHOT_UNKNOWN)
				continue;
			if (first)
				print_family(scrape->out, metric->name, "gauge", metric->help);
			first = false;
			begin_sample(scrape->out, metric->name, mount);
			add_label(scrape->out, "tenant", tenant->path);
			end_sample(scrape->out, kb * 1024);
		}
	}
}

/* ---- queues of huge pages to be split ---- */

static const struct split_metric {
	const char *name, *type, *help;
	size_t offset; /* of the number in struct snapshot_split */
	uint64_t unit;
} split_metrics[] = {
	{"hugefuse_split_queued_hugepages", "gauge", "Huge pages with holes that were noted.",
	 offsetof(struct snapshot_split, queued), 1},
	{"hugefuse_split_could_free_bytes", "gauge", "Memory of holes that were noted.",
	 offsetof(struct snapshot_split, could_free_kb), 1024},
	{"hugefuse_split_deferred_total", "counter", "Huge pages that have come to the queue.",
	 offsetof(struct snapshot_split, deferred), 1},
	{"hugefuse_split_split_total", "counter",
	 "Huge pages that were split for want of memory.",
	 offsetof(struct snapshot_split, split), 1},
	{"hugefuse_split_freed_bytes_total", "counter", "Memory that splitting has freed.",
	 offsetof(struct snapshot_split, freed_kb), 1024},
};

static void print_splits(const struct scrape *scrape, const struct split_metric *metric)
{
	bool first = true;

	for (size_t i = 0; i < scrape->nr_mounts; i++) {
		const struct mount_snapshot *mount = &scrape->mounts[i];

		for (size_t j = 0; j < mount->splits.count; j++) {
			const struct snapshot_split *split = &mount->splits.splits[j];
			const char *number = (const char *)split + metric->offset;

			/* Of tenants that are no more there may be several. */
			if (split->tenant[0] == '?')
				continue;
			if (first)
				print_family(scrape->out, metric->name, metric->type,
					     metric->help);
			first = false;
			begin_sample(scrape->out, metric->name, mount);
			add_label(scrape->out, "tenant", split->tenant);
			if (split->node != SNAPSHOT_UNKNOWN)
				add_number_label(scrape->out, "node", split->node);
			end_sample(scrape->out, *(const uint64_t *)number * metric->unit);
		}
	}
}

/* ---- what was never touched ---- */

static void print_stranded(const struct scrape *scrape)
{
	static const char *const kinds[] = {
		[HOLDER_FILE] = "file", [HOLDER_PRIVATE] = "private", [HOLDER_MOUNT] = "mount"};
	static const char name[] = "hugefuse_untouched_bytes";
	struct holders holders;

	print_family(
		scrape->out, name, "gauge",
		"Memory that is promised but not instantiated, by what it is promised to.");
	for (size_t i = 0; i < scrape->nr_mounts; i++) {
		const struct mount_snapshot *mount = &scrape->mounts[i];
		uint64_t sums[3] = {0};

		if (!holders_reserved_are_known(mount) ||
		    holders_find_reserved(mount, &holders) < 0)
			continue;
		for (size_t j = 0; j < holders.count; j++)
			sums[holders.list[j].kind] += holders.list[j].reserved;
		holders_free(&holders);
		for (int kind = 0; kind < 3; kind++) {
			begin_sample(scrape->out, name, mount);
			add_label(scrape->out, "kind", kinds[kind]);
			end_sample(scrape->out, sums[kind]);
		}
	}
}

/* ---- faults ---- */

/* The counters of fault_stat whose names begin with @prefix; what follows is the label. */
static void print_faults(const struct scrape *scrape, const char *prefix, const char *name,
			 const char *label, const char *help)
{
	size_t length = strlen(prefix);

	print_family(scrape->out, name, "counter", help);
	for (size_t i = 0; i < scrape->nr_mounts; i++) {
		const struct mount_snapshot *mount = &scrape->mounts[i];

		for (size_t j = 0; j < mount->faults.count; j++) {
			const struct snapshot_value *value = &mount->faults.values[j];

			if (strncmp(value->name, prefix, length) != 0)
				continue;
			begin_sample(scrape->out, name, mount);
			add_label(scrape->out, label, value->name + length);
			end_sample(scrape->out, mount_snapshot_fault(mount, value->name));
		}
	}
}

/* The same of nodes: node0_faults_missing; those without a page are of none. */
static void print_node_faults(const struct scrape *scrape)
{
	static const char name[] = "hugefuse_node_faults_total";
	bool first = true;
	char node[16], kind[32];

	for (size_t i = 0; i < scrape->nr_mounts; i++) {
		const struct mount_snapshot *mount = &scrape->mounts[i];

		for (size_t j = 0; j < mount->faults.count; j++) {
			const char *line = mount->faults.values[j].name;

			if (sscanf(line, "node%15[0-9]_faults_%31s", node, kind) != 2) {
				strcpy(node, "none");
				if (sscanf(line, "nonode_faults_%31s", kind) != 1)
					continue;
			}
			if (first)
				print_family(scrape->out, name, "counter",
					     "Faults by the node of their page.");
			first = false;
			begin_sample(scrape->out, name, mount);
			add_label(scrape->out, "node", node);
			add_label(scrape->out, "kind", kind);
			end_sample(scrape->out, mount_snapshot_fault(mount, line));
		}
	}
}

static void print_fault(const struct scrape *scrape, const char *value_name, const char *name,
			const char *help)
{
	bool first = true;

	for (size_t i = 0; i < scrape->nr_mounts; i++) {
		const struct mount_snapshot *mount = &scrape->mounts[i];
		uint64_t value = mount_snapshot_fault(mount, value_name);

		if (value == SNAPSHOT_UNKNOWN)
			continue;
		if (first)
			print_family(scrape->out, name, "counter", help);
		first = false;
		begin_sample(scrape->out, name, mount);
		end_sample(scrape->out, value);
	}
}

/* The histogram, where the daemon has one: lines latency_ns_le_N, N rising. */
static void print_latency(const struct scrape *scrape)
{
	static const char name[] = "hugefuse_fault_latency_seconds",
			  bucket[] = "latency_ns_le_";
	FILE *out = scrape->out;
	bool first = true;

	for (size_t i = 0; i < scrape->nr_mounts; i++) {
		const struct mount_snapshot *mount = &scrape->mounts[i];
		uint64_t sum = mount_snapshot_fault(mount, "latency_ns_sum");

		if (sum == SNAPSHOT_UNKNOWN)
			continue;
		if (first)
			print_family(out, name, "histogram",
				     "From the daemon's notice of a fault to its end.");
		first = false;
		for (size_t j = 0; j < mount->faults.count; j++) {
			const char *line = mount->faults.values[j].name;

			if (strncmp(line, bucket, strlen(bucket)) != 0)
				continue;
			begin_sample(out, "hugefuse_fault_latency_seconds_bucket", mount);
			fprintf(out, ",le=\"%.15g\"",
				strtod(line + strlen(bucket), NULL) / 1e9);
			end_sample(out, mount_snapshot_fault(mount, line));
		}
		begin_sample(out, "hugefuse_fault_latency_seconds_bucket", mount);
		add_label(out, "le", "+Inf");
		end_sample(out, mount_snapshot_faults(mount));
		begin_sample(out, "hugefuse_fault_latency_seconds_sum", mount);
		end_seconds(out, (double)sum / 1e9);
		begin_sample(out, "hugefuse_fault_latency_seconds_count", mount);
		end_sample(out, mount_snapshot_faults(mount));
	}
}

static void print_all_faults(const struct scrape *scrape)
{
	print_faults(scrape, "faults_", "hugefuse_faults_total", "kind",
		     "Faults that the daemon answered.");
	print_node_faults(scrape);
	print_faults(scrape, "outcome_", "hugefuse_fault_outcomes_total", "outcome",
		     "Faults by where their page came from.");
	print_fault(scrape, "populated_ahead", "hugefuse_populated_ahead_total",
		    "Pages that were populated before they were touched.");
	print_fault(scrape, "base_fallback", "hugefuse_base_fallbacks_total",
		    "Huge pages for which base pages were taken.");
	print_fault(scrape, "remote_pages", "hugefuse_remote_placements_total",
		    "Pages that are not on the node that they were to be on.");
	print_fault(scrape, "bind_refused", "hugefuse_bind_refused_total",
		    "Reservations that were refused for want of pages on their nodes.");
	print_fault(scrape, "attempts_failed", "hugefuse_failed_attempts_total",
		    "Attempts at a page, by faults, that got none.");
	print_latency(scrape);
}

/* ---- locks ---- */

struct lock_metric {
	const char *name, *type, *help;
	/* one of the two */
	uint64_t (*count)(const struct snapshot_lock *lock);
	double (*seconds)(const struct snapshot_lock *lock);
};

static uint64_t lock_acquisitions(const struct snapshot_lock *lock)
{
	return lock->acquisitions;
}

static uint64_t lock_contentions(const struct snapshot_lock *lock)
{
	return lock->contentions;
}

static double lock_waited(const struct snapshot_lock *lock)
{
	return lock->wait_total / 1e6;
}

static double lock_held(const struct snapshot_lock *lock)
{
	return lock->hold_total / 1e6;
}

static double lock_longest_wait(const struct snapshot_lock *lock)
{
	return lock->wait_max / 1e6;
}

static const struct lock_metric lock_metrics[] = {
	{"hugefuse_lock_acquisitions_total", "counter", "How often the lock was taken.",
	 lock_acquisitions, NULL},
	{"hugefuse_lock_contentions_total", "counter", "How often the lock was waited for.",
	 lock_contentions, NULL},
	{"hugefuse_lock_wait_seconds_total", "counter", "How long the lock was waited for.",
	 NULL, lock_waited},
	{"hugefuse_lock_hold_seconds_total", "counter", "How long the lock was held.", NULL,
	 lock_held},
	{"hugefuse_lock_wait_max_seconds", "gauge", "The longest wait for the lock.", NULL,
	 lock_longest_wait},
};

static void print_locks(const struct scrape *scrape, const struct lock_metric *metric)
{
	print_family(scrape->out, metric->name, metric->type, metric->help);
	for (size_t i = 0; i < scrape->nr_mounts; i++) {
		const struct mount_snapshot *mount = &scrape->mounts[i];

		for (size_t j = 0; j < mount->locks.count; j++) {
			const struct snapshot_lock *lock = &mount->locks.locks[j];

			begin_sample(scrape->out, metric->name, mount);
			add_label(scrape->out, "lock", lock->name);
			add_label(scrape->out, "mode", snapshot_lock_mode(lock));
			if (metric->count)
				end_sample(scrape->out, metric->count(lock));
			else
				end_seconds(scrape->out, metric->seconds(lock));
		}
	}
}

void stat_print_prometheus(const struct mount_snapshot *mounts, size_t nr_mounts, FILE *out)
{
	struct scrape scrape = {mounts, nr_mounts, out};
	size_t i;

	print_all_pools(&scrape);
	for (i = 0; i < sizeof(tenant_metrics) / sizeof(tenant_metrics[0]); i++)
		print_tenants(&scrape, &tenant_metrics[i]);
	for (i = 0; i < sizeof(split_metrics) / sizeof(split_metrics[0]); i++)
		print_splits(&scrape, &split_metrics[i]);
	print_stranded(&scrape);
	print_all_faults(&scrape);
	for (i = 0; i < sizeof(lock_metrics) / sizeof(lock_metrics[0]); i++)
		print_locks(&scrape, &lock_metrics[i]);
}
