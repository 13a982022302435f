/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMM backend `clblast`: the only file that knows CLBlast. It works around the library's defects:
 *
 * - CLBlastSgemmStridedBatched is never called. Its indirect path ignores offsets and batch strides, and it
 * reads past the end of the data when the tuned kernel unrolls k (GEMMK=1); both return wrong numbers with
 * status 0. The path and kernel of a call depend on process-global tuning parameters, which the C interface
 * can overwrite but not read, so a caller cannot make sure that a batched call is safe. Plain CLBlastSgemm
 * is right on every path. So a batch is a loop of plain calls if its items are large enough to pay for that,
 * and is refused otherwise. tests/unit/cl/test_cl_clblast_bugs.c checks that.
 * - Offsets and sizes are 32-bit inside: larger problems are refused or, if only the offset of a tensor in
 * its slab is too large, computed by the backend `simple` instead.
 *
 * Matrices are passed as column-major with the operands swapped (C' = op(B)' op(A)'), because a row-major C
 * always costs CLBlast a transposed copy. This file must not know what the matrices mean. */
#include "cl/exec/exec.h"
#include "cl/gemm/gemm.h"

#include <clblast_c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/device/internal.h"
#include "cl/gemm/gemm_epilogue.h"
#include "engine/base/log.h"

/* A call costs the host 10 to 50 us, and the device a launch. A batch is a loop of calls: with fewer
 * multiply-adds per batch item than this it would be mostly overhead. */
#define LOOP_MIN_WORK (INT64_C(1) << 24)

static int64_t index_limit = INT32_MAX;

void ocl_clblast_set_index_limit(int64_t limit)
{
    index_limit = limit;
}

/* Acceptance */

/* CLBlast pads rows and columns to multiples of its tiles in temporary copies, which it indexes by int too.
 * No tile in its database is above 256. */
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
    else if (ocl_has_windows(g))
        why = "it reads matrices in memory, not windows of an image";
    else if (ocl_gemm_epilogue_refusal(g) != NULL)
        why = ocl_gemm_epilogue_refusal(g);
    else if (g->m <= 0 || g->n <= 0 || g->k <= 0)
        why = "an empty size";
    else if (device->limits.workgroup > 0 || device->limits.local > 0)
        why = "it reads limits from the driver and ignores the limits of --caps";
    else if (ocl_group_limit(device) < 64)
        why = "its kernels need work-groups of 64";
    else if (!indices_fit(g))
        why = "an operand reaches beyond 2^31 elements";
    else if (!padded_fits(g->m, g->k) || !padded_fits(g->k, g->n) || !padded_fits(g->m, g->n))
        why = "a padded copy would pass 2^31 elements";
    else if (g->batch > 1 && g->stride_c <= 0)
        why = "batch items share C";
    else if (g->batch > 1 && g->m * g->n < (LOOP_MIN_WORK + g->k - 1) / g->k)
        why = "batch items are too small for a call each, and CLBlast's batched call gives wrong results";
    if (why != NULL)
        snprintf(reason, size, "%s", why);
    return why == NULL;
}

static clt_status emit(ocl_emitter *e, const void *problem)
{
    const ocl_gemm *g = problem;
    ocl_gemm plain = *g;
    plain.bias = plain.residual = plain.pre = plain.dact = OCL_NO_TENSOR;
    plain.activation = OCL_ACT_NONE;
    plain.moments = NULL;
    plain.line_sums = NULL;
    ocl_emit_library_gemm(e, &plain, &ocl_clblast);
    if (ocl_gemm_has_epilogue(g))
        ocl_gemm_emit_epilogue(e, g);
    return ocl_emit_status(e);
}

const ocl_variant ocl_gemm_clblast = {
    .name = "clblast", .needs = OCL_CAP_LOCAL, .accepts = accepts, .emit = emit};

/* Running */

static clt_status clblast_fail(int code, const ocl_device *device, const ocl_gemm *g)
{
    char what[OCL_GEMM_TEXT];
    ocl_gemm_text(g, what, sizeof what);
    if (code > -1000) /* an OpenCL error code that CLBlast passes on */
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

/* --- the interface to the executor (ocl_library) --- */

typedef struct clblast_call {
    ocl_device *device;
    ocl_gemm gemm; /* operands' offsets are relative to their buffers */
    ocl_buffer *operand[3];
    /* commands of the backend `simple`, for operands at offsets that CLBlast cannot index */
    ocl_command_list list;
    ocl_exec *simple;
} clblast_call;

static void release(void *context)
{
    clblast_call *call = context;
    if (call == NULL)
        return;
    ocl_exec_destroy(call->simple);
    clt_arena *arena = call->list.arena;
    ocl_command_list_free(&call->list);
    clt_arena_destroy(arena);
    free(call);
}
CLT_SCOPED_POINTER(clblast_call, release)

static clt_status resolve_operand(void *context, int32_t tensor, ocl_buffer **buffer, uint64_t *offset)
{
    const clblast_call *call = context;
    *buffer = call->operand[tensor];
    *offset = 0;
    return CLT_OK;
}

static clt_status make_simple(clblast_call *call)
{
    ocl_gemm g = call->gemm;
    CLT_SCOPED(ocl_emitter) emitter = {
        .list = &call->list, .device = &call->device->desc, .label = "gemm beyond 2^31 elements"};
    ocl_exec_options options = {.resolve = resolve_operand, .resolve_context = call};
    g.a.tensor = 0;
    g.b.tensor = 1;
    g.c.tensor = 2;
    CLT_TRY(clt_arena_create(&call->list.arena));
    CLT_TRY(ocl_gemm_emit(&emitter, &g, "simple"));
    return ocl_exec_create(call->device, &call->list, &options, &call->simple);
}

static void clear_caches(void)
{
    (void)CLBlastClearCache(); /* an error here can be ignored */
}

static clt_status prepare(ocl_device *device, const ocl_gemm *gemm, ocl_buffer *const operand[3],
                          const uint64_t offset[3], void **out)
{
    CLT_SCOPED(clblast_call) *call = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&call, 1, sizeof *call, "a CLBlast call"));
    call->device = device;
    call->gemm = *gemm;
    call->gemm.a.offset = offset[0];
    call->gemm.b.offset = offset[1];
    call->gemm.c.offset = offset[2];
    memcpy(call->operand, operand, sizeof call->operand);
    ocl_device_when_last_closes(clear_caches);
    if (!indices_fit(&call->gemm))
        CLT_TRY(make_simple(call));
    *out = CLT_TAKE(call);
    return CLT_OK;
}

static clt_status run(void *context, ocl_event **done)
{
    clblast_call *call = context;
    cl_event last = NULL;
    if (call->simple != NULL) {
        CLT_TRY(ocl_exec_run(call->simple, NULL));
        return done != NULL ? ocl_marker(call->device, OCL_QUEUE_COMPUTE, done) : CLT_OK;
    }
    for (int64_t item = 0; item < call->gemm.batch; item++)
        CLT_TRY(run_item(call->device, &call->gemm, call->operand, item,
                         done != NULL && item == call->gemm.batch - 1 ? &last : NULL));
    if (done != NULL)
        *done = ocl_event_wrap(last);
    return CLT_OK;
}

const ocl_library ocl_clblast = {.name = "CLBlast", .prepare = prepare, .run = run, .release = release};
