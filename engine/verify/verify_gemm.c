/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of GEMM backends, by the contract of cl/gemm/gemm.h alone: sizes round tile edges, every layout,
 * batches, shared and interleaved operands, offsets and row strides, scalars, storage types, epilogues.
 * Operands lie in buffers full of plausible numbers; everything of C's buffer that is not C must keep its
 * bits. Knows no op and no backend. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/gemm/gemm_mma.h"
#include "cl/gemm/gemm_tile.h"
#include "cl/gemm/gemm_wgmma.h"
#include "cl/tune/tuning.h"
#include "engine/base/thread.h"
#include "engine/verify/verify_gemm_cases.h"
#include "engine/verify/verify_internal.h"

enum {
    GEMM_A,
    GEMM_B,
    GEMM_C,
    GEMM_BIAS,
    GEMM_RESIDUAL,
    GEMM_PRE,
    GEMM_DACT,
    GEMM_WORK, /* what the backend asked for */
    GEMM_OPERANDS
};
#define GUARD 64 /* elements on both sides of an operand */

typedef struct gemm_operand {
    clt_dtype type;
    size_t elements; /* of the buffer, guards included; 0: unused */
    size_t first;    /* element of the buffer where the operand starts */
    double *value;   /* what the storage holds */
    uint8_t *image, *after;
    ocl_buffer *buffer;
} gemm_operand;

typedef struct gemm_run {
    clt_verify_session *session;
    clt_verify_outcome *outcome;
    const clt_gemm_case *problem;
    const char *backend;
    const ocl_choice *choice; /* how the backend must do it; NULL: as it likes */
    bool integers;
    ocl_gemm gemm;
    gemm_operand operand[GEMM_OPERANDS];
    ocl_command_list list;
    ocl_exec *exec;
} gemm_run;

/* --- problem --- */

static ocl_gemm make_gemm(const clt_gemm_case *c, const clt_verify_stream *s)
{
    ocl_gemm g = ocl_gemm_make(c->m, c->n, c->k, c->ta, c->tb);
    int64_t rows_a = g.ta ? g.k : g.m, rows_b = g.tb ? g.n : g.k;
    g.batch = c->batch ? c->batch : 1;
    g.alpha = c->alpha != 0.0f ? c->alpha : 1.0f;
    g.beta = c->beta;
    g.type_a = c->type[0];
    g.type_b = c->type[1];
    g.type_c = c->type[2];
    g.activation = c->activation;
    g.tf32 = c->tf32;
    if (c->form == FORM_PADDED || c->form == FORM_SHARED) {
        g.lda += 1 + clt_verify_word(s, 0) % 5;
        g.ldb += 1 + clt_verify_word(s, 1) % 5;
        g.ldc += 1 + clt_verify_word(s, 2) % 5;
        g.stride_a = rows_a * g.lda + clt_verify_word(s, 3) % 9;
        g.stride_b = c->form == FORM_SHARED ? 0 : rows_b * g.ldb + clt_verify_word(s, 4) % 9;
        g.stride_c = g.m * g.ldc + clt_verify_word(s, 5) % 9;
        g.a.offset = (1 + clt_verify_word(s, 6) % 70) * clt_dtype_bytes(g.type_a);
        g.b.offset = (1 + clt_verify_word(s, 7) % 70) * clt_dtype_bytes(g.type_b);
        g.c.offset = (1 + clt_verify_word(s, 8) % 70) * clt_dtype_bytes(g.type_c);
    } else if (c->form == FORM_ALIGNED) {
        g.lda = (g.lda + 15) / 8 * 8;
        g.ldb = (g.ldb + 15) / 8 * 8;
        g.ldc = (g.ldc + 15) / 8 * 8;
        g.stride_a = rows_a * g.lda + 8;
        g.stride_b = rows_b * g.ldb + 8;
        g.stride_c = g.m * g.ldc + 8;
        g.a.offset = g.b.offset = g.c.offset = 16 * (1 + clt_verify_word(s, 6) % 9);
    } else if (c->form == FORM_HEADS) {
        g.stride_a = g.lda;
        g.stride_b = g.ldb;
        g.stride_c = g.ldc;
        g.lda *= g.batch;
        g.ldb *= g.batch;
        g.ldc *= g.batch;
    }
    return g;
}

/* A factor: all that is not an element of one of its matrices becomes NaN, so that a product which reads it
 * shows it even where it is multiplied by zero. */
static void spoil_gaps(gemm_operand *o, int64_t rows, int64_t cols, int64_t ld, int64_t stride, int64_t batch)
{
    int64_t end = (int64_t)o->elements - (int64_t)o->first;
    for (int64_t i = -(int64_t)o->first; i < end; i++) {
        int64_t z = i < 0 || stride == 0 ? 0 : i / stride, row = i - z * stride;
        bool used = i >= 0 && z < batch && rows > 0 && row / ld < rows && row % ld < cols;
        /* interleaved matrices: rows of one lie between those of another */
        for (int64_t k = 0; !used && i >= 0 && k < batch && stride < rows * ld; k++)
            used = i >= k * stride && (i - k * stride) / ld < rows && (i - k * stride) % ld < cols;
        if (!used) {
            o->value[(int64_t)o->first + i] = NAN;
            clt_verify_store(o->type, o->image, o->first + (size_t)i, NAN);
        }
    }
}

