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
#define CHANNELS 18 /* of the image */
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
    clt_graph *graph; /* until the plan takes it */
    clt_plan *plan;
    clt_store *store;
    clt_slab_pool *pool;
    clt_realized *realized;
    clt_node *norm;
    int32_t x;
} moments_run;

static clt_status make_graph(moments_run *r)
{
    clt_node *conv, *loss;
    clt_shape image = clt_shape3(CHANNELS, r->c->height, r->c->width),
              target = clt_shape3(RESULTS, r->c->height, r->c->width);
    int32_t with[2];
    CLT_TRY(clt_graph_create(BATCH, &r->graph));
    CLT_TRY(clt_graph_field(r->graph, "x", CLT_F32, &image, &r->x));
    CLT_TRY(clt_graph_field(r->graph, "y", CLT_F32, &target, &with[1]));
    CLT_TRY(clt_graph_add_text(r->graph, "conv2d", "conv", "{\"out\": 20, \"kernel\": 3, \"padding\": 1}",
                               &r->x, 1, &conv));
    CLT_TRY(clt_graph_add_text(r->graph, "batch_norm", "norm", "{}", conv->out, 1, &r->norm));
    with[0] = r->norm->out[0];
    return clt_graph_add_text(r->graph, "l1", "loss", "{}", with, 2, &loss);
}

/* Plans the case. SKIP if the algorithm refuses it or computes no moments. */
static clt_status make_plan(moments_run *r, const clt_verify_session *session, const char *algorithm,
                            clt_verify_outcome *outcome)
{
    ocl_device_desc desc = clt_verify_desc(session);
    clt_plan_options options = {.mode = CLT_PLAN_TRAIN,
                                .accumulation = 1,
                                .ranks = 1,
                                .storage = r->c->storage,
                                .update = {.optimizer = &clt_optimizer_sgd, .schedule_entries = 1},
                                .force_variant = algorithm};
    CLT_TRY(make_graph(r));
    clt_graph *graph = r->graph;
    r->graph = NULL; /* now owned by the plan */
    clt_status status = clt_plan_compute(graph, &desc, &options, &r->plan);
    if (status == CLT_EUNSUPPORTED && strstr(clt_error_text(), "none accepts (")) {
        clt_verify_set(outcome, CLT_VERIFY_SKIP, "%s", clt_error_text());
        clt_error_clear();
        return CLT_OK;
    }
    CLT_TRY(status);
    r->norm = clt_graph_find(r->plan->graph, "norm"); /* the plan has a copy */
    const ocl_command_list *forward = &r->plan->phase[CLT_PHASE_FORWARD];
    for (size_t c = 0; c < forward->count; c++)
        if (strcmp(forward->commands[c].kernel, "batch_norm_moments") == 0)
            clt_verify_set(outcome, CLT_VERIFY_SKIP,
                           "%s makes no moments here: the norm reads its input itself", algorithm);
    return CLT_OK;
}

static clt_status run_forward(moments_run *r, const clt_verify_session *session)
{
    clt_realize_options options = {.phases = 1u << CLT_PHASE_FORWARD};
    clt_step_block step = {.valid = BATCH};
    size_t elements = (size_t)(BATCH * CHANNELS * r->c->height * r->c->width);
    float *x = malloc(elements * sizeof *x);
    clt_status status;
    if (!x)
        CLT_FAIL(CLT_ENOMEM, "verify: out of host memory for an image");
    for (size_t i = 0; i < elements; i++)
        x[i] = (float)(3 + clt_rng_normal(session->seed, CLT_RNG_VERIFY, 1, 0, i));
    CLT_TRY_GOTO(clt_store_create(session->device, r->plan->store, true, &r->store), done);
    CLT_TRY_GOTO(clt_store_init(r->store, r->plan->graph, session->seed), done);
    const clt_plan *plan = r->plan;
    CLT_TRY_GOTO(clt_pool_create(session->device, &plan, 1, &r->pool), done);
    options.store = r->store;
    options.pool = r->pool;
    CLT_TRY_GOTO(clt_plan_realize(plan, session->device, &options, &r->realized), done);
    CLT_TRY_GOTO(clt_realized_write(r->realized, r->x, x), done);
    CLT_TRY_GOTO(clt_realized_write(r->realized, plan->graph->step, &step), done);
    status = clt_realized_run(r->realized, CLT_PHASE_FORWARD);
done:
    free(x);
    return status;
}

/* Rounding of the means of blocks leaves errors of about its size times the deviation in the variance; a
 * plain sum of squares would leave errors relative to the mean's square. */
static clt_status judge(const moments_run *r, clt_verify_outcome *outcome)
{
    int64_t rows = BATCH * r->c->height * r->c->width;
    float mean[RESULTS], rstd[RESULTS], *y = malloc((size_t)(rows * RESULTS) * sizeof *y);
    clt_status status;
    if (!y)
        CLT_FAIL(CLT_ENOMEM, "verify: out of host memory for a convolution");
    CLT_TRY_GOTO(clt_realized_read_f32(r->realized, r->norm->in[0], y), done);
    CLT_TRY_GOTO(clt_realized_read(r->realized, r->norm->saved[0], mean), done);
    CLT_TRY_GOTO(clt_realized_read(r->realized, r->norm->saved[1], rstd), done);
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
done:
    free(y);
    return status;
}

static clt_status check(clt_verify_session *session, const moments_case *c, const char *algorithm,
                        clt_verify_outcome *outcome)
{
    moments_run r = {.c = c};
    clt_status status = make_plan(&r, session, algorithm, outcome);
    if (status == CLT_OK && outcome->state == CLT_VERIFY_PASS)
        status = run_forward(&r, session);
    if (status == CLT_OK && outcome->state == CLT_VERIFY_PASS)
        status = judge(&r, outcome);
    clt_realized_destroy(r.realized);
    clt_pool_destroy(r.pool);
    clt_store_destroy(r.store);
    clt_plan_destroy(r.plan);
    clt_graph_destroy(r.graph);
    return status;
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
