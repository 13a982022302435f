/* SPDX-License-Identifier: Apache-2.0
 *
 * Tuning on a device: decides which problems are tuned, in which order and for how long, and makes the
 * search's target from the bench of a problem's family. This file must not know what a family computes,
 * where problems come from or where records go. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/tune/family.h"
#include "cl/tune/tuner.h"
#include "engine/base/log.h"
#include "engine/base/thread.h"

#define MAX_VARIANTS 16
#define MAX_FAMILIES 32
#define MAX_HOPELESS 2 /* a variant that was hopelessly slow on this number of problems is not tried again */
#define MIN_SHARE 2.0  /* seconds that a problem needs at least; with less it is left for the next run */

/* The number of problems on which each variant of a family was hopelessly slow; below 0: it was once close
 * to the best. */
typedef struct experience {
    const ocl_family *family;
    int hopeless[MAX_VARIANTS];
} experience;

typedef struct tuning_run {
    ocl_device *device;
    ocl_device_desc desc; /* the device's description, with the new records and the earlier ones */
    const ocl_tune_options *options;
    ocl_tuning *fresh;  /* new records */
    ocl_tuning *in_use; /* the records to which desc points */
    double deadline;
    int done, total;
    experience of[MAX_FAMILIES]; /* only the first entries are used */
} tuning_run;

/* The context of one search. */
typedef struct session {
    tuning_run *run;
    const ocl_family *family;
    const char *problem;
    void *bench;
    experience *experience;
} session;

static void say(const tuning_run *r, const char *text)
{
    if (r->options->message != NULL)
        r->options->message(r->options->context, text);
}

/* The search's target */

static double now(void *context)
{
    (void)context;
    return clt_now();
}

static void wrong(void *context, const ocl_choice *candidate, const char *why)
{
    const session *s = context;
    char text[OCL_CHOICE_TEXT], line[OCL_CHOICE_TEXT + OCL_TUNE_PROBLEM + 512];
    snprintf(line, sizeof line,
             "tuning %s: %s gives a wrong result and is not used: %s; run 'cltrain verify'", s->problem,
             ocl_choice_text(candidate, text, sizeof text), why);
    say(s->run, line);
    CLT_WARN("%s", line);
}

static bool skip(void *context, const ocl_variant *variant)
{
    const session *s = context;
    for (int i = 0; i < MAX_VARIANTS && s->family->variants[i] != NULL; i++)
        if (s->family->variants[i] == variant)
            return s->experience->hopeless[i] >= MAX_HOPELESS;
    return false;
}

/* Records */

static clt_status remember(tuning_run *r, const ocl_choice *choice)
{
    CLT_TRY(ocl_tuning_set(r->fresh, choice));
    CLT_TRY(ocl_tuning_set(r->in_use, choice));
    return r->options->keep != NULL ? r->options->keep(r->options->context, r->fresh) : CLT_OK;
}

/* Whether the environment prefers a variant, so that only this one is tried. */
static bool is_restricted(const ocl_tuning_use *use)
{
    const ocl_family *family = ocl_family_find(use->family);
    return family != NULL && ocl_family_preferred(family) != NULL;
}

static bool is_known(const ocl_tuning *known, const ocl_tuning_use *use)
{
    const ocl_choice *record = ocl_tuning_exact(known, use->family, use->problem);
    return record != NULL && (record->complete || is_restricted(use));
}

static bool can_measure(const ocl_tuning_use *use)
{
    const ocl_family *family = ocl_family_find(use->family);
    return family != NULL && family->bench != NULL && use->data != NULL;
}

bool ocl_tune_missing(const ocl_tuning_log *log, const ocl_tuning *known)
{
    for (size_t i = 0; i < log->count; i++)
        if (can_measure(&log->at[i]) && !is_known(known, &log->at[i]))
            return true;
    return false;
}

