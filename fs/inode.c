// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Inodes: the table, references, and the way out.
 *
 * Locks: table->lock guards what is in the table, and the way of nr_refs from and to zero. A
 * count above zero changes without it. Whoever takes the last reference decides under the lock
 * what becomes of the inode; what takes long (freeing pages) is done after it, when the inode
 * can not be found any more and a grace period has passed: a reader of the table
 * (inode_for_each()) may look at the pages without a reference.
 *
 * The pages of a file that keeps its name are closed under the lock, grace period included, so
 * that a lookup that comes right behind finds all of them gone or none. That is rare: it wants
 * a file that had pages and lost them. So no RCU read side may take the lock.
 */
#include "fs/inode.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "fs/mount.h"
#include "fs/rcu.h"
#include "fs/split.h"
#include "fs/tenant.h"

#define TABLE_MIN_BUCKETS 1024
#define VISIT_NS          5000000 /* more than a visit of some files takes */
#define FUSE_ROOT_NODE_ID 1       /* FUSE_ROOT_ID; this layer does not know libfuse */

/* splitmix64's finalizer: inode numbers are dense. */
static unsigned long hash_ino(uint64_t ino)
{
	ino = (ino ^ (ino >> 30)) * 0xbf58476d1ce4e5b9ULL;
	ino = (ino ^ (ino >> 27)) * 0x94d049bb133111ebULL;
	return ino ^ (ino >> 31);
}

static int match_ino(struct cds_lfht_node *node, const void *key)
{
	rcu_order_after(); /* it may have been published since the read side began */
	return caa_container_of(node, struct inode, node)->ino == *(const uint64_t *)key;
}

/* The inode with the number @ino. Inside an RCU read side. */
static struct inode *find_ino(struct inode_table *table, uint64_t ino)
{
	struct cds_lfht_iter iter;
	struct cds_lfht_node *node;

	cds_lfht_lookup(table->inodes, hash_ino(ino), match_ino, &ino, &iter);
	node = cds_lfht_iter_get_node(&iter);
	return node ? caa_container_of(node, struct inode, node) : NULL;
}

/* Add @nr to the references unless they are zero. */
static bool ref_unless_zero(struct inode *inode)
{
	uint64_t refs = atomic_load(&inode->nr_refs);

	while (refs)
		if (atomic_compare_exchange_weak(&inode->nr_refs, &refs, refs + 1))
			return true;
	return false;
}

/* An inode with one reference, not in the table. Takes @fd over on success. */
static struct inode *new_inode(int fd, const struct stat *st)
{
	struct inode *inode = aligned_alloc(_Alignof(struct inode), sizeof(*inode));

	if (!inode)
		return NULL;
	*inode = (struct inode){
		.ino = st->st_ino,
		.type = st->st_mode & S_IFMT,
		.fd = fd,
	};
	atomic_init(&inode->nr_refs, 1);
	rwsem_init(&inode->lock, LOCK_RANK_INODE);
	cds_lfht_node_init(&inode->node);
	return inode;
}

static void close_backing_file(struct backing_file *file, bool remove)
{
	if (file)
		file->backing->ops->file_close(file, remove);
}

/* With what it holds: no pages, by now. */
static void free_inode(struct inode *inode)
{
	struct page_space *pages = atomic_load(&inode->pages);

	if (pages)
		page_space_deinit(pages);
	free(pages);
	close_backing_file(atomic_load(&inode->backing_file), false);
	rwsem_deinit(&inode->lock);
	tenant_unref(inode->tenant);
	close(inode->fd);
	free(atomic_load(&inode->last_stat));
	free(inode);
}

static void free_inode_rcu(struct rcu_head *head)
{
	rcu_order_after();
	free_inode(caa_container_of(head, struct inode, rcu));
}

static void insert_locked(struct inode_table *table, struct inode *inode)
{
	mutex_assert_held(&table->lock);
	rcu_reader_lock();
	rcu_order_before();
	cds_lfht_add(table->inodes, hash_ino(inode->ino), &inode->node);
	rcu_reader_unlock();
	inode->in_table = true;
}

static void remove_locked(struct inode_table *table, struct inode *inode)
{
	int err;

	mutex_assert_held(&table->lock);
	assert(inode->in_table);
	rcu_reader_lock();
	err = cds_lfht_del(table->inodes, &inode->node);
	rcu_reader_unlock();
	assert(!err);
	(void)err;
	inode->in_table = false;
}

