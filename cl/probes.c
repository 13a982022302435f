/* SPDX-License-Identifier: Apache-2.0
 *
 * Capabilities by building and running probe kernels (cl/kernels/probe.cl) and checking what they computed.
 * Announced extensions only decide what is worth trying; a device's name decides nothing. A probe that fails
 * to build or to run is an answer, not an error; only a device that cannot run the trivial kernel is refused.
 */
#include "cl/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/dtype.h"
#include "engine/base/log.h"
#include "engine/base/thread.h"

typedef struct probe_run {
    const char *options; /* of the probe family */
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
    CLT_TRY(ocl_program_try(device, "probe", run->options, &program));
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
    if (run->local > o->limit)
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
    if (strcmp(run->kernel, "probe_basic") == 0)
        device->desc.kernel_group_limit = o.limit;
    CLT_TRY_GOTO(launch(device, run, &o), done);
    cl_int code = clEnqueueReadBuffer(device->queue[OCL_QUEUE_COMPUTE], o.out, CL_TRUE, 0, run->out_bytes,
                                      run->out, 0, NULL, NULL);
    if (code != CL_SUCCESS)
        status = ocl_fail(code, __FILE__, __LINE__, "reading the result of %s", run->kernel);
done:
    release_objects(&o);
    return status;
}

clt_status ocl_probe_basic(ocl_device *device, bool *nvidia)
{
    cl_uint in[64], out[64];
    for (cl_uint i = 0; i < 64; i++) {
        in[i] = i * i + 5;
        out[i] = 7;
    }
    probe_run run = {"", "probe_basic", in, sizeof in, out, sizeof out, 64, 64, 0};
    clt_status status = run_probe(device, &run);
    if (status != CLT_OK)
        return clt_fail_prefix(status, "device %s '%s' (driver %s) cannot build and run a trivial kernel: ",
                               device->desc.spec, device->desc.name, device->desc.driver);
    for (cl_uint i = 1; i < 64; i++)
        if (out[i] != 3 * in[i] + 1)
            CLT_FAIL(CLT_EDEVICE,
                     "device %s '%s' (driver %s) computes wrong results: probe_basic[%u] is %u and must be "
                     "%u; update the driver or "
                     "choose another device",
                     device->desc.spec, device->desc.name, device->desc.driver, i, out[i], 3 * in[i] + 1);
    if (out[0] > 1)
        CLT_FAIL(
            CLT_EDEVICE,
            "device %s '%s' (driver %s) computes wrong results: probe_basic[0] is %u; choose another device",
            device->desc.spec, device->desc.name, device->desc.driver, out[0]);
    if (nvidia != NULL)
        *nvidia = out[0] == 1;
    return CLT_OK;
}

static bool probe_local(ocl_device *device, size_t size)
{
    enum { ITEMS = 1024 };
    if (ocl_group_limit(&device->desc) < size || device->desc.max_work_item[0] < size)
        return false;
    cl_uint in[ITEMS], out[2 * ITEMS] = {0};
    for (cl_uint i = 0; i < ITEMS; i++)
        in[i] = i * 2654435761u >> 8;
    probe_run run = {"", "probe_local", in, sizeof in, out, sizeof out, ITEMS, ITEMS, size};
    if (run_probe(device, &run) != CLT_OK)
        return false;
    for (size_t group = 0; group < ITEMS; group += size) {
        cl_uint sum = 0;
        for (size_t l = 0; l < size; l++)
            sum += in[group + l];
        for (size_t l = 0; l < size; l++)
            if (out[2 * (group + l)] != in[group + size - 1 - l] || out[2 * (group + l) + 1] != sum)
                return false;
    }
    return true;
}