/* Fills one operand's whole buffer; C is NaN where the call must not read it. */
static clt_status fill_operand(gemm_run *r, int which, clt_dtype type, uint64_t offset, int64_t span,
                               bool nan)
{
    gemm_operand *o = &r->operand[which];
    clt_verify_stream stream =
        clt_verify_stream_make(r->session->seed, r->problem->name, (uint32_t)(16 + which + 32 * r->integers));
    clt_verify_filler filler = {.fill = CLT_FILL_NORMAL, .dtype = type, .integers = r->integers};
    o->type = type;
    o->first = GUARD + offset / clt_dtype_bytes(type);
    o->elements = o->first + (size_t)span + GUARD;
    CLT_TRY(clt_alloc(&o->value, o->elements, sizeof *o->value, "checker's operand"));
    CLT_TRY(clt_alloc(&o->image, o->elements, clt_dtype_bytes(type), "checker's operand"));
    CLT_TRY(clt_alloc(&o->after, o->elements, clt_dtype_bytes(type), "checker's operand"));
    clt_verify_fill(o->value, o->elements, &filler, &stream);
    for (size_t i = 0; i < o->elements; i++) {
        if (nan)
            o->value[i] = NAN;
        clt_verify_store(type, o->image, i, o->value[i]);
    }
    CLT_TRY(ocl_buffer_create(r->session->device, o->elements * clt_dtype_bytes(type), "checker's operand",
                              &o->buffer));
    return CLT_OK;
}

/* Where an operand of the epilogue starts: anywhere, or at whole 16 bytes. */
static uint64_t extra_offset(const gemm_run *r, uint64_t bytes)
{
    return r->problem->form == FORM_ALIGNED ? bytes / 4 * 16 : bytes;
}

static clt_status fill_operands(gemm_run *r)
{
    ocl_gemm *g = &r->gemm;
    int64_t a, b, c;
    if (!ocl_gemm_spans(g, &a, &b, &c))
        CLT_FAIL(CLT_EINTERNAL, "gemm case '%s' has no size", r->problem->name);
    g->a.tensor = GEMM_A;
    g->b.tensor = GEMM_B;
    g->c.tensor = GEMM_C;
    CLT_TRY(fill_operand(r, GEMM_A, g->type_a, g->a.offset, a, false));
    CLT_TRY(fill_operand(r, GEMM_B, g->type_b, g->b.offset, b, false));
    spoil_gaps(&r->operand[GEMM_A], g->ta ? g->k : g->m, g->ta ? g->m : g->k, g->lda, g->stride_a, g->batch);
    spoil_gaps(&r->operand[GEMM_B], g->tb ? g->n : g->k, g->tb ? g->k : g->n, g->ldb, g->stride_b, g->batch);
    CLT_TRY(fill_operand(r, GEMM_C, g->type_c, g->c.offset, c,
                         g->beta == 0.0f && r->problem->residual != EXTRA_C && r->problem->dact != EXTRA_C));
    if (r->problem->bias) {
        g->bias = (ocl_tensor_ref){GEMM_BIAS, extra_offset(r, 12)};
        CLT_TRY(fill_operand(r, GEMM_BIAS, CLT_F32, g->bias.offset, g->n, false));
    }
    if (r->problem->residual == EXTRA_C)
        g->residual = g->c;
    if (r->problem->residual == EXTRA_OWN) {
        g->residual = (ocl_tensor_ref){GEMM_RESIDUAL, extra_offset(r, 20)};
        CLT_TRY(fill_operand(r, GEMM_RESIDUAL, g->type_c, g->residual.offset, c, false));
    }
    if (r->problem->pre) {
        g->pre = (ocl_tensor_ref){GEMM_PRE, extra_offset(r, 28)};
        CLT_TRY(fill_operand(r, GEMM_PRE, g->type_c, g->pre.offset, c, true));
    }
    if (r->problem->dact == EXTRA_C)
        g->dact = g->c;
    if (r->problem->dact != EXTRA_OWN)
        return CLT_OK;
    g->dact = (ocl_tensor_ref){GEMM_DACT, extra_offset(r, 36)};
    return fill_operand(r, GEMM_DACT, g->type_c, g->dact.offset, c, false);
}

static clt_status gemm_resolve(void *context, int32_t tensor, ocl_buffer **buffer, uint64_t *offset)
{
    const gemm_operand *o = &((gemm_run *)context)->operand[tensor];
    *buffer = o->buffer;
    *offset = GUARD * clt_dtype_bytes(o->type);
    return CLT_OK;
}

