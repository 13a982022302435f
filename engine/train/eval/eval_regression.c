/* SPDX-License-Identifier: Apache-2.0
 *
 * Mean absolute error, root of the mean squared error, R2 and correlations of a regression. A sample may have
 * several targets: mean and spread are kept for each one, and R2 and correlations are averaged over them.
 * Each rank has a part of the samples, so the ranks combine their means first and their spreads around the
 * common mean afterwards. */
#include "engine/train/eval/eval_regression.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/ops/op.h"

/* Evaluations in a training read predictions only up to this number of targets per sample. */
#define FEW_TARGETS 1024
#define MOST_PAIRS ((int64_t)1 << 22) /* pairs of prediction and target kept for correlations: 64 MiB */

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
    double *pairs; /* (n, elements, 2) */
    size_t pairs_capacity;
    bool too_many; /* there are more than MOST_PAIRS pairs; the later ones were not kept */
};

/* --- correlations --- */

typedef struct ranked {
    double value;
    int64_t at;
} ranked;

static int by_value(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

/* Replaces values by their ranks from 1; equal values share the mean of their ranks. */
static clt_status rank_values(double *values, int64_t n)
{
    CLT_FREED ranked *sorted = NULL;
    CLT_TRY(clt_alloc(&sorted, (size_t)n, sizeof *sorted, "ranks"));
    for (int64_t i = 0; i < n; i++)
        sorted[i] = (ranked){values[i], i};
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    for (int64_t first = 0, last = 0; first < n; first = last) {
        while (last < n && !(sorted[last].value > sorted[first].value))
            last++;
        for (int64_t i = first; i < last; i++)
            values[sorted[i].at] = (double)(first + 1 + last) / 2;
    }
    return CLT_OK;
}

static double mean_of(const double *values, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += values[i];
    return sum / (double)n;
}

static double pearson(const double *x, const double *y, int64_t n)
{
    double mx = mean_of(x, n), my = mean_of(y, n), xx = 0, yy = 0, xy = 0;
    for (int64_t i = 0; i < n; i++) {
        xx += (x[i] - mx) * (x[i] - mx);
        yy += (y[i] - my) * (y[i] - my);
        xy += (x[i] - mx) * (y[i] - my);
    }
    double r = xy / sqrt(xx) / sqrt(yy);
    return r > 1 ? 1 : r < -1 ? -1 : r;
}

/* True if all values are equal; *finite becomes false if one is not finite. */
static bool all_equal(const double *values, int64_t n, bool *finite)
{
    bool equal = true;
    for (int64_t i = 0; i < n; i++) {
        *finite = *finite && isfinite(values[i]);
        equal = equal && !(values[i] > values[0]) && !(values[i] < values[0]);
    }
    return equal;
}

clt_status clt_correlations(double *predictions, double *targets, int64_t n, clt_correlation *out)
{
    bool finite = true, same_x = all_equal(predictions, n, &finite), same_y = all_equal(targets, n, &finite);
    *out = (clt_correlation){NAN, NAN, NULL};
    out->none = n < 2     ? "there are fewer than two samples"
                : !finite ? "a prediction or a target is not finite"
                : same_x  ? "all predictions are equal"
                : same_y  ? "all targets are equal"
                          : NULL;
    if (out->none)
        return CLT_OK;
    out->pearson = pearson(predictions, targets, n);
    CLT_TRY(rank_values(predictions, n));
    CLT_TRY(rank_values(targets, n));
    out->spearman = pearson(predictions, targets, n);
    return CLT_OK;
}

/* --- the run --- */

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
    if (!r->sums) { /* with data.micro_batch auto the size is known only now */
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
    r->too_many = false;
    memset(r->sums, 0, (size_t)r->elements * sizeof *r->sums);
    return CLT_OK;
}

/* Keeps the pairs of the latest `count` samples; r->n does not count them yet. */
static clt_status keep_pairs(struct clt_regression_reader *r, int64_t count)
{
    int64_t at = r->n * r->elements, all = at + count * r->elements;
    r->too_many = r->too_many || all > MOST_PAIRS;
    if (r->too_many)
        return CLT_OK;
    CLT_TRY(clt_grow(&r->pairs, &r->pairs_capacity, (size_t)all * 2, sizeof *r->pairs, "predictions"));
    for (int64_t i = 0; i < count * r->elements; i++) {
        r->pairs[(at + i) * 2] = (double)r->predictions[i];
        r->pairs[(at + i) * 2 + 1] = clt_number_at(r->targets, r->dtype, i);
    }
    return CLT_OK;
}

clt_status clt_eval_regression_take(clt_run *run, int64_t valid_samples)
{
    struct clt_regression_reader *r = run->regression;
    if (!r)
        return CLT_OK;
    CLT_TRY(clt_realized_read_f32(run->eval, r->prediction, r->predictions));
    CLT_TRY(clt_realized_read(run->eval, r->target, r->targets));
    CLT_TRY(keep_pairs(r, valid_samples));
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
    /* this also sums the means, which is meaningless; nothing reads them afterwards */
    return comm_all_reduce(run->options->comm, r->sums,
                           r->elements * (int64_t)(sizeof *r->sums / sizeof(double)), COMM_F64, COMM_SUM);
}

/* Collects the pairs of all ranks, in the order of the ranks. *all is NULL if there are too many. */
static clt_status gather_pairs(clt_run *run, struct clt_regression_reader *r, double **all, int64_t *samples)
{
    const int ranks = run->ranks.ranks, rank = run->ranks.rank;
    CLT_FREED double *counts = NULL; /* samples of each rank; then the number of ranks with too_many */
    CLT_TRY(clt_alloc(&counts, (size_t)ranks + 1, sizeof *counts, "figures of a regression"));
    counts[rank] = (double)r->n;
    counts[ranks] = r->too_many;
    if (ranks > 1)
        CLT_TRY(comm_all_reduce(run->options->comm, counts, ranks + 1, COMM_F64, COMM_SUM));
    int64_t before = 0;
    *samples = 0;
    for (int i = 0; i < ranks; i++) {
        before += i < rank ? (int64_t)counts[i] : 0;
        *samples += (int64_t)counts[i];
    }
    int64_t total = *samples * r->elements;
    if (counts[ranks] > 0 || total > MOST_PAIRS)
        return CLT_OK;
    CLT_TRY(clt_alloc(all, (size_t)total * 2, sizeof **all, "predictions"));
    if (r->n > 0)
        memcpy(*all + before * r->elements * 2, r->pairs,
               (size_t)(r->n * r->elements * 2) * sizeof *r->pairs);
    if (ranks == 1 || total == 0)
        return CLT_OK;
    return comm_all_reduce(run->options->comm, *all, total * 2, COMM_F64, COMM_SUM); /* other ranks add 0 */
}

/* Fills in the correlations, averaged over the targets of a sample. */
static clt_status correlate(clt_run *run, struct clt_regression_reader *r, clt_eval_metrics *m)
{
    CLT_FREED double *all = NULL;
    CLT_FREED double *predictions = NULL;
    CLT_FREED double *targets = NULL;
    int64_t n;
    m->pearson = m->spearman = NAN;
    CLT_TRY(gather_pairs(run, r, &all, &n));
    if (!all) {
        m->no_correlation = "there are more than 4194304 values";
        return CLT_OK;
    }
    CLT_TRY(clt_alloc(&predictions, (size_t)n, sizeof *predictions, "predictions"));
    CLT_TRY(clt_alloc(&targets, (size_t)n, sizeof *targets, "targets"));
    double sum = 0, ranks = 0;
    for (int64_t i = 0; i < r->elements && !m->no_correlation; i++) {
        clt_correlation one;
        for (int64_t s = 0; s < n; s++) {
            predictions[s] = all[(s * r->elements + i) * 2];
            targets[s] = all[(s * r->elements + i) * 2 + 1];
        }
        CLT_TRY(clt_correlations(predictions, targets, n, &one));
        m->no_correlation = one.none;
        sum += one.pearson;
        ranks += one.spearman;
    }
    m->pearson = sum / (double)r->elements;
    m->spearman = ranks / (double)r->elements;
    return CLT_OK;
}

clt_status clt_eval_regression_end(clt_run *run, clt_eval_metrics *m)
{
    struct clt_regression_reader *r = run->regression;
    double absolute = 0, squares = 0, explained = 0;
    if (!r)
        return CLT_OK;
    CLT_TRY(correlate(run, r, m));
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
    free(r->pairs);
    free(r);
    run->regression = NULL;
}
