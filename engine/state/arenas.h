/* SPDX-License-Identifier: Apache-2.0
 *
 * The arenas: device memory for everything that lives as long as a run, and the layout that says where
 * each parameter, its gradient and its optimizer state lie. The order and the offsets are the same in
 * every arena. The training plan makes a layout (pass_store.c), a store (store.h) allocates it. Knows
 * parameters of graphs, no device. */
#ifndef ENGINE_STATE_ARENAS_H
#define ENGINE_STATE_ARENAS_H

#include "engine/graph/graph.h"
#include "engine/state/chunk.clh"

#define CLT_MAX_STORE_SLABS 64
#define CLT_MAX_LEVELS 8 /* arenas of sums of micro-batches */

/* The arenas, a row each in arenas.def. The optimizer's k-th state is CLT_ARENA_OPT1 + k. */
typedef enum clt_arena_kind {
#define CLT_ARENA(kind, ...) CLT_ARENA_##kind,
#include "engine/state/arenas.def"
#undef CLT_ARENA
    CLT_ARENA_COUNT
} clt_arena_kind;

typedef struct clt_arena_row {
    const char *name;     /* "gradients" */
    clt_tensor_class cls; /* class of its tensors */
    /* of tensor names in a checkpoint's optimizer.safetensors; NULL: they are not saved there */
    const char *suffix;
    bool evaluation; /* it exists also in a store that is used for evaluation only */
} clt_arena_row;
extern const clt_arena_row clt_arenas[CLT_ARENA_COUNT];

struct clt_store_slot;

/* Elements of a slab, in whole chunks: [first, first + elements). */
typedef struct clt_range {
    int32_t slab;
    uint64_t first, elements;
} clt_range;

/* A derived tensor: a stored tensor in another form, which kernels read instead of it. It lies in its own
 * arena, at the offset of its source. The kernel of the update that writes the source writes it as well;
 * whenever the host writes the source, it writes the derived tensor, too. */
typedef struct clt_derived {
    clt_arena_kind arena, source;
    /* Puts the values of one slot into `out`, in the arena's form and type. */
    void (*transform)(const struct clt_store_slot *slot, const float *values, clt_dtype type, void *out);
} clt_derived;

typedef struct clt_store_slot {
    const char *name; /* parameter */
    clt_shape shape;
    bool trainable;
    bool narrow;           /* frozen, with values in the arena BASE only, at `offset` of its slab */
    bool buffer, averaged; /* see clt_param */
    clt_param_group group;
    float lr_scale;
    bool adapts; /* the optimizer treats it as a whole: it has a trust ratio or is a matrix */
    int states;  /* optimizer states that it uses, of the layout's opt_states */
    int32_t slab;
    uint64_t offset; /* offset from the slab's start, in elements */
    uint64_t elements;
} clt_store_slot;

/* Matrices of one shape in one slab. An optimizer updates the matrices of a group together. */
typedef struct clt_matrix_group {
    int32_t slab;
    int64_t rows, cols, count;
    uint64_t chunks; /* number of chunks of one matrix */
    uint64_t first;  /* place of its first chunk in the MATRICES arena */
} clt_matrix_group;

