/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for the fastest candidate. It is separate from measuring so that its rules can be tested: which
 * candidates are tried and in which order, which ones are dropped, which one wins. This file must not know
 * what a candidate computes. */
#include "cl/tune/tuner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/measure/timing.h"
#include "engine/base/log.h"

#define FULL_SPACE 24 /* up to this number of combinations, all are tried */
#define HOPELESS 1.1  /* a candidate slower than this factor times the best is timed only once */
#define MAX_PASSES 4  /* passes over the tunables of one variant */
#define MAX_VARIANTS 16

ocl_tune_limits ocl_tune_limits_default(void)
{
    return (ocl_tune_limits){
        .deadline = 1e300, .rounds = 3, .finals = 7, .max_candidates = 400, .abandon = 2.0, .margin = 0.02};
}

typedef struct search {
    const ocl_tune_target *t;
    const ocl_tune_limits *limits;
    ocl_tune_result *result;
    ocl_choice *seen; /* every candidate that was tried */
    size_t n_seen, seen_capacity;
    ocl_choice standard, best;     /* best.ns 0: there is none yet */
    double ns[MAX_VARIANTS];       /* best time of each variant of the list; 0: not measured */
    ocl_choice base[MAX_VARIANTS]; /* the values with which the variant reached its best time */
    bool out_of_time;
} search;

static void search_destroy(search *s)
{
    if (s != NULL)
        free(s->seen);
    free(s);
}
CLT_SCOPED_POINTER(search, search_destroy)

static bool over(search *s)
{
    if (s->result->tried >= s->limits->max_candidates)
        return true;
    if (!s->out_of_time)
        s->out_of_time = s->t->now(s->t->context) >= s->limits->deadline ||
                         (s->limits->stop != NULL && atomic_load(s->limits->stop) != 0);
    return s->out_of_time;
}

/* Whether a failure only means that the candidate cannot be used. After any other failure, nothing can
 * run. */
static bool is_impossible(clt_status status)
{
    return status != CLT_OK && status != CLT_ENOMEM && status != CLT_EDEVLOST;
}

#define MAX_ROUNDS 31

/* Times a candidate: the median of the rounds, or only the first round if the candidate is clearly slower
 * than the best. */
static clt_status measure(search *s, void *ready, double *ns, bool *abandoned)
{
    double rounds[MAX_ROUNDS];
    int count = s->limits->rounds < 1 ? 1 : s->limits->rounds > MAX_ROUNDS ? MAX_ROUNDS : s->limits->rounds;
    *abandoned = false;
    for (int i = 0; i < count; i++) {
        CLT_TRY(s->t->bench->time(s->t->operands, ready, &rounds[i]));
        if (i == 0 && s->best.ns > 0 && rounds[0] > HOPELESS * s->best.ns) {
            *abandoned = rounds[0] > s->limits->abandon * s->best.ns;
            *ns = rounds[0];
            return CLT_OK;
        }
    }
    *ns = ocl_median(rounds, count);
    return CLT_OK;
}

static int index_of(const search *s, const char *name)
{
    for (int i = 0; i < MAX_VARIANTS && s->t->list[i] != NULL; i++)
        if (strcmp(s->t->list[i]->name, name) == 0)
            return i;
    return -1;
}

/* Checks a candidate's result; only candidates that would become the best are checked. */
static clt_status judge(search *s, const ocl_choice *candidate, void *ready, bool *right)
{
    char why[256] = "";
    CLT_TRY(s->t->bench->check(s->t->operands, ready, right, why, sizeof why));
    if (*right)
        return CLT_OK;
    s->result->wrong++;
    if (s->t->wrong != NULL)
        s->t->wrong(s->t->context, candidate, why);
    return CLT_OK;
}

