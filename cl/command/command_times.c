/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds up the recorder's spans of one list by command. */
#include "cl/command/command_times.h"

#include <stdlib.h>

#include "cl/command/memory.h"

clt_status ocl_command_times_start(ocl_device *device, const ocl_command_list *list, int runs,
                                   ocl_command_times **out)
{
    CLT_FREED ocl_command_times *t = NULL;
    CLT_FREED ocl_command_time *at = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&t, 1, sizeof *t, "times of commands"));
    CLT_TRY(clt_alloc(&at, list->count, sizeof *at, "times of commands"));
    CLT_TRY(ocl_record_start(device, list->count * (size_t)runs));
    ocl_record_set(device, OCL_RECORD_ALL, 0);
    *t = (ocl_command_times){.device = device, .list = list, .at = CLT_TAKE(at)};
    *out = CLT_TAKE(t);
    return CLT_OK;
}

static void add(void *context, const ocl_span *span)
{
    ocl_command_times *t = context;
    if (span->kind != OCL_SPAN_COMMAND || span->command < t->list->commands ||
        span->command >= t->list->commands + t->list->count)
        return;
    ocl_command_time *time = &t->at[span->command - t->list->commands];
    t->complete = t->complete && span->end_ns != 0;
    time->calls++;
    time->total_ns += span->end_ns - span->start_ns;
    time->last_start_ns = span->start_ns;
    time->last_end_ns = span->end_ns;
}

clt_status ocl_command_times_collect(ocl_command_times *t)
{
    CLT_TRY(ocl_finish(t->device, OCL_QUEUE_COMPUTE));
    t->complete = true;
    uint64_t lost = ocl_record_take(t->device, INT64_MAX, add, t);
    if (lost > 0 || !t->complete)
        CLT_FAIL(CLT_EDEVICE, "timing commands: %s",
                 lost > 0 ? "there were more commands than expected"
                          : "the device gave no times for some of them");
    return CLT_OK;
}

void ocl_command_times_stop(ocl_command_times *t)
{
    if (t == NULL)
        return;
    ocl_record_stop(t->device);
    free(t->at);
    free(t);
}
