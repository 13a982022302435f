/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the algorithm of a group's large all-reduces: by name, or the fastest of a measurement. */
#include "comm/comm_internal.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

static clt_status no_algorithm(const comm *c, const char *name, const char *why)
{
    clt_str list = {0};
    for (size_t i = 0; comm_algorithm_at(i); i++)
        if (!comm_algorithm_at(i)->unsuited(c, COMM_F32, COMM_SUM) &&
            !comm_algorithm_forbidden(c, comm_algorithm_at(i)))
            clt_str_printf(&list, "%s%s", list.length ? ", " : "", comm_algorithm_name(i));
    clt_status status =
        clt_fail(CLT_ECONFIG, __FILE__, __LINE__, "all-reduce by %s: %s; possible here: auto, %s", name, why,
                 list.text ? list.text : "no others");
    clt_str_free(&list);
    return status;
}

clt_status comm_set_algorithm(comm *c, const char *name, comm_order order)
{
    const comm_algorithm *algorithm = NULL;
    c->order = order;
    if (strcmp(name, "auto") == 0) {
        c->algorithm = NULL;
        return CLT_OK;
    }
    for (size_t i = 0; comm_algorithm_at(i); i++)
        if (strcmp(name, comm_algorithm_name(i)) == 0)
            algorithm = comm_algorithm_at(i);
    if (!algorithm)
        return no_algorithm(c, name, "there is no such algorithm");
    const char *why = c->info.ranks > 1 ? algorithm->unsuited(c, COMM_F32, COMM_SUM) : NULL;
    if (!why)
        why = comm_algorithm_forbidden(c, algorithm);
    if (why)
        return no_algorithm(c, name, why);
    c->algorithm = algorithm;
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

/* Times RUNS runs. The result is the maximum, over the ranks, of each rank's shortest run. */
static clt_status time_algorithm(const race *r, const comm_algorithm *algorithm, double *seconds)
{
    enum { RUNS = 3 };
    *seconds = 1e9;
    for (int run = 0; run < RUNS; run++) {
        CLT_TRY(comm_run_barrier(r->group));
        double begin = clt_now();
        CLT_TRY(algorithm->all_reduce(r->group, r->data, r->count, r->type, COMM_SUM));
        double took = clt_now() - begin;
        *seconds = took < *seconds ? took : *seconds;
    }
    return comm_run_all_reduce(r->group, seconds, 1, COMM_F64, COMM_MAX);
}

static bool takes_part(const race *r, const comm_algorithm *algorithm)
{
    const comm *c = r->group;
    bool same_bits = c->order == COMM_ANY_ORDER || algorithm->is_tree(c);
    return same_bits && !algorithm->unsuited(c, r->type, COMM_SUM);
}

static clt_status run_race(void *context)
{
    const race *r = context;
    const comm_algorithm *best = NULL;
    double least = 0;
    for (size_t i = 0; comm_algorithm_at(i); i++) {
        const comm_algorithm *algorithm = comm_algorithm_at(i);
        double seconds = 0;
        if (takes_part(r, algorithm))
            CLT_TRY(time_algorithm(r, algorithm, &seconds));
        if (i < r->capacity)
            r->seconds[i] = seconds;
        if (seconds > 0 && (!best || seconds < least)) {
            best = algorithm;
            least = seconds;
        }
    }
    r->group->algorithm = best;
    return CLT_OK;
}

clt_status comm_measure_algorithms(comm *c, int64_t bytes, comm_type type, double *seconds, size_t capacity)
{
    CLT_FREED void *data = NULL;
    for (size_t i = 0; i < capacity; i++)
        seconds[i] = 0;
    /* In this case no other algorithm gives the same bits as `nodes`, and `nodes` is faster than the others,
     * so nothing is measured. */
    bool two_levels = c->order == COMM_REPEATED && !comm_algorithm_nodes.unsuited(c, type, COMM_SUM) &&
                      !comm_algorithm_nodes.is_tree(c);
    c->algorithm = NULL;
    if (c->info.ranks == 1 || two_levels)
        return CLT_OK;
    CLT_TRY(clt_alloc(&data, (size_t)bytes, 1, "the measurement of all-reduces"));
    race r = {.group = c,
              .data = data,
              .count = bytes / comm_type_bytes(type),
              .type = type,
              .seconds = seconds,
              .capacity = capacity};
    return comm_engine_run(c->engine, "measurement of all-reduces", run_race, &r);
}
