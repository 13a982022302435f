/* SPDX-License-Identifier: Apache-2.0
 *
 * Mean absolute error, root of the mean squared error and R2 of a regression. A sample may have several
 * targets: mean and spread are kept for each one, and R2 is averaged over them. Each rank has a part of the
 * samples, so the ranks combine their means first and their spreads around the common mean afterwards. */
#include "engine/train/eval/eval_regression.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/ops/op.h"

#define FEW_TARGETS 1024 /* per sample: up to this many, every evaluation of a training reads predictions */

/* Sums for one target over the samples of this rank so far. */
typedef struct target_sums {
    double mean, spread; /* mean of the targets, and the sum of their squared distances from it */
    double squares;      /* sum of the squared errors */
    double absolute;     /* sum of the absolute errors */
} target_sums;

struct clt_regression_reader {
    int32_t prediction, target; /* tensors */
    clt_dtype dtype;            /* type of the targets */
    int64_t samples, elements;  /* samples of a micro-batch; targets of a sample */
    double unit;                /* factor from the model's unit to the unit of the data's targets */
    float *predictions;
    void *targets;
    int64_t n; /* samples so far */
    target_sums *sums;
};

static bool find(const clt_graph *graph, struct clt_regression_reader *r)
{
    const clt_loss *l = &graph->losses[0];
    const clt_node *loss = graph->n_losses > 0 ? graph->nodes[l->node] : NULL;
    if (!loss || !(loss->op->flags & CLT_OP_REGRESSION) || l->has_ignore)
        return false;
    int32_t field = clt_graph_find_field(graph, l->target_field);
    if (field < 0)
        return false;
    r->prediction = loss->in[0];
    r->target = graph->fields[field].tensor;
    const clt_tensor *p = clt_graph_tensor(graph, r->prediction), *t = clt_graph_tensor(graph, r->target);
    int64_t all = clt_shape_elements(&t->shape);
    r->dtype = t->dtype;
    r->samples = graph->micro_batch;
    r->elements = all / r->samples;
    return all == clt_shape_elements(&p->shape) && all % r->samples == 0;
}

clt_status clt_eval_regression_prepare(clt_run *run)
{
    clt_job *job = run->job;
    struct clt_regression_reader r = {0};
    if ((job->kind != CLT_JOB_TRAIN && job->kind != CLT_JOB_EVAL) || !job->eval_source ||
        !find(job->model, &r) || (job->kind == CLT_JOB_TRAIN && r.elements > FEW_TARGETS))
        return CLT_OK;
    CLT_TRY(clt_alloc(&run->regression, 1, sizeof *run->regression, "figures of a regression"));
    job->predicts = true;
    return CLT_OK;
}

clt_status clt_eval_regression_begin(clt_run *run)
{
    struct clt_regression_reader *r = run->regression;
    const clt_job *job = run->job;
    if (!r)
        return CLT_OK;
    if (!r->sums) { /* data.micro_batch auto is known now */
        const clt_source *source = job->train_source ? job->train_source : job->eval_source;
        if (!find(job->model, r))
            CLT_FAIL(CLT_EINTERNAL, "figures of a regression: the model has changed");
        r->unit = source->table && source->table->target_scaled ? source->table->target_std : 1;
        size_t all = (size_t)(r->samples * r->elements);
        CLT_TRY(clt_alloc(&r->predictions, all, sizeof *r->predictions, "predictions"));
        CLT_TRY(clt_alloc(&r->targets, all, clt_dtype_bytes(r->dtype), "targets"));
        CLT_TRY(clt_alloc(&r->sums, (size_t)r->elements, sizeof *r->sums, "figures of a regression"));
    }
    r->n = 0;
    memset(r->sums, 0, (size_t)r->elements * sizeof *r->sums);
    return CLT_OK;
}

clt_status clt_eval_regression_take(clt_run *run, int64_t valid_samples)
{
    struct clt_regression_reader *r = run->regression;
    if (!r)
        return CLT_OK;
    CLT_TRY(clt_realized_read_f32(run->eval, r->prediction, r->predictions));
    CLT_TRY(clt_realized_read(run->eval, r->target, r->targets));
    for (int64_t s = 0; s < valid_samples; s++) { /* the rest of the last micro-batch is padding */
        r->n++;
        for (int64_t i = 0; i < r->elements; i++) {
            target_sums *sums = &r->sums[i];
            double target = clt_number_at(r->targets, r->dtype, s * r->elements + i);
            double error = (double)r->predictions[s * r->elements + i] - target, delta = target - sums->mean;
            sums->squares += error * error;
            sums->absolute += fabs(error);
            sums->mean += delta / (double)r->n;
            sums->spread += delta * (target - sums->mean);
        }
    }
    return CLT_OK;
}

/* Replaces the sums of this rank by sums over all ranks. */
static clt_status sum_over_ranks(clt_run *run, struct clt_regression_reader *r)
{
    double mine = (double)r->n, all = mine;
    CLT_FREED double *means = NULL;
    CLT_TRY(comm_all_reduce(run->options->comm, &all, 1, COMM_F64, COMM_SUM));
    CLT_TRY(clt_alloc(&means, (size_t)r->elements, sizeof *means, "figures of a regression"));
    for (int64_t i = 0; i < r->elements; i++)
        means[i] = all > 0 ? r->sums[i].mean * mine / all : 0;
    CLT_TRY(comm_all_reduce(run->options->comm, means, r->elements, COMM_F64, COMM_SUM));
    for (int64_t i = 0; i < r->elements; i++) {
        double away = r->sums[i].mean - means[i];
        r->sums[i].spread += mine * away * away;
    }
    r->n = (int64_t)all;
    /* this sums the means, too, which is meaningless; nothing reads them afterwards */
    return comm_all_reduce(run->options->comm, r->sums,
                           r->elements * (int64_t)(sizeof *r->sums / sizeof(double)), COMM_F64, COMM_SUM);
}

clt_status clt_eval_regression_end(clt_run *run, clt_eval_metrics *m)
{
    struct clt_regression_reader *r = run->regression;
    double absolute = 0, squares = 0, explained = 0;
    if (!r)
        return CLT_OK;
    if (run->ranks.ranks > 1)
        CLT_TRY(sum_over_ranks(run, r));
    m->values = r->n * r->elements;
    if (m->values == 0)
        return CLT_OK;
    for (int64_t i = 0; i < r->elements; i++) {
        const target_sums *sums = &r->sums[i];
        absolute += sums->absolute;
        squares += sums->squares;
        explained += sums->spread > 0 ? 1 - sums->squares / sums->spread : sums->squares > 0 ? 0 : 1;
    }
    m->mae = absolute / (double)m->values * r->unit;
    m->rmse = sqrt(squares / (double)m->values) * r->unit;
    m->r2 = r->n > 1 ? explained / (double)r->elements : NAN;
    return CLT_OK;
}

void clt_eval_regression_free(clt_run *run)
{
    struct clt_regression_reader *r = run->regression;
    if (!r)
        return;
    free(r->predictions);
    free(r->targets);
    free(r->sums);
    free(r);
    run->regression = NULL;
}
