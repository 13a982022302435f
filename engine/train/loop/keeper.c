/* SPDX-License-Identifier: Apache-2.0
 *
 * The keeper: begins saves, handles their results, counts failures in a row, and notes the best evaluation
 * and the number of evaluations that were no better. */
#include "engine/train/loop/keeper.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/config/choices.h"
#include "engine/config/config.h"
#include "engine/train/eval/eval_metrics.h"

const char *clt_save_reason_name(clt_save_reason reason)
{
    static const char *const names[] = {"interval", "time", "best", "final", "stop", "error"};
    return names[reason];
}

static clt_best_evaluation best_of(const clt_keeper *k)
{
    return (clt_best_evaluation){.step = k->state.best_step, .value = k->state.best_value};
}

static void set_best(clt_keeper *k, clt_best_evaluation best)
{
    k->state.best_step = best.step;
    k->state.best_value = best.value;
}

clt_status clt_keeper_open(clt_keeper *k, clt_run *run, const char *folder)
{
    k->run = run;
    k->newest = -1;
    k->kept = best_of(k);
    k->tried = (clt_best_evaluation){.step = -1};
    return clt_saver_create(run, folder, &k->saver);
}

void clt_keeper_replace_best(clt_keeper *k, const clt_best_evaluation *best)
{
    k->kept = *best;
    set_best(k, k->kept);
}

void clt_keeper_close(clt_keeper *k)
{
    clt_saver_destroy(k->saver);
    k->saver = NULL;
}

/* Only lack of storage or of memory may be temporary. */
static bool may_be_temporary(clt_status status)
{
    return status == CLT_ESTORAGE || status == CLT_ENOMEM;
}

static clt_status digest(clt_keeper *k, const clt_save_result *r)
{
    char text[CLT_ERROR_TEXT_SIZE + 128];
    if (r->error.status == CLT_OK) {
        k->failures = 0;
        if (k->tried.step >= 0)
            k->kept = k->tried;
        snprintf(k->result->checkpoint, sizeof k->result->checkpoint, "%s", r->path);
        k->saved(k->context, r, k->reason);
        return CLT_OK;
    }
    k->failures++;
    k->newest = -1;
    if (k->tried.step >= 0 && k->state.best_step == k->tried.step)
        set_best(k, k->kept);
    if (!may_be_temporary(r->error.status))
        return clt_error_put(&r->error);
    if (k->failures >= CLT_KEEPER_FAILURES) {
        clt_error_put(&r->error);
        return clt_fail_prefix(r->error.status, "%d checkpoint%s in a row could not be written, the run ends",
                               k->failures, CLT_PLURAL(k->failures));
    }
    snprintf(text, sizeof text,
             "the checkpoint of step %lld could not be written (%d in a row), training continues: %s",
             (long long)r->step, k->failures, r->error.text);
    k->warn(k->context, text);
    return CLT_OK;
}

clt_status clt_keeper_poll(clt_keeper *k, clt_saver_poll_kind kind)
{
    clt_save_result result;
    bool have;
    if (!k->saver)
        return CLT_OK;
    CLT_TRY(clt_saver_poll(k->saver, kind, &result, &have));
    return have ? digest(k, &result) : CLT_OK;
}

bool clt_keeper_waits(const clt_keeper *k)
{
    return k->saver && clt_saver_waits(k->saver);
}

clt_status clt_keeper_save(clt_keeper *k, int64_t step, clt_save_reason reason)
{
    const clt_config *c = k->run->options->config;
    const bool keeps_best = clt_config_choice(c, "checkpoint.best") != CLT_BEST_NONE;
    clt_retention retention = {.keep = (int)clt_config_int(c, "checkpoint.keep"),
                               .major = clt_config_int(c, "checkpoint.major"),
                               .best = -1};
    if (!k->saver || k->newest == step)
        return CLT_OK;
    CLT_TRY(clt_keeper_poll(k, CLT_SAVER_WAIT)); /* only one save may be in flight */
    if (k->tried.step == step)                   /* the save of this step has failed and is retried */
        set_best(k, k->tried);
    k->tried.step = -1;
    if (keeps_best && k->state.best_step == step)
        k->tried = best_of(k);
    if (keeps_best) /* a failed save deletes nothing, so the new best one may count already */
        retention.best = k->tried.step >= 0 ? k->tried.step : k->kept.step;
    k->newest = step;
    k->reason = reason;
    return clt_saver_begin(k->saver, step, &k->state, &retention);
}

clt_status clt_keeper_finish(clt_keeper *k, int64_t step, clt_save_reason reason)
{
    CLT_TRY(clt_keeper_poll(k, CLT_SAVER_WAIT));
    while (k->saver && k->newest != step) {
        CLT_TRY(clt_keeper_save(k, step, reason));
        CLT_TRY(clt_keeper_poll(k, CLT_SAVER_WAIT));
    }
    return CLT_OK;
}

/* Counts evaluations in a row that do not improve the figure of checkpoint.best by train.early_stop_delta. */
static void be_patient(clt_keeper *k, double value)
{
    double delta = clt_config_float(k->run->options->config, "train.early_stop_delta");
    if (clt_eval_better(k->state.best, value, k->state.stop_value, delta)) {
        k->state.stop_value = value;
        k->state.stop_evals = 0;
    } else {
        k->state.stop_evals++;
    }
}

void clt_keeper_note(clt_keeper *k, const clt_eval_metrics *m, bool counts, bool *best)
{
    double value = clt_eval_figure(m, k->state.best);
    if (clt_eval_better(CLT_BEST_LOSS, m->loss, k->state.best_eval_loss, 0))
        k->state.best_eval_loss = m->loss;
    *best = clt_eval_better(k->state.best, value, k->state.best_value, 0);
    if (*best) {
        k->state.best_value = value;
        k->state.best_step = m->step;
    }
    if (counts)
        be_patient(k, value);
}

bool clt_state_ends(const clt_config *config, const clt_saved_state *state)
{
    int64_t patience = clt_config_int(config, "train.early_stop_evals");
    return patience > 0 && state->stop_evals >= patience;
}

bool clt_keeper_ends(const clt_keeper *k)
{
    return clt_state_ends(k->run->options->config, &k->state);
}
