/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of GEMM backends against the contract of cl/gemm/gemm.h: sizes around tile edges, every layout,
 * batches, shared and interleaved operands, offsets and row strides, scalars, storage types, epilogues.
 * Operands lie in buffers full of plausible numbers; no byte of C's buffer outside of C may change. Each
 * backend is checked with the tile that it chooses itself; verify_gemm_forms.c checks the other tiles. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/command/command_times.h"
#include "cl/gemm_bench/gemm_bench.h"
#include "engine/base/thread.h"
#include "engine/verify/cases/verify_gemm_run.h"

/* --- problem --- */

static int64_t or_one(int64_t value)
{
    return value ? value : 1;
}

/* Fills in the sizes of the image and of the result. `*pixels`: positions in all images; `*places`:
 * positions in all results; `*taps`: positions in the window. */
static ocl_windows windows_of(const clt_gemm_windows *c, int64_t *pixels, int64_t *places, int64_t *taps)
{
    ocl_windows w = {
        .operand = c->operand, .channels = c->channels, .place = c->channels * or_one(c->groups)};
    *pixels = *places = c->n;
    *taps = 1;
    for (int i = 0; i < 3; i++) {
        w.in[i] = or_one(c->in[i]);
        w.kernel[i] = or_one(c->kernel[i]);
        w.stride[i] = or_one(c->stride[i]);
        w.dilation[i] = or_one(c->dilation[i]);
        w.padding[i] = c->padding[i];
        int64_t room = w.in[i] + 2 * w.padding[i] - w.dilation[i] * (w.kernel[i] - 1);
        w.out[i] = c->out[i] ? c->out[i] : (room - 1) / w.stride[i] + 1;
        *pixels *= w.in[i];
        *places *= w.out[i];
        *taps *= w.kernel[i];
    }
    w.elements = *pixels * w.place;
    return w;
}

/* Makes the product of a convolution: windows of an image times a weight, or, for the gradient of the
 * weight, the gradient of the result times these windows. */
static ocl_gemm make_windows(const clt_gemm_case *c)
{
    int64_t pixels, places, taps;
    ocl_windows w = windows_of(&c->windows, &pixels, &places, &taps);
    bool of_a = w.operand == OCL_WINDOWS_A;
    int64_t groups = or_one(c->windows.groups), width = taps * w.channels;
    ocl_gemm g =
        ocl_gemm_make(of_a ? places : c->m, of_a ? c->n : width, of_a ? width : places, c->ta, c->tb);
    g.windows = w;
    g.batch = groups;
    if (of_a) {
        g.ldc = g.n * groups;
        g.stride_a = w.channels;
        g.stride_c = g.n;
    } else {
        g.lda = g.m * groups;
        g.stride_a = g.m;
        g.stride_b = w.channels;
    }
    return g;
}

/* Adds random numbers of elements to the strides of rows and batch items, and to the operands' offsets in
 * their tensors. For an image of windows only the offset can change. Batch items that are groups of channels
 * stay side by side. */
static void pad(const clt_gemm_case *c, const clt_verify_stream *s, ocl_gemm *g)
{
    bool of_a = c->windows.operand == OCL_WINDOWS_A, of_b = c->windows.operand == OCL_WINDOWS_B;
    g->lda += of_a ? 0 : 1 + clt_verify_word(s, 0) % 5;
    g->ldb += of_b ? 0 : 1 + clt_verify_word(s, 1) % 5;
    g->ldc += 1 + clt_verify_word(s, 2) % 5;
    if (!of_a && !of_b)
        g->stride_a = (g->ta ? g->k : g->m) * g->lda + clt_verify_word(s, 3) % 9;
    if (!of_b)
        g->stride_b = c->form == FORM_SHARED ? 0 : (g->tb ? g->n : g->k) * g->ldb + clt_verify_word(s, 4) % 9;
    if (!of_a)
        g->stride_c = g->m * g->ldc + clt_verify_word(s, 5) % 9;
    g->a.offset = (1 + clt_verify_word(s, 6) % 70) * clt_dtype_bytes(g->type_a);
    g->b.offset = (1 + clt_verify_word(s, 7) % 70) * clt_dtype_bytes(g->type_b);
    g->c.offset = (1 + clt_verify_word(s, 8) % 70) * clt_dtype_bytes(g->type_c);
}

