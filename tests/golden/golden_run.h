/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests share that train a model of transformers beside PyTorch's losses and gradients: a run fed
 * with a batch, one step of it, gradients compared and measured. */
#ifndef TESTS_GOLDEN_GOLDEN_RUN_H
#define TESTS_GOLDEN_GOLDEN_RUN_H

#include "tests/golden/golden_test.h"

#include "engine/train/run/run.h"

/* Creates the training run of these options, before its first step. */
static inline void open_training(const clt_run_options *options, int steps, const char *name, clt_run **run)
{
    must(clt_run_create(options, CLT_JOB_TRAIN, run), name);
    must(clt_run_take_init(*run), name);
    clt_feed_options feed = {.realized = (*run)->train,
                             .source = (*run)->job->train_source,
                             .global_batch = (*run)->job->global_batch,
                             .accumulation = (*run)->job->accumulation,
                             .ranks = 1,
                             .last_step = steps,
                             .workers = 1,
                             .prefetch = 4};
    must(clt_feed_create(&feed, &(*run)->feed), "feed");
    must(clt_reporter_create((*run)->train, 2, &(*run)->reporter), "reporter");
}

/* The sum of the losses of a step. */
static inline double one_step(clt_run *run, int step)
{
    clt_step_result result;
    bool have;
    double sum = 0;
    must(clt_step(run, step), "step");
    must(clt_reporter_take(run->reporter, true, &result, &have), "report");
    assert_true(have);
    for (int32_t i = 0; i < run->job->train->graph->n_losses; i++)
        sum += (double)result.loss[i][0];
    return sum;
}

/* The values of a parameter in an arena; must be freed. count: NULL, or receives their number. */
static inline float *stored(const clt_run *run, const clt_param *param, clt_arena_kind arena, int64_t *count)
{
    const clt_store_slot *slot = clt_store_layout_find(run->store->layout, param->name);
    float *values = malloc(slot->elements * sizeof *values);
    assert_non_null(values);
    must(clt_store_read(run->store, arena, slot, values), param->name);
    if (count)
        *count = (int64_t)slot->elements;
    return values;
}

/* Compares the gradients of all parameters that are trained with those of the golden file; returns their
 * number. */
static inline int compare_gradients(const clt_run *run, const clt_safetensors *file, const char *name)
{
    const clt_graph *graph = run->job->train->graph;
    int compared = 0;
    for (size_t i = 0; i < graph->n_params; i++) {
        const clt_param *param = &graph->params[i];
        char what[256];
        if (param->frozen)
            continue;
        const clt_named_tensor *golden = tensor_of(file, "grad.", param->file_name);
        CLT_FREED float *got = stored(run, param, CLT_ARENA_GRAD, NULL), *want = values_of(golden);
        snprintf(what, sizeof what, "%s grad.%s", name, param->name);
        /* The biases of keys shift all scores of a row alike: their gradient is zero but for rounding. */
        compare(what, got, want, clt_shape_elements(&golden->shape), 1e-3, 1e-7);
        compared++;
    }
    return compared;
}

/* Adds the squares of the differences of n numbers, and of the numbers themselves. */
static inline void add_squares(const float *got, const float *want, int64_t n, double *difference,
                               double *size)
{
    for (int64_t i = 0; i < n; i++) {
        double apart = (double)got[i] - (double)want[i];
        *difference += apart * apart;
        *size += (double)want[i] * (double)want[i];
    }
}

/* The distance of all gradients of a step, which may be scaled, from the golden file's: the norm of the
 * difference over the norm. */
static inline double gradients_apart(const clt_run *run, const clt_safetensors *file)
{
    double difference = 0, size = 0;
    const clt_graph *graph = run->job->train->graph;
    float scale = run->job->update.scaling.on ? run->job->loss_scale : 1;
    for (size_t i = 0; i < graph->n_params; i++) {
        const clt_named_tensor *golden = tensor_of(file, "grad.", graph->params[i].file_name);
        int64_t n = clt_shape_elements(&golden->shape);
        CLT_FREED float *got = stored(run, &graph->params[i], CLT_ARENA_GRAD, NULL),
                        *want = values_of(golden);
        for (int64_t k = 0; k < n; k++)
            got[k] /= scale;
        add_squares(got, want, n, &difference, &size);
    }
    return sqrt(difference / size);
}

#endif
