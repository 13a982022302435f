/* SPDX-License-Identifier: Apache-2.0
 *
 * Agreements of ranks. Features denied in earlier runs: rank 0's list holds for all ranks with its device.
 * Order of the update: the smallest work-group that any rank uses, or none if a rank uses none. Products of
 * the update: the plainest kernels if devices would use different ones. */
#include "engine/train/ranks/agreement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/command/fallback.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/train/job/unsupported.h"
#include "engine/train/job/tuned.h"

/* --- what drivers refused --- */

static void print(const ocl_unsupported *unsupported, uint32_t caps, clt_str *what)
{
    char names[200];
    if (caps)
        clt_str_printf(what, "capability %s", ocl_caps_text(caps, names, sizeof names));
    for (int i = 0; i < unsupported->count; i++)
        clt_str_printf(what, "%s%s%s%s'%s'", what->length ? ", " : "",
                       unsupported->list[i].form[0] ? "tile " : "", unsupported->list[i].form,
                       unsupported->list[i].form[0] ? " of variant " : "variant ",
                       unsupported->list[i].variant);
}

static void tell(const ocl_unsupported *unsupported, const ocl_device_desc *desc, uint32_t caps, bool kept)
{
    CLT_SCOPED(clt_str) what = {0};
    print(unsupported, caps, &what);
    CLT_WARN("device %s '%s': this run continues without %s, which the driver refused %s", desc->spec,
             desc->name, what.text ? what.text : "?",
             kept ? "in the run of the checkpoint: so both compute the same"
                  : "in an earlier run; 'cltrain devices --again' forgets that");
}

/* Warns of features that the driver refused to another run, while the run of the checkpoint used them. */
static void tell_tried(const ocl_unsupported *kept, const ocl_unsupported *remembered,
                       const ocl_device_desc *desc)
{
    CLT_SCOPED(clt_str) what = {0};
    ocl_unsupported more = {.caps = remembered->caps & ~kept->caps};
    for (int i = 0; i < remembered->count; i++)
        if (!ocl_unsupported_has(kept, &remembered->list[i]))
            more.list[more.count++] = remembered->list[i];
    print(&more, more.caps, &what);
    if (what.length)
        CLT_WARN("device %s '%s': the driver refused %s to another run; the run of the checkpoint used it, "
                 "so it is tried again",
                 desc->spec, desc->name, what.text);
}

void clt_recall_unsupported(clt_run *run)
{
    ocl_device_desc *desc = &run->tuned->desc;
    const ocl_unsupported *unsupported = &run->tuned->unsupported;
    bool kept = run->tuned->keeps_unsupported;
    uint32_t caps = desc->caps & unsupported->caps;
    clt_apply_unsupported(unsupported, desc);
    if (caps || unsupported->count)
        tell(unsupported, desc, caps, kept);
    if (kept)
        tell_tried(unsupported, ocl_device_unsupported(run->device), desc);
}

void clt_note_unsupported(clt_run *run, uint32_t caps, int first)
{
    ocl_unsupported unsupported;
    clt_unsupported_of(&run->tuned->desc, caps, first, &unsupported);
    if (ocl_unsupported_any(&unsupported))
        ocl_device_remember_unsupported(run->device, &unsupported);
}

/* --- the update --- */

static int64_t kind_of(const ocl_device_desc *desc)
{
    const char *const names[] = {desc->platform, desc->name, desc->driver};
    clt_hash64_state state;
    clt_hash64_begin(&state);
    for (int i = 0; i < 3; i++)
        clt_hash64_add(&state, names[i], strlen(names[i]) + 1);
    return (int64_t)(clt_hash64_end(&state) >> 1);
}

/* Hash of everything else that decides which kernels compute a product, if ranks share tuning records and
 * denials. */
static int64_t choice_of(const ocl_device_desc *desc)
{
    int64_t kind = kind_of(desc);
    clt_hash64_state state;
    clt_hash64_begin(&state);
    clt_hash64_add(&state, &kind, sizeof kind);
    clt_hash64_add(&state, &desc->caps, sizeof desc->caps);
    clt_hash64_add(&state, &desc->compute_units, sizeof desc->compute_units);
    for (int i = 0; i < desc->n_given_up; i++) {
        int number = clt_variant_number(desc->given_up[i].variant);
        clt_hash64_add(&state, &number, sizeof number);
        clt_hash64_add(&state, desc->given_up[i].form, strlen(desc->given_up[i].form));
    }
    return (int64_t)(clt_hash64_end(&state) >> 1);
}

