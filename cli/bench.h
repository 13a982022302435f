/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of `cltrain bench` share: options common to all, and records that can be compared with an
 * earlier file. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/args.h"
#include "cli/cmd.h"
#include "engine/base/mem.h"

typedef struct bench_common {
    const char *device, *caps, *json, *compare;
    uint32_t caps_mask;
} bench_common;

/* The options of every part; put them first in its table. */
#define BENCH_OPTIONS(common)                                                                                \
    {.name = "--device",                                                                                     \
     .value = "SPEC",                                                                                        \
     .kind = ARGS_TEXT,                                                                                      \
     .target = &(common).device,                                                                             \
     .help = "which device"},                                                                                \
        {.name = "--caps",                                                                                   \
         .value = "MASK",                                                                                    \
         .kind = ARGS_TEXT,                                                                                  \
         .target = &(common).caps,                                                                           \
         .help = "capabilities it may use"},                                                                 \
        {.name = "--json",                                                                                   \
         .value = "FILE",                                                                                    \
         .kind = ARGS_TEXT,                                                                                  \
         .target = &(common).json,                                                                           \
         .help = "write the record as JSON"},                                                                \
    {                                                                                                        \
        .name = "--compare", .value = "FILE", .kind = ARGS_TEXT, .target = &(common).compare,                \
        .help = "ratios against an earlier record; exit code 1 if anything is more than 10 % slower"         \
    }

clt_status bench_gemm(int argc, char **argv);
clt_status bench_memory(int argc, char **argv);
clt_status bench_ops(int argc, char **argv);
clt_status bench_step(int argc, char **argv);

/* Writes the record and compares it, as the common options ask. */
clt_status bench_finish(const bench_common *common, const clt_str *json);

#endif
