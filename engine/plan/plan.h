/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans. clt_plan_compute is a pure function from graph and device description to commands, gradients and
 * memory offsets. It needs no device, so `plan`, `estimate`, dry runs and tests use it alone.
 * clt_plan_realize (realize.h) puts a plan on a device and binds kernel arguments. Passes in order: fold,
 * precision, layout, autodiff, rows, store, fuse, recompute, share, select, exchange, sync, memory. Plans
 * know graphs and cl/; they know nothing of data, schedules or the trainer.
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
 *           | values, workspace: each  |         A parameter starts at a whole chunk. The one whose
 *   slab 1  | for as long as commands  |         gradient is ready first comes first. An arena larger
 *   ...     | use it (pass_memory.c)   |         than the device's largest buffer is cut into slabs.
 *           +--------------------------+         After the frozen parameters come the buffers, which have
 *                                                neither gradients nor optimizer state.
 *
 *   Derived tensors that are kept (derived.c) lie in the plan's slabs; no other tensor reuses their bytes.
 *
 *   loader  --> pinned slot              copy queue: upload, ahead of the step
 *           --> ring of CLT_STAGING_SLOTS slots on the device
 *           --> input region             compute queue from here on: one copy on the device,
 *           --> forward --> backward         kernels that read and write slabs and arenas
 *           --> sync (several ranks)         losses and gradients, bucket by bucket during the backward
 *                                          pass: read, summed by comm/, written back, waited for
 *           --> update                       norm, finite check, optimizer: arenas alone
 *           --> state block, losses          read back, looked at a step late
 */
#ifndef ENGINE_PLAN_PLAN_H
#define ENGINE_PLAN_PLAN_H

#include "engine/base/scope.h"
#include "cl/command/command.h"
#include "cl/tune/family.h"
#include "engine/config/choices.h"
#include "engine/graph/graph.h"
#include "engine/ops/exchange.h"
#include "engine/optim/optimizer.h"
#include "engine/plan/buckets.h"
#include "engine/state/arenas.h"

typedef enum clt_plan_mode {
    CLT_PLAN_TRAIN, /* forward, backward, update; parameters in the store */
    CLT_PLAN_EVAL,  /* forward only; parameters in the store */
    /* forward and backward of single nodes for the checker; every tensor lies in the plan's own slabs */
    CLT_PLAN_CHECK
} clt_plan_mode;

typedef enum clt_phase {
    CLT_PHASE_FORWARD,
    CLT_PHASE_BACKWARD,     /* first micro-batch (options.tree: every one): writes parameter gradients */
    CLT_PHASE_BACKWARD_ADD, /* later micro-batches: adds to parameter gradients */
    /* adds gradients of embeddings that travel as rows (clt_work); not in the last micro-batch */
    CLT_PHASE_ROWS,
    CLT_PHASE_SEND,   /* converts gradients to the communication dtype; run in parts, see clt_sum */
    CLT_PHASE_SYNC,   /* waits for the results of sums over all ranks, and begins the norm */
    CLT_PHASE_UPDATE, /* norm, finite check, clipping, optimizer */
    CLT_PHASE_TAKE,   /* computes tensors derived from gathered parameters; run in parts, see clt_sum */
    /* a rank with one micro-batch fewer than others runs it in place of the missing first one, see
     * clt_exchange */
    CLT_PHASE_ABSENT,
    CLT_PHASE_COUNT
} clt_phase;
const char *clt_phase_name(clt_phase phase);

/* --- update --- */

/* Loss scaling: losses are multiplied by a scale, and gradients are divided by it before anything else
 * uses them. A dynamic scale follows the rule of PyTorch's GradScaler: times `backoff` after a skipped
 * step, times `growth` after `interval` consecutive steps with finite gradients. */
typedef struct clt_loss_scaling {
    bool on, dynamic;
    double growth, backoff;
    float minimum;
    uint32_t interval;
} clt_loss_scaling;

/* Spikes: loss and gradient norm of a step are judged before its update (engine/optim/spike.clh). Limits are
 * in standard deviations above the mean of recent steps; 0: not judged. Mean and deviation are updated for
 * every action. */
typedef struct clt_spike_rule {
    clt_spike_action action;
    float loss, gradient;
    uint32_t window; /* steps; 0: no mean and deviation */
} clt_spike_rule;

