/* SPDX-License-Identifier: Apache-2.0
 *
 * Muon (Jordan and others, "Muon: An optimizer for hidden layers in neural networks", 2024), as in
 * torch.optim.Muon: the momentum of a weight matrix is made nearly orthogonal by five Newton-Schulz steps,
 * here in f32, so that an update changes all directions equally. Matrices of one shape are computed in one
 * batch. Vectors, embeddings and the last layer are updated as by AdamW. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cl/gemm/gemm.h"
#include "engine/base/mem.h"
#include "engine/optim/optimizer.h"

/* The factor by which a matrix's learning rate is multiplied. */
#define SCALES "match_rms_adamw|original"
enum { MATCH_RMS_ADAMW, ORIGINAL };

/* The values of beta1 and the keys after it are AdamW's. */
enum { MOMENTUM, NESTEROV, SCALE, OTHERS, BETA1 };
static const clt_config_key keys[] = {
    CLT_KEY_FLOAT_OPEN("optimizer.muon_momentum", 0, false, 1, true, "0.95", "", "momentum of matrices"),
    CLT_KEY_BOOL("optimizer.muon_nesterov", "true", "Nesterov momentum of matrices"),
    CLT_KEY_CHOICE("optimizer.muon_scale", SCALES, "\"match_rms_adamw\"",
                   "learning rate of a matrix: times 0.2*sqrt(max(rows, columns)), which makes updates as "
                   "large as AdamW's; or times sqrt(max(1, rows/columns))"),
    CLT_KEY_FLOAT("optimizer.adamw_rate", 0, 1e6, "1", "",
                  "learning rate of what AdamW updates, as a multiple of optimizer.learning_rate"),
    CLT_KEY_BETA1,
    CLT_KEY_BETA2,
    CLT_KEY_EPS,
    CLT_KEY_STRINGS("optimizer.adamw", "[]",
                    "matrices that AdamW updates as well, by name: * matches any characters, \"*.attn.*\""),
    CLT_KEY_END};

/* Five steps X' = a X + b G X + c G G X with G = X X^T. */
#define STEPS 5
static const double a = 3.4445, b = -4.7750, c = 2.0315;
#define LEAST_NORM 1e-7
/* The first rounding error grows by a^5 = 485, as a small X does. Later errors grow less, so twice that
 * factor covers all of them. */
#define MATRIX_ERROR 1000

static int states(const double *value)
{
    (void)value;
    return 2;
}

static void define(ocl_emitter *e, const double *value)
{
    ocl_define(e, "NESTEROV", value[NESTEROV] > 0);
}

static void arguments(ocl_emitter *e, const double *value)
{
    ocl_arg_f32(e, (float)value[MOMENTUM]);
    ocl_arg_f32(e, (float)(1.0 - value[MOMENTUM]));
    ocl_arg_f32(e, (float)value[OTHERS]);
    clt_optimizer_adamw.arguments(e, value + BETA1);
}

static void corrections(const double *value, int64_t t, double correction[CLT_OPTIMIZER_CORRECTIONS])
{
    clt_optimizer_adamw.corrections(value + BETA1, t, correction);
}

static bool adapts(const double *value, bool decays, bool matrix)
{
    (void)value;
    (void)decays;
    return matrix;
}

static double matrix_rate(const double *value, int64_t rows, int64_t cols)
{
    double larger = (double)(rows > cols ? rows : cols);
    return value[SCALE] > MATCH_RMS_ADAMW ? sqrt(fmax(1.0, (double)rows / (double)cols)) : 0.2 * sqrt(larger);
}

/* --- on the device --- */

/* Emits the products of a batch, from tensors whose matrices are `stride` elements apart. */
typedef struct operands {
    int32_t a, b, c, add; /* c = alpha a b + add; if `add` is -1, nothing is added */
    int64_t stride_a, stride_b, stride_c;
    double alpha;
} operands;

static clt_status multiply(ocl_emitter *e, const clt_matrix_batch *batch, ocl_gemm g, const operands *o)
{
    g.batch = batch->count;
    g.stride_a = o->stride_a;
    g.stride_b = o->stride_b;
    g.stride_c = o->stride_c;
    g.alpha = (float)o->alpha;
    g.a = ocl_ref(o->a);
    g.b = ocl_ref(o->b);
    g.c = ocl_ref(o->c);
    g.residual = ocl_ref(o->add);
    return ocl_gemm_emit(e, &g, batch->plain ? "simple" : NULL);
}

/* Each step adds X and G to products of them; a product can add a matrix only without a factor. So with P =
 * G + c/b G G the step is X' = a (X + b/a P X), and the powers of a are multiplied in at the end. For a tall
 * X the smaller G is on the other side: X P with G = X^T X. If sums must have the same order on all devices,
 * every X uses the form for a tall X: the other one multiplies rows with rows, which is summed in vectors,
 * whose width depends on the device. */
