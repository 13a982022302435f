/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuner's bench of a family whose problems are phases of plans (ops, updates). It compares a
 * candidate's results with the results of the list's last variant, the simplest one, which accepts
 * everything. Knows plans; a family says how its plan is made and which results it has. */
#ifndef ENGINE_VERIFY_SPEED_PHASE_TUNING_H
#define ENGINE_VERIFY_SPEED_PHASE_TUNING_H

#include "engine/verify/verify_internal.h"

#define CLT_TUNING_RESULTS (CLT_MAX_IN + CLT_MAX_OUT + CLT_MAX_SAVED + CLT_MAX_NODE_PARAMS)

/* The results of a run, as f32. */
typedef struct clt_tuning_results {
    int count;
    struct {
        char name[64];
        size_t n;
        float *values;
    } at[CLT_TUNING_RESULTS];
} clt_tuning_results;
/* Adds a result of n zeros; *out: its values. */
clt_status clt_tuning_add(clt_tuning_results *results, const char *name, size_t n, float **out);

typedef struct clt_phase_tuning clt_phase_tuning;

/* A candidate, or the reference. */
typedef struct clt_phase_trial {
    const clt_phase_tuning *tuning;
    clt_verify_bench *bench;
    int runs; /* runs in one timed batch; 0: not timed yet */
} clt_phase_trial;

typedef struct clt_phase_family {
    /* Plans the problem with the given variant (a name, or NULL if there is a candidate), realises the plan
     * and fills its tensors. candidate, asked: as in clt_plan_options. */
    clt_status (*make)(const clt_phase_tuning *tuning, const ocl_device_desc *desc, const char *variant,
                       const ocl_choice *candidate, ocl_choice *asked, clt_verify_bench **out);
    /* Called before a run whose results are read; may be NULL. */
    clt_status (*refill)(clt_verify_bench *bench);
    clt_status (*read)(const clt_phase_tuning *tuning, const clt_verify_bench *bench,
                       clt_tuning_results *out);
} clt_phase_family;

/* The head of the description that a family keeps of a problem while it is tuned. */
struct clt_phase_tuning {
    const clt_phase_family *family;
    const ocl_variant *const *variants;
    ocl_device *device;
    clt_phase phase;
    double factor;       /* time of the full problem divided by the time of the measured, smaller one */
    double tolerance;    /* allowed error of results, relative to the largest value of a tensor */
    const void *problem; /* passed to the variants' accepts functions */
    clt_phase_trial *reference;
    clt_tuning_results want;
};

/* Makes the reference and its results. */
clt_status clt_phase_tuning_begin(clt_phase_tuning *tuning, const ocl_device_desc *desc);
void clt_phase_tuning_destroy(void *tuning); /* NULL is fine; frees the description, too */
CLT_SCOPED_POINTER(clt_phase_tuning, clt_phase_tuning_destroy)

/* The other functions of ocl_family_bench, for which a family only adds `create`. */
const void *clt_phase_tuning_problem(const void *tuning, bool measured);
clt_status clt_phase_tuning_ready(void *tuning, const ocl_device_desc *desc, const ocl_choice *candidate,
                                  ocl_choice *asked, void **trial);
void clt_phase_tuning_release(void *tuning, void *trial);
clt_status clt_phase_tuning_time(void *tuning, void *trial, double *ns);
clt_status clt_phase_tuning_check(void *tuning, void *trial, bool *right, char *why, size_t size);
#define CLT_PHASE_BENCH(create)                                                                              \
    {                                                                                                        \
        create, clt_phase_tuning_destroy, clt_phase_tuning_problem, clt_phase_tuning_ready,                  \
            clt_phase_tuning_release, clt_phase_tuning_time, clt_phase_tuning_check                          \
    }

/* The largest magnitude; INFINITY if a value is not finite. */
double clt_tuning_largest(const float *values, size_t n);

#endif
