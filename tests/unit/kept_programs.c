/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests that open the device again and again with the same few programs: all openings share one
 * context, and a program is built once in a process. Even from PoCL's cache a build costs 30 ms each time,
 * since PoCL first reads its header of 895 KB: up to a quarter of such a test's time. Tests link this file
 * with --wrap for the functions below (tests/CMakeLists.txt), except tests of programs and devices. */
#include "cl/program/program_internal.h"

#include "engine/base/thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct kept {
    cl_context context;
    char *source, *options;
    cl_program program;
    struct kept *next;
} kept;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kept *first;
static struct {
    cl_device_id device;
    cl_context context;
} contexts[16];

cl_context __real_clCreateContext(const cl_context_properties *properties, cl_uint count,
                                  const cl_device_id *devices,
                                  void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
                                  void *user, cl_int *code);
cl_context __wrap_clCreateContext(const cl_context_properties *properties, cl_uint count,
                                  const cl_device_id *devices,
                                  void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
                                  void *user, cl_int *code);
cl_program __real_ocl_binary_load(ocl_device *device, const char *source, const char *options);
cl_program __wrap_ocl_binary_load(ocl_device *device, const char *source, const char *options);
bool __real_ocl_binary_known(const ocl_device *device, const char *source, const char *options,
                             uint64_t *hash);
bool __wrap_ocl_binary_known(const ocl_device *device, const char *source, const char *options,
                             uint64_t *hash);
void __real_ocl_binary_store(ocl_device *device, const char *source, const char *options, cl_program program);
void __wrap_ocl_binary_store(ocl_device *device, const char *source, const char *options, cl_program program);

cl_context __wrap_clCreateContext(const cl_context_properties *properties, cl_uint count,
                                  const cl_device_id *devices,
                                  void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
                                  void *user, cl_int *code)
{
    CLT_LOCKED(&lock);
    size_t i = 0;
    while (i < sizeof contexts / sizeof contexts[0] && contexts[i].context &&
           contexts[i].device != devices[0])
        i++;
    if (count != 1 || notify || i == sizeof contexts / sizeof contexts[0])
        return __real_clCreateContext(properties, count, devices, notify, user, code);
    if (!contexts[i].context) {
        contexts[i].device = devices[0];
        contexts[i].context = __real_clCreateContext(properties, count, devices, notify, user, code);
        if (!contexts[i].context)
            return NULL;
    }
    *code = clRetainContext(contexts[i].context);
    return contexts[i].context;
}

/* Called with the lock held. */
static cl_program find(const ocl_device *device, const char *source, const char *options)
{
    for (kept *k = first; k; k = k->next)
        if (k->context == device->context && strcmp(k->options, options) == 0 &&
            strcmp(k->source, source) == 0)
            return k->program;
    return NULL;
}

cl_program __wrap_ocl_binary_load(ocl_device *device, const char *source, const char *options)
{
    pthread_mutex_lock(&lock);
    cl_program program = find(device, source, options);
    if (program && clRetainProgram(program) != CL_SUCCESS)
        abort();
    pthread_mutex_unlock(&lock);
    return program ? program : __real_ocl_binary_load(device, source, options);
}

bool __wrap_ocl_binary_known(const ocl_device *device, const char *source, const char *options,
                             uint64_t *hash)
{
    bool known = __real_ocl_binary_known(device, source, options, hash);
    CLT_LOCKED(&lock);
    return known || find(device, source, options);
}

void __wrap_ocl_binary_store(ocl_device *device, const char *source, const char *options, cl_program program)
{
    __real_ocl_binary_store(device, source, options, program);
    CLT_LOCKED(&lock);
    kept *k = malloc(sizeof *k);
    if (!k || clRetainProgram(program) != CL_SUCCESS)
        abort();
    *k = (kept){device->context, strdup(source), strdup(options), program, first};
    if (!k->source || !k->options)
        abort();
    first = k;
}
