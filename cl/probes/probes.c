/* SPDX-License-Identifier: Apache-2.0
 *
 * The questions that probe kernels answer (cl/kernels/probe.cl): each question builds and runs one kernel
 * and checks its results. Announced extensions only decide what is tried; a device's name decides nothing.
 * cl/probes/asking.h decides which process asks the questions, and what a crash means. */
#include "cl/probes/probes_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/dtype.h"
#include "engine/base/log.h"
#include "engine/base/thread.h"

/* --- probes --- */

/* value: 1 when the compiler is NVIDIA's */
static clt_status ask_basic(const ocl_probe_state *state, ocl_item *item)
{
    cl_uint in[64], out[64];
    for (cl_uint i = 0; i < 64; i++) {
        in[i] = i * i + 5;
        out[i] = 7;
    }
    ocl_probe run = {"", "probe_basic", in, sizeof in, out, sizeof out, 64, 64, 0, 0};
    CLT_TRY(ocl_probe_run(state->device, &run));
    for (cl_uint i = 1; i < 64; i++)
        if (out[i] != 3 * in[i] + 1)
            return ocl_answer_with(item, OCL_ANSWER_WRONG, "probe_basic[%u] is %u and must be %u", i, out[i],
                                   3 * in[i] + 1);
    if (out[0] > 1)
        return ocl_answer_with(item, OCL_ANSWER_WRONG, "probe_basic[0] is %u and must be 0 or 1", out[0]);
    return ocl_answer_yes(item, out[0]);
}

/* value: the group limit that the driver reports for a small kernel. Some drivers report a lower limit for a
 * kernel than for the device. */
static clt_status ask_group_limit(const ocl_probe_state *state, ocl_item *item)
{
    cl_uint in[1] = {0}, out[1] = {0};
    ocl_probe run = {"", "probe_basic", in, sizeof in, out, sizeof out, 0, 1, 1, 0};
    ocl_probe_objects o = {0};
    clt_status status = ocl_probe_create(state->device, &run, &o);
    ocl_probe_release(&o);
    CLT_TRY(status);
    return ocl_answer_yes(item, o.limit);
}

/* Runs groups of `size` items that share local memory. */
static clt_status try_groups(const ocl_probe_state *state, size_t size, ocl_item *item)
{
    enum { ITEMS = 1024 };
    cl_uint in[ITEMS], out[2 * ITEMS] = {0};
    for (cl_uint i = 0; i < ITEMS; i++)
        in[i] = i * 2654435761u >> 8;
    ocl_probe run = {"", "probe_local", in, sizeof in, out, sizeof out, ITEMS, ITEMS, size, 0};
    CLT_TRY(ocl_probe_run(state->device, &run));
    for (size_t group = 0; group < ITEMS; group += size) {
        cl_uint sum = 0;
        for (size_t l = 0; l < size; l++)
            sum += in[group + l];
        for (size_t l = 0; l < size; l++)
            if (out[2 * (group + l)] != in[group + size - 1 - l] || out[2 * (group + l) + 1] != sum)
                return ocl_answer_wrong(item, out, sizeof out);
    }
    return ocl_answer_yes(item, size);
}

/* Mesa's rusticl reports a limit of 32 for every kernel on llvmpipe, but runs groups as large as the
 * device's limit. No known device is really unable to run a plain kernel in groups of this size. */
#define FEW_ITEMS 64
#define LARGER_GROUP 256 /* the largest group of kernels that have no variant with smaller groups */

static bool want_larger_groups(const ocl_probe_state *state, char *why, size_t size)
{
    (void)why;
    (void)size;
    const ocl_device_desc *desc = state->desc;
    uint64_t most =
        desc->max_work_group < desc->max_work_item[0] ? desc->max_work_group : desc->max_work_item[0];
    return ocl_group_limit(desc) < FEW_ITEMS && most >= LARGER_GROUP;
}