/* Like pad, but adds multiples of 16 bytes. */
static void pad_aligned(const clt_gemm_case *c, const clt_verify_stream *s, ocl_gemm *g)
{
    bool of_a = c->windows.operand == OCL_WINDOWS_A, of_b = c->windows.operand == OCL_WINDOWS_B;
    g->lda = of_a ? g->lda : (g->lda + 15) / 8 * 8;
    g->ldb = of_b ? g->ldb : (g->ldb + 15) / 8 * 8;
    g->ldc = (g->ldc + 15) / 8 * 8;
    if (!of_a && !of_b)
        g->stride_a = (g->ta ? g->k : g->m) * g->lda + 8;
    if (!of_b)
        g->stride_b = (g->tb ? g->n : g->k) * g->ldb + 8;
    if (!of_a)
        g->stride_c = g->m * g->ldc + 8;
    g->a.offset = g->b.offset = g->c.offset = 16 * (1 + clt_verify_word(s, 6) % 9);
}

/* Puts batch items side by side in the rows. */
static void interleave(ocl_gemm *g)
{
    g->stride_a = g->lda;
    g->stride_b = g->ldb;
    g->stride_c = g->ldc;
    g->lda *= g->batch;
    g->ldb *= g->batch;
    g->ldc *= g->batch;
}

static ocl_gemm make_gemm(const clt_gemm_case *c, const clt_verify_stream *s)
{
    bool windows = clt_gemm_has_windows(c);
    ocl_gemm g = windows ? make_windows(c) : ocl_gemm_make(c->m, c->n, c->k, c->ta, c->tb);
    g.batch = windows ? g.batch : or_one(c->batch);
    g.alpha = c->alpha != 0.0f ? c->alpha : 1.0f;
    g.beta = c->beta;
    g.type_a = c->type[0];
    g.type_b = c->type[1];
    g.type_c = c->type[2];
    g.activation = c->activation;
    g.tf32 = c->tf32;
    if (c->form == FORM_PADDED || c->form == FORM_SHARED)
        pad(c, s, &g);
    else if (c->form == FORM_ALIGNED)
        pad_aligned(c, s, &g);
    else if (c->form == FORM_HEADS)
        interleave(&g);
    return g;
}

/* Offset of an operand of the epilogue: any element, or a multiple of 16 bytes. */
static ocl_tensor_ref extra(const clt_gemm_case *c, int32_t tensor, uint64_t bytes)
{
    return (ocl_tensor_ref){tensor, c->form == FORM_ALIGNED ? bytes / 4 * 16 : bytes};
}

/* only marks the request: results go to members of the bench, as line sums do */
static ocl_moments wanted_moments;
static ocl_line_sums wanted_line_sums[] = {{.accumulate = false}, {.accumulate = true}};

static void add_epilogue(const clt_gemm_case *c, ocl_gemm *g)
{
    ocl_tensor_ref in_c = {OCL_GEMM_C, g->c.offset};
    if (c->bias)
        g->bias = extra(c, OCL_GEMM_BIAS, 12);
    if (c->residual != EXTRA_NONE)
        g->residual = c->residual == EXTRA_C ? in_c : extra(c, OCL_GEMM_RESIDUAL, 20);
    if (c->pre)
        g->pre = extra(c, OCL_GEMM_PRE, 28);
    if (c->moments)
        g->moments = &wanted_moments;
    if (c->line_sums != LINE_SUMS_NONE)
        g->line_sums = &wanted_line_sums[c->line_sums == LINE_SUMS_ADDED];
    if (c->dact != EXTRA_NONE)
        g->dact = c->dact == EXTRA_C ? in_c : extra(c, OCL_GEMM_DACT, 36);
}

