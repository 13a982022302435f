/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of ranks: host and device of each rank, and its speed. A step takes the same time on every rank,
 * because ranks wait for each other; the time without waiting tells which rank the others wait for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/host/cores.h"
#include "engine/report/write/lines.h"
#include "engine/train/loop/trainer_loop.h"

#define SHOWN 16 /* most ranks on the screen; all are in log.txt */

/* What a rank sends to the others; its layout is the same on all of them. */
typedef struct rank_message {
    char host[64], device[160], spec[32];
    char cores[64];  /* cores that the rank may use; "": its host has one NUMA node */
    double own_ms;   /* mean time of a step without waiting, in ms; 0: not known yet */
    int64_t samples; /* samples that the rank computes in a step */
    double energy_j; /* energy of its device in this session, if known, in J */
} rank_message;

static clt_status gather(const clt_loop *l, rank_message *all)
{
    const clt_run *run = l->run;
    const ocl_device_desc *d = ocl_device_describe(run->device);
    rank_message *mine = &all[run->ranks.rank];
    (void)snprintf(mine->host, sizeof mine->host, "%s", run->ranks.host);
    (void)snprintf(mine->device, sizeof mine->device, "%s", d->name);
    (void)snprintf(mine->spec, sizeof mine->spec, "%s", d->spec);
    clt_cores cores;
    if (clt_numa_nodes() > 1 && clt_cores_of_process(&cores))
        clt_cores_print(&cores, mine->cores, sizeof mine->cores);
    mine->samples = l->run->micro_batches * l->run->job->micro_batch;
    mine->energy_j = clt_gauges_energy(l);
    mine->own_ms = l->own_steps > 0 ? l->own_ms / (double)l->own_steps : 0;
    return comm_all_gather(l->options->comm, all, run->ranks.ranks * (int64_t)sizeof *all, sizeof *all,
                           COMM_U8);
}

/* Samples or tokens per second, for a rank's part of the batch. */
static double speed(const clt_loop *l, const rank_message *r)
{
    double share = (double)r->samples * (double)clt_graph_tokens(l->run->job->train->graph);
    return r->own_ms > 0 ? share / r->own_ms * 1e3 : 0;
}

static const char *unit(const clt_loop *l)
{
    return clt_graph_tokens(l->run->job->train->graph) > 1 ? "tok/s" : "samples/s";
}

static void show(const clt_loop *l, int index, const char *line)
{
    if (index < SHOWN)
        clt_tell(l, line);
    else
        clt_rundir_log(l->dir, "%s", line);
}

static void show_rows(const clt_loop *l, const rank_message *all, bool speeds)
{
    int ranks = l->run->ranks.ranks, wide = 4, wide_cores = 0;
    char line[448], text[32] = "", more[96];
    for (int i = 0; i < ranks; i++) {
        wide = (int)strlen(all[i].host) > wide ? (int)strlen(all[i].host) : wide;
        wide_cores = (int)strlen(all[i].cores) > wide_cores ? (int)strlen(all[i].cores) : wide_cores;
    }
    wide_cores = speeds ? 0 : wide_cores > 0 && wide_cores < 5 ? 5 : wide_cores;
    const char *gap = wide_cores > 0 ? "  " : "";
    (void)snprintf(line, sizeof line, "rank  %-*s  %-*s%s%s%sdevice", wide, "host", wide_cores,
                   wide_cores > 0 ? "cores" : "", gap, speeds ? unit(l) : "", speeds ? "  " : "");
    clt_tell(l, line);
    for (int i = 0; i < ranks; i++) {
        if (speeds)
            (void)clt_count_text(speed(l, &all[i]), text, sizeof text);
        (void)snprintf(line, sizeof line, "%4d  %-*s  %-*s%s%*s%s%s (%s)", i, wide, all[i].host, wide_cores,
                       wide_cores > 0 ? all[i].cores : "", gap, speeds ? (int)strlen(unit(l)) : 0, text,
                       speeds ? "  " : "", all[i].device, all[i].spec);
        show(l, i, line);
    }
    if (ranks > SHOWN) {
        (void)snprintf(more, sizeof more, "and %d more rank%s, which log.txt lists", ranks - SHOWN,
                       CLT_PLURAL(ranks - SHOWN));
        if (l->options->observer.message)
            l->options->observer.message(l->options->observer.context, more);
    }
}

static void show_slowest(const clt_loop *l, const rank_message *all)
{
    int slowest = 0, fastest = 0;
    char line[384], slow[32], fast[32];
    for (int i = 1; i < l->run->ranks.ranks; i++) {
        slowest = speed(l, &all[i]) < speed(l, &all[slowest]) ? i : slowest;
        fastest = speed(l, &all[i]) > speed(l, &all[fastest]) ? i : fastest;
    }
    double a = speed(l, &all[slowest]), b = speed(l, &all[fastest]);
    (void)snprintf(line, sizeof line, "slowest: rank %d on %s, %s %s on its own, fastest: rank %d, %s%s",
                   slowest, all[slowest].host, clt_count_text(a, slow, sizeof slow), unit(l), fastest,
                   clt_count_text(b, fast, sizeof fast),
                   a < 0.8 * b ? "; the others wait for the slowest one in every step" : "");
    clt_tell(l, line);
}

clt_status clt_tell_ranks(clt_loop *l, clt_ranks_when when)
{
    int ranks = l->run->ranks.ranks;
    CLT_FREED rank_message *all = NULL;
    if (ranks < 2)
        return CLT_OK;
    CLT_TRY(clt_alloc(&all, (size_t)ranks, sizeof *all, "table of ranks"));
    if (when == CLT_RANKS_END)
        clt_gauges_renew(l);
    CLT_TRY(gather(l, all));
    if (when == CLT_RANKS_END) { /* the sum from a step is older, and missing after a short run */
        l->gauges.heard_energy = 0;
        for (int i = 0; i < ranks; i++)
            l->gauges.heard_energy += all[i].energy_j;
    }
    bool speeds = when != CLT_RANKS_START;
    for (int i = 0; i < ranks; i++)
        speeds = speeds && all[i].own_ms > 0;
    if (l->reports && (speeds || when == CLT_RANKS_START))
        show_rows(l, all, speeds);
    if (l->reports && speeds)
        show_slowest(l, all);
    return CLT_OK;
}