/* The order of the update's sums, and its rounding. Ranks with different devices must agree on both to get
 * the same bits. All fields 0: each device does what suits it. */
typedef struct clt_update_order {
    uint32_t items; /* work-items of a group; 1: the kernels without work-groups (style lane) */
    uint32_t plain; /* 1: products of the update use the kernels that round equally on every device */
    uint32_t exact; /* 1: division and square root are correctly rounded, which is an option of OpenCL C */
    /* 1: no rows of embeddings travel, because devices would add them up in different orders */
    uint32_t dense;
} clt_update_order;

typedef struct clt_update_spec {
    const clt_optimizer *optimizer;     /* NULL: the plan has no update */
    double value[CLT_OPTIMIZER_VALUES]; /* values of the optimizer's keys, in their order */
    double weight_decay;
    double ema; /* decay of the moving average of the parameters; 0: no average is kept */
    bool decay_all;
    float clip; /* largest global norm of the gradients, 0: no clipping */
    int64_t schedule_entries;
    clt_loss_scaling scaling;
    clt_spike_rule spike;
    clt_update_order order;
} clt_update_spec;
/* Implementations of the UPDATE phase: one variant emits the whole phase. Problem: clt_update_problem. */
extern const ocl_family clt_update_family;
typedef struct clt_update_problem {
    struct clt_plan *plan; /* the plan's store and options describe the update */
} clt_update_problem;
/* A description of the problem without a plan, for benchmarks (ocl_family.describe). */
typedef struct clt_update_described {
    clt_update_spec spec;
    clt_dtype working; /* type of the low-precision copy of the parameters; f32: there is none */
    uint64_t chunks;
} clt_update_described;
/* Work-items of a group in the variant that the device would choose without a tuning record; 1: kernels
 * without work-groups. */
uint64_t clt_update_items(const ocl_device_desc *device);

/* --- plan --- */

#define CLT_MAX_SEEDS (2 * CLT_MAX_OUT + CLT_MAX_IN) /* seeds of up to two nodes that share their inputs */

typedef struct clt_plan_options {
    clt_plan_mode mode;
    /* Micro-batches per step on the rank that has the most; other ranks may have one fewer. More than 1 adds
     * BACKWARD_ADD, unless `tree` is set. */
    int32_t accumulation;
    bool tree;     /* micro-batches are added up as a binary tree: the same bits however ranks share them */
    int32_t ranks; /* more than 1 adds SYNC */
    /* with ranks > 1: this rank's fraction of a step's micro-batches, its weight in means of buffers */
    float part;
    /* ranks > 1: norms of batches use the statistics of all ranks' samples. present: the number of ranks
     * that have the most micro-batches; the others have one fewer, and miss the first one */
    bool sync_norms;
    int32_t present;
    int32_t rank;           /* with `shard`: number of this rank */
    bool shard;             /* each rank updates a share of the parameters and keeps their states */
    clt_update_spec update; /* TRAIN */
    /* EVAL: the layout of the training plan (borrowed). TRAIN: NULL, the plan makes its own. */
    const clt_store_layout *layout;
    bool wide_residual;        /* with 16-bit storage: residual sums are f32 (precision.residual) */
    clt_dtype storage;         /* type of activations, their gradients and products' weights */
    clt_dtype wire;            /* ranks > 1: communication dtype of parameter gradients */
    clt_bucket_sizes buckets;  /* ranks > 1 */
    clt_embeddings embeddings; /* ranks > 1: how gradients of embeddings travel */
    bool shared_memory;        /* ranks > 1: on CPU devices gradients are summed in place */
    bool tf32;                 /* products of f32 may round their operands to 10 bits of mantissa */
    bool no_fuse;              /* fuse nothing, for comparison */
    bool transient; /* derived tensors are computed whenever they are used, which needs less memory */
    clt_recompute recompute;
    /* CHECK: tensors whose gradient has a value before backward, and these gradients. Backward starts at the
     * outputs among these tensors; if it computes the gradient of one of the others, it adds to that
     * value. */
    int n_seeds;
    int32_t seed_tensor[CLT_MAX_SEEDS], seed_gradient[CLT_MAX_SEEDS];
    uint64_t guard_bytes;  /* CHECK: size of the guard zones before and after every tensor */
    bool narrow_gradients; /* CHECK: gradients have their tensors' types, as with 16-bit storage; else f32 */
    /* A candidate of the tuner: every work of its family uses it instead of choosing. `asked` receives the
     * tunables that were read, with their values. Both may be NULL. */
    const ocl_choice *candidate;
    ocl_choice *asked;
    /* Set by the checker: an op that has a variant of this name must use it. NULL: no variant is forced. */
    const char *force_variant;
} clt_plan_options;

