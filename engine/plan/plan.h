/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans. clt_plan_compute is pure: graph + device description -> commands, gradients, places in memory; it
 * needs no device, so `plan`, `estimate`, dry runs and tests use it alone. clt_plan_realize (realize.h) puts
 * a plan on a device. Passes in order: precision, autodiff, layout, fuse, recompute, share, select, memory;
 * binding is realize's. Plans know graphs and cl/; they know nothing of data, schedules or the trainer.
 *
 * Where a plan's tensors lie (clt_place), and what moves them:
 *
 *   slabs of a plan, reused within a step        arenas of the store, kept for the whole run
 *   (clt_slab_pool, realize.h)                   (engine/state/arenas.h; same order in each)
 *
 *   slab 0  +--------------------------+         parameters   | fc2.weight | fc2.bias | ... | frozen |
 *           | input region:            |         16-bit copy  | fc2.weight | fc2.bias | ... | frozen |
 *           |   fields x, y, ...       |         gradients    | fc2.weight | fc2.bias | ... | losses |
 *           |   step block             |         optimizer    | fc2.weight | fc2.bias | ... |
 *           +--------------------------+         groups       | {decay, lr scale} of each chunk |
 *           | activations, gradients   |         run state    | state block | schedule's table |
 *           | of activations, saved    |
 *           | values, workspace: each  |         A parameter starts at a whole chunk. The parameter whose
 *   slab 1  | for as long as commands  |         gradient is ready first comes first. An arena that is larger
 *   ...     | use it (pass_memory.c)   |         than a device's largest buffer is cut into slabs, too.
 *           +--------------------------+         Behind the frozen parameters come the buffers, which have
 *                                                neither gradients nor optimizer state.
 *
 *   loader  --> pinned slot              copy queue: upload, ahead of the step
 *           --> ring of CLT_STAGING_SLOTS slots on the device
 *           --> input region             compute queue from here on: one copy on the device,
 *           --> forward --> backward         kernels that read and write slabs and arenas
 *           --> sync (several ranks)         gradients and losses: read, summed by comm/, written back
 *           --> update                       norm, finite check, optimizer: arenas alone
 *           --> state block, losses          read back, looked at a step late
 */
#ifndef ENGINE_PLAN_PLAN_H
#define ENGINE_PLAN_PLAN_H

#include "cl/command/command.h"
#include "cl/tune/family.h"
#include "engine/config/choices.h"
#include "engine/graph/graph.h"
#include "engine/ops/op.h"
#include "engine/optim/optimizer.h"
#include "engine/state/arenas.h"

typedef enum clt_plan_mode {
    CLT_PLAN_TRAIN, /* forward, backward, update; parameters in the store */
    CLT_PLAN_EVAL,  /* forward only; parameters in the store */
    CLT_PLAN_CHECK /* forward and backward of single nodes for the checker; everything in the plan's own slabs
                    */
} clt_plan_mode;

typedef enum clt_phase {
    CLT_PHASE_FORWARD,
    CLT_PHASE_BACKWARD,     /* first micro-batch: parameter gradients are written */
    CLT_PHASE_BACKWARD_ADD, /* later micro-batches: they are added to */
    CLT_PHASE_SYNC,         /* gradients and loss records over all ranks */
    CLT_PHASE_UPDATE,       /* norm, finite check, clipping, optimizer */
    CLT_PHASE_COUNT
} clt_phase;
const char *clt_phase_name(clt_phase phase);

/* --- update --- */

/* Losses are multiplied by a scale, gradients divided by it before anything looks at them. A dynamic scale
 * changes as PyTorch's GradScaler's does: times `backoff` after a step that was skipped, times `growth` after
 * `interval` good ones in a row. */
typedef struct clt_loss_scaling {
    bool on, dynamic;
    double growth, backoff;
    float minimum;
    uint32_t interval;
} clt_loss_scaling;
/* In which order the update adds up, for ranks whose devices would each choose another one. All 0: as suits
 * the device. */
typedef struct clt_update_order {
    uint32_t items; /* of a work-group; 1: the style without groups */
    uint32_t exact; /* 1: divisions and square roots are rounded correctly, which the compiler must be told */
} clt_update_order;

