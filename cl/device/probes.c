/* SPDX-License-Identifier: Apache-2.0
 *
 * The questions that probe kernels answer (cl/kernels/probe.cl, probe_wgmma.cl): each builds and runs one and
 * checks what it computed. Announced extensions only decide what is worth trying; a device's name decides
 * nothing. Who asks, in which process, and what a crash means is cl/device/asking.h's business. */
#include "cl/gemm/gemm_wgmma.h"
#include "cl/command/program_internal.h"
#include "cl/device/internal.h"
#include "cl/command/retarget.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/dtype.h"
#include "engine/base/log.h"
#include "engine/base/thread.h"

typedef struct probe_run {
    const char *options; /* of the family */
    const char *kernel;
    const void *in; /* in_bytes */
    size_t in_bytes;
    void *out; /* out_bytes; uploaded first, read back afterwards */
    size_t out_bytes;
    cl_uint n;
    size_t global, local; /* local 0: as many as the kernel allows, up to 64 */
} probe_run;

typedef struct probe_objects {
    cl_kernel kernel;
    cl_mem in, out;
    size_t limit; /* work-items of a group of this kernel */
} probe_objects;

static void release_objects(probe_objects *o)
{
    if (o->kernel != NULL)
        clReleaseKernel(o->kernel);
    if (o->in != NULL)
        clReleaseMemObject(o->in);
    if (o->out != NULL)
        clReleaseMemObject(o->out);
}

static clt_status create_objects(ocl_device *device, const probe_run *run, probe_objects *o)
{
    ocl_program *program;
    cl_int code;
    const char *family = strcmp(run->kernel, "probe_wgmma") == 0 ? "probe_wgmma" : "probe";
    CLT_TRY(ocl_program_try(device, family, run->options, &program));
    o->kernel = clCreateKernel(program->program, run->kernel, &code);
    OCL_CHECK(code, "creating kernel %s", run->kernel);
    o->in = clCreateBuffer(device->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, run->in_bytes,
                           (void *)(uintptr_t)run->in, &code);
    OCL_CHECK(code, "creating the input of %s", run->kernel);
    o->out = clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, run->out_bytes,
                            run->out, &code);
    OCL_CHECK(code, "creating the output of %s", run->kernel);
    OCL_CHECK(clSetKernelArg(o->kernel, 0, sizeof o->in, &o->in), "setting argument 0 of %s", run->kernel);
    OCL_CHECK(clSetKernelArg(o->kernel, 1, sizeof o->out, &o->out), "setting argument 1 of %s", run->kernel);
    OCL_CHECK(clSetKernelArg(o->kernel, 2, sizeof run->n, &run->n), "setting argument 2 of %s", run->kernel);
    OCL_CHECK(clGetKernelWorkGroupInfo(o->kernel, device->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof o->limit,
                                       &o->limit, NULL),
              "asking for the work-group limit of %s", run->kernel);
    if (run->local > o->limit && run->local > device->desc.larger_groups)
        CLT_FAIL(CLT_EUNSUPPORTED, "kernel %s runs at most %zu work-items a group, not %zu", run->kernel,
                 o->limit, run->local);
    return CLT_OK;
}

static clt_status launch(ocl_device *device, const probe_run *run, const probe_objects *o)
{
    cl_command_queue queue = device->queue[OCL_QUEUE_COMPUTE];
    size_t local = run->local ? run->local : 64;
    while (local > 1 && run->local == 0 && (local > o->limit || run->global % local != 0))
        local /= 2;
    OCL_CHECK(clEnqueueNDRangeKernel(queue, o->kernel, 1, NULL, &run->global, &local, 0, NULL, NULL),
              "running %s", run->kernel);
    OCL_CHECK(clFinish(queue), "waiting for %s", run->kernel);
    return CLT_OK;
}

static clt_status run_probe(ocl_device *device, const probe_run *run)
{
    probe_objects o = {0};
    clt_status status;
    CLT_TRY_GOTO(create_objects(device, run, &o), done);
    CLT_TRY_GOTO(launch(device, run, &o), done);
    cl_int code = clEnqueueReadBuffer(device->queue[OCL_QUEUE_COMPUTE], o.out, CL_TRUE, 0, run->out_bytes,
                                      run->out, 0, NULL, NULL);
    if (code != CL_SUCCESS)
        status = ocl_fail(code, __FILE__, __LINE__, "reading the result of %s", run->kernel);
done:
    release_objects(&o);
    return status;
}

/* --- answers --- */

static clt_status yes(ocl_item *item, uint64_t value)
{
    item->answer = OCL_ANSWER_YES;
    item->value = value;
    return CLT_OK;
}

