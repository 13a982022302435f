/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of forms that GEMM backends would not choose for a case: each of their tiles, matrix units of other
 * generations and types, parts of k, stream-k. It does not know how a result is judged. */
#include <stdio.h>
#include <string.h>

#include "cl/backends/gemm_mma.h"
#include "cl/backends/gemm_tile.h"
#include "cl/backends/gemm_wgmma.h"
#include "engine/verify/cases/verify_gemm_run.h"

/* Checks the case in exactly this form. split: parts of k or, negative, stream-k. */
static clt_status check_form(clt_verify_session *session, const clt_gemm_case *c,
                             const ocl_form_family *family, const ocl_gemm_form *form, int split,
                             const char *label)
{
    ocl_choice choice;
    CLT_TRY(ocl_form_record(family, form, split, &choice));
    return clt_gemm_check_modes(session, c, label, family->variant, &choice);
}

/* Checks tiles of the backend `tile` that it would not choose for a problem of this size, every second one
 * with split-K in two parts. */
static clt_status check_tile_forms(clt_verify_session *session, const clt_gemm_case *c)
{
    for (int i = 0; ocl_tile_forms[i].bm; i++) {
        const ocl_gemm_form *f = &ocl_tile_forms[i];
        char label[64];
        int splits = 1 + (i + c->ta) % 2;
        snprintf(label, sizeof label, "tile_%dx%dx%d_%dx%d_k%d", f->bm, f->bn, f->bk, f->pm, f->pn, splits);
        CLT_TRY(check_form(session, c, &ocl_tile_family, f, splits, label));
    }
    return CLT_OK;
}

/* Checks blocks of the backend `lane` that it would not choose for a problem of this size or on this device:
 * several micro-panels and several blocks of k, with operand A packed or not, depending on the height of
 * tiles. */
static clt_status check_lane_forms(clt_verify_session *session, const clt_gemm_case *c)
{
    enum { MR, NV, KC, MT, NT, PACK_A, VALUES };
    static const char *const names[VALUES] = {"mr", "nv", "kc", "mt", "nt", "pack_a"};
    /* the first two are small: one for plain A, one for its transpose */
    static const int forms[][VALUES] = {{6, 1, 192, 8, 8, 0},  {6, 1, 192, 8, 4, 1},  {8, 2, 192, 8, 4, 0},
                                        {12, 1, 256, 8, 8, 1}, {14, 2, 192, 8, 4, 1}, {8, 3, 256, 8, 4, 1}};
    bool windows = clt_gemm_has_windows(c);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        ocl_choice choice = {.family = OCL_GEMM_FAMILY, .variant = "lane"};
        const int *v = forms[i];
        clt_gemm_case form = *c;
        char label[64];
        /* only every second form of a layout, since compiling takes most of the time */
        if (!windows && (i + c->ta + c->tb) % 2 != 0)
            continue;
        form.small = windows ? i == 0 : i == c->ta && !c->tb;
        snprintf(label, sizeof label, "lane_%dx%d_kc%d_%dx%d%s", v[MR], v[NV], v[KC], v[MT], v[NT],
                 v[PACK_A] ? "_packed" : "");
        for (int k = 0; k < VALUES; k++)
            CLT_TRY(ocl_choice_set(&choice, names[k], v[k]));
        CLT_TRY(clt_gemm_check_modes(session, &form, label, &ocl_gemm_lane, &choice));
    }
    return CLT_OK;
}

static clt_status check_mma_form(clt_verify_session *session, const clt_gemm_case *c, ocl_gemm_form f,
                                 int splits)
{
    const char *type = c->tf32 ? "tf32" : clt_dtype_name(c->type[0]);
    char label[80];
    f.bk = c->tf32 ? f.bk / 2 : f.bk;
    snprintf(label, sizeof label, "mma_%s_sm%d_%dx%dx%d_%dx%d_s%d_k%d", type, f.sm, f.bm, f.bn, f.bk, f.pm,
             f.pn, f.stages, splits);
    return check_form(session, c, &ocl_mma_family, &f, splits, label);
}

/* Checks the instructions of an older generation, in their smallest tile. */
static clt_status check_mma_generation(clt_verify_session *session, const clt_gemm_case *c, int sm)
{
    const ocl_gemm_form smallest = {.bm = 32, .bn = 32, .bk = 32, .pm = 16, .pn = 16, .stages = 2, .sm = sm};
    clt_gemm_case older = *c;
    char label[32];
    older.small = false;
    snprintf(label, sizeof label, "mma_f16_sm%d", sm);
    return check_form(session, &older, &ocl_mma_family, &smallest, 1, label);
}

