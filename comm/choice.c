/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the way of a group's large all-reduces: by name, or the fastest of a measurement. */
#include "comm/comm_internal.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

static clt_status no_way(const comm *c, const char *name, const char *why)
{
    clt_str list = {0};
    for (size_t i = 0; comm_way_at(i); i++)
        if (!comm_way_at(i)->misfit(c, COMM_F32, COMM_SUM) && !comm_way_forbidden(c, comm_way_at(i)))
            clt_str_printf(&list, "%s%s", list.length ? ", " : "", comm_way_name(i));
    clt_status status =
        clt_fail(CLT_ECONFIG, __FILE__, __LINE__, "all-reduce by %s: %s; possible here: auto, %s", name, why,
                 list.text ? list.text : "no others");
    clt_str_free(&list);
    return status;
}

clt_status comm_set_way(comm *c, const char *name, comm_order order)
{
    const comm_way *way = NULL;
    c->order = order;
    if (strcmp(name, "auto") == 0) {
        c->way = NULL;
        return CLT_OK;
    }
    for (size_t i = 0; comm_way_at(i); i++)
        if (strcmp(name, comm_way_name(i)) == 0)
            way = comm_way_at(i);
    if (!way)
        return no_way(c, name, "there is no such way");
    const char *why = c->info.ranks > 1 ? way->misfit(c, COMM_F32, COMM_SUM) : NULL;
    if (!why)
        why = comm_way_forbidden(c, way);
    if (why)
        return no_way(c, name, why);
    c->way = way;
    return CLT_OK;
}

typedef struct race {
    comm *group;
    void *data;
    int64_t count;
    comm_type type;
    double *seconds;
    size_t capacity;
} race;

/* The shortest of RUNS runs on this rank, then the maximum over the ranks. */
static clt_status time_way(const race *r, const comm_way *way, double *seconds)
{
    enum { RUNS = 3 };
    *seconds = 1e9;
    for (int run = 0; run < RUNS; run++) {
        CLT_TRY(comm_run_barrier(r->group));
        double begin = clt_now();
        CLT_TRY(way->all_reduce(r->group, r->data, r->count, r->type, COMM_SUM));
        double took = clt_now() - begin;
        *seconds = took < *seconds ? took : *seconds;
    }
    return comm_run_all_reduce(r->group, seconds, 1, COMM_F64, COMM_MAX);
}

static bool takes_part(const race *r, const comm_way *way)
{
    const comm *c = r->group;
    bool same_bits = c->order == COMM_ANY_ORDER || way->is_tree(c);
    return same_bits && !way->misfit(c, r->type, COMM_SUM);
}

static clt_status run_race(void *context)
{
    const race *r = context;
    const comm_way *best = NULL;
    double least = 0;
    for (size_t i = 0; comm_way_at(i); i++) {
        const comm_way *way = comm_way_at(i);
        double seconds = 0;
        if (takes_part(r, way))
            CLT_TRY(time_way(r, way, &seconds));
        if (i < r->capacity)
            r->seconds[i] = seconds;
        if (seconds > 0 && (!best || seconds < least)) {
            best = way;
            least = seconds;
        }
    }
    r->group->way = best;
    return CLT_OK;
}

clt_status comm_measure_ways(comm *c, int64_t bytes, comm_type type, double *seconds, size_t capacity)
{
    race r = {.group = c,
              .count = bytes / comm_type_bytes(type),
              .type = type,
              .seconds = seconds,
              .capacity = capacity};
    for (size_t i = 0; i < capacity; i++)
        seconds[i] = 0;
    /* The sums of `nodes` have an order of their own here, so no other way gives the same bits; and `nodes`
     * is better than the rest. */
    bool two_levels =
        c->order == COMM_REPEATED && !comm_way_nodes.misfit(c, type, COMM_SUM) && !comm_way_nodes.is_tree(c);
    c->way = NULL;
    if (c->info.ranks == 1 || two_levels)
        return CLT_OK;
    CLT_TRY(clt_alloc(&r.data, (size_t)bytes, 1, "the measurement of all-reduces"));
    clt_status status = comm_engine_run(c->engine, "measurement of all-reduces", run_race, &r);
    free(r.data);
    return status;
}
