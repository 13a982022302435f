/* SPDX-License-Identifier: Apache-2.0
 *
 * The checker: compares every op, every variant and every GEMM backend with double-precision references, on
 * random data from a printed seed, with guard zones, outputs filled with NaN, and nonzero offsets. It also
 * checks integers that must be exact, gradients against finite differences, bitwise equality of a second
 * run, and masked capabilities. Mode perf times cases of realistic sizes. */
#ifndef ENGINE_VERIFY_VERIFY_H
#define ENGINE_VERIFY_VERIFY_H

#include "cl/device/device.h"
#include "engine/base/mem.h"

typedef enum clt_verify_state {
    CLT_VERIFY_PASS,
    CLT_VERIFY_FAIL,
    CLT_VERIFY_SKIP,    /* with a reason */
    CLT_VERIFY_UNIMPL,  /* counts as a failure */
    CLT_VERIFY_MISTRUST /* the result proves too little (almost all zeros): counts as a failure */
} clt_verify_state;
const char *clt_verify_state_name(clt_verify_state state);

enum {
    CLT_VERIFY_CORRECT = 1,
    CLT_VERIFY_GRAD = 2,
    CLT_VERIFY_BITWISE = 4,
    CLT_VERIFY_PERF = 8,
    CLT_VERIFY_LIST = 16
};

/* The time of a command, or of a whole phase of a case: the median over rounds in one process. ns: read from
 * the clock for work (cl/measure/yardstick.h). bytes, flops: the number of bytes that the yardstick would
 * move, and of operations that it would compute, in the same time, so that a slower machine does not change
 * them. */
#define CLT_VERIFY_SPEEDS 48 /* most speeds in a result */
typedef struct clt_verify_speed {
    char what[80]; /* "backward", "backward/softmax_bwd_row" */
    double ns, bytes, flops;
} clt_verify_speed;

typedef struct clt_verify_result {
    uint64_t index;   /* number of matching checks before this one */
    const char *name; /* "softmax.odd[row]/correct" */
    clt_verify_state state;
    clt_status status;    /* not CLT_OK: the check could not be run to its end; state is SKIP or FAIL */
    const char *reason;   /* why it was skipped or failed */
    double error, limit;  /* largest error and its limit, in the same unit */
    double ms;            /* perf: device time of one run; else duration of the check */
    uint64_t round, seed; /* of the check's data; rounds count from 1 */
    uint64_t bits;        /* hash of all values that were compared with a reference; 0: there were none */
    const char *repeat;   /* the command that repeats the check */
    const clt_verify_speed *speeds; /* n_speeds, of a check of mode perf */
    int n_speeds;
} clt_verify_result;

/* A case whose checks can be run next. They share kernels and are run one after the other. */
typedef struct clt_verify_claim {
    uint64_t index; /* number of matching checks before this case */
    const char *subject, *op_case;
    int pass;       /* 0 or 1, or more with clt_verify_options.until */
    uint64_t round; /* 1, unless the callback sets it; it determines the seed of the case */
} clt_verify_claim;

/* Alters cases and receives wrong values (verify_internal.h). */
typedef struct clt_verify_reducer clt_verify_reducer;

typedef struct clt_verify_options {
    /* Patterns (globs) of names, separated by commas. "/mode" and "[variant]" are optional; '[' is not
     * special. NULL: all names. */
    const char *pattern;
    /* A pattern, or NULL. If set, `pattern` is the whole name of one check. It is run alone; if it passes,
     * it is run again as the last of the checks that `after` names (with small, own_forms and shards),
     * because the failure may depend on what an earlier check left behind. */
    const char *after;
    unsigned modes; /* CLT_VERIFY_*; 0: correct, grad and bitwise */
    const char *device_spec;
    uint32_t caps_mask;
    bool small;        /* only cases marked as small */
    bool own_forms;    /* only variants that a training on this device could use; others are skipped */
    int shard, shards; /* run part `shard` (from 0) of `shards` parts; shards 0 or 1: everything */
    uint64_t seed;     /* 0: taken from the clock; it is printed */
    /* Not 0: the checks are repeated in rounds with fresh data until this time of clt_now(). After this time
     * no case begins, not even in the first round. Round r has the seed `seed` + r - 1. */
    double until;
    /* May be NULL. With workers only spec, name, driver, platform and is_cpu of the description are set. */
    void (*opened)(void *context, const ocl_device_desc *device);
    /* Called before each case; false: its checks are skipped. NULL: all checks run. With this function the
     * list is traversed twice, so that cases that were left to others in pass 0 can be claimed in pass 1. */
    bool (*claim)(void *context, clt_verify_claim *claim);
    /* Called before each check; may be NULL. index: number of matching checks before it. */
    void (*begun)(void *context, uint64_t index, const char *name);
    void (*result)(void *context, const clt_verify_result *result);
    void *context;
    const clt_verify_reducer *reducer; /* for `verify --reduce`; NULL: none */
} clt_verify_options;

typedef struct clt_verify_summary {
    int count[5];           /* number of checks with each clt_verify_state */
    uint64_t seed, matched; /* matched: checks that pass the filters, counted before sharding */
    double seconds;
} clt_verify_summary;

/* CLT_ECHECK if a check failed; the summary is always filled in. */
clt_status clt_verify_run(const clt_verify_options *options, clt_verify_summary *summary);
/* Runs checks as clt_verify_run does, but in worker processes that share the cases; results are delivered
 * one at a time as they come. A check in which the driver crashes, loses the device or takes longer than
 * `limit` seconds fails, and a new worker continues after it. jobs: largest number of workers; 0: as many as
 * are useful (one if speed is measured). If no worker can be started, the checks run in this process. */
clt_status clt_verify_run_workers(const clt_verify_options *options, double limit, int jobs,
                                  clt_verify_summary *summary);
/* *out: the number of checks that match the options, including shards; needs no device. */
clt_status clt_verify_count(const clt_verify_options *options, uint64_t *out);
/* True if one of the patterns, separated by commas, matches the name of a check, the name without mode, the
 * name without mode and variant, or the subject. '[' and '\' are not special in these globs. NULL matches
 * everything. */
bool clt_verify_match(const char *patterns, const char *name);
/* The worker process, started by a hidden command of the program: runs checks and sends results to its
 * parent. */
clt_status clt_verify_work(const clt_verify_options *options);
/* Starts a worker process, with the additional option `flag` (NULL: none). */
struct clt_child;
clt_status clt_verify_worker_start(const char *program, const clt_verify_options *options, const char *flag,
                                   struct clt_child **out);
/* Writes and parses the line by which a worker names its device: "device IS_CPU BYTES SPEC", then name,
 * driver, version and platform, each after a tab. clt_verify_take_device returns false if the line is
 * another one, or not valid. */
clt_status clt_verify_say_device(const ocl_device_desc *device);
bool clt_verify_take_device(const char *line, ocl_device_desc *out);

#endif
