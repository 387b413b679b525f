/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hugefuse(8): one program with a table of verbs. Called as mount.hugefuse it is mount(8)'s
 * helper.
 */
#include <stdio.h>
#include <string.h>

#include "tools/cmd.h"

static const struct verb verbs[] = {
	{
		.name = "mount",
		.arguments = "[OPTIONS] [SOURCE] MOUNTPOINT",
		.summary = "mount a hugefuse filesystem",
		.help = "  -o, --options LIST   mount options, see hugefuse(8); may be repeated\n"
			"  -f, --foreground     stay in the foreground and log to stderr\n"
			"  -d, --debug AREAS    log details of mount, fuse, control, fault, or all\n",
		.run = cmd_mount,
	},
	{
		.name = "umount",
		.arguments = "[-f] MOUNTPOINT",
		.summary = "unmount it and give the pages back",
		.help = "  -f, --force          also while processes have pages mapped\n",
		.run = cmd_umount,
	},
	{
		.name = "fsck",
		.arguments = "[--repair] MOUNTPOINT",
		.summary = "check what a daemon that died has left",
		.help = "  -r, --repair         write its journal anew where it is damaged\n",
		.run = cmd_fsck,
	},
	{
		.name = "reap",
		.arguments = "[--dry-run] [--force] [MOUNTPOINT]",
		.summary = "give back what daemons that died have left, all of it",
		.help = "  -n, --dry-run        only say what\n"
			"  -f, --force          also where processes have pages mapped\n",
		.run = cmd_reap,
	},
	{
		.name = "stat",
		.arguments = "[--json | --prometheus] [MOUNTPOINT...]",
		.summary = "pools, faults and options of mounts; of all mounts by default",
		.help = "      --json           print JSON\n"
			"      --prometheus     print the text format of Prometheus\n",
		.run = cmd_stat,
	},
	{
		.name = "ls",
		.arguments = "[--json] [--sort KEY] [-r] MOUNTPOINT",
		.summary = "files with the pages that they hold and reserve",
		.help = "      --json           print JSON\n"
			"      --sort KEY       size, resident, reserved, mappings, or path (the default)\n"
			"  -r, --reverse        the other way round\n",
		.run = cmd_ls,
	},
	{
		.name = "maps",
		.arguments = "[--json] [-p PID] MOUNTPOINT",
		.summary = "processes and what they have mapped",
		.help = "      --json           print JSON\n"
			"  -p, --pid PID        only this process\n",
		.run = cmd_maps,
	},
	{
		.name = "lockstat",
		.arguments = "[--json] [--reset] MOUNTPOINT",
		.summary = "how long the daemon's locks were waited for and held",
		.help = "      --json           print JSON\n"
			"      --reset          set the counters to zero instead\n",
		.run = cmd_lockstat,
	},
	{
		.name = "quota",
		.arguments = "[--json] DIRECTORY [size=SIZE,min_size=SIZE]",
		.summary = "what a directory may use of a mount: print it, or set it",
		.help = "      --json           print JSON\n",
		.run = cmd_quota,
	},
	{
		.name = "numa",
		.arguments = "[--json] PATH [POLICY[,fallback=FALLBACK]|none]",
		.summary = "on which nodes pages are to be: print it, or set it",
		.help = "      --json           print JSON\n",
		.run = cmd_numa,
	},
	{
		.name = "why",
		.arguments = "[--json] PATH|PID",
		.summary = "why a file, a directory or a process holds pages",
		.help = "      --json           print JSON\n",
		.run = cmd_why,
	},
	{
		.name = "top",
		.arguments = "[-b] [-d SECONDS] [-n N] [--sort KEY] [MOUNTPOINT...]",
		.summary = "pools, faults, locks and holders, again and again",
		.help = "  -b, --batch          print the screens one after the other\n"
			"  -d, --delay SECONDS  between two of them; 2 by default\n"
			"  -n, --count N        end after so many\n"
			"      --sort KEY       of holders: total (the default), resident, reserved, name\n",
		.run = cmd_top,
	},
	{
		.name = "resize",
		.arguments = "[--json] MOUNTPOINT [+|-]SIZE|N%",
		.summary = "give a mount's pool another size",
		.help = "      --json           print JSON\n",
		.run = cmd_resize,
	},
	{
		.name = "probe",
		.arguments = "[--json]",
		.summary = "what this machine can do, and what to change",
		.help = "      --json           print JSON\n",
		.run = cmd_probe,
	},
	{
		.name = "run",
		.arguments = "[-m MOUNTPOINT] [--counters] [--] COMMAND [ARGUMENT...]",
		.summary = "run a command with huge pages from a mount",
		.help = "  -m, --mountpoint DIR the mount; the only one by default\n"
			"      --counters       show it the mount's pool as the kernel's\n",
		.run = cmd_run,
	},
};

static const struct verb mount_helper = {
	.name = "mount.hugefuse",
	.arguments = "SOURCE MOUNTPOINT [-sfnv] [-N NS] [-o OPTIONS] [-t TYPE]",
	.summary = "mount(8)'s helper for hugefuse",
	.help = "  -o LIST   mount options, see hugefuse(8)\n"
		"  -f        fake: check everything, mount nothing\n"
		"  -N NS     mount in the mount namespace NS, a process id or a file\n"
		"  -v        say what was mounted\n"
		"  -t TYPE   hugefuse or fuse.hugefuse\n"
		"  -s, -n    accepted, of no effect\n",
	.run = cmd_mount_helper,
};

static void print_usage(void)
{
	size_t i;

	printf("Usage: hugefuse VERB [ARGUMENTS]\n"
	       "hugetlbfs with its decisions in user space; see hugefuse(8).\n\n");
	for (i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		printf("  %-10s %s\n", verbs[i].name, verbs[i].summary);
	printf("\n'hugefuse VERB --help' describes a verb, 'hugefuse --version' prints the "
	       "version.\n");
}

static int run_verb(int argc, char **argv)
{
	size_t i;

	if (argc < 2) {
		fprintf(stderr, "hugefuse: a verb is missing; try 'hugefuse --help'\n");
		return EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		print_usage();
		return EXIT_OK;
	}
	if (strcmp(argv[1], "--version") == 0) {
		printf("hugefuse %s\n", HUGEFUSE_VERSION);
		return EXIT_OK;
	}
	for (i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(argv[1], verbs[i].name) == 0)
			return verbs[i].run(&verbs[i], argc - 1, argv + 1);
	}
	fprintf(stderr, "hugefuse: unknown %s '%s'; try 'hugefuse --help'\n",
		argv[1][0] == '-' ? "option" : "verb", argv[1]);
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
	const char *name = slash ? slash + 1 : (argc > 0 ? argv[0] : "hugefuse");
	int exit_code;

	if (strcmp(name, mount_helper.name) == 0)
		exit_code = mount_helper.run(&mount_helper, argc, argv);
	else
		exit_code = run_verb(argc, argv);
	if ((fflush(stdout) != 0 || ferror(stdout)) && exit_code == EXIT_OK) {
		fprintf(stderr, "hugefuse: cannot write the output: %m\n");
		exit_code = EXIT_FAILED;
	}
	return exit_code;
}
