/* SPDX-License-Identifier: Apache-2.0
 *
 * Choices of the config that the code knows as enumerators: words and enumerators are defined together here,
 * and clt_config_choice returns the enumerator. X(enumerator, word), in the order in which they are
 * listed. */
#ifndef ENGINE_CONFIG_CHOICES_H
#define ENGINE_CONFIG_CHOICES_H

#define CLT_CHOICE_ID(id, word) id,
#define CLT_CHOICE_WORD(id, word) word,
#define CLT_CHOICE_JOINED(id, word) "|" word
/* "a|b|c", the form of the schema */
#define CLT_CHOICE_WORDS(map) (&(map(CLT_CHOICE_JOINED))[1])

/* schedule.type: the course of the learning rate after warm-up */
#define CLT_SCHEDULE_TYPES(X)                                                                                \
    X(CLT_SCHEDULE_CONSTANT, "constant")                                                                     \
    X(CLT_SCHEDULE_LINEAR, "linear") /* linear decay to min over the horizon */                              \
    X(CLT_SCHEDULE_COSINE, "cosine") /* cosine decay to min over the horizon */                              \
    X(CLT_SCHEDULE_STEP, "step")     /* times factor every `every` updates, not below min */                 \
    X(CLT_SCHEDULE_POLY,                                                                                     \
      "poly")                  /* peak times (1 - updates / horizon)^power, not below min; BERT with LAMB */ \
    X(CLT_SCHEDULE_WSD, "wsd") /* warm-up, stable, decay: 1 - sqrt over the last decay_steps */
typedef enum clt_schedule_type { CLT_SCHEDULE_TYPES(CLT_CHOICE_ID) } clt_schedule_type;

/* precision.mode: the type in which activations, and the weights that products read, are stored */
#define CLT_PRECISION_MODES(X)                                                                               \
    X(CLT_PRECISION_F32, "f32")                                                                              \
    X(CLT_PRECISION_F16, "f16")                                                                              \
    X(CLT_PRECISION_BF16, "bf16")                                                                            \
    X(CLT_PRECISION_AUTO, "auto") /* the 16-bit type that the device's matrix units support */
typedef enum clt_precision_mode { CLT_PRECISION_MODES(CLT_CHOICE_ID) } clt_precision_mode;

/* precision.loss_scaling */
#define CLT_SCALINGS(X)                                                                                      \
    X(CLT_SCALING_AUTO, "auto") /* dynamic with f16, else off */                                             \
    X(CLT_SCALING_OFF, "off")                                                                                \
    X(CLT_SCALING_STATIC, "static")                                                                          \
    X(CLT_SCALING_DYNAMIC, "dynamic")
typedef enum clt_scaling { CLT_SCALINGS(CLT_CHOICE_ID) } clt_scaling;

/* train.on_spike: what happens to a step whose loss or gradient norm is far above the recent steps'
 * values */
#define CLT_SPIKE_ACTIONS(X)                                                                                 \
    X(CLT_SPIKE_OFF, "off") /* steps are not judged */                                                       \
    X(CLT_SPIKE_WARN, "warn")                                                                                \
    X(CLT_SPIKE_SKIP, "skip")
typedef enum clt_spike_action { CLT_SPIKE_ACTIONS(CLT_CHOICE_ID) } clt_spike_action;

/* precision.matmul: the type to which the operands of f32 products may be rounded */
#define CLT_MATMULS(X)                                                                                       \
    X(CLT_MATMUL_IEEE, "ieee")                                                                               \
    X(CLT_MATMUL_TF32, "tf32")
typedef enum clt_matmul { CLT_MATMULS(CLT_CHOICE_ID) } clt_matmul;

/* precision.residual: the type of the sums between blocks in half-precision runs */
#define CLT_RESIDUALS(X)                                                                                     \
    X(CLT_RESIDUAL_MODE, "mode")                                                                             \
    X(CLT_RESIDUAL_F32, "f32")
typedef enum clt_residual { CLT_RESIDUALS(CLT_CHOICE_ID) } clt_residual;

/* parallel.gradients: type in which ranks send each other parameter gradients */
#define CLT_GRADIENT_TYPES(X)                                                                                \
    X(CLT_GRADIENTS_F32, "f32")                                                                              \
    X(CLT_GRADIENTS_BF16, "bf16")                                                                            \
    X(CLT_GRADIENTS_F16, "f16")
