/* SPDX-License-Identifier: Apache-2.0
 *
 * An OpenCL driver that simulates an NVIDIA device: clang compiles a program to PTX, and the executor
 * (ptx.h) runs it on the host. It is loaded through an ICD file like every driver, so that the engine, its
 * checker and its tests use it with the options, sizes and arguments that they would use on the device. A
 * command runs when it is enqueued; enqueueing waits for the user events in the command's wait list.
 * Environment variables:
 *   CLTRAIN_PTX_CLANG     the compiler (a clang with an NVPTX target)
 *   CLTRAIN_PTX_NVIDIA    the folder of libnvidia-nvvm.so.4 and libnvidia-ptxjitcompiler.so.1, which are
 *                         used instead of clang; the assembler's report is in the log of programs built with
 *                         -cl-nv-verbose
 *   CLTRAIN_PTX_BUILTINS  the bitcode of builtins.cl
 *   CLTRAIN_PTX_SM        generation: 70, 75, 80 (the default), 86, 89 or 90
 *   CLTRAIN_PTX_PLAY      h100: the device calls itself an H100 with a driver of series 580, has the memory
 *                         of an H100, and fails as such a driver does: a kernel that breaks a rule and every
 *                         later event end with NVIDIA's own error code, and later kernels, transfers,
 *                         contexts and builds are refused until the process ends
 *   CLTRAIN_PTX_LOCAL     bytes of local memory that the device announces and programs may use (49152)
 *   CLTRAIN_PTX_LOCAL_ARRAY  bytes that arrays in local memory may have in programs for targets other than
 *                         sm_90a, as with some assemblers (CLTRAIN_PTX_LOCAL)
 *   CLTRAIN_PTX_LOCAL_90A  bytes of local memory that programs for sm_90a may use, as with some assemblers
 *                          (CLTRAIN_PTX_LOCAL)
 *   CLTRAIN_PTX_LOCAL_ARGUMENT  bytes of local memory, in all, of a kernel with a __local argument; with
 *                         more its launch is refused (CLTRAIN_PTX_LOCAL)
 *   CLTRAIN_PTX_CACHE     a folder that keeps compiled programs
 *   CLTRAIN_PTX_REPORT    a file to which every violated rule is appended, one per line
 *   CLTRAIN_PTX_COUNTS    a file to which the counters of every launch are appended
 *   CLTRAIN_PTX_RESOURCES a file to which a line is appended for every program that NVIDIA's assembler
 *                         accepts: its first kernel, registers, spilled bytes, options
 *   CLTRAIN_PTX_LISTING   a file to which the counters of every instruction of every launch are appended
 *   CLTRAIN_PTX_SEED      the seed for the order of warps and groups, and for the times at which
 *                         asynchronous copies complete
 *   CLTRAIN_PTX_POISON    a word (0x...) that no kernel may read from global memory: the checker's pattern
 *   CLTRAIN_PTX_REFUSE    the fault to simulate with programs for sm_90a. create, build, launch: the driver
 *                         refuses this call; abort, hang: the compiler aborts or hangs; large: the driver
 *                         refuses to build programs with more than 48 KiB of local memory; memory,
 *                         resources: creating a program fails for lack of host memory or of device resources
 *   CLTRAIN_PTX_NUL       required, refused or any: whether a program's binary must end with a zero byte
 *                         (any: the driver returns one) */
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
    uint32_t number; /* number of the executor's buffer */
    uint8_t *data;
    size_t bytes;
    bool owned;
};
struct _cl_program {
    PTX_OBJECT;
    char *source, *binary; /* the source or the binary that the program was made from */
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
/* True if the device presents itself as a real card (CLTRAIN_PTX_PLAY). */
bool ptx_is_card(void);
/* CL_SUCCESS, or the code with which every command is refused after a kernel has failed on a device that
 * plays a card. */
cl_int ptx_lasting_failure(void);
uint32_t ptx_local_memory(void);
uint32_t ptx_local_array(void);
uint32_t ptx_local_memory_90a(void);
uint32_t ptx_local_argument(void);
/* True if CLTRAIN_PTX_REFUSE contains `what`. */
bool ptx_refuses(const char *what);
/* Copies a value to the caller's memory, as clGet...Info functions do. */
cl_int ptx_answer(const void *value, size_t bytes, size_t size, void *out, size_t *needed);

/* --- memory: driver_memory.c --- */

ptx_buffer *ptx_buffers(size_t *count);

/* --- programs: driver_program.c --- */

/* True: *ptx is the program's PTX, and *log the compiler's messages; free() both. */
bool ptx_compile(const char *source, const char *options, char **ptx, char **log);

/* --- NVIDIA's compiler and assembler: driver_nvidia.c --- */

/* True if NVIDIA's compiler is used instead of clang. */
bool ptx_nvidia(void);
/* Like ptx_compile, with NVIDIA's compiler. */
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
