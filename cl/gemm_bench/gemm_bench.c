/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates the operands of a product with guard zones, builds its commands, runs them, and checks that
 * nothing outside the results changed. This file must not know which values are right. */
#include "cl/gemm/gemm_windows.h"
#include "cl/gemm_bench/gemm_bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/thread.h"

#define WORKSPACE_ID (1 << 20) /* tensor id of the first workspace */
#define FILL_BLOCK 1024

size_t ocl_gemm_array_bytes(const ocl_gemm_array *array)
{
    return array->elements * clt_dtype_bytes(array->type);
}

/* --- operands --- */

/* Whole numbers from -3 to 3, or from -1 to 1 if k is so large that sums would not be exact. */
static void whole_values(void *context, int operand, clt_dtype type, size_t first, double *out, size_t n)
{
    const ocl_gemm *g = context;
    uint64_t range = g->k > 1000000 ? 1 : 3, key = UINT64_C(0xd1b54a32d192ed03) * (uint64_t)(operand + 1);
    (void)type;
    for (size_t i = 0; i < n; i++) {
        uint64_t x = (key + first + i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
        out[i] = (double)((x >> 40) % (2 * range + 1)) - (double)range;
    }
}

static clt_status fill_array(ocl_gemm_bench *b, int which, clt_dtype type, uint64_t offset, int64_t span,
                             const ocl_gemm_fill *fill, bool nan)
{
    ocl_gemm_array *a = &b->array[which];
    double block[FILL_BLOCK];
    a->type = type;
    a->first = OCL_GEMM_GUARD + (size_t)offset / clt_dtype_bytes(type);
    a->elements = a->first + (size_t)span + OCL_GEMM_GUARD;
    CLT_TRY(clt_alloc(&a->image, a->elements, clt_dtype_bytes(type), "an operand of a product"));
    for (size_t at = 0; at < a->elements; at += FILL_BLOCK) {
        size_t n = a->elements - at < FILL_BLOCK ? a->elements - at : FILL_BLOCK;
        if (!nan && fill->values)
            fill->values(fill->context, which, type, at, block, n);
        else if (!nan)
            whole_values(&b->gemm, which, type, at, block, n);
        for (size_t i = 0; i < n; i++)
            clt_dtype_store(type, a->image, at + i, nan ? (double)NAN : block[i]);
    }
    return CLT_OK;
}

/* Writes a NaN with bits that no computation produces. The emulators of devices in tests/ptx recognise these
 * bits and report every read of them, even if the value is not used. */
static void put_nan(ocl_gemm_array *a, size_t at)
{
    static const uint32_t pattern = 0x7ff1fff3u;
    size_t bytes = clt_dtype_bytes(a->type);
    memcpy(a->image + at * bytes, (const uint8_t *)&pattern + at * bytes % sizeof pattern, bytes);
}

/* Fills the gaps of an operand, which belong to none of its matrices, with NaN. So a product that reads them
 * is noticed even if it multiplies them by zero. */
static void spoil_gaps(ocl_gemm_array *a, int64_t rows, int64_t cols, int64_t ld, int64_t stride,
                       int64_t batch)
{
    int64_t first = (int64_t)a->first, end = (int64_t)a->elements - first;
    for (int64_t i = -first; i < end; i++) {
        int64_t z = i < 0 || stride == 0 ? 0 : i / stride, row = i - z * stride;
        bool used = i >= 0 && z < batch && rows > 0 && row / ld < rows && row % ld < cols;
        /* matrices may be interleaved: rows of one may lie between rows of another */
        for (int64_t k = 0; !used && i >= 0 && k < batch && stride < rows * ld; k++)
            used = i >= k * stride && (i - k * stride) / ld < rows && (i - k * stride) % ld < cols;
        if (!used)
            put_nan(a, (size_t)(first + i));
    }
}

/* Fills the gaps of A or B with NaN. An image has no gaps inside, only before and after it. */
static void spoil_gaps_of(ocl_gemm_bench *b, bool of_a)
{
    const ocl_gemm *g = &b->gemm;
    ocl_gemm_array *array = &b->array[of_a ? OCL_GEMM_A : OCL_GEMM_B];
    int64_t elements = g->windows.elements;
    const ocl_stored_matrix m = ocl_gemm_stored(g, of_a);
    if (ocl_is_windows(g, of_a))
        spoil_gaps(array, 1, elements, elements, 0, 1);
    else
        spoil_gaps(array, m.rows, m.columns, m.ld, m.stride, g->batch);
}

/* Creates an operand of C's shape, unless it is absent or is C itself. */
static clt_status fill_like_c(ocl_gemm_bench *b, ocl_tensor_ref *ref, int which, int64_t span,
                              const ocl_gemm_fill *fill)
{
    if (!ocl_given(*ref) || ref->tensor == OCL_GEMM_C)
        return CLT_OK;
    ref->tensor = which;
    return fill_array(b, which, b->gemm.type_c, ref->offset, span, fill, which == OCL_GEMM_PRE);
}

static clt_status fill_all(ocl_gemm_bench *b, const ocl_gemm_fill *fill)
{
    ocl_gemm *g = &b->gemm;
    int64_t a, bb, c;
    if (!ocl_gemm_spans(g, &a, &bb, &c))
        CLT_FAIL(CLT_ESHAPE, "a matrix product without a size cannot be measured");
    g->a.tensor = OCL_GEMM_A;
    g->b.tensor = OCL_GEMM_B;
    g->c.tensor = OCL_GEMM_C;
    bool read_c = g->beta != 0.0f || g->residual.tensor == OCL_GEMM_C || g->dact.tensor == OCL_GEMM_C;
    CLT_TRY(fill_array(b, OCL_GEMM_A, g->type_a, g->a.offset, a, fill, false));
    CLT_TRY(fill_array(b, OCL_GEMM_B, g->type_b, g->b.offset, bb, fill, false));
    CLT_TRY(fill_array(b, OCL_GEMM_C, g->type_c, g->c.offset, c, fill, !read_c));
    if (fill->gaps) {
        spoil_gaps_of(b, true);
        spoil_gaps_of(b, false);
    }
    if (ocl_given(g->bias)) {
        g->bias.tensor = OCL_GEMM_BIAS;
        CLT_TRY(fill_array(b, OCL_GEMM_BIAS, CLT_F32, g->bias.offset, g->n, fill, false));
    }
    CLT_TRY(fill_like_c(b, &g->residual, OCL_GEMM_RESIDUAL, c, fill));
    CLT_TRY(fill_like_c(b, &g->pre, OCL_GEMM_PRE, c, fill));
    if (g->line_sums != NULL)
        CLT_TRY(fill_array(b, OCL_GEMM_LINE_SUMS, CLT_F32, 0, g->m, fill, !g->line_sums->accumulate));
    return fill_like_c(b, &g->dact, OCL_GEMM_DACT, c, fill);
}

static clt_status create_buffers(ocl_gemm_bench *b, int copies)
{
    CLT_TRY(clt_alloc(&b->buffer, (size_t)copies, sizeof *b->buffer, "operands of a product"));
    b->copies = copies;
    for (int k = 0; k < copies; k++) {
        for (int i = 0; i < OCL_GEMM_OPERANDS; i++) {
            size_t bytes = ocl_gemm_array_bytes(&b->array[i]);
            if (bytes == 0)
                continue;
            CLT_TRY(ocl_buffer_create(b->device, bytes, "an operand of a product", &b->buffer[k][i]));
            CLT_TRY(ocl_write(b->buffer[k][i], 0, b->array[i].image, bytes));
        }
    }
    return CLT_OK;
}

clt_status ocl_gemm_bench_create(ocl_device *device, const ocl_gemm *gemm, const ocl_gemm_fill *fill,
                                 int copies, ocl_gemm_bench **out)
{
    CLT_SCOPED(ocl_gemm_bench) *b = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&b, 1, sizeof *b, "a product's bench"));
    b->device = device;
    b->gemm = *gemm;
    b->whole = fill->whole || fill->values == NULL;
    b->gemm.moments = gemm->moments != NULL ? &b->moments : NULL;
    if (gemm->line_sums != NULL) {
        b->line_sums = (ocl_line_sums){.out = OCL_GEMM_LINE_SUMS, .accumulate = gemm->line_sums->accumulate};
        b->gemm.line_sums = &b->line_sums;
    }
    CLT_TRY(fill_all(b, fill));
    CLT_TRY(create_buffers(b, copies));
    *out = CLT_TAKE(b);
    return CLT_OK;
}

