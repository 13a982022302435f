/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists platforms and devices, in the platforms' order, with every property that the program needs, as their
 * drivers report them. A driver that fails is skipped with a warning that names it. This file neither opens
 * nor tests a device. */
#include "cl/device/internal.h"
#include "cl/device/listing.h"
#include "cl/device/pocl.h"
#include "cl/drivers/icd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "engine/base/log.h"
#include "engine/base/thread.h"

#define NV_COMPUTE_CAPABILITY_MAJOR 0x4000
#define NV_COMPUTE_CAPABILITY_MINOR 0x4001

static void trim(char *text)
{
    size_t start = strspn(text, " \t\r\n");
    size_t length = strlen(text);
    while (length > start && strchr(" \t\r\n", text[length - 1]))
        length--;
    memmove(text, text + start, length - start);
    text[length - start] = '\0';
}

/* A number or a struct of known size. */
clt_status ocl_device_ask(cl_device_id id, cl_device_info what, size_t size, void *out)
{
    OCL_CHECK(clGetDeviceInfo(id, what, size, out, NULL), "asking a device for its property 0x%04x", what);
    return CLT_OK;
}

static clt_status ask_u32(cl_device_id id, cl_device_info what, uint32_t *out)
{
    cl_uint value = 0;
    CLT_TRY(ocl_device_ask(id, what, sizeof value, &value));
    *out = value;
    return CLT_OK;
}

static clt_status ask_u64(cl_device_id id, cl_device_info what, uint64_t *out)
{
    cl_ulong value = 0;
    CLT_TRY(ocl_device_ask(id, what, sizeof value, &value));
    *out = value;
    return CLT_OK;
}

static clt_status ask_size(cl_device_id id, cl_device_info what, uint64_t *out)
{
    size_t value = 0;
    CLT_TRY(ocl_device_ask(id, what, sizeof value, &value));
    *out = value;
    return CLT_OK;
}

/* A text of any length; free() it. */
clt_status ocl_device_ask_text(cl_device_id id, cl_device_info what, char **out)
{
    CLT_FREED char *text = NULL;
    size_t size = 0;
    *out = NULL;
    OCL_CHECK(clGetDeviceInfo(id, what, 0, NULL, &size), "asking a device for its property 0x%04x", what);
    CLT_TRY(clt_alloc(&text, size + 1, 1, "a device's text"));
    CLT_TRY(ocl_device_ask(id, what, size, text));
    trim(text);
    *out = CLT_TAKE(text);
    return CLT_OK;
}

/* At most OCL_NAME_SIZE-1 characters of a driver's text, whatever its length. */
static clt_status ask_name(cl_device_id id, cl_device_info what, char *out)
{
    CLT_FREED char *text = NULL;
    CLT_TRY(ocl_device_ask_text(id, what, &text));
    snprintf(out, OCL_NAME_SIZE, "%s", text);
    return CLT_OK;
}

static clt_status ask_platform_name(cl_platform_id id, char *out)
{
    size_t size = 0;
    CLT_FREED char *text = NULL;
    OCL_CHECK(clGetPlatformInfo(id, CL_PLATFORM_NAME, 0, NULL, &size), "asking a platform for its name");
    CLT_TRY(clt_alloc(&text, size + 1, 1, "a platform's name"));
    OCL_CHECK(clGetPlatformInfo(id, CL_PLATFORM_NAME, size, text, NULL), "asking a platform for its name");
    trim(text);
    snprintf(out, OCL_NAME_SIZE, "%s", text);
    return CLT_OK;
}

clt_status ocl_device_extensions(cl_device_id id, char **out)
{
    return ocl_device_ask_text(id, CL_DEVICE_EXTENSIONS, out);
}

static clt_status ask_compute_capability(cl_device_id id, uint32_t *out)
{
    CLT_FREED char *extensions = NULL;
    uint32_t major, minor;
    *out = 0;
    CLT_TRY(ocl_device_extensions(id, &extensions));
    if (strstr(extensions, "cl_nv_device_attribute_query") == NULL)
        return CLT_OK;
    CLT_TRY(ask_u32(id, NV_COMPUTE_CAPABILITY_MAJOR, &major));
    CLT_TRY(ask_u32(id, NV_COMPUTE_CAPABILITY_MINOR, &minor));
    *out = major * 10 + minor;
    return CLT_OK;
}

/* All of these queries exist in OpenCL 1.2. A failed query must not count as 0, because that would lead to
 * other kernels. */
