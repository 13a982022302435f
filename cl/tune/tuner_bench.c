/* SPDX-License-Identifier: Apache-2.0
 *
 * One matrix product on a device, built, timed and compared with its reference. It must not know which
 * candidate is better than which. */
#include "cl/tune/tuner_bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/command/exec.h"
#include "engine/base/thread.h"

enum { BENCH_A, BENCH_B, BENCH_C, BENCH_BIAS, BENCH_RESIDUAL, BENCH_PRE, BENCH_DACT, BENCH_OPERANDS };
#define MAX_COPIES 128 /* on CPUs fewer */
#define MAX_COPIES_CPU 32
#define MAX_WORKSPACES 8
#define GUARD 64               /* elements behind C and pre that nobody may touch */
#define MAX_BYTES (256u << 20) /* of one product's operands */
#define FLOPS_PER_UNIT 2e9     /* largest problem that is measured, per compute unit */
#define MIN_SECONDS 0.004      /* of one timing */
#define HOST_FLOPS 4e8         /* up to here the host computes the whole reference: no kernel to build */
#define CHECKED 64             /* elements of a larger reference that the host computes too */

typedef struct bench_operand {
    clt_dtype type;
    size_t elements; /* guard included; 0: not used */
    void *image;     /* what it starts with */
} bench_operand;

struct ocl_gemm_bench {
    ocl_device *device;
    ocl_gemm gemm;
    double scale; /* full problem's work over this one's */
    int range;    /* operands are -range..range */
    int copies;
    bench_operand operand[BENCH_OPERANDS];
    ocl_buffer *buffer[MAX_COPIES][BENCH_OPERANDS];
    void *want_c, *want_pre, *got;
};

struct ocl_gemm_ready {
    ocl_gemm_bench *bench;
    ocl_command_list list;
    size_t first_end; /* commands of the first copy */
    ocl_exec *exec;
    ocl_buffer *workspace[MAX_WORKSPACES];
    int n_workspaces, next_workspace;
    ocl_emitter emitter;
    int runs;
};

/* The problem that is measured */

static int64_t columns_a(const ocl_gemm *g)
{
    return g->ta ? g->m : g->k;
}
static int64_t columns_b(const ocl_gemm *g)
{
    return g->tb ? g->k : g->n;
}
static int64_t rows_a(const ocl_gemm *g)
{
    return g->ta ? g->k : g->m;
}
static int64_t rows_b(const ocl_gemm *g)
{
    return g->tb ? g->n : g->k;
}

/* Sizes change; rows that were dense stay dense, items that were stacked stay stacked. */
static void resize(ocl_gemm *g, int64_t m, int64_t n, int64_t k, int64_t batch)
{
    bool dense_a = g->lda == columns_a(g), dense_b = g->ldb == columns_b(g), dense_c = g->ldc == g->n;
    bool stack_a = g->stride_a == rows_a(g) * g->lda, stack_b = g->stride_b == rows_b(g) * g->ldb,
         stack_c = g->stride_c == g->m * g->ldc;
    g->m = m;
    g->n = n;
    g->k = k;
    g->batch = batch;
    g->lda = dense_a ? columns_a(g) : g->lda;
    g->ldb = dense_b ? columns_b(g) : g->ldb;
    g->ldc = dense_c ? g->n : g->ldc;
    g->stride_a = batch == 1 ? 0 : stack_a ? rows_a(g) * g->lda : g->stride_a;
    g->stride_b = batch == 1 ? 0 : stack_b ? rows_b(g) * g->ldb : g->stride_b;
    g->stride_c = batch == 1 ? 0 : stack_c ? g->m * g->ldc : g->stride_c;
}

static double bytes_of(const ocl_gemm *g)
{
    int64_t a, b, c;
    if (!ocl_gemm_spans(g, &a, &b, &c))
        return 1e300;
    return (double)a * (double)clt_dtype_bytes(g->type_a) + (double)b * (double)clt_dtype_bytes(g->type_b) +
           3.0 * (double)c * (double)clt_dtype_bytes(g->type_c);
}

