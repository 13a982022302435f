/* SPDX-License-Identifier: Apache-2.0
 *
 * The checker: every op and variant and every GEMM backend against double-precision references, on fresh
 * random data with a printed seed, guard zones, NaN-filled outputs and non-zero offsets; exact integer fills;
 * gradients against finite differences; a bitwise second run; capability masks. */
#ifndef ENGINE_VERIFY_VERIFY_H
#define ENGINE_VERIFY_VERIFY_H

#include "cl/device/device.h"
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
    uint64_t index;   /* how many checks that match come before it */
    const char *name; /* "softmax.odd[row]/correct" */
    clt_verify_state state;
    clt_status status;   /* not CLT_OK: the check could not be carried out, and state is SKIP or FAIL */
    const char *reason;  /* skip or failure text */
    double error, limit; /* largest error relative to its limit's unit */
    double ms;           /* perf: device time of one run; else how long the check took */
    const char *repeat;  /* the command that repeats it */
} clt_verify_result;

/* A check that could run now. Checks of one case share kernels; they come one after the other. */
typedef struct clt_verify_claim {
    uint64_t index; /* how many checks that match come before it */
    const char *subject, *op_case;
    int pass; /* 0 or 1 */
} clt_verify_claim;

typedef struct clt_verify_options {
    /* Glob over names, which may end before "/mode" or "[variant]"; '[' means itself; NULL: all. */
    const char *pattern;
    /* A pattern, or NULL. `pattern` is then one check's whole name: it runs by itself, and if it passes, once
     * more as the last of the checks that `after` names, with small, own_forms and shards: a failure may need
     * what an earlier check left behind. */
    const char *after;
    unsigned modes; /* CLT_VERIFY_*; 0: correct, grad and bitwise */
    const char *device_spec;
    uint32_t caps_mask;
    bool small;        /* only cases marked small */
    bool own_forms;    /* only forms that a training on this device may take; others are skipped */
    int shard, shards; /* 0-based of n; shards 0 or 1: everything */
    uint64_t seed;     /* 0: from the clock; printed */
    void (*opened)(void *context, const ocl_device_desc *device); /* may be NULL */
    /* Asked before each check; NULL: every one runs. The list of checks is then gone through twice, so that
     * what was left to others in pass 0 can be asked for again in pass 1. */
    bool (*claim)(void *context, const clt_verify_claim *claim);
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
/* The same in worker processes, which share the cases among them; results come in the order in which they are
 * found, one at a time. A check in which the driver crashes, loses the device or takes longer than `limit`
 * seconds fails, and another worker goes on behind it. jobs: so many workers at most; 0: as many as help,
 * which is one where speed is measured. In this process when there can be no worker. */
clt_status clt_verify_run_apart(const clt_verify_options *options, double limit, int jobs,
                                clt_verify_summary *summary);
/* How many checks match the options, shards included; needs no device. */
clt_status clt_verify_count(const clt_verify_options *options, uint64_t *out);
/* The worker's side, for the program's hidden command: results go to the parent. */
clt_status clt_verify_work(const clt_verify_options *options);

#endif