static clt_status answer(ocl_item *item, ocl_answer what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static clt_status answer(ocl_item *item, ocl_answer what, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(item->reason, sizeof item->reason, format, args);
    va_end(args);
    item->answer = what;
    return CLT_OK;
}

/* A probe of something that its compiler does not have writes this everywhere: what is missing is told from
 * what is wrong. */
#define ABSENT 0x0ab5e17au

static bool all_absent(const void *out, size_t bytes)
{
    const cl_uint *words = out;
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        if (words[i] != ABSENT)
            return false;
    return true;
}

static clt_status wrong(ocl_item *item, const void *out, size_t bytes)
{
    if (all_absent(out, bytes))
        return answer(item, OCL_ANSWER_NO, "the device's compiler does not have it");
    return answer(item, OCL_ANSWER_WRONG, "the probe kernel computed wrong results");
}

/* --- probes --- */

/* value: 1 when the compiler is NVIDIA's */
static clt_status ask_basic(const ocl_probe_state *state, ocl_item *item)
{
    cl_uint in[64], out[64];
    for (cl_uint i = 0; i < 64; i++) {
        in[i] = i * i + 5;
        out[i] = 7;
    }
    probe_run run = {"", "probe_basic", in, sizeof in, out, sizeof out, 64, 64, 0};
    CLT_TRY(run_probe(state->device, &run));
    for (cl_uint i = 1; i < 64; i++)
        if (out[i] != 3 * in[i] + 1)
            return answer(item, OCL_ANSWER_WRONG, "probe_basic[%u] is %u and must be %u", i, out[i],
                          3 * in[i] + 1);
    if (out[0] > 1)
        return answer(item, OCL_ANSWER_WRONG, "probe_basic[0] is %u and must be 0 or 1", out[0]);
    return yes(item, out[0]);
}

/* value: work-items of a group, as the driver says of a small kernel; some say less of a kernel than of the
 * device. */
static clt_status ask_group_limit(const ocl_probe_state *state, ocl_item *item)
{
    cl_uint in[1] = {0}, out[1] = {0};
    probe_run run = {"", "probe_basic", in, sizeof in, out, sizeof out, 0, 1, 1};
    probe_objects o = {0};
    clt_status status = create_objects(state->device, &run, &o);
    release_objects(&o);
    CLT_TRY(status);
    return yes(item, o.limit);
}

/* Groups of `size` items that share local memory. */
static clt_status try_groups(const ocl_probe_state *state, size_t size, ocl_item *item)
{
    enum { ITEMS = 1024 };
    cl_uint in[ITEMS], out[2 * ITEMS] = {0};
    for (cl_uint i = 0; i < ITEMS; i++)
        in[i] = i * 2654435761u >> 8;
    probe_run run = {"", "probe_local", in, sizeof in, out, sizeof out, ITEMS, ITEMS, size};
    CLT_TRY(run_probe(state->device, &run));
    for (size_t group = 0; group < ITEMS; group += size) {
        cl_uint sum = 0;
        for (size_t l = 0; l < size; l++)
            sum += in[group + l];
        for (size_t l = 0; l < size; l++)
            if (out[2 * (group + l)] != in[group + size - 1 - l] || out[2 * (group + l) + 1] != sum)
                return wrong(item, out, sizeof out);
    }
    return yes(item, size);
}

/* Mesa's rusticl says 32 of every kernel on llvmpipe, and runs as many as it says of the device. No device is
 * known that runs a plain kernel in groups below this number only. */
#define FEW_ITEMS 64
#define LARGER_GROUP 256 /* what kernels ask for at most, but for those that have smaller forms */

static bool want_larger_groups(const ocl_probe_state *state, char *why, size_t size)
{
    (void)why;
    (void)size;
    const ocl_device_desc *desc = state->desc;
    uint64_t most =
        desc->max_work_group < desc->max_work_item[0] ? desc->max_work_group : desc->max_work_item[0];
    return ocl_group_limit(desc) < FEW_ITEMS && most >= LARGER_GROUP;
}

/* value: work-items. A driver whose limit holds refuses the launch. */
static clt_status ask_larger_groups(const ocl_probe_state *state, ocl_item *item)
{
    state->device->desc.larger_groups = LARGER_GROUP; /* until the next question */
    clt_status status = try_groups(state, LARGER_GROUP, item);
    if (status != CLT_EUNSUPPORTED)
        return status;
    clt_error_clear();
    return answer(item, OCL_ANSWER_NO, "the driver refuses larger groups, as it says");
}

static clt_status ask_groups(const ocl_probe_state *state, size_t size, ocl_item *item)
{
    const ocl_device_desc *desc = state->desc;
    uint64_t limit = ocl_group_limit(desc);
    if (limit < size || desc->max_work_item[0] < size)
        return answer(item, OCL_ANSWER_NO, "the device runs work-groups of at most %llu items",
                      (unsigned long long)(limit < desc->max_work_item[0] ? limit : desc->max_work_item[0]));
    return try_groups(state, size, item);
}

static clt_status ask_local(const ocl_probe_state *state, ocl_item *item)
{
    return ask_groups(state, 64, item);
}

static clt_status ask_wg256(const ocl_probe_state *state, ocl_item *item)
{
    return ask_groups(state, 256, item);
}

static clt_status ask_fp64(const ocl_probe_state *state, ocl_item *item)
{
    enum { ITEMS = 64 };
    double in[ITEMS], out[ITEMS] = {0};
    for (int i = 0; i < ITEMS; i++)
        in[i] = 1.0 + i * 0x1p-30;
    probe_run run = {"-DPROBE_FP64=1", "probe_fp64", in, sizeof in, out, sizeof out, ITEMS, ITEMS, 0};
    CLT_TRY(run_probe(state->device, &run));
    for (int i = 0; i < ITEMS; i++)
        if (out[i] != fma(in[i], in[i], 1.0) / 3.0)
            return wrong(item, out, sizeof out);
    return yes(item, 0);
}

static clt_status ask_fp16(const ocl_probe_state *state, ocl_item *item)
{
    enum { ITEMS = 44 };
    uint16_t in[ITEMS], out[ITEMS] = {0};
    for (int i = 0; i < ITEMS; i++)
        in[i] = clt_f32_to_f16((float)i);
    probe_run run = {"-DPROBE_FP16=1", "probe_fp16", in, sizeof in, out, sizeof out, ITEMS, ITEMS, 0};
    CLT_TRY(run_probe(state->device, &run));
    for (int i = 0; i < ITEMS; i++)
        if (clt_f16_to_f32(out[i]) != (float)(i * i + i))
            return answer(item, OCL_ANSWER_WRONG, "the probe kernel computed wrong results");
    return yes(item, 0);
}

/* Copies 32 words per item. The bits are those of floats that are no NaN, so that nothing may change them on
 * the way. */
static clt_status ask_copy(const ocl_probe_state *state, const char *options, const char *kernel,
                           ocl_item *item)
{
    enum { ITEMS = 64, WORDS = 32 * ITEMS };
    cl_uint in[WORDS], out[WORDS] = {0};
    for (cl_uint i = 0; i < WORDS; i++)
        in[i] = 0x3f800000u + i * 1021u;
    probe_run run = {options, kernel, in, sizeof in, out, sizeof out, ITEMS, ITEMS, 0};
    CLT_TRY(run_probe(state->device, &run));
    return memcmp(in, out, sizeof in) == 0 ? yes(item, 0) : wrong(item, out, sizeof out);
}

static clt_status ask_nontemporal(const ocl_probe_state *state, ocl_item *item)
{
    return ask_copy(state, "-DPROBE_NONTEMPORAL=1", "probe_nontemporal", item);
}

static clt_status ask_prefetch(const ocl_probe_state *state, ocl_item *item)
{
    return ask_copy(state, "-DPROBE_PREFETCH=1", "probe_prefetch", item);
}

static clt_status ask_int64_atomics(const ocl_probe_state *state, ocl_item *item)
{
    enum { ITEMS = 4096 };
    cl_ulong in[ITEMS], out[2] = {0, 0}, want[2] = {0, 0};
    for (cl_ulong i = 0; i < ITEMS; i++) {
        in[i] = (i << 33) + 3 * i + 1;
        want[i & 1] += in[i];
    }
    probe_run run = {
        "-DPROBE_INT64_ATOMICS=1", "probe_int64_atomics", in, sizeof in, out, sizeof out, ITEMS, ITEMS, 0};
    CLT_TRY(run_probe(state->device, &run));
    return memcmp(out, want, sizeof want) == 0 ? yes(item, 0) : wrong(item, out, sizeof out);
}

/* Every item reports its sub-group's sum, number and size: regroup by number and compare. */
static bool right_subgroups(const cl_uint *in, const cl_uint *out, cl_uint items, cl_uint size)
{
    for (cl_uint group = 0; group < items; group += size) {
        cl_uint sum[256] = {0}, members[256] = {0};
        for (cl_uint i = group; i < group + size; i++) {
            if (out[3 * i + 1] >= size)
                return false;
            sum[out[3 * i + 1]] += in[i];
            members[out[3 * i + 1]]++;
        }
        for (cl_uint i = group; i < group + size; i++)
            if (out[3 * i] != sum[out[3 * i + 1]] || out[3 * i + 2] != members[out[3 * i + 1]] ||
                out[3 * i + 2] < 2)
                return false;
    }
    return true;
}

static clt_status ask_subgroups(const ocl_probe_state *state, ocl_item *item)
{
    enum { ITEMS = 256, GROUP = 64 };
    cl_uint in[ITEMS], out[3 * ITEMS] = {0};
    for (cl_uint i = 0; i < ITEMS; i++)
        in[i] = i * i + 1;
    probe_run run = {
        "-DPROBE_SUBGROUPS=1", "probe_subgroups", in, sizeof in, out, sizeof out, ITEMS, ITEMS, GROUP};
    CLT_TRY(run_probe(state->device, &run));
    return right_subgroups(in, out, ITEMS, GROUP) ? yes(item, 0) : wrong(item, out, sizeof out);
}

static clt_status ask_ptx(const ocl_probe_state *state, ocl_item *item)
{
    cl_uint in[64], out[64] = {0};
    for (cl_uint i = 0; i < 64; i++)
        in[i] = 1000 + i;
    probe_run run = {"-DPROBE_PTX=1", "probe_ptx", in, sizeof in, out, sizeof out, 64, 64, 32};
    CLT_TRY(run_probe(state->device, &run));
    for (cl_uint i = 0; i < 64; i++)
        if (out[i] != in[i ^ 1])
            return wrong(item, out, sizeof out);
    return yes(item, 0);
}

/* --- local memory: more than the driver reports, and less than it reports of a kernel --- */

#define LOCAL_MEMORY_OPTIONS "-DPROBE_LOCAL_KIB=%u"

/* A kernel with a local array of that size; value: its bytes. */
static clt_status try_local_memory(const ocl_probe_state *state, cl_uint kib, ocl_item *item)
{
    enum { ITEMS = 64 };
    char options[64];
    cl_uint in[ITEMS], out[ITEMS] = {0}, words = kib * 256;
    for (cl_uint i = 0; i < ITEMS; i++)
        in[i] = i * 2654435761u;
    snprintf(options, sizeof options, LOCAL_MEMORY_OPTIONS, kib);
    probe_run run = {options, "probe_local_memory", in, sizeof in, out, sizeof out, words, ITEMS, ITEMS};
    CLT_TRY(run_probe(state->device, &run));
    for (cl_uint i = 0; i < ITEMS; i++) {
        cl_uint sum = 0, other = (i + 1) % ITEMS;
        for (cl_uint w = other; w < words; w += ITEMS)
            sum = sum * 3u + (in[other] ^ w);
        if (out[i] != sum)
            return answer(item, OCL_ANSWER_WRONG, "the probe kernel computed wrong results");
    }
    return yes(item, (uint64_t)kib << 10);
}

/* value: bytes. One question for each size, so that a size that crashes the driver does not take the smaller
 * ones with it. */
static clt_status ask_local_memory(const ocl_probe_state *state, ocl_item *item)
{
    return try_local_memory(state, state->question->parameter, item);
}

/* What the driver says of the local arrays of a kernel, in bytes. */
static clt_status reported_local(ocl_device *device, const char *options, const char *kernel, cl_ulong *bytes)
{
    cl_uint in[1] = {0}, out[1] = {0};
    probe_run run = {options, kernel, in, sizeof in, out, sizeof out, 0, 1, 1};
    probe_objects o = {0};
    clt_status status = create_objects(device, &run, &o);
    if (status == CLT_OK) {
        cl_int code = clGetKernelWorkGroupInfo(o.kernel, device->id, CL_KERNEL_LOCAL_MEM_SIZE, sizeof *bytes,
                                               bytes, NULL);
        if (code != CL_SUCCESS)
            status = ocl_fail(code, __FILE__, __LINE__, "asking for the local memory of %s", kernel);
    }
    release_objects(&o);
    return status;
}

#define PROBE_LOCAL_BYTES 2048 /* of the two arrays of probe_local */

/* value: what the driver says of a kernel's local arrays, as a multiple of their bytes. More than 1 counts
 * only if it says the same multiple of a kernel that declares all local memory of the device, and runs it:
 * Mesa's rusticl says twice the bytes and takes them once. What a driver adds for itself is no multiple, and
 * believed. */
static clt_status ask_local_report(const ocl_probe_state *state, ocl_item *item)
{
    cl_ulong small = 0, large = 0;
    cl_uint kib = (cl_uint)(state->desc->local_bytes >> 10);
    char options[64];
    CLT_TRY(reported_local(state->device, "", "probe_local", &small));
    if (small % PROBE_LOCAL_BYTES != 0 || small / PROBE_LOCAL_BYTES < 2)
        return yes(item, 1);
    uint64_t factor = small / PROBE_LOCAL_BYTES;
    snprintf(options, sizeof options, LOCAL_MEMORY_OPTIONS, kib);
    clt_status status = reported_local(state->device, options, "probe_local_memory", &large);
    if (status == CLT_OK && large != factor * ((uint64_t)kib << 10))
        return yes(item, 1);
    if (status == CLT_OK)
        status = try_local_memory(state, kib, item);
    if (status == CLT_OK && item->answer == OCL_ANSWER_YES)
        item->value = factor;
    if (status != CLT_EUNSUPPORTED && status != CLT_EBUILD && status != CLT_EDEVMEM)
        return status;
    clt_error_clear();
    return answer(item, OCL_ANSWER_NO,
                  "the driver refuses a kernel with %u KiB, of which it reports %" PRIu64 " times as much",
                  kib, factor);
}

/* --- matrix units --- */

/* One instruction form of matrix units. */
typedef struct unit_probe {
    uint32_t cap;
    const char *options;
    uint32_t from; /* compute capability since which the form exists */
    clt_dtype type;
    int columns; /* of B */
} unit_probe;

static const unit_probe unit_probes[] = {
    {OCL_CAP_MMA_F16, "-DPROBE_MMA_F16=1", 80, CLT_F16, 8},
    {OCL_CAP_MMA_BF16, "-DPROBE_MMA_BF16=1", 80, CLT_BF16, 8},
    {OCL_CAP_MMA_TF32, "-DPROBE_MMA_TF32=1", 80, CLT_F32, 8},
    {OCL_CAP_MMA_F16_K8, "-DPROBE_MMA_F16_K8=1", 75, CLT_F16, 8},
    {OCL_CAP_WMMA_F16, "-DPROBE_WMMA_F16=1", 70, CLT_F16, 16},
};

static const unit_probe *unit_of(uint32_t cap)
{
    const unit_probe *p = unit_probes;
    while (p->cap != cap)
        p++;
    return p;
}

/* An operand's element as the instruction sees it. */
static float store_element(clt_dtype type, void *in, int i, float value)
{
    if (type != CLT_F32) {
        ((uint16_t *)in)[i] = type == CLT_BF16 ? clt_f32_to_bf16(value) : clt_f32_to_f16(value);
        return value;
    }
    ((float *)in)[i] = value;
    /* ties away from zero */
    return ldexpf(roundf(ldexpf(value, 10)), -10);
}

/* Small integers: every product and sum is exact in f16, bf16 and f32, so the result must be equal, not
 * close. For tf32 one element lies half way between two representable ones. */
static clt_status ask_unit(const ocl_probe_state *state, ocl_item *item)
{
    const unit_probe *p = unit_of(state->question->cap);
    float a[16 * 16], b[16 * 16], out[16 * 16] = {0};
    union {
        uint16_t narrow[2 * 256];
        float wide[2 * 256];
    } in;
    int n = 16 * p->columns;
    for (int i = 0; i < 256; i++)
        a[i] = store_element(p->type, &in, i,
                             p->type == CLT_F32 && i == 0 ? 1.00048828125f
                                                          : (float)((i * 7 + i / 16 * 3) % 9 - 4));
    for (int i = 0; i < n; i++)
        b[i] = store_element(p->type, &in, 256 + i, (float)((i * 5 + i / p->columns * 2) % 7 - 3));
    probe_run run = {.options = p->options,
                     .kernel = "probe_mma",
                     .in = &in,
                     .in_bytes = (size_t)(256 + n) * clt_dtype_bytes(p->type),
                     .out = out,
                     .out_bytes = (size_t)n * sizeof *out,
                     .n = (cl_uint)n,
                     .global = 32,
                     .local = 32};
    CLT_TRY(run_probe(state->device, &run));
    for (int row = 0; row < 16; row++) {
        for (int column = 0; column < p->columns; column++) {
            float want = 1.0f;
            for (int k = 0; k < 16; k++)
                want += a[row * 16 + k] * b[k * p->columns + column];
            if (out[row * p->columns + column] != want)
                return answer(item, OCL_ANSWER_WRONG, "the product of a probe kernel is wrong at (%d, %d)",
                              row, column);
        }
    }
    return yes(item, 0);
}

/* Bytes of local memory of the largest forms (cl/gemm/gemm_wgmma.c): 128x256 and 192x256, four slots of 64
 * along k. */
#define WGMMA_MOST (UINT64_C(192) << 10)
#define WGMMA_MOST_WIDE (UINT64_C(224) << 10)

/* A product of two tiles of 64 x 64, one with rows along k and one with rows across it, by four warps. They
 * lie at both ends of as much local memory as a form may have. */
static clt_status ask_wgmma(const ocl_probe_state *state, ocl_item *item)
{
    enum { SIDE = 64 };
    struct operands {
        uint16_t a[SIDE][SIDE], b[SIDE][SIDE]; /* (m, k), (k, n) */
        float out[SIDE][SIDE];
    } * t;
    CLT_TRY(clt_alloc(&t, 1, sizeof *t, "a probe"));
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            t->a[i][j] = clt_f32_to_f16((float)((i * 7 + j * 3 + i / 16) % 9 - 4));
            t->b[i][j] = clt_f32_to_f16((float)((i * 5 + j * 2 + j / 16) % 7 - 3));
        }
    uint64_t proven = ocl_form_max_local(state->desc), local = 2 * sizeof t->a;
    uint64_t most = state->question->cap == OCL_CAP_WGMMA_WIDE ? WGMMA_MOST_WIDE : WGMMA_MOST;
    if (state->question->cap != OCL_CAP_WGMMA)
        local = proven < most ? proven / 1024 * 1024 : most;
    size_t items = state->question->cap == OCL_CAP_WGMMA_WIDE ? 6 * SIDE : 2 * SIDE;
    char options[96];
    snprintf(options, sizeof options, OCL_RETARGET_OPTION " -DPROBE_BYTES=%u -DPROBE_ITEMS=%zu",
             (unsigned)local, items);
    probe_run run = {options,     "probe_wgmma", t->a, 2 * sizeof t->a, t->out, sizeof t->out,
                     SIDE * SIDE, items,         items};
    clt_status status = run_probe(state->device, &run);
    item->answer = OCL_ANSWER_YES;
    for (int i = 0; status == CLT_OK && i < SIDE * SIDE && item->answer == OCL_ANSWER_YES; i++) {
        float want = 0.0f;
        for (int k = 0; k < SIDE; k++)
            want += clt_f16_to_f32(t->a[i / SIDE][k]) * clt_f16_to_f32(t->b[k][i % SIDE]);
        if (t->out[i / SIDE][i % SIDE] != want)
            status = answer(item, OCL_ANSWER_WRONG, "the product of a probe kernel is wrong at (%d, %d)",
                            i / SIDE, i % SIDE);
    }
    free(t);
    return status;
}