/* Halves what is largest until the problem fits; how blocks are best cut does not change at such sizes. */
static void make_measurable(ocl_gemm *g, const ocl_device_desc *desc)
{
    double room = (double)desc->usable_bytes / 16.0,
           flops = FLOPS_PER_UNIT * (desc->compute_units < 2 ? 2.0 : (double)desc->compute_units);
    room = room > MAX_BYTES ? MAX_BYTES : room;
    while ((ocl_gemm_flops(g) > flops || bytes_of(g) > room) &&
           (g->batch > 1 || g->m > 1 || g->n > 1 || g->k > 1)) {
        if (g->batch > 1)
            resize(g, g->m, g->n, g->k, (g->batch + 1) / 2);
        else if (g->m >= g->n && g->m >= g->k)
            resize(g, (g->m + 1) / 2, g->n, g->k, 1);
        else if (g->n >= g->k)
            resize(g, g->m, (g->n + 1) / 2, g->k, 1);
        else
            resize(g, g->m, g->n, (g->k + 1) / 2, 1);
    }
}

/* Operands */

static void store(void *image, clt_dtype type, size_t at, float value)
{
    if (type == CLT_F32)
        ((float *)image)[at] = value;
    else
        ((uint16_t *)image)[at] = type == CLT_F16 ? clt_f32_to_f16(value) : clt_f32_to_bf16(value);
}

static float load(const void *image, clt_dtype type, size_t at)
{
    if (type == CLT_F32)
        return ((const float *)image)[at];
    uint16_t bits = ((const uint16_t *)image)[at];
    return type == CLT_F16 ? clt_f16_to_f32(bits) : clt_bf16_to_f32(bits);
}

/* Whole numbers from -range to range, or NaN where the product must not read. */
static clt_status fill(ocl_gemm_bench *b, int which, clt_dtype type, int64_t elements, bool numbers)
{
    bench_operand *o = &b->operand[which];
    bool written = which == BENCH_C || which == BENCH_PRE;
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(which + 1);
    o->type = type;
    o->elements = (size_t)elements + (written ? GUARD : 0);
    CLT_TRY(clt_alloc(&o->image, o->elements, clt_dtype_bytes(type), "a tuner's operand"));
    memset(o->image, 0xff, o->elements * clt_dtype_bytes(type));
    for (size_t i = 0; numbers && i < (size_t)elements; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        store(o->image, type, i, (float)((int)((state >> 33) % (uint64_t)(2 * b->range + 1)) - b->range));
    }
    return CLT_OK;
}

static bool given(ocl_tensor_ref ref)
{
    return ref.tensor != OCL_NO_TENSOR_ID;
}

static clt_status fill_all(ocl_gemm_bench *b)
{
    const ocl_gemm *g = &b->gemm;
    int64_t a, bb, c;
    if (!ocl_gemm_spans(g, &a, &bb, &c))
        CLT_FAIL(CLT_ESHAPE, "tuning: a product without a size");
    CLT_TRY(fill(b, BENCH_A, g->type_a, a, true));
    CLT_TRY(fill(b, BENCH_B, g->type_b, bb, true));
    CLT_TRY(fill(b, BENCH_C, g->type_c, c, g->beta != 0.0f));
    if (given(g->bias))
        CLT_TRY(fill(b, BENCH_BIAS, CLT_F32, g->n, true));
    if (given(g->residual))
        CLT_TRY(fill(b, BENCH_RESIDUAL, g->type_c, c, true));
    if (given(g->pre))
        CLT_TRY(fill(b, BENCH_PRE, g->type_c, c, false));
    if (given(g->dact))
        CLT_TRY(fill(b, BENCH_DACT, g->type_c, c, true));
    return CLT_OK;
}

