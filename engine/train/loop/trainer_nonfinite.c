/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a run whose steps were not finite several times in a row: where that began, and what to
 * change. */
#include <math.h>
#include <stdio.h>

#include "engine/base/text.h"
#include "engine/train/loop/trainer_loop.h"

/* Advice on what to change. If gradients overflow although the loss is finite, the loss scale may be the
 * cause. */
static const char *advice_on_nonfinite(const clt_loop *l, char *text, size_t size)
{
    const clt_run *run = l->run;
    const clt_loss_scaling *scaling = &run->job->update.scaling;
    double loss = 0, scale = (double)l->loss_scale;
    for (int i = 0; i < run->job->train->graph->n_losses; i++)
        loss += (double)l->bad.loss[i][0];
    text[0] = '\0';
    if (isfinite(loss) && scaling->on && !scaling->dynamic)
        snprintf(text, size, "lower precision.loss_scale, which is %g, or let it be dynamic; or ", scale);
    else if (isfinite(loss) && scaling->on && scale <= (double)scaling->minimum)
        snprintf(text, size, "lower precision.min_loss_scale, below which the scale (%g) cannot fall; or ",
                 scale);
    else if (run->job->storage == CLT_F16)
        snprintf(text, size, "set precision.mode to bf16, which has the range of f32; or ");
    return text;
}

/* Every rank searches its part of the step for a bad tensor; all of them report what the first successful
 * rank found. */
clt_status clt_too_many_nonfinite(clt_loop *l)
{
    char where[512], who[64] = "", scale[160];
    const comm_info *ranks = &l->run->ranks;
    bool found;
    CLT_TRY(clt_run_diagnose(l->run, l->bad.step, l->loss_scale, where, sizeof where, &found));
    if (ranks->ranks > 1) {
        int64_t first = found ? ranks->rank : ranks->ranks;
        CLT_TRY(comm_all_reduce(l->options->comm, &first, 1, COMM_I64, COMM_MIN));
        if (first < ranks->ranks) {
            CLT_TRY(comm_broadcast(l->options->comm, where, sizeof where, (int)first));
            snprintf(who, sizeof who, " (rank %lld)", (long long)first);
        }
    }
    CLT_FAIL(CLT_ENUMERIC,
             "step %lld: loss or gradients were not finite for %u step%s in a row, every update was skipped; "
             "first bad tensor%s: %s; %slower optimizer.learning_rate, set optimizer.clip, or check the data",
             (long long)l->bad.step + 1, l->bad.state.skipped_row, CLT_PLURAL(l->bad.state.skipped_row), who,
             where, advice_on_nonfinite(l, scale, sizeof scale));
}
