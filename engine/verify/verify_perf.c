/* SPDX-License-Identifier: Apache-2.0
 *
 * Times a case's commands, for the checker's mode `perf`. Results are not checked here. */
#include <stdio.h>

#include "cl/command/command_times.h"
#include "engine/base/thread.h"
#include "engine/verify/verify_internal.h"

#define PERF_SECONDS 0.05
#define PERF_RUNS 1000

static clt_status run_timed(clt_verify_bench *b, ocl_command_times *times)
{
    double start = clt_now();
    for (int run = 0; run < PERF_RUNS && clt_now() - start < PERF_SECONDS; run++) {
        CLT_TRY(clt_realized_run(b->realized, CLT_PHASE_FORWARD));
        CLT_TRY(clt_realized_run(b->realized, CLT_PHASE_BACKWARD));
        CLT_TRY(ocl_command_times_collect(times));
    }
    return CLT_OK;
}

static void tell_times(const clt_verify_bench *b, const ocl_command_time *times, clt_verify_outcome *outcome)
{
    double ms[2] = {0}, bytes[2] = {0}, flops[2] = {0};
    for (int p = 0; p < 2; p++) {
        for (size_t c = b->realized->first[p]; c < b->realized->last[p]; c++) {
            const ocl_command *command = &b->realized->all.commands[c];
            ms[p] += times[c].calls ? (double)times[c].total_ns / (double)times[c].calls * 1e-6 : 0.0;
            bytes[p] += (double)ocl_command_bytes(command);
            flops[p] += command->flops;
        }
    }
    outcome->ms = ms[0] + ms[1];
    size_t used = 0;
    for (int p = 0; p < 2; p++) {
        if (b->realized->first[p] == b->realized->last[p])
            continue;
        double per = ms[p] > 0.0 ? 1e-6 / ms[p] : 0.0;
        used += (size_t)snprintf(outcome->reason + used, sizeof outcome->reason - used,
                                 "%s%s %.4f ms %.2f GB/s %.2f GFLOP/s", used ? ", " : "",
                                 clt_phase_name((clt_phase)p), ms[p], bytes[p] * per, flops[p] * per);
    }
}

clt_status clt_verify_time(clt_verify_bench *b, clt_verify_outcome *outcome)
{
    CLT_SCOPED(ocl_command_times) *times = NULL;
    CLT_TRY(ocl_command_times_start(b->device, &b->realized->all, 1, &times));
    CLT_TRY(run_timed(b, times));
    tell_times(b, times->at, outcome);
    return CLT_OK;
}