static size_t operand_bytes(const ocl_gemm_bench *b, int which)
{
    return b->operand[which].elements * clt_dtype_bytes(b->operand[which].type);
}

/* Operands rotate through about so much, as they do in a training step: more than a GPU's second-level cache
 * keeps (50 MB on an H100, 72 on an RTX 4090), or products would be measured that find their operands in it.
 * On CPUs arithmetic decides, and more copies would only take longer. */
static uint64_t cold_bytes(const ocl_device *device)
{
    const ocl_device_desc *desc = ocl_device_describe(device);
    uint64_t least = UINT64_C(32) << 20, most = UINT64_C(256) << 20, caches = 4 * desc->cache_bytes;
    if (desc->is_cpu)
        return least;
    /* GPUs' drivers report their first-level caches (NVIDIA 28 to 32 KiB a unit, AMD 16 KiB), not the second
     */
    most = desc->usable_bytes / 8 < most ? desc->usable_bytes / 8 : most;
    least = most > least ? most : least;
    return caches > least ? caches : least;
}

static clt_status create_buffers(ocl_gemm_bench *b)
{
    size_t total = 0;
    for (int i = 0; i < BENCH_OPERANDS; i++)
        total += operand_bytes(b, i);
    uint64_t cold = cold_bytes(b->device);
    b->copies = total > cold ? 1 : (int)(cold / (total + 1)) + 1;
    int most = ocl_device_describe(b->device)->is_cpu ? MAX_COPIES_CPU : MAX_COPIES;
    b->copies = b->copies > most ? most : b->copies;
    for (int k = 0; k < b->copies; k++) {
        for (int i = 0; i < BENCH_OPERANDS; i++) {
            if (b->operand[i].elements == 0)
                continue;
            CLT_TRY(ocl_buffer_create(b->device, operand_bytes(b, i), "a tuner's operand", &b->buffer[k][i]));
            CLT_TRY(ocl_write(b->buffer[k][i], 0, b->operand[i].image, operand_bytes(b, i)));
        }
    }
    return CLT_OK;
}

/* The host's own result */

static double activate(ocl_activation activation, double x)
{
    switch (activation) {
    case OCL_ACT_RELU:
        return x > 0.0 ? x : 0.0;
    case OCL_ACT_GELU_ERF:
        return 0.5 * x * erfc(-x * sqrt(0.5));
    case OCL_ACT_GELU_TANH:
        return 0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    default:
        return x;
    }
}

static double slope(ocl_activation activation, double x)
{
    double h = 1e-4; /* near enough for a check of the reference's sanity */
    if (activation == OCL_ACT_RELU)
        return x > 0.0 ? 1.0 : 0.0;
    return (activate(activation, x + h) - activate(activation, x - h)) / (2.0 * h);
}

static float value_a(const ocl_gemm_bench *b, int64_t z, int64_t i, int64_t p)
{
    const ocl_gemm *g = &b->gemm;
    size_t at = (size_t)(z * g->stride_a + (g->ta ? p * g->lda + i : i * g->lda + p));
    return load(b->operand[BENCH_A].image, g->type_a, at);
}

static float value_b(const ocl_gemm_bench *b, int64_t z, int64_t p, int64_t j)
{
    const ocl_gemm *g = &b->gemm;
    size_t at = (size_t)(z * g->stride_b + (g->tb ? j * g->ldb + p : p * g->ldb + j));
    return load(b->operand[BENCH_B].image, g->type_b, at);
}

/* C from a sum of products; *pre receives what goes into the activation. */
static double finish(const ocl_gemm_bench *b, int64_t place_in_c, int64_t j, double sum, double *pre)
{
    const ocl_gemm *g = &b->gemm;
    const bench_operand *o = b->operand;
    size_t at = (size_t)place_in_c;
    double v = sum * (double)g->alpha;
    if (given(g->dact))
        v *= slope(g->activation, (double)load(o[BENCH_DACT].image, g->type_c, at));
    if (g->beta != 0.0f)
        v += (double)g->beta * (double)load(o[BENCH_C].image, g->type_c, at);
    if (given(g->bias))
        v += (double)load(o[BENCH_BIAS].image, CLT_F32, (size_t)j);
    *pre = v;
    if (!given(g->dact))
        v = activate(g->activation, v);
    if (given(g->residual))
        v += (double)load(o[BENCH_RESIDUAL].image, g->type_c, at);
    return v;
}