static clt_status report(tuning_run *r, const ocl_tuning_use *use, const ocl_tune_result *result)
{
    ocl_tune_row row = {.problem = use->problem,
                        .family = use->family,
                        .calls = use->calls,
                        .flops = use->flops,
                        .result = result};
    /* If the time sufficed only for the default, nothing is recorded, so that the next run continues; unless
     * the environment excluded other variants. */
    if (result->found && (result->complete || result->tried > 1 || is_restricted(use)))
        CLT_TRY(remember(r, &result->choice));
    if (r->options->row != NULL)
        r->options->row(r->options->context, &row);
    return CLT_OK;
}

static bool out_of_time(const tuning_run *r)
{
    return clt_now() >= r->deadline || (r->options->stop != NULL && atomic_load(r->options->stop) != 0);
}

/* Reports and skips a problem that cannot be measured, unless the device is lost. */
static clt_status forgive(const tuning_run *r, const char *problem, clt_status status)
{
    char line[CLT_ERROR_TEXT_SIZE + OCL_TUNE_PROBLEM + 64];
    if (status == CLT_OK || status == CLT_ENOMEM || status == CLT_EDEVLOST)
        return status;
    snprintf(line, sizeof line, "tuning %s: skipped: %s", problem, clt_error_text());
    say(r, line);
    clt_error_clear();
    return CLT_OK;
}

/* One problem */

static experience *experience_with(tuning_run *r, const ocl_family *family)
{
    int i = 0;
    while (i < MAX_FAMILIES - 1 && r->of[i].family != NULL && r->of[i].family != family)
        i++;
    if (r->of[i].family != family)
        r->of[i] = (experience){.family = family};
    return &r->of[i];
}

static clt_status search_problem(tuning_run *r, const ocl_tuning_use *use, session *s, double deadline,
                                 ocl_tune_result *result)
{
    ocl_tune_limits limits = ocl_tune_limits_default();
    ocl_tune_target t = {.context = s,
                         .family = use->family,
                         .problem = use->problem,
                         .list = s->family->variants,
                         .device = &r->desc,
                         .only = ocl_family_preferred(s->family),
                         .bench = s->family->bench,
                         .now = now,
                         .skip = skip,
                         .wrong = wrong};
    double start = clt_now();
    CLT_TRY(s->family->bench->create(r->device, &r->desc, use->data, &s->bench));
    double prepared = clt_now();
    t.operands = s->bench;
    t.data = s->family->bench->problem(s->bench, true);
    limits.deadline = deadline;
    limits.stop = r->options->stop;
    CLT_TRY(ocl_family_standard(s->family, s->family->bench->problem(s->bench, false), &r->desc, use->problem,
                                &t.standard));
    const ocl_choice *seed = ocl_tuning_find(r->in_use, use->family, use->problem);
    CLT_TRY(ocl_tune_search(&t, &limits, seed, result));
    CLT_DEBUG("tuning %s: operands and reference %.2f s, %d candidates (%d dropped early) %.2f s",
              use->problem, prepared - start, result->tried, result->abandoned, clt_now() - prepared);
    return CLT_OK;
}

/* Updates the experience with the variants from the result of one problem. */
static void learn(experience *e, const ocl_tune_result *result)
{
    for (int i = 0; i < MAX_VARIANTS && e->family->variants[i] != NULL; i++) {
        if ((result->close >> i & 1u) != 0)
            e->hopeless[i] = INT32_MIN / 2;
        else if ((result->hopeless >> i & 1u) != 0)
            e->hopeless[i]++;
    }
}

static clt_status tune_problem(tuning_run *r, const ocl_tuning_use *use, double seconds)
{
    ocl_tune_result result = {0};
    session s = {.run = r, .family = ocl_family_find(use->family), .problem = use->problem};
    s.experience = experience_with(r, s.family);
    if (r->options->progress != NULL)
        r->options->progress(r->options->context, r->done, r->total, use->problem);
    clt_status status = search_problem(r, use, &s, clt_now() + seconds, &result);
    s.family->bench->destroy(s.bench);
    r->done++;
    if (status != CLT_OK)
        return forgive(r, use->problem, status);
    learn(s.experience, &result);
    return report(r, use, &result);
}