static void fill(void *context, int operand, clt_dtype type, size_t first, double *out, size_t n)
{
    const clt_gemm_run *r = context;
    clt_verify_stream stream = clt_verify_stream_make(r->session->seed, r->problem->name,
                                                      (uint32_t)(16 + operand + 32 * r->integers));
    clt_verify_filler filler = {
        .fill = CLT_FILL_NORMAL, .dtype = type, .integers = r->integers, .equal = r->problem->equal};
    stream.first = first;
    clt_verify_fill(out, n, &filler, &stream);
    for (size_t i = 0; operand == OCL_GEMM_BIAS && i < n; i++)
        out[i] += (double)r->problem->apart;
}

/* Handles a backend's refusal: the outcome is SKIP. */
static clt_status refused(clt_gemm_run *r)
{
    const char *open = strstr(clt_error_text(), "none accepts (");
    if (!r->choice && !open)
        return CLT_EUNSUPPORTED;
    char reason[CLT_ERROR_TEXT_SIZE];
    if (r->choice) {
        snprintf(reason, sizeof reason, "%s", clt_error_text());
    } else {
        snprintf(reason, sizeof reason, "backend %s", open + strlen("none accepts ("));
        char *close = strrchr(reason, ')');
        if (close)
            *close = '\0';
    }
    clt_error_clear();
    if (!r->choice && (ocl_gemm_promises(r->backend) & OCL_GEMM_ALL) && !clt_gemm_has_windows(r->problem))
        clt_verify_set(r->outcome, CLT_VERIFY_FAIL, "the last backend must accept everything: %s", reason);
    else
        clt_verify_set(r->outcome, CLT_VERIFY_SKIP, "%s", reason);
    return CLT_OK;
}

static clt_status open_run(clt_gemm_run *r)
{
    clt_verify_stream stream = clt_verify_stream_make(r->session->seed, r->problem->name, 0);
    ocl_gemm gemm = make_gemm(r->problem, &stream);
    ocl_gemm_fill from = {.values = fill, .context = r, .whole = r->integers, .gaps = true};
    ocl_device_desc desc = clt_gemm_run_desc(r);
    ocl_emitter how = {.device = &desc, .label = r->problem->name, .record = r->choice};
    add_epilogue(r->problem, &gemm);
    CLT_TRY(ocl_gemm_bench_create(r->session->device, &gemm, &from, 1, &r->bench));
    clt_status status = ocl_gemm_ready_create(r->bench, &how, r->backend->name, &r->ready);
    if (status == CLT_EUNSUPPORTED)
        return refused(r);
    return status == CLT_OK ? ocl_gemm_ready_build(r->ready) : status;
}

static void close_run(clt_gemm_run *r)
{
    ocl_gemm_ready_destroy(r->ready);
    ocl_gemm_bench_destroy(r->bench);
}
CLT_SCOPED_VALUE(clt_gemm_run, close_run)

/* --- judging --- */

/* Relative error of a sum of k equal products in one chain (kernel_shared.clh): CLBlast adds in this way,
 * and so do emulated matrix units. */
static double rounded_in_a_chain(const clt_gemm_run *r)
{
    return r->problem->equal && !(ocl_gemm_promises(r->backend) & OCL_GEMM_CHAINS)
               ? (double)r->bench->gemm.k / 3.0 * 0x1p-24
               : 0.0;
}

/* Relative error of intermediate roundings: rounding of the operands, and of the stored value to which the
 * activation is applied. */
static double rounded_on_the_way(const ocl_gemm *g)
{
    double operands = g->tf32 ? 0x1p-10 : 0.0, stored = 0.0;
    if (g->activation != OCL_ACT_NONE && g->dact.tensor == OCL_NO_TENSOR_ID)
        stored = g->type_c == CLT_F16 ? 0x1p-11 : g->type_c == CLT_BF16 ? 0x1p-8 : 0.0;
    return operands + stored;
}

/* The position in C's buffer of element i, counted over C's batch items, rows and columns. */
static size_t place_in_c(const void *context, size_t i)
{
    const clt_gemm_run *r = context;
    const ocl_gemm *g = &r->bench->gemm;
    int64_t line = (int64_t)i / g->n;
    return (size_t)(line / g->m * g->stride_c + line % g->m * g->ldc + (int64_t)i % g->n);
}

/* Compares results. values: n results, then n expected values, then n bounds. Adds the error of a chain to
 * the bounds. */