static int64_t in_c(const ocl_gemm *g, int64_t z, int64_t i, int64_t j)
{
    return z * g->stride_c + i * g->ldc + j;
}

static double host_value(const ocl_gemm_bench *b, int64_t z, int64_t i, int64_t j)
{
    double sum = 0.0, pre;
    for (int64_t p = 0; p < b->gemm.k; p++)
        sum += (double)value_a(b, z, i, p) * (double)value_b(b, z, p, j);
    return finish(b, in_c(&b->gemm, z, i, j), j, sum, &pre);
}

/* The whole result. Sums of whole numbers are exact in f32, in any order. */
static clt_status host_reference(ocl_gemm_bench *b)
{
    const ocl_gemm *g = &b->gemm;
    float *op_b, *row;
    CLT_TRY(clt_alloc(&op_b, (size_t)(g->k * g->n + g->n), sizeof *op_b, "a tuner's reference"));
    row = op_b + g->k * g->n;
    for (int64_t z = 0; z < g->batch; z++) {
        for (int64_t p = 0; p < g->k; p++)
            for (int64_t j = 0; j < g->n; j++)
                op_b[p * g->n + j] = value_b(b, z, p, j);
        for (int64_t i = 0; i < g->m; i++) {
            memset(row, 0, (size_t)g->n * sizeof *row);
            for (int64_t p = 0; p < g->k; p++) {
                float a = value_a(b, z, i, p);
                for (int64_t j = 0; j < g->n; j++)
                    row[j] += a * op_b[p * g->n + j];
            }
            for (int64_t j = 0; j < g->n; j++) {
                double pre, c = finish(b, in_c(g, z, i, j), j, (double)row[j], &pre);
                store(b->want_c, g->type_c, (size_t)in_c(g, z, i, j), (float)c);
                if (b->want_pre != NULL)
                    store(b->want_pre, g->type_c, (size_t)in_c(g, z, i, j), (float)pre);
            }
        }
    }
    free(op_b);
    return CLT_OK;
}

/* How far a result of storage type and epilogue may be from the exact one. */
static double tolerance(const ocl_gemm *g, double value)
{
    double unit = g->type_c == CLT_F32 ? (g->tf32 ? 2e-3 : 1e-5) : g->type_c == CLT_F16 ? 2e-3 : 1.6e-2;
    return unit * (fabs(value) + fabs((double)g->alpha) * sqrt((double)g->k) + 1.0);
}

static clt_status check_reference(const ocl_gemm_bench *b)
{
    const ocl_gemm *g = &b->gemm;
    int64_t total = g->m * g->n * g->batch, step = total > CHECKED ? (total - 1) / (CHECKED - 1) : 1;
    for (int64_t e = 0; e < total; e += step) {
        int64_t z = e / (g->m * g->n), i = e / g->n % g->m, j = e % g->n;
        double want = host_value(b, z, i, j);
        double got = (double)load(b->want_c, g->type_c, (size_t)in_c(g, z, i, j));
        if (!(fabs(got - want) <= tolerance(g, want)))
            CLT_FAIL(
                CLT_ECHECK,
                "the reference product is wrong on this device: element (%lld,%lld) is %.9g, it should be "
                "%.9g; run 'cltrain verify'",
                (long long)i, (long long)j, got, want);
    }
    return CLT_OK;
}

/* Building */

