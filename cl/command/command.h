/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands as data. A phase of a plan is a flat list of them: kernel, library GEMM, copy, fill, host call
 * (communication). Emitting needs no device; an executor (cl/exec/exec.h) later builds programs, resolves
 * tensors and binds arguments. Tensors are plain numbers here, whose meaning only the owner of the list
 * knows. */
#ifndef CL_COMMAND_COMMAND_H
#define CL_COMMAND_COMMAND_H

#include "cl/device/device.h"
#include "engine/base/dtype.h"
#include "engine/base/scope.h"

#define OCL_NO_TENSOR_ID (-1)

typedef struct ocl_tensor_ref {
    int32_t tensor;  /* id in the owner's table, or OCL_NO_TENSOR_ID */
    uint64_t offset; /* bytes from the tensor's start */
} ocl_tensor_ref;

static inline ocl_tensor_ref ocl_ref(int32_t tensor)
{
    ocl_tensor_ref ref = {tensor, 0};
    return ref;
}
#define OCL_NO_TENSOR ocl_ref(OCL_NO_TENSOR_ID)

typedef enum ocl_access { OCL_READ = 1, OCL_WRITE = 2, OCL_READ_WRITE = 3 } ocl_access;

typedef enum ocl_arg_kind {
    OCL_ARG_TENSOR, /* two kernel arguments: __global buffer, ulong offset in ELEMENTS of the tensor's type */
    OCL_ARG_I32,
    OCL_ARG_U32,
    OCL_ARG_U64,
    OCL_ARG_F32,
    OCL_ARG_LOCAL, /* u64 bytes of local memory */
    /* __global uint *: two counters that are zero when the kernel starts; the kernel itself resets them at
     * its end */
    OCL_ARG_TILE_COUNTER
} ocl_arg_kind;

typedef struct ocl_arg {
    ocl_arg_kind kind;
    ocl_access access;      /* TENSOR */
    ocl_tensor_ref ref;     /* TENSOR */
    uint32_t element_bytes; /* TENSOR: unit of the offset argument */
    uint64_t bytes;         /* TENSOR: bytes read or written (0: unknown, so the whole tensor is counted) */
    bool bound;             /* U32, U64: ocl_arg_is_bound */
    union {
        int32_t i32;
        uint32_t u32;
        uint64_t u64;
        float f32;
    } value;
} ocl_arg;

typedef enum ocl_command_kind {
    OCL_CMD_KERNEL,
    /* library call (CLBlast); counted separately, because the library itself sets arguments and allocates
     * memory */
    OCL_CMD_GEMM,
    OCL_CMD_COPY, /* args[0] written, args[1] read, args[0].bytes bytes */
    OCL_CMD_FILL, /* args[0] filled with the 32-bit pattern value.u32 over args[0].bytes bytes */
    OCL_CMD_HOST  /* calls back into the owner (communication); args list the tensors it reads and writes */
} ocl_command_kind;

/* Largest number of arguments of a command; the emitter refuses more. Products of windows with every operand
 * of an epilogue have the most, 40 (test_cl_gemm_forms). */
#define OCL_MAX_ARGS 44

/* Largest number of work-groups of a launch in its first dimension, and in each of the others: the limits of
 * NVIDIA's drivers (CUDA C++ Programming Guide, compute capabilities). The emitter refuses more for every
 * device, so a plan that was tested on one device runs on the others. */
#define OCL_MAX_GROUPS_X 2147483647u
#define OCL_MAX_GROUPS_YZ 65535u

struct ocl_buffer;
struct ocl_device;
struct ocl_event;
struct ocl_gemm;
struct ocl_variant;

/* A library that computes matrix products by its own calls. Each call is prepared once, when the executor is
 * created and the operands' buffers are known, so that nothing is built in a step. */