/* --- a race --- */

/* Best of three, in seconds. */
static clt_status time_probe(ocl_device *device, const probe_run *run, double *best)
{
    probe_objects o = {0};
    clt_status status = create_objects(device, run, &o);
    if (status == CLT_OK)
        status = launch(device, run, &o);
    *best = 1e9;
    for (int i = 0; i < 3 && status == CLT_OK; i++) {
        double start = clt_now();
        status = launch(device, run, &o);
        double seconds = clt_now() - start;
        *best = seconds < *best ? seconds : *best;
    }
    release_objects(&o);
    return status;
}

#define LANE_LIMIT 3.0

/* Lane style pays where one work-item a group with float16 vectors reaches what groups of scalar items reach.
 * A GPU that runs one item of each group on a 16 to 64 wide unit loses by that factor, a CPU by none: the
 * limit of 3 lies far from both, so that a busy machine does not change the answer. The work grows until
 * launch costs do not matter. */
/* A program of its own: PoCL 3.0 ends in compiling it, and leaves it damaged in its cache. */
static clt_status race(ocl_device *device, float *in, float *out, double *group_time, double *lane_time)
{
    enum { ITEMS = 16384 };
    size_t bytes = ITEMS * sizeof *in;
    for (int i = 0; i < ITEMS; i++)
        in[i] = (float)(i % 100) * 0.01f;
    probe_run scalar = {"-DPROBE_LANES=1", "probe_group", in, bytes, out, bytes, 1, ITEMS, 0};
    *group_time = 0.0;
    for (cl_uint rounds = 4; rounds <= 1u << 20 && *group_time <= 0.5e-3; rounds *= 4) {
        scalar.n = rounds;
        CLT_TRY(time_probe(device, &scalar, group_time));
    }
    probe_run lane = {"-DPROBE_LANES=1", "probe_lane", in, bytes, out, bytes, scalar.n, ITEMS / 16, 1};
    return time_probe(device, &lane, lane_time);
}

