/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuner finds the variant, and the values of its tunables, that are fastest for a problem. The search
 * (cl/tune/tuner.c) is pure: it uses candidates through a table of functions and can be tested with invented
 * times. cl/tune/tuner_run.c measures on a device. A choice must give the same result as a reference, and
 * replaces the default only if it is faster by more than noise. */
#ifndef CL_TUNE_TUNER_H
#define CL_TUNE_TUNER_H

#include <stdatomic.h>

#include "cl/tune/family.h"

/* The interface between the search and one problem of a family. */
typedef struct ocl_tune_target {
    void *context; /* passed to `now`, `skip` and `wrong` */
    const char *family, *problem;
    const ocl_variant *const *list;
    const void *data; /* passed to the variants' accepts functions */
    const ocl_device_desc *device;
    const ocl_variant *standard; /* the standard choice */
    const char *only;            /* the only variant to try; NULL: all */
    /* Creates, times, checks and releases candidates. If a function fails, the candidate is dropped;
     * CLT_ENOMEM and CLT_EDEVLOST end the search. */
    const ocl_family_bench *bench;
    void *operands;               /* what bench->create made */
    double (*now)(void *context); /* seconds */
    /* Whether a variant is not worth building again, because it was hopelessly slow on other problems. May
     * be NULL. */
    bool (*skip)(void *context, const ocl_variant *variant);
    /* Called when a candidate is dropped because its result is wrong. May be NULL. */
    void (*wrong)(void *context, const ocl_choice *candidate, const char *why);
} ocl_tune_target;

typedef struct ocl_tune_limits {
    double deadline;        /* time by `now` at which the search ends, with the best candidate so far */
    int rounds;             /* timings of a candidate; their median counts */
    int finals;             /* final timings of the default and of the best candidate, alternately */
    int max_candidates;     /* per problem */
    double abandon, margin; /* a candidate slower than abandon * best is dropped after one timing; the winner
                               must be faster than the default by the fraction `margin` */
    const atomic_int *stop; /* not 0: the search ends, as at a deadline. May be NULL. */
} ocl_tune_limits;
/* The defaults: rounds 3, finals 7, max_candidates 400, abandon 2, margin 0.02, no deadline. */
ocl_tune_limits ocl_tune_limits_default(void);

typedef struct ocl_tune_result {
    ocl_choice choice;            /* the result; if it is the default choice, it has no values */
    char standard[OCL_TUNE_NAME]; /* variant of the default */
    /* numbers of candidates: measured, dropped because slow, impossible, with wrong results */
    int tried, abandoned, failed, wrong;
    /* bit i of `hopeless`: variant i of the list was hopelessly slow with its own choice of values; of
     * `close`: one of its candidates was not hopelessly slow. Both may be set. */
    uint32_t hopeless, close;
    bool complete; /* false: the time ran out, or only one variant was tried */
    bool found;    /* false: not even the default could be measured */
} ocl_tune_result;

/* ocl_tune_search: measures the default, then each variant with its own choice of values, then other values
 * of the tunables of the fast variants: all combinations if there are few, else one tunable after the other,
 * starting from the best values so far. `seed` (may be NULL): an earlier choice, which is tried early. A
 * candidate becomes the best only after its result was checked. */
clt_status ocl_tune_search(const ocl_tune_target *target, const ocl_tune_limits *limits,
                           const ocl_choice *seed, ocl_tune_result *result);

/* --- on a device --- */

typedef struct ocl_tune_row {
    const char *problem, *family;
    int64_t calls;
    double flops; /* of one call */
    const ocl_tune_result *result;
} ocl_tune_row;

typedef struct ocl_tune_options {
    /* time limit for all problems together; problems that do not fit are left for the next run */
    double seconds;
    const ocl_tuning_log *log; /* the problems, which share the time by their cost */
    const ocl_tuning *known;   /* earlier records, used as seeds; may be NULL */
    bool missing_only;         /* skip problems with a complete record in `known` */
    const atomic_int *stop;    /* may be NULL */
    void *context;
    /* Called before each problem. total: number of problems to measure. May be NULL. */
    void (*progress)(void *context, int done, int total, const char *what);
    void (*row)(void *context, const ocl_tune_row *row);    /* after each problem; may be NULL */
    void (*message)(void *context, const char *line);       /* wrong results and similar news; may be NULL */
    clt_status (*keep)(void *context, const ocl_tuning *t); /* new records, after each problem; may be NULL */
} ocl_tune_options;

/* ocl_tune_run: measures the problems of the log on the device and returns the new records. Problems of
 * families without a bench are skipped. */
clt_status ocl_tune_run(ocl_device *device, const ocl_device_desc *desc, const ocl_tune_options *options,
                        ocl_tuning **out);
/* True when ocl_tune_run with missing_only would have something to measure. */
bool ocl_tune_missing(const ocl_tuning_log *log, const ocl_tuning *known);

#endif