static void compare(clt_gemm_run *r, int operand, const char *what, double *values, size_t n)
{
    clt_verify_rule exact = {.exact = true};
    const ocl_gemm *g = &r->bench->gemm;
    double chain = rounded_in_a_chain(r);
    for (size_t i = 0; i < n; i++)
        values[2 * n + i] += chain * fabs(values[n + i]);
    const ocl_gemm_array *a = &r->bench->array[operand];
    clt_verify_from(r->outcome, (clt_verify_source){.buffer = r->bench->buffer[0][operand],
                                                    .dtype = a->type,
                                                    .offset = a->first * clt_dtype_bytes(a->type),
                                                    .index = place_in_c,
                                                    .context = r});
    if (r->integers)
        clt_verify_compare(r->outcome, what, values, values + n, n, &exact);
    else
        clt_verify_compare_bounds(r->outcome, what, values, values + n, values + 2 * n, n, g->type_c,
                                  rounded_on_the_way(g) + chain);
}

/* Reads the values of an operand with C's shape, in C's order. */
static clt_status read_result(clt_gemm_run *r, int operand, double *out)
{
    const ocl_gemm *g = &r->bench->gemm;
    const ocl_gemm_array *a = &r->bench->array[operand];
    CLT_FREED uint8_t *after = NULL;
    CLT_TRY(ocl_gemm_ready_read(r->ready, operand, &after));
    for (int64_t z = 0; z < g->batch; z++)
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t j = 0; j < g->n; j++)
                *out++ =
                    clt_dtype_load(a->type, after, a->first + (size_t)(z * g->stride_c + i * g->ldc + j));
    return CLT_OK;
}

/* c and pre: n results each, followed by room for n expected values and n bounds. */
static clt_status expect(const clt_gemm_run *r, double *c, double *pre, size_t n)
{
    const ocl_gemm *g = &r->bench->gemm;
    CLT_FREED ocl_gemm_value *row = NULL;
    size_t e = 0;
    CLT_TRY(clt_alloc(&row, (size_t)g->n, sizeof *row, "checker's reference"));
    for (int64_t line = 0; line < g->batch * g->m; line++) {
        CLT_TRY(ocl_gemm_expect(r->bench, line / g->m, line % g->m, 0, g->n, row));
        for (int64_t j = 0; j < g->n; j++, e++) {
            c[n + e] = row[j].c;
            c[2 * n + e] = row[j].bound_c;
            pre[n + e] = row[j].pre;
            pre[2 * n + e] = row[j].bound_pre;
        }
    }
    return CLT_OK;
}

static clt_status judge(clt_gemm_run *r)
{
    const ocl_gemm *g = &r->bench->gemm;
    bool kept = r->problem->pre;
    CLT_FREED double *c = NULL;
    size_t n = (size_t)(g->m * g->n * g->batch);
    CLT_TRY(clt_alloc(&c, 6 * n, sizeof *c, "checker's results"));
    double *pre = c + 3 * n;
    CLT_TRY(read_result(r, OCL_GEMM_C, c));
    if (kept)
        CLT_TRY(read_result(r, OCL_GEMM_PRE, pre));
    CLT_TRY(expect(r, c, pre, n));
    compare(r, OCL_GEMM_C, r->integers ? "C (integers)" : "C", c, n);
    if (kept)
        compare(r, OCL_GEMM_PRE, r->integers ? "pre (integers)" : "pre", pre, n);
    if (!r->integers && g->k > 0)
        clt_verify_trust(r->outcome, "C", c, n, 0.02);
    return clt_gemm_judge_additions(r, c);
}

/* --- modes --- */

/* True if all scalars are short binary fractions: then products of integers must be exact, and rounded to
 * nearest even if C has 16 bits. */
static bool is_exact(const clt_gemm_case *c)
{
    return c->activation <= OCL_ACT_RELU;
}

static clt_status check_guards(clt_gemm_run *r)
{
    bool right;
    char why[200];
    CLT_TRY(ocl_gemm_ready_guards(r->ready, &right, why, sizeof why));
    if (!right)
        clt_verify_set(r->outcome, CLT_VERIFY_FAIL, "%s", why);
    return CLT_OK;
}

