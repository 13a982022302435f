/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands that failed on the device. An accepted command can still end in an error, which only its event
 * shows. So the event of every command is kept here until the command is known to have succeeded. Callers
 * that know that some commands have ended check them here. After a failure the device counts as lost, and
 * every later check reports the first failed command. This file must not know what the commands compute.
 *
 * Events take time on the host and on some devices. Where a failure makes all later commands of the context
 * fail (OCL_QUIRK_LASTING_FAILURES), an executor asks for an event only for every 16th command, for the
 * last one of a range, for the last one before host code and for commands whose times are recorded. Such an
 * event stands for a group: the commands since the last event. CLTRAIN_EVENTS=each gives every command an
 * event on all devices. */
#ifndef CL_COMMAND_FAULTS_H
#define CL_COMMAND_FAULTS_H

#include <pthread.h>

#include "cl/device/device.h"

/* Number of the last command or group enqueued on the device, counted over all its queues. */
uint64_t ocl_commands_enqueued(ocl_device *device);
/* Looks at the events of the commands up to `number` that have ended. CLT_EDEVLOST names the first one that
 * failed; commands that are still under way are checked again the next time. Any thread may call it. */
clt_status ocl_commands_check(ocl_device *device, uint64_t number);
/* Records that commands under way compute from data that never arrived: every later check fails with this
 * status and text, unless a command has failed. Only the first call counts; any thread may make it. The
 * device itself has not failed, so the caller may still wait for its queues. */
void ocl_commands_spoil(ocl_device *device, clt_status status, const char *text);
/* Whether any command has failed so far. If so, commands that wait for the failed one may never end (PoCL
 * 3.1), so clean-up must not wait for the queues, and must not free memory that the device may still use. */
bool ocl_commands_failed(ocl_device *device);
/* One iteration of a loop that waits, with `lock` held, until the callback of an event changes something and
 * signals `changed`. False: a command has failed, and the callback may never come. The caller must then stop
 * waiting (unless the change has happened) and must not free the memory that the callback uses. */
bool ocl_wait_for_callback(ocl_device *device, pthread_cond_t *changed, pthread_mutex_t *lock);

#endif
