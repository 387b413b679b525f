/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Workers: the driver's side. */
#include "worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "script.h"
#include "target.h"

#define ANSWER_MS 20000

static void start_worker(struct worker_set *set, int worker)
{
	int child = CHILD_OF(worker), own[2], childs[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, own) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, childs) < 0)
		fail_msg("socketpair: %s", strerror(errno));
	set->socket[worker] = own[0];
	set->socket[child] = childs[0];
	fflush(NULL);
	set->pid[worker] = fork();
	if (set->pid[worker] < 0)
		fail_msg("fork: %s", strerror(errno));
	if (set->pid[worker] > 0) {
		close(own[1]);
		close(childs[1]);
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int proc = 0; proc < NR_PROCS; proc++) {
		if (set->socket[proc] >= 0)
			close(set->socket[proc]);
	}
	client_run(set->target, worker, own[1], childs[1]);
}

static void kill_worker(struct worker_set *set, int worker)
{
	int status;

	if (set->pid[worker] <= 0)
		return;
	kill(set->pid[worker], SIGKILL);
	waitpid(set->pid[worker], &status, 0);
	set->pid[worker] = 0;
	for (int proc = worker; proc < NR_PROCS; proc += NR_WORKERS) {
		close(set->socket[proc]);
		set->socket[proc] = -1;
	}
}

void workers_start(struct worker_set *set, const struct target *target, void (*explain)(void))
{
	*set = (struct worker_set){.target = target, .explain = explain};
	for (int proc = 0; proc < NR_PROCS; proc++)
		set->socket[proc] = -1;
	for (int worker = 0; worker < NR_WORKERS; worker++)
		start_worker(set, worker);
}

void workers_stop(struct worker_set *set)
{
	for (int worker = 0; worker < NR_WORKERS; worker++)
		kill_worker(set, worker);
}

static void send_op(struct worker_set *set, int proc, const struct op *op, bool should_fail)
{
	struct client_message message = {.op = *op, .should_fail = should_fail};

	if (send(set->socket[proc], &message, sizeof(message), MSG_NOSIGNAL) != sizeof(message))
		fail_msg("process %d is gone: %s", proc, strerror(errno));
}

static struct client_reply receive_reply(struct worker_set *set, int proc, const struct op *op)
{
	struct pollfd poll_fd = {.fd = set->socket[proc], .events = POLLIN};
	struct client_reply reply;

	while (poll(&poll_fd, 1, ANSWER_MS) < 0 && errno == EINTR)
		;
	if (recv(set->socket[proc], &reply, sizeof(reply), MSG_DONTWAIT) == sizeof(reply))
		return reply;
	set->explain();
	fail_msg("process %d does not answer %s after %d s, or has died", proc,
		 op_name(op->type), ANSWER_MS / 1000);
	return reply;
}

static struct result execute_burst(struct worker_set *set, const struct op *op)
{
	struct result result = {0}, one;

	for (int worker = 0; worker < NR_WORKERS; worker++)
		send_op(set, worker, op, false);
	for (int worker = 0; worker < NR_WORKERS; worker++) {
		one = receive_reply(set, worker, op).result;
		if (one.error)
			result = one;
	}
	return result;
}

static struct result execute_unlink(const struct target *target, const struct op *op)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/f%d", target->dir, op->name);
	return (struct result){.error = unlink(path) < 0 ? errno : 0};
}

static void end_child(struct worker_set *set, const struct op *op)
{
	int child = CHILD_OF(op->proc);

	if (op->type == OP_CHILD_KILL)
		kill(set->pid[child], SIGKILL);
	else
		send_op(set, child, op, false);
	set->pid[child] = 0;
}

struct result workers_execute(struct worker_set *set, const struct op *op,
			      const struct result *expected)
{
	struct client_reply reply;

	switch (op->type) {
	case OP_UNLINK:
		return execute_unlink(set->target, op);
	case OP_BURST:
		return execute_burst(set, op);
	case OP_KILL:
		kill_worker(set, op->proc);
		start_worker(set, op->proc);
		return (struct result){0};
	case OP_CHILD_EXIT:
	case OP_CHILD_KILL:
		end_child(set, op); /* and its parent waits for it */
		break;
	default:
		break;
	}
	send_op(set, op->proc, op, expected->error != 0);
	reply = receive_reply(set, op->proc, op);
	if (op->type == OP_FORK)
		set->pid[CHILD_OF(op->proc)] = reply.pid;
	return reply.result;
}