typedef enum clt_gradient_type { CLT_GRADIENT_TYPES(CLT_CHOICE_ID) } clt_gradient_type;

/* parallel.shard: what the ranks divide among themselves, instead of each keeping all of it */
#define CLT_SHARDS(X)                                                                                        \
    X(CLT_SHARD_NONE, "none")                                                                                \
    X(CLT_SHARD_OPTIMIZER, "optimizer")
typedef enum clt_shard { CLT_SHARDS(CLT_CHOICE_ID) } clt_shard;

/* parallel.bind: when a rank's threads are bound to the cores near its GPU; auto: if several ranks share the
 * host */
#define CLT_BINDS(X)                                                                                         \
    X(CLT_BIND_AUTO, "auto")                                                                                 \
    X(CLT_BIND_ALWAYS, "always")                                                                             \
    X(CLT_BIND_NEVER, "never")
typedef enum clt_bind { CLT_BINDS(CLT_CHOICE_ID) } clt_bind;

/* parallel.embeddings: how ranks send each other the gradients of embeddings */
#define CLT_EMBEDDINGS(X)                                                                                    \
    X(CLT_EMBEDDINGS_AUTO, "auto")   /* sent as rows where there are few of them (pass_rows.c) */            \
    X(CLT_EMBEDDINGS_DENSE, "dense") /* sent as whole tables */                                              \
    X(CLT_EMBEDDINGS_ROWS, "rows")   /* sent as rows, one for each position */
typedef enum clt_embeddings { CLT_EMBEDDINGS(CLT_CHOICE_ID) } clt_embeddings;

/* parallel.allreduce: comm/algorithms.c has the same names in the same order */
#define CLT_ALLREDUCES(X)                                                                                    \
    X(CLT_ALLREDUCE_AUTO, "auto")                                                                            \
    X(CLT_ALLREDUCE_NODES, "nodes")                                                                          \
    X(CLT_ALLREDUCE_SLICES, "slices")                                                                        \
    X(CLT_ALLREDUCE_HALVING, "halving")                                                                      \
    X(CLT_ALLREDUCE_RING, "ring")                                                                            \
    X(CLT_ALLREDUCE_TREE, "tree")                                                                            \
    X(CLT_ALLREDUCE_NATIVE, "native")
typedef enum clt_allreduce { CLT_ALLREDUCES(CLT_CHOICE_ID) } clt_allreduce;

/* train.recompute: which activations the backward pass recomputes instead of keeping them */
#define CLT_RECOMPUTES(X)                                                                                    \
    X(CLT_RECOMPUTE_NONE, "none")                                                                            \
    X(CLT_RECOMPUTE_GELU,                                                                                    \
      "gelu") /* activations, dropout, norms (and what is fused into them) whose inputs are kept anyway */   \
    X(CLT_RECOMPUTE_BLOCK, "block") /* everything between the boundaries of blocks */
typedef enum clt_recompute { CLT_RECOMPUTES(CLT_CHOICE_ID) } clt_recompute;

/* train.fuse */
#define CLT_FUSINGS(X)                                                                                       \
    X(CLT_FUSING_ON, "on")                                                                                   \
    X(CLT_FUSING_OFF, "off")
typedef enum clt_fusing { CLT_FUSINGS(CLT_CHOICE_ID) } clt_fusing;

/* checkpoint.best: the evaluation metric that chooses the best checkpoint and decides early stopping */
#define CLT_BESTS(X)                                                                                         \
    X(CLT_BEST_NONE, "none")                                                                                 \
    X(CLT_BEST_LOSS, "loss") /* the lowest */                                                                \
    X(CLT_BEST_ACCURACY, "accuracy")                                                                         \
    X(CLT_BEST_TOP_K, "top_k")                                                                               \
    X(CLT_BEST_F1, "f1")                                                                                     \
    X(CLT_BEST_DICE, "dice")                                                                                 \
    X(CLT_BEST_ENTITY_F1, "entity_f1")
typedef enum clt_best { CLT_BESTS(CLT_CHOICE_ID) } clt_best;

/* optimizer.decay: which parameters decay */
#define CLT_DECAYS(X)                                                                                        \
    X(CLT_DECAY_MATRICES, "matrices") /* parameters of two or more dimensions */                             \
    X(CLT_DECAY_ALL, "all")
typedef enum clt_decay { CLT_DECAYS(CLT_CHOICE_ID) } clt_decay;

#endif