static clt_status ask_wide_vectors(const ocl_probe_state *state, ocl_item *item)
{
    enum { ITEMS = 16384, BEST_OF = 3 };
    float *in = NULL, *out = NULL;
    double group_time = 0.0, lane_time = 0.0, ratio = 1e9;
    bool pinned = state->style == OCL_STYLE_LANES;
    clt_status status = clt_alloc(&in, ITEMS, sizeof *in, "a probe");
    if (status == CLT_OK)
        status = clt_alloc(&out, ITEMS, sizeof *out, "a probe");
    for (int i = 0; status == CLT_OK && i < (pinned ? 1 : BEST_OF) && ratio >= LANE_LIMIT; i++) {
        status = race(state->device, in, out, &group_time, &lane_time);
        if (status == CLT_OK && lane_time / group_time < ratio)
            ratio = lane_time / group_time;
    }
    free(in);
    free(out);
    CLT_TRY(status);
    CLT_DEBUG("device %s: wide vector probe: group %.3g ms, lane %.3g ms", state->desc->spec,
              group_time * 1e3, lane_time * 1e3);
    if (ratio < LANE_LIMIT || pinned)
        return yes(item, 0);
    return answer(item, OCL_ANSWER_NO, "float16 vectors are %.1f times slower than groups of scalar items",
                  ratio);
}

