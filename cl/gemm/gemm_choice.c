/* SPDX-License-Identifier: Apache-2.0
 *
 * Which GEMM backend takes a problem, and with which values of its tunables: a forced one, one that the
 * environment prefers, the one of a tuning record, or what is known to be good for the kind of device. It
 * must not know how any backend works, only what their own models of the time say. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/gemm/gemm_mma.h"
#include "cl/gemm/gemm_wgmma.h"
#include "cl/tune/tuning.h"
#include "engine/base/log.h"

/* A shared B under stacked rows of A and C is one taller GEMM. */
static void fold_batch(ocl_gemm *g)
{
    bool stacked = g->stride_a == g->m * g->lda && g->stride_c == g->m * g->ldc;
    if (g->batch > 1 && !g->ta && g->stride_b == 0 && stacked && g->m * g->batch <= INT32_MAX) {
        g->m *= g->batch;
        g->batch = 1;
    }
    if (g->batch == 1)
        g->stride_a = g->stride_b = g->stride_c = 0;
}

/* Problems */

/* What a choice depends on, as words (cl/tune/tuning.h compares them): layout, sizes, types; with '+' what is
 * added and how the operands lie. */
const char *ocl_gemm_problem(const ocl_gemm *g, char *buffer, size_t size)
{
    bool dense = g->lda == (g->ta ? g->m : g->k) && g->ldb == (g->tb ? g->k : g->n) && g->ldc == g->n;
    snprintf(buffer, size, "%c%c m=%lld n=%lld k=%lld batch=%lld %s*%s->%s%s%s%s%s%s%s%s%s%s",
             g->ta ? 'T' : 'N', g->tb ? 'T' : 'N', (long long)g->m, (long long)g->n, (long long)g->k,
             (long long)g->batch, clt_dtype_name(g->type_a), clt_dtype_name(g->type_b),
             clt_dtype_name(g->type_c), g->beta != 0.0f ? " +add" : "",
             g->bias.tensor != OCL_NO_TENSOR_ID ? " +bias" : "", ocl_gemm_activation_text(g),
             g->pre.tensor != OCL_NO_TENSOR_ID ? " +pre" : "",
             g->dact.tensor != OCL_NO_TENSOR_ID ? " +dact" : "",
             g->residual.tensor != OCL_NO_TENSOR_ID ? " +residual" : "", dense ? "" : " +strided",
             g->batch > 1 && g->stride_b == 0 ? " +shared" : "", g->tf32 ? " +tf32" : "");
    return buffer;
}

clt_status ocl_gemm_log(ocl_tuning_log *log, const ocl_gemm *gemm, const ocl_choice *record)
{
    char problem[OCL_TUNE_PROBLEM];
    ocl_gemm g = *gemm;
    if (log == NULL || g.m == 0 || g.n == 0)
        return CLT_OK;
    fold_batch(&g);
    ocl_gemm_problem(&g, problem, sizeof problem);
    return ocl_tuning_log_add(log, OCL_GEMM_FAMILY, problem, &g, sizeof g, ocl_gemm_flops(&g), record);
}

/* Choosing */

static const ocl_variant *named(const char *name)
{
    for (size_t i = 0; ocl_gemm_variants[i] != NULL; i++)
        if (strcmp(ocl_gemm_variants[i]->name, name) == 0)
            return ocl_gemm_variants[i];
    return NULL;
}

/* Both have the same units, and `mma` has smaller tiles for small products. */
static bool prefers_wgmma(const ocl_gemm *g, const ocl_device_desc *device)
{
    char reason[160];
    return ocl_variant_accepts(&ocl_gemm_wgmma, g, device, reason, sizeof reason) &&
           (!ocl_variant_accepts(&ocl_gemm_mma, g, device, reason, sizeof reason) ||
            ocl_form_time(&ocl_wgmma_family, g, device) < ocl_form_time(&ocl_mma_family, g, device));
}

/* On a GPU CLBlast serves only by a tuning record. Its calls cost the host 10 to 50 us and the device
 * temporary copies, its epilogue is one more pass over C, batches are a call per item, below 1280^3 or so it
 * takes a kernel with tiles of 16 x 16 or 32 x 32 on NVIDIA devices, and a device that it has no parameters
 * for (all of compute capability 9.0) gets tiles of 16 x 32: `tile` is the safer choice until the tuner has
 * compared.
 *
 * On CPUs `simple` takes what `lane` refuses: on PoCL it runs 3 to 15 times as fast as CLBlast
 * with the parameters that CLBlast has for CPUs (100 to 290 against 15 to 50 GFLOP/s at 512^3 on 2 cores). */
static const char *device_prefers(const ocl_gemm *g, const ocl_device_desc *device)
{
    char reason[160];
    const ocl_variant *lane = named("lane"), *mma = named("mma"), *tile = named("tile");
    if (!ocl_prefers_lanes(device)) {
        if (prefers_wgmma(g, device))
            return "wgmma";
        if (ocl_variant_accepts(mma, g, device, reason, sizeof reason))
            return "mma";
        if (ocl_variant_accepts(tile, g, device, reason, sizeof reason))
            return "tile";
        return "simple";
    }
    return lane != NULL && ocl_variant_accepts(lane, g, device, reason, sizeof reason) ? "lane" : "simple";
}

clt_status ocl_gemm_standard(const ocl_gemm *g, const ocl_device_desc *device, const char *what,
                             const ocl_variant **out)
{
    clt_status status =
        ocl_variant_select(ocl_gemm_variants, g, device, what, device_prefers(g, device), out);
    if (status == CLT_OK)
        return CLT_OK;
    clt_error_clear();
    return ocl_variant_select(ocl_gemm_variants, g, device, what, NULL, out);
}

