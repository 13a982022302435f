/* SPDX-License-Identifier: Apache-2.0
 *
 * The cases of the update's check: every optimizer, and the rules that all of them have in common. */
#include "engine/verify/cases/verify_update_cases.h"

/* values: momentum, Nesterov */
#define SGD(...) .optimizer = &clt_optimizer_sgd, .value = {__VA_ARGS__}
/* values: beta1, beta2, eps */
#define ADAM(name) .optimizer = &clt_optimizer_##name, .value = {0.85, 0.95, 1e-2}
/* values: the values of ADAM, then whether every parameter has a trust ratio, upper limit of a norm */
#define LAMB(...) .optimizer = &clt_optimizer_lamb, .value = {0.85, 0.95, 1e-2, __VA_ARGS__}
/* values: momentum, Nesterov, scale, learning rate of the parameters that AdamW updates; then the values of
 * ADAM */
#define MUON(...) .optimizer = &clt_optimizer_muon, .value = {__VA_ARGS__, 0.85, 0.95, 1e-2}
/* values: momentum, Nesterov, trust, eps, whether every parameter has a trust ratio */
#define LARS(...) .optimizer = &clt_optimizer_lars, .value = {__VA_ARGS__}
/* growth, backoff, minimum, interval */
#define SCALING(up, down, least, steps)                                                                      \
    .scaling = {                                                                                             \
        .on = true, .dynamic = true, .growth = up, .backoff = down, .minimum = least, .interval = steps}
/* CASE: name, storage type, loss scale, steps, rows and columns of the first weight, then members by name.
 * SPEC: the specification of the update. */
#define SPEC(...) .spec = {__VA_ARGS__}
#define CASE(word, type, scale, letters, height, width, ...)                                                 \
    {                                                                                                        \
        .name = word, .storage = type, .loss_scale = scale, .steps = letters, .rows = height, .cols = width, \
        __VA_ARGS__                                                                                          \
    }