static bool probe_fp64(ocl_device *device)
{
    enum { ITEMS = 64 };
    double in[ITEMS], out[ITEMS] = {0};
    for (int i = 0; i < ITEMS; i++)
        in[i] = 1.0 + i * 0x1p-30;
    probe_run run = {"-DPROBE_FP64=1", "probe_fp64", in, sizeof in, out, sizeof out, ITEMS, ITEMS, 0};
    if (run_probe(device, &run) != CLT_OK)
        return false;
    for (int i = 0; i < ITEMS; i++)
        if (out[i] != fma(in[i], in[i], 1.0) / 3.0)
            return false;
    return true;
}

static bool probe_fp16(ocl_device *device)
{
    enum { ITEMS = 44 };
    uint16_t in[ITEMS], out[ITEMS] = {0};
    for (int i = 0; i < ITEMS; i++)
        in[i] = clt_f32_to_f16((float)i);
    probe_run run = {"-DPROBE_FP16=1", "probe_fp16", in, sizeof in, out, sizeof out, ITEMS, ITEMS, 0};
    if (run_probe(device, &run) != CLT_OK)
        return false;
    for (int i = 0; i < ITEMS; i++)
        if (clt_f16_to_f32(out[i]) != (float)(i * i + i))
            return false;
    return true;
}

/* The bits are those of floats that are no NaN, so that nothing may change them on the way. */
static bool probe_nontemporal(ocl_device *device)
{
    enum { ITEMS = 64, WORDS = 32 * ITEMS };
    cl_uint in[WORDS], out[WORDS] = {0};
    for (cl_uint i = 0; i < WORDS; i++)
        in[i] = 0x3f800000u + i * 1021u;
    probe_run run = {
        "-DPROBE_NONTEMPORAL=1", "probe_nontemporal", in, sizeof in, out, sizeof out, ITEMS, ITEMS, 0};
    return run_probe(device, &run) == CLT_OK && memcmp(in, out, sizeof in) == 0;
}

static bool probe_int64_atomics(ocl_device *device)
{
    enum { ITEMS = 4096 };
    cl_ulong in[ITEMS], out[2] = {0, 0}, want[2] = {0, 0};
    for (cl_ulong i = 0; i < ITEMS; i++) {
        in[i] = (i << 33) + 3 * i + 1;
        want[i & 1] += in[i];
    }
    probe_run run = {
        "-DPROBE_INT64_ATOMICS=1", "probe_int64_atomics", in, sizeof in, out, sizeof out, ITEMS, ITEMS, 0};
    return run_probe(device, &run) == CLT_OK && out[0] == want[0] && out[1] == want[1];
}

/* Every item reports its sub-group's sum, number and size: regroup by number and compare. */
static bool probe_subgroups(ocl_device *device)
{
    enum { ITEMS = 256, GROUP = 64 };
    cl_uint in[ITEMS], out[3 * ITEMS] = {0};
    for (cl_uint i = 0; i < ITEMS; i++)
        in[i] = i * i + 1;
    probe_run run = {
        "-DPROBE_SUBGROUPS=1", "probe_subgroups", in, sizeof in, out, sizeof out, ITEMS, ITEMS, GROUP};
    if (run_probe(device, &run) != CLT_OK)
        return false;
    for (cl_uint group = 0; group < ITEMS; group += GROUP) {
        cl_uint sum[GROUP] = {0}, members[GROUP] = {0};
        for (cl_uint i = group; i < group + GROUP; i++) {
            if (out[3 * i + 1] >= GROUP)
                return false;
            sum[out[3 * i + 1]] += in[i];
            members[out[3 * i + 1]]++;
        }
        for (cl_uint i = group; i < group + GROUP; i++)
            if (out[3 * i] != sum[out[3 * i + 1]] || out[3 * i + 2] != members[out[3 * i + 1]] ||
                out[3 * i + 2] < 2)
                return false;
    }
    return true;
}

static bool probe_ptx(ocl_device *device)
{
    cl_uint in[64], out[64] = {0};
    for (cl_uint i = 0; i < 64; i++)
        in[i] = 1000 + i;
    probe_run run = {"-DPROBE_PTX=1", "probe_ptx", in, sizeof in, out, sizeof out, 64, 64, 32};
    if (run_probe(device, &run) != CLT_OK)
        return false;
    for (cl_uint i = 0; i < 64; i++)
        if (out[i] != in[i ^ 1])
            return false;
    return true;
}