/* One piece of work after autodiff: a node's forward or backward part, or the addition of a second
 * gradient. */
typedef enum clt_work_kind { CLT_WORK_FORWARD, CLT_WORK_BACKWARD, CLT_WORK_ADD } clt_work_kind;
#define CLT_MAX_FUSED 2 /* most nodes fused into a work: an activation and a residual sum */
typedef struct clt_work {
    clt_work_kind kind;
    /* a node of the graph, or a copy with the same id that a pass made to change its tensors */
    const clt_node *node;
    int32_t dout[CLT_MAX_OUT]; /* BACKWARD: gradients of the outputs, -1 none */
    int32_t din[CLT_MAX_IN];
    bool din_accumulate[CLT_MAX_IN];
    int32_t dparam[CLT_MAX_NODE_PARAMS];
    bool dparam_accumulate[CLT_MAX_NODE_PARAMS]; /* for BACKWARD; in BACKWARD_ADD all are true */
    int32_t add_to, add_from;                    /* ADD: adds gradient add_from to gradient add_to */
    clt_epilogue epilogue;                       /* of linear layers; dropout uses only the residual */
    /* nodes that were fused into this work; NULL after the last */
    const clt_node *fused[CLT_MAX_FUSED];
    bool again;  /* FORWARD: recomputed for the backward pass */
    bool record; /* BACKWARD of a loss: it writes the loss record, too (see clt_call) */
    /* BACKWARD of an embedding whose gradient travels as rows: it runs in ROWS instead of BACKWARD; in
     * the last micro-batch SYNC runs it with the rows and indices of all ranks, side by side. These works
     * come last. */
    bool rows;
} clt_work;

/* While the variants of FORWARD are selected, for each tensor: whether a norm wants its moments, and the
 * moments that were made. */
typedef struct clt_made_moments {
    bool wanted;
    ocl_moments moments;
} clt_made_moments;

typedef enum clt_place_kind { CLT_PLACE_NONE, CLT_PLACE_PLAN, CLT_PLACE_STORE } clt_place_kind;
typedef struct clt_place {
    clt_place_kind kind;
    clt_arena_kind arena; /* STORE */
    int32_t slab;
    uint64_t offset, bytes; /* in bytes */
    /* Times (clt_plan.time) of the first and the last use; last is UINT32_MAX for tensors that are kept
     * after the step. */
    uint32_t first, last;
} clt_place;

/* A collective of a step: a sum over the ranks, or a gather. Host commands post it and wait for it
 * (engine/ops/exchange.h). The posts are in the lists of both backward phases and take effect in the last
 * micro-batch. INDICES and ROWS are gathers: every rank gives `own` and gets the tensors of all ranks, in
 * rank order. GATHERED: posted by the update. PARAMETERS: a bucket of parameters; the update posts it, and
 * FORWARD of the next step waits for it before its first use. With a grain, ranks have shares (comm_share):
 * of gradients, each rank gets its share of the sum; of a tensor that the update gathers, each rank gives
 * its share and gets the whole. */
typedef enum clt_sum_kind {
    CLT_SUM_LOSSES,
    CLT_SUM_INDICES, /* of the rows */
    CLT_SUM_GRADIENTS,
    CLT_SUM_ROWS, /* gradients of the output of an embedding */
    CLT_SUM_BUFFERS,
    CLT_SUM_GATHERED,
    CLT_SUM_PARAMETERS
} clt_sum_kind;
typedef struct clt_sum {
    clt_sum_kind kind;
    int32_t tensor, slab;         /* the tensor that is summed in place, and its slab in the store */
    size_t send_first, send_last; /* the commands of SEND that make it, to be run before it is posted */
    size_t take_first, take_last; /* PARAMETERS: the commands of TAKE to run after the wait */
    int64_t grain;                /* unit of the shares, in elements; 0: every rank gets the whole sum */
    size_t bucket;                /* GRADIENTS: number of the bucket */
    size_t work;                  /* INDICES, ROWS: the embedding's backward work */
    int32_t own;                  /* INDICES, ROWS: the tensor that this rank gives */
} clt_sum;

