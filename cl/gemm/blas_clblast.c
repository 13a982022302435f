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
 * is refused where they are not. tests/unit/cl/test_cl_clblast_bugs.c holds this file to it.
 * - Offsets and sizes are 32-bit inside: what would pass that is refused, or, when only the place of a tensor
 * in its slab is too far out, computed by the backend `simple` instead.
 *
 * Matrices are passed as column-major with the operands swapped (C' = op(B)' op(A)'), because a row-major C
 * always costs CLBlast a transposed copy. It must not know what the matrices mean. */
#include "cl/gemm/gemm.h"

#include <clblast_c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/gemm/gemm_epilogue.h"
#include "cl/device/internal.h"
#include "engine/base/log.h"

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
    else if (ocl_gemm_epilogue_refusal(g) != NULL)
        why = ocl_gemm_epilogue_refusal(g);
    else if (g->m <= 0 || g->n <= 0 || g->k <= 0)
        why = "an empty size";
    else if (ocl_group_limit(device) < 64)
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

/* The call that was emitted last is to use the parameter sets of the device's record, if there is one. They
 * are part of what a plan used: another set may round differently. */
static void take_sets(ocl_emitter *e)
{
    char reason[200], text[OCL_CHOICE_TEXT];
    const ocl_choice *record = ocl_tuning_exact(e->device->tuning, OCL_CLBLAST_FAMILY, OCL_CLBLAST_PROBLEM);
    if (e->status != CLT_OK || record == NULL || record->n_values == 0)
        return;
    if (ocl_choice_variant(record, ocl_clblast_parameters, NULL, e->device, reason, sizeof reason) == NULL) {
        CLT_DEBUG("the tuning record of CLBlast's parameters is ignored: %s", reason);
        return;
    }
    ocl_choice_text(record, text, sizeof text);
    const char *sets = clt_arena_strdup(e->list->arena, text + strcspn(text, " ") + 1);
    if (sets == NULL)
        ocl_emit_fail(e, CLT_ENOMEM);
    e->list->commands[e->list->count - 1].options = sets;
    ocl_emit_fail(e,
                  ocl_tuning_log_add(e->log, OCL_CLBLAST_FAMILY, OCL_CLBLAST_PROBLEM, NULL, 0, 0.0, record));
}

static clt_status emit(ocl_emitter *e, const void *problem)
{
    const ocl_gemm *g = problem;
    ocl_gemm plain = *g;
    plain.bias = plain.residual = plain.pre = plain.dact = OCL_NO_TENSOR;
    plain.activation = OCL_ACT_NONE;
    ocl_emit_library_gemm(e, &plain);
    take_sets(e);
    if (ocl_gemm_has_epilogue(g))
        ocl_gemm_emit_epilogue(e, g);
    return ocl_emit_status(e);
}

const ocl_variant ocl_gemm_clblast = {
    .name = "clblast", .needs = OCL_CAP_LOCAL, .accepts = accepts, .emit = emit};

/* Parameters */

/* What each device of the process has been told, because the library cannot be asked. The lock is held from
 * the telling to the end of the call that it is for: another engine of the process may want other sets. */
#define MAX_DEVICES 32
static struct {
    cl_device_id id;
    int set[3]; /* by ocl_clblast_kernel; 0: the library's own */
    bool warned;
} configured[MAX_DEVICES];
static int n_configured;
static pthread_mutex_t configure_lock = PTHREAD_MUTEX_INITIALIZER;

static bool parse_sets(const char *text, int set[3])
{
    static const char *const names[3] = {"xgemm", "direct", "switch"};
    memset(set, 0, 3 * sizeof set[0]);
    for (const char *at = text; at != NULL && *at != '\0';) {
        bool known = false;
        at += strspn(at, " ");
        for (int i = 0; i < 3 && !known && *at != '\0'; i++) {
            size_t length = strlen(names[i]);
            char *end;
            if (strncmp(at, names[i], length) != 0 || at[length] != '=')
                continue;
            set[i] = (int)strtol(at + length + 1, &end, 10);
            known = end != at + length + 1;
            at = end;
        }
        if (!known && *at != '\0')
            return false;
    }
    for (int i = 0; i < 3; i++) {
        ocl_clblast_set unused;
        if (set[i] != 0 && !ocl_clblast_get_set((ocl_clblast_kernel)i, set[i], &unused))
            return false;
    }
    return true;
}

static clt_status override_sets(cl_device_id id, const int set[3])
{
    for (int i = 0; i < 3; i++) {
        ocl_clblast_set s;
        if (set[i] == 0 || !ocl_clblast_get_set((ocl_clblast_kernel)i, set[i], &s))
            continue;
        const char *names[OCL_CLBLAST_MAX_PARAMETERS];
        memcpy(names, s.names, (size_t)s.count * sizeof names[0]);
        CLBlastStatusCode code =
            CLBlastOverrideParameters(id, s.kernel, CLBlastPrecisionSingle, (size_t)s.count, names, s.values);
        if (code != CLBlastSuccess)
            CLT_FAIL(CLT_EUNSUPPORTED,
                     "giving CLBlast parameters for its kernel %s: status %d; it may be another version than "
                     "the one the tuning records are of ('cltrain tune --clear' forgets them)",
                     s.kernel, (int)code);
    }
    return CLT_OK;
}

/* The library has no call that takes an override back: its caches are dropped, and what is still wanted is
 * told again. Programs are compiled again on their next use. */
static clt_status start_over(void)
{
    (void)CLBlastClearCache();
    for (int i = 0; i < n_configured; i++)
        CLT_TRY(override_sets(configured[i].id, configured[i].set));
    return CLT_OK;
}

static clt_status configure(cl_device_id id, const int set[3])
{
    int at = 0;
    bool takes_back = false, same = true;
    while (at < n_configured && configured[at].id != id)
        at++;
    if (at == n_configured) {
        if (set[0] == 0 && set[1] == 0 && set[2] == 0)
            return CLT_OK;
        if (at == MAX_DEVICES)
            CLT_FAIL(CLT_EUNSUPPORTED, "giving CLBlast parameters: more than %d devices are in use",
                     MAX_DEVICES);
        memset(&configured[n_configured++], 0, sizeof configured[0]);
        configured[at].id = id;
    }
    for (int i = 0; i < 3; i++) {
        same = same && configured[at].set[i] == set[i];
        takes_back = takes_back || (configured[at].set[i] != 0 && set[i] == 0);
    }
    if (same)
        return CLT_OK;
    memcpy(configured[at].set, set, sizeof configured[at].set);
    clt_status status = takes_back ? start_over() : override_sets(id, set);
    if (status == CLT_OK)
        return CLT_OK;
    clt_error error;
    clt_error_take(status, &error);
    memset(configured[at].set, 0, sizeof configured[at].set); /* some of them may have been taken */
    if (start_over() != CLT_OK)
        clt_error_clear();
    return clt_error_put(&error);
}

clt_status ocl_clblast_configure(ocl_device *device, const char *text)
{
    int set[3];
    if (!parse_sets(text, set))
        CLT_FAIL(CLT_EUNSUPPORTED, "giving CLBlast parameters: there are no sets '%s'", text);
    pthread_mutex_lock(&configure_lock);
    clt_status status = configure(device->id, set);
    pthread_mutex_unlock(&configure_lock);
    return status;
}

void ocl_clblast_configured(const ocl_device *device, int set[3])
{
    memset(set, 0, 3 * sizeof set[0]);
    pthread_mutex_lock(&configure_lock);
    for (int i = 0; i < n_configured; i++)
        if (configured[i].id == device->id)
            memcpy(set, configured[i].set, sizeof configured[i].set);
    pthread_mutex_unlock(&configure_lock);
}

/* The sets that a call was planned with, if another plan has replaced them since: correct, and slow when it
 * happens again and again, so it is told once. Called with the lock. */
static clt_status configure_again(ocl_device *device, const char *text)
{
    int set[3], at = 0;
    static const int none[3];
    if (!parse_sets(text, set))
        CLT_FAIL(CLT_EINTERNAL, "running with CLBlast parameters: there are no sets '%s'", text);
    while (at < n_configured && configured[at].id != device->id)
        at++;
    const int *now = at < n_configured ? configured[at].set : none;
    if (memcmp(now, set, sizeof set) == 0)
        return CLT_OK;
    if (at < n_configured && !configured[at].warned)
        CLT_WARN(
            "device %s '%s': plans with different parameters for CLBlast run in turns; the library keeps "
            "one set of them and builds its kernels again at every change",
            device->desc.spec, device->desc.name);
    CLT_TRY(configure(device->id, set));
    for (at = 0; at < n_configured; at++)
        configured[at].warned |= configured[at].id == device->id;
    return CLT_OK;
}

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
static clt_status run_simple(ocl_device *device, const ocl_gemm *gemm, ocl_buffer *const operand[3],
                             ocl_event **done)
{
    ocl_gemm g = *gemm;
    ocl_command_list list = {0};
    ocl_emitter emitter = {.list = &list, .device = &device->desc, .label = "gemm behind 2^31 elements"};
    ocl_exec_options options = {.resolve = resolve_operand, .resolve_context = (void *)operand};
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

clt_status ocl_clblast_run(ocl_device *device, const ocl_gemm *gemm, const char *sets,
                           ocl_buffer *const operand[3], ocl_event **done)
{
    cl_event last = NULL;
    if (!indices_fit(gemm))
        return run_simple(device, gemm, operand, done);
    pthread_mutex_lock(&configure_lock);
    clt_status status = configure_again(device, sets);
    for (int64_t item = 0; status == CLT_OK && item < gemm->batch; item++)
        status =
            run_item(device, gemm, operand, item, done != NULL && item == gemm->batch - 1 ? &last : NULL);
    pthread_mutex_unlock(&configure_lock);
    CLT_TRY(status);
    if (done != NULL)
        *done = ocl_event_wrap(last);
    return CLT_OK;
}

void ocl_clblast_clear(void)
{
    pthread_mutex_lock(&configure_lock);
    (void)CLBlastClearCache(); /* nothing can be done about a failure, and nothing depends on it */
    n_configured = 0;
    pthread_mutex_unlock(&configure_lock);
}
