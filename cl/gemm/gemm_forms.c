/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses a form: tries every standard form, with the wanted values in place of its own, and every number of
 * parts of k, and chooses the cheapest by the backend's cost model. Then emits the commands of that form.
 * All backends with forms share this code, so that wanted values, tuning records, splits and refusals mean
 * the same in each. This file must not know how a kernel multiplies. */
#include "cl/gemm/gemm_forms.h"

#include "cl/command/fallback.h"
#include "cl/gemm/gemm_windows.h"

#include <math.h>
#include <stdio.h>

/* The largest workspace for partial sums of split-K or stream-k, in floats. */
#define MAX_PART_FLOATS (UINT64_C(1) << 24)

static const int split_counts[] = {OCL_SPLIT_COUNTS}, stream_counts[] = {OCL_STREAM_COUNTS};

/* --- arithmetic of forms --- */

int64_t ocl_form_up(int64_t size, int64_t tile)
{
    return (size + tile - 1) / tile;
}

bool ocl_form_is_partial(const ocl_gemm_form *f)
{
    return f->splits > 1 || f->stream > 0;
}

static int64_t tiles_of(const ocl_gemm *g, const ocl_gemm_form *f)
{
    return ocl_form_up(g->m, f->bm) * ocl_form_up(g->n, f->bn) * g->batch;
}

/* Computes the shares of the groups that share the rest of all tiles, given s->part_steps. The loop has no
 * divisions, because forms are compared often. */
static void share_rest(ocl_form_shares *s)
{
    int64_t rest = s->steps - s->own_parts * s->part_steps, in_tile = 0;
    s->other_steps = s->of_tiles = 0;
    s->pairs = s->tiles * s->own_parts;
    if (s->others == 0 || rest <= 0)
        return;
    int64_t share = s->tiles * rest / s->others, longer = s->tiles * rest - share * s->others;
    int64_t whole = share / rest, over = share - whole * rest;
    s->other_steps = share + (longer > 0);
    for (int64_t x = 0; x < s->others && (share > 0 || x < longer); x++) {
        in_tile += over + (x < longer);
        int64_t tiles = whole + (in_tile > 0) + (in_tile > rest);
        in_tile -= in_tile >= rest ? rest : 0;
        s->pairs += tiles;
        s->of_tiles = tiles > s->of_tiles ? tiles : s->of_tiles;
    }
}

/* Gives all groups about equal work. Each further tile costs a group about as much as one step, for its
 * sums. So own parts become longer by that much where it helps. */
void ocl_form_shares_of(const ocl_gemm *g, const ocl_gemm_form *f, ocl_form_shares *out)
{
    ocl_form_shares s = {.tiles = tiles_of(g, f), .steps = ocl_form_up(g->k, f->bk)};
    int64_t all = s.tiles * s.steps;
    s.own_parts = f->groups / s.tiles;
    s.others = f->groups - s.own_parts * s.tiles;
    s.part_steps = s.own_parts > 0 ? ocl_form_up(all, f->groups) : 0;
    if (s.own_parts > ocl_form_up(s.steps, s.part_steps > 0 ? s.part_steps : 1))
        s.own_parts = ocl_form_up(s.steps, s.part_steps);
    if (s.own_parts * s.part_steps >= s.steps)
        s.others = 0;
    share_rest(&s);
    while (s.own_parts > 0 && s.part_steps < s.other_steps + s.of_tiles - 1 &&
           s.own_parts * (s.part_steps + 1) < s.steps) {
        s.part_steps++;
        share_rest(&s);
    }
    s.slots = s.tiles * s.own_parts + (s.others > 0 ? s.tiles + s.others - 1 : 0);
    *out = s;
}

uint64_t ocl_form_groups(const ocl_gemm *g, const ocl_gemm_form *f)
{
    ocl_form_shares s;
    if (f->stream == 0)
        return (uint64_t)tiles_of(g, f) * (uint64_t)f->splits;
    ocl_form_shares_of(g, f, &s);
    return (uint64_t)(s.tiles * s.own_parts + s.others);
}

uint64_t ocl_form_workspace(const ocl_gemm *g, const ocl_gemm_form *f)
{
    ocl_form_shares s;
    if (f->stream == 0)
        return f->splits > 1 ? (uint64_t)(g->m * g->n) * (uint64_t)g->batch * (uint64_t)f->splits : 0;
    ocl_form_shares_of(g, f, &s);
    return (uint64_t)s.slots * (uint64_t)(f->bm * f->bn);
}

