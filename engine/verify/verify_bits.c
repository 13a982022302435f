/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of one op that need no reference: a second run must give equal bits, whatever memory held before;
 * and speed. */
#include <string.h>

#include "engine/ops/elementwise/elementwise.h"
#include "engine/verify/verify_internal.h"

/* A run: a bench and its data. */
typedef struct run {
    const clt_verify_subject *subject;
    clt_verify_bench *bench;
    clt_verify_outcome *outcome;
    clt_verify_data data;
} run;

static clt_status run_both(run *r, uint32_t pattern)
{
    clt_verify_put_data(r->bench, &r->data, pattern);
    CLT_TRY(clt_verify_bench_run(r->bench, CLT_PHASE_FORWARD, r->outcome));
    clt_verify_bench_keep(r->bench);
    return clt_verify_bench_run(r->bench, CLT_PHASE_BACKWARD, r->outcome);
}

static bool is_result(const clt_verify_bench *b, const clt_tensor *t)
{
    if (t->view_of >= 0 || b->plan->place[t->id].kind != CLT_PLACE_PLAN)
        return false;
    return t->cls == CLT_TC_ACTIVATION || t->cls == CLT_TC_SAVED || t->cls == CLT_TC_GRADIENT ||
           t->cls == CLT_TC_PARAM_GRAD || (t->param >= 0 && b->plan->graph->params[t->param].buffer) ||
           (t->id == b->plan->losses && b->plan->graph->n_losses > 0);
}

/* Keeps the results of a run, to compare the next run with them, which may be on another bench. */
static clt_status keep_bits(const run *r, uint8_t *kept[CLT_MAX_PLAN_SLABS])
{
    const clt_verify_bench *b = r->bench;
    for (int32_t s = 0; s < b->plan->n_slabs; s++) {
        kept[s] = clt_arena_alloc(r->data.arena, b->plan->slab_bytes[s]);
        if (!kept[s])
            return CLT_ENOMEM;
        memcpy(kept[s], b->image[s].after, b->plan->slab_bytes[s]);
    }
    return CLT_OK;
}

/* Compares the slabs with `kept`: the slabs after a run of `first`, another plan of the same graph. */
static void compare_bits(run *r, const clt_plan *first, uint8_t *const kept[CLT_MAX_PLAN_SLABS],
                         const char *what)
{
    const clt_verify_bench *b = r->bench;
    size_t n = b->plan->graph->n_tensors, n_first = first->graph->n_tensors;
    for (size_t i = 0; i < n && i < n_first; i++) {
        const clt_tensor *t = clt_verify_tensor(b, (int32_t)i);
        const clt_place *p = &b->plan->place[i], *q = &first->place[i];
        size_t where;
        if (is_result(b, t) &&
            clt_verify_changed(kept[q->slab] + q->offset, b->image[p->slab].after + p->offset, NULL, p->bytes,
                               &where))
            clt_verify_set(r->outcome, CLT_VERIFY_FAIL, "'%s': %s differs in byte %zu (element %zu); %s",
                           t->name, what, where, where / clt_dtype_bytes(t->dtype),
                           first == b->plan
                               ? "the result depends on the order of execution or on what memory held"
                               : "arrays larger than the caches would get other results");
    }
}

static bool any_past_caches(const clt_plan *plan)
{
    for (int phase = 0; phase < CLT_PHASE_COUNT; phase++)
        for (size_t i = 0; i < plan->phase[phase].count; i++)
            if (clt_stores_past_caches(&plan->phase[phase].commands[i]))
                return true;
    return false;
}

/* Large arrays are written with nontemporal stores. Plans the same op as if this device had almost no cache,
 * so that these stores are used; results must be equal. If the op has no such stores, the plan is the same
 * and is not run. */
static clt_status bits_past_caches(clt_verify_session *session, run *r,
                                   uint8_t *const kept[CLT_MAX_PLAN_SLABS])
{
    clt_verify_session small = *session;
    const clt_verify_setup setup = clt_verify_single(session, r->subject->op_case);
    run other = *r;
    CLT_SCOPED(clt_verify_bench) *bench = NULL;
    small.desc.cache_bytes = 1;
    CLT_TRY(clt_verify_bench_create(&small, r->subject, &setup, r->outcome, &bench));
    if (!bench || !any_past_caches(bench->plan))
        return CLT_OK;
    other.bench = bench;
    CLT_TRY(run_both(&other, CLT_VERIFY_NAN_PATTERN));
    compare_bits(&other, r->bench->plan, kept, "the run with nontemporal stores");
    return CLT_OK;
}

static clt_status check_bits(clt_verify_session *session, run *r)
{
    uint8_t *kept[CLT_MAX_PLAN_SLABS];
    CLT_TRY(clt_verify_data_make(&r->data, r->bench->plan->graph, r->subject, r->bench, session->seed, false,
                                 false));
    CLT_TRY(run_both(r, CLT_VERIFY_NAN_PATTERN));
    CLT_TRY(keep_bits(r, kept));
    CLT_TRY(run_both(r, CLT_VERIFY_FINITE_PATTERN));
    compare_bits(r, r->bench->plan, kept, "the second run");
    return clt_verify_bad(r->outcome) ? CLT_OK : bits_past_caches(session, r, kept);
}

clt_status clt_verify_bits(clt_verify_session *session, const clt_verify_subject *subject,
                           clt_verify_outcome *outcome)
{
    CLT_SCOPED(clt_verify_bench) *bench = NULL;
    CLT_SCOPED(clt_arena) *arena = NULL;
    const clt_verify_setup setup = clt_verify_single(session, subject->op_case);
    CLT_TRY(clt_verify_bench_create(session, subject, &setup, outcome, &bench));
    if (!bench)
        return CLT_OK;
    CLT_TRY(clt_arena_create(&arena));
    run r = {.subject = subject, .bench = bench, .outcome = outcome, .data.arena = arena};
    return check_bits(session, &r);
}