/* Checks every tile of the unit, each with one of its types. */
static clt_status check_mma_tiles(clt_verify_session *session, const clt_gemm_case *c, int turn)
{
    for (int i = 0; ocl_mma_forms[i].bm; i++) {
        ocl_gemm_form f = ocl_mma_forms[i];
        int splits = 1 + (i / 2 + c->ta) % 2;
        f.sm = 80;
        if (i % 3 == turn)
            CLT_TRY(check_mma_form(session, c, f, splits));
        for (f.sm = 75; c->type[0] == CLT_F16 && f.stages == 2 && f.sm >= 70; f.sm -= 5)
            CLT_TRY(check_mma_form(session, c, f, 3 - splits));
    }
    return CLT_OK;
}

/* Checks tf32 with a smallest tile that one warp computes alone, in the layout in which the rows of both
 * operands in memory are steps of k. No standard form is like this, but a tuning record may contain one. */
static clt_status check_mma_whole(clt_verify_session *session, const clt_gemm_case *c)
{
    const ocl_gemm_form whole = {.bm = 32, .bn = 32, .bk = 32, .pm = 32, .pn = 32, .stages = 2, .sm = 80};
    clt_gemm_case small = *c;
    if (!c->tf32 || strcmp(c->name, "columns_tn") != 0)
        return CLT_OK;
    small.small = true;
    return check_mma_form(session, &small, whole, 1);
}

/* Checks the case, whose type is number `turn` of the unit, with the instructions of older generations and
 * with each tile. */
static clt_status check_mma_forms(clt_verify_session *session, const clt_gemm_case *c, int turn)
{
    CLT_TRY(check_mma_whole(session, c));
    for (int sm = 75; c->type[0] == CLT_F16 && sm >= 70; sm -= 5)
        CLT_TRY(check_mma_generation(session, c, sm));
    return c->forms ? check_mma_tiles(session, c, turn) : CLT_OK;
}

/* Enlarges the case: several tiles in each direction, and more steps of k than any tile has pipeline
 * slots. */
static clt_gemm_case several_tiles(const clt_gemm_case *c)
{
    clt_gemm_case tiles = *c;
    tiles.m = clt_gemm_has_windows(c) && c->ta ? 200 : 201; /* rows of A and of B are aligned */
    tiles.n = clt_gemm_has_windows(c) && !c->tb ? 336 : 331;
    tiles.k = 390;
    tiles.windows.n *= 3;
    return tiles;
}

/* Checks every tile of the unit, each with one of its types. */
static clt_status check_wgmma_tiles(clt_verify_session *session, const clt_gemm_case *c, int turn)
{
    clt_gemm_case tiles = several_tiles(c);
    for (int i = 0; ocl_wgmma_forms[i].bm; i++) {
        const ocl_gemm_form *f = &ocl_wgmma_forms[i];
        int splits = 1 + (i / 2 + c->ta) % 2;
        char label[80];
        snprintf(label, sizeof label, "wgmma_%s_%dx%d_s%d_k%d", clt_dtype_name(c->type[0]), f->bm, f->bn,
                 f->stages, splits);
        if ((i + c->tb) % 2 == turn)
            CLT_TRY(check_form(session, &tiles, &ocl_wgmma_family, f, splits, label));
    }
    return CLT_OK;
}

/* Cases for stream-k, with the number of compute units for which each is planned. If there are more tiles
 * than units, or a few more groups than tiles, a group gets parts of three or more tiles. In the case
 * deep_tiles, which has one tile, each step of k gets its own group. */
static const struct {
    const char *name;
    clt_dtype type;
    int units, bm, bn, stages;
} streams[] = {{"tails_nn", CLT_BF16, 5, 64, 64, 4},          {"tails_nt", CLT_F16, 7, 64, 128, 2},
               {"tails_tn", CLT_BF16, 5, 128, 256, 4},        {"tails_tt", CLT_F16, 3, 192, 256, 4},
               {"tails_tn", CLT_F16, 29, 64, 64, 2},          {"large_batch", CLT_BF16, 3, 128, 128, 3},
               {"large_batch", CLT_F16, 3, 64, 64, 2},        {"deep_tiles", CLT_F16, 13, 64, 128, 2},
               {"everything", CLT_BF16, 2, 64, 64, 2},        {"vectors_everything", CLT_F16, 1, 64, 64, 2},
               {"moments_f16", CLT_F16, 2, 64, 64, 2},        {"line_sums_bf16", CLT_BF16, 7, 64, 64, 2},
               {"line_sums_bf16", CLT_BF16, 11, 192, 256, 4}, {"line_sums_added", CLT_F16, 5, 64, 64, 2},
               {"line_sums_forms", CLT_BF16, 5, 64, 128, 2},  {"line_sums_forms", CLT_BF16, 3, 192, 256, 4},
               {"windows_forms_nt", CLT_F16, 5, 128, 64, 2},  {"windows_forms_tn", CLT_BF16, 7, 64, 128, 2}};