const char *ocl_gemm_preferred(void)
{
    const char *name = getenv("CLTRAIN_GEMM");
    return name != NULL && name[0] != '\0' ? name : NULL;
}

/* The environment states a preference: a problem that the preferred backend refuses goes on as usual. */
static clt_status choose_preferred(const ocl_gemm *g, const ocl_device_desc *device, const char *what,
                                   const ocl_variant **out)
{
    const char *preferred = ocl_gemm_preferred();
    *out = NULL;
    if (preferred == NULL)
        return CLT_OK;
    clt_status status = ocl_variant_select(ocl_gemm_variants, g, device, what, preferred, out);
    if (status == CLT_OK)
        return CLT_OK;
    if (named(preferred) == NULL)
        return clt_fail_prefix(status, "environment variable CLTRAIN_GEMM=%s: ", preferred);
    clt_error_clear();
    return CLT_OK;
}

typedef struct choice {
    const ocl_variant *variant;
    const ocl_choice *record; /* its values are in force; NULL: the variant decides */
} choice;

/* A record serves when nothing stronger chose another variant and when it can be used; on its own otherwise
 * it is ignored. */
static void apply_record(const ocl_gemm *g, const ocl_device_desc *device, const char *what,
                         const ocl_choice *record, choice *c)
{
    char reason[256];
    if (record == NULL || (c->variant != NULL && strcmp(c->variant->name, record->variant) != 0))
        return;
    const ocl_variant *variant =
        ocl_choice_variant(record, ocl_gemm_variants, g, device, reason, sizeof reason);
    if (variant == NULL) {
        CLT_DEBUG("%s: the tuning record of '%s' is ignored: %s", what, record->problem, reason);
        return;
    }
    c->variant = variant;
    c->record = record;
}

/* force and the environment are stronger than a record, a record is stronger than what the device prefers. */
static clt_status choose(const ocl_gemm *g, const ocl_device_desc *device, const char *what,
                         const char *force, const ocl_choice *record, choice *c)
{
    *c = (choice){0};
    if (force != NULL)
        CLT_TRY(ocl_variant_select(ocl_gemm_variants, g, device, what, force, &c->variant));
    else
        CLT_TRY(choose_preferred(g, device, what, &c->variant));
    apply_record(g, device, what, record, c);
    return c->variant != NULL ? CLT_OK : ocl_gemm_standard(g, device, what, &c->variant);
}

/* Emitting */

static clt_status emit_with(ocl_emitter *e, const ocl_gemm *g, const choice *c)
{
    const char *outer = e->variant;
    const ocl_variant *outer_made_by = e->made_by;
    const char *outer_form = e->form;
    const ocl_choice *outer_record = e->record;
    e->variant = c->variant->name;
    e->made_by = c->variant;
    e->form = NULL;
    e->record = c->record;
    clt_status status = c->variant->emit(e, g);
    e->variant = outer;
    e->made_by = outer_made_by;
    e->form = outer_form;
    e->record = outer_record;
    return status;
}

/* The candidate that the tuner is looking at: that and nothing else. */
static clt_status emit_trial(ocl_emitter *e, const ocl_gemm *g, const char *what, const ocl_choice *record)
{
    char reason[256];
    choice c = {.record = record};
    c.variant = ocl_choice_variant(record, ocl_gemm_variants, g, e->device, reason, sizeof reason);
    if (c.variant == NULL)
        CLT_FAIL(CLT_EUNSUPPORTED, "trying a variant for %s: %s", what, reason);
    return emit_with(e, g, &c);
}

static clt_status emit_chosen(ocl_emitter *e, const ocl_gemm *g, const char *what, const char *force)
{
    char problem[OCL_TUNE_PROBLEM];
    choice c;
    ocl_gemm_problem(g, problem, sizeof problem);
    const ocl_choice *record = ocl_tuning_find(e->device->tuning, OCL_GEMM_FAMILY, problem);
    size_t before = e->list->count;
    CLT_TRY(choose(g, e->device, what, force, record, &c));
    clt_status status = emit_with(e, g, &c);
    if (status == CLT_EUNSUPPORTED && c.record != NULL && e->status == CLT_OK && e->list->count == before) {
        CLT_DEBUG("%s: the tuning record of '%s' is ignored: %s", what, record->problem, clt_error_text());
        clt_error_clear();
        CLT_TRY(choose(g, e->device, what, force, NULL, &c));
        status = emit_with(e, g, &c);
    }
    CLT_TRY(status);
    return ocl_gemm_log(e->log, g, c.record);
}

clt_status ocl_gemm_emit(ocl_emitter *e, const ocl_gemm *gemm, const char *force)
{
    char what[OCL_GEMM_TEXT];
    clt_status status = ocl_emit_status(e);
    if (status != CLT_OK)
        return status;
    status = ocl_gemm_check(gemm);
    if (status == CLT_OK && (gemm->m == 0 || gemm->n == 0))
        return CLT_OK;
    if (status == CLT_OK) {
        ocl_gemm g = *gemm;
        fold_batch(&g);
        g.tf32 = (g.tf32 || e->tf32) && g.type_a == CLT_F32 && g.type_b == CLT_F32;
        ocl_gemm_text(&g, what, sizeof what);
        bool trial = e->record != NULL && strcmp(e->record->family, OCL_GEMM_FAMILY) == 0;
        status = trial ? emit_trial(e, &g, what, e->record) : emit_chosen(e, &g, what, force);
    }
    ocl_emit_fail(e, status);
    return ocl_emit_status(e);
}
