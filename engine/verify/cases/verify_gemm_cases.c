/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix products with which the checker tests: sizes around tile edges, every layout, batches, shared
 * and interleaved operands, scalars, storage types, epilogues, with and without the alignment that vector
 * loads need. Knows no backend. */
#include "engine/verify/cases/verify_gemm_cases.h"

/* CASE: name, m, n, k (0: given by the windows), then members by name. LAYOUTS: a case for each layout. */
#define CASE(...)                                                                                            \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }
#define LAYOUTS(word, rows, columns, depth, ...)                                                             \
    CASE(word "_nn", rows, columns, depth, false, false, __VA_ARGS__),                                       \
        CASE(word "_nt", rows, columns, depth, false, true, __VA_ARGS__),                                    \
        CASE(word "_tn", rows, columns, depth, true, false, __VA_ARGS__),                                    \
        CASE(word "_tt", rows, columns, depth, true, true, __VA_ARGS__)
/* A, B and C have the same storage type. */
#define TYPES(all) .type = {all, all, all}
/* WINDOWS: operand, images, sizes of the image and of the window, and the other members of clt_gemm_windows.
 * AROUND: windows of 3 x 3 around each pixel of a plane. */
#define WINDOWS(side, ...) .windows = {OCL_WINDOWS_##side, __VA_ARGS__}
#define AROUND(side, images, height, width, ...)                                                             \
    WINDOWS(side, images, {1, height, width}, {1, 3, 3}, .padding = {0, 1, 1}, __VA_ARGS__)

/* With these factors, sums of products of small integers often lie between two 16-bit numbers, also exactly
 * in the middle, so the stored results show how they were rounded. */
#define TIES_F16 (365.0f / 256.0f)
#define TIES_BF16 (45.0f / 32.0f)

