/* SPDX-License-Identifier: Apache-2.0
 *
 * Repairs Oclgrind's record of initialised memory, in a program that knows nothing of it: loaded with
 * LD_PRELOAD before Oclgrind's own library. With every store by the host (a write, a copy, a fill) Oclgrind
 * 21.10 resets that record for a whole buffer of the size of what is stored, so memory behind it counts as
 * uninitialised from then on, whatever kernels write there. Here every such store is replaced by one of the
 * whole buffer that keeps the other bytes, and a new buffer is stored to once. So buffers count as
 * initialised from the start; what Oclgrind can still find are uninitialised values in private and local
 * memory, races, and accesses out of bounds.
 *
 * It also repairs how Oclgrind 21.10 handles the instruction shufflevector if it was built with LLVM 11 or
 * newer (as in Debian 12). An undefined lane of the mask is -1 there, but Oclgrind compares with the constant
 * llvm::Value::UndefValueVal, 11, which was in the mask before LLVM 11. So lane 11 of a vector of 16 counts
 * as uninitialised, and -1 is used as an index: the record of initialised values is read 4 GiB behind that of
 * a vector, which crashes unless memory is mapped there. If that comparison is found exactly once, its 11 is
 * replaced by -1. This file must not use anything of the engine. */
#include <CL/cl.h>

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXECUTED                                                                                             \
    "_ZN8oclgrind13Uninitialized19instructionExecutedEPKNS_8WorkItemEPKN4llvm11InstructionERKNS_"            \
    "10TypedValueE"
#define UNDEF_VALUE_VAL 11

/* Whether this is "cmp $11, %register; je or jne" with 32 bits, in x86 machine code. */
static int compares_with_undef(const unsigned char *code)
{
    return code[0] == 0x83 && code[1] >= 0xf8 && code[2] == UNDEF_VALUE_VAL &&
           ((code[3] & 0xfe) == 0x74 || (code[3] == 0x0f && (code[4] & 0xfe) == 0x84));
}

static __attribute__((constructor)) void repair_shuffles(void)
{
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    unsigned char *code = dlsym(RTLD_DEFAULT, EXECUTED), *found = NULL;
    if (code == NULL || dladdr1(code, &info, (void **)&symbol, RTLD_DL_SYMENT) == 0 || symbol == NULL)
        return;
    for (size_t i = 0; i + 5 <= symbol->st_size; i++) {
        if (!compares_with_undef(code + i))
            continue;
        if (found != NULL)
            return; /* several candidates: the right one is unknown */
        found = code + i;
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *start = (void *)((uintptr_t)found & ~(page - 1));
    if (found == NULL || mprotect(start, 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        return;
    found[2] = 0xff; /* -1 as a signed byte */
    (void)mprotect(start, 2 * page, PROT_READ | PROT_EXEC);
}

/* The original functions. */
#define REAL(name) ((__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name))

static cl_int write_whole(cl_command_queue queue, cl_mem mem, size_t bytes, const void *data)
{
    return REAL(clEnqueueWriteBuffer)(queue, mem, CL_TRUE, 0, bytes, data, 0, NULL, NULL);
}

/* Stores the whole buffer, with `bytes` new bytes at `offset`. Blocking is no problem: commands run inside
 * blocking calls anyway. */
static cl_int store(cl_command_queue queue, cl_mem mem, size_t offset, const void *data, size_t bytes,
                    cl_event *done)
{
    size_t all = 0;
    cl_int code = clGetMemObjectInfo(mem, CL_MEM_SIZE, sizeof all, &all, NULL);
    if (code != CL_SUCCESS || offset > all || bytes > all - offset)
        return CL_INVALID_VALUE;
    char *whole = malloc(all);
    if (whole == NULL)
        return CL_OUT_OF_HOST_MEMORY;
    code = clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, all, whole, 0, NULL, NULL);
    memcpy(whole + offset, data, bytes);
    if (code == CL_SUCCESS)
        code = write_whole(queue, mem, all, whole);
    free(whole);
    return code == CL_SUCCESS && done != NULL ? clEnqueueMarkerWithWaitList(queue, 0, NULL, done) : code;
}

static cl_int settle(cl_command_queue queue, cl_uint n, const cl_event *before)
{
    cl_int code = n > 0 ? clWaitForEvents(n, before) : CL_SUCCESS;
    return code == CL_SUCCESS ? clFinish(queue) : code;
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem mem, cl_bool blocking, size_t offset, size_t bytes,
                            const void *data, cl_uint n, const cl_event *before, cl_event *done)
{
    (void)blocking;
    cl_int code = settle(queue, n, before);
    return code == CL_SUCCESS ? store(queue, mem, offset, data, bytes, done) : code;
}

cl_int clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset,
                           size_t to_offset, size_t bytes, cl_uint n, const cl_event *before, cl_event *done)
{
    char *data = malloc(bytes + 1);
    cl_int code = data != NULL ? settle(queue, n, before) : CL_OUT_OF_HOST_MEMORY;
    if (code == CL_SUCCESS)
        code = clEnqueueReadBuffer(queue, from, CL_TRUE, from_offset, bytes, data, 0, NULL, NULL);
    if (code == CL_SUCCESS)
        code = store(queue, to, to_offset, data, bytes, done);
    free(data);
    return code;
}

cl_int clEnqueueFillBuffer(cl_command_queue queue, cl_mem mem, const void *pattern, size_t pattern_bytes,
                           size_t offset, size_t bytes, cl_uint n, const cl_event *before, cl_event *done)
{
    char *data = malloc(bytes + 1);
    cl_int code = data != NULL ? settle(queue, n, before) : CL_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; code == CL_SUCCESS && i < bytes; i++)
        data[i] = ((const char *)pattern)[i % pattern_bytes];
    if (code == CL_SUCCESS)
        code = store(queue, mem, offset, data, bytes, done);
    free(data);
    return code;
}

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host, cl_int *code)
{
    cl_mem mem = REAL(clCreateBuffer)(context, flags, bytes, host, code);
    cl_device_id device = NULL;
    if (mem == NULL ||
        clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof device, &device, NULL) != CL_SUCCESS)
        return mem;
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, NULL);
    char *data = calloc(bytes, 1);
    if (data != NULL && host != NULL)
        memcpy(data, host, bytes);
    if (data != NULL && queue != NULL)
        (void)write_whole(queue, mem, bytes, data);
    free(data);
    if (queue != NULL)
        clReleaseCommandQueue(queue);
    return mem;
}