static clt_status describe_limits(cl_device_id id, ocl_device_desc *desc)
{
    size_t items[16] = {0};
    uint64_t resolution;
    uint32_t align_bits;
    cl_device_fp_config rounding = 0;
    CLT_TRY(ask_u32(id, CL_DEVICE_MAX_COMPUTE_UNITS, &desc->compute_units));
    CLT_TRY(ask_u32(id, CL_DEVICE_MAX_CLOCK_FREQUENCY, &desc->max_clock_mhz));
    CLT_TRY(ask_compute_capability(id, &desc->compute_capability));
    CLT_TRY(ask_u32(id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, &desc->vector_floats));
    CLT_TRY(ask_size(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, &desc->max_work_group));
    CLT_TRY(ocl_device_ask(id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof items, items));
    for (int i = 0; i < 3; i++)
        desc->max_work_item[i] = items[i];
    CLT_TRY(ask_u64(id, CL_DEVICE_LOCAL_MEM_SIZE, &desc->local_bytes));
    desc->local_proven_bytes = desc->local_bytes;
    CLT_TRY(ask_u64(id, CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE, &desc->constant_bytes));
    CLT_TRY(ask_u64(id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, &desc->cache_bytes));
    CLT_TRY(ask_u64(id, CL_DEVICE_GLOBAL_MEM_SIZE, &desc->global_bytes));
    desc->usable_bytes = desc->global_bytes;
    CLT_TRY(ask_u64(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, &desc->max_alloc_bytes));
    CLT_TRY(ask_u32(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, &align_bits));
    desc->align_bytes = align_bits / 8 > 64 ? align_bits / 8 : 64;
    CLT_TRY(ask_size(id, CL_DEVICE_PROFILING_TIMER_RESOLUTION, &resolution));
    desc->profiling_resolution_ns = (double)resolution;
    CLT_TRY(ocl_device_ask(id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof rounding, &rounding));
    desc->rounds_correctly = (rounding & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
    desc->keeps_subnormals = (rounding & CL_FP_DENORM) != 0;
    /* device memory is host memory, so only memory that system and control group have left counts, divided
     * by the number of ranks */
    if (desc->is_cpu) {
        uint64_t share = clt_memory_available() / (uint64_t)ocl_ranks_here();
        if (share < desc->usable_bytes)
            desc->usable_bytes = share;
    }
    return CLT_OK;
}

static clt_status describe(cl_platform_id platform, cl_device_id id, int p, int d, ocl_device_desc *desc)
{
    cl_device_type type = 0;
    memset(desc, 0, sizeof *desc);
    snprintf(desc->spec, sizeof desc->spec, "%d:%d", p, d);
    CLT_TRY(ocl_size_limits_in_use(&desc->limits));
    CLT_TRY(ask_name(id, CL_DEVICE_NAME, desc->name));
    CLT_TRY(ask_name(id, CL_DEVICE_VENDOR, desc->vendor));
    CLT_TRY(ask_name(id, CL_DRIVER_VERSION, desc->driver));
    CLT_TRY(ask_name(id, CL_DEVICE_VERSION, desc->version));
    CLT_TRY(ask_platform_name(platform, desc->platform));
    CLT_TRY(ocl_device_ask(id, CL_DEVICE_TYPE, sizeof type, &type));
    desc->is_gpu = (type & CL_DEVICE_TYPE_GPU) != 0;
    desc->is_cpu = !desc->is_gpu && (type & CL_DEVICE_TYPE_CPU) != 0;
    ocl_device_ask_pci(id, desc->pci, sizeof desc->pci);
    CLT_TRY(describe_limits(id, desc));
    ocl_apply_quirks(desc);
    ocl_size_limits_apply(desc);
    return CLT_OK;
}

/* Adds a device; one that does not answer is skipped with a warning. Fails only for lack of memory. */
static clt_status add_device(cl_platform_id platform, cl_device_id id, int p, int d, ocl_found *found,
                             bool *usable)
{
    found->platform = platform;
    found->id = id;
    clt_status status = describe(platform, id, p, d, &found->desc);
    *usable = status == CLT_OK;
    if (status == CLT_OK || status == CLT_ENOMEM)
        return status;
    CLT_WARN("device %s '%s' is skipped: %s", found->desc.spec, found->desc.name, clt_error_text());
    clt_error_clear();
    return CLT_OK;
}

/* A platform whose devices cannot be listed is skipped with a warning, so that other platforms can be
 * used. */
static clt_status left_out(int p, cl_int code)
{
    clt_status status = ocl_fail(code, __FILE__, __LINE__, "listing the devices of platform %d", p);
    if (status == CLT_ENOMEM)
        return status;
    CLT_WARN("platform %d is skipped: %s", p, clt_error_text());
    clt_error_clear();
    return CLT_OK;
}

static clt_status list_platform(cl_platform_id platform, int p, ocl_found **list, size_t *capacity,
                                size_t *count)
{
    CLT_FREED cl_device_id *ids = NULL;
    cl_uint n = 0;
    cl_int code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &n);
    if (code == CL_SUCCESS ? n == 0 : code == CL_DEVICE_NOT_FOUND) {
        CLT_DEBUG("platform %d has no device", p);
        return CLT_OK;
    }
    if (code != CL_SUCCESS)
        return left_out(p, code);
    CLT_TRY(clt_alloc(&ids, n, sizeof *ids, "the list of devices"));
    code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, n, ids, NULL);
    if (code != CL_SUCCESS)
        return left_out(p, code);
    CLT_TRY(clt_grow(list, capacity, *count + n, sizeof **list, "the list of devices"));
    for (cl_uint d = 0; d < n; d++) {
        bool usable;
        CLT_TRY(add_device(platform, ids[d], p, (int)d, &(*list)[*count], &usable));
        *count += usable;
    }
    return CLT_OK;
}

