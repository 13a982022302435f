/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the best checkpoint so far (checkpoint.best) when a run is resumed in a folder that does not hold
 * it. It is copied from the folder beside the checkpoint that the run resumes from, or stays in the bucket
 * to which the run uploads. If it is in neither place, perhaps because a machine was lost before the upload,
 * the newest earlier best one in the bucket takes its place. If there is none either, the search for the
 * best one begins again, because a run can only keep what it has. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/config/choices.h"
#include "engine/files/fileio.h"
#include "engine/train/loop/trainer_loop.h"

/* The paths at which the best checkpoint may be. */
typedef struct places {
    char *folder, *here; /* paths in the run folder: the checkpoints folder, and the step's folder in it */
    char *beside;        /* the step's folder beside the checkpoint that is resumed */
} places;

static void free_places(places *p)
{
    free(p->folder);
    free(p->here);
    free(p->beside);
}
CLT_SCOPED_VALUE(places, free_places)

static clt_status find_places(const clt_run_options *o, const char *from, int64_t step, places *out)
{
    CLT_SCOPED(clt_str) around = {0};
    const char *slash = strrchr(from, '/');
    char name[32];
    snprintf(name, sizeof name, "step_%" PRId64, step);
    clt_str_printf(&around, "%.*s", slash ? (int)(slash - from) : 1, slash ? from : ".");
    CLT_TRY(clt_str_check(&around));
    CLT_TRY(clt_path_join(o->out_dir, "checkpoints", &out->folder));
    CLT_TRY(clt_path_join(out->folder, name, &out->here));
    return clt_path_join(around.text, name, &out->beside);
}

/* True if a state has a best evaluation whose checkpoint should be in the run folder. */
static bool looks_for_best(const clt_run_options *o, const char *from, const clt_saved_state *state)
{
    return from[0] && state->best_step >= 0 &&
           clt_config_choice(o->config, "checkpoint.best") != CLT_BEST_NONE;
}

static void warn_lost(const places *p, int64_t step, const char *why)
{
    CLT_WARN("the best checkpoint so far, of step %" PRId64
             ", is not in %s%s%s: the search for the best one begins again with the next evaluation, and the "
             "count of train.early_stop_evals continues",
             step, p->folder, why[0] ? ", " : "", why);
}

/* The result of rank 0's search, which it sends to the others. */
typedef struct outcome {
    int64_t lost;             /* the best checkpoint was found nowhere, and a warning says so */
    clt_best_evaluation left; /* the best evaluation that then remains; step -1: none */
} outcome;

/* Handles a best checkpoint that was found nowhere: looks for the one before it. */
static clt_status fall_back(clt_loop *l, const places *p, const char *why, outcome *out)
{
    const int64_t step = l->keeper.state.best_step;
    out->lost = true;
    CLT_TRY(clt_upload_best_before(l, step, &out->left));
    if (out->left.step < 0)
        warn_lost(p, step, why);
    else
        CLT_WARN("the best checkpoint so far, of step %" PRId64 ", is neither in %s%s%s nor in %s: the one "
                 "before it, of step %" PRId64 ", which is there, is the best one again",
                 step, p->folder, why[0] ? ", " : "", why,
                 clt_config_string(l->options->config, "checkpoint.upload"), out->left.step);
    return CLT_OK;
}

/* Looks for the best checkpoint, and copies it if needed. */
static clt_status bring(clt_loop *l, outcome *out)
{
    const int64_t step = l->keeper.state.best_step;
    CLT_SCOPED(places) p = {0};
    char text[2400], why[CLT_ERROR_TEXT_SIZE] = "";
    CLT_TRY(find_places(l->options, l->run->from.path, step, &p));
    if (clt_is_directory(p.here) || clt_upload_has(l, step))
        return CLT_OK;
    if (clt_is_directory(p.beside)) {
        clt_run_progress(l->run, "copying the best checkpoint", 0, 0);
        clt_status status = clt_checkpoint_copy(p.beside, p.folder, step);
        clt_run_progress(l->run, "copying the best checkpoint", 0, -1);
        snprintf(text, sizeof text, "the best checkpoint so far, of step %" PRId64 ", was copied from %s",
                 step, p.beside);
        if (status == CLT_OK) {
            clt_tell(l, text);
            return CLT_OK;
        }
        snprintf(why, sizeof why, "%s", clt_error_text());
        clt_error_clear();
    }
    return fall_back(l, &p, why, out);
}

clt_status clt_best_begin(clt_loop *l)
{
    outcome out = {.left = {.step = -1, .value = NAN}};
    if (!l->keeper.saver || !looks_for_best(l->options, l->run->from.path, &l->keeper.state))
        return CLT_OK;
    if (l->dir)
        CLT_TRY(bring(l, &out));
    if (l->run->ranks.ranks > 1)
        CLT_TRY(comm_broadcast(l->options->comm, &out, sizeof out, 0));
    if (out.lost)
        clt_keeper_replace_best(&l->keeper, &out.left);
    return CLT_OK;
}

/* A dry run does not look into a bucket. */
clt_status clt_best_preview(const clt_run_options *o, const char *from, const clt_saved_state *state)
{
    CLT_SCOPED(places) p = {0};
    if (!o->out_dir || !looks_for_best(o, from, state) ||
        clt_config_string(o->config, "checkpoint.upload")[0])
        return CLT_OK;
    CLT_TRY(find_places(o, from, state->best_step, &p));
    if (!clt_is_directory(p.here) && !clt_is_directory(p.beside))
        warn_lost(&p, state->best_step, "");
    return CLT_OK;
}
