/* SPDX-License-Identifier: Apache-2.0
 *
 * A PTX module as the executor stores it, and the function that runs one of its kernels. The 32 lanes of a
 * warp execute instructions together; a register is an array of 32 values. The parser (ptx_parse.c) converts
 * text to instructions, ptx_tables.c defines what instructions compute, ptx_memory.c checks every access to
 * memory, ptx_order.c knows which accesses are ordered, ptx_matrix.c has the instructions of a whole warp,
 * ptx_products.c has the asynchronous products of four warps, and ptx_exec.c schedules warps and lanes.
 * Nothing here knows OpenCL. */
#ifndef TESTS_PTX_PTX_H
#define TESTS_PTX_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PTX_LANES 32
#define PTX_ALL 0xffffffffu
#define PTX_TEXT 400 /* longest message in bytes */

/* --- module: ptx_parse.c --- */

typedef enum ptx_kind {
    PTX_ALU,
    PTX_PARAM, /* ld.param */
    PTX_LOAD,
    PTX_STORE,
    PTX_ATOMIC,
    PTX_BRANCH,
    PTX_RETURN,
    PTX_BARRIER, /* a barrier of the work-group */
    PTX_WARP,    /* all lanes of a warp together: matrices, shuffles, votes */
    PTX_COPY,    /* cp.async */
    PTX_COMMIT,
    PTX_WAIT,
    PTX_PROXY,  /* fence.proxy.async */
    PTX_NOTHING /* fences, prefetches: they change no values in this executor */
} ptx_kind;

typedef enum ptx_space { PTX_GENERIC, PTX_GLOBAL, PTX_SHARED, PTX_LOCAL } ptx_space;

/* The place of 32 values, one for each lane. unit: offset from the start of a warp's registers, in units of
 * 128 bytes. words: 1 for values of 32 bits, 2 for 64. */
typedef struct ptx_operand {
    uint32_t unit;
    uint32_t words;
} ptx_operand;

/* The work of one instruction in a whole launch. ideal: the work that the same lanes would need with the
 * best addresses. */
typedef struct ptx_counts {
    uint64_t executed; /* by warps */
    uint64_t moved;    /* global memory: sectors of 32 bytes; shared memory: passes over the banks */
    uint64_t ideal;
} ptx_counts;

struct ptx_warp;
struct ptx_instruction;
typedef void ptx_alu(void *out, const void *a, const void *b, const void *c);
typedef void ptx_warp_op(struct ptx_warp *warp, struct ptx_instruction *i);

#define PTX_MAX_OPERANDS 160

typedef struct ptx_instruction {
    ptx_kind kind;
    ptx_alu *alu;
    ptx_warp_op *warp_op;
    ptx_operand *args;
    int n_args;
    int32_t guard; /* register unit of the predicate; -1: none */
    bool guard_not;
    uint32_t target; /* BRANCH: index of an instruction */
    ptx_space space; /* LOAD, STORE, ATOMIC */
    uint32_t bytes;  /* bytes of an element; COPY: of a copy */
    uint32_t vector; /* elements of a load or store */
    bool sign;       /* the loaded value keeps its sign */
    int64_t offset;  /* offset added to the address; PARAM: offset in the block of parameters */
    uint32_t mode;   /* ATOMIC: ptx_atomic; LOAD, STORE: ptx_strength; matrix instructions: their variant */
    int32_t n;       /* WAIT: batches that may still be in flight; asynchronous products: columns */
    const char *text;
    ptx_counts counts;
} ptx_instruction;

typedef enum ptx_atomic {
    PTX_ATOM_ADD,
    PTX_ATOM_EXCH,
    PTX_ATOM_CAS,
    PTX_ATOM_MIN,
    PTX_ATOM_MAX,
    PTX_ATOM_OR,
    PTX_ATOM_AND,
    PTX_ATOM_INC
} ptx_atomic;

/* How a load or store orders the accesses of different groups. */
typedef enum ptx_strength { PTX_WEAK, PTX_ACQUIRE, PTX_RELEASE } ptx_strength;

typedef enum ptx_param_kind { PTX_VALUE, PTX_BUFFER, PTX_SHARED_BUFFER } ptx_param_kind;