/* *variants: hash of the variants that add up rows of embeddings on this device; each has its own order. */
static clt_status rows_of(const ocl_device_desc *desc, int64_t *variants)
{
    int count;
    const clt_op *const *ops = clt_op_list(&count);
    clt_hash64_state state;
    clt_hash64_begin(&state);
    for (int i = 0; i < count; i++) {
        const ocl_variant *variant;
        if (!(ops[i]->flags & CLT_OP_ROWS))
            continue;
        CLT_TRY(ocl_family_choose(&ops[i]->backward, NULL, desc, ops[i]->name, NULL, &variant));
        int number = clt_variant_number(variant);
        clt_hash64_add(&state, &number, sizeof number);
    }
    *variants = (int64_t)(clt_hash64_end(&state) >> 1);
    return CLT_OK;
}

/* The numbers that ranks exchange before they plan. Each row is one number of every rank; all ranks learn
 * its least and its greatest value. */
#define FACTS(X)                                                                                             \
    X(ITEMS, clt_update_items(desc)) /* work-items of a work-group of the update; 0: none is used */         \
    X(KIND, kind_of(desc))           /* hash of platform, device and driver */                               \
    X(EXACT, desc->rounds_correctly) /* divisions and square roots are correctly rounded */                  \
    X(UNITS, desc->compute_units)    /* compute units, which decide how sums are divided */                  \
    X(CHOICE, choice_of(desc))       /* hash of what chooses the kernels of products */                      \
    X(ROWS, rows)                    /* hash of the variants that add up rows of embeddings */               \
    X(BUFFER, buffer)                /* bytes of the largest buffer */
#define FACT_NAME(name, value) name,
#define FACT_VALUE(name, value) (int64_t)(value),
enum { FACTS(FACT_NAME) FACT_COUNT };

/* Collective. least, greatest: of each fact over all ranks. */
static clt_status tell_facts(clt_run *run, int64_t least[FACT_COUNT], int64_t greatest[FACT_COUNT])
{
    const ocl_device_desc *desc = &run->tuned->desc;
    const uint64_t buffer = desc->max_alloc_bytes & INT64_MAX;
    int64_t rows, told[2 * FACT_COUNT];
    CLT_TRY(rows_of(desc, &rows));
    const int64_t mine[] = {FACTS(FACT_VALUE)};
    for (int i = 0; i < FACT_COUNT; i++) {
        told[i] = mine[i];
        told[FACT_COUNT + i] = -mine[i];
    }
    CLT_TRY(comm_all_reduce(run->options->comm, told, 2 * FACT_COUNT, COMM_I64, COMM_MIN));
    for (int i = 0; i < FACT_COUNT; i++) {
        least[i] = told[i];
        greatest[i] = -told[FACT_COUNT + i];
    }
    return CLT_OK;
}

clt_status clt_agree_on_update(clt_run *run, bool *changed)
{
    const clt_config *config = run->options->config;
    clt_update_order order = {0};
    int64_t least[FACT_COUNT], most[FACT_COUNT];
    *changed = false;
    if (run->ranks.ranks <= 1)
        return CLT_OK;
    CLT_TRY(tell_facts(run, least, most));
    run->tuned->desc.max_alloc_bytes = (uint64_t)least[BUFFER]; /* all ranks cut arenas into the same slabs */
    bool kinds = least[KIND] != most[KIND];
    if (kinds && clt_config_bool(config, "parallel.rank_invariant"))
        CLT_FAIL(CLT_ERANKS,
                 "parallel.rank_invariant: the ranks' devices or drivers are of different kinds, so "
                 "their sums may round differently");
    run->kinds_differ = kinds;
    order.dense = least[ROWS] != most[ROWS];
    if (order.dense && clt_config_choice(config, "parallel.embeddings") == CLT_EMBEDDINGS_ROWS)
        CLT_FAIL(CLT_ERANKS, "parallel.embeddings=rows: the ranks' devices would add up rows in different "
                             "orders; use auto or dense");
    bool differ = kinds || least[ITEMS] != most[ITEMS];
    if (differ || least[UNITS] != most[UNITS]) /* otherwise rank 0's tuning records hold for all */
        order.items = (uint32_t)least[ITEMS];
    order.exact = differ && least[EXACT] != 0;
    order.plain = run->job->update.optimizer->orthogonalise && least[CHOICE] != most[CHOICE];
    if (kinds && !order.exact && run->job->update.spike.action == CLT_SPIKE_SKIP)
        CLT_FAIL(CLT_ERANKS,
                 "train.on_spike=skip: the ranks' devices are of different kinds and round differently, so "
                 "they might not skip the same updates; use warn");
    *changed = memcmp(&order, &run->order, sizeof order) != 0;
    run->order = order;
    return CLT_OK;
}
