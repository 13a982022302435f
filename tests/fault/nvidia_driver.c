/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulates NVIDIA's OpenCL library or, built with SIBLING, one of the libraries that it opens by name. It
 * offers PoCL's platform if libcuda.so.1 can be opened by that name and has the same version, according to
 * the names of the files; with SIMULATED_NEEDS_ALL the compiler and the assembler must be there, too. */
#include <CL/cl.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define VISIBLE __attribute__((visibility("default")))

#ifdef SIBLING
VISIBLE int simulated_sibling;
VISIBLE int simulated_sibling = 1;
#else
static void *pocl(const char *name)
{
    void *library = dlopen("libpocl.so.2", RTLD_NOW | RTLD_LOCAL);
    return library != NULL ? dlsym(library, name) : NULL;
}

/* The end of a file's name: "580.1.2" for libcuda.so.580.1.2. */
static const char *version_of(void *symbol, char real[PATH_MAX])
{
    Dl_info info;
    if (symbol == NULL || dladdr(symbol, &info) == 0 || realpath(info.dli_fname, real) == NULL)
        return "";
    const char *ending = strstr(real, ".so.");
    return ending != NULL ? ending : "";
}

static int fits(const char *name)
{
    char own[PATH_MAX], other[PATH_MAX];
    void *sibling = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    return sibling != NULL && strcmp(version_of((void *)(uintptr_t)version_of, own),
                                     version_of(dlsym(sibling, "simulated_sibling"), other)) == 0;
}

static int works(void)
{
    return fits("libcuda.so.1") && (getenv("SIMULATED_NEEDS_ALL") == NULL ||
                                    (fits("libnvidia-nvvm.so.4") && fits("libnvidia-ptxjitcompiler.so.1")));
}

typedef cl_int (*list_fn)(cl_uint, cl_platform_id *, cl_uint *);
typedef void *(*address_fn)(const char *);
typedef cl_int (*info_fn)(cl_platform_id, cl_platform_info, size_t, void *, size_t *);

static cl_int list(cl_uint size, cl_platform_id *platforms, cl_uint *count)
{
    address_fn address = (address_fn)(uintptr_t)pocl("clGetExtensionFunctionAddress");
    list_fn real = works() && address != NULL ? (list_fn)(uintptr_t)address("clIcdGetPlatformIDsKHR") : NULL;
    return real != NULL ? real(size, platforms, count) : -1001;
}

VISIBLE cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info name, size_t size, void *value,
                                 size_t *needed)
{
    info_fn real = (info_fn)(uintptr_t)pocl("clGetPlatformInfo");
    return real != NULL ? real(platform, name, size, value, needed) : CL_INVALID_PLATFORM;
}

VISIBLE void *clGetExtensionFunctionAddress(const char *name)
{
    address_fn real = (address_fn)(uintptr_t)pocl("clGetExtensionFunctionAddress");
    if (strcmp(name, "clIcdGetPlatformIDsKHR") == 0)
        return (void *)(uintptr_t)list;
    return real != NULL ? real(name) : NULL;
}
#endif