static clt_status run(search *s, ocl_choice *candidate, void *ready, const ocl_choice *asked)
{
    bool abandoned, right = true;
    int variant = index_of(s, candidate->variant);
    CLT_TRY(measure(s, ready, &candidate->ns, &abandoned));
    s->result->tried++;
    if (abandoned) {
        s->result->abandoned++;
        if (variant >= 0 && candidate->n_values == 0)
            s->result->hopeless |= UINT32_C(1) << variant;
        return CLT_OK;
    }
    if (variant >= 0)
        s->result->close |= UINT32_C(1) << variant;
    bool leads = s->best.ns <= 0 || candidate->ns < s->best.ns;
    if (leads)
        CLT_TRY(judge(s, candidate, ready, &right));
    if (!right) {
        candidate->ns = 0;
        return CLT_OK;
    }
    if (variant >= 0 && (s->ns[variant] <= 0 || candidate->ns < s->ns[variant])) {
        s->ns[variant] = candidate->ns;
        s->base[variant] = *asked;
    }
    if (leads)
        s->best = *candidate;
    return CLT_OK;
}

static bool looked_at(const search *s, const ocl_choice *candidate)
{
    for (size_t i = 0; i < s->n_seen; i++)
        if (ocl_choice_equal(&s->seen[i], candidate))
            return true;
    return false;
}

static clt_status note_seen(search *s, const ocl_choice *candidate)
{
    CLT_TRY(clt_grow(&s->seen, &s->seen_capacity, s->n_seen + 1, sizeof *s->seen, "tuning candidates"));
    s->seen[s->n_seen++] = *candidate;
    return CLT_OK;
}

/* Measures one candidate, unless it was measured before. candidate->ns: its time, or 0 if it cannot be
 * used. */
static clt_status attempt(search *s, ocl_choice *candidate)
{
    void *ready = NULL;
    ocl_choice asked = *candidate;
    candidate->ns = 0;
    if (looked_at(s, candidate))
        return CLT_OK;
    CLT_TRY(note_seen(s, candidate));
    clt_status status = s->t->bench->ready(s->t->operands, s->t->device, candidate, &asked, &ready);
    /* A candidate without values may turn out to use the same values as one that was measured before. */
    bool repeated =
        status == CLT_OK && candidate->n_values == 0 && asked.n_values > 0 && looked_at(s, &asked);
    if (status == CLT_OK && asked.n_values > 0 && !looked_at(s, &asked))
        status = note_seen(s, &asked);
    if (status == CLT_OK && !repeated)
        status = run(s, candidate, ready, &asked);
    if (ready != NULL)
        s->t->bench->release(s->t->operands, ready);
    if (is_impossible(status)) {
        char text[OCL_CHOICE_TEXT];
        CLT_DEBUG("tuning %s: %s: %s", s->t->problem, ocl_choice_text(candidate, text, sizeof text),
                  clt_error_text());
        clt_error_clear();
        s->result->failed++;
        candidate->ns = 0;
        return CLT_OK;
    }
    return status;
}

static ocl_choice choice_of(const search *s, const char *variant)
{
    ocl_choice c = {0};
    snprintf(c.family, sizeof c.family, "%s", s->t->family);
    snprintf(c.problem, sizeof c.problem, "%s", s->t->problem);
    snprintf(c.variant, sizeof c.variant, "%s", variant);
    return c;
}

/* The space of one variant */

static int tunables_of(const ocl_variant *variant)
{
    int n = 0;
    while (variant->tunables != NULL && variant->tunables[n].name != NULL && n < OCL_TUNE_MAX)
        n++;
    return n;
}

static double space_of(const ocl_variant *variant, int n)
{
    double size = 1;
    for (int i = 0; i < n; i++)
        size *= variant->tunables[i].count;
    return size;
}

static clt_status all_values(search *s, const ocl_variant *variant, int n)
{
    int digit[OCL_TUNE_MAX] = {0};
    for (int at = 0; at < n && !over(s);) {
        ocl_choice c = choice_of(s, variant->name);
        for (int i = 0; i < n; i++)
            CLT_TRY(ocl_choice_set(&c, variant->tunables[i].name, variant->tunables[i].values[digit[i]]));
        CLT_TRY(attempt(s, &c));
        for (at = 0; at < n && ++digit[at] == variant->tunables[at].count; at++)
            digit[at] = 0;
    }
    return CLT_OK;
}