typedef struct ptx_param {
    ptx_param_kind kind;
    uint32_t offset, bytes;
} ptx_param;

/* The kind of a value that each warp starts with: a constant, or a special register. */
typedef enum ptx_special { PTX_CONSTANT, PTX_TID, PTX_NTID, PTX_CTAID, PTX_NCTAID, PTX_LANEID } ptx_special;

typedef struct ptx_start {
    ptx_operand at;
    ptx_special what;
    int axis;
    uint64_t value;
} ptx_start;

typedef struct ptx_kernel {
    char name[128];
    char error[PTX_TEXT]; /* why the kernel cannot run; "": it can */
    ptx_instruction *code;
    size_t n_code;
    ptx_param *params;
    size_t n_params;
    ptx_start *starts;
    size_t n_starts;
    uint32_t param_bytes, shared_bytes, local_bytes, units;
    uint32_t group[3]; /* .reqntid, or 0 */
    bool products;     /* has asynchronous products */
} ptx_kernel;

typedef struct ptx_module {
    char *text;
    ptx_kernel *kernels;
    size_t n_kernels;
    char **strings; /* the texts of the instructions */
    size_t n_strings;
} ptx_module;

/* False, with a message, if the text is not a module. An unknown instruction is an error only of the kernel
 * that contains it. */
bool ptx_parse(const char *text, ptx_module *module, char message[PTX_TEXT]);
void ptx_module_free(ptx_module *module);
ptx_kernel *ptx_find(ptx_module *module, const char *name);

/* --- tables: ptx_tables.c --- */

/* An arithmetic instruction with its exact name. form: a digit for each operand, 1 for up to 32 bits and 2
 * for 64. */
typedef struct ptx_entry {
    const char *name;
    ptx_alu *alu;
    char form[6];
} ptx_entry;
const ptx_entry *ptx_alu_find(const char *name);
/* An instruction of a whole warp. form: as in ptx_entry, the operands in order, without their braces. */
typedef struct ptx_warp_entry {
    const char *name;
    ptx_warp_op *op;
    uint32_t mode;
    const char *form;
} ptx_warp_entry;
const ptx_warp_entry *ptx_warp_find(const char *name);

/* --- running: ptx_exec.c --- */

#define PTX_SHARED_FIRST 1024u /* where shared memory begins: devices reserve the part before */
#define PTX_LOCAL_FIRST (UINT64_C(1) << 32)
#define PTX_BUFFER_SHIFT 36 /* buffer n begins at address n << 36 */

/* The last accesses to a word. A segment is the interval between two barriers; segments are numbered over
 * all groups and launches, so a number is a time. */
typedef struct ptx_shadow {
    uint32_t write_segment, read_segment;
    uint32_t write_group, read_group;
    uint16_t write_thread;
    uint16_t read_thread[4]; /* for each byte, the last thread that read it */
    uint8_t written;         /* bytes of the word that the last writer wrote */
    uint8_t read;            /* bytes read in read_segment */
    uint8_t many;            /* bytes of `read` that several threads read */
    uint8_t strong;          /* global memory: the last write was a release */
    uint8_t valid;           /* shared memory: bytes that have been written */
    uint8_t pending;         /* shared memory: copies to it in flight */
    uint8_t reading;         /* shared memory: warps with a product in flight that reads it */
    uint32_t stamp;          /* shared memory: time of the last write, in ptx_machine.fences */
} ptx_shadow;

typedef struct ptx_buffer {
    uint8_t *data;
    uint64_t bytes;
    ptx_shadow *shadow; /* one for each word of four bytes */
    bool used;
} ptx_buffer;

typedef struct ptx_launch {
    const ptx_kernel *kernel;
    const uint8_t *params; /* param_bytes */
    uint32_t grid[3], group[3];
    uint32_t dynamic_shared; /* bytes of shared memory after the kernel's own */
    ptx_buffer *buffers;     /* by number; number 0 is not used */
    size_t n_buffers;
    uint64_t seed;
    bool count;      /* fill the instructions' counts */
    uint32_t poison; /* a word that no thread may read from global memory, or 0 */
} ptx_launch;

/* Runs all groups in random order. False: the launch broke a rule, which the message names. */
bool ptx_run(const ptx_launch *launch, char message[PTX_TEXT]);

#endif