static clt_status resolve(void *context, int32_t tensor, ocl_buffer **buffer, uint64_t *offset)
{
    ocl_gemm_ready *r = context;
    *offset = 0;
    if (tensor >= MAX_COPIES * BENCH_OPERANDS)
        *buffer = r->workspace[tensor - MAX_COPIES * BENCH_OPERANDS];
    else
        *buffer = r->bench->buffer[tensor / BENCH_OPERANDS][tensor % BENCH_OPERANDS];
    return CLT_OK;
}

/* The copies of a product run one after the other and share their workspaces. */
static int32_t workspace(void *owner, clt_dtype dtype, uint64_t elements, const char *name)
{
    ocl_gemm_ready *r = owner;
    clt_status status = CLT_OK;
    int index = r->next_workspace;
    if (index == MAX_WORKSPACES)
        status =
            clt_fail(CLT_EUNSUPPORTED, __FILE__, __LINE__, "tuning: more than %d workspaces", MAX_WORKSPACES);
    else if (index == r->n_workspaces)
        status = ocl_buffer_create(r->bench->device, elements * clt_dtype_bytes(dtype), name,
                                   &r->workspace[index]);
    if (status != CLT_OK) {
        ocl_emit_fail(&r->emitter, status);
        return OCL_NO_TENSOR_ID;
    }
    r->next_workspace++;
    r->n_workspaces = r->next_workspace > r->n_workspaces ? r->next_workspace : r->n_workspaces;
    return MAX_COPIES * BENCH_OPERANDS + index;
}

static void place(ocl_tensor_ref *ref, bool used, int copy, int operand)
{
    *ref = used ? ocl_ref(copy * BENCH_OPERANDS + operand) : OCL_NO_TENSOR;
}

static clt_status emit_copy(ocl_gemm_ready *r, int copy, const char *force)
{
    ocl_gemm g = r->bench->gemm;
    place(&g.a, true, copy, BENCH_A);
    place(&g.b, true, copy, BENCH_B);
    place(&g.c, true, copy, BENCH_C);
    place(&g.bias, given(g.bias), copy, BENCH_BIAS);
    place(&g.residual, given(g.residual), copy, BENCH_RESIDUAL);
    place(&g.pre, given(g.pre), copy, BENCH_PRE);
    place(&g.dact, given(g.dact), copy, BENCH_DACT);
    r->next_workspace = 0;
    return ocl_gemm_emit(&r->emitter, &g, force);
}

static clt_status build(ocl_gemm_ready *r, const char *force)
{
    for (int k = 0; k < r->bench->copies; k++) {
        CLT_TRY(emit_copy(r, k, force));
        if (k == 0)
            r->first_end = r->list.count;
    }
    ocl_exec_options options = {.resolve = resolve, .resolve_context = r};
    return ocl_exec_create(r->bench->device, &r->list, &options, &r->exec);
}

clt_status ocl_gemm_ready_create(ocl_gemm_bench *bench, const ocl_device_desc *desc,
                                 const ocl_choice *candidate, const char *force, ocl_choice *asked,
                                 ocl_gemm_ready **out)
{
    ocl_gemm_ready *r;
    *out = NULL;
    CLT_TRY(clt_alloc(&r, 1, sizeof *r, "a tuning candidate"));
    r->bench = bench;
    r->emitter = (ocl_emitter){.list = &r->list,
                               .device = desc,
                               .label = "tuning",
                               .variant = "",
                               .node = -1,
                               .workspace = workspace,
                               .owner = r,
                               .record = candidate,
                               .asked = asked};
    clt_status status = clt_arena_create(&r->list.arena);
    if (status == CLT_OK)
        status = build(r, force);
    if (status != CLT_OK) {
        clt_error error;
        clt_error_take(status, &error);
        ocl_gemm_ready_destroy(r);
        return clt_error_put(&error);
    }
    *out = r;
    return CLT_OK;
}