/* True if the sum's tensor lies in an arena that ranks on CPU devices can have in shared memory,
 * where it is summed in place; *arena names it. Other sums go through a copy on the host. Needs the places of
 * clt_pass_memory. */
bool clt_sum_arena(const struct clt_plan *plan, const clt_sum *sum, clt_arena_kind *arena);
static inline bool clt_sum_of_rows(const clt_sum *sum)
{
    return sum->kind == CLT_SUM_INDICES || sum->kind == CLT_SUM_ROWS;
}

/* An exchange of numbers among the ranks in each micro-batch (engine/ops/exchange.h). A plan's list has the
 * exchanges of the phase FORWARD in their order, then the exchanges of BACKWARD. BACKWARD_ADD makes the same
 * exchanges as BACKWARD. A rank without a micro-batch runs the phase ABSENT, which makes all exchanges of
 * the list. */
typedef struct clt_exchange {
    uint64_t elements; /* number of f32 values that each rank gives */
} clt_exchange;

/* A tensor that is derived from a parameter (ocl_derivation) and stays in the plan's slabs from one run
 * of a phase to the next. It is valid until the parameter changes or another plan uses the slabs:
 * clt_realized_run computes it again then. */
typedef struct clt_plan_derived {
    int32_t source, tensor;
    const char *form;
} clt_plan_derived;
/* ocl_command.derives */
typedef enum clt_derives {
    CLT_DERIVES_TRAINED = 1, /* derived from a parameter that every update changes */
    CLT_DERIVES_FROZEN = 2
} clt_derives;

#define CLT_MAX_PLAN_SLABS 64

typedef struct clt_plan {
    clt_graph *graph; /* owned; passes append gradients and workspace to its tensors */
    clt_plan_options options;
    ocl_device_desc device;
    clt_store_layout *layout;      /* owned in TRAIN mode, else NULL */
    const clt_store_layout *store; /* the layout in force; NULL in CHECK mode */
    clt_work *work;
    size_t n_work, work_capacity, n_forward;
    int32_t *gradient; /* by id of the model's tensors: the gradient tensor, or -1 */
    size_t n_gradient;
    int32_t losses; /* loss records, (n_losses, 4) f32 */
    int32_t state;  /* state block (TRAIN) */
    /* Tensor that holds the loss scale: a word of the state block (TRAIN) or a given tensor (CHECK); -1
     * without scaling. */
    int32_t loss_scale;
    ocl_command_list phase[CLT_PHASE_COUNT];
    /* Time of each command: CLT_TIME_SUB times its work's position, plus its place in that work. */
    uint32_t *time[CLT_PHASE_COUNT];
    clt_place *place; /* by tensor id: its place in memory */
    size_t n_place;
    int32_t n_slabs;
    uint64_t slab_bytes[CLT_MAX_PLAN_SLABS];
    /* The input region, at the start of slab 0: a copy of one slot of the loader. */
    uint64_t input_bytes;
    uint64_t step_offset;      /* offset of the step block in the input region */
    uint64_t activation_bytes; /* slab bytes without the input region */
    uint64_t activation_bound; /* most bytes that are live at once: no placement can need less */
    clt_bucket *buckets;       /* TRAIN with ranks > 1: gradient buckets, in summing order */
    clt_sum *sums;             /* all collectives of a step */
    size_t n_buckets, n_sums;
    clt_sum *gathered; /* collectives of the UPDATE phase, appended to `sums` at the end */
    size_t n_gathered;
    clt_exchange *exchanges;
    size_t n_exchanges, exchanges_forward; /* exchanges_forward: how many FORWARD makes */
    clt_plan_derived *derived;
    size_t n_derived;
    clt_made_moments *moments; /* by tensor id, n_moments of them; see moments.c */
    size_t n_moments;
    ocl_tuning_log tuning; /* problems of all phases that can be tuned, and the records that were used */
} clt_plan;

/* clt_plan_compute: takes ownership of `graph`, also on failure. CLT_ESHAPE / CLT_ECONFIG / CLT_EUNSUPPORTED
 * / CLT_EDEVMEM (names a tensor that is larger than the device's largest buffer). */
