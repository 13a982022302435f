/* SPDX-License-Identifier: Apache-2.0
 *
 * An OpenCL driver that simulates an NVIDIA device: clang compiles a program to PTX, and the executor
 * (ptx.h) runs it on the host. It is loaded by an ICD file like every driver, so that the engine, its
 * checker and its tests use it with the options, sizes and arguments that they would use on the device.
 * Commands run when they are enqueued, which waits for the user events in their lists. Environment variables:
 *   CLTRAIN_PTX_CLANG     the compiler (a clang with an NVPTX target)
 *   CLTRAIN_PTX_NVIDIA    instead of clang: the folder of libnvidia-nvvm.so.4 and libnvidia-ptxjitcompiler.so.1;
 *                         the assembler's report is in the log of programs built with -cl-nv-verbose
 *   CLTRAIN_PTX_BUILTINS  the bitcode of builtins.cl
 *   CLTRAIN_PTX_SM        generation: 70, 75, 80 (the default), 86, 89 or 90
 *   CLTRAIN_PTX_PLAY      h100: the device calls itself an H100 under a driver of series 580, has its memory,
 *                         and fails as such a driver does: a kernel that breaks a rule and every later event
 *                         end with NVIDIA's own code, and later kernels, transfers, contexts and builds are
 *                         refused until the process ends
 *   CLTRAIN_PTX_LOCAL     bytes of local memory that the device announces and programs may use (49152)
 *   CLTRAIN_PTX_LOCAL_ARRAY  bytes that arrays in local memory may have instead, as with some assemblers, in
 *                         programs for other targets than sm_90a
 *   CLTRAIN_PTX_LOCAL_90A  bytes that programs for sm_90a may use instead, as with some assemblers
 *   CLTRAIN_PTX_LOCAL_ARGUMENT  bytes that a kernel with local memory as an argument may have in all; with
 *                         more its launch is refused (as many as CLTRAIN_PTX_LOCAL)
 *   CLTRAIN_PTX_CACHE     a folder that keeps compiled programs
 *   CLTRAIN_PTX_REPORT    a file to which every violated rule is appended, one per line
 *   CLTRAIN_PTX_COUNTS    a file to which the counters of every launch are appended
 *   CLTRAIN_PTX_RESOURCES  a file to which a line is appended for every program that NVIDIA's assembler
 *                         takes: its first kernel, registers, spilled bytes, options
 *   CLTRAIN_PTX_LISTING   a file to which the counters of every instruction of every launch are appended
 *   CLTRAIN_PTX_SEED      the seed for the order of warps and groups, and for the times at which
 *                         asynchronous copies complete
 *   CLTRAIN_PTX_POISON    a word (0x...) that no kernel may read from global memory: the checker's pattern
 *   CLTRAIN_PTX_REFUSE    what goes wrong with programs for sm_90a. create, build, launch: the driver
 *                         refuses this call; abort, hang: its compiler aborts or hangs; large: it refuses to
 *                         build programs with more than 48 KiB of local memory; memory, resources: creating
 *                         a program fails for lack of host memory or of resources of the device
 *   CLTRAIN_PTX_NUL       whether a program's binary must end with a zero byte: required, refused, or any
 *                         (then the driver returns one) */
#ifndef TESTS_PTX_DRIVER_H
#define TESTS_PTX_DRIVER_H

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <pthread.h>

#include "tests/ptx/ptx.h"

/* The members with which every OpenCL object begins. */
#define PTX_OBJECT                                                                                           \
    const cl_icd_dispatch *dispatch;                                                                         \
    cl_uint references

struct _cl_platform_id {
    const cl_icd_dispatch *dispatch;
};
struct _cl_device_id {
    const cl_icd_dispatch *dispatch;
};
struct _cl_context {
    PTX_OBJECT;
};
struct _cl_command_queue {
    PTX_OBJECT;
    cl_context context;
};
struct _cl_mem {
    PTX_OBJECT;
    uint32_t number; /* of the executor's buffer */
    uint8_t *data;
    size_t bytes;
    bool owned;
};
struct _cl_program {
    PTX_OBJECT;
    char *source, *binary; /* the one that the program was made from */
    char *ptx, *log, *options;
    cl_build_status status;
    ptx_module module;
};
struct _cl_kernel {
    PTX_OBJECT;
    cl_program program;
    ptx_kernel *code;
    uint8_t *params;
    uint32_t *shared; /* bytes of each __local parameter */
    bool *is_set;
};
struct _cl_event {
    PTX_OBJECT;
    cl_command_type type;
    cl_command_queue queue; /* NULL: a user event */
    cl_context context;
    cl_int status; /* CL_COMPLETE, or why the command failed; CL_SUBMITTED: a user event that has not ended */
    cl_ulong start, end;
};

extern cl_icd_dispatch ptx_dispatch;
extern pthread_mutex_t ptx_lock; /* guards all commands, which run one at a time, and all reference counts */

const char *ptx_setting(const char *name, const char *otherwise);
unsigned ptx_generation(void);
/* Whether the device reports that it is a real card (CLTRAIN_PTX_PLAY). */
bool ptx_is_card(void);
/* CL_SUCCESS, or the code with which every command is refused after a kernel of a card has failed. */
cl_int ptx_lasting_failure(void);
uint32_t ptx_local_memory(void);
uint32_t ptx_local_array(void);
uint32_t ptx_local_memory_90a(void);
uint32_t ptx_local_argument(void);
/* Whether CLTRAIN_PTX_REFUSE contains `what`. */
bool ptx_refuses(const char *what);
/* A copy of a value for clGet...Info. */
cl_int ptx_answer(const void *value, size_t bytes, size_t size, void *out, size_t *needed);

/* --- memory: driver_memory.c --- */

ptx_buffer *ptx_buffers(size_t *count);

/* --- programs: driver_program.c --- */

/* True: *ptx is the program's PTX, and *log the compiler's messages; free() both. */
bool ptx_compile(const char *source, const char *options, char **ptx, char **log);

/* --- NVIDIA's compiler and assembler: driver_nvidia.c --- */

/* Whether NVIDIA's compiler is used instead of clang. */
bool ptx_nvidia(void);
/* As ptx_compile. */
bool ptx_nvidia_compile(const char *source, const char *options, char **ptx, char **log);
/* True: the assembler accepts the PTX for this device. *log: its messages, or NULL; free() it. */
bool ptx_nvidia_assemble(const char *ptx, bool verbose, char **log);

/* --- commands: driver_command.c --- */

cl_ulong ptx_now(void);
/* Waits until all `n` events have ended. */
void ptx_await(cl_uint n, const cl_event *events);
void ptx_event(cl_command_queue queue, cl_command_type type, cl_ulong start, cl_event *out);

/* The entries of the dispatch table; each file sets the entries of its functions. */
void ptx_platform_entries(cl_icd_dispatch *d);
void ptx_memory_entries(cl_icd_dispatch *d);
void ptx_program_entries(cl_icd_dispatch *d);
void ptx_command_entries(cl_icd_dispatch *d);

#endif