/* --- the list --- */

static bool has(const ocl_probe_state *state, uint32_t cap)
{
    return (state->caps & cap) != 0;
}

static bool is_nvidia(const ocl_probe_state *state)
{
    const ocl_item *basic = ocl_answers_find(state->answers, OCL_ITEM_BASIC);
    return basic != NULL && basic->value == 1;
}

static bool announced(const ocl_probe_state *state, const char *name, char *why, size_t size)
{
    if (state->extensions != NULL && strstr(state->extensions, name) != NULL)
        return true;
    snprintf(why, size, "the device does not announce %s", name);
    return false;
}

static bool want_wide_vectors(const ocl_probe_state *state, char *why, size_t size)
{
    if (state->style != OCL_STYLE_GROUPS)
        return true;
    snprintf(why, size, "groups are asked for");
    return false;
}

static bool want_fp64(const ocl_probe_state *state, char *why, size_t size)
{
    return announced(state, "cl_khr_fp64", why, size);
}

/* NVIDIA's compiler knows half without announcing it. */
static bool want_fp16(const ocl_probe_state *state, char *why, size_t size)
{
    return is_nvidia(state) || announced(state, "cl_khr_fp16", why, size);
}

static bool want_int64_atomics(const ocl_probe_state *state, char *why, size_t size)
{
    return announced(state, "cl_khr_int64_base_atomics", why, size);
}