int inode_table_init(struct inode_table *table, int root_fd)
{
	struct inode *root;
	struct stat st;
	int err;

	if (fstat(root_fd, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	table->inodes = cds_lfht_new(TABLE_MIN_BUCKETS, TABLE_MIN_BUCKETS, 0,
				     CDS_LFHT_AUTO_RESIZE | CDS_LFHT_ACCOUNTING, NULL);
	if (!table->inodes)
		return -ENOMEM;
	table->gone_fd = openat(root_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0);
	root = table->gone_fd < 0 ? NULL : new_inode(root_fd, &st);
	if (!root) {
		err = table->gone_fd < 0 ? -errno : -ENOMEM;
		if (table->gone_fd >= 0)
			close(table->gone_fd);
		cds_lfht_destroy(table->inodes, NULL);
		return err;
	}
	mutex_init(&table->lock, LOCK_RANK_NAMESPACE);
	table->root_ino = root->ino;
	mutex_lock(&table->lock);
	insert_locked(table, root);
	mutex_unlock(&table->lock);
	return 0;
}

struct inode *inode_lookup(struct mount *mount, uint64_t node_id)
{
	struct inode_table *table = &mount->inodes;
	struct inode *inode;

	rcu_reader_lock();
	inode = find_ino(table, node_id == FUSE_ROOT_NODE_ID ? table->root_ino : node_id);
	rcu_reader_unlock();
	return inode;
}

uint64_t inode_node_id(const struct mount *mount, const struct inode *inode)
{
	return inode->ino == mount->inodes.root_ino ? FUSE_ROOT_NODE_ID : inode->ino;
}

/* A reference to the inode with the number @ino, which somebody else holds, or NULL. */
static struct inode *get_held(struct inode_table *table, uint64_t ino)
{
	struct inode *inode;

	rcu_reader_lock();
	inode = find_ino(table, ino);
	if (inode && !ref_unless_zero(inode))
		inode = NULL;
	rcu_reader_unlock();
	return inode;
}

/*
 * A reference to the inode that @fd is open on: the table's, or a new one, which takes @fd over
 * and sets it to -1, and belongs to the tenant that @parent does. @st is what fstat(2) says,
 * and may be newer afterwards.
 */
static int get_or_insert(struct mount *mount, struct inode *parent, int *fd, struct stat *st,
			 struct inode **ret_inode)
{
	struct inode_table *table = &mount->inodes;
	struct inode *inode, *fresh = NULL;
	int err = 0;

	inode = get_held(table, st->st_ino);
	if (inode)
		goto out_found;

	fresh = new_inode(*fd, st);
	if (!fresh)
		return -ENOMEM;
	fresh->tenant = tenant_of_child(mount, parent);
	mutex_lock(&table->lock);
	rcu_reader_lock();
	inode = find_ino(table, st->st_ino);
	rcu_reader_unlock();
	if (inode) {
		atomic_fetch_add(&inode->nr_refs, 1);
	} else if (fstat(*fd, st) < 0 || st->st_nlink == 0) {
		/* Unlinked since we opened it, and its pages may be freed already. */
		err = -ENOENT;
	} else {
		insert_locked(table, fresh);
		inode = fresh;
		fresh = NULL;
		*fd = -1;
	}
	mutex_unlock(&table->lock);
	if (fresh) {
		rwsem_deinit(&fresh->lock);
		tenant_unref(fresh->tenant);
		free(fresh);
	}
	if (err)
		return err;
out_found:
	*ret_inode = inode;
	return 0;
}

int inode_get_child(struct mount *mount, struct inode *parent, const char *name,
		    struct inode **ret_inode, struct stat *ret_stat)
{
	struct inode *inode;
	struct stat st;
	int fd, err;

	fd = openat(parent->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0) {
		err = -errno;
		goto out_close;
	}
	err = get_or_insert(mount, parent, &fd, &st, &inode);
	if (err)
		goto out_close;
	if (ret_stat) {
		inode_adjust_stat(mount, inode, &st);
		*ret_stat = st;
	}
	*ret_inode = inode;
out_close:
	if (fd >= 0)
		close(fd);
	return err;
}

struct inode *inode_find(struct mount *mount, uint64_t ino)
{
	struct inode_table *table = &mount->inodes;
	struct inode *inode;

	/* Under the lock a count may leave zero. */
	mutex_lock(&table->lock);
	rcu_reader_lock();
	inode = find_ino(table, ino);
	rcu_reader_unlock();
	if (inode)
		atomic_fetch_add(&inode->nr_refs, 1);
	mutex_unlock(&table->lock);
	return inode;
}

struct inode *inode_find_child(struct mount *mount, struct inode *parent, const char *name)
{
	struct inode_table *table = &mount->inodes;
	struct inode *inode;
	struct stat st;

	if (fstatat(parent->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return NULL;
	inode = get_held(table, st.st_ino);
	if (inode)
		return inode;
	/* It may be there without references. */
	return inode_find(mount, st.st_ino);
}

int inode_new_nameless(struct mount *mount, off_t size, struct inode **ret_inode)
{
	struct inode_table *table = &mount->inodes;
	struct inode *inode = NULL;
	struct stat st = {0};
	int fd, err = 0;

	fd = openat(mount->names_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, size) < 0 || fstat(fd, &st) < 0)
		err = -errno;
	if (!err) {
		inode = new_inode(fd, &st);
		err = inode ? 0 : -ENOMEM;
	}
	if (err) {
		close(fd);
		return err;
	}
	mutex_lock(&table->lock);
	insert_locked(table, inode);
	mutex_unlock(&table->lock);
	*ret_inode = inode;
	return 0;
}

struct inode *inode_ref(struct inode *inode)
{
	uint64_t before = atomic_fetch_add(&inode->nr_refs, 1);

	assert(before > 0);
	(void)before;
	return inode;
}

struct inode *inode_get(struct mount *mount, struct inode *inode)
{
	bool gone;

	/* Under the lock, so that inode_drop_unlinked() either sees it or is over. */
	mutex_lock(&mount->inodes.lock);
	gone = inode->gone;
	if (!gone)
		inode_ref(inode);
	mutex_unlock(&mount->inodes.lock);
	return gone ? NULL : inode;
}

static bool is_empty(struct page_space *pages)
{
	struct page_space_counts counts;

	page_space_read(pages, &counts);
	return counts.resv == 0 && counts.instantiated == 0;
}

/*
 * Wait until nobody reads what has left the table. liburcu looks for readers every 10 ms only:
 * those who visit all inodes, and take longer than others, are waited for before.
 */
static void wait_for_readers(struct inode_table *table)
{
	uint32_t count = waitqueue_read(&table->visited);

	if (table->nr_visiting > 0)
		waitqueue_wait(&table->visited, count, VISIT_NS);
	rcu_wait_for_readers();
}

/*
 * Free the content of a file, either of which may be NULL; with @remove its pages too. Nobody
 * can reach it any more. Not inside an RCU read side: a backing may wait for a grace period.
 */
static void free_content(struct mount *mount, struct inode *inode, struct page_space *pages,
			 struct backing_file *file, bool remove)
{
	split_forget(mount, inode);
	remove = remove && mount_may_remove(mount);
	/* A process may have mapped it and closed it: then they are freed when that ends. */
	if (remove && pages && mount->backing->reserves_size && !is_empty(pages) &&
	    orphans_add(&mount->orphans, inode->fd, pages) == 0)
		pages = NULL;
	if (remove)
		state_forget(&mount->state, inode->ino);
	/* The pages go back to the backing first: whoever sees the counters finds the pages. */
	close_backing_file(file, remove);
	if (pages)
		page_space_deinit(pages);
	free(pages);
}

static bool is_unlinked(const struct inode *inode)
{
	struct stat st;

	return fstat(inode->fd, &st) == 0 && st.st_nlink == 0;
}

/*
 * Whether nothing goes with it that anybody waits for, or could find again by its number, but
 * memory and descriptors: that can be left to the end of a grace period. An empty file of the
 * hugetlb backing has one more, of the same number, in there.
 */
static bool holds_nothing(const struct mount *mount, struct inode *inode)
{
	struct page_space *pages = atomic_load(&inode->pages);

	if (pages && !is_empty(pages))
		return false;
	if (inode->split.list || inode->split.set)
		return false;
	return mount->backing->reserves_size || !atomic_load(&inode->backing_file);
}

/*
 * The last reference has gone. Returns whether the inode left the table and is to be freed.
 * @ret_unlinked: its pages are to be freed as well.
 */
static bool retire_locked(struct mount *mount, struct inode *inode, bool *ret_unlinked)
{
	struct page_space *pages = atomic_load(&inode->pages);

	*ret_unlinked = is_unlinked(inode);
	if (!*ret_unlinked && pages && !is_empty(pages))
		return false;
	remove_locked(&mount->inodes, inode);
	if (!*ret_unlinked && !holds_nothing(mount, inode) &&
	    atomic_load(&inode->backing_file)) {
		wait_for_readers(&mount->inodes);
		close_backing_file(atomic_exchange(&inode->backing_file, NULL),
				   mount_may_remove(mount));
	}
	return true;
}

void inode_end_freeing(struct mount *mount)
{
	mount->inodes.nr_freeing--;
	waitqueue_wake_all(&mount->core.pool.freed);
}

static void put_last(struct mount *mount, struct inode *inode, uint64_t nr)
{
	struct inode_table *table = &mount->inodes;
	bool retired = false, unlinked = false;
	struct backing_file *file;
	struct page_space *pages;
	uint64_t before;

	mutex_lock(&table->lock);
	before = atomic_fetch_sub(&inode->nr_refs, nr);
	assert(before >= nr);
	if (before == nr) {
		/* Before it leaves the table: whoever looks there first misses neither. */
		table->nr_freeing++;
		retired = retire_locked(mount, inode, &unlinked);
		table->nr_freeing -= !retired;
	}
	mutex_unlock(&table->lock);
	if (!retired)
		return;

	if (holds_nothing(mount, inode)) {
		rcu_call_later(&inode->rcu, free_inode_rcu);
		table->nr_freeing--;
		return;
	}
	wait_for_readers(table);
	pages = atomic_exchange(&inode->pages, NULL);
	file = atomic_exchange(&inode->backing_file, NULL);
	free_content(mount, inode, pages, file, unlinked);
	free_inode(inode);
	mount_pages_freed(mount);
	inode_end_freeing(mount);
}

void inode_put(struct mount *mount, struct inode *inode, uint64_t nr)
{
	uint64_t refs;

	if (!inode || !nr)
		return;
	refs = atomic_load(&inode->nr_refs);
	while (refs > nr)
		if (atomic_compare_exchange_weak(&inode->nr_refs, &refs, refs - nr))
			return;
	put_last(mount, inode, nr);
}

void inode_add_lookup(struct inode *inode)
{
	atomic_fetch_add(&inode->nr_lookups, 1);
}

void inode_forget(struct mount *mount, struct inode *inode, uint64_t nr)
{
	uint64_t lookups;

	if (!inode)
		return;
	/* The root is never forgotten, and nobody forgets more than was looked up. */
	lookups = atomic_load(&inode->nr_lookups);
	do {
		if (nr > lookups)
			nr = lookups;
	} while (!atomic_compare_exchange_weak(&inode->nr_lookups, &lookups, lookups - nr));
	inode_put(mount, inode, nr);
}

/*
 * Let go of the inode in names/, so that the kernel can free it, though FUSE may still ask for
 * its attributes: the descriptor becomes one of a file that nobody sees.
 */
static void let_go(struct inode_table *table, struct inode *inode)
{
	struct stat *st = malloc(sizeof(*st));

	if (!st || fstat(inode->fd, st) < 0) {
		free(st);
		return;
	}
	atomic_store(&inode->last_stat, st);
	dup3(table->gone_fd, inode->fd, O_CLOEXEC);
}

void inode_drop_unlinked(struct mount *mount, struct inode *inode)
{
	struct inode_table *table = &mount->inodes;
	struct backing_file *file = NULL;
	struct page_space *pages = NULL;

	if (!S_ISREG(inode->type))
		return;
	mutex_lock(&table->lock);
	if (!inode->gone && is_unlinked(inode) &&
	    atomic_load(&inode->nr_refs) == atomic_load(&inode->nr_lookups) + 1) {
		inode->gone = true;
		pages = atomic_load(&inode->pages);
	}
	/* What holds no pages is freed when FUSE forgets it: nobody can get any for it. */
	if (pages && !is_empty(pages)) {
		table->nr_freeing++;
		atomic_store(&inode->pages, NULL);
		file = atomic_exchange(&inode->backing_file, NULL);
	} else {
		pages = NULL;
	}
	mutex_unlock(&table->lock);
	if (!pages)
		return;
	wait_for_readers(table);
	free_content(mount, inode, pages, file, true);
	if (mount->backing->reserves_size)
		let_go(table, inode);
	mount_pages_freed(mount);
	inode_end_freeing(mount);
}

/* Take any inode out of the table; NULL where there is none left. */
static struct inode *take_any(struct inode_table *table)
{
	struct cds_lfht_node *node;
	struct cds_lfht_iter iter;
	struct inode *inode = NULL;

	mutex_lock(&table->lock);
	rcu_reader_lock();
	cds_lfht_first(table->inodes, &iter);
	node = cds_lfht_iter_get_node(&iter);
	if (node)
		inode = caa_container_of(node, struct inode, node);
	rcu_reader_unlock();
	if (inode)
		remove_locked(table, inode);
	mutex_unlock(&table->lock);
	return inode;
}

void inode_table_deinit(struct mount *mount)
{
	struct inode_table *table = &mount->inodes;
	struct inode *inode;

	while ((inode = take_any(table))) {
		free_content(mount, inode, atomic_exchange(&inode->pages, NULL),
			     atomic_exchange(&inode->backing_file, NULL), is_unlinked(inode));
		rcu_call_later(&inode->rcu, free_inode_rcu);
	}
	rcu_barrier();
	cds_lfht_destroy(table->inodes, NULL);
	close(table->gone_fd);
	mutex_deinit(&table->lock);
}
