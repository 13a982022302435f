/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver's platform, device, contexts and queues, and its entry points for the OpenCL loader. The device
 * announces the same as an NVIDIA device of its generation, but can run only the instructions that the
 * executor knows. */
#include <stdlib.h>
#include <string.h>

#include "tests/ptx/driver.h"

cl_icd_dispatch ptx_dispatch;
pthread_mutex_t ptx_lock = PTHREAD_MUTEX_INITIALIZER;

/* What the device reports about itself. */
typedef struct identity {
    const char *word; /* value of CLTRAIN_PTX_PLAY */
    const char *name, *driver, *platform_version, *extensions;
    cl_ulong bytes, largest, cache, clock; /* bytes: memory, largest allocation, second-level cache; MHz */
} identity;

#define BASE_EXTENSIONS                                                                                      \
    "cl_khr_global_int32_base_atomics cl_khr_local_int32_base_atomics cl_khr_fp64 "                          \
    "cl_khr_byte_addressable_store cl_khr_icd cl_khr_int64_base_atomics cl_nv_compiler_options "             \
    "cl_nv_device_attribute_query cl_nv_pragma_unroll"
static const identity identities[] = {
    {"", NULL, "1.0", "OpenCL 3.0 CUDA simulated", BASE_EXTENSIONS, UINT64_C(4) << 30, UINT64_C(1) << 30,
     UINT64_C(40) << 20, 1410},
    /* an H100 SXM under a driver of series 580; the largest allocation is a quarter of the memory */
    {"h100", "NVIDIA H100 80GB HBM3", "580.95.05", "OpenCL 3.0 CUDA 13.0.97",
     BASE_EXTENSIONS " cl_khr_global_int32_extended_atomics cl_khr_local_int32_extended_atomics "
                     "cl_khr_3d_image_writes cl_khr_gl_sharing cl_nv_copy_opts cl_khr_gl_event "
                     "cl_nv_create_buffer cl_khr_int64_extended_atomics cl_nv_kernel_attribute "
                     "cl_khr_device_uuid cl_khr_pci_bus_info cl_khr_external_semaphore "
                     "cl_khr_external_memory cl_khr_external_semaphore_opaque_fd "
                     "cl_khr_external_memory_opaque_fd cl_khr_semaphore",
     UINT64_C(85017493504), UINT64_C(85017493504) / 4, UINT64_C(50) << 20, 1980},
};

static const identity *simulated(void)
{
    const char *word = ptx_setting("CLTRAIN_PTX_PLAY", "");
    for (size_t i = 0; i < sizeof identities / sizeof identities[0]; i++)
        if (strcmp(word, identities[i].word) == 0)
            return &identities[i];
    fprintf(stderr, "PTX executor: CLTRAIN_PTX_PLAY=%s is nobody\n", word);
    abort();
}

bool ptx_is_card(void)
{
    return simulated()->name != NULL;
}

static struct _cl_platform_id platform = {&ptx_dispatch};
static struct _cl_device_id device = {&ptx_dispatch};

const char *ptx_setting(const char *name, const char *otherwise)
{
    const char *text = getenv(name);
    return text && text[0] ? text : otherwise;
}

unsigned ptx_generation(void)
{
    return (unsigned)strtoul(ptx_setting("CLTRAIN_PTX_SM", "80"), NULL, 10);
}

bool ptx_refuses(const char *what)
{
    return strcmp(ptx_setting("CLTRAIN_PTX_REFUSE", ""), what) == 0;
}

uint32_t ptx_local_memory(void)
{
    return (uint32_t)strtoul(ptx_setting("CLTRAIN_PTX_LOCAL", "49152"), NULL, 10);
}

static uint32_t local_memory_or(const char *name)
{
    const char *text = ptx_setting(name, "");
    return text[0] ? (uint32_t)strtoul(text, NULL, 10) : ptx_local_memory();
}

uint32_t ptx_local_array(void)
{
    return local_memory_or("CLTRAIN_PTX_LOCAL_ARRAY");
}

uint32_t ptx_local_memory_90a(void)
{
    return local_memory_or("CLTRAIN_PTX_LOCAL_90A");
}

uint32_t ptx_local_argument(void)
{
    return local_memory_or("CLTRAIN_PTX_LOCAL_ARGUMENT");
}