typedef struct clt_store_layout {
    clt_arena *arena;
    int32_t n_slots;
    clt_store_slot *slots; /* slots by parameter index of the graph that the layout was made from */
    clt_names names;       /* names of the slots, with their positions */
    /* Slots in arena order: trainable ones as their gradients become ready, then frozen ones, then buffers,
     * those that ranks average last. */
    int32_t *order;
    int32_t n_slabs;
    uint64_t slab_elements[CLT_MAX_STORE_SLABS]; /* elements of each slab, in whole chunks */
    /* The leading part of each slab, which has gradients and optimizer state. */
    uint64_t trainable_elements[CLT_MAX_STORE_SLABS];
    /* The ranges that this rank updates, in ascending order, own_elements in each slab: all trainable
     * elements, or its share of each gradient bucket. Arenas of optimizer state hold these ranges alone, one
     * after the other. */
    clt_range *own;
    size_t n_own;
    uint64_t own_elements[CLT_MAX_STORE_SLABS];
    bool sharded;                                    /* `own` holds shares of gradient buckets */
    uint64_t averaged_elements[CLT_MAX_STORE_SLABS]; /* buffers that ranks average, the last part */
    int32_t opt_states;                              /* 0, 1, 2: number of arenas of optimizer state */
    bool norms;                                      /* the optimizer needs norms of each parameter */
    int32_t levels;             /* arenas of sums of micro-batches: LEVEL1 + 0 .. levels - 1 */
    bool ema;                   /* a moving average of the parameters is kept */
    clt_matrix_group *matrices; /* groups of matrices, if the optimizer updates whole matrices */
    int32_t n_matrices;
    uint64_t base_elements[CLT_MAX_STORE_SLABS]; /* elements of the slabs of the BASE arena */
    clt_dtype base;                              /* type of the BASE arena */
    clt_dtype working;                           /* type of the WORK arena; f32: it does not exist */
    clt_dtype wire;                              /* type of the WIRE arena; f32: it does not exist */
    uint64_t schedule_entries;
} clt_store_layout;

/* Rounds f32 to f16 or bf16, and back. `narrow` may be the last part of the memory of `out`. */
void clt_narrow_values(const float *values, uint64_t count, clt_dtype type, uint16_t *out);
void clt_widen_values(const void *narrow, uint64_t count, clt_dtype type, float *out);
/* The tensor that is derived from an arena in this layout; NULL: none. */
const clt_derived *clt_derived_from(const clt_store_layout *layout, clt_arena_kind source);
void clt_store_layout_destroy(clt_store_layout *layout);
const clt_store_slot *clt_store_layout_find(const clt_store_layout *layout, const char *name);
/* The arena with a parameter's own values: PARAM, or BASE. Functions that are given PARAM for a parameter in
 * BASE convert its values. */
static inline clt_arena_kind clt_store_home(const clt_store_slot *slot)
{
    return slot->narrow ? CLT_ARENA_BASE : CLT_ARENA_PARAM;
}
/* The arena with the values that a parameter is evaluated with: its moving average, where there is one. */
clt_arena_kind clt_store_evaluated(const clt_store_layout *layout, const clt_store_slot *slot);
/* True if the group contains this parameter. */
bool clt_store_in_group(const clt_store_slot *slot, const clt_matrix_group *group);
/* A range of a parameter's elements, [first, first + count). It lies at element `at` of an arena's slab. */
typedef struct clt_store_piece {
    uint64_t first, count, at;
} clt_store_piece;
/* True if the ranks divide a parameter's elements in an arena among themselves; otherwise each of them has
 * all. A rank's part of the gradients is the part that the last step summed over the ranks; it lies at the
 * same place as without division. */
bool clt_store_divides(const clt_store_layout *layout, clt_arena_kind arena, const clt_store_slot *slot);
/* The elements of a parameter that this rank has in an arena, as pieces in ascending order; if it has all,
 * they are one piece. False: there is no piece `index` (from 0). */
bool clt_store_part(const clt_store_layout *layout, clt_arena_kind arena, const clt_store_slot *slot,
                    int64_t index, clt_store_piece *piece);
/* Piece number k of the elements of a slab that this rank updates, and the first element of its state in
 * arenas of optimizer state; false: there is no such piece. */
bool clt_store_own(const clt_store_layout *layout, int32_t slab, size_t k, clt_range *piece,
                   uint64_t *state_at);
/* Bytes of one slab of an arena; 0 when that arena does not exist. */
uint64_t clt_store_slab_bytes(const clt_store_layout *layout, clt_arena_kind kind, int32_t slab);
uint64_t clt_store_arena_bytes(const clt_store_layout *layout, clt_arena_kind kind);
/* Sum over all arenas of a class. evaluation: only those that a store for evaluation has. */
uint64_t clt_store_class_bytes(const clt_store_layout *layout, clt_tensor_class cls, bool evaluation);
#define CLT_STATE_TABLE_OFFSET 256 /* bytes before the schedule's table in the slab of the STATE arena */

#endif
