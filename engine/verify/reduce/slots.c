/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists and changes the numbers of a case that can be made smaller. For each kind of case one function
 * visits all numbers; listing and changing both use it. */
#include "engine/verify/reduce/slots.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#include "engine/verify/cases/verify_gemm_cases.h"
#include "engine/verify/cases/verify_update_cases.h"

/* A visit of all numbers of a case. */
typedef struct visit {
    clt_slots *list;         /* listing: gets the numbers; NULL: changing */
    const clt_slots *wanted; /* changing: the new numbers */
    int next;
} visit;

/* Visits one number; returns its new value. */
static int64_t number(visit *v, const char *name, int64_t value, int64_t least, bool is_size)
{
    if (v->next >= CLT_SLOTS || (v->wanted && v->next >= v->wanted->count))
        return value;
    if (v->wanted)
        return v->wanted->slot[v->next++].value;
    clt_slot *slot = &v->list->slot[v->next++];
    *slot = (clt_slot){.value = value, .least = least, .is_size = is_size};
    snprintf(slot->name, sizeof slot->name, "%s", name);
    v->list->count = v->next;
    return value;
}

static void size(visit *v, const char *name, int64_t *value)
{
    if (*value > 0)
        *value = number(v, name, *value, 1, true);
}

/* An optional part: it keeps its value, or becomes 0. */
#define OPTION(v, name, member)                                                                              \
    do {                                                                                                     \
        if ((member) != 0 && number(v, name, 1, 0, false) == 0)                                              \
            (member) = 0;                                                                                    \
    } while (0)

static bool is_narrow(clt_dtype type)
{
    return type == CLT_F16 || type == CLT_BF16;
}

/* --- ops --- */

/* Visits the whole numbers of the attributes' JSON text; numbers with a fraction or a sign, and numbers in
 * strings, stay as they are. */
static clt_status visit_attrs(visit *v, clt_arena *arena, const char **attrs)
{
    CLT_SCOPED(clt_str) out = {0};
    bool quoted = false;
    int found = 0;
    for (const char *at = *attrs ? *attrs : ""; *at;) {
        size_t digits = strspn(at, "0123456789");
        bool plain = !quoted && digits > 0 && digits < 10 && !strchr(".eE", at[digits]);
        if (at > *attrs && strchr("-.eE", at[-1]) != NULL)
            plain = false;
        quoted ^= *at == '"';
        if (digits == 0 || !plain) {
            clt_str_append_n(&out, at, digits > 0 ? digits : 1);
            at += digits > 0 ? digits : 1;
            continue;
        }
        char name[32];
        snprintf(name, sizeof name, "attribute%d", found++);
        int64_t value = strtoll(at, NULL, 10);
        clt_str_printf(&out, "%" PRId64, value > 0 ? number(v, name, value, 0, true) : value);
        at += digits;
    }
    CLT_TRY(clt_str_check(&out));
    if (v->wanted && out.text) {
        *attrs = clt_arena_strdup(arena, out.text);
        return *attrs ? CLT_OK : CLT_ENOMEM;
    }
    return CLT_OK;
}

/* Lowers the limit of indices to the new value of each size that was at least as large as the limit. */
static void limit_indices(const visit *v, const clt_slots *old, clt_op_case *c)
{
    for (int i = 0; i < c->n_inputs; i++) {
        int64_t *max = &c->inputs[i].fill_max, before = *max;
        if (c->inputs[i].fill != CLT_FILL_INDEX && c->inputs[i].fill != CLT_FILL_STRAY)
            continue;
        for (int s = 0; s < old->count && s < v->wanted->count; s++) {
            int64_t now = v->wanted->slot[s].value;
            if (old->slot[s].is_size && old->slot[s].value >= before && now < *max && now > 0)
                *max = now;
        }
    }
}

static clt_fill plain_fill(clt_fill fill)
{
    switch (fill) {
    case CLT_FILL_STRAY:
        return CLT_FILL_INDEX;
    case CLT_FILL_NAN:
    case CLT_FILL_LOWEST:
    case CLT_FILL_PEAKS:
    case CLT_FILL_SWEEP:
    case CLT_FILL_WIDE:
        return CLT_FILL_NORMAL;
    default:
        return fill;
    }
}

static clt_status visit_op(visit *v, clt_arena *arena, clt_op_case *c)
{
    bool narrow = c->retyped != 0 && is_narrow((clt_dtype)(c->retyped - 1)), odd = false;
    char name[32];
    for (int i = 0; i < c->n_inputs; i++) {
        narrow |= is_narrow(c->inputs[i].dtype);
        odd |= plain_fill(c->inputs[i].fill) != c->inputs[i].fill;
        for (int d = 0; d < c->inputs[i].ndim; d++) {
            snprintf(name, sizeof name, "x%d.dim%d", i, d);
            size(v, name, &c->inputs[i].dim[d]);
        }
    }
    CLT_TRY(visit_attrs(v, arena, &c->attrs));
    if (narrow && number(v, "16bit", 1, 0, false) == 0) {
        for (int i = 0; i < c->n_inputs; i++)
            c->inputs[i].dtype = is_narrow(c->inputs[i].dtype) ? CLT_F32 : c->inputs[i].dtype;
        c->retyped = 0;
    }
    if (odd && number(v, "odd_numbers", 1, 0, false) == 0)
        for (int i = 0; i < c->n_inputs; i++)
            c->inputs[i].fill = plain_fill(c->inputs[i].fill);
    OPTION(v, "four_starts", c->four_starts);
    OPTION(v, "ranks", c->ranks);
    OPTION(v, "tuned", c->tuned);
    return CLT_OK;
}