clt_status clt_plan_compute(clt_graph *graph, const ocl_device_desc *device, const clt_plan_options *options,
                            clt_plan **out);
void clt_plan_destroy(clt_plan *plan);
CLT_SCOPED_POINTER(clt_plan, clt_plan_destroy)
/* Sets *call to the call of the op's first work in this direction; false: there is no such work. */
bool clt_plan_call(const clt_plan *plan, const clt_op *op, bool backward, clt_call *call);

/* Bytes by class. On the device: store arenas, plan slabs, and staging, which is the ring of batches and,
 * on a CPU device, the copies through which gradients travel between ranks. Not in the total: `host`, such
 * copies for other devices, in pinned host memory; `saved`, host memory for the part of a checkpoint that a
 * rank writes; `shared`, memory that groups of ranks need for each rank of a host that has several. */
typedef struct clt_memory_report {
    uint64_t params, gradients, optimizer, state, inputs, activations, staging, total, host, saved, shared;
} clt_memory_report;
#define CLT_STAGING_SLOTS 3 /* device ring slots */
/* eval may be NULL. Both plans use the same store and the same slabs. */
clt_memory_report clt_plan_memory(const clt_plan *train, const clt_plan *eval);
/* Operations of a step: each command counts once for each micro-batch that runs it. Commands of derived
 * tensors count once, although not every step runs them. */
double clt_plan_flops(const clt_plan *plan);
/* Like clt_plan_flops, but sums the values that `of` returns for the commands. */
double clt_plan_sum(const clt_plan *plan, double (*of)(const void *context, const ocl_command *command),
                    const void *context);
size_t clt_plan_commands(const clt_plan *plan);

/* Print the memory map, the phases and the commands with their tensors, as text and as JSON
 * (plan_print.c). */
clt_status clt_plan_print(const clt_plan *plan, clt_str *out);
clt_status clt_plan_print_json(const clt_plan *plan, clt_json_writer *writer);

/* --- passes (engine/plan/passes/pass_<name>.c), in order --- */
clt_status clt_pass_fold(clt_plan *plan);
clt_status clt_pass_precision(clt_plan *plan);
clt_status clt_pass_layout(clt_plan *plan);
clt_status clt_pass_autodiff(clt_plan *plan);
clt_status clt_pass_rows(clt_plan *plan);
clt_status clt_pass_store(clt_plan *plan);
clt_status clt_pass_fuse(clt_plan *plan);
clt_status clt_pass_recompute(clt_plan *plan);
clt_status clt_pass_share(clt_plan *plan);
clt_status clt_pass_select(clt_plan *plan);
clt_status clt_pass_exchange(clt_plan *plan);
clt_status clt_pass_sync(clt_plan *plan);
/* pass_sync.c: emits commands into UPDATE that make the tensor whole on every rank: each rank gives its
 * share (comm_share with a grain of `grain` elements). With grain 0 the tensors of all ranks are summed. */
clt_status clt_sync_gather(clt_plan *plan, ocl_emitter *emitter, int32_t tensor, int64_t grain);
/* Gathers a bucket of parameters in the same way; the next step waits for it. The caller sets take_first and
 * take_last of *sum. */
clt_status clt_sync_give(clt_plan *plan, ocl_emitter *emitter, int32_t tensor, int32_t slab, clt_sum **sum);
clt_status clt_pass_memory(clt_plan *plan);
/* The backward phase that runs for the rank's micro-batch number `micro` of a step. */
clt_phase clt_plan_backward(const clt_plan *plan, int32_t micro);
/* Number of arenas of sums that options.tree needs: log2 of the micro-batches. */
int32_t clt_plan_levels(const clt_plan *plan);
/* The tensor that owns the bytes of a view: the end of its chain of views. */
int32_t clt_plan_owner(const clt_plan *plan, int32_t tensor);

/* variant_list.c: the number of a variant among all variants that plans use, and the variant of a number. It
 * is the same in every process of this program. -1, NULL: there is none. */
int clt_variant_number(const ocl_variant *variant);
const ocl_variant *clt_variant_at(int number);
/* The name of a variant, and the variant of a name, which is stable across versions of the program:
 * "gemm/tile", "update/group", "softmax/forward/row". False, NULL: there is none. */
bool clt_variant_name(const ocl_variant *variant, char *out, size_t size);
const ocl_variant *clt_variant_named(const char *name);

#endif
