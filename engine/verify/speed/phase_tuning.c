/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes, times and checks candidates for phases of plans. */
#include "engine/verify/speed/phase_tuning.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/measure/timing.h"
#include "engine/base/thread.h"

#define MAX_RUNS 10000

/* --- results --- */

static void results_free(clt_tuning_results *results)
{
    for (int i = 0; i < results->count; i++)
        free(results->at[i].values);
}
CLT_SCOPED_VALUE(clt_tuning_results, results_free)

clt_status clt_tuning_add(clt_tuning_results *results, const char *name, size_t n, float **out)
{
    int i = results->count;
    CLT_TRY(clt_alloc(&results->at[i].values, n + 1, sizeof **out, "a result of the tuner"));
    snprintf(results->at[i].name, sizeof results->at[i].name, "%s", name);
    results->at[i].n = n;
    *out = results->at[i].values;
    results->count++;
    return CLT_OK;
}

double clt_tuning_largest(const float *values, size_t n)
{
    double most = 0.0;
    for (size_t i = 0; i < n; i++)
        most = isfinite(values[i]) ? fmax(most, fabs((double)values[i])) : INFINITY;
    return most;
}

/* --- trials --- */

static void trial_destroy(clt_phase_trial *trial)
{
    if (trial != NULL)
        clt_verify_bench_destroy(trial->bench);
    free(trial);
}
CLT_SCOPED_POINTER(clt_phase_trial, trial_destroy)

static clt_status make_trial(const clt_phase_tuning *t, const ocl_device_desc *desc, const char *variant,
                             const ocl_choice *candidate, ocl_choice *asked, clt_phase_trial **out)
{
    CLT_SCOPED(clt_phase_trial) *trial = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&trial, 1, sizeof *trial, "a candidate of the tuner"));
    trial->tuning = t;
    CLT_TRY(t->family->make(t, desc, variant, candidate, asked, &trial->bench));
    *out = CLT_TAKE(trial);
    return CLT_OK;
}

/* Runs the phase `runs` times and waits for the end. */
static clt_status run(const clt_phase_trial *trial, int runs)
{
    for (int i = 0; i < runs; i++)
        CLT_TRY(clt_realized_run(trial->bench->realized, trial->tuning->phase));
    return ocl_finish(trial->bench->device, OCL_QUEUE_COMPUTE);
}

static clt_status run_and_read(const clt_phase_trial *trial, clt_tuning_results *out)
{
    const clt_phase_family *family = trial->tuning->family;
    if (family->refill != NULL)
        CLT_TRY(family->refill(trial->bench));
    CLT_TRY(run(trial, 1));
    return family->read(trial->tuning, trial->bench, out);
}

clt_status clt_phase_tuning_begin(clt_phase_tuning *t, const ocl_device_desc *desc)
{
    size_t last = 0;
    while (t->variants[last + 1] != NULL)
        last++;
    CLT_TRY(make_trial(t, desc, t->variants[last]->name, NULL, NULL, &t->reference));
    return run_and_read(t->reference, &t->want);
}

void clt_phase_tuning_destroy(void *tuning)
{
    clt_phase_tuning *t = tuning;
    if (t == NULL)
        return;
    trial_destroy(t->reference);
    results_free(&t->want);
    free(t);
}

/* --- for the tuner --- */

const void *clt_phase_tuning_problem(const void *tuning, bool measured)
{
    (void)measured;
    return ((const clt_phase_tuning *)tuning)->problem;
}

clt_status clt_phase_tuning_ready(void *tuning, const ocl_device_desc *desc, const ocl_choice *candidate,
                                  ocl_choice *asked, void **out)
{
    clt_phase_trial *trial;
    clt_status status = make_trial(tuning, desc, NULL, candidate, asked, &trial);
    *out = trial;
    return status;
}

void clt_phase_tuning_release(void *tuning, void *trial)
{
    (void)tuning;
    trial_destroy(trial);
}

static clt_status batch(void *trial, int runs, double *seconds)
{
    double start = clt_now();
    CLT_TRY(run(trial, runs));
    *seconds = clt_now() - start;
    return CLT_OK;
}

clt_status clt_phase_tuning_time(void *tuning, void *trial, double *ns)
{
    CLT_TRY(ocl_time_trial(batch, trial, MAX_RUNS, &((clt_phase_trial *)trial)->runs, ns));
    *ns *= ((const clt_phase_tuning *)tuning)->factor;
    return CLT_OK;
}

static bool is_equal(const float *got, const float *want, size_t n, double tolerance, const char *name,
                     char *why, size_t size)
{
    double limit = tolerance * clt_tuning_largest(want, n);
    for (size_t i = 0; i < n; i++) {
        if (fabs((double)got[i] - (double)want[i]) <= limit)
            continue;
        snprintf(why, size, "element %zu of '%s' is %.9g, it should be %.9g", i, name, (double)got[i],
                 (double)want[i]);
        return false;
    }
    return true;
}

clt_status clt_phase_tuning_check(void *tuning, void *trial, bool *right, char *why, size_t size)
{
    const clt_phase_tuning *t = tuning;
    CLT_SCOPED(clt_tuning_results) got = {0};
    CLT_TRY(run_and_read(trial, &got));
    *right = true;
    for (int i = 0; i < t->want.count && i < got.count && *right; i++)
        *right = is_equal(got.at[i].values, t->want.at[i].values, t->want.at[i].n, t->tolerance,
                          got.at[i].name, why, size);
    if (*right && got.count != t->want.count) {
        *right = false;
        snprintf(why, size, "the number of results is %d, it should be %d", got.count, t->want.count);
    }
    return CLT_OK;
}