/* --- products --- */

/* True if all windows fit into their image; otherwise sizes would be negative. */
static bool windows_fit(const clt_gemm_windows *w)
{
    for (int i = 0; i < 3; i++) {
        int64_t in = w->in[i] ? w->in[i] : 1, kernel = w->kernel[i] ? w->kernel[i] : 1;
        int64_t dilation = w->dilation[i] ? w->dilation[i] : 1;
        if (in + 2 * w->padding[i] < dilation * (kernel - 1) + 1)
            return false;
    }
    return true;
}

static void visit_windows(visit *v, clt_gemm_windows *w)
{
    char name[32];
    size(v, "samples", &w->n);
    size(v, "channels", &w->channels);
    size(v, "groups", &w->groups);
    for (int i = 0; i < 3; i++) {
        const struct {
            const char *name;
            int64_t *value;
        } sizes[] = {{"image", &w->in[i]},          {"kernel", &w->kernel[i]},   {"stride", &w->stride[i]},
                     {"dilation", &w->dilation[i]}, {"padding", &w->padding[i]}, {"out", &w->out[i]}};
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            snprintf(name, sizeof name, "%s%d", sizes[s].name, i);
            if (*sizes[s].value > 0)
                *sizes[s].value =
                    number(v, name, *sizes[s].value, sizes[s].value == &w->padding[i] ? 0 : 1, true);
        }
    }
}

static clt_status visit_gemm(visit *v, clt_gemm_case *c)
{
    bool windows = c->windows.operand != OCL_WINDOWS_NONE;
    size(v, "m", &c->m);
    size(v, "n", &c->n);
    size(v, "k", &c->k);
    size(v, "batch", &c->batch);
    if (windows)
        visit_windows(v, &c->windows);
    OPTION(v, "form", c->form);
    OPTION(v, "alpha", c->alpha);
    OPTION(v, "beta", c->beta);
    OPTION(v, "bias", c->bias);
    OPTION(v, "apart", c->apart);
    OPTION(v, "moments", c->moments);
    OPTION(v, "line_sums", c->line_sums);
    OPTION(v, "residual", c->residual);
    if (c->pre || c->dact) { /* both belong to an activation */
        OPTION(v, "pre", c->pre);
        OPTION(v, "dact", c->dact);
    }
    if (c->activation != OCL_ACT_NONE && number(v, "activation", 1, 0, false) == 0) {
        c->activation = OCL_ACT_NONE;
        c->pre = false;
        c->dact = EXTRA_NONE;
    }
    if ((is_narrow(c->type[0]) || is_narrow(c->type[1]) || is_narrow(c->type[2])) &&
        number(v, "16bit", 1, 0, false) == 0)
        c->type[0] = c->type[1] = c->type[2] = CLT_F32;
    if (windows && !windows_fit(&c->windows))
        CLT_FAIL(CLT_ESHAPE, "the windows do not fit their image");
    return CLT_OK;
}

/* --- the update --- */

static clt_status visit_update(visit *v, clt_arena *arena, clt_update_case *c)
{
    size(v, "rows", &c->rows);
    size(v, "columns", &c->cols);
    size_t steps = strlen(c->steps);
    int64_t left = number(v, "steps", (int64_t)steps, 1, true);
    if (v->wanted) {
        c->steps = clt_arena_printf(arena, "%.*s", (int)left, c->steps);
        if (!c->steps)
            return CLT_ENOMEM;
    }
    OPTION(v, "deeper", c->deeper);
    if (is_narrow(c->storage) && number(v, "16bit", 1, 0, false) == 0)
        c->storage = CLT_F32;
    OPTION(v, "steep", c->steep);
    OPTION(v, "ema", c->spec.ema);
    OPTION(v, "clip", c->spec.clip);
    return CLT_OK;
}

static clt_status visit_case(visit *v, clt_verify_case_kind kind, clt_arena *arena, void *copy)
{
    switch (kind) {
    case CLT_VERIFY_OP_CASE:
        return visit_op(v, arena, copy);
    case CLT_VERIFY_GEMM_CASE:
        return visit_gemm(v, copy);
    default:
        return visit_update(v, arena, copy);
    }
}

void clt_slots_of(clt_verify_case_kind kind, const void *op_case, clt_slots *out)
{
    static const size_t bytes[] = {sizeof(clt_op_case), sizeof(clt_gemm_case), sizeof(clt_update_case)};
    union {
        clt_op_case op;
        clt_gemm_case gemm;
        clt_update_case update;
    } copy;
    visit v = {.list = out};
    out->count = 0;
    memcpy(&copy, op_case, bytes[kind]);
    if (visit_case(&v, kind, NULL, &copy) != CLT_OK)
        clt_error_clear(); /* the numbers visited so far are listed */
}

clt_status clt_slots_put(clt_verify_case_kind kind, const clt_slots *slots, clt_arena *arena, void *copy)
{
    visit v = {.wanted = slots};
    clt_slots old;
    clt_slots_of(kind, copy, &old);
    CLT_TRY(visit_case(&v, kind, arena, copy));
    if (kind == CLT_VERIFY_OP_CASE)
        limit_indices(&v, &old, copy);
    return CLT_OK;
}
