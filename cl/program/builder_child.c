/* SPDX-License-Identifier: Apache-2.0
 *
 * The child's side of builders: builds the programs that the parent sends, and launches their kernels on its
 * own zeroed memory: one group of a small launch, or a large launch in full size with its bound set to 0.
 * Launches only make the driver compile: their results are ignored, and tile counters are set so that no
 * work remains. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cl/device/internal.h"
#include "cl/program/builders.h"
#include "cl/program/program_internal.h"
#include "engine/base/hash.h"
#include "engine/host/child.h"

#define NO_TILES_LEFT 0x40000000u
#define TILE_COUNTER_BYTES 64

typedef struct launch_memory {
    void *bytes[OCL_MAX_ARGS];
    uint64_t size[OCL_MAX_ARGS];
    cl_mem mem[OCL_MAX_ARGS];
    int count;
} launch_memory;

typedef struct server {
    ocl_device *device;
    ocl_program *program; /* NULL: the build failed, and its launches are skipped */
    cl_kernel kernel;     /* kernel of the launch that is being received, or NULL */
    cl_uint next;         /* index of its next argument */
    cl_uint dimensions;
    size_t global[3], local[3];
    launch_memory memory;
} server;

/* --- launches --- */

static void forget_launch(server *s)
{
    launch_memory *m = &s->memory;
    for (int i = 0; i < m->count; i++) {
        if (m->mem[i] != NULL)
            clReleaseMemObject(m->mem[i]);
        munmap(m->bytes[i], m->size[i]);
    }
    if (s->kernel != NULL)
        clReleaseKernel(s->kernel);
    memset(m, 0, sizeof *m);
    s->kernel = NULL;
}

/* Parses the fields of a launch line. False: they are malformed, which no parent sends. */
static bool begin_launch(server *s, char *fields)
{
    char name[128];
    size_t g[3];
    forget_launch(s);
    if (sscanf(fields, "%127s %u %zu %zu %zu %zu %zu %zu", name, &s->dimensions, &g[0], &g[1], &g[2],
               &s->local[0], &s->local[1], &s->local[2]) != 8 ||
        s->dimensions < 1 || s->dimensions > 3)
        return false;
    s->next = 0;
    bool large = false;
    for (unsigned i = 0; i < s->dimensions; i++)
        large = large || g[i] >= OCL_SMALL_LAUNCH;
    memcpy(s->global, large ? g : s->local, sizeof s->global);
    cl_int code;
    if (s->program != NULL)
        s->kernel = clCreateKernel(s->program->program, name, &code);
    return true;
}

/* Adds an argument in memory whose pages do not exist until they are touched. */
static bool add_memory(server *s, uint64_t size, uint32_t first_word)
{
    launch_memory *m = &s->memory;
    cl_int code;
    void *bytes =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == MAP_FAILED)
        return false;
    int i = m->count++;
    m->bytes[i] = bytes;
    m->size[i] = size;
    if (first_word != 0)
        memcpy(bytes, &first_word, sizeof first_word);
    m->mem[i] =
        clCreateBuffer(s->device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, size, bytes, &code);
    return m->mem[i] != NULL &&
           clSetKernelArg(s->kernel, s->next++, sizeof m->mem[i], &m->mem[i]) == CL_SUCCESS;
}

static bool set_tensor(server *s, uint64_t bytes)
{
    const cl_ulong start = 0;
    const cl_mem none = NULL;
    bool good = bytes > 0 ? add_memory(s, bytes, 0)
                          : clSetKernelArg(s->kernel, s->next++, sizeof none, &none) == CL_SUCCESS;
    return good && clSetKernelArg(s->kernel, s->next++, sizeof start, &start) == CL_SUCCESS;
}

/* Adds an argument. If that fails, the launch is skipped. */
static bool add_argument(server *s, char *fields)
{
    char kind[16];
    uint64_t value;
    bool good = true;
    if (sscanf(fields, "%15s %" SCNu64, kind, &value) != 2 || s->memory.count == OCL_MAX_ARGS)
        return false;
    if (s->kernel == NULL)
        return true;
    cl_uint word = (cl_uint)value;
    cl_ulong wide = value;
    if (strcmp(kind, "tensor") == 0 || strcmp(kind, "nothing") == 0)
        good = set_tensor(s, value);
    else if (strcmp(kind, "tile_counter") == 0)
        good = add_memory(s, TILE_COUNTER_BYTES, NO_TILES_LEFT);
    else if (strcmp(kind, "32") == 0)
        good = clSetKernelArg(s->kernel, s->next++, sizeof word, &word) == CL_SUCCESS;
    else if (strcmp(kind, "64") == 0)
        good = clSetKernelArg(s->kernel, s->next++, sizeof wide, &wide) == CL_SUCCESS;
    else
        good = clSetKernelArg(s->kernel, s->next++, (size_t)value, NULL) == CL_SUCCESS;
    if (!good)
        forget_launch(s);
    return true;
}

static void run_launch(server *s)
{
    cl_command_queue queue = s->device->queue[OCL_QUEUE_COMPUTE];
    if (s->kernel != NULL && clEnqueueNDRangeKernel(queue, s->kernel, s->dimensions, NULL, s->global,
                                                    s->local, 0, NULL, NULL) == CL_SUCCESS)
        clFinish(queue);
    forget_launch(s);
}

/* --- lines --- */

static clt_status build_program(server *s, char *fields)
{
    char *options = strchr(fields, '\t');
    if (options == NULL)
        CLT_FAIL(CLT_EUSAGE, "'%s' is not a program", fields);
    *options++ = '\0';
    s->program = NULL;
    clt_status status = ocl_program_try(s->device, fields, options, &s->program);
    if (status == CLT_OK)
        return clt_child_say("built");
    s->program = NULL;
    return clt_child_say("failed %s", clt_error_text());
}

static clt_status say_ready(const ocl_device *device)
{
    uint64_t key;
    char text[CLT_HASH64_TEXT];
    CLT_TRY(ocl_capabilities_key(&device->desc, OCL_STYLE_ASKED, &key));
    return clt_child_say("ready %s", clt_hash64_text(key, text));
}

static clt_status obey(server *s, char *line)
{
    char *fields = strchr(line, '\t');
    if (fields != NULL)
        *fields++ = '\0';
    if (strcmp(line, "program") == 0 && fields != NULL)
        return build_program(s, fields);
    if (strcmp(line, "end") == 0)
        return clt_child_say("done");
    bool good = true;
    if (strcmp(line, "launch") == 0 && fields != NULL)
        good = begin_launch(s, fields);
    else if (strcmp(line, "arg") == 0 && fields != NULL)
        good = add_argument(s, fields);
    else if (strcmp(line, "run") == 0)
        run_launch(s);
    else
        good = false;
    if (!good)
        CLT_FAIL(CLT_EUSAGE, "'%s' is not a request of a parent process", line);
    return CLT_OK;
}

clt_status ocl_builder_serve(ocl_device *device)
{
    server s = {.device = device};
    CLT_FREED char *line = NULL;
    size_t size = 0;
    /* self-tests may have left programs: they are built again, so that the cache gets them */
    ocl_programs_forget(device);
    ocl_binary_cache_open(device);
    ocl_binary_turns_close(device);
    clt_status status = say_ready(device);
    while (status == CLT_OK && getline(&line, &size, stdin) > 0) {
        line[strcspn(line, "\n")] = '\0';
        status = obey(&s, line);
    }
    forget_launch(&s);
    return status;
}
