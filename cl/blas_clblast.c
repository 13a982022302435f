/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMM backend `clblast`: the only file that knows CLBlast. It exists to keep that library's traps away from
 * everybody else:
 *
 * - CLBlastSgemmStridedBatched is never called. Its indirect path ignores offsets and batch strides, and
 * reads behind the data when the tuned kernel unrolls k (GEMMK=1); both return wrong numbers with status 0.
 * Which path a call takes, and which kernel, hangs on process-global tuning parameters that the C interface
 * can overwrite but not read, so no batched call can be proved safe by its caller. Plain CLBlastSgemm is
 * right on every path: a batch is a loop of plain calls where the items are large enough to pay for that, and
 * is refused where they are not. tests/unit/test_cl_clblast_bugs.c holds this file to it.
 * - Offsets and sizes are 32-bit inside: what would pass that is refused, or, when only the place of a tensor
 * in its slab is too far out, computed by the backend `simple` instead.
 *
 * Matrices are passed as column-major with the operands swapped (C' = op(B)' op(A)'), because a row-major C
 * always costs CLBlast a transposed copy. It must not know what the matrices mean. */
#include "cl/gemm.h"

#include <clblast_c.h>
#include <stdio.h>

#include "cl/internal.h"

/* A call costs the host 10 to 50 us and the device a launch of its own; below this many multiply-adds an
 * item, a loop of calls is mostly overhead. */
#define LOOP_MIN_WORK (INT64_C(1) << 24)

static int64_t index_limit = INT32_MAX;

void ocl_clblast_set_index_limit(int64_t limit)
{
    index_limit = limit;
}

/* Acceptance */

/* Rows and columns are padded to tiles in temporary copies, which are indexed by int as well. No shipped tile
 * is above 256. */
static bool padded_fits(int64_t rows, int64_t columns)
{
    int64_t r = (rows + 255) / 256 * 256, c = (columns + 255) / 256 * 256;
    return r <= index_limit / c;
}

static bool operand_fits(uint64_t offset_bytes, int64_t elements)
{
    return offset_bytes / 4 <= (uint64_t)index_limit && elements <= index_limit - (int64_t)(offset_bytes / 4);
}

static bool indices_fit(const ocl_gemm *g)
{
    int64_t a, b, c;
    return ocl_gemm_spans(g, &a, &b, &c) && operand_fits(g->a.offset, a) && operand_fits(g->b.offset, b) &&
           operand_fits(g->c.offset, c);
}

static bool accepts(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    const ocl_gemm *g = problem;
    const char *why = NULL;
    if (g->type_a != CLT_F32 || g->type_b != CLT_F32 || g->type_c != CLT_F32)
        why = "f32 only";
    else if (g->bias.tensor != OCL_NO_TENSOR_ID || g->residual.tensor != OCL_NO_TENSOR_ID ||
             g->activation != OCL_ACT_NONE)
        why = "no epilogue";
    else if (g->m <= 0 || g->n <= 0 || g->k <= 0)
        why = "an empty size";
    else if (device->max_work_group < 64)
        why = "its kernels need work-groups of 64";
    else if (!indices_fit(g))
        why = "an operand reaches beyond 2^31 elements";
    else if (!padded_fits(g->m, g->k) || !padded_fits(g->k, g->n) || !padded_fits(g->m, g->n))
        why = "a padded copy would pass 2^31 elements";
    else if (g->batch > 1 && g->stride_c <= 0)
        why = "batch items share C";
    else if (g->batch > 1 && g->m * g->n < (LOOP_MIN_WORK + g->k - 1) / g->k)
        why = "batch items too small for a loop of calls, and its batched call gives wrong results";
    if (why != NULL)
        snprintf(reason, size, "%s", why);
    return why == NULL;
}

static clt_status emit(ocl_emitter *e, const void *problem)
{
    ocl_emit_library_gemm(e, problem);
    return ocl_emit_status(e);
}

const ocl_variant ocl_gemm_clblast = {
    .name = "clblast", .needs = OCL_CAP_LOCAL, .accepts = accepts, .emit = emit};

/* Running */

static clt_status clblast_fail(int code, const ocl_device *device, const ocl_gemm *g)
{
    char what[OCL_GEMM_TEXT];
    ocl_gemm_text(g, what, sizeof what);
    if (code > -1000) /* an OpenCL code, passed through */
        return ocl_fail(code, __FILE__, __LINE__, "running %s with CLBlast on device %s '%s'", what,
                        device->desc.spec, device->desc.name);
    CLT_FAIL(CLT_EINTERNAL,
             "running %s with CLBlast on device %s '%s': CLBlast status %d; set CLTRAIN_GEMM=simple to do "
             "without it",
             what, device->desc.spec, device->desc.name, code);
}

static clt_status run_item(ocl_device *device, const ocl_gemm *g, ocl_buffer *const operand[3], int64_t item,
                           cl_event *done)
{
    cl_command_queue queue = device->queue[OCL_QUEUE_COMPUTE];
    size_t a = (size_t)(g->a.offset / 4 + (uint64_t)(item * g->stride_a));
    size_t b = (size_t)(g->b.offset / 4 + (uint64_t)(item * g->stride_b));
    size_t c = (size_t)(g->c.offset / 4 + (uint64_t)(item * g->stride_c));
    CLBlastStatusCode code =
        CLBlastSgemm(CLBlastLayoutColMajor, g->tb ? CLBlastTransposeYes : CLBlastTransposeNo,
                     g->ta ? CLBlastTransposeYes : CLBlastTransposeNo, (size_t)g->n, (size_t)g->m,
                     (size_t)g->k, g->alpha, operand[1]->mem, b, (size_t)g->ldb, operand[0]->mem, a,
                     (size_t)g->lda, g->beta, operand[2]->mem, c, (size_t)g->ldc, &queue, done);
    return code == CLBlastSuccess ? CLT_OK : clblast_fail((int)code, device, g);
}

static clt_status resolve_operand(void *context, int32_t tensor, ocl_buffer **buffer, uint64_t *offset)
{
    ocl_buffer *const *operand = context;
    *buffer = operand[tensor];
    *offset = 0;
    return CLT_OK;
}

/* The tensor's place in its slab is known only now: too far out for CLBlast, so `simple` computes it. */
static clt_status run_simple(ocl_device *device, const ocl_gemm *gemm, ocl_buffer *operand[3],
                             ocl_event **done)
{
    ocl_gemm g = *gemm;
    ocl_command_list list = {0};
    ocl_emitter emitter = {.list = &list, .device = &device->desc, .label = "gemm behind 2^31 elements"};
    ocl_exec_options options = {.resolve = resolve_operand, .resolve_context = operand};
    ocl_exec *exec = NULL;
    clt_status status;
    g.a.tensor = 0;
    g.b.tensor = 1;
    g.c.tensor = 2;
    CLT_TRY(clt_arena_create(&list.arena));
    CLT_TRY_GOTO(ocl_gemm_emit(&emitter, &g, "simple"), cleanup);
    CLT_TRY_GOTO(ocl_exec_create(device, &list, &options, &exec), cleanup);
    CLT_TRY_GOTO(ocl_exec_run(exec, NULL), cleanup);
    if (done != NULL)
        status = ocl_marker(device, OCL_QUEUE_COMPUTE, done);
cleanup:
    ocl_exec_destroy(exec);
    ocl_emitter_free(&emitter);
    ocl_command_list_free(&list);
    clt_arena_destroy(list.arena);
    return status;
}

clt_status ocl_clblast_run(ocl_device *device, const ocl_gemm *gemm, ocl_buffer *a, ocl_buffer *b,
                           ocl_buffer *c, ocl_event **done)
{
    ocl_buffer *operand[3] = {a, b, c};
    cl_event last = NULL;
    if (!indices_fit(gemm))
        return run_simple(device, gemm, operand, done);
    for (int64_t item = 0; item < gemm->batch; item++)
        CLT_TRY(
            run_item(device, gemm, operand, item, done != NULL && item == gemm->batch - 1 ? &last : NULL));
    if (done != NULL)
        *done = ocl_event_wrap(last);
    return CLT_OK;
}

void ocl_clblast_clear(void)
{
    (void)CLBlastClearCache(); /* nothing can be done about a failure, and nothing depends on it */
}