int64_t ocl_form_part_steps(const ocl_gemm *g, const ocl_gemm_form *f)
{
    return ocl_form_up(ocl_form_up(g->k, f->splits), f->bk) * f->bk;
}

int ocl_form_max_items(const ocl_device_desc *device)
{
    uint64_t limit = device->caps & OCL_CAP_WG256 ? 256 : 64;
    return (int)(ocl_group_limit(device) < limit ? ocl_group_limit(device) : limit);
}

uint64_t ocl_form_room(const ocl_form_family *family, const ocl_device_desc *device)
{
    uint64_t room = ocl_desc_max_local(device, family->retargeted), most = device->local_argument_bytes;
    bool more = family->local_bytes != NULL && most > room + family->local_alignment;
    return more ? most - family->local_alignment : room;
}

/* The byte offset, whose low bits decide the alignment; 0 without a tensor. */
static uint64_t low_bits(ocl_tensor_ref ref)
{
    return ocl_given(ref) ? ref.offset : 0;
}

int ocl_form_vector(const ocl_gemm *g, const ocl_gemm_form *f)
{
    uint64_t bytes = clt_dtype_bytes(g->type_c), stride = g->batch > 1 ? (uint64_t)g->stride_c : 0;
    if (ocl_form_is_partial(f))
        return f->stream > 0 || g->n % 4 == 0 ? 4 : 1;
    uint64_t places = low_bits(g->c) | low_bits(g->residual) | low_bits(g->pre) | low_bits(g->dact) |
                      low_bits(g->bias) | (uint64_t)g->ldc * bytes | stride * bytes;
    return places % 16 == 0 ? (int)(16 / bytes) : 1;
}

/* Choice */

static int *value(ocl_gemm_form *f, const ocl_form_key *key)
{
    return (int *)(void *)((char *)f + key->offset);
}

static int value_of(const ocl_gemm_form *f, const ocl_form_key *key)
{
    return *(const int *)(const void *)((const char *)f + key->offset);
}

/* "bm=64 bn=64 bk=16 ...": the values that the program depends on, without numbers of parts or groups. */
static const char *form_text(const ocl_form_family *family, const ocl_gemm_form *f, char text[OCL_FORM_TEXT])
{
    size_t at = 0;
    text[0] = '\0';
    for (const ocl_form_key *key = family->keys; key->name != NULL && at < OCL_FORM_TEXT; key++)
        at += (size_t)snprintf(text + at, OCL_FORM_TEXT - at, "%s%s=%d", at ? " " : "", key->name,
                               value_of(f, key));
    if (f->stream > 0 && at < OCL_FORM_TEXT)
        snprintf(text + at, OCL_FORM_TEXT - at, " stream");
    return text;
}

bool ocl_form_is_given_up(const ocl_form_family *family, const ocl_device_desc *device,
                          const ocl_gemm_form *f)
{
    char text[OCL_FORM_TEXT];
    return device->n_given_up > 0 && ocl_is_given_up(device, family->variant, form_text(family, f, text));
}

/* Whether k can be divided into `splits` parts: each must have steps to add. */
static bool splits_possible(const ocl_gemm *g, const ocl_gemm_form *f, int splits)
{
    ocl_gemm_form split = *f;
    split.splits = splits;
    return splits == 1 || (ocl_form_workspace(g, &split) <= MAX_PART_FLOATS &&
                           (splits - 1) * ocl_form_part_steps(g, &split) < g->k);
}

typedef struct best_form {
    bool found;
    double time;
    ocl_gemm_form form;
} best_form;

/* Whether the workspace is small enough and the kernel can count steps in 32 bits. */
static bool stream_possible(const ocl_gemm *g, const ocl_gemm_form *f)
{
    return g->k > 0 && g->k <= INT32_MAX - f->bk && tiles_of(g, f) > 0 &&
           tiles_of(g, f) <= INT32_MAX / ocl_form_up(g->k, f->bk) &&
           ocl_form_workspace(g, f) <= MAX_PART_FLOATS;
}

