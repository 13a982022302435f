/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a launch, shared by the files that run instructions. No other file includes it. */
#ifndef TESTS_PTX_PTX_MACHINE_H
#define TESTS_PTX_PTX_MACHINE_H

#include <setjmp.h>

#include "tests/ptx/ptx.h"

#define PTX_MAX_COPIES 64 /* copies of a thread in flight */

typedef struct ptx_copy {
    uint64_t to, from; /* address in shared memory; address in global memory */
    uint32_t bytes;    /* bytes to copy: the rest up to `size` becomes 0 */
    uint32_t size;
    uint32_t batch; /* number of the batch; 0: the batch is still open */
    bool landed;
    const ptx_instruction *by;
} ptx_copy;

typedef struct ptx_lane {
    ptx_copy copies[PTX_MAX_COPIES];
    uint32_t n_copies, batches; /* batches closed so far */
} ptx_lane;

#define PTX_MAX_PRODUCTS 64 /* products of a warp in flight */

/* A wgmma.mma_async as one of its four warps sees it. */
typedef struct ptx_product {
    struct ptx_instruction *by;
    uint64_t a, b;  /* descriptors */
    uint32_t batch; /* number of the batch; 0: the batch is still open */
} ptx_product;

/* A warp's products; only in kernels with products. */
typedef struct ptx_products {
    ptx_product list[PTX_MAX_PRODUCTS];
    uint32_t n, batches; /* products in flight; batches closed so far */
    uint32_t started;    /* so far */
    uint32_t now, fence; /* instructions so far, and their number at the last wgmma.fence */
    uint8_t *busy;       /* for each register unit: products in flight that add to it */
    uint32_t *used;      /* for each unit: the last instruction that used it, other than a product */
} ptx_products;

/* The products that all four warps of a group must start in the same order. */
typedef struct ptx_agreed {
    ptx_product list[PTX_MAX_PRODUCTS]; /* product n is at n % PTX_MAX_PRODUCTS */
    uint32_t n;
} ptx_agreed;

/* A thread's fences between its accesses and those of the asynchronous proxy: the time and the segment of
 * the last fence, and the time of the last fence in an earlier segment. */
typedef struct ptx_proxy {
    uint32_t last, segment, earlier;
} ptx_proxy;

/* Which accesses of other groups a group sees (ptx_order.c). */
typedef struct ptx_order {
    uint32_t groups;
    uint32_t *atomic;             /* segment of each group's last atomic operation */
    uint32_t *clock;              /* for each group: the running group sees its segments before this */
    struct ptx_release *releases; /* all releases of this launch, in order */
    size_t n_releases;
    struct ptx_acquire *acquires; /* acquires of single threads since the last barrier */
    size_t n_acquires;
} ptx_order;

typedef enum ptx_state { PTX_RUNS, PTX_AT_BARRIER, PTX_ENDED } ptx_state;

typedef struct ptx_warp {
    struct ptx_machine *machine;
    uint8_t *registers;
    uint8_t *local; /* private memory of the lanes, one lane after the other */
    ptx_lane *lanes;
    ptx_products *products; /* NULL: the kernel has none */
    uint32_t first;         /* thread number of lane 0 */
    uint32_t born, alive;
    uint32_t mask, pc; /* lanes that run now, and their instruction */
    bool split;        /* not all lanes run together: the others are at their lane_pc */
    uint32_t other_pc; /* the smallest lane_pc of the other lanes that are not blocked */
    uint32_t blocked;  /* lanes that wait at an instruction of the whole warp */
    uint32_t lane_pc[PTX_LANES];
    ptx_state state;
    uint64_t executed;
    uint64_t looked_at, looked_value; /* address and value of its last acquiring load */
    uint32_t looks;                   /* loads since then that found the same value */
} ptx_warp;

