/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain verify-worker: the child process of `cltrain verify` that runs the checks. */
#include <math.h>
#include <stdlib.h>

#include "cli/screen/args.h"
#include "cli/verify/trajectory_worker.h"
#include "engine/verify/reduce/reduce.h"

clt_status cmd_verify_worker(cmd_context *context, int argc, char **argv)
{
    const char *pattern = NULL, *device = NULL, *mask = "ffffffff", *training = NULL, *folder = NULL;
    int64_t modes = 0, shard = 0, shards = 0, seed = 1;
    bool small = false, own_forms = false, rounds = false, trials = false;
    const args_option options[] = {
        ARGS_TEXT("--pattern", "PATTERN", pattern, "which checks"),
        ARGS_TEXT("--device", "SPEC", device, "which device"),
        ARGS_INT("--modes", "BITS", modes, 0, 255, "modes of the checker"),
        ARGS_TEXT("--mask", "BITS", mask, "capabilities that the device may use, hexadecimal"),
        ARGS_INT("--shard", "I", shard, 0, 1e9, "number of the part to check, from 0"),
        ARGS_INT("--shards", "N", shards, 0, 1e9, "number of parts"),
        ARGS_INT("--seed", "N", seed, 1, 9e18, "seed of the data"),
        ARGS_FLAG("--small", small, "small cases only"),
        ARGS_FLAG("--own-forms", own_forms, "only variants that a training on this device could use"),
        ARGS_FLAG("--rounds", rounds, "repeats its checks with fresh data for as long as it may"),
        ARGS_FLAG("--trials", trials, "run one check again and again, for cltrain verify --reduce"),
        ARGS_TEXT("--trajectory", "NAME", training, "a training, for cltrain verify --trajectory"),
        ARGS_TEXT("--folder", "DIR", folder, "the data of the training"),
        ARGS_END};
    const args_usage usage = ARGS_USAGE("verify-worker", "", 0, 0, options,
                                        "Runs checks for the cltrain verify that started this one.");
    args_result r;
    (void)context;
    CLT_TRY(args_parse(&usage, argc, argv, &r));
    clt_verify_options checks = {.pattern = pattern,
                                 .modes = (unsigned)modes,
                                 .device_spec = device,
                                 .caps_mask = (uint32_t)strtoul(mask, NULL, 16),
                                 .small = small,
                                 .own_forms = own_forms,
                                 .shard = (int)shard,
                                 .shards = (int)shards,
                                 .seed = (uint64_t)seed,
                                 .until = rounds ? HUGE_VAL : 0}; /* the parent process ends these */
    if (r.help)
        return CLT_OK;
    if (training && folder)
        return trajectory_work(training, folder, device, checks.caps_mask);
    return trials ? clt_reduce_work(&checks) : clt_verify_work(&checks);
}