/* Tries every number of work-groups per compute unit for stream-k, or only the wanted one. */
static void try_streams(const ocl_form_family *family, const ocl_gemm *g, const ocl_device_desc *device,
                        int wanted, const ocl_gemm_form *form, best_form *best)
{
    ocl_gemm_form f = *form;
    f.splits = f.stream = 1;
    if (!family->streams || ocl_form_is_given_up(family, device, &f))
        return;
    for (size_t s = 0; s < sizeof stream_counts / sizeof stream_counts[0]; s++) {
        f.stream = -stream_counts[s];
        f.groups = f.stream * (int)(device->compute_units ? device->compute_units : 1);
        bool short_shares = tiles_of(g, &f) * g->k / f.groups < family->min_part;
        if ((wanted ? f.stream != wanted : short_shares) || !stream_possible(g, &f))
            continue;
        double time = family->cost(g, device, &f);
        if (!best->found || time < best->time)
            *best = (best_form){true, time, f};
    }
}

/* Tries every number of parts for split-K, or only the wanted one. */
static void try_splits(const ocl_form_family *family, const ocl_gemm *g, const ocl_device_desc *device,
                       int wanted_splits, const ocl_gemm_form *form, best_form *best)
{
    ocl_gemm_form f = *form;
    if (ocl_form_is_given_up(family, device, &f))
        return;
    for (size_t s = 0; s < sizeof split_counts / sizeof split_counts[0]; s++) {
        int splits = split_counts[s];
        if (wanted_splits ? splits != wanted_splits : splits > 1 && g->k / splits < family->min_part)
            continue;
        if (!splits_possible(g, &f, splits))
            continue;
        f.splits = splits;
        double time = family->cost(g, device, &f);
        if (!best->found || time < best->time)
            *best = (best_form){true, time, f};
    }
}

/* The value of "split" in tuning records. */
static int split_value(const ocl_gemm_form *f)
{
    return f->stream > 0 ? -f->stream : f->splits;
}

static void refuse(const ocl_form_family *family, const ocl_device_desc *device, const ocl_gemm_form *wanted,
                   char *reason, size_t size)
{
    size_t at = 0;
    for (const ocl_form_key *key = family->keys; key->name != NULL && at < size; key++)
        if (value_of(wanted, key) != 0)
            at += (size_t)snprintf(reason + at, size - at, "%s=%d ", key->name, value_of(wanted, key));
    if ((wanted->splits != 0 || wanted->stream != 0) && at < size)
        at += (size_t)snprintf(reason + at, size - at, "split=%d ", split_value(wanted));
    if (at < size)
        snprintf(reason + at, size - at,
                 "%s this problem, work-groups of %d items and %llu bytes of local memory",
                 at > 0 ? "does not fit" : "no form fits", ocl_form_max_items(device),
                 (unsigned long long)ocl_form_room(family, device));
}

bool ocl_form_choose(const ocl_form_family *family, const ocl_gemm *g, const ocl_device_desc *device,
                     const ocl_gemm_form *wanted, ocl_gemm_form *out, char *reason, size_t size)
{
    static const ocl_gemm_form nothing;
    best_form best = {0};
    wanted = wanted ? wanted : &nothing;
    for (const ocl_gemm_form *form = family->forms; form->bm != 0; form++) {
        ocl_gemm_form f = *form;
        for (const ocl_form_key *key = family->keys; key->name != NULL; key++)
            if (key->role == OCL_FORM_KEPT && value_of(wanted, key) != 0)
                *value(&f, key) = value_of(wanted, key);
        if (family->complete != NULL)
            family->complete(g, device, wanted, &f);
        if (!family->fits(g, device, &f))
            continue;
        if (wanted->stream == 0)
            try_splits(family, g, device, wanted->splits, &f, &best);
        if (wanted->splits == 0)
            try_streams(family, g, device, wanted->stream, &f, &best);
    }
    if (!best.found)
        refuse(family, device, wanted, reason, size);
    *out = best.form;
    return best.found;
}

const ocl_matrix_unit *ocl_form_unit(const ocl_variant *variant)
{
    const ocl_matrix_unit *const *u = ocl_matrix_units;
    while (*u != NULL && (*u)->products->variant != variant)
        u++;
    return *u;
}

double ocl_form_time(const ocl_form_family *family, const ocl_gemm *g, const ocl_device_desc *device)
{
    ocl_gemm_form form;
    char reason[240];
    return ocl_form_choose(family, g, device, NULL, &form, reason, sizeof reason)
               ? family->cost(g, device, &form)
               : (double)INFINITY;
}