void ocl_gemm_bench_destroy(ocl_gemm_bench *b)
{
    if (b == NULL)
        return;
    for (int i = 0; i < OCL_GEMM_OPERANDS; i++) {
        for (int k = 0; k < b->copies; k++)
            ocl_buffer_destroy(b->buffer[k][i]);
        free(b->array[i].image);
    }
    free(b->buffer);
    free(b);
}

/* --- building --- */

static clt_status resolve(void *context, int32_t tensor, ocl_buffer **buffer, uint64_t *offset)
{
    const ocl_gemm_ready *r = context;
    const ocl_gemm_array *array = tensor >= WORKSPACE_ID ? &r->workspace[tensor - WORKSPACE_ID]
                                                         : &r->bench->array[tensor % OCL_GEMM_OPERANDS];
    *buffer = tensor >= WORKSPACE_ID
                  ? r->workspace_buffer[tensor - WORKSPACE_ID]
                  : r->bench->buffer[tensor / OCL_GEMM_OPERANDS][tensor % OCL_GEMM_OPERANDS];
    *offset = OCL_GEMM_GUARD * clt_dtype_bytes(array->type);
    return CLT_OK;
}

/* Implements ocl_emitter.workspace. All copies of a product share workspaces, because they run one after the
 * other. */
static int32_t workspace(void *owner, clt_dtype dtype, uint64_t elements, const char *name)
{
    ocl_gemm_ready *r = owner;
    clt_status status = CLT_OK;
    int index = r->next_workspace;
    if (index == OCL_GEMM_MAX_WORKSPACES) {
        status = clt_fail(CLT_EUNSUPPORTED, __FILE__, __LINE__,
                          "a matrix product with more than %d workspaces", OCL_GEMM_MAX_WORKSPACES);
    } else if (index == r->workspaces) {
        ocl_gemm_array *a = &r->workspace[index];
        *a = (ocl_gemm_array){
            .type = dtype, .elements = (size_t)elements + 2 * OCL_GEMM_GUARD, .first = OCL_GEMM_GUARD};
        status =
            ocl_buffer_create(r->bench->device, ocl_gemm_array_bytes(a), name, &r->workspace_buffer[index]);
    }
    if (status != CLT_OK) {
        ocl_emit_fail(&r->emitter, status);
        return OCL_NO_TENSOR_ID;
    }
    r->next_workspace++;
    r->workspaces = r->next_workspace > r->workspaces ? r->next_workspace : r->workspaces;
    return WORKSPACE_ID + index;
}

