/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks moments that a convolution hands to the batch norm after it (engine/plan/moments.c): compares the
 * mean and variance that the norm saves with mean and variance of the stored convolution in double precision.
 * Covers each algorithm, and sizes of the image that fill Winograd's tiles of 2 and of 4 places, exceed them
 * by one place, or leave a partial tile. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/ops/node.h"
#include "engine/plan/realize.h"
#include "engine/state/store.h"
#include "engine/verify/verify_internal.h"

#define BATCH 2
#define CHANNELS 18 /* channels of the image */
#define RESULTS 20  /* channels of the convolution; no vector divides them */
#define EPSILON 1e-5

typedef struct moments_case {
    const char *name;
    int64_t height, width;
    clt_dtype storage;
} moments_case;

static const moments_case cases[] = {
    {"moments_12x8", 12, 8, CLT_F32},       {"moments_9x13", 9, 13, CLT_F32},
    {"moments_10x6", 10, 6, CLT_F32},       {"moments_7x11", 7, 11, CLT_F32},
    {"moments_1x5", 1, 5, CLT_F32},         {"moments_f16_9x10", 9, 10, CLT_F16},
    {"moments_bf16_11x5", 11, 5, CLT_BF16}, {"moments_47x45", 47, 45, CLT_F32}, /* combined in two stages */
};
static const char *const algorithms[] = {"winograd", "implicit", "matrix"};

typedef struct moments_run {
    const moments_case *c;
    clt_verify_bench *bench;
    clt_node *norm;
    int32_t x;
} moments_run;

static clt_status make_graph(moments_run *r, clt_graph **out)
{
    CLT_SCOPED(clt_graph) *graph = NULL;
    clt_node *conv, *loss;
    clt_shape image = clt_shape3(CHANNELS, r->c->height, r->c->width),
              target = clt_shape3(RESULTS, r->c->height, r->c->width);
    int32_t with[2];
    CLT_TRY(clt_graph_create(BATCH, &graph));
    CLT_TRY(clt_graph_field(graph, "x", CLT_F32, &image, &r->x));
    CLT_TRY(clt_graph_field(graph, "y", CLT_F32, &target, &with[1]));
    CLT_TRY(clt_graph_add_text(graph, "conv2d", "conv", "{\"out\": 20, \"kernel\": 3, \"padding\": 1}", &r->x,
                               1, &conv));
    CLT_TRY(clt_graph_add_text(graph, "batch_norm", "norm", "{}", conv->out, 1, &r->norm));
    with[0] = r->norm->out[0];
    CLT_TRY(clt_graph_add_text(graph, "l1", "loss", "{}", with, 2, &loss));
    *out = CLT_TAKE(graph);
    return CLT_OK;
}

/* Plans the case. SKIP if the algorithm refuses it or computes no moments. */
static clt_status make_plan(moments_run *r, const clt_verify_session *session, const char *algorithm,
                            clt_verify_outcome *outcome)
{
    clt_plan_options options = {.mode = CLT_PLAN_TRAIN,
                                .accumulation = 1,
                                .ranks = 1,
                                .storage = r->c->storage,
                                .update = {.optimizer = &clt_optimizer_sgd, .schedule_entries = 1},
                                .force_variant = algorithm};
    clt_graph *graph;
    CLT_TRY(make_graph(r, &graph));
    CLT_TRY(clt_verify_plan_graph(session, graph, &options, r->bench, outcome));
    if (clt_verify_bad(outcome))
        return CLT_OK;
    r->norm = clt_graph_find(r->bench->plan->graph, "norm"); /* the plan has a copy */
    const ocl_command_list *forward = &r->bench->plan->phase[CLT_PHASE_FORWARD];
    for (size_t c = 0; c < forward->count; c++)
        if (strcmp(forward->commands[c].kernel, "batch_norm_moments") == 0)
            clt_verify_set(outcome, CLT_VERIFY_SKIP,
                           "%s makes no moments here: the norm reads its input itself", algorithm);
    return CLT_OK;
}