static clt_status choose_or_fail(const ocl_form_family *family, const ocl_emitter *e, const ocl_gemm *g,
                                 const ocl_gemm_form *wanted, ocl_gemm_form *out)
{
    char reason[240], what[OCL_GEMM_TEXT];
    if (!ocl_form_choose(family, g, e->device, wanted, out, reason, sizeof reason))
        CLT_FAIL(CLT_EUNSUPPORTED, "emitting %s: %s", ocl_gemm_text(g, what, sizeof what), reason);
    return CLT_OK;
}

void ocl_form_want_split(ocl_gemm_form *wanted, int value)
{
    wanted->splits = value > 0 ? value : 0;
    wanted->stream = value < 0 ? -value : 0;
}

clt_status ocl_form_record(const ocl_form_family *family, const ocl_gemm_form *form, int split,
                           ocl_choice *out)
{
    *out = (ocl_choice){.family = OCL_GEMM_FAMILY};
    snprintf(out->variant, sizeof out->variant, "%s", family->variant->name);
    for (const ocl_form_key *key = family->keys; key->name != NULL; key++)
        if (value_of(form, key) != 0)
            CLT_TRY(ocl_choice_set(out, key->name, value_of(form, key)));
    return split != 0 ? ocl_choice_set(out, "split", split) : CLT_OK;
}

ocl_gemm_form ocl_form_wanted(const ocl_form_family *family, const ocl_choice *record)
{
    ocl_gemm_form wanted = {0};
    for (const ocl_form_key *key = family->keys; key->name != NULL; key++)
        *value(&wanted, key) = ocl_choice_value(record, key->name, 0);
    ocl_form_want_split(&wanted, ocl_choice_value(record, "split", 0));
    return wanted;
}

clt_status ocl_form_decide(const ocl_form_family *family, ocl_emitter *e, const ocl_gemm *g,
                           ocl_gemm_form *out)
{
    char what[OCL_GEMM_TEXT];
    ocl_gemm_form wanted = {.splits = e->workspace == NULL};
    CLT_TRY(choose_or_fail(family, e, g, &wanted, out));
    for (const ocl_form_key *key = family->keys; key->name != NULL; key++)
        *value(&wanted, key) = ocl_tuned(e, key->name, value_of(out, key));
    ocl_form_want_split(&wanted, ocl_tuned(e, "split", split_value(out)));
    CLT_TRY(choose_or_fail(family, e, g, &wanted, out));
    if (ocl_form_is_partial(out) && e->workspace == NULL)
        CLT_FAIL(
            CLT_EUNSUPPORTED,
            "emitting %s: parts of k (split=%d) need a workspace, but the caller provides none; use split=1",
            ocl_gemm_text(g, what, sizeof what), split_value(out));
    char text[OCL_FORM_TEXT];
    e->form = clt_arena_strdup(e->list->arena, form_text(family, out, text));
    return e->form ? CLT_OK : CLT_ENOMEM;
}

/* Commands */

/* Whether the kernel can compute moments. Its sums must be whole, and each item must always have the same
 * columns (gemm_tiles.clh). */
static bool can_make_moments(const ocl_form_family *family, const ocl_gemm *g, const ocl_gemm_form *f)
{
    return !ocl_form_is_partial(f) && family->items(f) * ocl_form_vector(g, f) % f->bn == 0;
}

/* The partial sums that the command after the product adds; OCL_NO_TENSOR_ID if there are none. */
typedef struct split_parts {
    int32_t sums, line_sums;
    uint64_t lines;       /* rows of the sums of A's lines */
    uint64_t line_floats; /* floats of all these rows together */
    ocl_form_shares shares;
} split_parts;

/* Decides whether the kernel computes sums of A's lines. If so, its form gets another name: then a driver
 * that refuses these sums does not make the plain form unavailable. */