/* value: the group size that works. If the limit is real, the driver refuses the launch. */
static clt_status ask_larger_groups(const ocl_probe_state *state, ocl_item *item)
{
    state->device->desc.larger_groups = LARGER_GROUP; /* `desc` is set again before the next question */
    clt_status status = try_groups(state, LARGER_GROUP, item);
    if (status != CLT_EUNSUPPORTED)
        return status;
    clt_error_clear();
    return ocl_answer_with(item, OCL_ANSWER_NO, "the driver refuses larger groups, as it says");
}

static clt_status ask_groups(const ocl_probe_state *state, size_t size, ocl_item *item)
{
    const ocl_device_desc *desc = state->desc;
    uint64_t limit = ocl_group_limit(desc);
    if (limit < size || desc->max_work_item[0] < size)
        return ocl_answer_with(
            item, OCL_ANSWER_NO, "the device runs work-groups of at most %llu items",
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
    ocl_probe run = {"-DPROBE_FP64=1", "probe_fp64", in, sizeof in, out, sizeof out, ITEMS, ITEMS, 0, 0};
    CLT_TRY(ocl_probe_run(state->device, &run));
    for (int i = 0; i < ITEMS; i++)
        if (out[i] != fma(in[i], in[i], 1.0) / 3.0)
            return ocl_answer_wrong(item, out, sizeof out);
    return ocl_answer_yes(item, 0);
}

static clt_status ask_fp16(const ocl_probe_state *state, ocl_item *item)
{
    enum { ITEMS = 44 };
    uint16_t in[ITEMS], out[ITEMS] = {0};
    for (int i = 0; i < ITEMS; i++)
        in[i] = clt_f32_to_f16((float)i);
    ocl_probe run = {"-DPROBE_FP16=1", "probe_fp16", in, sizeof in, out, sizeof out, ITEMS, ITEMS, 0, 0};
    CLT_TRY(ocl_probe_run(state->device, &run));
    for (int i = 0; i < ITEMS; i++)
        if (clt_f16_to_f32(out[i]) != (float)(i * i + i))
            return ocl_answer_with(item, OCL_ANSWER_WRONG, "the probe kernel computed wrong results");
    return ocl_answer_yes(item, 0);
}

/* Copies 32 words per item, and compares. The words are bit patterns of floats other than NaN, which copies
 * must not change. */
static clt_status ask_copy(const ocl_probe_state *state, const char *options, const char *kernel,
                           ocl_item *item)
{
    enum { ITEMS = 64, WORDS = 32 * ITEMS };
    cl_uint in[WORDS], out[WORDS] = {0};
    for (cl_uint i = 0; i < WORDS; i++)
        in[i] = 0x3f800000u + i * 1021u;
    ocl_probe run = {options, kernel, in, sizeof in, out, sizeof out, ITEMS, ITEMS, 0, 0};
    CLT_TRY(ocl_probe_run(state->device, &run));
    return memcmp(in, out, sizeof in) == 0 ? ocl_answer_yes(item, 0)
                                           : ocl_answer_wrong(item, out, sizeof out);
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
    ocl_probe run = {
        "-DPROBE_INT64_ATOMICS=1", "probe_int64_atomics", in, sizeof in, out, sizeof out, ITEMS, ITEMS, 0, 0};
    CLT_TRY(ocl_probe_run(state->device, &run));
    return memcmp(out, want, sizeof want) == 0 ? ocl_answer_yes(item, 0)
                                               : ocl_answer_wrong(item, out, sizeof out);
}

/* Every item reports its sub-group's sum, index and size. Groups the items by index and compares. */
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
    ocl_probe run = {
        "-DPROBE_SUBGROUPS=1", "probe_subgroups", in, sizeof in, out, sizeof out, ITEMS, ITEMS, GROUP, 0};
    CLT_TRY(ocl_probe_run(state->device, &run));
    return right_subgroups(in, out, ITEMS, GROUP) ? ocl_answer_yes(item, 0)
                                                  : ocl_answer_wrong(item, out, sizeof out);
}