const char *ocl_memory_limit(char *text, size_t size)
{
    struct rlimit limit;
    text[0] = '\0';
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(text, size,
                 "memory is limited to %llu MiB by ulimit -v: a driver may need more to be loaded",
                 (unsigned long long)(limit.rlim_cur >> 20));
    return text;
}

/* A variable set by the user may keep the loader from the system's drivers. */
static const char *hidden_drivers(char *text, size_t size)
{
    char entry[256];
    const char *variable = ocl_icd_hiding(entry, sizeof entry);
    text[0] = '\0';
    if (variable != NULL)
        snprintf(text, size, " (%s=%.240s leads to no driver; unset it: %s names one)", variable,
                 ocl_icd_prepare()->chosen, entry);
    return text;
}

/* A sentence for errors: PoCL offers no device if it cannot make the folder for its kernels. */
static const char *without_folder(void)
{
    const ocl_pocl_report *pocl = ocl_pocl_done();
    return pocl->looked && pocl->folder.path == NULL ? " (PoCL offers no device without a folder for its "
                                                       "kernels: name one with " CLT_POCL_FOLDER_VARIABLE ")"
                                                     : "";
}

clt_status ocl_enumerate(ocl_found **out, int *count)
{
    CLT_FREED cl_platform_id *platforms = NULL;
    CLT_FREED ocl_found *list = NULL;
    size_t capacity = 0, found = 0;
    cl_uint n = 0;
    *out = NULL;
    *count = 0;
    ocl_size_limits wanted;
    CLT_TRY(ocl_size_limits_in_use(&wanted)); /* else every device would be skipped for a wrong variable */
    CLT_TRY(ocl_listing_prepare());
    cl_int listed = clGetPlatformIDs(0, NULL, &n);
    char limits[96], hidden[640];
    ocl_memory_limit(limits, sizeof limits);
    OCL_CHECK(listed, "listing OpenCL platforms%s%s%s%s", *limits ? " (" : "", limits, *limits ? ")" : "",
              hidden_drivers(hidden, sizeof hidden));
    CLT_TRY(clt_alloc(&platforms, n, sizeof *platforms, "the list of platforms"));
    if (n > 0)
        OCL_CHECK(clGetPlatformIDs(n, platforms, NULL), "listing %u OpenCL platforms", n);
    for (cl_uint p = 0; p < n; p++)
        CLT_TRY(list_platform(platforms[p], (int)p, &list, &capacity, &found));
    if (found == 0)
        CLT_FAIL(CLT_EDEVICE, "listing OpenCL devices: %u platform(s) and no device%s; run 'cltrain doctor'",
                 n, without_folder());
    *out = CLT_TAKE(list);
    *count = (int)found;
    return CLT_OK;
}

clt_status ocl_find_in_child(const char *spec, ocl_found *out)
{
    CLT_FREED ocl_found *found = NULL;
    int count = 0;
    CLT_TRY(ocl_enumerate(&found, &count));
    for (int i = count; i-- > 0;)
        if (strcmp(found[i].desc.spec, spec) == 0) {
            *out = found[i];
            return CLT_OK;
        }
    CLT_FAIL(CLT_EDEVICE, "there is no device %s in the child process", spec);
}

clt_status ocl_list_devices(ocl_device_desc **out, int *count)
{
    CLT_FREED ocl_found *found = NULL;
    *out = NULL;
    CLT_TRY(ocl_enumerate(&found, count));
    CLT_TRY(clt_alloc(out, (size_t)*count, sizeof **out, "the list of devices"));
    for (int i = 0; i < *count; i++)
        (*out)[i] = found[i].desc;
    return CLT_OK;
}