static clt_status decide_line_sums(const ocl_form_family *family, ocl_emitter *e, const ocl_gemm *g,
                                   const ocl_gemm_form *f)
{
    char text[OCL_FORM_TEXT], form[OCL_FORM_TEXT];
    if (g->line_sums == NULL)
        return CLT_OK;
    snprintf(text, sizeof text, "%.*s line_sums", (int)sizeof text - 11, form_text(family, f, form));
    g->line_sums->made = family->makes_line_sums != NULL && family->makes_line_sums(g, e->device, f) &&
                         !ocl_is_given_up(e->device, family->variant, text);
    if (!g->line_sums->made)
        return CLT_OK;
    e->form = clt_arena_strdup(e->list->arena, text);
    return e->form ? CLT_OK : CLT_ENOMEM;
}

static bool has_line_sums(const ocl_gemm *g)
{
    return g->line_sums != NULL && g->line_sums->made;
}

/* Adds the define and the argument for the tensor `to`, which gets the sums of A's lines. */
static void line_sums_args(ocl_emitter *e, int32_t to, bool accumulate, uint64_t floats)
{
    ocl_define(e, "LINE_SUMS", 1);
    ocl_arg_grad(e, to, CLT_F32, floats, accumulate);
}

/* Adds STREAM_PARAMS of gemm_tiles.clh. */
static void stream_args(ocl_emitter *e, const ocl_form_shares *s)
{
    ocl_define(e, "STREAM", 1);
    ocl_arg_u32(e, (uint32_t)s->own_parts);
    ocl_arg_u32(e, (uint32_t)s->part_steps);
    ocl_arg_u32(e, (uint32_t)s->others);
}

/* Passes local memory as the kernel's last argument if it needs more than an array may have. */
static void local_argument(const ocl_form_family *family, ocl_emitter *e, const ocl_gemm *g,
                           const ocl_gemm_form *f)
{
    uint64_t bytes = family->local_bytes != NULL ? family->local_bytes(g, e->device, f) : 0;
    if (bytes <= ocl_desc_max_local(e->device, family->retargeted))
        return;
    ocl_define(e, "LOCAL_ARGUMENT", 1);
    ocl_arg_local(e, bytes + family->local_alignment);
}

static void emit_product(const ocl_form_family *family, ocl_emitter *e, const ocl_gemm *g,
                         const ocl_gemm_form *f, const split_parts *parts)
{
    uint64_t items = (uint64_t)family->items(f);
    ocl_kernel_begin(e, family->program, family->kernel);
    family->defines(e, g, f);
    ocl_gemm_operand_defines(e, g);
    ocl_define(e, "PARTIAL", ocl_form_is_partial(f));
    ocl_define(e, "VC", ocl_form_vector(g, f));
    if (family->uses != NULL)
        ocl_kernel_needs(e, family->uses(g, e->device, f));
    if (ocl_form_is_partial(f)) {
        ocl_gemm_part_args(e, g, parts->sums, ocl_form_workspace(g, f));
        if (f->stream > 0) {
            stream_args(e, &parts->shares);
        } else {
            ocl_arg_u32(e, (uint32_t)f->splits);
            ocl_arg_u32(e, (uint32_t)ocl_form_part_steps(g, f));
        }
        if (has_line_sums(g))
            line_sums_args(e, parts->line_sums, false, parts->line_floats);
    } else {
        ocl_gemm_epilogue_defines(e, g);
        ocl_gemm_operand_args(e, g);
        if (has_line_sums(g))
            line_sums_args(e, g->line_sums->out, g->line_sums->accumulate, (uint64_t)g->m);
    }
    if (ocl_has_windows(g)) {
        ocl_define(e, "WINDOWS", (int64_t)g->windows.operand);
        ocl_define(e, "WINDOWS_DIMS", ocl_windows_dims(&g->windows));
        ocl_windows_tile_args(e, &g->windows, family->window_steps ? family->window_steps(g, f) : f->bk);
    }
    local_argument(family, e, g, f);
    ocl_kernel_end_1d(e, ocl_form_groups(g, f) * items, items, ocl_gemm_flops(g) + ocl_gemm_moment_flops(g));
}

/* In the kernel that adds partial sums, the number of neighbouring elements of C that one work-item
 * finishes. It is the vector size of a kernel without parts if that divides a row of C; otherwise it is
 * 1. */
static int sum_vector(const ocl_gemm *g, const ocl_gemm_form *f)
{
    ocl_gemm_form whole = *f;
    whole.splits = 1;
    whole.stream = 0;
    int vector = ocl_form_vector(g, &whole);
    return g->n % vector == 0 ? vector : 1;
}

