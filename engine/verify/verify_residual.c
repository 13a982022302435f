/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks dropout fused with the sum of its result and a residual, as in training plans
 * (engine/plan/passes/fuse_residual.c): every element must be the residual plus the value that the reference
 * of dropout gives. All numbers are multiples of 1/4 and the scale is 2, so no rounding is allowed in any
 * type. Cases begin the micro-batch at each of the four numbers of a Philox block. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/ops/node.h"
#include "engine/plan/realize.h"
#include "engine/state/store.h"
#include "engine/verify/verify_internal.h"

#define STARTS 4
enum { STREAM_X, STREAM_RESIDUAL };

typedef struct residual_case {
    const char *name;
    int64_t rows, columns; /* rows: the micro-batch */
    clt_dtype storage;
    bool small; /* is checked in a quick run */
} residual_case;

static const residual_case cases[] = {
    {"residual_odd", 5, 17, CLT_F32, true},       {"residual_quads", 3, 132, CLT_F32, false},
    {"residual_blocks", 5, 4100, CLT_F32, false}, {"residual_f16", 3, 132, CLT_F16, false},
    {"residual_bf16", 3, 131, CLT_BF16, false},
};

typedef struct residual_run {
    const residual_case *c;
    clt_verify_bench *bench;
    size_t elements;
    int32_t x, residual;       /* batch fields */
    double *in, *other, *want; /* values of x and of the residual; what dropout alone gives */
    float *got;                /* the sum from the device */
    void *bytes;               /* a field in its storage type */
} residual_run;

static clt_status make_graph(residual_run *r, clt_graph **out)
{
    CLT_SCOPED(clt_graph) *graph = NULL;
    clt_node *drop, *sum, *bias, *loss;
    clt_shape row = clt_shape1(r->c->columns);
    int32_t with[2], target;
    CLT_TRY(clt_graph_create(r->c->rows, &graph));
    CLT_TRY(clt_graph_field(graph, "x", r->c->storage, &row, &r->x));
    CLT_TRY(clt_graph_field(graph, "residual", r->c->storage, &row, &r->residual));
    CLT_TRY(clt_graph_field(graph, "y", CLT_F32, &row, &target));
    CLT_TRY(clt_graph_add_text(graph, "dropout", "drop", "{\"p\": 0.5}", &r->x, 1, &drop));
    with[0] = drop->out[0];
    with[1] = r->residual;
    CLT_TRY(clt_graph_add_text(graph, "add", "sum", "{}", with, 2, &sum));
    clt_graph_tensor(graph, sum->out[0])->is_output = true;
    CLT_TRY(clt_graph_add_text(graph, "bias", "bias", "{}", sum->out, 1, &bias)); /* a parameter to train */
    with[0] = bias->out[0];
    with[1] = target;
    CLT_TRY(clt_graph_add_text(graph, "l1", "loss", "{}", with, 2, &loss));
    *out = CLT_TAKE(graph);
    return CLT_OK;
}

/* Plans the case. SKIP if the variant refuses, FAIL if the plan does not fuse the sum. */
static clt_status make_plan(residual_run *r, const clt_verify_session *session, const char *variant,
                            clt_verify_outcome *outcome)
{
    clt_plan_options options = {.mode = CLT_PLAN_TRAIN,
                                .accumulation = 1,
                                .ranks = 1,
                                .storage = r->c->storage,
                                .update = {.optimizer = &clt_optimizer_sgd, .schedule_entries = 1},
                                .force_variant = variant};
    clt_graph *graph;
    CLT_TRY(make_graph(r, &graph));
    CLT_TRY(clt_verify_plan_graph(session, graph, &options, r->bench, outcome));
    if (clt_verify_bad(outcome))
        return CLT_OK;
    const clt_node *drop = clt_graph_find(r->bench->plan->graph, "drop");
    for (size_t w = 0; w < r->bench->plan->n_forward; w++)
        if (r->bench->plan->work[w].node == drop && r->bench->plan->work[w].epilogue.residual < 0)
            clt_verify_set(outcome, CLT_VERIFY_FAIL, "the plan does not fuse dropout with the sum after it");
    return CLT_OK;
}

static clt_status write_field(const residual_run *r, int32_t field, const double *values)
{
    for (size_t i = 0; i < r->elements; i++)
        clt_dtype_store(r->c->storage, r->bytes, i, values[i]);
    return clt_realized_write(r->bench->realized, field, r->bytes);
}

static void fill(const residual_run *r, uint64_t seed, uint32_t number, double *out)
{
    clt_verify_stream stream = clt_verify_stream_make(seed, r->c->name, number);
    for (size_t i = 0; i < r->elements; i++)
        out[i] = (double)(clt_verify_word(&stream, i) % 17) / 4 - 2;
}

