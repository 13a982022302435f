/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded with LD_PRELOAD, it makes a program's devices report that they are GPUs. CLT_GPU_ADDRESSES lists the
 * address of each device of a platform on the PCI bus, "0000:17:00.0,0000:65:00.0". CLT_GPU_COUNT is a file
 * with a number: a platform has no more devices than that. */
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REAL(name) ((__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name))
#define VISIBLE __attribute__((visibility("default")))
#define PCI_BUS_INFO 0x410F /* cl_khr_pci_bus_info */

static cl_int answer(const void *from, size_t bytes, size_t size, void *value, size_t *needed)
{
    if (needed)
        *needed = bytes;
    if (value && size < bytes)
        return CL_INVALID_VALUE;
    if (value)
        memcpy(value, from, bytes);
    return CL_SUCCESS;
}

/* The device's number on its platform; -1: it is not listed. */
static int number_of(cl_device_id device)
{
    cl_platform_id platform;
    cl_device_id all[16];
    cl_uint count = 0;
    if (REAL(clGetDeviceInfo)(device, CL_DEVICE_PLATFORM, sizeof(cl_platform_id), &platform, NULL) !=
            CL_SUCCESS ||
        REAL(clGetDeviceIDs)(platform, CL_DEVICE_TYPE_ALL, 16, all, &count) != CL_SUCCESS)
        return -1;
    for (int i = 0; i < (int)count && i < 16; i++)
        if (all[i] == device)
            return i;
    return -1;
}

static cl_int place_of(cl_device_id device, cl_uint place[4])
{
    const char *at = getenv("CLT_GPU_ADDRESSES");
    for (int i = number_of(device); at && i > 0; i--)
        at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
    return at && sscanf(at, "%x:%x:%x.%x", &place[0], &place[1], &place[2], &place[3]) == 4
               ? CL_SUCCESS
               : CL_INVALID_VALUE;
}

VISIBLE cl_int CL_API_CALL clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint room,
                                          cl_device_id *devices, cl_uint *count)
{
    __typeof__(&clGetDeviceIDs) real = REAL(clGetDeviceIDs);
    if (!real) /* a plug-in of mpirun, which does not load OpenCL into the global scope */
        return CL_DEVICE_NOT_FOUND;
    const char *path = getenv("CLT_GPU_COUNT");
    FILE *file = path ? fopen(path, "re") : NULL;
    cl_uint left = UINT32_MAX, all = 0;
    if (file && fscanf(file, "%u", &left) != 1)
        left = UINT32_MAX;
    if (file)
        (void)fclose(file);
    room = room < left ? room : left;
    cl_int code = real(platform, type, devices ? room : 0, devices, &all);
    if (count)
        *count = all < left ? all : left;
    return code;
}

VISIBLE cl_int CL_API_CALL clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void *value,
                                           size_t *needed)
{
    cl_device_type gpu = CL_DEVICE_TYPE_GPU;
    char extensions[8192] = "cl_khr_pci_bus_info ";
    cl_uint place[4];
    size_t own = strlen(extensions);
    if (what == CL_DEVICE_TYPE)
        return answer(&gpu, sizeof gpu, size, value, needed);
    if (what == PCI_BUS_INFO)
        return place_of(device, place) == CL_SUCCESS ? answer(place, sizeof place, size, value, needed)
                                                     : CL_INVALID_VALUE;
    if (what != CL_DEVICE_EXTENSIONS)
        return REAL(clGetDeviceInfo)(device, what, size, value, needed);
    cl_int code = REAL(clGetDeviceInfo)(device, what, sizeof extensions - own, extensions + own, NULL);
    return code == CL_SUCCESS ? answer(extensions, strlen(extensions) + 1, size, value, needed) : code;
}