static void sum_part_args(ocl_emitter *e, const ocl_gemm *g, const ocl_gemm_form *f, const split_parts *parts)
{
    if (f->stream == 0) {
        ocl_arg_u32(e, (uint32_t)f->splits);
        return;
    }
    ocl_define(e, "BM", f->bm);
    ocl_define(e, "BN", f->bn);
    ocl_define(e, "BK", f->bk);
    ocl_arg_u32(e, (uint32_t)g->k);
    stream_args(e, &parts->shares);
}

/* The second kernel of split-K and stream-k: adds the partial sums and applies the epilogue. It also adds
 * the partial sums of A's lines. */
static void emit_sum(ocl_emitter *e, const ocl_gemm *g, const ocl_gemm_form *f, const split_parts *parts)
{
    uint64_t elements = (uint64_t)(g->m * g->n) * (uint64_t)g->batch, floats = ocl_form_workspace(g, f);
    uint64_t lines = has_line_sums(g) ? (uint64_t)g->m : 0;
    int vector = sum_vector(g, f);
    ocl_kernel_begin(e, "gemm_sum", "gemm_sum_tile");
    ocl_gemm_epilogue_defines(e, g);
    ocl_define(e, "VC", vector);
    ocl_gemm_result_arg(e, g);
    ocl_arg_in(e, parts->sums, CLT_F32, floats);
    ocl_gemm_epilogue_args(e, g);
    ocl_arg_u32(e, (uint32_t)g->m);
    ocl_arg_u32(e, (uint32_t)g->n);
    ocl_arg_u64(e, (uint64_t)g->ldc);
    ocl_arg_u64(e, (uint64_t)g->stride_c);
    ocl_arg_u32(e, (uint32_t)g->batch);
    ocl_arg_f32(e, g->alpha);
    ocl_arg_f32(e, g->beta);
    sum_part_args(e, g, f, parts);
    if (has_line_sums(g)) {
        line_sums_args(e, g->line_sums->out, g->line_sums->accumulate, lines);
        ocl_arg_in(e, parts->line_sums, CLT_F32, parts->line_floats);
        if (f->stream == 0)
            ocl_arg_u32(e, (uint32_t)parts->lines);
    }
    double sums = f->stream > 0 ? (double)parts->shares.pairs * f->bm * f->bn : (double)floats;
    ocl_kernel_end_items(e, elements / (uint64_t)vector + lines, 64,
                         sums - (double)elements + (double)parts->line_floats);
}

/* Creates the workspaces for partial sums. Partial sums of A's lines take a row of m floats for each part of
 * k and each tile of a row; with stream-k they take a row of bm floats for each slot. */
static void want_parts(ocl_emitter *e, const ocl_gemm *g, const ocl_gemm_form *f, split_parts *parts)
{
    bool stream = f->stream > 0;
    if (stream)
        ocl_form_shares_of(g, f, &parts->shares);
    parts->sums =
        ocl_workspace(e, CLT_F32, ocl_form_workspace(g, f), stream ? "gemm.stream_parts" : "gemm.parts");
    if (!has_line_sums(g))
        return;
    parts->lines = (uint64_t)f->splits * (uint64_t)ocl_form_up(g->n, f->bn);
    parts->line_floats =
        stream ? (uint64_t)parts->shares.slots * (uint64_t)f->bm : parts->lines * (uint64_t)g->m;
    parts->line_sums = ocl_workspace(e, CLT_F32, parts->line_floats, "gemm.line_parts");
}

clt_status ocl_form_emit(const ocl_form_family *family, ocl_emitter *e, const ocl_gemm *g)
{
    ocl_gemm_form f;
    split_parts parts = {.sums = OCL_NO_TENSOR_ID, .line_sums = OCL_NO_TENSOR_ID};
    CLT_TRY(ocl_form_decide(family, e, g, &f));
    CLT_TRY(decide_line_sums(family, e, g, &f));
    if (ocl_form_is_partial(&f))
        want_parts(e, g, &f, &parts);
    if (can_make_moments(family, g, &f))
        (void)ocl_gemm_make_moments(e, g, (uint64_t)ocl_form_up(g->m, f.bm));
    emit_product(family, e, g, &f, &parts);
    if (ocl_form_is_partial(&f))
        emit_sum(e, g, &f, &parts);
    return ocl_emit_status(e);
}
