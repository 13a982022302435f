/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuner: which variant with which values of its tunables is fastest for a problem. The search itself
 * (cl/tune/tuner.c) is pure: it sees candidates through a table of functions and can be tested with invented
 * times. cl/tune/tuner_run.c measures on a device. A choice is trusted only when its result
 * was compared with a reference, and taken only when it beats the default by more than noise. */
#ifndef CL_TUNE_TUNER_H
#define CL_TUNE_TUNER_H

#include <stdatomic.h>

#include "cl/tune/family.h"

/* The interface between the search and one problem of a family. */
typedef struct ocl_tune_target {
    void *context; /* of `now`, `skip` and `wrong` */
    const char *family, *problem;
    const ocl_variant *const *list;
    const void *data; /* passed to the variants' accepts functions */
    const ocl_device_desc *device;
    const ocl_variant *standard; /* the standard choice */
    const char *only;            /* try only this variant; NULL: all */
    /* Makes, times, checks and releases candidates. A failure drops the candidate; CLT_ENOMEM and
     * CLT_EDEVLOST end the search. */
    const ocl_family_bench *bench;
    void *operands;               /* what bench->create made */
    double (*now)(void *context); /* seconds */
    /* Variants that were hopelessly slow on other problems and are not worth building again. May be NULL. */
    bool (*skip)(void *context, const ocl_variant *variant);
    /* A candidate was dropped because its result is wrong. May be NULL. */
    void (*wrong)(void *context, const ocl_choice *candidate, const char *why);
} ocl_tune_target;

typedef struct ocl_tune_limits {
    double deadline;        /* now() when the search ends with what it has */
    int rounds;             /* timings of a candidate; their median counts */
    int finals;             /* timings each of the default and the best candidate, alternately, at the end */
    int max_candidates;     /* per problem */
    double abandon, margin; /* a candidate slower than abandon * best is dropped after one timing; the winner
                               must be faster than the default by the fraction `margin` */
    const atomic_int *stop; /* may be NULL: ends like a deadline */
} ocl_tune_limits;
/* rounds 3, finals 7, 400 candidates, 2, 0.02; no deadline. */
ocl_tune_limits ocl_tune_limits_default(void);

typedef struct ocl_tune_result {
    ocl_choice choice;            /* the result; the default choice has no values */
    char standard[OCL_TUNE_NAME]; /* variant of the default */
    /* numbers of candidates: measured, dropped because slow, impossible, with wrong results */
    int tried, abandoned, failed, wrong;
    /* bit i of `hopeless`: variant i of the list was hopelessly slow; of `close`: it was measured and was
     * not */
    uint32_t hopeless, close;
    bool complete; /* false: the time ran out, or only one variant was tried */
    bool found;    /* false: not even the default could be measured */
} ocl_tune_result;

/* ocl_tune_search: measures the default, each variant as it is, then values of the tunables of the fast
 * variants: all combinations if there are few, else one tunable after the other, starting from the best so
 * far. `seed` (may be NULL): an earlier choice, tried early. A candidate becomes the best only after its
 * result was checked. */
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
    /* time limit for everything; problems that do not fit are left for the next time */
    double seconds;
    const ocl_tuning_log *log; /* the problems; each gets a share of the time by its cost */
    const ocl_tuning *known;   /* earlier records: seeds; may be NULL */
    bool missing_only;         /* skip problems with a complete record of their own in `known` */
    const atomic_int *stop;    /* may be NULL */
    void *context;
    /* Called before each problem; total: number of problems to measure. May be NULL. */
    void (*progress)(void *context, int done, int total, const char *what);
    void (*row)(void *context, const ocl_tune_row *row);    /* after each; may be NULL */
    void (*message)(void *context, const char *line);       /* wrong results and the like; may be NULL */
    clt_status (*keep)(void *context, const ocl_tuning *t); /* new records, after each problem; may be NULL */
} ocl_tune_options;

/* ocl_tune_run: measures the problems of the log on the device and returns the new records. Problems of
 * families without a bench are skipped. */
clt_status ocl_tune_run(ocl_device *device, const ocl_device_desc *desc, const ocl_tune_options *options,
                        ocl_tuning **out);
/* True when ocl_tune_run with missing_only would have something to measure. */
bool ocl_tune_missing(const ocl_tuning_log *log, const ocl_tuning *known);

#endif
