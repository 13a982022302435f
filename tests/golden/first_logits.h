/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the logits of the first evaluation batch for a config and weights, for tests that compare them
 * with other programs. */
#ifndef TESTS_GOLDEN_FIRST_LOGITS_H
#define TESTS_GOLDEN_FIRST_LOGITS_H

#include <stdlib.h>
#include <string.h>

#include "engine/train/run/run.h"

static clt_status feed_once(clt_run *run)
{
    clt_fed fed;
    clt_feed_options feed = {.realized = run->eval,
                             .source = run->job->eval_source,
                             .global_batch = run->job->micro_batch,
                             .accumulation = 1,
                             .ranks = 1,
                             .evaluation = true,
                             .workers = 1,
                             .prefetch = 4};
    CLT_TRY(clt_feed_create(&feed, &run->feed));
    CLT_TRY(clt_feed_next(run->feed, &fed));
    return clt_realized_run(run->eval, CLT_PHASE_FORWARD);
}

/* *logits: (rows, vocab), without padding; the caller frees it. o: config and weights. */
static clt_status first_logits_of(const clt_run_options *o, float **logits, int64_t *rows, int64_t *vocab)
{
    clt_run_options options = *o;
    clt_run *run;
    options.caps_mask = OCL_CAPS_ALL;
    options.predicts = options.on_train = true;
    *logits = NULL;
    CLT_TRY(clt_run_create(&options, CLT_JOB_EVAL, &run));
    clt_status status = clt_run_take_init(run);
    if (status == CLT_OK)
        status = feed_once(run);
    const clt_tensor *t = clt_graph_tensor(run->eval->plan->graph, run->job->prediction);
    int64_t columns = clt_shape_last(&t->shape);
    *rows = clt_shape_rows(&t->shape);
    *vocab = clt_config_int(o->config, "model.vocab");
    if (status == CLT_OK)
        status = clt_alloc(logits, (size_t)(*rows * columns), sizeof **logits, "logits");
    if (status == CLT_OK)
        status = clt_realized_read_f32(run->eval, run->job->prediction, *logits);
    for (int64_t r = 0; r < *rows && status == CLT_OK; r++)
        memmove(*logits + r * *vocab, *logits + r * columns, (size_t)*vocab * sizeof **logits);
    clt_run_destroy(run);
    return status;
}

static inline clt_status first_logits(const clt_config *config, const char *init, float **logits,
                                      int64_t *rows, int64_t *vocab)
{
    clt_run_options options = {.config = config, .init = init};
    return first_logits_of(&options, logits, rows, vocab);
}

#endif