static clt_status ask_ptx(const ocl_probe_state *state, ocl_item *item)
{
    cl_uint in[64], out[64] = {0};
    for (cl_uint i = 0; i < 64; i++)
        in[i] = 1000 + i;
    ocl_probe run = {"-DPROBE_PTX=1", "probe_ptx", in, sizeof in, out, sizeof out, 64, 64, 32, 0};
    CLT_TRY(ocl_probe_run(state->device, &run));
    for (cl_uint i = 0; i < 64; i++)
        if (out[i] != in[i ^ 1])
            return ocl_answer_wrong(item, out, sizeof out);
    return ocl_answer_yes(item, 0);
}

/* --- local memory: more than the driver reports for the device, or less than it reports for a kernel --- */

#define LOCAL_MEMORY_OPTIONS "-DPROBE_LOCAL_KIB=%u"

/* Runs a kernel with a local array of that size; value: its bytes. */
static clt_status try_local_memory(const ocl_probe_state *state, cl_uint kib, ocl_item *item)
{
    enum { ITEMS = 64 };
    char options[64];
    cl_uint in[ITEMS], out[ITEMS] = {0}, words = kib * 256;
    for (cl_uint i = 0; i < ITEMS; i++)
        in[i] = i * 2654435761u;
    snprintf(options, sizeof options, LOCAL_MEMORY_OPTIONS, kib);
    ocl_probe run = {options, "probe_local_memory", in, sizeof in, out, sizeof out, words, ITEMS, ITEMS, 0};
    CLT_TRY(ocl_probe_run(state->device, &run));
    for (cl_uint i = 0; i < ITEMS; i++) {
        cl_uint sum = 0, other = (i + 1) % ITEMS;
        for (cl_uint w = other; w < words; w += ITEMS)
            sum = sum * 3u + (in[other] ^ w);
        if (out[i] != sum)
            return ocl_answer_with(item, OCL_ANSWER_WRONG, "the probe kernel computed wrong results");
    }
    return ocl_answer_yes(item, (uint64_t)kib << 10);
}

/* value: bytes. Each size has a separate question, so that a size that crashes the driver does not affect
 * smaller ones. */
static clt_status ask_local_memory(const ocl_probe_state *state, ocl_item *item)
{
    return try_local_memory(state, state->question->parameter, item);
}

/* Like ask_local_memory, with local memory as an argument, and with several groups in parallel. */
static clt_status ask_local_argument(const ocl_probe_state *state, ocl_item *item)
{
    enum { GROUP = 64, ITEMS = 4 * GROUP };
    cl_uint in[ITEMS], out[ITEMS] = {0}, kib = state->question->parameter, words = kib * 256;
    for (cl_uint i = 0; i < ITEMS; i++)
        in[i] = i * 2654435761u;
    ocl_probe run = {.options = "-DPROBE_LOCAL_ARGUMENT=1",
                     .kernel = "probe_local_argument",
                     .in = in,
                     .in_bytes = sizeof in,
                     .out = out,
                     .out_bytes = sizeof out,
                     .n = words,
                     .global = ITEMS,
                     .local = GROUP,
                     .local_bytes = (size_t)kib << 10};
    CLT_TRY(ocl_probe_run(state->device, &run));
    for (cl_uint i = 0; i < ITEMS; i++) {
        cl_uint group = i / GROUP, other = (i + 1) % GROUP, sum = group;
        for (cl_uint w = other; w < words; w += GROUP)
            sum = sum * 3u + (in[group * GROUP + other] ^ w);
        if (out[i] != sum)
            return ocl_answer_with(item, OCL_ANSWER_WRONG, "the probe kernel computed wrong results");
    }
    return ocl_answer_yes(item, (uint64_t)kib << 10);
}