typedef struct ocl_library {
    const char *name;
    /* Matrix i of a, b, c begins at byte `offset[i]` of buffer `operand[i]`; the buffers outlive the
     * call. */
    clt_status (*prepare)(struct ocl_device *device, const struct ocl_gemm *gemm,
                          struct ocl_buffer *const operand[3], const uint64_t offset[3], void **call);
    /* Enqueues the call on the compute queue. *done gets an event that completes at its end; done may be
     * NULL. */
    clt_status (*run)(void *call, struct ocl_event **done);
    void (*release)(void *call); /* call may be NULL */
} ocl_library;

typedef struct ocl_command {
    ocl_command_kind kind;
    const char *label;   /* what it computes: "fc1.forward" (owner's arena) */
    const char *layer;   /* the model's layers that it computes, "fc1+act1" (owner's arena), or "" */
    const char *variant; /* name of the variant that emitted it, or "" */
    /* The next three are for planning again if a driver refuses the command (cl/command/fallback.h). */
    const struct ocl_variant *made_by; /* NULL: no variant */
    const char *form;                  /* its tile, for a matrix product; NULL: none */
    uint32_t needs;                    /* capabilities because of which this command was chosen */
    int32_t node;                      /* owner's op id; -1: none */
    const char *family;                /* KERNEL: source file without ".cl": "elementwise" */
    const char *kernel;                /* KERNEL: function name */
    const char *options;               /* KERNEL: "-DA=1 -DB=2" in emission order; part of the program key */
    int n_args;
    ocl_arg args[OCL_MAX_ARGS];
    uint32_t work_dim;
    size_t global[3], local[3]; /* never 0: the driver does not choose the group size */
    bool free_local;            /* 1D: local[0] may be halved, because the result does not depend on it */
    struct ocl_gemm *gemm;      /* GEMM (list's arena) */
    const ocl_library *library; /* GEMM: the library that computes it; NULL: this build has none */
    int32_t host_code;          /* HOST: passed to the callback */
    bool host_waits;            /* HOST: makes the device wait for something, such as other ranks */
    uint32_t derives; /* the owner's bits (ocl_derivation); 0: the command runs in every run of its list */
    double flops;     /* floating point operations, for reports */
} ocl_command;

/* A list owns its commands and their strings. */
typedef struct ocl_command_list {
    clt_arena *arena; /* borrowed from the owner */
    ocl_command *commands;
    size_t count, capacity;
} ocl_command_list;
void ocl_command_list_free(ocl_command_list *list); /* frees the array, not the arena */
CLT_SCOPED_VALUE(ocl_command_list, ocl_command_list_free)

/* A derived tensor: a function of one other tensor, `source`, and of nothing else. The owner may keep it
 * while the source does not change; its commands, marked by `derives`, are then skipped in later runs
 * (ocl_exec_run_without). */
typedef struct ocl_derivation {
    int32_t source;
    const char *form; /* names the function; equal `form` and `source` mean the same tensor */
    clt_dtype dtype;
    uint64_t elements;
    const char *name;
    uint64_t bytes; /* bytes that its commands read and write */
    double flops;   /* operations of the work that reads it in one run: decide whether keeping it pays */
} ocl_derivation;
typedef struct ocl_derived {
    int32_t tensor; /* OCL_NO_TENSOR_ID: it is not kept */
    bool there;     /* earlier commands already compute it */
    uint32_t derives;
} ocl_derived;

/* Emitter: the object to which ops and GEMM backends write commands. Errors are sticky: the first one is
 * kept in `status` (with its message) and returned by ocl_emit_status, so that emitting code needs no checks
 * in between. */