/* Completes the base values. The variant's own choice may be a value that it does not declare; then the
 * first declared value is used. */
static clt_status complete_base(const ocl_variant *variant, int n, ocl_choice *base)
{
    ocl_choice c = *base;
    c.n_values = 0;
    for (int i = 0; i < n; i++) {
        const ocl_tunable *t = &variant->tunables[i];
        int value = ocl_choice_value(base, t->name, t->values[0]);
        bool declared = false;
        for (int v = 0; v < t->count; v++)
            declared = declared || t->values[v] == value;
        CLT_TRY(ocl_choice_set(&c, t->name, declared ? value : t->values[0]));
    }
    *base = c;
    return CLT_OK;
}

/* Tries all values of one tunable; the other tunables keep the variant's best values so far. */
static clt_status one_tunable(search *s, const ocl_variant *variant, int index, int n, int tunable)
{
    const ocl_tunable *t = &variant->tunables[tunable];
    ocl_choice base = s->base[index];
    CLT_TRY(complete_base(variant, n, &base));
    for (int v = 0; v < t->count && !over(s); v++) {
        ocl_choice c = base;
        CLT_TRY(ocl_choice_set(&c, t->name, t->values[v]));
        CLT_TRY(attempt(s, &c));
    }
    return CLT_OK;
}

static clt_status explore(search *s, int index)
{
    const ocl_variant *variant = s->t->list[index];
    int n = tunables_of(variant);
    if (n == 0)
        return CLT_OK;
    if (space_of(variant, n) <= FULL_SPACE)
        return all_values(s, variant, n);
    for (int pass = 0; pass < MAX_PASSES && !over(s); pass++) {
        double before = s->ns[index];
        /* begins with the last tunables, because changing them needs no other program */
        for (int i = n - 1; i >= 0 && !over(s); i--)
            CLT_TRY(one_tunable(s, variant, index, n, i));
        if (s->ns[index] >= before * (1.0 - 0.5 * s->limits->margin))
            return CLT_OK;
    }
    return CLT_OK;
}

/* The search */

/* Whether the variant should be tried. */
static bool may_try(const search *s, const ocl_variant *variant)
{
    char reason[256];
    if (s->t->only != NULL && strcmp(s->t->only, variant->name) != 0)
        return false;
    if (s->t->skip != NULL && s->t->skip(s->t->context, variant))
        return false;
    return ocl_variant_accepts(variant, s->t->data, s->t->device, reason, sizeof reason);
}

static clt_status try_variants(search *s, const ocl_choice *seed)
{
    char reason[256];
    ocl_choice c;
    if (seed != NULL && seed->n_values > 0 &&
        ocl_choice_variant(seed, s->t->list, s->t->data, s->t->device, reason, sizeof reason) != NULL &&
        (s->t->only == NULL || strcmp(s->t->only, seed->variant) == 0)) {
        c = choice_of(s, seed->variant); /* its problem may be a similar one */
        for (int i = 0; i < seed->n_values; i++)
            CLT_TRY(ocl_choice_set(&c, seed->values[i].name, seed->values[i].value));
        CLT_TRY(attempt(s, &c));
    }
    for (int i = 0; i < MAX_VARIANTS && s->t->list[i] != NULL && !over(s); i++) {
        if (!may_try(s, s->t->list[i]))
            continue;
        c = choice_of(s, s->t->list[i]->name);
        CLT_TRY(attempt(s, &c));
    }
    return CLT_OK;
}

/* Explores the tunables of the variants, from the fastest variant on, and skips hopelessly slow ones. */
static clt_status explore_all(search *s)
{
    bool done[MAX_VARIANTS] = {false};
    for (;;) {
        int next = -1;
        for (int i = 0; i < MAX_VARIANTS && s->t->list[i] != NULL; i++)
            if (!done[i] && s->ns[i] > 0 && (next < 0 || s->ns[i] < s->ns[next]))
                next = i;
        if (next < 0 || over(s) || s->ns[next] > s->limits->abandon * s->best.ns)
            return CLT_OK;
        done[next] = true;
        if (may_try(s, s->t->list[next]))
            CLT_TRY(explore(s, next));
    }
}

