/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fixture.h"
int main(void)
{
	return 0;
}