static int32_t gemm_workspace(void *owner, clt_dtype dtype, uint64_t elements, const char *name)
{
    gemm_run *r = owner;
    clt_status status = CLT_OK;
    if (r->operand[GEMM_WORK].elements)
        status =
            clt_fail(CLT_EINTERNAL, __FILE__, __LINE__, "checking a GEMM: '%s' is a second workspace", name);
    else
        status = fill_operand(r, GEMM_WORK, dtype, 0, (int64_t)elements, true);
    return status == CLT_OK ? GEMM_WORK : OCL_NO_TENSOR_ID;
}

/* Emits the commands; a refusal makes the outcome SKIP. */
static clt_status emit(gemm_run *r)
{
    ocl_device_desc desc = clt_verify_desc(r->session);
    ocl_emitter e = {.list = &r->list,
                     .device = &desc,
                     .label = r->problem->name,
                     .variant = "",
                     .node = -1,
                     .workspace = gemm_workspace,
                     .owner = r,
                     .record = r->choice};
    clt_status status = ocl_gemm_emit(&e, &r->gemm, r->backend);
    ocl_emitter_free(&e);
    if (status == CLT_EUNSUPPORTED && r->choice) {
        clt_verify_set(r->outcome, CLT_VERIFY_SKIP, "%s", clt_error_text());
        clt_error_clear();
        return CLT_OK;
    }
    const char *open = status == CLT_EUNSUPPORTED ? strstr(clt_error_text(), "none accepts (") : NULL;
    if (!open)
        return status;
    char reason[256];
    snprintf(reason, sizeof reason, "backend %s", open + strlen("none accepts ("));
    char *close = strrchr(reason, ')');
    if (close)
        *close = '\0';
    clt_error_clear();
    if (strcmp(r->backend, "simple") == 0)
        clt_verify_set(r->outcome, CLT_VERIFY_FAIL, "the last backend must accept everything: %s", reason);
    else
        clt_verify_set(r->outcome, CLT_VERIFY_SKIP, "%s", reason);
    return CLT_OK;
}

static clt_status upload(gemm_run *r)
{
    for (int i = 0; i < GEMM_OPERANDS; i++)
        if (r->operand[i].elements)
            CLT_TRY(ocl_write(r->operand[i].buffer, 0, r->operand[i].image,
                              r->operand[i].elements * clt_dtype_bytes(r->operand[i].type)));
    return CLT_OK;
}

static clt_status execute(gemm_run *r)
{
    CLT_TRY(upload(r));
    CLT_TRY(ocl_exec_run(r->exec, NULL));
    CLT_TRY(ocl_finish(r->session->device, OCL_QUEUE_COMPUTE));
    for (int i = 0; i < GEMM_OPERANDS; i++)
        if (r->operand[i].elements)
            CLT_TRY(ocl_read(r->operand[i].buffer, 0, r->operand[i].after,
                             r->operand[i].elements * clt_dtype_bytes(r->operand[i].type)));
    return CLT_OK;
}

/* --- judging --- */

/* Which bytes of an operand's buffer the call owns: those of C's elements, or all of its workspace. */
static clt_status make_map(const gemm_run *r, const gemm_operand *o, uint8_t **map)
{
    const ocl_gemm *g = &r->gemm;
    size_t bytes = clt_dtype_bytes(o->type);
    CLT_TRY(clt_alloc(map, o->elements, bytes, "checker's map"));
    if (o == &r->operand[GEMM_WORK]) {
        memset(*map + GUARD * bytes, 1, bytes * (o->elements - 2 * GUARD));
        return CLT_OK;
    }
    for (int64_t z = 0; z < g->batch; z++)
        for (int64_t i = 0; i < g->m; i++)
            memset(*map + bytes * (o->first + (size_t)(z * g->stride_c + i * g->ldc)), 1,
                   bytes * (size_t)g->n);
    return CLT_OK;
}

static clt_status check_guards(gemm_run *r)
{
    static const char *const names[GEMM_OPERANDS] = {
        "A", "B", "C", "the bias", "the residual", "pre", "dact", "its workspace"};
    for (int i = 0; i < GEMM_OPERANDS; i++) {
        const gemm_operand *o = &r->operand[i];
        size_t size = clt_dtype_bytes(o->type), where;
        uint8_t *mine = NULL;
        if (!o->elements)
            continue;
        if (i == GEMM_C || i == GEMM_PRE || i == GEMM_WORK)
            CLT_TRY(make_map(r, o, &mine));
        if (clt_verify_changed(o->image, o->after, mine, o->elements * size, &where))
            clt_verify_set(r->outcome, CLT_VERIFY_FAIL,
                           "wrote where it must not: element %lld from the start of %s",
                           (long long)(where / size) - (long long)o->first, names[i]);
        free(mine);
    }
    return CLT_OK;
}