/* Bytes of a kernel's local arrays, as the driver reports them. */
static clt_status reported_local(ocl_device *device, const char *options, const char *kernel, cl_ulong *bytes)
{
    cl_uint in[1] = {0}, out[1] = {0};
    ocl_probe run = {options, kernel, in, sizeof in, out, sizeof out, 0, 1, 1, 0};
    CLT_SCOPED(ocl_probe_objects) o = {0};
    CLT_TRY(ocl_probe_create(device, &run, &o));
    OCL_CHECK(
        clGetKernelWorkGroupInfo(o.kernel, device->id, CL_KERNEL_LOCAL_MEM_SIZE, sizeof *bytes, bytes, NULL),
        "asking for the local memory of %s", kernel);
    return CLT_OK;
}

#define PROBE_LOCAL_BYTES 2048 /* bytes of the two arrays of probe_local */

/* value: the reported size of a kernel's local arrays divided by their real size. A factor above 1 is
 * accepted only if the driver reports the same factor for a kernel that declares all local memory of the
 * device, and runs it: Mesa's rusticl reports twice the size that it uses. A constant that a driver adds for
 * its own use is no factor, and counts as used. */
static clt_status ask_local_report(const ocl_probe_state *state, ocl_item *item)
{
    cl_ulong small = 0, large = 0;
    cl_uint kib = (cl_uint)(state->desc->local_bytes >> 10);
    char options[64];
    CLT_TRY(reported_local(state->device, "", "probe_local", &small));
    if (small % PROBE_LOCAL_BYTES != 0 || small / PROBE_LOCAL_BYTES < 2)
        return ocl_answer_yes(item, 1);
    uint64_t factor = small / PROBE_LOCAL_BYTES;
    snprintf(options, sizeof options, LOCAL_MEMORY_OPTIONS, kib);
    clt_status status = reported_local(state->device, options, "probe_local_memory", &large);
    if (status == CLT_OK && large != factor * ((uint64_t)kib << 10))
        return ocl_answer_yes(item, 1);
    if (status == CLT_OK)
        status = try_local_memory(state, kib, item);
    if (status == CLT_OK && item->answer == OCL_ANSWER_YES)
        item->value = factor;
    if (status != CLT_EUNSUPPORTED && status != CLT_EBUILD && status != CLT_EDEVMEM)
        return status;
    clt_error_clear();
    return ocl_answer_with(item, OCL_ANSWER_NO,
                           "the driver refuses a kernel with %u KiB, although it reports %" PRIu64
                           " times as much",
                           kib, factor);
}

/* --- lane style against group style --- */

#define LANE_LIMIT 3.0

/* Lane style pays if one work-item per group with float16 vectors is about as fast as groups of scalar
 * items. A GPU that runs one item per group on a SIMD unit of width 16 to 64 is slower by that factor; a CPU
 * is not slower. The limit of 3 is far from both, so that a busy machine does not change the answer. The
 * work grows until launch costs are negligible. */
/* The kernels are a separate program, because PoCL 3.0 crashes when it compiles them, and leaves a damaged
 * file in its cache. */
static clt_status race(ocl_device *device, float *in, float *out, double *group_time, double *lane_time)
{
    enum { ITEMS = 16384 };
    size_t bytes = ITEMS * sizeof *in;
    for (int i = 0; i < ITEMS; i++)
        in[i] = (float)(i % 100) * 0.01f;
    ocl_probe scalar = {"-DPROBE_LANES=1", "probe_group", in, bytes, out, bytes, 1, ITEMS, 0, 0};
    *group_time = 0.0;
    for (cl_uint rounds = 4; rounds <= 1u << 20 && *group_time <= 0.5e-3; rounds *= 4) {
        scalar.n = rounds;
        CLT_TRY(ocl_probe_time(device, &scalar, group_time));
    }
    ocl_probe lane = {"-DPROBE_LANES=1", "probe_lane", in, bytes, out, bytes, scalar.n, ITEMS / 16, 1, 0};
    return ocl_probe_time(device, &lane, lane_time);
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
        return ocl_answer_yes(item, 0);
    return ocl_answer_with(item, OCL_ANSWER_NO,
                           "float16 vectors are %.1f times slower than groups of scalar items", ratio);
}

/* --- the list --- */