/* One instruction form of matrix units. */
typedef struct unit_probe {
    uint32_t cap;
    const char *options;
    uint32_t from; /* compute capability since which the form exists */
    clt_dtype type;
    int columns; /* of B */
} unit_probe;

static const unit_probe k16[] = {
    {OCL_CAP_MMA_F16, "-DPROBE_MMA_F16=1", 80, CLT_F16, 8},
    {OCL_CAP_MMA_BF16, "-DPROBE_MMA_BF16=1", 80, CLT_BF16, 8},
    {OCL_CAP_MMA_TF32, "-DPROBE_MMA_TF32=1", 80, CLT_F32, 8},
};
/* In order; only until f16 is found. */
static const unit_probe older_f16[] = {
    {OCL_CAP_MMA_F16_K8, "-DPROBE_MMA_F16_K8=1", 75, CLT_F16, 8},
    {OCL_CAP_WMMA_F16, "-DPROBE_WMMA_F16=1", 70, CLT_F16, 16},
};

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
static bool probe_unit(ocl_device *device, const unit_probe *p)
{
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
    if (run_probe(device, &run) != CLT_OK)
        return false;
    for (int row = 0; row < 16; row++) {
        for (int column = 0; column < p->columns; column++) {
            float want = 1.0f;
            for (int k = 0; k < 16; k++)
                want += a[row * 16 + k] * b[k * p->columns + column];
            if (out[row * p->columns + column] != want)
                return false;
        }
    }
    return true;
}

/* The compute capability only says what is worth trying; 0: unknown. */
static uint32_t probe_units(ocl_device *device)
{
    uint32_t caps = 0, capability = device->desc.compute_capability;
    for (size_t i = 0; i < sizeof k16 / sizeof k16[0]; i++)
        if ((capability == 0 || capability >= k16[i].from) && probe_unit(device, &k16[i]))
            caps |= k16[i].cap;
    for (size_t i = 0; i < sizeof older_f16 / sizeof older_f16[0]; i++)
        if ((caps & OCL_CAPS_F16_UNITS) == 0 && (capability == 0 || capability >= older_f16[i].from) &&
            probe_unit(device, &older_f16[i]))
            caps |= older_f16[i].cap;
    return caps;
}

/* Best of three, in seconds; negative on failure. */
static double time_probe(ocl_device *device, const probe_run *run)
{
    probe_objects o = {0};
    double best = -1.0;
    if (create_objects(device, run, &o) == CLT_OK && launch(device, run, &o) == CLT_OK) {
        for (int i = 0; i < 3; i++) {
            double start = clt_now();
            if (launch(device, run, &o) != CLT_OK) {
                best = -1.0;
                break;
            }
            double seconds = clt_now() - start;
            best = best < 0.0 || seconds < best ? seconds : best;
        }
    }
    release_objects(&o);
    return best;
}

/* Lane style pays where one work-item a group with float16 vectors reaches what groups of scalar items reach.
 * A GPU that runs one item of each group on a 16 to 64 wide unit loses by that factor, a CPU by none: the
 * limit of 3 lies far from both, so that a busy machine does not change the answer. The work grows until
 * launch costs do not matter. */