static clt_status emit_copy(ocl_gemm_ready *r, int copy, const char *force)
{
    ocl_gemm g = r->bench->gemm;
    ocl_tensor_ref *refs[] = {&g.a, &g.b, &g.c, &g.bias, &g.residual, &g.pre, &g.dact};
    for (size_t i = 0; i < sizeof refs / sizeof refs[0]; i++)
        if (ocl_given(*refs[i]))
            refs[i]->tensor += copy * OCL_GEMM_OPERANDS;
    r->bench->line_sums.out = OCL_GEMM_LINE_SUMS + copy * OCL_GEMM_OPERANDS;
    r->next_workspace = 0;
    CLT_TRY(ocl_gemm_emit(&r->emitter, &g, force));
    return ocl_emit_status(&r->emitter);
}

static clt_status emit(ocl_gemm_ready *r, const char *force)
{
    CLT_TRY(clt_arena_create(&r->list.arena));
    for (int k = 0; k < r->bench->copies; k++) {
        CLT_TRY(emit_copy(r, k, force));
        if (k == 0)
            r->first_end = r->list.count;
    }
    return CLT_OK;
}

clt_status ocl_gemm_ready_create(ocl_gemm_bench *bench, const ocl_emitter *how, const char *force,
                                 ocl_gemm_ready **out)
{
    CLT_SCOPED(ocl_gemm_ready) *r = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&r, 1, sizeof *r, "a product's commands"));
    r->bench = bench;
    r->emitter = *how;
    r->emitter.list = &r->list;
    r->emitter.variant = "";
    r->emitter.node = -1;
    r->emitter.workspace = workspace;
    r->emitter.owner = r;
    CLT_TRY(emit(r, force));
    *out = CLT_TAKE(r);
    return CLT_OK;
}