static bool want_subgroups(const ocl_probe_state *state, char *why, size_t size)
{
    return announced(state, "cl_intel_subgroups", why, size) ||
           announced(state, "cl_khr_subgroups", why, size);
}

/* Only lane-style kernels use these. */
static bool want_lane(const ocl_probe_state *state, char *why, size_t size)
{
    (void)why;
    (void)size;
    return has(state, OCL_CAP_WIDE_VECTORS);
}

static bool want_prefetch(const ocl_probe_state *state, char *why, size_t size)
{
    if (state->desc->quirks & OCL_QUIRK_NO_SHUFFLES) {
        snprintf(why, size, "known not to work with this driver");
        return false;
    }
    return has(state, OCL_CAP_WIDE_VECTORS);
}

static bool want_ptx(const ocl_probe_state *state, char *why, size_t size)
{
    if (is_nvidia(state))
        return true;
    snprintf(why, size, "the device's compiler is not NVIDIA's");
    return false;
}

/* The compute capability only says what is worth trying; 0: unknown. */
static bool want_unit(const ocl_probe_state *state, char *why, size_t size)
{
    const unit_probe *p = unit_of(state->question->cap);
    uint32_t capability = state->desc->compute_capability;
    if (!want_ptx(state, why, size))
        return false;
    if (capability != 0 && capability < p->from) {
        snprintf(why, size, "compute capability %u.%u has no such instruction", capability / 10,
                 capability % 10);
        return false;
    }
    return has(state, OCL_CAP_PTX);
}