/* All of them */

static double cost(const ocl_tuning_use *use)
{
    return use->flops * (double)use->calls;
}

static int by_cost(const void *a, const void *b)
{
    const ocl_tuning_use *x = *(const ocl_tuning_use *const *)a, *y = *(const ocl_tuning_use *const *)b;
    if (cost(x) != cost(y))
        return cost(x) < cost(y) ? 1 : -1;
    return strcmp(x->problem, y->problem);
}

/* Half of the time is divided according to cost and half evenly, because building candidates takes equally
 * long for small problems. */
static clt_status tune_all(tuning_run *r, const ocl_tuning_use *const *uses, size_t count)
{
    double total = 0.0;
    for (size_t i = 0; i < count; i++)
        total += cost(uses[i]);
    for (size_t i = 0; i < count && !out_of_time(r); i++) {
        double left = r->deadline - clt_now(), share = total > 0.0 ? cost(uses[i]) / total : 0.0;
        double seconds = left * (0.5 * share + 0.5 / (double)(count - i));
        CLT_TRY(
            tune_problem(r, uses[i], seconds < MIN_SHARE ? (left < MIN_SHARE ? left : MIN_SHARE) : seconds));
        total -= cost(uses[i]);
    }
    return CLT_OK;
}

static clt_status run_all(tuning_run *r)
{
    const ocl_tuning_log *log = r->options->log;
    CLT_FREED const ocl_tuning_use **uses = NULL;
    size_t count = 0;
    if (log->count == 0)
        return CLT_OK;
    CLT_TRY(clt_alloc(&uses, log->count, sizeof *uses, "problems to tune"));
    for (size_t i = 0; i < log->count; i++)
        if (can_measure(&log->at[i]) &&
            !(r->options->missing_only && is_known(r->options->known, &log->at[i])))
            uses[count++] = &log->at[i];
    qsort(uses, count, sizeof *uses, by_cost);
    r->total = (int)count;
    return count > 0 ? tune_all(r, uses, count) : CLT_OK;
}

/* Checks the names of preferred variants in the environment: with an unknown name there would be no default
 * for comparison. */
static clt_status check_preferred(const ocl_tuning_log *log)
{
    for (size_t i = 0; i < log->count; i++) {
        const ocl_family *family = ocl_family_find(log->at[i].family);
        const char *name = family != NULL ? ocl_family_preferred(family) : NULL;
        if (name != NULL && ocl_variant_named(family->variants, name) == NULL)
            CLT_FAIL(CLT_EUNSUPPORTED, "tuning: environment variable %s=%s: there is no such variant",
                     family->variable, name);
    }
    return CLT_OK;
}

clt_status ocl_tune_run(ocl_device *device, const ocl_device_desc *desc, const ocl_tune_options *options,
                        ocl_tuning **out)
{
    CLT_SCOPED(ocl_tuning) *fresh = NULL, *in_use = NULL;
    *out = NULL;
    CLT_TRY(check_preferred(options->log));
    double deadline = clt_now() + options->seconds;
    CLT_TRY(ocl_tuning_create(desc, &fresh));
    CLT_TRY(ocl_tuning_create(desc, &in_use));
    if (options->known != NULL)
        CLT_TRY(ocl_tuning_merge(in_use, options->known, true));
    tuning_run r = {.device = device,
                    .desc = *desc,
                    .options = options,
                    .deadline = deadline,
                    .fresh = fresh,
                    .in_use = in_use};
    r.desc.tuning = in_use;
    CLT_TRY(run_all(&r));
    *out = CLT_TAKE(fresh);
    return CLT_OK;
}
