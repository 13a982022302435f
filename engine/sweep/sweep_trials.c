/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the list of trials and the rungs of successive halving, and chooses the trials to train on: pure
 * functions of sweep.json and of results. Successive halving: Jamieson, Talwalkar 2016
 * (arXiv:1502.07943). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/sweep/sweep_internal.h"

/* --- values --- */

static bool same_values(const clt_sweep *s, int a, int b)
{
    for (int k = 0; k < s->key_count; k++)
        if (strcmp(s->values[a * s->key_count + k], s->values[b * s->key_count + k]) != 0)
            return false;
    return true;
}

/* Every combination; the last key varies fastest. */
static clt_status make_grid(clt_sweep *s)
{
    int64_t trials = 1;
    for (int k = 0; k < s->key_count; k++) {
        trials *= s->keys[k].count;
        if (trials > CLT_SWEEP_TRIALS)
            CLT_FAIL(CLT_ECONFIG, "the grid has more than %d trials", CLT_SWEEP_TRIALS);
    }
    s->trials = (int)trials;
    s->values = clt_arena_alloc(s->arena, (size_t)(s->trials * s->key_count) * sizeof *s->values);
    for (int t = 0; s->values && t < s->trials; t++)
        for (int k = s->key_count - 1, rest = t; k >= 0; rest /= s->keys[k].count, k--)
            s->values[t * s->key_count + k] = s->keys[k].values[rest % s->keys[k].count];
    return s->values ? CLT_OK : CLT_ENOMEM;
}

/* 0 <= share < 1 with 53 bits, for one key of one draw. */
static double draw(const clt_sweep *s, int key, uint32_t number)
{
    uint32_t high = clt_rng_u32(s->seed, CLT_RNG_SAMPLE, (uint32_t)key, number, 0);
    uint32_t low = clt_rng_u32(s->seed, CLT_RNG_SAMPLE, (uint32_t)key, number, 1);
    return ((double)(high >> 5) * 67108864.0 + (double)(low >> 6)) / 9007199254740992.0;
}

/* Fills in the values of trial t by draw number `number`. False: out of memory. */
static bool draw_trial(clt_sweep *s, int t, uint32_t number)
{
    for (int k = 0; k < s->key_count; k++) {
        const clt_sweep_key *key = &s->keys[k];
        double share = draw(s, k, number);
        const char *value =
            key->values ? key->values[(int)(share * key->count)] : clt_sweep_point(s->arena, key, share);
        if (!value)
            return false;
        s->values[t * s->key_count + k] = value;
    }
    return true;
}

/* Draws trials that all differ. */
static clt_status make_random(clt_sweep *s, int trials)
{
    const uint32_t most = 1000 + 100 * (uint32_t)trials; /* draws */
    s->values = clt_arena_alloc(s->arena, (size_t)(trials * s->key_count) * sizeof *s->values);
    if (!s->values)
        return CLT_ENOMEM;
    for (uint32_t number = 0; s->trials < trials; number++) {
        bool seen = false;
        if (number == most)
            CLT_FAIL(CLT_ECONFIG,
                     "%u draws gave %d different combinations, not %d: lower \"trials\", or take "
                     "\"method\": \"grid\"",
                     most, s->trials, trials);
        if (!draw_trial(s, s->trials, number))
            return CLT_ENOMEM;
        for (int t = 0; t < s->trials && !seen; t++)
            seen = same_values(s, t, s->trials);
        s->trials += !seen;
    }
    return CLT_OK;
}

/* Each rung trains `keep` times as long as the previous one, with one of `keep` trials; the last one is the
 * whole training. */
static void make_rungs(clt_sweep *s, int64_t total)
{
    int trials = s->trials;
    int64_t steps = s->method == CLT_SWEEP_HALVING ? s->first_steps : total;
    for (s->rungs = 0; s->rungs < CLT_SWEEP_RUNGS;) {
        bool last = steps >= total || trials == 1 || s->rungs == CLT_SWEEP_RUNGS - 1;
        s->rung_trials[s->rungs] = trials;
        s->rung_steps[s->rungs++] = last ? 0 : steps;
        if (last)
            return;
        steps = steps > total / s->keep ? total : steps * s->keep;
        trials = (trials + s->keep - 1) / s->keep;
    }
}