typedef struct ocl_emitter {
    ocl_command_list *list;
    const ocl_device_desc *device;
    const char *label; /* copied into every command, as `layer` is (NULL: none) */
    const char *layer;
    const char *variant;
    const struct ocl_variant *made_by; /* the variant named `variant`, or NULL */
    const char *form;
    int32_t node;
    clt_status status;
    clt_error error;
    /* Allocates scratch memory, which lives from its first to its last use; returns a tensor id. */
    int32_t (*workspace)(void *owner, clt_dtype dtype, uint64_t elements, const char *name);
    void *owner;
    /* Decides whether a derived tensor is kept. NULL: none is kept. */
    clt_status (*derive)(void *deriver, const ocl_derivation *derivation, ocl_derived *out);
    void *deriver;
    uint32_t derives; /* copied into every command */
    bool tf32;        /* all f32 products may use tf32 (cl/gemm/gemm.h) */
    /* Tuning (cl/tune/tuning.h); each may be NULL. */
    const struct ocl_choice *record; /* the tuning record for the problem that is being emitted */
    /* collects the tunables that ocl_tuned is called for, with the values that it returns */
    struct ocl_choice *asked;
    struct ocl_tuning_log *log; /* collects every problem of a tunable family */
    /* the kernel command that is being built */
    ocl_command *open;
    clt_str options;
} ocl_emitter;

/* Kernel commands: begin, defines and arguments in the order of the kernel's parameters, end.
 *   ocl_kernel_begin(e, "softmax", "softmax_fwd_row");
 *   ocl_define(e, "DTYPE_F32", 1);
 *   ocl_arg_out(e, y, CLT_F32, elements); ocl_arg_in(e, x, CLT_F32, elements); ocl_arg_u32(e, rows); ...
 *   ocl_kernel_end_1d(e, global, local, flops); */
void ocl_kernel_begin(ocl_emitter *e, const char *family, const char *kernel);
void ocl_define(ocl_emitter *e, const char *name, int64_t value);
void ocl_define_text(ocl_emitter *e, const char *name, const char *value);
/* Adds an option "-cl-..." that clBuildProgram itself knows. */
void ocl_build_option(ocl_emitter *e, const char *option);
/* A tensor argument. The kernel accesses `elements` elements of `dtype` (for byte counts).
 * ref.offset is in bytes and a multiple of the element size; the kernel gets (__global T *buffer, ulong
 * offset_in_elements). */
void ocl_arg_tensor(ocl_emitter *e, ocl_access access, ocl_tensor_ref ref, clt_dtype dtype,
                    uint64_t elements);
void ocl_arg_in(ocl_emitter *e, int32_t tensor, clt_dtype dtype, uint64_t elements);
void ocl_arg_out(ocl_emitter *e, int32_t tensor, clt_dtype dtype, uint64_t elements);
void ocl_arg_inout(ocl_emitter *e, int32_t tensor, clt_dtype dtype, uint64_t elements);
/* Adds an output that the kernel overwrites (accumulate false) or adds to (true). The flag is passed as the
 * next argument, an int. */
void ocl_arg_grad(ocl_emitter *e, int32_t tensor, clt_dtype dtype, uint64_t elements, bool accumulate);
void ocl_arg_grad_part(ocl_emitter *e, ocl_tensor_ref ref, clt_dtype dtype, uint64_t elements,
                       bool accumulate);
void ocl_arg_i32(ocl_emitter *e, int32_t value);
void ocl_arg_u32(ocl_emitter *e, uint32_t value);
void ocl_arg_u64(ocl_emitter *e, uint64_t value);
/* Marks the last emitted argument as the bound of the work: if it is 0, every work-item returns immediately
 * without memory accesses. A child process that only needs the kernel compiled launches it at full size with
 * bound 0. */
void ocl_arg_is_bound(ocl_emitter *e);
void ocl_arg_f32(ocl_emitter *e, float value);
void ocl_arg_local(ocl_emitter *e, uint64_t bytes);
void ocl_arg_tile_counter(ocl_emitter *e); /* cl/kernels/tile_counter.clh */
/* Records that the open kernel was chosen because the device has these capabilities. The needs of its
 * variant, and of groups of more than 64 items, are recorded automatically. */