static bool probe_wide_vectors(ocl_device *device)
{
    enum { ITEMS = 16384 };
    float *in = NULL, *out = NULL;
    double group_time = -1.0, lane_time = -1.0;
    size_t group = (size_t)ocl_group_items(&device->desc, 64);
    if (clt_alloc(&in, ITEMS, sizeof *in, "a probe") == CLT_OK &&
        clt_alloc(&out, ITEMS, sizeof *out, "a probe") == CLT_OK) {
        for (int i = 0; i < ITEMS; i++)
            in[i] = (float)(i % 100) * 0.01f;
        size_t bytes = ITEMS * sizeof *in;
        probe_run scalar = {"", "probe_group", in, bytes, out, bytes, 1, ITEMS, group};
        for (cl_uint rounds = 4; rounds <= 1u << 20; rounds *= 4) {
            scalar.n = rounds;
            group_time = time_probe(device, &scalar);
            if (group_time < 0.0 || group_time > 0.5e-3)
                break;
        }
        probe_run lane = {"", "probe_lane", in, bytes, out, bytes, scalar.n, ITEMS / 16, 1};
        if (group_time > 0.0)
            lane_time = time_probe(device, &lane);
    }
    free(in);
    free(out);
    CLT_DEBUG("device %s: wide vector probe: group %.3g ms, lane %.3g ms", device->desc.spec,
              group_time * 1e3, lane_time * 1e3);
    return lane_time > 0.0 && lane_time < 3.0 * group_time;
}

/* A process that opens a device again gets the same answer without probing again. */
typedef struct known_caps {
    cl_device_id id;
    uint32_t caps;
    uint64_t kernel_group_limit;
} known_caps;
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
static known_caps known[16];
static int n_known;

static bool recall(cl_device_id id, ocl_device_desc *desc)
{
    bool found = false;
    pthread_mutex_lock(&known_lock);
    for (int i = 0; i < n_known && !found; i++) {
        if (known[i].id == id) {
            desc->caps = known[i].caps;
            desc->kernel_group_limit = known[i].kernel_group_limit;
            found = true;
        }
    }
    pthread_mutex_unlock(&known_lock);
    return found;
}

static void remember(cl_device_id id, const ocl_device_desc *desc)
{
    pthread_mutex_lock(&known_lock);
    if (n_known < (int)(sizeof known / sizeof known[0]))
        known[n_known++] = (known_caps){id, desc->caps, desc->kernel_group_limit};
    pthread_mutex_unlock(&known_lock);
}

/* Whether a probe is worth trying. NVIDIA's compiler knows half without announcing it. */
static bool announced(const char *extensions, const char *name)
{
    return extensions != NULL && strstr(extensions, name) != NULL;
}

clt_status ocl_probe_caps(ocl_device *device)
{
    uint32_t caps = 0;
    bool nvidia = false;
    if (recall(device->id, &device->desc))
        return CLT_OK;
    CLT_TRY(ocl_probe_basic(device, &nvidia));
    char *extensions = ocl_device_extensions(device->id);
    if (probe_local(device, 64))
        caps |= OCL_CAP_LOCAL;
    if (probe_local(device, 256))
        caps |= OCL_CAP_WG256;
    if (probe_wide_vectors(device))
        caps |= OCL_CAP_WIDE_VECTORS;
    if ((caps & OCL_CAP_WIDE_VECTORS) && probe_nontemporal(device)) /* only lane-style kernels use it */
        caps |= OCL_CAP_NONTEMPORAL;
    if (announced(extensions, "cl_khr_fp64") && probe_fp64(device))
        caps |= OCL_CAP_FP64;
    if ((nvidia || announced(extensions, "cl_khr_fp16")) && probe_fp16(device))
        caps |= OCL_CAP_FP16;
    if (announced(extensions, "cl_khr_int64_base_atomics") && probe_int64_atomics(device))
        caps |= OCL_CAP_INT64_ATOMICS;
    if ((announced(extensions, "cl_khr_subgroups") || announced(extensions, "cl_intel_subgroups")) &&
        probe_subgroups(device))
        caps |= OCL_CAP_SUBGROUPS;
    if (nvidia && probe_ptx(device)) {
        caps |= OCL_CAP_PTX;
        caps |= probe_units(device);
    }
    free(extensions);
    clt_error_clear(); /* a probe that could not run left its reason behind; it is an answer, not a failure */
    device->desc.caps = caps;
    remember(device->id, &device->desc);
    char text[256];
    CLT_DEBUG("device %s '%s': capabilities %s", device->desc.spec, device->desc.name,
              ocl_caps_text(caps, text, sizeof text));
    return CLT_OK;
}