typedef struct ptx_machine {
    const ptx_launch *launch;
    uint8_t *shared;
    ptx_shadow *shared_shadow;
    uint32_t shared_bytes;
    ptx_warp *warps;
    uint32_t n_warps, n_threads;
    uint32_t group, group_id[3];
    uint32_t segment, first_segment; /* current segment; first segment of this launch */
    ptx_order order;
    ptx_proxy *proxy;   /* by thread */
    ptx_agreed *agreed; /* for each group of four warps; NULL: the kernel has no products */
    uint32_t fences;    /* fences of all threads so far; this number is the time in ptx_shadow.stamp */
    uint64_t random;
    char *message;
    jmp_buf failed;
} ptx_machine;

/* Ends the launch with a message about the instruction and the lane. */
_Noreturn void ptx_fail(const ptx_warp *warp, const ptx_instruction *i, int lane, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
uint32_t ptx_random(ptx_machine *machine);

static inline void *ptx_at(const ptx_warp *warp, ptx_operand operand)
{
    return warp->registers + (size_t)operand.unit * 128;
}
static inline uint32_t *ptx_words(const ptx_warp *warp, const ptx_instruction *i, int arg)
{
    return ptx_at(warp, i->args[arg]);
}
static inline float *ptx_floats(const ptx_warp *warp, const ptx_instruction *i, int arg)
{
    return ptx_at(warp, i->args[arg]);
}
static inline uint64_t ptx_value(const ptx_warp *warp, ptx_operand operand, int lane)
{
    const void *at = ptx_at(warp, operand);
    return operand.words == 2 ? ((const uint64_t *)at)[lane] : ((const uint32_t *)at)[lane];
}

/* --- order between groups: ptx_order.c --- */

void ptx_order_create(ptx_machine *machine);
void ptx_order_destroy(ptx_machine *machine);
void ptx_order_group(ptx_machine *machine);   /* call it when a group begins */
void ptx_order_barrier(ptx_machine *machine); /* call it before the group's next segment begins */
/* True if this thread sees what `group` did in `segment`. */
bool ptx_ordered(const ptx_machine *machine, uint32_t thread, uint32_t group, uint32_t segment);
void ptx_order_atomic(ptx_machine *machine); /* called for the running group, on global memory */
void ptx_order_release(ptx_machine *machine, uint32_t thread, uint64_t address);
void ptx_order_acquire(ptx_warp *warp, const ptx_instruction *i, int lane, uint64_t address, uint64_t value);

/* --- memory: ptx_memory.c --- */

void ptx_load(ptx_warp *warp, ptx_instruction *i, uint32_t mask);
void ptx_store(ptx_warp *warp, ptx_instruction *i, uint32_t mask);
void ptx_atomic_run(ptx_warp *warp, ptx_instruction *i, uint32_t mask);
/* For matrix instructions: return a pointer to `bytes` bytes of shared memory, after checking and recording
 * the lane's read or write. */
uint8_t *ptx_shared_read(ptx_warp *warp, const ptx_instruction *i, int lane, uint64_t address, uint32_t bytes,
                         uint32_t align);
uint8_t *ptx_shared_write(ptx_warp *warp, const ptx_instruction *i, int lane, uint64_t address,
                          uint32_t bytes, uint32_t align);
void ptx_copy_start(ptx_warp *warp, ptx_instruction *i, uint32_t mask);
void ptx_copy_commit(ptx_warp *warp, uint32_t mask);
void ptx_copy_wait(ptx_warp *warp, const ptx_instruction *i, uint32_t mask);
/* Counts the passes over the 32 banks that the addresses of the lanes in `mask` need. */
void ptx_count_banks(ptx_instruction *i, const uint64_t *address, uint32_t mask, uint32_t bytes);

/* --- asynchronous products: ptx_products.c --- */

void ptx_products_create(ptx_machine *machine); /* call it after creating the warps */
void ptx_products_destroy(ptx_machine *machine);
void ptx_products_start(ptx_warp *warp); /* call it when a group begins */
/* Called before every instruction of a kernel with products: its registers must not belong to a product in
 * flight. */
void ptx_products_look(ptx_warp *warp, const ptx_instruction *i);
/* Called at the end of a warp. */
void ptx_products_end(const ptx_warp *warp, const ptx_instruction *i);
void ptx_proxy_fence(ptx_warp *warp, uint32_t mask);

#endif