/* Times the default and the candidate alternately, so that disturbances affect both. The candidate wins if
 * its median is better by the margin and it was faster in at least four fifths of the rounds. */
static clt_status compare_finals(search *s, void *ready[2], double ns[2], bool *wins)
{
    double rounds[2][MAX_ROUNDS];
    int count = s->limits->finals < 1 ? 1 : s->limits->finals > MAX_ROUNDS ? MAX_ROUNDS : s->limits->finals;
    int faster = 0;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < 2; k++)
            CLT_TRY(s->t->bench->time(s->t->operands, ready[k], &rounds[k][i]));
        faster += rounds[1][i] < rounds[0][i];
    }
    for (int k = 0; k < 2; k++)
        ns[k] = ocl_median(rounds[k], count);
    *wins = ns[1] < ns[0] * (1.0 - s->limits->margin) && 5 * faster >= 4 * count;
    return CLT_OK;
}

static clt_status finals(search *s, bool *wins)
{
    const ocl_choice *side[2] = {&s->standard, &s->best};
    void *ready[2] = {NULL, NULL};
    double ns[2] = {0, 0};
    clt_status status = CLT_OK;
    *wins = false;
    for (int k = 0; k < 2 && status == CLT_OK; k++) {
        ocl_choice asked = *side[k];
        status = s->t->bench->ready(s->t->operands, s->t->device, side[k], &asked, &ready[k]);
    }
    if (status == CLT_OK)
        status = compare_finals(s, ready, ns, wins);
    for (int k = 0; k < 2; k++)
        if (ready[k] != NULL)
            s->t->bench->release(s->t->operands, ready[k]);
    if (is_impossible(status)) { /* not enough memory for both together: no decision */
        *wins = false;
        clt_error_clear();
        return CLT_OK;
    }
    CLT_TRY(status);
    s->standard.ns = ns[0];
    s->best.ns = ns[1];
    return CLT_OK;
}

static clt_status decide(search *s)
{
    bool wins = false, usable = s->standard.ns > 0;
    ocl_tune_result *r = s->result;
    r->found = s->best.ns > 0;
    r->complete = !s->out_of_time && s->t->only == NULL; /* not complete if only one variant was tried */
    if (!r->found)
        return CLT_OK;
    if (usable && !ocl_choice_equal(&s->best, &s->standard))
        CLT_TRY(finals(s, &wins));
    r->choice = !usable || wins ? s->best : s->standard;
    r->choice.ns = !usable || wins ? s->best.ns : s->standard.ns;
    r->choice.default_ns = s->standard.ns;
    r->choice.tried = r->tried;
    r->choice.complete = r->complete;
    return CLT_OK;
}

static clt_status search_all(search *s, const ocl_choice *seed)
{
    s->standard = choice_of(s, s->t->standard->name);
    /* the default is measured even after the time limit, because everything is compared with it */
    CLT_TRY(attempt(s, &s->standard));
    if (s->standard.ns <= 0)
        CLT_DEBUG("tuning %s: the default, %s, cannot be used", s->t->problem, s->standard.variant);
    if (!over(s))
        CLT_TRY(try_variants(s, seed));
    CLT_TRY(explore_all(s));
    return decide(s);
}

clt_status ocl_tune_search(const ocl_tune_target *target, const ocl_tune_limits *limits,
                           const ocl_choice *seed, ocl_tune_result *result)
{
    CLT_SCOPED(search) *s = NULL;
    memset(result, 0, sizeof *result);
    CLT_TRY(clt_alloc(&s, 1, sizeof *s, "a tuning search"));
    s->t = target;
    s->limits = limits;
    s->result = result;
    snprintf(result->standard, sizeof result->standard, "%s", target->standard->name);
    return search_all(s, seed);
}