static clt_status check_values(clt_gemm_run *r)
{
    CLT_TRY(ocl_gemm_ready_run(r->ready));
    CLT_TRY(check_guards(r));
    return judge(r);
}

static clt_status check_bits(clt_gemm_run *r)
{
    const ocl_gemm_array *c = &r->bench->array[OCL_GEMM_C];
    CLT_FREED uint8_t *first = NULL, *second = NULL;
    CLT_FREED double *additions = NULL, *others = NULL;
    size_t where, bytes;
    CLT_TRY(ocl_gemm_ready_run(r->ready));
    CLT_TRY(ocl_gemm_ready_read(r->ready, OCL_GEMM_C, &first));
    CLT_TRY(clt_gemm_read_additions(r, &additions, &bytes));
    CLT_TRY(ocl_gemm_ready_run(r->ready));
    CLT_TRY(ocl_gemm_ready_read(r->ready, OCL_GEMM_C, &second));
    CLT_TRY(clt_gemm_read_additions(r, &others, &bytes));
    if (clt_verify_changed(first, second, NULL, ocl_gemm_array_bytes(c), &where))
        clt_verify_set(r->outcome, CLT_VERIFY_FAIL, "the second run differs in element %lld of C",
                       (long long)(where / clt_dtype_bytes(c->type)) - (long long)c->first);
    else if (memcmp(additions, others, bytes) != 0)
        clt_verify_set(r->outcome, CLT_VERIFY_FAIL, "the second run differs in the moments or the line sums");
    return CLT_OK;
}

/* Opens a copy of the run and checks it, unless the backend refuses. */
static clt_status run_check(const clt_gemm_run *like, bool integers, clt_status (*check)(clt_gemm_run *))
{
    CLT_SCOPED(clt_gemm_run) run = *like;
    run.integers = integers;
    CLT_TRY(open_run(&run));
    return run.ready ? check(&run) : CLT_OK;
}

static clt_status check_mode(const clt_gemm_run *run, const char *label, unsigned mode)
{
    const clt_gemm_case *c = run->problem;
    clt_verify_item item = {"gemm", c->name, label, mode, c->small, false};
    for (int i = 0; i < 3; i++)
        item.bf16 |= c->type[i] == CLT_BF16;
    if (!clt_verify_wants(run->session, &item, run->outcome))
        return CLT_OK;
    clt_gemm_case altered = *c;
    clt_gemm_run own = *run;
    own.problem = &altered;
    clt_status status = clt_verify_alter(run->session, CLT_VERIFY_GEMM_CASE, &altered);
    if (status == CLT_OK)
        status = run_check(&own, false, mode == CLT_VERIFY_CORRECT ? check_values : check_bits);
    if (status == CLT_OK && mode == CLT_VERIFY_CORRECT && is_exact(&altered) && !clt_verify_bad(run->outcome))
        status = run_check(&own, true, check_values);
    return clt_verify_finish(run->session, run->outcome, status);
}

clt_status clt_gemm_check_modes(clt_verify_session *session, const clt_gemm_case *c, const char *label,
                                const ocl_variant *backend, const ocl_choice *choice)
{
    clt_verify_outcome outcome;
    const clt_gemm_run run = {
        .session = session, .outcome = &outcome, .problem = c, .backend = backend, .choice = choice};
    CLT_TRY(check_mode(&run, label, CLT_VERIFY_CORRECT));
    return check_mode(&run, label, CLT_VERIFY_BITWISE);
}

clt_status clt_verify_gemm(clt_verify_session *session)
{
    for (const clt_gemm_case *c = clt_gemm_cases; c->name; c++) {
        for (size_t v = 0; ocl_gemm_variants[v]; v++)
            if (ocl_form_unit(ocl_gemm_variants[v]) == NULL)
                CLT_TRY(
                    clt_gemm_check_modes(session, c, ocl_gemm_variants[v]->name, ocl_gemm_variants[v], NULL));
        CLT_TRY(clt_gemm_check_forms(session, c));
    }
    return CLT_OK;
}
