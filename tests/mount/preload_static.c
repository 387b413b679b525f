/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A static program for test_preload.c: nothing is preloaded into it. */
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	printf("mount %s\n", getenv("HUGEFUSE_MOUNT"));
	return 0;
}