static bool is_nvidia(const ocl_probe_state *state)
{
    const ocl_item *basic = ocl_capabilities_find(state->capabilities, OCL_ITEM_BASIC);
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
    snprintf(why, size, "groups are requested");
    return false;
}

static bool want_fp64(const ocl_probe_state *state, char *why, size_t size)
{
    return announced(state, "cl_khr_fp64", why, size);
}

/* NVIDIA's compiler supports half without announcing the extension. */
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

/* Only lane-style kernels use these capabilities. */
static bool want_lane(const ocl_probe_state *state, char *why, size_t size)
{
    (void)why;
    (void)size;
    return ocl_probe_has(state, OCL_CAP_WIDE_VECTORS);
}

static bool want_prefetch(const ocl_probe_state *state, char *why, size_t size)
{
    if (state->desc->quirks & OCL_QUIRK_NO_SHUFFLES) {
        snprintf(why, size, "known not to work with this driver");
        return false;
    }
    return ocl_probe_has(state, OCL_CAP_WIDE_VECTORS);
}

bool ocl_probe_want_ptx(const ocl_probe_state *state, char *why, size_t size)
{
    if (is_nvidia(state))
        return true;
    snprintf(why, size, "the device's compiler is not NVIDIA's");
    return false;
}

static bool want_local_report(const ocl_probe_state *state, char *why, size_t size)
{
    (void)why;
    (void)size;
    return ocl_probe_has(state, OCL_CAP_LOCAL);
}

/* Only NVIDIA's driver is known to run kernels with more local memory than it reports. Each size is tried
 * only if the next smaller one works. */
static bool want_local_memory(const ocl_probe_state *state, char *why, size_t size)
{
    if (!ocl_probe_want_ptx(state, why, size) || !ocl_probe_has(state, OCL_CAP_LOCAL))
        return false;
    if (state->desc->limits.local > 0) {
        snprintf(why, size, "local memory is limited by --caps");
        return false;
    }
    if ((uint64_t)state->question->parameter << 10 <= state->desc->local_bytes) {
        snprintf(why, size, "the driver reports as much");
        return false;
    }
    const ocl_question *smaller = state->question - 1;
    if (smaller->ask != state->question->ask ||
        (uint64_t)smaller->parameter << 10 <= state->desc->local_bytes)
        return true;
    const ocl_item *before = ocl_capabilities_find(state->capabilities, smaller->name);
    return before != NULL && before->answer == OCL_ANSWER_YES;
}

#define LOCAL_MEMORY(kib)                                                                                    \
    {                                                                                                        \
        OCL_ITEM_LOCAL_MEMORY #kib, 0, want_local_memory, ask_local_memory, kib                              \
    }

#define LOCAL_ARGUMENT(kib)                                                                                  \
    {                                                                                                        \
        OCL_ITEM_LOCAL_ARGUMENT #kib, 0, want_local_memory, ask_local_argument, kib                          \
    }

/* The sizes in the questions about local memory are the limits of a work-group, in KiB, in generations of
 * NVIDIA's GPUs. Questions about matrix units are in their records (cl/device/matrix_unit.h). */
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
    {"ptx", OCL_CAP_PTX, ocl_probe_want_ptx, ask_ptx, 0},
    LOCAL_MEMORY(64),
    LOCAL_MEMORY(72),
    LOCAL_MEMORY(96),
    LOCAL_MEMORY(99),
    LOCAL_MEMORY(128),
    LOCAL_MEMORY(163),
    LOCAL_MEMORY(192),
    LOCAL_MEMORY(227),
    LOCAL_ARGUMENT(64),
    LOCAL_ARGUMENT(72),
    LOCAL_ARGUMENT(96),
    LOCAL_ARGUMENT(99),
    LOCAL_ARGUMENT(128),
    LOCAL_ARGUMENT(163),
    LOCAL_ARGUMENT(192),
    LOCAL_ARGUMENT(227),
    {NULL, 0, NULL, NULL, 0},
};