clt_status ocl_gemm_ready_build(ocl_gemm_ready *r)
{
    ocl_exec_options options = {.resolve = resolve, .resolve_context = r};
    return ocl_exec_create(r->bench->device, &r->list, &options, &r->exec);
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
    for (int i = 0; i < r->workspaces; i++)
        ocl_buffer_destroy(r->workspace_buffer[i]);
    free(r);
}

/* --- running --- */

/* Fills workspaces with NaN, which has all bits set in every type. */
static clt_status clear_workspaces(ocl_gemm_ready *r)
{
    for (int i = 0; i < r->workspaces; i++) {
        size_t bytes = ocl_gemm_array_bytes(&r->workspace[i]);
        CLT_FREED uint8_t *ones = NULL;
        CLT_TRY(clt_alloc(&ones, bytes, 1, "a product's workspace"));
        memset(ones, 0xff, bytes);
        CLT_TRY(ocl_write(r->workspace_buffer[i], 0, ones, bytes));
    }
    return CLT_OK;
}

clt_status ocl_gemm_ready_run(ocl_gemm_ready *r)
{
    ocl_gemm_bench *b = r->bench;
    static const int written[] = {OCL_GEMM_C, OCL_GEMM_PRE, OCL_GEMM_LINE_SUMS};
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) {
        const ocl_gemm_array *a = &b->array[written[i]];
        if (a->elements > 0)
            CLT_TRY(ocl_write(b->buffer[0][written[i]], 0, a->image, ocl_gemm_array_bytes(a)));
    }
    CLT_TRY(clear_workspaces(r));
    CLT_TRY(ocl_exec_run_range(r->exec, 0, r->first_end, NULL));
    return ocl_finish(b->device, OCL_QUEUE_COMPUTE);
}

clt_status ocl_gemm_ready_read(ocl_gemm_ready *r, int operand, uint8_t **out)
{
    size_t bytes = ocl_gemm_array_bytes(&r->bench->array[operand]);
    if (*out == NULL)
        CLT_TRY(clt_alloc(out, bytes, 1, "an operand after a product"));
    return ocl_read(r->bench->buffer[0][operand], 0, *out, bytes);
}

/* Reads an f32 workspace without its guard zones; the caller frees *out. */
static clt_status read_floats(ocl_gemm_ready *r, int32_t tensor, size_t elements, float **out)
{
    CLT_TRY(clt_alloc(out, elements, sizeof **out, "a workspace of a product"));
    return ocl_read(r->workspace_buffer[tensor - WORKSPACE_ID], OCL_GEMM_GUARD * sizeof(float), *out,
                    elements * sizeof(float));
}

clt_status ocl_gemm_ready_moments(ocl_gemm_ready *r, double *rows, double *mean, double *square)
{
    const ocl_moments *m = &r->bench->moments;
    size_t columns = (size_t)(r->bench->gemm.n * r->bench->gemm.batch), blocks = (size_t)m->blocks;
    CLT_FREED float *count = NULL, *means = NULL, *squares = NULL;
    CLT_TRY(read_floats(r, m->count, blocks, &count));
    CLT_TRY(read_floats(r, m->mean, blocks * columns, &means));
    CLT_TRY(read_floats(r, m->square, blocks * columns, &squares));
    for (size_t j = 0; j < columns; j++) {
        double all = 0.0, sum = 0.0, apart = 0.0;
        for (size_t b = 0; b < blocks; b++) {
            all += (double)count[b];
            sum += (double)count[b] * (double)means[b * columns + j];
        }
        for (size_t b = 0; b < blocks; b++) {
            double d = (double)means[b * columns + j] - sum / all;
            apart += (double)squares[b * columns + j] + (double)count[b] * d * d;
        }
        *rows = all;
        mean[j] = sum / all;
        square[j] = apart;
    }
    return CLT_OK;
}