typedef struct clt_update_spec {
    const clt_optimizer *optimizer;     /* NULL in plans without an update */
    double value[CLT_OPTIMIZER_VALUES]; /* of its keys, in their order */
    double weight_decay;
    double ema; /* decay of the averages of the parameters; 0: there are none */
    bool decay_all;
    float clip; /* global norm, 0 = off */
    int64_t schedule_entries;
    clt_loss_scaling scaling;
    clt_update_order order;
} clt_update_spec;
/* The implementations of the UPDATE phase, of which one emits all of it. Problem: clt_update_problem. */
extern const ocl_family clt_update_family;
typedef struct clt_update_problem {
    struct clt_plan *plan; /* its store and options say all */
} clt_update_problem;
/* The same without a plan, for measuring it on its own (ocl_family.describe). */
typedef struct clt_update_described {
    clt_update_spec spec;
    clt_dtype working; /* of the 16-bit copy of the parameters; f32: there is none */
    uint64_t chunks;
} clt_update_described;
/* Work-items of a group in the update that suits the device, when no record says another number; 1: the style
 * without groups. */
uint64_t clt_update_items(const ocl_device_desc *device);

/* --- plan --- */

typedef struct clt_plan_options {
    clt_plan_mode mode;
    int32_t accumulation;   /* micro-batches per step of one rank; > 1 adds BACKWARD_ADD */
    int32_t ranks;          /* > 1 adds SYNC */
    clt_update_spec update; /* TRAIN */
    const clt_store_layout
        *layout;       /* EVAL: the training plan's layout (borrowed); TRAIN: NULL, the plan makes its own */
    clt_dtype storage; /* of activations, their gradients and the products' weights: f32, f16 or bf16 */
    clt_dtype wire;    /* ranks > 1: of parameter gradients on their way between ranks */
    bool tf32;         /* products of f32 may round their operands to 10 bits of mantissa */
    bool no_fuse;      /* every op apart, for comparison */
    clt_recompute recompute;
    /* CHECK: backward starts at these pairs of (tensor, its given gradient) */
    int n_seeds;
    int32_t seed_tensor[CLT_MAX_OUT], seed_gradient[CLT_MAX_OUT];
    uint64_t guard_bytes;  /* CHECK: before and behind every tensor */
    bool narrow_gradients; /* CHECK: gradients have their tensors' types, as with 16-bit storage; else f32 */
    /* The tuner's candidate: taken as it is by works of its family; `asked` receives the values of its
     * tunables. Both may be NULL. */
    const ocl_choice *candidate;
    ocl_choice *asked;
    const char *force_variant; /* take only this variant where an op has one of that name (checker), NULL: the
                                  first that accepts */
} clt_plan_options;

/* One piece of work after autodiff: a node's forward or backward, or the sum of a second gradient. */
typedef enum clt_work_kind { CLT_WORK_FORWARD, CLT_WORK_BACKWARD, CLT_WORK_ADD } clt_work_kind;
#define CLT_MAX_FUSED 2 /* an activation and an addition */
typedef struct clt_work {
    clt_work_kind kind;
    const clt_node *node;      /* of the graph, or made by a pass with the same id and other tensors */
    int32_t dout[CLT_MAX_OUT]; /* BACKWARD: gradients that arrive, -1 none */
    int32_t din[CLT_MAX_IN];
    bool din_accumulate[CLT_MAX_IN];
    int32_t dparam[CLT_MAX_NODE_PARAMS];
    bool dparam_accumulate[CLT_MAX_NODE_PARAMS]; /* in BACKWARD; in BACKWARD_ADD always true */
    int32_t add_to, add_from;                    /* ADD */
    clt_epilogue epilogue;                       /* of a linear layer; residual: of dropout, too */
    const clt_node *fused[CLT_MAX_FUSED]; /* other nodes whose work this one does as well, NULL behind them */
    bool again;                           /* FORWARD, repeated for the backward pass */
    bool record;                          /* a loss's backward writes the record: see clt_call */
} clt_work;

typedef enum clt_place_kind { CLT_PLACE_NONE, CLT_PLACE_PLAN, CLT_PLACE_STORE } clt_place_kind;
typedef struct clt_place {
    clt_place_kind kind;
    clt_arena_kind arena; /* STORE */
    int32_t slab;
    uint64_t offset, bytes; /* bytes */
    uint32_t first,
        last; /* time of first and last use (of `time` in clt_plan); UINT32_MAX last: kept after the step */
} clt_place;

