/* SPDX-License-Identifier: Apache-2.0
 *
 * `cltrain bench loader`: measures how fast loader threads read and prepare samples, without a device. */
#ifndef ENGINE_TRAIN_INSPECT_LOADER_RATES_H
#define ENGINE_TRAIN_INSPECT_LOADER_RATES_H

#include "engine/config/config.h"
#include "engine/data/data.h"

/* The result for `workers` threads: micro-batches filled after the first round of slots, the wall seconds
 * and the whole process's CPU seconds that they took, and the bytes of one sample's fields. */
typedef struct clt_loader_rate {
    int workers;
    int64_t micro_batch, batches;
    double seconds, cpu_seconds;
    uint64_t sample_bytes;
} clt_loader_rate;

typedef struct clt_bench_loader_options {
    const clt_config *config;
    double seconds; /* approximate time for which each number of threads is measured */
    /* Called with the opened training data before anything is measured, and with each result. */
    void (*begin)(void *context, const clt_source *source);
    void (*each)(void *context, const clt_loader_rate *rate);
    void *context;
} clt_bench_loader_options;

/* Measures 1, 2, 4 ... threads up to the cores of this process, or only the number that data.workers gives.
 * The loader gets the same options as in a training of one rank; its micro-batches are released immediately.
 * Errors: as at the start of a training (CLT_ECONFIG, CLT_EDATA), and for samples that cannot be read. */
clt_status clt_bench_loader(const clt_bench_loader_options *options);

#endif