void ocl_gemm_ready_destroy(ocl_gemm_ready *r)
{
    if (r == NULL)
        return;
    ocl_exec_destroy(r->exec);
    ocl_emitter_free(&r->emitter);
    clt_arena *arena = r->list.arena;
    ocl_command_list_free(&r->list);
    clt_arena_destroy(arena);
    for (int i = 0; i < r->n_workspaces; i++)
        ocl_buffer_destroy(r->workspace[i]);
    free(r);
}

/* Running */

static clt_status run(ocl_gemm_ready *r, int runs, double *seconds)
{
    double start = clt_now();
    for (int i = 0; i < runs; i++)
        CLT_TRY(ocl_exec_run(r->exec, NULL));
    CLT_TRY(ocl_finish(r->bench->device, OCL_QUEUE_COMPUTE));
    *seconds = clt_now() - start;
    return CLT_OK;
}

clt_status ocl_gemm_ready_time(ocl_gemm_ready *r, bool warm, double *ns)
{
    double seconds;
    if (warm || r->runs == 0)
        CLT_TRY(run(r, 1, &seconds));
    r->runs = r->runs > 0 ? r->runs : 1;
    CLT_TRY(run(r, r->runs, &seconds));
    if (seconds < MIN_SECONDS) {
        double more = seconds > 1e-7 ? 1.5 * MIN_SECONDS / seconds : 1000.0;
        double wanted = (double)r->runs * (more > 1000.0 ? 1000.0 : more);
        r->runs = wanted > 10000.0 ? 10000 : (int)wanted + 1;
        CLT_TRY(run(r, r->runs, &seconds));
    }
    *ns = seconds * 1e9 / ((double)r->runs * r->bench->copies) * r->bench->scale;
    return CLT_OK;
}

/* What the first copy wrote. */
static clt_status read_first(ocl_gemm_ready *r, int which, void *out)
{
    ocl_gemm_bench *b = r->bench;
    return ocl_read(b->buffer[0][which], 0, out, operand_bytes(b, which));
}

/* Runs the first copy once from its starting values. */
static clt_status restart(ocl_gemm_ready *r)
{
    ocl_gemm_bench *b = r->bench;
    CLT_TRY(ocl_write(b->buffer[0][BENCH_C], 0, b->operand[BENCH_C].image, operand_bytes(b, BENCH_C)));
    if (b->operand[BENCH_PRE].elements > 0)
        CLT_TRY(
            ocl_write(b->buffer[0][BENCH_PRE], 0, b->operand[BENCH_PRE].image, operand_bytes(b, BENCH_PRE)));
    CLT_TRY(ocl_exec_run_range(r->exec, 0, r->first_end, NULL));
    return ocl_finish(b->device, OCL_QUEUE_COMPUTE);
}

/* Bit for bit where the arithmetic is exact, else close. */
static bool is_right(const ocl_gemm_bench *b, int which, const void *want, const void *got, char *why,
                     size_t size)
{
    const ocl_gemm *g = &b->gemm;
    const bench_operand *o = &b->operand[which];
    size_t unit = clt_dtype_bytes(o->type);
    bool exact = g->activation == OCL_ACT_NONE && fabsf(g->alpha) == 1.0f;
    if (memcmp(want, got, operand_bytes(b, which)) == 0)
        return true;
    for (size_t i = 0; i < o->elements; i++) {
        if (memcmp((const char *)want + i * unit, (const char *)got + i * unit, unit) == 0)
            continue;
        double x = (double)load(got, o->type, i), y = (double)load(want, o->type, i);
        if (!exact && fabs(x - y) <= tolerance(g, y))
            continue;
        if (exact && x == y) /* zeros of either sign */
            continue;
        snprintf(why, size, "%s[%zu] is %.9g, it should be %.9g", which == BENCH_C ? "C" : "pre", i, x, y);
        return false;
    }
    return true;
}