#define CLT_MAX_PLAN_SLABS 64

typedef struct clt_plan {
    clt_graph *graph; /* owned; gradients and workspace are added to its tensor table */
    clt_plan_options options;
    ocl_device_desc device;
    clt_store_layout *layout;      /* owned in TRAIN mode, else NULL */
    const clt_store_layout *store; /* the layout in force; NULL in CHECK mode */
    clt_work *work;
    size_t n_work, work_capacity, n_forward;
    int32_t *gradient; /* by tensor id of the model's tensors: gradient tensor or -1 */
    size_t n_gradient;
    int32_t losses;     /* loss records, (n_losses, 4) f32 */
    int32_t state;      /* state block (TRAIN) */
    int32_t loss_scale; /* with scaling: its word of that name (TRAIN) or a tensor that is given (CHECK); else
                           -1 */
    ocl_command_list phase[CLT_PHASE_COUNT];
    uint32_t *time[CLT_PHASE_COUNT]; /* of each command */
    clt_place *place;                /* by tensor id */
    size_t n_place;
    int32_t n_slabs;
    uint64_t slab_bytes[CLT_MAX_PLAN_SLABS];
    /* the input region: what one slot of the loader holds, at the start of slab 0 */
    uint64_t input_bytes;
    uint64_t step_offset;      /* of the step block inside the input region */
    uint64_t activation_bytes; /* slab bytes without the input region */
    uint64_t activation_bound; /* largest sum of live bytes at any command: no plan can need less */
    ocl_tuning_log tuning;     /* tunable problems of all phases, and the records in force */
} clt_plan;

/* clt_plan_compute: takes ownership of `graph` (also on failure). CLT_ESHAPE / CLT_ECONFIG / CLT_EUNSUPPORTED
 * / CLT_EDEVMEM (a tensor larger than the device's largest buffer, by name). */
clt_status clt_plan_compute(clt_graph *graph, const ocl_device_desc *device, const clt_plan_options *options,
                            clt_plan **out);
void clt_plan_destroy(clt_plan *plan);
/* What the variants of the first work of an op in this direction are asked with; false: there is none. */
bool clt_plan_call(const clt_plan *plan, const clt_op *op, bool backward, clt_call *call);

/* Device bytes by class, as realised: store arenas, plan slabs, staging ring. */
typedef struct clt_memory_report {
    uint64_t params, gradients, optimizer, state, inputs, activations, staging, total;
} clt_memory_report;
#define CLT_STAGING_SLOTS 3 /* device ring slots */
/* eval may be NULL; both share the store and the slabs. */
clt_memory_report clt_plan_memory(const clt_plan *train, const clt_plan *eval);
double clt_plan_flops(const clt_plan *plan);    /* of one step */
size_t clt_plan_commands(const clt_plan *plan); /* of one step: accumulation counted */

/* Text and JSON form: memory map, phases, commands with their tensors (plan_print.c). */
clt_status clt_plan_print(const clt_plan *plan, clt_str *out);
clt_status clt_plan_print_json(const clt_plan *plan, clt_json_writer *writer);

/* --- passes (engine/plan/pass_<name>.c), in order --- */
clt_status clt_pass_precision(clt_plan *plan);
clt_status clt_pass_autodiff(clt_plan *plan);
clt_status clt_pass_layout(clt_plan *plan);
clt_status clt_pass_fuse(clt_plan *plan);
clt_status clt_pass_recompute(clt_plan *plan);
clt_status clt_pass_share(clt_plan *plan);
clt_status clt_pass_select(clt_plan *plan);
clt_status clt_pass_memory(clt_plan *plan);
/* Root of a chain of views: the tensor that owns the bytes. */
int32_t clt_plan_owner(const clt_plan *plan, int32_t tensor);

/* variant_list.c: the number of a variant among all that plans are made of, the same in every process of this
 * program, and back; -1, NULL: there is no such one. */
int clt_variant_number(const ocl_variant *variant);
const ocl_variant *clt_variant_at(int number);
/* The same with a name that other versions of the program know, too: "gemm/tile", "update/group",
 * "softmax/forward/row". False, NULL: there is no such one. */
bool clt_variant_name(const ocl_variant *variant, char *out, size_t size);
const ocl_variant *clt_variant_named(const char *name);

#endif
