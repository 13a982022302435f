/* SPDX-License-Identifier: Apache-2.0
 *
 * `cltrain bench step`: measures how long a training step takes. */
#ifndef ENGINE_TRAIN_INSPECT_BENCH_STEP_H
#define ENGINE_TRAIN_INSPECT_BENCH_STEP_H

#include "engine/config/config.h"
#include "engine/train/job/observer.h"

/* The input is random data with the shapes of the config; `json` receives the results as one object. */
typedef struct clt_bench_options {
    const clt_config *config;
    const char *device_spec;
    uint32_t caps_mask;
    int warmup, steps;
    bool profile;
    clt_observer observer;
} clt_bench_options;
/* trace (may be NULL; needs profile): receives a trace of the profiled steps. */
clt_status clt_bench_step(const clt_bench_options *options, clt_str *text, clt_str *json, clt_str *trace);

#endif