static clt_status run_forward(moments_run *r, const clt_verify_session *session)
{
    const clt_verify_bench *b = r->bench;
    clt_step_block step = {.valid = BATCH};
    size_t elements = (size_t)(BATCH * CHANNELS * r->c->height * r->c->width);
    CLT_FREED float *x = NULL;
    CLT_TRY(clt_alloc(&x, elements, sizeof *x, "an image"));
    for (size_t i = 0; i < elements; i++)
        x[i] = (float)(3 + clt_rng_normal(session->seed, CLT_RNG_VERIFY, 1, 0, i));
    CLT_TRY(clt_verify_realise(r->bench, 1u << CLT_PHASE_FORWARD));
    CLT_TRY(clt_store_init(b->store, b->plan->graph, session->seed));
    CLT_TRY(clt_realized_write(b->realized, r->x, x));
    CLT_TRY(clt_realized_write(b->realized, b->plan->graph->step, &step));
    return clt_realized_run(b->realized, CLT_PHASE_FORWARD);
}

/* Compares the moments with those of the stored convolution. Rounding the means of blocks changes the
 * variance by about the rounding error times the deviation; a plain sum of squares would have errors
 * relative to the mean's square. */
static clt_status judge(const moments_run *r, clt_verify_outcome *outcome)
{
    int64_t rows = BATCH * r->c->height * r->c->width;
    const clt_realized *realized = r->bench->realized;
    CLT_FREED float *y = NULL;
    float mean[RESULTS], rstd[RESULTS];
    CLT_TRY(clt_alloc(&y, (size_t)(rows * RESULTS), sizeof *y, "a convolution"));
    CLT_TRY(clt_realized_read_f32(realized, r->norm->in[0], y));
    CLT_TRY(clt_realized_read(realized, r->norm->saved[0], mean));
    CLT_TRY(clt_realized_read(realized, r->norm->saved[1], rstd));
    for (int64_t c = 0; c < RESULTS && !clt_verify_bad(outcome); c++) {
        double sum = 0, apart = 0; /* y is channels-last, as moments need it */
        for (int64_t i = 0; i < rows; i++)
            sum += (double)y[i * RESULTS + c];
        for (int64_t i = 0; i < rows; i++)
            apart += pow((double)y[i * RESULTS + c] - sum / (double)rows, 2);
        double middle = sum / (double)rows, var = apart / (double)rows, want = 1 / sqrt(var + EPSILON),
               unit = 0x1p-23 * fabs(middle);
        if (!(fabs((double)mean[c] - middle) <= 4 * unit + 1e-6 * sqrt(var)) ||
            !(fabs((double)rstd[c] / want - 1) <= 8e-6 + 2 * unit * want))
            clt_verify_set(
                outcome, CLT_VERIFY_FAIL,
                "channel %lld: mean %.9g and 1/deviation %.9g, the stored convolution has %.9g and %.9g",
                (long long)c, (double)mean[c], (double)rstd[c], middle, want);
    }
    return CLT_OK;
}

static clt_status check(clt_verify_session *session, const moments_case *c, const char *algorithm,
                        clt_verify_outcome *outcome)
{
    CLT_SCOPED(clt_verify_bench) *bench = NULL;
    CLT_TRY(clt_alloc(&bench, 1, sizeof *bench, "checker's bench"));
    bench->device = session->device;
    moments_run r = {.c = c, .bench = bench};
    CLT_TRY(make_plan(&r, session, algorithm, outcome));
    if (clt_verify_bad(outcome))
        return CLT_OK;
    CLT_TRY(run_forward(&r, session));
    return judge(&r, outcome);
}

clt_status clt_verify_moments(clt_verify_session *session)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t a = 0; a < sizeof algorithms / sizeof algorithms[0]; a++) {
            clt_verify_item item = {"batch_norm",       cases[i].name, algorithms[a],
                                    CLT_VERIFY_CORRECT, true,          cases[i].storage == CLT_BF16};
            clt_verify_outcome outcome;
            if (clt_verify_wants(session, &item, &outcome))
                CLT_TRY(
                    clt_verify_finish(session, &outcome, check(session, &cases[i], algorithms[a], &outcome)));
        }
    return CLT_OK;
}
