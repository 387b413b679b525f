/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a supervisor is told that started us as systemd does: datagrams to $NOTIFY_SOCKET, see
 * sd_notify(3). Without one nothing is done.
 */
#pragma once

/* Tell @state, such as "READY=1". */
void notify_send(const char *state);
/*
 * Tell that we are alive, if $WATCHDOG_USEC wants to hear it and half of that has passed since
 * the last time. One thread alone, which is the one to be watched.
 */
void notify_alive(void);