static double activate(ocl_activation activation, double x)
{
    switch (activation) {
    case OCL_ACT_RELU:
        return x < 0.0 ? 0.0 : x;
    case OCL_ACT_GELU_ERF:
        return 0.5 * x * erfc(-x * sqrt(0.5));
    case OCL_ACT_GELU_TANH:
        return 0.5 * x * (1.0 + tanh(sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    default:
        return x;
    }
}

static double activation_slope(ocl_activation activation, double x)
{
    double c = sqrt(2.0 / 3.14159265358979323846), t;
    switch (activation) {
    case OCL_ACT_RELU:
        return x > 0.0 ? 1.0 : 0.0;
    case OCL_ACT_GELU_ERF:
        return 0.5 * erfc(-x * sqrt(0.5)) + 0.5 * c * x * exp(-0.5 * x * x);
    case OCL_ACT_GELU_TANH:
        t = tanh(c * (x + 0.044715 * x * x * x));
        return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * c * (1.0 + 3.0 * 0.044715 * x * x);
    default:
        return 1.0;
    }
}

typedef struct gemm_expected {
    double c, pre;             /* values */
    double bound_c, bound_pre; /* how far off rounding may take them */
} gemm_expected;

/* Element `at` of C's buffer in an operand of C's shape. */
static double like_c(const gemm_run *r, clt_gemm_extra place, int which, size_t at)
{
    const gemm_operand *o = &r->operand[place == EXTRA_C ? GEMM_C : which];
    return o->value[o->first + at - r->operand[GEMM_C].first];
}

/* What rounding both operands to 10 bits of mantissa may do to a sum of products p: each takes 2^-11 of its
 * product at most, so 2^-10 * sum |p| together, and being random no more than some standard deviations, of
 * which 2^-10 * sqrt(sum p^2) is more than one. Integers up to 2^11 keep all their bits. */
static double tf32_bound(const gemm_run *r, double size, double squares)
{
    double walk = 4.0 * sqrt(squares);
    return !r->problem->tf32 || r->integers ? 0.0 : 0x1p-10 * (walk < size ? walk : size);
}

/* An activation is of its input as C's type stores it, whether that input is kept or not. */
static bool activates_stored(const gemm_run *r)
{
    return r->gemm.activation != OCL_ACT_NONE && r->problem->dact == EXTRA_NONE;
}

static double as_stored(const gemm_run *r, double value)
{
    float cell;
    clt_verify_store(r->gemm.type_c, &cell, 0, value);
    return clt_verify_load(r->gemm.type_c, &cell, 0);
}

/* The activation's input: the pre-activation as stored. Where its rounding may go either way, *unsure gets
 * how much that is. */
static double activation_input(const gemm_run *r, double pre, double bound, double *unsure)
{
    double low = as_stored(r, pre - bound), high = as_stored(r, pre + bound);
    *unsure = r->gemm.type_c == CLT_F32 ? 0.0 : high - low;
    if (r->gemm.type_c == CLT_F32 || (low != high && !r->integers))
        return pre;
    return as_stored(r, pre);
}

/* Errors of K products random-walk, each bounded by what was added up. */
static gemm_expected expect(const gemm_run *r, int64_t z, int64_t i, int64_t j, size_t at)
{
    const ocl_gemm *g = &r->gemm;
    const gemm_operand *o = r->operand;
    const double *a = o[GEMM_A].value + o[GEMM_A].first + z * g->stride_a + (g->ta ? i : i * g->lda);
    const double *b = o[GEMM_B].value + o[GEMM_B].first + z * g->stride_b + (g->tb ? j * g->ldb : j);
    int64_t a_step = g->ta ? g->lda : 1, b_step = g->tb ? 1 : g->ldb;
    double v = 0.0, size = 0.0, squares = 0.0, units = 2.0 * sqrt((double)g->k) + 4.0;
    gemm_expected e;
    for (int64_t p = 0; p < g->k; p++) {
        double product = a[p * a_step] * b[p * b_step];
        v += product;
        size += fabs(product);
        squares += product * product;
    }
    double narrowed = 1.13 * fabs((double)g->alpha) * tf32_bound(r, size, squares); /* slopes reach 1.13 */
    v *= (double)g->alpha;
    size *= fabs((double)g->alpha);
    double old = g->beta != 0.0f ? (double)g->beta * o[GEMM_C].value[at] : 0.0;
    double bias = r->problem->bias ? o[GEMM_BIAS].value[o[GEMM_BIAS].first + (size_t)j] : 0.0;
    if (r->problem->dact != EXTRA_NONE) {
        /* the slope is at most 1.13, its own error counts in units of 1 */
        double slope = activation_slope(g->activation, like_c(r, r->problem->dact, GEMM_DACT, at));
        size = 1.13 * size + (g->activation > OCL_ACT_RELU ? 16.0 / units * fabs(v) : 0.0);
        v *= slope;
    }
    size += fabs(old) + fabs(bias);
    e.pre = v += old + bias;
    e.bound_pre = units * CLT_VERIFY_EPS * (size + fabs(v)) + narrowed;
    if (activates_stored(r)) {
        double unsure;
        v = activate(g->activation, activation_input(r, e.pre, e.bound_pre, &unsure));
        narrowed += 1.13 * unsure;
    }
    size += fabs(v);
    if (r->problem->residual != EXTRA_NONE)
        v += like_c(r, r->problem->residual, GEMM_RESIDUAL, at);
    units += g->activation > OCL_ACT_RELU ? 16.0 : 0.0;
    e.bound_c = units * CLT_VERIFY_EPS * (size + fabs(v)) + narrowed;
    e.c = v;
    if (r->integers) {
        e.c = as_stored(r, e.c);
        e.pre = as_stored(r, e.pre);
    }
    return e;
}

/* How far rounding on the way takes a result off, relative to its size: of the operands, of the stored value
 * that the activation starts from. */
static double rounded_on_the_way(const gemm_run *r)
{
    double operands = r->problem->tf32 ? 0x1p-10 : 0.0, stored = 0.0;
    if (activates_stored(r))
        stored = r->gemm.type_c == CLT_F16 ? 0x1p-11 : r->gemm.type_c == CLT_BF16 ? 0x1p-8 : 0.0;
    return operands + stored;
}

/* values: n results, n expected, n bounds. */
static void compare(gemm_run *r, const char *what, const double *values, size_t n)
{
    clt_verify_rule exact = {.exact = true};
    if (r->integers)
        clt_verify_compare(r->outcome, what, values, values + n, n, &exact);
    else
        clt_verify_compare_bounds(r->outcome, what, values, values + n, values + 2 * n, n, r->gemm.type_c,
                                  rounded_on_the_way(r));
}

static clt_status judge(gemm_run *r)
{
    const ocl_gemm *g = &r->gemm;
    const gemm_operand *o = r->operand;
    double *c, *pre;
    size_t n = (size_t)(g->m * g->n * g->batch), e = 0;
    CLT_TRY(clt_alloc(&c, 6 * n, sizeof *c, "checker's results"));
    pre = c + 3 * n;
    for (int64_t z = 0; z < g->batch; z++) {
        for (int64_t i = 0; i < g->m; i++) {
            for (int64_t j = 0; j < g->n; j++, e++) {
                size_t in_c = (size_t)(z * g->stride_c + i * g->ldc + j);
                gemm_expected x = expect(r, z, i, j, o[GEMM_C].first + in_c);
                c[e] = clt_verify_load(g->type_c, o[GEMM_C].after, o[GEMM_C].first + in_c);
                c[n + e] = x.c;
                c[2 * n + e] = x.bound_c;
                if (r->problem->pre)
                    pre[e] = clt_verify_load(g->type_c, o[GEMM_PRE].after, o[GEMM_PRE].first + in_c);
                pre[n + e] = x.pre;
                pre[2 * n + e] = x.bound_pre;
            }
        }
    }
    compare(r, r->integers ? "C (integers)" : "C", c, n);
    if (r->problem->pre)
        compare(r, r->integers ? "pre (integers)" : "pre", pre, n);
    if (!r->integers && g->k > 0)
        clt_verify_trust(r->outcome, "C", c, n, 0.02);
    free(c);
    return CLT_OK;
}

/* --- modes --- */

static void close_run(gemm_run *r)
{
    ocl_exec_destroy(r->exec);
    for (int i = 0; i < GEMM_OPERANDS; i++) {
        ocl_buffer_destroy(r->operand[i].buffer);
        free(r->operand[i].value);
        free(r->operand[i].image);
        free(r->operand[i].after);
    }
    clt_arena *arena = r->list.arena;
    ocl_command_list_free(&r->list);
    clt_arena_destroy(arena);
}

/* After it r->exec is NULL when the backend refused. */
static clt_status open_run(gemm_run *r)
{
    clt_verify_stream stream = clt_verify_stream_make(r->session->seed, r->problem->name, 0);
    ocl_exec_options options = {.resolve = gemm_resolve, .resolve_context = r};
    r->gemm = make_gemm(r->problem, &stream);
    CLT_TRY(clt_arena_create(&r->list.arena));
    CLT_TRY(fill_operands(r));
    CLT_TRY(emit(r));
    if (clt_verify_bad(r->outcome))
        return CLT_OK;
    return ocl_exec_create(r->session->device, &r->list, &options, &r->exec);
}

/* All scalars are short binary fractions: integers must come out exact, rounded to nearest even where C has
 * 16 bits. */
static bool is_exact(const clt_gemm_case *c)
{
    return c->activation <= OCL_ACT_RELU;
}

static clt_status check_values(gemm_run *r)
{
    clt_status status = open_run(r);
    if (status == CLT_OK && r->exec)
        status = execute(r);
    if (status == CLT_OK && r->exec)
        status = check_guards(r);
    if (status == CLT_OK && r->exec)
        status = judge(r);
    close_run(r);
    return status;
}

static clt_status check_bits(gemm_run *r)
{
    gemm_operand *c = &r->operand[GEMM_C];
    uint8_t *first = NULL;
    size_t bytes, where;
    clt_status status = open_run(r);
    if (status != CLT_OK || !r->exec)
        goto done;
    bytes = c->elements * clt_dtype_bytes(c->type);
    CLT_TRY_GOTO(execute(r), done);
    CLT_TRY_GOTO(clt_alloc(&first, bytes, 1, "first result"), done);
    memcpy(first, c->after, bytes);
    CLT_TRY_GOTO(execute(r), done);
    if (clt_verify_changed(first, c->after, NULL, bytes, &where))
        clt_verify_set(r->outcome, CLT_VERIFY_FAIL, "the second run differs in element %lld of C",
                       (long long)(where / clt_dtype_bytes(c->type)) - (long long)c->first);
done:
    free(first);
    close_run(r);
    return status;
}

static clt_status check_speed(gemm_run *r)
{
    const ocl_command_time *times;
    size_t n;
    clt_status status = open_run(r);
    if (status != CLT_OK || !r->exec)
        goto done;
    CLT_TRY_GOTO(execute(r), done); /* warm-up */
    ocl_exec_profile(r->exec, true);
    double start = clt_now(), ms = 0.0, bytes = 0.0;
    for (int run = 0; run < 1000 && clt_now() - start < 0.05; run++) {
        CLT_TRY_GOTO(ocl_exec_run(r->exec, NULL), done);
        CLT_TRY_GOTO(ocl_exec_collect(r->exec), done);
    }
    times = ocl_exec_times(r->exec, &n);
    for (size_t c = 0; c < n; c++) {
        ms += times[c].calls ? (double)times[c].total_ns / (double)times[c].calls * 1e-6 : 0.0;
        bytes += (double)ocl_command_bytes(times[c].command);
    }
    r->outcome->ms = ms;
    snprintf(r->outcome->reason, sizeof r->outcome->reason, "%.4f ms %.2f GB/s %.2f GFLOP/s", ms,
             ms > 0.0 ? bytes * 1e-6 / ms : 0.0, ms > 0.0 ? ocl_gemm_flops(&r->gemm) * 1e-6 / ms : 0.0);
done:
    close_run(r);
    return status;
}

static clt_status check_mode(clt_verify_session *session, const clt_gemm_case *c, const char *label,
                             const char *backend, const ocl_choice *choice, unsigned mode)
{
    clt_verify_item item = {"gemm", c->name, label, mode, c->small};
    clt_verify_outcome outcome;
    if (!clt_verify_wants(session, &item, &outcome))
        return CLT_OK;
    gemm_run r = {
        .session = session, .outcome = &outcome, .problem = c, .backend = backend, .choice = choice};
    clt_status status;
    if (mode == CLT_VERIFY_CORRECT) {
        gemm_run exact = r;
        exact.integers = true;
        status = check_values(&r);
        if (status == CLT_OK && is_exact(c) && !clt_verify_bad(&outcome))
            status = check_values(&exact);
    } else {
        status = mode == CLT_VERIFY_BITWISE ? check_bits(&r) : check_speed(&r);
    }
    return clt_verify_finish(session, &outcome, status);
}

static clt_status check_modes(clt_verify_session *session, const clt_gemm_case *c, const char *label,
                              const char *backend, const ocl_choice *choice)
{
    static const unsigned modes[] = {CLT_VERIFY_CORRECT, CLT_VERIFY_BITWISE, CLT_VERIFY_PERF};
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++)
        CLT_TRY(check_mode(session, c, label, backend, choice, modes[m]));
    return CLT_OK;
}

/* Forms of the backend `tile` that it would not choose for a problem of this size; every other one with k in
 * two parts. */
static clt_status check_forms(clt_verify_session *session, const clt_gemm_case *c)
{
    for (int i = 0; ocl_tile_forms[i].bm; i++) {
        const ocl_gemm_form *f = &ocl_tile_forms[i];
        ocl_choice choice = {.family = OCL_GEMM_FAMILY, .problem = "", .variant = "tile"};
        char label[64];
        int splits = 1 + (i + c->ta) % 2;
        snprintf(label, sizeof label, "tile_%dx%dx%d_%dx%d_k%d", f->bm, f->bn, f->bk, f->pm, f->pn, splits);
        CLT_TRY(ocl_choice_set(&choice, "bm", f->bm));
        CLT_TRY(ocl_choice_set(&choice, "bn", f->bn));
        CLT_TRY(ocl_choice_set(&choice, "bk", f->bk));
        CLT_TRY(ocl_choice_set(&choice, "tm", f->pm));
        CLT_TRY(ocl_choice_set(&choice, "tn", f->pn));
        CLT_TRY(ocl_choice_set(&choice, "split", splits));
        CLT_TRY(check_modes(session, c, label, "tile", &choice));
    }
    return CLT_OK;
}

/* Blocks of the backend `lane` that it would not choose for a problem of this size, or on this device:
 * several slivers and several blocks of k; operand A packed or not, by the height of tiles. */
static clt_status check_lane_forms(clt_verify_session *session, const clt_gemm_case *c)
{
    static const struct {
        int mr, nv, kc, mt, nt, pack_a;
        bool small;
    } forms[] = {{6, 1, 192, 8, 8, 0, true},   {6, 1, 192, 8, 4, 1, false},  {8, 2, 192, 8, 4, 0, false},
                 {12, 1, 256, 8, 8, 1, false}, {14, 2, 192, 8, 4, 1, false}, {8, 3, 256, 8, 4, 1, false}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        ocl_choice choice = {.family = OCL_GEMM_FAMILY, .problem = "", .variant = "lane"};
        clt_gemm_case form = *c;
        char label[64];
        if ((i + c->ta + c->tb) % 2 != 0) /* compilation is most of the time */
            continue;
        form.small = forms[i].small && !c->ta && !c->tb;
        snprintf(label, sizeof label, "lane_%dx%d_kc%d_%dx%d%s", forms[i].mr, forms[i].nv, forms[i].kc,
                 forms[i].mt, forms[i].nt, forms[i].pack_a ? "_packed" : "");
        CLT_TRY(ocl_choice_set(&choice, "mr", forms[i].mr));
        CLT_TRY(ocl_choice_set(&choice, "nv", forms[i].nv));
        CLT_TRY(ocl_choice_set(&choice, "kc", forms[i].kc));
        CLT_TRY(ocl_choice_set(&choice, "mt", forms[i].mt));
        CLT_TRY(ocl_choice_set(&choice, "nt", forms[i].nt));
        CLT_TRY(ocl_choice_set(&choice, "pack_a", forms[i].pack_a));
        CLT_TRY(check_modes(session, &form, label, "lane", &choice));
    }
    return CLT_OK;
}

static clt_status check_mma_form(clt_verify_session *session, const clt_gemm_case *c, const ocl_gemm_form *f,
                                 int splits)
{
    ocl_choice choice = {.family = OCL_GEMM_FAMILY, .problem = "", .variant = "mma"};
    const char *type = c->tf32 ? "tf32" : clt_dtype_name(c->type[0]);
    char label[80];
    int bk = c->tf32 ? f->bk / 2 : f->bk;
    snprintf(label, sizeof label, "mma_%s_sm%d_%dx%dx%d_%dx%d_s%d_k%d", type, f->sm, f->bm, f->bn, bk, f->pm,
             f->pn, f->stages, splits);
    CLT_TRY(ocl_choice_set(&choice, "bm", f->bm));
    CLT_TRY(ocl_choice_set(&choice, "bn", f->bn));
    CLT_TRY(ocl_choice_set(&choice, "bk", bk));
    CLT_TRY(ocl_choice_set(&choice, "wm", f->pm));
    CLT_TRY(ocl_choice_set(&choice, "wn", f->pn));
    CLT_TRY(ocl_choice_set(&choice, "stages", f->stages));
    CLT_TRY(ocl_choice_set(&choice, "sm", f->sm));
    CLT_TRY(ocl_choice_set(&choice, "split", splits));
    return check_modes(session, c, label, "mma", &choice);
}

/* Every form, with one type in turn. */
static clt_status check_mma_forms(clt_verify_session *session, const clt_gemm_case *c, int turn)
{
    for (int i = 0; ocl_mma_forms[i].bm; i++) {
        ocl_gemm_form f = ocl_mma_forms[i];
        int splits = 1 + (i / 2 + c->ta) % 2;
        f.sm = 80;
        if (i % 3 == turn)
            CLT_TRY(check_mma_form(session, c, &f, splits));
        for (f.sm = 75; c->type[0] == CLT_F16 && f.stages == 2 && f.sm >= 70; f.sm -= 5)
            CLT_TRY(check_mma_form(session, c, &f, 3 - splits));
    }
    return CLT_OK;
}

/* Instructions of older generations, in the smallest form of theirs: every case. */
static clt_status check_mma_generation(clt_verify_session *session, const clt_gemm_case *c, int sm)
{
    ocl_choice choice = {.family = OCL_GEMM_FAMILY, .problem = "", .variant = "mma"};
    clt_gemm_case older = *c;
    char label[32];
    older.small = false;
    snprintf(label, sizeof label, "mma_f16_sm%d", sm);
    CLT_TRY(ocl_choice_set(&choice, "bm", 32));
    CLT_TRY(ocl_choice_set(&choice, "bn", 32));
    CLT_TRY(ocl_choice_set(&choice, "bk", 32));
    CLT_TRY(ocl_choice_set(&choice, "wm", 16));
    CLT_TRY(ocl_choice_set(&choice, "wn", 16));
    CLT_TRY(ocl_choice_set(&choice, "stages", 2));
    CLT_TRY(ocl_choice_set(&choice, "sm", sm));
    CLT_TRY(ocl_choice_set(&choice, "split", 1));
    return check_modes(session, &older, label, "mma", &choice);
}

/* The backend `mma` wants both operands of one type: every case with each that matrix units have. */
static clt_status check_mma(clt_verify_session *session, const clt_gemm_case *c)
{
    static const clt_dtype types[] = {CLT_F16, CLT_BF16, CLT_F32};
    static const char *const labels[] = {"mma_f16", "mma_bf16", "mma_tf32"};
    for (int t = 0; t < 3; t++) {
        clt_gemm_case narrow = *c;
        narrow.type[0] = narrow.type[1] = types[t];
        narrow.tf32 = types[t] == CLT_F32;
        /* compilation is most of the time */
        bool turn = c->form == FORM_PADDED && c->ta == t % 2 && (t < 2 || strncmp(c->name, "odd", 3) == 0);
        narrow.small = c->small && (c->form == FORM_ALIGNED || turn);
        CLT_TRY(check_modes(session, &narrow, labels[t], "mma", NULL));
        if (types[t] == CLT_F16) {
            CLT_TRY(check_mma_generation(session, &narrow, 75));
            CLT_TRY(check_mma_generation(session, &narrow, 70));
        }
        if (c->forms)
            CLT_TRY(check_mma_forms(session, &narrow, t));
    }
    return CLT_OK;
}

static clt_status check_wgmma_form(clt_verify_session *session, const clt_gemm_case *c,
                                   const ocl_gemm_form *f, int splits)
{
    ocl_choice choice = {.family = OCL_GEMM_FAMILY, .problem = "", .variant = "wgmma"};
    char label[80];
    snprintf(label, sizeof label, "wgmma_%s_%dx%d_s%d_k%d", clt_dtype_name(c->type[0]), f->bm, f->bn,
             f->stages, splits);
    CLT_TRY(ocl_choice_set(&choice, "bm", f->bm));
    CLT_TRY(ocl_choice_set(&choice, "bn", f->bn));
    CLT_TRY(ocl_choice_set(&choice, "stages", f->stages));
    CLT_TRY(ocl_choice_set(&choice, "split", splits));
    return check_modes(session, c, label, "wgmma", &choice);
}

/* Every form, with one type in turn: several tiles each way, and more steps of k than any form has slots. */
static clt_status check_wgmma_forms(clt_verify_session *session, const clt_gemm_case *c, int turn)
{
    clt_gemm_case tiles = *c;
    tiles.m = 201;
    tiles.n = 331;
    tiles.k = 390;
    for (int i = 0; ocl_wgmma_forms[i].bm; i++)
        if ((i + c->tb) % 2 == turn)
            CLT_TRY(check_wgmma_form(session, &tiles, &ocl_wgmma_forms[i], 1 + (i / 2 + c->ta) % 2));
    return CLT_OK;
}

/* The backend `wgmma`, of one kind of device alone: every case with both types. It wants rows that start at
 * multiples of 16 bytes, so the same sizes get rows that are longer than they need. */
static clt_status check_wgmma(clt_verify_session *session, const clt_gemm_case *c)
{
    static const clt_dtype types[] = {CLT_F16, CLT_BF16};
    static const char *const labels[] = {"wgmma_f16", "wgmma_bf16"};
    bool dense = c->form == FORM_TIGHT && (c->m | c->n | c->k) % 8 == 0;
    if ((session->desc.caps & OCL_CAP_WGMMA) == 0)
        return CLT_OK;
    for (int t = 0; t < 2; t++) {
        clt_gemm_case narrow = *c;
        narrow.type[0] = narrow.type[1] = types[t];
        if (!dense && (c->form == FORM_TIGHT || c->form == FORM_PADDED))
            narrow.form = FORM_ALIGNED;
        narrow.small = c->small && c->ta == t % 2; /* compilation is most of the time */
        CLT_TRY(check_modes(session, &narrow, labels[t], "wgmma", NULL));
        if (c->forms)
            CLT_TRY(check_wgmma_forms(session, &narrow, t));
    }
    return CLT_OK;
}

clt_status clt_verify_gemm(clt_verify_session *session)
{
    for (const clt_gemm_case *c = clt_gemm_cases; c->name; c++) {
        for (size_t v = 0; ocl_gemm_variants[v]; v++)
            if (ocl_gemm_variants[v] != &ocl_gemm_mma && ocl_gemm_variants[v] != &ocl_gemm_wgmma)
                CLT_TRY(
                    check_modes(session, c, ocl_gemm_variants[v]->name, ocl_gemm_variants[v]->name, NULL));
        CLT_TRY(check_mma(session, c));
        CLT_TRY(check_wgmma(session, c));
        if (c->forms)
            CLT_TRY(check_forms(session, c));
        if (c->lane_forms)
            CLT_TRY(check_lane_forms(session, c));
    }
    return CLT_OK;
}