/* Only while no newer form counts. */
static bool want_mma_f16_k8(const ocl_probe_state *state, char *why, size_t size)
{
    return want_unit(state, why, size) && !has(state, OCL_CAP_MMA_F16);
}

static bool want_wmma_f16(const ocl_probe_state *state, char *why, size_t size)
{
    return want_unit(state, why, size) && !has(state, OCL_CAP_MMA_F16 | OCL_CAP_MMA_F16_K8);
}

/* One compute capability alone has it: later ones have other instructions. */
static bool want_wgmma(const ocl_probe_state *state, char *why, size_t size)
{
    uint32_t capability = state->desc->compute_capability;
    if (!want_ptx(state, why, size))
        return false;
    if (capability != 90) {
        snprintf(why, size, "compute capability %u.%u has no such instruction", capability / 10,
                 capability % 10);
        return false;
    }
    return has(state, OCL_CAP_PTX) && has(state, OCL_CAP_LOCAL);
}

static bool want_wgmma_large(const ocl_probe_state *state, char *why, size_t size)
{
    if (!has(state, OCL_CAP_WGMMA))
        return false;
    if (ocl_form_max_local(state->desc) > OCL_WGMMA_SMALL_BYTES)
        return true;
    snprintf(why, size, "a work-group has no more than %u KiB of local memory", OCL_WGMMA_SMALL_BYTES >> 10);
    return false;
}

