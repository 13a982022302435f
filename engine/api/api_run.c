/* SPDX-License-Identifier: Apache-2.0
 *
 * The training loop and prediction of the public API. */
#include <stdlib.h>
#include <string.h>

#include "engine/api/api_internal.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/data/facts/table_facts.h"
#include "engine/train/eval/predict.h"

/* Starts the feed and the reporter for the remaining steps. */
static clt_status start(cltrain *net)
{
    clt_run *run = net->run;
    clt_feed_options feed = clt_run_feed_options(run, net->next_step, run->job->steps);
    if (net->next_step >= run->job->steps)
        CLT_FAIL(CLT_EUSAGE,
                 "training: all %lld step%s of the schedule are done; set train.steps before building",
                 (long long)run->job->steps, CLT_PLURAL(run->job->steps));
    clt_feed_destroy(run->feed);
    run->feed = NULL;
    if (!run->reporter)
        CLT_TRY(clt_reporter_create(run->train, 2, &run->reporter));
    return clt_feed_create(&feed, &run->feed);
}

static void describe(const cltrain *net, const clt_step_result *r, double last, cltrain_step_info *info)
{
    memset(info, 0, sizeof *info);
    info->step = r->step + 1;
    info->steps = net->run->job->steps;
    for (int i = 0; i < net->run->job->train->graph->n_losses; i++)
        info->loss += (double)r->loss[i][0];
    info->learning_rate = (double)r->state.lr;
    info->gradient_norm = (double)r->state.grad_norm;
    info->milliseconds = (r->done_at - last) * 1e3;
    info->skipped = r->state.skip != 0;
}

static clt_status not_finite(cltrain *net, int64_t limit, float loss_scale)
{
    char where[512];
    bool found;
    CLT_TRY(clt_run_diagnose(net->run, net->next_step, loss_scale, where, sizeof where, &found));
    CLT_FAIL(CLT_ENUMERIC, "training: %lld step%s in a row were not finite; first bad tensor: %s",
             (long long)limit, CLT_PLURAL(limit), where);
}

clt_status clt_api_train(cltrain *net, cltrain_on_step on_step, void *context)
{
    clt_state_block state;
    CLT_TRY(start(net));
    CLT_TRY(clt_store_get_state(net->run->store, &state));
    float loss_scale = state.loss_scale; /* the scale that the next step uses */
    int64_t limit = clt_config_int(net->config, "train.max_nonfinite");
    double last = clt_now();
    for (; net->next_step < net->run->job->steps; net->next_step++) {
        clt_step_result result;
        cltrain_step_info info;
        bool have;
        CLT_TRY(clt_step(net->run, net->next_step));
        CLT_TRY(clt_reporter_take(net->run->reporter, true, &result, &have));
        describe(net, &result, last, &info);
        last = result.done_at;
        if (on_step)
            on_step(context, &info);
        if ((int64_t)result.state.skipped_row >= limit)
            return not_finite(net, limit, loss_scale);
        loss_scale = result.state.loss_scale;
    }
    return CLT_OK;
}

/* Runs the evaluation plan for one micro-batch of x, padded with zeros. */
static clt_status predict_batch(cltrain *net, const float *x, int64_t samples, int64_t in_size,
                                const double *norm, float *x_pad, float *y_pad)
{
    memset(x_pad, 0, (size_t)(net->run->eval->plan->graph->micro_batch * in_size) * sizeof *x_pad);
    memcpy(x_pad, x, (size_t)(samples * in_size) * sizeof *x_pad);
    if (norm)
        for (int64_t i = 0; i < samples * in_size; i++) {
            int64_t e = i % in_size;
            x_pad[i] = (float)(((double)x[i] - norm[e]) / norm[in_size + e]);
        }
    return clt_run_predict(net->run, x_pad, y_pad);
}

/* If the data is a table, *out gets the means, then the standard deviations, of the elements of x; else
 * NULL. */
static clt_status table_norm(const cltrain *net, int64_t in_size, double **out)
{
    const clt_table *table = net->run->job->train_source->table;
    *out = NULL;
    if (!table)
        return CLT_OK;
    CLT_TRY(clt_alloc(out, 2 * (size_t)in_size, sizeof **out, "prediction"));
    clt_table_norm(table, *out, *out + in_size);
    return CLT_OK;
}

static clt_status predict_all(cltrain *net, int64_t samples, const float *x, int64_t in_size,
                              int64_t out_size, float *out)
{
    int64_t micro = net->run->eval->plan->graph->micro_batch;
    CLT_FREED float *x_pad = NULL, *y_pad = NULL;
    CLT_FREED double *norm = NULL;
    const clt_table *table = net->run->job->train_source->table;
    CLT_TRY(table_norm(net, in_size, &norm));
    CLT_TRY(clt_alloc(&x_pad, (size_t)(micro * in_size), sizeof *x_pad, "prediction"));
    CLT_TRY(clt_alloc(&y_pad, (size_t)(micro * out_size), sizeof *y_pad, "prediction"));
    for (int64_t done = 0; done < samples; done += micro) {
        int64_t n = samples - done < micro ? samples - done : micro;
        CLT_TRY(predict_batch(net, x + done * in_size, n, in_size, norm, x_pad, y_pad));
        for (int64_t i = 0; i < n * out_size; i++)
            out[done * out_size + i] =
                table && table->target_scaled ? (float)clt_table_number(table, (double)y_pad[i]) : y_pad[i];
    }
    return CLT_OK;
}

clt_status clt_api_predict(cltrain *net, int64_t samples, const float *x, float *out, int64_t out_count)
{
    clt_run *run = net->run;
    if (!run->eval)
        CLT_FAIL(CLT_EUSAGE, "predicting: the config names no evaluation data, so there is no plan for it");
    const clt_graph *graph = run->eval->plan->graph;
    int32_t field = clt_graph_find_field(graph, "x");
    if (field < 0 || graph->fields[field].dtype != CLT_F32)
        CLT_FAIL(CLT_EUSAGE, "predicting: the net's input x is not f32");
    int64_t in_size = clt_shape_elements(&graph->fields[field].shape);
    int64_t out_size =
        clt_shape_elements(&clt_graph_tensor(graph, run->job->prediction)->shape) / graph->micro_batch;
    if (samples < 1 || out_count % out_size != 0 || out_count / out_size != samples)
        CLT_FAIL(CLT_ESHAPE,
                 "predicting %lld sample%s: out must hold %lld floats per sample; it holds %lld in all",
                 (long long)samples, CLT_PLURAL(samples), (long long)out_size, (long long)out_count);
    return predict_all(net, samples, x, in_size, out_size, out);
}