clt_status ocl_gemm_ready_check(ocl_gemm_ready *r, bool *right, char *why, size_t size)
{
    ocl_gemm_bench *b = r->bench;
    *right = false;
    CLT_TRY(restart(r));
    CLT_TRY(read_first(r, BENCH_C, b->got));
    *right = is_right(b, BENCH_C, b->want_c, b->got, why, size);
    if (!*right || b->operand[BENCH_PRE].elements == 0)
        return CLT_OK;
    CLT_TRY(read_first(r, BENCH_PRE, b->got));
    *right = is_right(b, BENCH_PRE, b->want_pre, b->got, why, size);
    return CLT_OK;
}

/* Creating */

static clt_status make_reference(ocl_gemm_bench *b, const ocl_device_desc *desc)
{
    ocl_gemm_ready *ready;
    size_t bytes = operand_bytes(b, BENCH_C);
    CLT_TRY(clt_alloc(&b->got, bytes, 1, "a tuner's result"));
    CLT_TRY(clt_alloc(&b->want_c, bytes, 1, "a tuner's reference"));
    if (b->operand[BENCH_PRE].elements > 0)
        CLT_TRY(clt_alloc(&b->want_pre, bytes, 1, "a tuner's reference"));
    if (ocl_gemm_flops(&b->gemm) <= HOST_FLOPS) {
        memcpy(b->want_c, b->operand[BENCH_C].image, bytes);
        if (b->want_pre != NULL)
            memcpy(b->want_pre, b->operand[BENCH_PRE].image, bytes);
        return host_reference(b);
    }
    CLT_TRY(ocl_gemm_ready_create(b, desc, NULL, "simple", NULL, &ready));
    clt_status status = restart(ready);
    if (status == CLT_OK)
        status = read_first(ready, BENCH_C, b->want_c);
    if (status == CLT_OK && b->want_pre != NULL)
        status = read_first(ready, BENCH_PRE, b->want_pre);
    clt_error error;
    clt_error_take(status, &error);
    ocl_gemm_ready_destroy(ready);
    CLT_TRY(clt_error_put(&error));
    return check_reference(b);
}

static clt_status create(ocl_gemm_bench *b, const ocl_device_desc *desc)
{
    double full = ocl_gemm_flops(&b->gemm);
    make_measurable(&b->gemm, desc);
    b->scale = ocl_gemm_flops(&b->gemm) > 0 ? full / ocl_gemm_flops(&b->gemm) : 1.0;
    b->range = b->gemm.k > 1000000 ? 1 : 3; /* sums stay below 2^24 */
    CLT_TRY(fill_all(b));
    CLT_TRY(create_buffers(b));
    return make_reference(b, desc);
}

clt_status ocl_gemm_bench_create(ocl_device *device, const ocl_device_desc *desc, const ocl_gemm *gemm,
                                 ocl_gemm_bench **out)
{
    ocl_gemm_bench *b;
    *out = NULL;
    CLT_TRY(clt_alloc(&b, 1, sizeof *b, "a tuner's problem"));
    b->device = device;
    b->gemm = *gemm;
    b->gemm.a.offset = b->gemm.b.offset = b->gemm.c.offset = 0;
    clt_status status = create(b, desc);
    if (status != CLT_OK) {
        clt_error error;
        clt_error_take(status, &error);
        ocl_gemm_bench_destroy(b);
        return clt_error_put(&error);
    }
    *out = b;
    return CLT_OK;
}

void ocl_gemm_bench_destroy(ocl_gemm_bench *b)
{
    if (b == NULL)
        return;
    for (int k = 0; k < MAX_COPIES; k++)
        for (int i = 0; i < BENCH_OPERANDS; i++)
            ocl_buffer_destroy(b->buffer[k][i]);
    for (int i = 0; i < BENCH_OPERANDS; i++)
        free(b->operand[i].image);
    free(b->want_c);
    free(b->want_pre);
    free(b->got);
    free(b);
}

const ocl_gemm *ocl_gemm_bench_problem(const ocl_gemm_bench *bench)
{
    return &bench->gemm;
}