static bool want_wgmma_wide(const ocl_probe_state *state, char *why, size_t size)
{
    (void)why;
    (void)size;
    return has(state, OCL_CAP_WGMMA_LARGE) && ocl_group_limit(state->desc) >= 384;
}

static bool want_local_report(const ocl_probe_state *state, char *why, size_t size)
{
    (void)why;
    (void)size;
    return has(state, OCL_CAP_LOCAL);
}

/* Only NVIDIA's driver is known to run more than it reports, and only while the next smaller size ran. */
static bool want_local_memory(const ocl_probe_state *state, char *why, size_t size)
{
    if (!want_ptx(state, why, size) || !has(state, OCL_CAP_LOCAL))
        return false;
    if ((uint64_t)state->question->parameter << 10 <= state->desc->local_bytes) {
        snprintf(why, size, "the driver reports as much");
        return false;
    }
    const ocl_question *smaller = state->question - 1;
    const ocl_item *before =
        smaller->ask == ask_local_memory ? ocl_answers_find(state->answers, smaller->name) : NULL;
    return smaller->ask != ask_local_memory ||
           (before != NULL && (before->answer == OCL_ANSWER_YES || before->answer == OCL_ANSWER_NO));
}

#define LOCAL_MEMORY(kib)                                                                                    \
    {                                                                                                        \
        OCL_ITEM_LOCAL_MEMORY #kib, 0, want_local_memory, ask_local_memory, kib                              \
    }

/* Local memory: what one work-group may have in NVIDIA's generations, in KiB. */
const ocl_question ocl_questions[] = {
    {OCL_ITEM_BASIC, 0, NULL, ask_basic, 0},
    {OCL_ITEM_GROUP_LIMIT, 0, NULL, ask_group_limit, 0},
    {OCL_ITEM_LARGER_GROUPS, 0, want_larger_groups, ask_larger_groups, 0},
    {"local", OCL_CAP_LOCAL, NULL, ask_local, 0},
    {OCL_ITEM_LOCAL_REPORT, 0, want_local_report, ask_local_report, 0},
    {"wg256", OCL_CAP_WG256, NULL, ask_wg256, 0},
    {"wide_vectors", OCL_CAP_WIDE_VECTORS, want_wide_vectors, ask_wide_vectors, 0},
    {"nontemporal", OCL_CAP_NONTEMPORAL, want_lane, ask_nontemporal, 0},
    {"prefetch", OCL_CAP_PREFETCH, want_prefetch, ask_prefetch, 0},
    {"fp64", OCL_CAP_FP64, want_fp64, ask_fp64, 0},
    {"fp16", OCL_CAP_FP16, want_fp16, ask_fp16, 0},
    {"int64_atomics", OCL_CAP_INT64_ATOMICS, want_int64_atomics, ask_int64_atomics, 0},
    {"subgroups", OCL_CAP_SUBGROUPS, want_subgroups, ask_subgroups, 0},
    {"ptx", OCL_CAP_PTX, want_ptx, ask_ptx, 0},
    LOCAL_MEMORY(64),
    LOCAL_MEMORY(72),
    LOCAL_MEMORY(96),
    LOCAL_MEMORY(99),
    LOCAL_MEMORY(128),
    LOCAL_MEMORY(163),
    LOCAL_MEMORY(192),
    LOCAL_MEMORY(227),
    {"mma_f16", OCL_CAP_MMA_F16, want_unit, ask_unit, 0},
    {"mma_bf16", OCL_CAP_MMA_BF16, want_unit, ask_unit, 0},
    {"mma_tf32", OCL_CAP_MMA_TF32, want_unit, ask_unit, 0},
    {"mma_f16_k8", OCL_CAP_MMA_F16_K8, want_mma_f16_k8, ask_unit, 0},
    {"wmma_f16", OCL_CAP_WMMA_F16, want_wmma_f16, ask_unit, 0},
    {"wgmma", OCL_CAP_WGMMA, want_wgmma, ask_wgmma, 0},
    {"wgmma_large", OCL_CAP_WGMMA_LARGE, want_wgmma_large, ask_wgmma, 0},
    {"wgmma_wide", OCL_CAP_WGMMA_WIDE, want_wgmma_wide, ask_wgmma, 0},
    {NULL, 0, NULL, NULL, 0},
};