const clt_gemm_case clt_gemm_cases[] = {
    CASE("one", 1, 1, 1, .small = true),
    LAYOUTS("odd", 5, 7, 9, .small = true, .form = FORM_PADDED),
    LAYOUTS("batch", 9, 19, 13, .small = true, .batch = 3, .form = FORM_PADDED),
    CASE("row", 1, 129, 65, .small = true),
    CASE("column", 129, 1, 65, .tb = true, .small = true),
    CASE("beta_one", 17, 18, 5, .beta = 1.0f, .small = true, .form = FORM_PADDED),
    CASE("no_products", 4, 33, 0, .small = true),
    CASE("f16", 9, 37, 17, .tb = true, .alpha = TIES_F16, TYPES(CLT_F16), .small = true),
    CASE("bf16", 9, 37, 17, .ta = true, .alpha = TIES_BF16, TYPES(CLT_BF16), .small = true),
    CASE("bias_relu", 13, 37, 8, .bias = true, .activation = OCL_ACT_RELU, .small = true),
    CASE("scaled_vectors", 7, 67, 19, .tb = true, .alpha = -0.75f, .beta = 0.5f, .small = true,
         .form = FORM_PADDED),
    CASE("deep_small", 3, 5, 1025, .small = true),
    CASE("deep_batch", 5, 7, 1025, .batch = 2, .small = true),
    CASE("deep_columns", 29, 300, 1025, .small = true),
    /* partial sums, which a kernel adds for eight neighbouring elements of a row at a time */
    CASE("deep_f16", 5, 16, 1025, TYPES(CLT_F16), .form = FORM_ALIGNED, .small = true),
    CASE("columns_tn", 29, 37, 11, .ta = true, .small = true),
    LAYOUTS("tails", 129, 71, 130, .form = FORM_PADDED, .forms = true),
    LAYOUTS("blocks", 128, 64, 64, .form = FORM_TIGHT),
    LAYOUTS("scaled", 33, 65, 31, .alpha = -0.75f, .beta = 0.5f, .form = FORM_PADDED),
    LAYOUTS("heads", 19, 24, 21, .batch = 3, .form = FORM_HEADS),
    CASE("shared_b", 5, 33, 12, .tb = true, .batch = 4, .form = FORM_SHARED),
    CASE("deep", 7, 9, 1025, .tb = true),
    LAYOUTS("micro_panels", 29, 149, 500, .form = FORM_PADDED, .lane_forms = true),
    /* k exceeds one chain of sums (long_sum.clh) so far that a single chain would break the bounds. */
    CASE("chains", 19, 37, 2 * 1024 + 300, .form = FORM_PADDED, .lane_forms = true, .small = true),
    LAYOUTS("equal", 5, 20, 20 * 1024 + 5, .equal = true),
    CASE("deep_tiles", 61, 83, 801, .form = FORM_TIGHT),
    CASE("tall", 2100, 3, 17, .small = true),
    CASE("wide", 3, 1025, 17, .ta = true),
    CASE("no_products_beta", 5, 40, 0, .beta = 2.0f, .bias = true),
    CASE("f32_bf16_f16", 33, 45, 50, .type = {CLT_F32, CLT_BF16, CLT_F16}, .form = FORM_PADDED),
    CASE("f16_f32", 33, 45, 50, .tb = true, .type = {CLT_F16, CLT_F32, CLT_F32}, .form = FORM_PADDED),
    CASE("bias", 37, 41, 29, .bias = true, .form = FORM_PADDED),
    CASE("gelu_erf", 37, 41, 29, .tb = true, .bias = true, .activation = OCL_ACT_GELU_ERF, .small = true),
    CASE("gelu_tanh", 37, 41, 29, .activation = OCL_ACT_GELU_TANH, .form = FORM_PADDED),
    CASE("residual", 37, 41, 29, .tb = true, .bias = true, .residual = EXTRA_OWN, .form = FORM_PADDED),
    CASE("residual_in_place", 37, 41, 29, .residual = EXTRA_C, .form = FORM_PADDED),
    CASE("everything", 37, 41, 29, .tb = true, .batch = 2, .alpha = 0.5f, .beta = -1.0f, .bias = true,
         .activation = OCL_ACT_RELU, .residual = EXTRA_OWN, .form = FORM_PADDED),
    CASE("pre_relu", 13, 37, 8, .bias = true, .activation = OCL_ACT_RELU, .pre = true, .small = true),
    CASE("pre_gelu_tanh", 37, 41, 29, .tb = true, .bias = true, .activation = OCL_ACT_GELU_TANH, .pre = true,
         .form = FORM_PADDED),
    CASE("pre_everything", 19, 53, 29, .batch = 2, .alpha = 0.5f, .beta = -1.0f, .bias = true,
         .activation = OCL_ACT_GELU_ERF, .pre = true, .residual = EXTRA_OWN, .form = FORM_PADDED),
    CASE("pre_bf16", 9, 37, 17, .bias = true, .activation = OCL_ACT_GELU_TANH, .pre = true, TYPES(CLT_BF16)),
    LAYOUTS("dact_relu", 13, 37, 8, .activation = OCL_ACT_RELU, .dact = EXTRA_OWN, .small = true,
            .form = FORM_PADDED),
    CASE("dact_gelu_erf", 37, 41, 29, .activation = OCL_ACT_GELU_ERF, .dact = EXTRA_OWN, .form = FORM_PADDED),
    CASE("dact_gelu_tanh", 37, 64, 29, .activation = OCL_ACT_GELU_TANH, .dact = EXTRA_OWN),
    CASE("dact_added", 37, 41, 29, .alpha = 0.5f, .beta = 1.0f, .batch = 2, .activation = OCL_ACT_GELU_TANH,
         .dact = EXTRA_OWN, .form = FORM_PADDED),
    CASE("dact_in_place", 37, 41, 29, .activation = OCL_ACT_GELU_ERF, .dact = EXTRA_C, .form = FORM_PADDED),
    CASE("dact_f16", 9, 37, 17, .activation = OCL_ACT_GELU_ERF, .dact = EXTRA_OWN, TYPES(CLT_F16)),
    LAYOUTS("vectors", 37, 52, 40, .batch = 2, .form = FORM_ALIGNED),
    CASE("vectors_small", 9, 36, 16, .alpha = TIES_F16, .beta = -0.5f, .bias = true,
         .activation = OCL_ACT_RELU, .pre = true, .residual = EXTRA_OWN, TYPES(CLT_F16), .small = true,
         .form = FORM_ALIGNED),
    CASE("ties_bf16", 9, 37, 21, .alpha = TIES_BF16, .bias = true, .activation = OCL_ACT_RELU,
         .residual = EXTRA_OWN, TYPES(CLT_BF16), .small = true, .form = FORM_PADDED),
    CASE("ties_f16", 9, 37, 21, .tb = true, .alpha = TIES_F16, .activation = OCL_ACT_RELU,
         .residual = EXTRA_OWN, TYPES(CLT_F16), .small = true, .form = FORM_PADDED),
    CASE("vectors_f16", 37, 52, 40, .tb = true, .alpha = 0.5f, .beta = -1.0f, .bias = true,
         .activation = OCL_ACT_GELU_TANH, .pre = true, .residual = EXTRA_OWN, TYPES(CLT_F16),
         .form = FORM_ALIGNED),
    CASE("vectors_bf16", 37, 52, 40, .bias = true, .activation = OCL_ACT_GELU_ERF, .residual = EXTRA_C,
         TYPES(CLT_BF16), .form = FORM_ALIGNED),
    /* 16-bit operands and a sum in f32, as with precision.residual f32 */
    CASE("residual_bf16_f32", 37, 41, 29, .tb = true, .bias = true, .residual = EXTRA_OWN,
         .type = {CLT_BF16, CLT_BF16, CLT_F32}, .form = FORM_PADDED),
    CASE("vectors_f16_f32", 37, 52, 40, .tb = true, .bias = true, .residual = EXTRA_OWN,
         .type = {CLT_F16, CLT_F16, CLT_F32}, .small = true, .form = FORM_ALIGNED),
    CASE("vectors_dact", 37, 52, 40, .ta = true, .beta = 1.0f, .activation = OCL_ACT_GELU_ERF,
         .dact = EXTRA_OWN, TYPES(CLT_BF16), .form = FORM_ALIGNED),
    CASE("vectors_dact_f32", 37, 52, 40, .activation = OCL_ACT_RELU, .dact = EXTRA_C, .form = FORM_ALIGNED),
    CASE("vectors_everything", 37, 52, 40, .tb = true, .beta = 0.5f, .bias = true,
         .activation = OCL_ACT_GELU_ERF, .pre = true, .residual = EXTRA_OWN, .form = FORM_ALIGNED),
    LAYOUTS("large", 257, 255, 253, .form = FORM_PADDED),
    CASE("large_batch", 256, 256, 256, .batch = 2),
    /* Windows of images: forward and gradients of the image (NT, NN), gradients of the weight (TN). Sizes
     * that are multiples of vectors and sizes that are not, windows that reach over every edge, steps over
     * several rows of the image. */
    CASE("windows_nt", 0, 40, 0, .tb = true, .small = true, .bias = true, .unit = "mma_f16",
         AROUND(A, 2, 9, 11, .channels = 16)),
    CASE("windows_nt_stride", 0, 33, 0, .tb = true, .small = true, .form = FORM_ALIGNED, .unit = "mma_bf16",
         WINDOWS(A, 3, {1, 13, 10}, {1, 3, 2}, {1, 2, 3}, {1, 2, 1}, {0, 2, 1}, .channels = 24)),
    CASE("windows_nt_odd", 0, 29, 0, .tb = true, .small = true, .form = FORM_PADDED, .unit = "mma_f16",
         WINDOWS(A, 2, {1, 17, 15}, {1, 7, 7}, {1, 2, 2}, .padding = {0, 3, 3}, .channels = 3)),
    /* negative padding, more places than the image, another layout of the weight */
    CASE("windows_nn_phase", 0, 24, 0, .beta = 1.0f, .small = true, .form = FORM_PADDED, .unit = "mma_tf32",
         WINDOWS(A, 2, {1, 7, 6}, {1, 2, 3}, .padding = {0, -1, 1}, .out = {1, 8, 7}, .channels = 40)),
    /* all operands of an epilogue: the most arguments of a kernel */
    CASE("windows_nt_epilogue", 0, 19, 0, .tb = true, .small = true, .form = FORM_PADDED, .bias = true,
         .pre = true, .residual = EXTRA_OWN, .activation = OCL_ACT_RELU, .unit = "mma_tf32",
         AROUND(A, 2, 6, 7, .channels = 8)),
    CASE("windows_nt_bf16", 0, 37, 0, .tb = true, .small = true, .alpha = TIES_BF16, TYPES(CLT_BF16),
         .unit = "mma_bf16", AROUND(A, 2, 7, 5, .channels = 16)),
    CASE("windows_nn_odd", 0, 21, 0,
         WINDOWS(A, 3, {1, 5, 6}, {1, 2, 2}, .padding = {0, 1, 0}, .channels = 13)),
    CASE("windows_nt_volume", 0, 17, 0, .tb = true, .form = FORM_ALIGNED,
         WINDOWS(A, 2, {5, 6, 4}, {2, 3, 3}, {2, 1, 1}, {1, 1, 2}, {1, 1, 2}, .channels = 8)),
    CASE("windows_nt_groups", 0, 12, 0, .tb = true, .form = FORM_PADDED,
         AROUND(A, 2, 6, 5, .channels = 8, .groups = 3)),
    CASE("windows_tn", 37, 0, 0, .ta = true, .small = true, .unit = "mma_f16",
         AROUND(B, 3, 9, 11, .channels = 16)),
    CASE("windows_tn_stride", 64, 0, 0, .ta = true, .small = true, .beta = 1.0f, .form = FORM_ALIGNED,
         .unit = "mma_tf32",
         WINDOWS(B, 5, {1, 13, 10}, {1, 3, 2}, {1, 2, 3}, {1, 2, 1}, {0, 2, 1}, .channels = 24)),
    CASE("windows_tn_odd", 19, 0, 0, .ta = true, .small = true, .form = FORM_PADDED, .unit = "mma_bf16",
         WINDOWS(B, 2, {1, 17, 15}, {1, 7, 7}, {1, 2, 2}, .padding = {0, 3, 3}, .channels = 3)),
    CASE("windows_tn_volume", 16, 0, 0, .ta = true, .form = FORM_ALIGNED,
         WINDOWS(B, 2, {5, 6, 4}, {2, 3, 3}, {2, 1, 1}, {1, 1, 2}, {1, 1, 2}, .channels = 8)),
    CASE("windows_tn_groups", 12, 0, 0, .ta = true, .form = FORM_PADDED,
         AROUND(B, 2, 6, 5, .channels = 8, .groups = 3)),
    CASE("windows_tn_groups_aligned", 16, 0, 0, .ta = true, AROUND(B, 2, 6, 5, .channels = 8, .groups = 3)),
    /* fewer places in an image than steps in a tile */
    CASE("windows_tn_places", 24, 0, 0, .ta = true, WINDOWS(B, 71, {1, 2, 3}, {1, 2, 2}, .channels = 8)),
    /* Several micro-panels, and several blocks of k, of `lane`. */
    CASE("windows_micro_panels_nt", 0, 149, 0, .tb = true, .lane_forms = true, .form = FORM_PADDED,
         AROUND(A, 1, 5, 6, .channels = 56)),
    CASE("windows_micro_panels_tn", 29, 0, 0, .ta = true, .lane_forms = true, .form = FORM_PADDED,
         AROUND(B, 2, 16, 17, .channels = 17)),
    /* A layer of ResNet-50 with smaller images: whole tiles, in which every access is full. */
    CASE("windows_large_nt", 0, 128, 0, .tb = true, AROUND(A, 2, 16, 16, .channels = 128)),
    CASE("windows_large_nn", 0, 128, 0, AROUND(A, 2, 16, 16, .channels = 128)),
    CASE("windows_large_tn", 128, 0, 0, .ta = true, AROUND(B, 2, 16, 16, .channels = 128)),
    /* Kinds of layers of ResNet-50, on smaller images: the first one, 64 and 512 channels, a shortcut. */
    CASE("windows_first_nt", 0, 64, 0, .tb = true,
         WINDOWS(A, 1, {1, 64, 64}, {1, 7, 7}, {1, 2, 2}, .padding = {0, 3, 3}, .channels = 3)),
    CASE("windows_first_tn", 64, 0, 0, .ta = true,
         WINDOWS(B, 1, {1, 64, 64}, {1, 7, 7}, {1, 2, 2}, .padding = {0, 3, 3}, .channels = 3)),
    CASE("windows_layer64_nt", 0, 64, 0, .tb = true, AROUND(A, 1, 8, 56, .channels = 64)),
    CASE("windows_layer64_tn", 64, 0, 0, .ta = true, AROUND(B, 1, 8, 56, .channels = 64)),
    CASE("windows_layer512_nt", 0, 64, 0, .tb = true, AROUND(A, 1, 7, 7, .channels = 512)),
    CASE("windows_layer512_tn", 64, 0, 0, .ta = true, AROUND(B, 1, 7, 7, .channels = 512)),
    CASE("windows_layer_short_nt", 0, 128, 0, .tb = true,
         WINDOWS(A, 1, {1, 28, 28}, {1, 1, 1}, {1, 2, 2}, .channels = 64)),
    CASE("windows_layer_short_tn", 128, 0, 0, .ta = true,
         WINDOWS(B, 1, {1, 28, 28}, {1, 1, 1}, {1, 2, 2}, .channels = 64)),
    /* Moments: numbers of rows and columns that fill no tile, blocks of several tiles, groups side by side,
     * each storage type; and columns far from 0, where sums of squares would cancel. */
    CASE("moments", 61, 45, 19, .tb = true, .bias = true, .moments = true, .small = true,
         .form = FORM_PADDED),
    CASE("moments_far", 263, 67, 33, .tb = true, .bias = true, .apart = 3000.0f, .moments = true,
         .small = true),
    CASE("moments_f16", 137, 48, 24, .tb = true, .bias = true, .apart = 40.0f, TYPES(CLT_F16),
         .moments = true, .small = true, .form = FORM_ALIGNED),
    CASE("moments_bf16_odd", 75, 37, 31, .tb = true, .bias = true, .apart = 40.0f, TYPES(CLT_BF16),
         .moments = true, .small = true),
    CASE("moments_relu", 43, 33, 11, .bias = true, .activation = OCL_ACT_RELU, .moments = true,
         .small = true),
    CASE("moments_blocks", 1203, 150, 520, .tb = true, .moments = true, .lane_forms = true),
    CASE("moments_forms", 413, 331, 72, .tb = true, .bias = true, .apart = 100.0f, .moments = true,
         .forms = true),
    CASE("moments_forms_aligned", 300, 264, 72, .tb = true, TYPES(CLT_F16), .moments = true, .forms = true,
         .form = FORM_ALIGNED),
    CASE("moments_windows", 0, 24, 0, .tb = true, .bias = true, .small = true, .moments = true,
         .unit = "mma_f16", TYPES(CLT_F16), AROUND(A, 2, 9, 11, .channels = 16)),
    CASE("moments_groups", 0, 7, 0, .tb = true, .small = true, .moments = true, .unit = "mma_tf32",
         AROUND(A, 3, 6, 5, .channels = 8, .groups = 3)),
    /* Sums of A's lines: lines that fill no tile; several tiles of columns, which take turns; parts of k. */
    CASE("line_sums_bf16", 88, 312, 2136, .ta = true, .type = {CLT_BF16, CLT_BF16, CLT_F32},
         .line_sums = LINE_SUMS_STORED, .form = FORM_ALIGNED),
    CASE("line_sums_added", 200, 136, 152, .type = {CLT_F16, CLT_F16, CLT_F32}, .line_sums = LINE_SUMS_ADDED,
         .form = FORM_ALIGNED),
    CASE("line_sums_forms", 264, 520, 1096, .ta = true, .type = {CLT_BF16, CLT_BF16, CLT_F32},
         .line_sums = LINE_SUMS_ADDED, .forms = true, .form = FORM_ALIGNED),
    CASE("windows_forms_nt", 0, 71, 0, .tb = true, .forms = true, AROUND(A, 2, 10, 9, .channels = 24)),
    CASE("windows_forms_nn", 0, 136, 0, .forms = true, AROUND(A, 2, 10, 9, .channels = 16)),
    CASE("windows_forms_tn", 72, 0, 0, .ta = true, .forms = true, AROUND(B, 2, 10, 9, .channels = 24)),
    {0},
};