static clt_status orthogonalise(ocl_emitter *e, const clt_matrix_batch *batch, int32_t *result,
                                double *factor)
{
    int64_t rows = batch->rows, cols = batch->cols;
    bool right = batch->plain || rows > cols;
    int64_t side = right ? cols : rows, between = (int64_t)clt_align_up((uint64_t)(side * side), 16);
    uint64_t elements = (uint64_t)(batch->count * between);
    int32_t gram = ocl_workspace(e, CLT_F32, elements, "Gram matrices");
    int32_t sum = ocl_workspace(e, CLT_F32, elements, "Gram matrices");
    int32_t x = batch->x, next = batch->y;
    double power = 1.0;
    for (int step = 0; step < STEPS; step++) {
        operands of_x = {x, x, gram, -1, batch->stride, batch->stride, between, power * power};
        operands of_gram = {gram, gram, sum, gram, between, between, between, c / b};
        operands from_left = {sum, x, next, x, between, batch->stride, batch->stride, b / a};
        operands from_right = {x, sum, next, x, batch->stride, between, batch->stride, b / a};
        CLT_TRY(multiply(e, batch, ocl_gemm_make(side, side, right ? rows : cols, right, !right), &of_x));
        CLT_TRY(multiply(e, batch, ocl_gemm_make(side, side, side, false, false), &of_gram));
        CLT_TRY(multiply(e, batch, ocl_gemm_make(rows, cols, side, false, false),
                         right ? &from_right : &from_left));
        int32_t done = x;
        x = next;
        next = done;
        power *= a;
    }
    *result = x;
    *factor = power;
    return CLT_OK;
}

/* --- in double precision --- */

static void reference(const double *value, const clt_update_factors *f, double gradient, double *p,
                      double *state)
{
    clt_update_factors own = *f;
    own.lr *= value[OTHERS];
    clt_optimizer_adamw.reference(value + BETA1, &own, gradient, p, state);
}

static double spread(const double *value, const clt_update_factors *f, double error, double g,
                     const double *before, const double *after)
{
    return value[OTHERS] * clt_optimizer_adamw.spread(value + BETA1, f, error, g, before, after);
}

/* Computes x' = a x + (b G + c G G) x with G = x x^T; g and h have room for rows x rows, `next` for as many
 * elements as x. */
static void step_reference(int64_t rows, int64_t cols, double *x, double *g, double *h, double *next)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < rows; j++) {
            g[i * rows + j] = 0;
            for (int64_t k = 0; k < cols; k++)
                g[i * rows + j] += x[i * cols + k] * x[j * cols + k];
        }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < rows; j++) {
            h[i * rows + j] = b * g[i * rows + j];
            for (int64_t k = 0; k < rows; k++)
                h[i * rows + j] += c * g[i * rows + k] * g[k * rows + j];
        }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            next[i * cols + j] = a * x[i * cols + j];
            for (int64_t k = 0; k < rows; k++)
                next[i * cols + j] += h[i * rows + k] * x[k * cols + j];
        }
    memcpy(x, next, (size_t)(rows * cols) * sizeof *x);
}

static clt_status matrix_reference(const double *value, const clt_update_factors *f, int64_t rows,
                                   int64_t cols, const double *gradient, double *p, double *momentum)
{
    int64_t n = rows * cols;
    double *x, norm = 0.0, mu = value[MOMENTUM], rate = f->lr * matrix_rate(value, rows, cols);
    CLT_TRY(clt_alloc(&x, (size_t)(2 * n + 2 * rows * rows), sizeof *x, "matrices of the reference"));
    for (int64_t i = 0; i < n; i++) {
        double g = gradient[i] * f->gradient;
        momentum[i] = mu * momentum[i] + (1.0 - mu) * g;
        x[i] = value[NESTEROV] > 0 ? (1.0 - mu) * g + mu * momentum[i] : momentum[i];
        norm += x[i] * x[i];
    }
    norm = fmax(sqrt(norm), LEAST_NORM);
    for (int64_t i = 0; i < n; i++)
        x[i] /= norm;
    for (int step = 0; step < STEPS; step++)
        step_reference(rows, cols, x, x + 2 * n, x + 2 * n + rows * rows, x + n);
    for (int64_t i = 0; i < n; i++)
        p[i] = p[i] * (1.0 - f->lr * f->decay) - rate * x[i];
    free(x);
    return CLT_OK;
}

const clt_config_part clt_config_optimizer_muon = {
    .name = "muon",
    .help =
        "Muon: momentum of weight matrices made orthogonal, with decoupled weight decay; AdamW for vectors, "
        "embeddings and the last layer",
    .keys = keys};

const clt_optimizer clt_optimizer_muon = {.config = &clt_config_optimizer_muon,
                                          .program = "muon",
                                          .kernel = "update_muon",
                                          .norms = "muon_norms",
                                          .ratio = "muon_ratio",
                                          .gather = "muon_gather",
                                          .apply = "muon_apply",
                                          .matrix_states = 1,
                                          .elementwise = "optimizer.adamw",
                                          .flops = 14,
                                          .states = states,
                                          .define = define,
                                          .arguments = arguments,
                                          .corrections = corrections,
                                          .reference = reference,
                                          .adapts = adapts,
                                          .spread = spread,
                                          .orthogonalise = orthogonalise,
                                          .matrix_rate = matrix_rate,
                                          .matrix_reference = matrix_reference,
                                          .matrix_error = MATRIX_ERROR};