clt_status ocl_gemm_ready_batch(void *ready, int runs, double *seconds)
{
    ocl_gemm_ready *r = ready;
    double start = clt_now();
    for (int i = 0; i < runs; i++)
        CLT_TRY(ocl_exec_run(r->exec, NULL));
    CLT_TRY(ocl_finish(r->bench->device, OCL_QUEUE_COMPUTE));
    *seconds = clt_now() - start;
    return CLT_OK;
}

/* --- guards --- */

/* Overwrites the elements of C, or of pre, with their initial values before buffers are compared, because
 * the product may write anything to these elements. */
static void forget_results(const ocl_gemm *g, const ocl_gemm_array *a, uint8_t *after)
{
    size_t size = clt_dtype_bytes(a->type);
    for (int64_t z = 0; z < g->batch; z++) {
        for (int64_t i = 0; i < g->m; i++) {
            size_t at = size * (a->first + (size_t)(z * g->stride_c + i * g->ldc));
            memcpy(after + at, a->image + at, size * (size_t)g->n);
        }
    }
}

static void blame(const ocl_gemm_array *a, const char *name, const uint8_t *before, const uint8_t *after,
                  bool *right, char *why, size_t size)
{
    size_t bytes = ocl_gemm_array_bytes(a), at = 0;
    if (!*right || memcmp(before, after, bytes) == 0)
        return;
    while (before[at] == after[at])
        at++;
    *right = false;
    snprintf(why, size, "wrote where it must not: element %lld from the start of %s",
             (long long)(at / clt_dtype_bytes(a->type)) - (long long)a->first, name);
}

static clt_status workspace_guards(ocl_gemm_ready *r, int index, bool *right, char *why, size_t size)
{
    const ocl_gemm_array *a = &r->workspace[index];
    size_t bytes = ocl_gemm_array_bytes(a), guard = OCL_GEMM_GUARD * clt_dtype_bytes(a->type);
    CLT_FREED uint8_t *both = NULL;
    CLT_TRY(clt_alloc(&both, 2, bytes, "a product's workspace"));
    memset(both, 0xff, 2 * bytes);
    CLT_TRY(ocl_read(r->workspace_buffer[index], 0, both, guard));
    CLT_TRY(ocl_read(r->workspace_buffer[index], bytes - guard, both + bytes - guard, guard));
    blame(a, "its workspace", both + bytes, both, right, why, size);
    return CLT_OK;
}

clt_status ocl_gemm_ready_guards(ocl_gemm_ready *r, bool *right, char *why, size_t size)
{
    static const char *const names[OCL_GEMM_OPERANDS] = {
        "A", "B", "C", "the bias", "the residual", "pre", "dact", "the line sums"};
    *right = true;
    for (int i = 0; i < OCL_GEMM_OPERANDS; i++) {
        const ocl_gemm_array *a = &r->bench->array[i];
        CLT_FREED uint8_t *after = NULL;
        if (a->elements == 0)
            continue;
        CLT_TRY(ocl_gemm_ready_read(r, i, &after));
        if (i == OCL_GEMM_C || i == OCL_GEMM_PRE)
            forget_results(&r->bench->gemm, a, after);
        if (i == OCL_GEMM_LINE_SUMS && r->bench->line_sums.made)
            memcpy(after + a->first * sizeof(float), a->image + a->first * sizeof(float),
                   (size_t)r->bench->gemm.m * sizeof(float));
        blame(a, names[i], a->image, after, right, why, size);
    }
    for (int i = 0; i < r->workspaces; i++)
        CLT_TRY(workspace_guards(r, i, right, why, size));
    return CLT_OK;
}

clt_status ocl_gemm_ready_check(ocl_gemm_ready *r, int64_t sample, bool *right, char *why, size_t size)
{
    CLT_FREED uint8_t *c = NULL, *pre = NULL;
    CLT_TRY(ocl_gemm_ready_run(r));
    CLT_TRY(ocl_gemm_ready_guards(r, right, why, size));
    if (!*right)
        return CLT_OK;
    CLT_TRY(ocl_gemm_ready_read(r, OCL_GEMM_C, &c));
    if (r->bench->array[OCL_GEMM_PRE].elements > 0)
        CLT_TRY(ocl_gemm_ready_read(r, OCL_GEMM_PRE, &pre));
    return ocl_gemm_compare(r->bench, c, pre, sample, NULL, right, why, size);
}