/* One forward pass with a micro-batch that begins at sample `start` of the global batch. */
static clt_status run(residual_run *r, uint64_t seed, uint32_t start, clt_verify_outcome *outcome)
{
    const clt_graph *graph = r->bench->plan->graph;
    const clt_node *drop = clt_graph_find(graph, "drop"), *sum = clt_graph_find(graph, "sum");
    const clt_step_block step = {.seed_lo = (uint32_t)seed,
                                 .seed_hi = 7,
                                 .step = 3,
                                 .sample_lo = start,
                                 .valid = (uint32_t)r->c->rows};
    clt_ref_call call = {.node = drop,
                         .n_in = 1,
                         .n_out = 1,
                         .in = {{clt_graph_tensor(graph, drop->in[0])->shape, r->c->storage, r->in}},
                         .out = {{clt_graph_tensor(graph, drop->out[0])->shape, r->c->storage, r->want}},
                         .training = true,
                         .seed = (uint64_t)step.seed_hi << 32 | step.seed_lo,
                         .step = step.step,
                         .op_id = (uint32_t)drop->stream,
                         .sample_base = start,
                         .micro_batch = r->c->rows,
                         .ranks = 1};
    CLT_TRY(clt_realized_write(r->bench->realized, graph->step, &step));
    CLT_TRY(clt_realized_run(r->bench->realized, CLT_PHASE_FORWARD));
    CLT_TRY(clt_realized_read_f32(r->bench->realized, sum->out[0], r->got));
    drop->op->ref->forward(&call);
    for (size_t i = 0; i < r->elements && !clt_verify_bad(outcome); i++)
        if ((double)r->got[i] != r->other[i] + r->want[i])
            clt_verify_set(outcome, CLT_VERIFY_FAIL,
                           "from sample %u on, element %zu is %.9g; dropout gives %.9g, the residual is %.9g",
                           start, i, (double)r->got[i], r->want[i], r->other[i]);
    return CLT_OK;
}

static clt_status check(clt_verify_session *session, const residual_case *c, const ocl_variant *variant,
                        clt_verify_outcome *outcome)
{
    char what[64];
    CLT_SCOPED(clt_verify_bench) *bench = NULL;
    CLT_SCOPED(clt_arena) *arena = NULL;
    snprintf(what, sizeof what, "variant %s", variant->name);
    if (!clt_verify_offers(session, what, variant->written_for, outcome))
        return CLT_OK;
    CLT_TRY(clt_alloc(&bench, 1, sizeof *bench, "checker's bench"));
    CLT_TRY(clt_arena_create(&arena));
    bench->device = session->device;
    residual_run r = {.c = c, .bench = bench, .elements = (size_t)(c->rows * c->columns)};
    r.in = clt_arena_alloc(arena, r.elements * sizeof *r.in);
    r.other = clt_arena_alloc(arena, r.elements * sizeof *r.other);
    r.want = clt_arena_alloc(arena, r.elements * sizeof *r.want);
    r.got = clt_arena_alloc(arena, r.elements * sizeof *r.got);
    r.bytes = clt_arena_alloc(arena, r.elements * sizeof *r.got);
    if (!r.in || !r.other || !r.want || !r.got || !r.bytes)
        return CLT_ENOMEM;
    CLT_TRY(make_plan(&r, session, variant->name, outcome));
    if (clt_verify_bad(outcome))
        return CLT_OK;
    CLT_TRY(clt_verify_realise(bench, 1u << CLT_PHASE_FORWARD));
    CLT_TRY(clt_store_init(bench->store, bench->plan->graph, session->seed));
    fill(&r, session->seed, STREAM_X, r.in);
    fill(&r, session->seed, STREAM_RESIDUAL, r.other);
    CLT_TRY(write_field(&r, r.x, r.in));
    CLT_TRY(write_field(&r, r.residual, r.other));
    for (uint32_t start = 0; start < STARTS && !clt_verify_bad(outcome); start++)
        CLT_TRY(run(&r, session->seed, start, outcome));
    return CLT_OK;
}

clt_status clt_verify_residual(clt_verify_session *session)
{
    const clt_op *dropout = clt_op_find("dropout");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (const ocl_variant *const *v = dropout->forward.variants; *v; v++) {
            clt_verify_item item = {"dropout",          cases[i].name,  (*v)->name,
                                    CLT_VERIFY_CORRECT, cases[i].small, cases[i].storage == CLT_BF16};
            clt_verify_outcome outcome;
            if (clt_verify_wants(session, &item, &outcome))
                CLT_TRY(clt_verify_finish(session, &outcome, check(session, &cases[i], *v, &outcome)));
        }
    return CLT_OK;
}