static clt_status check_wgmma_streams(clt_verify_session *session, const clt_gemm_case *c)
{
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
        const ocl_gemm_form form = {.bm = streams[i].bm, .bn = streams[i].bn, .stages = streams[i].stages};
        clt_gemm_case streamed = c->forms ? several_tiles(c) : *c;
        char label[80];
        if (strcmp(streams[i].name, c->name) != 0 || streams[i].type != c->type[0])
            continue;
        streamed.units = streams[i].units;
        snprintf(label, sizeof label, "wgmma_%s_%dx%d_s%d_stream%d", clt_dtype_name(c->type[0]),
                 streams[i].bm, streams[i].bn, streams[i].stages, streams[i].units);
        CLT_TRY(check_form(session, &streamed, &ocl_wgmma_family, &form, -1, label));
    }
    return CLT_OK;
}

static clt_status check_wgmma_forms(clt_verify_session *session, const clt_gemm_case *c, int turn)
{
    clt_gemm_case large = *c;
    large.small = false;
    CLT_TRY(check_wgmma_streams(session, &large));
    return c->forms ? check_wgmma_tiles(session, &large, turn) : CLT_OK;
}

/* Checks forms of the unit that it would not choose for the case, which has the unit's type number `turn`. */
typedef clt_status (*forms_check)(clt_verify_session *session, const clt_gemm_case *c, int turn);
static const forms_check forms_checks[] = {
#define OCL_UNIT(name, caps) check_##name##_forms,
#include "cl/device/matrix_units.def"
};

/* True if a check with the unit's type number t counts as small. Only some combinations do, since compiling
 * takes most of the time. */
static bool is_small(const ocl_matrix_unit *unit, const clt_gemm_case *c, int t, const char *label)
{
    if (!unit->emulated)
        return clt_gemm_has_windows(c) || c->ta == t % 2;
    if (clt_gemm_has_windows(c))
        return c->unit && strcmp(c->unit, label) == 0;
    return c->form == FORM_ALIGNED ||
           (c->form == FORM_PADDED && c->ta == t % 2 && (t < 2 || strncmp(c->name, "odd", 3) == 0));
}

/* The backend of a matrix unit needs operands of equal type: checks the case with each type that the unit
 * multiplies. A unit that needs rows at multiples of 16 bytes gets rows padded to that. */
static clt_status check_unit(clt_verify_session *session, const clt_gemm_case *c, const ocl_matrix_unit *unit,
                             forms_check check_forms)
{
    bool dense = c->form == FORM_TIGHT && (c->m | c->n | c->k) % 8 == 0;
    if (!unit->emulated && (session->desc.caps & unit->need) == 0)
        return CLT_OK;
    for (int t = 0; unit->types[t].name != NULL; t++) {
        clt_gemm_case narrow = *c;
        char label[32];
        snprintf(label, sizeof label, "%s_%s", unit->name, unit->types[t].name);
        narrow.type[0] = narrow.type[1] = unit->types[t].type;
        narrow.tf32 = unit->types[t].type == CLT_F32;
        if (!unit->any_layout && !dense && (c->form == FORM_TIGHT || c->form == FORM_PADDED))
            narrow.form = FORM_ALIGNED;
        narrow.small = c->small && is_small(unit, c, t, label);
        CLT_TRY(clt_gemm_check_modes(session, &narrow, label, unit->products->variant, NULL));
        CLT_TRY(check_forms(session, &narrow, t));
    }
    return CLT_OK;
}

clt_status clt_gemm_check_forms(clt_verify_session *session, const clt_gemm_case *c)
{
    for (int u = 0; ocl_matrix_units[u] != NULL; u++)
        CLT_TRY(check_unit(session, c, ocl_matrix_units[u], forms_checks[u]));
    if (c->forms)
        CLT_TRY(check_tile_forms(session, c));
    return c->lane_forms ? check_lane_forms(session, c) : CLT_OK;
}