cl_int ptx_answer(const void *value, size_t bytes, size_t size, void *out, size_t *needed)
{
    if (needed)
        *needed = bytes;
    if (!out)
        return CL_SUCCESS;
    if (size < bytes)
        return CL_INVALID_VALUE;
    if (bytes)
        memcpy(out, value, bytes);
    return CL_SUCCESS;
}

static cl_int answer_text(const char *text, size_t size, void *out, size_t *needed)
{
    return ptx_answer(text, strlen(text) + 1, size, out, needed);
}

/* --- platform --- */

static cl_int CL_API_CALL get_platforms(cl_uint n, cl_platform_id *out, cl_uint *count)
{
    if (n && out)
        *out = &platform;
    if (count)
        *count = 1;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL platform_info(cl_platform_id id, cl_platform_info what, size_t size, void *out,
                                        size_t *needed)
{
    (void)id;
    switch (what) {
    case CL_PLATFORM_NAME: /* contains the words by which quirks recognise the driver */
        return answer_text("NVIDIA CUDA, simulated", size, out, needed);
    case CL_PLATFORM_VENDOR:
        return answer_text("cltrain's tests", size, out, needed);
    case CL_PLATFORM_VERSION:
        return answer_text(simulated()->platform_version, size, out, needed);
    case CL_PLATFORM_PROFILE:
        return answer_text("FULL_PROFILE", size, out, needed);
    case CL_PLATFORM_EXTENSIONS:
        return answer_text("cl_khr_icd", size, out, needed);
    case CL_PLATFORM_ICD_SUFFIX_KHR:
        return answer_text("PTX", size, out, needed);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL get_devices(cl_platform_id id, cl_device_type type, cl_uint n, cl_device_id *out,
                                      cl_uint *count)
{
    (void)id;
    bool wanted = (type & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT)) != 0;
    if (!wanted)
        return CL_DEVICE_NOT_FOUND;
    if (n && out)
        *out = &device;
    if (count)
        *count = 1;
    return CL_SUCCESS;
}

/* --- device --- */

#define NV_COMPUTE_CAPABILITY_MAJOR 0x4000
#define NV_COMPUTE_CAPABILITY_MINOR 0x4001
#define NV_WARP_SIZE 0x4003

typedef struct device_number {
    cl_device_info what;
    cl_ulong value;
    size_t bytes;
} device_number;

static cl_int device_numbers(cl_device_info what, size_t size, void *out, size_t *needed)
{
    unsigned sm = ptx_generation();
    const device_number list[] = {
        {CL_DEVICE_TYPE, CL_DEVICE_TYPE_GPU, sizeof(cl_device_type)},
        {CL_DEVICE_VENDOR_ID, 0x10de, 4},
        {CL_DEVICE_MAX_COMPUTE_UNITS,
         sm >= 90   ? 132
         : sm >= 80 ? 108
         : sm >= 75 ? 40
                    : 80,
         4},
        {CL_DEVICE_MAX_CLOCK_FREQUENCY, simulated()->clock, 4},
        {CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, 3, 4},
        {CL_DEVICE_MAX_WORK_GROUP_SIZE, 1024, sizeof(size_t)},
        {CL_DEVICE_ADDRESS_BITS, 64, 4},
        {CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, 1, 4},
        {CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT, 1, 4},
        {CL_DEVICE_MAX_PARAMETER_SIZE, 4352, sizeof(size_t)},
        {CL_DEVICE_MEM_BASE_ADDR_ALIGN, 4096, 4},
        {CL_DEVICE_LOCAL_MEM_TYPE, CL_LOCAL, 4},
        {CL_DEVICE_LOCAL_MEM_SIZE, ptx_local_memory(), 8},
        {CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE, 65536, 8},
        {CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, simulated()->cache, 8},
        {CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE, 128, 4},
        {CL_DEVICE_GLOBAL_MEM_SIZE, simulated()->bytes, 8},
        {CL_DEVICE_MAX_MEM_ALLOC_SIZE, simulated()->largest, 8},
        {CL_DEVICE_PROFILING_TIMER_RESOLUTION, 1000, sizeof(size_t)},
        {CL_DEVICE_AVAILABLE, CL_TRUE, 4},
        {CL_DEVICE_COMPILER_AVAILABLE, CL_TRUE, 4},
        {CL_DEVICE_LINKER_AVAILABLE, CL_FALSE, 4},
        {CL_DEVICE_ENDIAN_LITTLE, CL_TRUE, 4},
        {CL_DEVICE_ERROR_CORRECTION_SUPPORT, CL_FALSE, 4},
        {CL_DEVICE_HOST_UNIFIED_MEMORY, CL_FALSE, 4},
        {CL_DEVICE_IMAGE_SUPPORT, CL_FALSE, 4},
        {CL_DEVICE_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 8},
        {CL_DEVICE_SINGLE_FP_CONFIG,
         CL_FP_DENORM | CL_FP_INF_NAN | CL_FP_ROUND_TO_NEAREST | CL_FP_FMA |
             CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT,
         8},
        {CL_DEVICE_DOUBLE_FP_CONFIG, CL_FP_DENORM | CL_FP_INF_NAN | CL_FP_ROUND_TO_NEAREST | CL_FP_FMA, 8},
        {NV_COMPUTE_CAPABILITY_MAJOR, sm / 10, 4},
        {NV_COMPUTE_CAPABILITY_MINOR, sm % 10, 4},
        {NV_WARP_SIZE, PTX_LANES, 4},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (list[i].what == what) /* little endian: the first bytes are the number */
            return ptx_answer(&list[i].value, list[i].bytes, size, out, needed);
    return CL_INVALID_VALUE;
}

static cl_int CL_API_CALL device_info(cl_device_id id, cl_device_info what, size_t size, void *out,
                                      size_t *needed)
{
    static const size_t items[3] = {1024, 1024, 64};
    const cl_platform_id of = &platform;
    char name[64];
    (void)id;
    switch (what) {
    case CL_DEVICE_NAME:
        snprintf(name, sizeof name, "PTX executor sm_%u", ptx_generation());
        return answer_text(ptx_is_card() ? simulated()->name : name, size, out, needed);
    case CL_DEVICE_VENDOR:
        return answer_text("NVIDIA Corporation", size, out, needed);
    case CL_DRIVER_VERSION:
        return answer_text(simulated()->driver, size, out, needed);
    case CL_DEVICE_VERSION:
        return answer_text("OpenCL 3.0 CUDA", size, out, needed);
    case CL_DEVICE_OPENCL_C_VERSION:
        return answer_text("OpenCL C 1.2 ", size, out, needed);
    case CL_DEVICE_PROFILE:
        return answer_text("FULL_PROFILE", size, out, needed);
    case CL_DEVICE_EXTENSIONS:
        return answer_text(simulated()->extensions, size, out, needed);
    case CL_DEVICE_BUILT_IN_KERNELS:
        return answer_text("", size, out, needed);
    case CL_DEVICE_MAX_WORK_ITEM_SIZES:
        return ptx_answer(items, sizeof items, size, out, needed);
    case CL_DEVICE_PLATFORM:
        return ptx_answer(&of, sizeof of, size, out, needed);
    default:
        return device_numbers(what, size, out, needed);
    }
}

static cl_int CL_API_CALL keep_device(cl_device_id id)
{
    (void)id;
    return CL_SUCCESS;
}

/* --- contexts and queues --- */

static cl_context CL_API_CALL create_context(
    const cl_context_properties *properties, cl_uint n, const cl_device_id *ids,
    void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *data, cl_int *code)
{
    cl_int refused = ptx_lasting_failure();
    cl_context context = refused == CL_SUCCESS ? calloc(1, sizeof *context) : NULL;
    (void)properties, (void)n, (void)ids, (void)notify, (void)data;
    if (context)
        *context = (struct _cl_context){&ptx_dispatch, 1};
    if (code)
        *code = context ? CL_SUCCESS : refused != CL_SUCCESS ? refused : CL_OUT_OF_HOST_MEMORY;
    return context;
}

static cl_int CL_API_CALL retain_context(cl_context context)
{
    pthread_mutex_lock(&ptx_lock);
    context->references++;
    pthread_mutex_unlock(&ptx_lock);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_context(cl_context context)
{
    pthread_mutex_lock(&ptx_lock);
    bool last = --context->references == 0;
    pthread_mutex_unlock(&ptx_lock);
    if (last)
        free(context);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL context_info(cl_context context, cl_context_info what, size_t size, void *out,
                                       size_t *needed)
{
    const cl_device_id id = &device;
    cl_uint one = 1;
    (void)context;
    if (what == CL_CONTEXT_DEVICES)
        return ptx_answer(&id, sizeof id, size, out, needed);
    if (what == CL_CONTEXT_NUM_DEVICES)
        return ptx_answer(&one, sizeof one, size, out, needed);
    return CL_INVALID_VALUE;
}

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id id,
                                                 cl_command_queue_properties properties, cl_int *code)
{
    cl_command_queue queue = calloc(1, sizeof *queue);
    (void)id, (void)properties;
    if (queue)
        *queue = (struct _cl_command_queue){&ptx_dispatch, 1, context};
    if (code)
        *code = queue ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    return queue;
}

static cl_int CL_API_CALL retain_queue(cl_command_queue queue)
{
    pthread_mutex_lock(&ptx_lock);
    queue->references++;
    pthread_mutex_unlock(&ptx_lock);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_queue(cl_command_queue queue)
{
    pthread_mutex_lock(&ptx_lock);
    bool last = --queue->references == 0;
    pthread_mutex_unlock(&ptx_lock);
    if (last)
        free(queue);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL queue_info(cl_command_queue queue, cl_command_queue_info what, size_t size,
                                     void *out, size_t *needed)
{
    const cl_device_id id = &device;
    if (what == CL_QUEUE_CONTEXT)
        return ptx_answer(&queue->context, sizeof queue->context, size, out, needed);
    if (what == CL_QUEUE_DEVICE)
        return ptx_answer(&id, sizeof id, size, out, needed);
    return CL_INVALID_VALUE;
}

/* --- entry points for the loader --- */

void ptx_platform_entries(cl_icd_dispatch *d)
{
    d->clGetPlatformIDs = get_platforms;
    d->clGetPlatformInfo = platform_info;
    d->clGetDeviceIDs = get_devices;
    d->clGetDeviceInfo = device_info;
    d->clRetainDevice = d->clReleaseDevice = keep_device;
    d->clCreateContext = create_context;
    d->clRetainContext = retain_context;
    d->clReleaseContext = release_context;
    d->clGetContextInfo = context_info;
    d->clCreateCommandQueue = create_queue;
    d->clRetainCommandQueue = retain_queue;
    d->clReleaseCommandQueue = release_queue;
    d->clGetCommandQueueInfo = queue_info;
}

/* Fills the entries of the table that this driver does not set: a program that calls one must not
 * continue. */
static void not_simulated(void)
{
    fprintf(stderr, "PTX executor: a function of OpenCL was called that this driver does not have\n");
    abort();
}

static void fill_table(void)
{
    void (*none)(void) = not_simulated;
    for (size_t at = 0; at + sizeof none <= sizeof ptx_dispatch; at += sizeof none)
        memcpy((char *)&ptx_dispatch + at, &none, sizeof none);
    ptx_platform_entries(&ptx_dispatch);
    ptx_memory_entries(&ptx_dispatch);
    ptx_program_entries(&ptx_dispatch);
    ptx_command_entries(&ptx_dispatch);
}

/* The loader calls this before any other function of the table, since it yields the platforms. */
__attribute__((visibility("default"))) CL_API_ENTRY cl_int CL_API_CALL
clIcdGetPlatformIDsKHR(cl_uint n, cl_platform_id *out, cl_uint *count)
{
    fill_table();
    return get_platforms(n, out, count);
}

__attribute__((visibility("default"))) CL_API_ENTRY void *CL_API_CALL
clGetExtensionFunctionAddress(const char *name)
{
    union {
        cl_int(CL_API_CALL *platforms)(cl_uint, cl_platform_id *, cl_uint *);
        cl_int(CL_API_CALL *info)(cl_platform_id, cl_platform_info, size_t, void *, size_t *);
        void *address;
    } function = {.address = NULL};
    if (strcmp(name, "clIcdGetPlatformIDsKHR") == 0)
        function.platforms = clIcdGetPlatformIDsKHR;
    else if (strcmp(name, "clGetPlatformInfo") == 0)
        function.info = platform_info;
    return function.address;
}