const clt_update_case clt_update_cases[] = {
    CASE("sgd", CLT_F32, 1.0f, "gg", 47, 67, SPEC(SGD(0, 0), .weight_decay = 0.1), .small = true),
    CASE("momentum", CLT_BF16, 1.0f, "ggn", 47, 67, SPEC(SGD(0.8, 0), .weight_decay = 0.1, .clip = 0.5f),
         .small = true),
    CASE("nesterov", CLT_F16, 8.0f, "gig", 47, 67, SPEC(SGD(0.8, 1), .weight_decay = 0.1, .decay_all = true),
         .small = true),
    CASE("adam", CLT_F32, 1.0f, "ggggg", 47, 67, SPEC(ADAM(adam), .weight_decay = 0.2), .small = true),
    CASE("adamw", CLT_BF16, 1.0f, "glgg", 47, 67, SPEC(ADAM(adamw), .weight_decay = 0.2, .clip = 0.5f),
         .small = true),
    CASE("adamw_slabs", CLT_F16, 1024.0f, "gig", 47, 67, SPEC(ADAM(adamw), .weight_decay = 0.2, .clip = 0.5f),
         .slab_bytes = 24 * 1024, .small = true),
    CASE("lion", CLT_BF16, 1.0f, "ggig", 47, 67,
         SPEC(.optimizer = &clt_optimizer_lion, .value = {0.85, 0.95}, .weight_decay = 0.2, .clip = 0.5f),
         .small = true),
    CASE("lamb", CLT_F16, 8.0f, "ggig", 47, 67, SPEC(LAMB(0, 0), .weight_decay = 0.2, .clip = 0.5f),
         .small = true),
    /* every parameter has a trust ratio, in which the parameter's norm has an upper limit */
    CASE("lamb_all", CLT_BF16, 1.0f, "gg", 47, 67, SPEC(LAMB(1, 5), .weight_decay = 0.2),
         .slab_bytes = 24 * 1024, .small = true),
    CASE("lars", CLT_BF16, 8.0f, "glg", 47, 67,
         SPEC(LARS(0.8, 1, 0.02, 1e-3, 0), .weight_decay = 0.1, .clip = 1.0f), .small = true),
    /* trust ratios of parameters whose norm is 0, or whose update's norm is 0 */
    CASE("lamb_zero", CLT_F32, 1.0f, "gg", 5, 7, SPEC(LAMB(1, 0), .weight_decay = 0.2), .zero = ZERO_VALUES,
         .small = true),
    CASE("lamb_still", CLT_F32, 1.0f, "gg", 5, 7, SPEC(LAMB(1, 0)), .zero = ZERO_GRADIENTS, .small = true),
    CASE("lars_zero", CLT_F32, 1.0f, "gg", 5, 7, SPEC(LARS(0.8, 0, 0.02, 1e-3, 0), .weight_decay = 0.1),
         .zero = ZERO_VALUES, .small = true),
    CASE("lars_still", CLT_F32, 1.0f, "gg", 5, 7, SPEC(LARS(0.8, 1, 0.02, 1e-3, 0), .weight_decay = 0.1),
         .zero = ZERO_GRADIENTS, .small = true),
    CASE("muon_still", CLT_F32, 1.0f, "gg", 9, 7, SPEC(MUON(0.9, 1, 0, 0.5), .weight_decay = 0.2),
         .zero = ZERO_GRADIENTS, .small = true),
    /* two matrices of one shape and one of another: wide and tall */
    CASE("muon", CLT_BF16, 1.0f, "ggig", 47, 67,
         SPEC(MUON(0.9, 1, 0, 0.5), .weight_decay = 0.2, .clip = 0.5f), .deeper = true, .small = true),
    /* with the order of sums on which ranks with different kinds of devices agree; in several buffers */
    CASE("muon_plain", CLT_F16, 8.0f, "lgg", 31, 20,
         SPEC(MUON(0.9, 0, 1, 1), .weight_decay = 0.2, .order = {.plain = 1}), .slab_bytes = 24 * 1024,
         .deeper = true, .small = true),
    CASE("ema", CLT_BF16, 1.0f, "ggig", 47, 67, SPEC(ADAM(adamw), .ema = 0.9), .slab_bytes = 24 * 1024,
         .small = true),
    CASE("ema_f32", CLT_F32, 1.0f, "igg", 5, 7, SPEC(SGD(0, 0), .ema = 0.5), .small = true),
    /* gradients so small that the constant added to the norm before the division matters */
    CASE("clip_small", CLT_F32, 4.0f, "gg", 5, 7, SPEC(SGD(0.8, 0), .clip = 1e-7f), .gradients = 1e-7,
         .small = true),
    /* after two good steps the scale grows by a factor that f32 cannot represent; it falls by another such
     * factor and stops at the minimum */
    CASE("scale", CLT_F16, 1001.0f, "gggginng", 5, 7,
         SPEC(ADAM(adamw), .clip = 1.0f, SCALING(1.3, 0.7, 700.0f, 2)), .small = true),
    /* compares with the last three steps, spikes included; before three steps nothing is a spike */
    CASE("spike", CLT_F16, 16.0f, "ggggLgngNggLg", 5, 7,
         SPEC(ADAM(adamw), .clip = 1.0f,
              .spike = {.action = CLT_SPIKE_SKIP, .loss = 4.0f, .gradient = 5.0f, .window = 3},
              SCALING(2.0, 0.5, 1.0f, 3)),
         .small = true),
    CASE("spike_warn", CLT_F32, 1.0f, "gggLgNgL", 5, 7,
         SPEC(SGD(0.9, 1), .spike = {.action = CLT_SPIKE_WARN, .loss = 4.0f, .gradient = 0, .window = 2}),
         .small = true),
    /* Two equal steps have no deviation, so the third is not a spike. The fourth is exactly at the limit, so
     * it is not a spike either. The last one is far below the mean, which counts as ten deviations. */
    CASE("spike_tie", CLT_F32, 1.0f, "112444444444441", 5, 7,
         SPEC(SGD(0.9, 1), .spike = {.action = CLT_SPIKE_SKIP, .loss = 5.0f, .gradient = 5.0f, .window = 2}),
         .small = true),
    CASE("spike_norm", CLT_F32, 0x1p-20f, "gMgggNg", 5, 7,
         SPEC(SGD(0.9, 1), .clip = 1.0f,
              .spike = {.action = CLT_SPIKE_SKIP, .loss = 4.0f, .gradient = 5.0f, .window = 2}),
         .small = true),
    /* without an action on spikes mean and deviation are still computed; the square of the huge loss is
     * infinite, which resets the statistics */
    CASE("spike_off", CLT_F32, 1.0f, "gHgggLgNg", 5, 7,
         SPEC(SGD(0.9, 1), .spike = {.loss = 4.0f, .gradient = 5.0f, .window = 2}), .small = true),
    /* near the largest f32: growing once more would give infinity */
    CASE("scale_limit", CLT_F16, 0x1p+120f, "ggggg", 5, 7, SPEC(SGD(0, 0), SCALING(4.0, 0.5, 1.0f, 1)),
         .small = true),
    /* enough chunks that their partial sums are added in two stages, in both styles */
    CASE("spans", CLT_F32, 1.0f, "gi", 769, 769, SPEC(SGD(0, 0), .clip = 1.0f), .small = true),
    CASE("steep", CLT_F32, 1.0f, "g", 650, 769, SPEC(SGD(0, 0), .clip = 1.0f), .steep = true, .small = true),
    CASE("spans_large", CLT_F32, 1.0f, "g", 2900, 2993, SPEC(SGD(0, 0), .clip = 1.0f), .small = false),
    {.name = NULL}};
