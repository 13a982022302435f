/* SPDX-License-Identifier: Apache-2.0
 *
 * The checker: every op and variant and every GEMM backend against double-precision references, on fresh
 * random data with a printed seed, guard zones, NaN-filled outputs and non-zero offsets; exact integer fills;
 * gradients against finite differences; a bitwise second run; capability masks. */
#ifndef ENGINE_VERIFY_VERIFY_H
#define ENGINE_VERIFY_VERIFY_H

#include "cl/device.h"
#include "engine/base/mem.h"

typedef enum clt_verify_state {
    CLT_VERIFY_PASS,
    CLT_VERIFY_FAIL,
    CLT_VERIFY_SKIP,    /* with a reason */
    CLT_VERIFY_UNIMPL,  /* counts as a failure */
    CLT_VERIFY_MISTRUST /* the output says too little (almost all zeros): counts as a failure */
} clt_verify_state;
const char *clt_verify_state_name(clt_verify_state state);

enum {
    CLT_VERIFY_CORRECT = 1,
    CLT_VERIFY_GRAD = 2,
    CLT_VERIFY_BITWISE = 4,
    CLT_VERIFY_PERF = 8,
    CLT_VERIFY_LIST = 16
};

typedef struct clt_verify_result {
    const char *name; /* "softmax.odd[row]/correct" */
    clt_verify_state state;
    clt_status status;   /* not CLT_OK: the check could not be carried out, and state is SKIP or FAIL */
    const char *reason;  /* skip or failure text */
    double error, limit; /* largest error relative to its limit's unit */
    double ms;           /* perf: device time of one run; else how long the check took */
    const char *repeat;  /* the command that repeats it */
} clt_verify_result;

typedef struct clt_verify_options {
    /* Glob over names, which may end before "/mode" or "[variant]"; '[' means itself; NULL: all. */
    const char *pattern;
    /* A pattern, or NULL. `pattern` is then one check's whole name: it runs by itself, and if it passes, once
     * more as the last of the checks that `after` names, with quick and shards: a failure may need what an
     * earlier check left behind. */
    const char *after;
    unsigned modes; /* CLT_VERIFY_*; 0: correct, grad and bitwise */
    const char *device_spec;
    uint32_t caps_mask;
    bool quick;        /* only cases marked small */
    int shard, shards; /* 0-based of n; shards 0 or 1: everything */
    uint64_t seed;     /* 0: from the clock; printed */
    uint64_t from;     /* leave out the first so many checks that match */
    void (*opened)(void *context, const ocl_device_desc *device); /* may be NULL */
    /* Before each check; may be NULL. index: how many checks that match come before it. */
    void (*begun)(void *context, uint64_t index, const char *name);
    void (*result)(void *context, const clt_verify_result *result);
    void *context;
} clt_verify_options;

typedef struct clt_verify_summary {
    int count[5];           /* by clt_verify_state */
    uint64_t seed, matched; /* matched: checks that the filters let through, before sharding */
    double seconds;
} clt_verify_summary;

/* CLT_ECHECK when anything failed; the summary is filled in any case. */
clt_status clt_verify_run(const clt_verify_options *options, clt_verify_summary *summary);
/* The same in a worker process: a check in which the driver crashes, loses the device or takes longer than
 * `limit` seconds fails, and another worker goes on behind it. In this process when there can be no worker.
 */
clt_status clt_verify_run_apart(const clt_verify_options *options, double limit, clt_verify_summary *summary);
/* The worker's side, for the program's hidden command: results go to the parent. */
clt_status clt_verify_work(const clt_verify_options *options);

#endif