clt_status clt_sweep_make_trials(clt_sweep *s, int64_t trials, int64_t total)
{
    CLT_TRY(s->method == CLT_SWEEP_GRID ? make_grid(s) : make_random(s, (int)trials));
    make_rungs(s, total);
    return CLT_OK;
}

/* --- names --- */

const char *clt_sweep_trial_name(const clt_sweep *s, int trial, char name[CLT_SWEEP_NAME])
{
    int digits = snprintf(NULL, 0, "%d", s->trials);
    snprintf(name, CLT_SWEEP_NAME, "trial-%0*d", digits < 2 ? 2 : digits, trial + 1);
    return name;
}

const char *clt_sweep_shown(const clt_sweep *s, int trial, int key, clt_str *out)
{
    const char *value = s->values[trial * s->key_count + key];
    size_t length = strlen(value);
    bool quoted = value[0] == '"' && length >= 2;
    out->length = 0;
    clt_str_append_n(out, value + quoted, length - 2 * quoted);
    return out->failed ? "" : out->text;
}

const char *clt_sweep_metric_text(const clt_sweep *s, double value, char text[CLT_CELL_TEXT])
{
    const clt_column *column = &clt_fact_columns[s->metric];
    if (column->form != CLT_FORM_NUMBER || isnan(value))
        return clt_cell_text(column, value, text);
    snprintf(text, CLT_CELL_TEXT, "%.5g", value); /* good trials may differ by less than the column shows */
    return text;
}

clt_status clt_sweep_write_keys(const clt_sweep *s, int trial, clt_json_writer *w)
{
    clt_jw_kobject(w, "keys");
    for (int k = 0; k < s->key_count; k++) {
        CLT_SCOPED(clt_json_doc) *doc = NULL;
        const char *value = s->values[trial * s->key_count + k];
        CLT_TRY(clt_json_parse(value, strlen(value), s->keys[k].path, CLT_ECONFIG, &doc));
        clt_jw_key(w, s->keys[k].path);
        clt_jw_value(w, clt_json_root(doc));
    }
    clt_jw_end_object(w);
    return CLT_OK;
}

/* --- which are better --- */

/* A trial that is being sorted. */
typedef struct ranked {
    int trial, rung; /* rung -1: no result; rung -2: the trial has failed */
    double value;    /* less is better; infinite: no number */
} ranked;

static int by_value(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->rung != y->rung)
        return y->rung - x->rung;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return x->trial - y->trial;
}

void clt_sweep_rank(const clt_sweep *s, const clt_trial *trials, int *order, int count)
{
    ranked list[CLT_SWEEP_TRIALS];
    for (int i = 0; i < count; i++) {
        const clt_trial_result *r = &trials[order[i]].result;
        double value = s->more ? -r->value : r->value;
        int rung = trials[order[i]].state == CLT_TRIAL_FAILED ? -2 : r->done ? r->rung : -1;
        list[i] = (ranked){order[i], rung, isfinite(value) && rung >= -1 ? value : INFINITY};
    }
    qsort(list, (size_t)count, sizeof *list, by_value);
    for (int i = 0; i < count; i++)
        order[i] = list[i].trial;
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

int clt_sweep_survivors(const clt_sweep *s, int rung, const clt_trial *trials, int *members, int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++) /* count the members without failed ones */
        if (trials[members[i]].result.done && trials[members[i]].result.rung == rung - 1)
            members[kept++] = members[i];
    clt_sweep_rank(s, trials, members, kept);
    kept = kept < s->rung_trials[rung] ? kept : s->rung_trials[rung];
    qsort(members, (size_t)kept, sizeof *members, by_number);
    return kept;
}
