/* SPDX-License-Identifier: Apache-2.0
 *
 * `cltrain bench build`: measures how long the device's compiler takes for the programs of a config, and
 * whether they build and spill registers. */
#ifndef ENGINE_TRAIN_INSPECT_BENCH_PROGRAMS_H
#define ENGINE_TRAIN_INSPECT_BENCH_PROGRAMS_H

#include "cl/program/examine.h"
#include "engine/base/mem.h"
#include "engine/config/config.h"

/* A program of the config's training and evaluation, as it was built. */
typedef struct clt_built {
    const ocl_examined *program;
    const char *kernel; /* the kernel that it holds */
    const char *label;  /* the first command that runs it: "block1.attention.forward" */
    int commands;       /* number of the plans' commands that run it */
} clt_built;

typedef struct clt_bench_programs_options {
    const clt_config *config;
    const char *device_spec;
    uint32_t caps_mask;
    const char *extra;  /* further options for every build; "" for none */
    int threads;        /* concurrent builds; 0: the number that a training uses */
    const char *folder; /* NULL, or where logs and binaries are kept */
    /* Called on any thread, never concurrently. begin: before the first build; each: after a build. */
    void (*begin)(void *context, const ocl_device_desc *device, size_t count);
    void (*each)(void *context, const clt_built *built);
    void *context;
} clt_bench_programs_options;

typedef struct clt_bench_programs_sum {
    size_t count, failed;
    size_t spilled;      /* programs whose kernels spill registers, as far as the compiler says */
    double seconds;      /* time from the first build to the end of the last one */
    double sum, largest; /* seconds of all builds added up, and of the slowest one */
} clt_bench_programs_sum;
/* Opens the device, plans the config and builds the programs of both plans. json: the record. A program that
 * does not build is counted in `failed`; CLT_EDEVICE: there is no device. */
clt_status clt_bench_programs(const clt_bench_programs_options *options, clt_bench_programs_sum *out,
                              clt_str *json);

#endif