void ocl_kernel_needs(ocl_emitter *e, uint32_t caps);
/* Ends a kernel whose work-items are independent of their group: global is rounded up to a multiple of
 * `local`, which becomes smaller if the device allows no larger groups for this kernel; local 0: a standard
 * size for the device. Kernels guard against items beyond the end. The group size is never left to the
 * driver, because several drivers choose groups of one item for sizes without small factors. */
void ocl_kernel_end_items(ocl_emitter *e, uint64_t global, uint64_t local, double flops);
/* Ends a kernel with groups of exactly `local` items (0: as ocl_kernel_end_items); global is rounded up to a
 * multiple of `local`. */
void ocl_kernel_end_1d(ocl_emitter *e, uint64_t global, uint64_t local, double flops);
void ocl_kernel_end_2d(ocl_emitter *e, uint64_t gx, uint64_t gy, uint64_t lx, uint64_t ly, double flops);
void ocl_kernel_end_3d(ocl_emitter *e, const uint64_t global[3], const uint64_t local[3], double flops);

void ocl_emit_copy(ocl_emitter *e, ocl_tensor_ref dst, ocl_tensor_ref src, uint64_t bytes);
void ocl_emit_fill(ocl_emitter *e, ocl_tensor_ref dst, uint64_t bytes, uint32_t pattern);
/* How a command accesses a part of a tensor. */
typedef struct ocl_span_use {
    ocl_access access;
    ocl_tensor_ref ref;
    uint32_t element_bytes;
    uint64_t bytes;
} ocl_span_use;
/* Emits a product that a library computes (ocl_emit_library_gemm of cl/gemm/gemm.h). Copies the `size`
 * bytes of `gemm`. use: how c, a and b are accessed, in this order. */
void ocl_emit_library(ocl_emitter *e, const ocl_library *library, const struct ocl_gemm *gemm, size_t size,
                      double flops, const ocl_span_use use[3]);
/* Tensors that the host code reads or writes are added by ocl_arg_tensor between ocl_host_begin and
 * ocl_host_end. */
void ocl_host_begin(ocl_emitter *e, int32_t code);
void ocl_host_waits(ocl_emitter *e); /* sets host_waits */
void ocl_host_end(ocl_emitter *e);
int32_t ocl_workspace(ocl_emitter *e, clt_dtype dtype, uint64_t elements, const char *name);
/* Returns a derived tensor. If *make is set, the caller emits the commands that compute the tensor. In any
 * case the caller then calls ocl_derive_end. A tensor that is not kept is workspace, and is computed
 * whenever the list runs. */
int32_t ocl_derive_begin(ocl_emitter *e, const ocl_derivation *derivation, bool *make);
void ocl_derive_end(ocl_emitter *e);
/* Value of a tunable (cl/command/variant.h) in the tuning record. If there is none: `fallback`, the
 * variant's own choice. A variant that cannot use these values fails with CLT_EUNSUPPORTED before it emits
 * anything. */
int ocl_tuned(const ocl_emitter *e, const char *name, int fallback);
/* Records a failure raised while emitting. */
void ocl_emit_fail(ocl_emitter *e, clt_status status);
/* First failure, with its message restored, or CLT_OK. */
clt_status ocl_emit_status(ocl_emitter *e);
void ocl_emitter_free(ocl_emitter *e);
CLT_SCOPED_VALUE(ocl_emitter, ocl_emitter_free)

/* Bytes that a command must move: the sum of its arguments' bytes (a READ_WRITE argument counts twice). */
uint64_t ocl_command_bytes(const ocl_command *command);
/* Whether two commands run the same machine code. A driver may compile a kernel at its first launch: once
 * for each group size and, in PoCL, once more for launches with fewer than OCL_SMALL_LAUNCH work-items in
 * each dimension. */
#define OCL_SMALL_LAUNCH 65535
bool ocl_same_code(const ocl_command *a, const ocl_command *b);
const char *ocl_command_kind_name(ocl_command_kind kind);

#endif
