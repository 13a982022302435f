/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision reference of attention, row by row with every probability written out, and its test
 * cases. Knows formulas only. */
#include <math.h>
#include <stdlib.h>

#include "engine/base/rng.h"
#include "engine/ops/case.h"

typedef struct ref_sizes {
    int64_t batch, tq, tk, heads, kv_heads, dim;
    bool packed, causal;
    int length, documents; /* indices of inputs; -1: none */
    int64_t window;        /* 0: none */
    double scale, p;
} ref_sizes;

static ref_sizes ref_measure(const clt_ref_call *call)
{
    const clt_shape *q = &call->in[0].shape;
    bool documents = clt_node_attr(call->node, "documents")->b;
    int last = call->n_in == 2 || call->n_in == 4 ? call->n_in - 1 : -1;
    ref_sizes s = {.batch = q->dim[0],
                   .tq = q->dim[1],
                   .tk = call->n_in >= 3 ? call->in[1].shape.dim[1] : q->dim[1],
                   .heads = clt_node_attr(call->node, "heads")->i,
                   .kv_heads = clt_node_attr(call->node, "kv_heads")->i,
                   .packed = call->n_in < 3,
                   .causal = clt_node_attr(call->node, "causal")->b,
                   .length = documents ? -1 : last,
                   .documents = documents ? last : -1,
                   .window = clt_node_attr(call->node, "window")->i,
                   .scale = clt_node_attr(call->node, "scale")->f,
                   .p = call->training ? clt_node_attr(call->node, "dropout")->f : 0.0};
    if (s.kv_heads == 0)
        s.kv_heads = s.heads;
    s.dim = q->dim[2] / (s.packed ? s.heads + 2 * s.kv_heads : s.heads);
    if (s.scale <= 0)
        s.scale = 1.0 / sqrt((double)s.dim);
    return s;
}

/* Index of the first element of row `t` of head `h` in q (which = 0), k (1) or v (2); h counts query heads
 * in q, else key heads. */
static int64_t ref_at(const ref_sizes *s, int which, int64_t n, int64_t t, int64_t h)
{
    int64_t rows = which ? s->tk : s->tq, width = (which ? s->kv_heads : s->heads) * s->dim, start = 0;
    if (s->packed) {
        start = which > 0 ? (s->heads + (which - 1) * s->kv_heads) * s->dim : 0;
        width = (s->heads + 2 * s->kv_heads) * s->dim;
    }
    return (n * rows + t) * width + start + h * s->dim;
}

static double *ref_row(const clt_ref_tensor *tensors, const ref_sizes *s, int which, int64_t n, int64_t t,
                       int64_t h)
{
    double *data = tensors[s->packed ? 0 : which].data;
    return data ? data + ref_at(s, which, n, t, h) : NULL;
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* One row of attention: query i of head h of sample n. */
typedef struct ref_line {
    int64_t n, h, g, i, from, keys; /* it attends to the keys from `from` on, below `keys` */
    double lse;
    double *p, *keep; /* arrays of tk elements */
} ref_line;

static double ref_keep(const clt_ref_call *call, const ref_sizes *s, const ref_line *line, int64_t j)
{
    if (s->p <= 0)
        return 1;
    uint64_t row =
        ((call->sample_base + (uint64_t)line->n) * (uint64_t)s->heads + (uint64_t)line->h) * (uint64_t)s->tq +
        (uint64_t)line->i;
    uint32_t word = clt_rng_u32(call->seed, CLT_RNG_DROPOUT, call->op_id, call->step,
                                row * (uint64_t)s->tk + (uint64_t)j);
    return clt_rng_uniform(word) >= (float)s->p ? 1 / (1 - s->p) : 0;
}

/* Limits the line's keys to the document of its query: the neighbours with the same number. */
static void ref_document(clt_ref_call *call, const ref_sizes *s, ref_line *line)
{
    const double *number = call->in[s->documents].data + line->n * s->tk;
    int64_t first = line->i, end = line->i + 1;
    while (first > 0 && number[first - 1] == number[line->i])
        first--;
    while (end < s->tk && number[end] == number[line->i])
        end++;
    line->from = first > line->from ? first : line->from;
    line->keys = end < line->keys ? end : line->keys;
    if (call->n_saved > 1 && call->saved[1].data) {
        call->saved[1].data[2 * (line->n * s->tk + line->i)] = (double)first;
        call->saved[1].data[2 * (line->n * s->tk + line->i) + 1] = (double)end;
    }
}

static void ref_probabilities(clt_ref_call *call, const ref_sizes *s, ref_line *line)
{
    const double *q = ref_row(call->in, s, 0, line->n, line->i, line->h);
    int64_t length = s->length < 0 ? s->tk : (int64_t)call->in[s->length].data[line->n];
    length = length < 0 ? 0 : length > s->tk ? s->tk : length;
    double top = -INFINITY, sum = 0;
    line->keys = s->causal ? line->i + length - s->tq + 1 : length;
    if (line->keys < 0)
        line->keys = 0;
    line->from = s->window > 0 && line->keys > s->window ? line->keys - s->window : 0;
    if (s->documents >= 0)
        ref_document(call, s, line);
    for (int64_t j = line->from; j < line->keys; j++) {
        line->p[j] = s->scale * dot(q, ref_row(call->in, s, 1, line->n, j, line->g), s->dim);
        top = fmax(top, line->p[j]);
    }
    for (int64_t j = line->from; j < line->keys; j++)
        sum += exp(line->p[j] - top);
    line->lse = line->keys ? top + log(sum) : 0;
    for (int64_t j = line->from; j < line->keys; j++) {
        line->p[j] = exp(line->p[j] - line->lse);
        line->keep[j] = ref_keep(call, s, line, j);
    }
}

static void line_forward(clt_ref_call *call, const ref_sizes *s, const ref_line *line)
{
    int64_t row = (line->n * s->tq + line->i) * s->heads + line->h;
    double *y = call->out[0].data + row * s->dim;
    for (int64_t d = 0; d < s->dim; d++)
        y[d] = 0;
    for (int64_t j = line->from; j < line->keys; j++)
        for (int64_t d = 0; d < s->dim; d++)
            y[d] += line->p[j] * line->keep[j] * ref_row(call->in, s, 2, line->n, j, line->g)[d];
    if (call->n_saved > 0 && call->saved[0].data)
        call->saved[0].data[(line->n * s->heads + line->h) * s->tq + line->i] = line->lse;
}

static void line_backward(clt_ref_call *call, const ref_sizes *s, const ref_line *line)
{
    int64_t row = (line->n * s->tq + line->i) * s->heads + line->h;
    const double *dy = call->dout[0].data + row * s->dim;
    const double *q = ref_row(call->in, s, 0, line->n, line->i, line->h);
    double *dq = ref_row(call->din, s, 0, line->n, line->i, line->h), mean = 0;
    /* use the output as it is stored, so that its rounding does not count as an error of backward */
    if (call->out[0].dtype != CLT_F32)
        mean = dot(dy, call->out[0].data + row * s->dim, s->dim);
    for (int64_t j = line->from; j < line->keys && call->out[0].dtype == CLT_F32; j++)
        mean += line->p[j] * line->keep[j] * dot(dy, ref_row(call->in, s, 2, line->n, j, line->g), s->dim);
    for (int64_t j = line->from; j < line->keys; j++) {
        const double *k = ref_row(call->in, s, 1, line->n, j, line->g),
                     *v = ref_row(call->in, s, 2, line->n, j, line->g);
        double *dk = ref_row(call->din, s, 1, line->n, j, line->g),
               *dv = ref_row(call->din, s, 2, line->n, j, line->g);
        double ds = line->p[j] * (dot(dy, v, s->dim) * line->keep[j] - mean) * s->scale;
        for (int64_t d = 0; d < s->dim; d++) {
            if (dq)
                dq[d] += ds * k[d];
            if (dk)
                dk[d] += ds * q[d];
            if (dv)
                dv[d] += line->p[j] * line->keep[j] * dy[d];
        }
    }
}

/* If memory runs out, outputs stay NaN, which fails every comparison. */
static void ref_lines(clt_ref_call *call, void (*each)(clt_ref_call *, const ref_sizes *, const ref_line *))
{
    ref_sizes s = ref_measure(call);
    ref_line line = {.p = malloc(2 * (size_t)s.tk * sizeof *line.p)};
    if (!line.p)
        return;
    line.keep = line.p + s.tk;
    for (line.n = 0; line.n < s.batch; line.n++)
        for (line.h = 0; line.h < s.heads; line.h++)
            for (line.i = 0; line.i < s.tq; line.i++) {
                line.g = line.h / (s.heads / s.kv_heads);
                ref_probabilities(call, &s, &line);
                each(call, &s, &line);
            }
    free(line.p);
}

static void attention_forward(clt_ref_call *call)
{
    ref_lines(call, line_forward);
}

static void attention_backward(clt_ref_call *call)
{
    ref_lines(call, line_backward);
}

#define PACKED_16(name, dtype, attributes, is_small, ...)                                                    \
    CLT_CASE(name, attributes, is_small ? CLT_SMALL : 0, CLT_CASE_FLOAT(dtype, __VA_ARGS__))
#define PACKED(name, attributes, is_small, ...) PACKED_16(name, CLT_F32, attributes, is_small, __VA_ARGS__)
#define QKV(dtype, n, tq, tk, wide, narrow)                                                                  \
    CLT_CASE_FLOAT(dtype, n, tq, wide), CLT_CASE_FLOAT(dtype, n, tk, narrow),                                \
        CLT_CASE_FLOAT(dtype, n, tk, narrow)
#define SEPARATE(name, attributes, is_small, n, tq, tk, wide, narrow)                                        \
    CLT_CASE(name, attributes, is_small ? CLT_SMALL : 0, QKV(CLT_F32, n, tq, tk, wide, narrow))
#define SEPARATE_16(name, dtype, attributes, n, tq, tk, wide, narrow)                                        \
    CLT_CASE(name, attributes, 0, QKV(dtype, n, tq, tk, wide, narrow))

/* Few queries over several tiles of keys, with scores so far apart that the largest one often comes late, so
 * that earlier sums are rescaled. The exponential's relative error grows with the score. */
#define LATE_TOPS(case_name, dtype, error)                                                                   \
    {                                                                                                        \
        .name = case_name, .attrs = "{\"heads\":1,\"scale\":6}", .n_inputs = 3,                              \
        .inputs = {QKV(dtype, 1, 20, 140, 8, 8)}, .tolerance = 1024, .rounding = error, .small = true        \
    }

#define LENGTHS_16(name, dtype, attributes, limit, n, tq, tk, wide, narrow)                                  \
    CLT_CASE(name, attributes, 0, QKV(dtype, n, tq, tk, wide, narrow), CLT_CASE_INDEX(CLT_I32, limit, n))
#define LENGTHS(name, attributes, limit, n, tq, tk, wide, narrow)                                            \
    LENGTHS_16(name, CLT_F32, attributes, limit, n, tq, tk, wide, narrow)

/* Packed rows of documents; `numbers` is the input with the documents' numbers, for example RUNS of `mean`
 * tokens on average. */
#define DOCUMENTS(name, dtype, attributes, is_small, numbers, mean, n, t, width)                             \
    CLT_CASE(name, attributes, is_small ? CLT_SMALL : 0, CLT_CASE_FLOAT(dtype, n, t, width),                 \
             CLT_CASE_INPUT(CLT_I32, CLT_FILL_##numbers, mean, n, t))

/* Cases that run with the first value of every tunable: with matrix units the largest tiles, which the
 * variants choose without a tuning record only for many heads. */
#define TUNED_16(case_name, text, ...)                                                                       \
    {                                                                                                        \
        .name = case_name, .attrs = text, .n_inputs = 3, .inputs = {__VA_ARGS__}, .tuned = 1                 \
    }

/* Covered: head sizes below, at and above sixteen lanes, with tails; lengths around the blocks of 16, 32 and
 * 64, and on both sides of one, two and three of the lane variant's tiles of up to 64, 66 and 96 rows;
 * samples whose keys end inside a tile, before it, or before any query attends to one; windows of one key,
 * of more keys than there are, that begin inside tiles, after keys that no query attends to; documents of
 * one token, of a whole row, that end inside tiles, and numbers that are not documents' starts; 16-bit
 * storage with all of these edges and the edges of matrix units: heads of 64, 128 and more, heads that are
 * not a multiple of 16 or of 8, several blocks. */
static const clt_op_case attention_cases[] = {
    PACKED("one", "{\"heads\":1}", true, 1, 1, 3),
    PACKED("second_tile", "{\"heads\":1}", true, 1, 70, 24),
    PACKED("head_36", "{\"heads\":1}", true, 1, 9, 108),
    LATE_TOPS("late_tops", CLT_F32, 2e-4),
    LATE_TOPS("f16_late_tops", CLT_F16, 5e-2),
    PACKED("single_row", "{\"heads\":2}", false, 3, 1, 30),
    PACKED("odd", "{\"heads\":3}", true, 2, 7, 45),
    PACKED("eight", "{\"heads\":2}", false, 2, 17, 48),
    PACKED("not_causal", "{\"heads\":2,\"causal\":false}", false, 2, 19, 48),
    PACKED("scale", "{\"heads\":2,\"scale\":0.5}", false, 1, 9, 54),
    PACKED("shared", "{\"heads\":6,\"kv_heads\":2}", true, 2, 11, 50),
    PACKED("one_kv", "{\"heads\":4,\"kv_heads\":1}", false, 2, 33, 54),
    SEPARATE("separate", "{\"heads\":6,\"kv_heads\":2}", true, 1, 3, 7, 30, 10),
    SEPARATE("cross", "{\"heads\":2,\"causal\":false}", false, 2, 5, 21, 16, 16),
    SEPARATE("longer_keys", "{\"heads\":2,\"kv_heads\":1}", false, 2, 6, 23, 24, 12),
    SEPARATE("last_of_block", "{\"heads\":2}", false, 1, 20, 37, 16,
             16), /* key 32 is attended to from query 15 on */
    SEPARATE("beyond_tile", "{\"heads\":1}", false, 1, 100, 114, 24,
             24), /* queries 0..65 attend to 16 of the keys 64..95 */
    SEPARATE("one_query", "{\"heads\":4}", false, 3, 1, 37, 40, 40),
    SEPARATE("more_queries", "{\"heads\":1,\"causal\":false}", false, 2, 70, 3, 9, 9),
    {.name = "lengths",
     .attrs = "{\"heads\":2,\"causal\":false}",
     .n_inputs = 2,
     /* some queries attend to no key */
     .inputs = {CLT_CASE_F32(25, 20, 42), CLT_CASE_STRAY(CLT_I32, 23, 25)},
     .small = true},
    LENGTHS("causal_lengths", "{\"heads\":2,\"kv_heads\":1}", 68, 7, 5, 67, 22, 11),
    LENGTHS("blind_queries", "{\"heads\":1}", 68, 5, 110, 67, 20, 20),
    LENGTHS("long_lengths", "{\"heads\":4,\"kv_heads\":2}", 200, 3, 70, 199, 68, 34),
    LENGTHS("open_lengths", "{\"heads\":1,\"causal\":false}", 151, 4, 37, 150, 24, 24),
    PACKED("dropout", "{\"heads\":2,\"dropout\":0.3}", true, 2, 19, 48),
    {.name = "dropout_cross", /* some results are small differences of large terms */
     .attrs = "{\"heads\":2,\"dropout\":0.3}",
     .n_inputs = 3,
     .inputs = {CLT_CASE_F32(2, 17, 16), CLT_CASE_F32(2, 21, 16), CLT_CASE_F32(2, 21, 16)},
     .tolerance = 48,
     .small = true},
    PACKED("dropout_long", "{\"heads\":1,\"dropout\":0.1}", false, 2, 129, 51),
    SEPARATE("dropout_shared", "{\"heads\":4,\"kv_heads\":2,\"dropout\":0.5,\"causal\":false}", false, 2, 9,
             70, 32, 16),
    PACKED("dropout_tiles", "{\"heads\":2,\"kv_heads\":1,\"dropout\":0.2}", false, 1, 140, 64),
    PACKED("lanes", "{\"heads\":2}", false, 2, 64, 96),
    PACKED("characters", "{\"heads\":4}", false, 3, 64, 384),
    PACKED("blocks", "{\"heads\":3}", false, 2, 65, 288),
    PACKED("gpt", "{\"heads\":2}", false, 1, 193, 384),
    PACKED("tile", "{\"heads\":1}", false, 1, 66, 192),
    PACKED("tile_and_row", "{\"heads\":5}", false, 2, 97, 240),
    PACKED("tiles_and_row", "{\"heads\":1}", false, 1, 133, 51),
    PACKED("three_tiles", "{\"heads\":1}", true, 1, 199, 60),
    SEPARATE("tiles_shared", "{\"heads\":4,\"kv_heads\":1}", false, 1, 131, 198, 48, 12),
    SEPARATE("few_of_many", "{\"heads\":2}", false, 2, 7, 205, 64, 64),
    PACKED("wide_tiles", "{\"heads\":1}", false, 1, 70, 330),
    PACKED("large_head", "{\"heads\":1}", false, 1, 40, 417),
    PACKED("larger_head", "{\"heads\":1}", false, 1, 33, 903),
    SEPARATE("long_cross", "{\"heads\":2,\"causal\":false}", false, 1, 150, 260, 66, 66),
    PACKED("window", "{\"heads\":2,\"window\":5}", true, 2, 19, 48),
    PACKED("window_one", "{\"heads\":3,\"window\":1}", true, 2, 7, 45),
    PACKED("window_wide", "{\"heads\":2,\"window\":100}", false, 2, 9, 30),
    PACKED("window_tiles", "{\"heads\":4,\"kv_heads\":2,\"window\":37}", false, 1, 199, 160),
    PACKED("window_head_36", "{\"heads\":1,\"window\":130}", false, 1, 300, 108),
    SEPARATE("window_longer_keys", "{\"heads\":2,\"window\":50}", false, 2, 100, 237, 48, 48),
    SEPARATE("window_one_query", "{\"heads\":4,\"kv_heads\":1,\"window\":20}", true, 3, 1, 70, 40, 10),
    LENGTHS("window_lengths", "{\"heads\":2,\"kv_heads\":1,\"window\":21}", 150, 5, 110, 149, 40, 20),
    PACKED("window_dropout", "{\"heads\":2,\"kv_heads\":1,\"dropout\":0.2,\"window\":41}", false, 1, 140, 64),
    DOCUMENTS("documents", CLT_F32, "{\"heads\":2,\"documents\":true}", true, RUNS, 6, 2, 19, 48),
    DOCUMENTS("documents_open", CLT_F32, "{\"heads\":2,\"documents\":true,\"causal\":false}", true, RUNS, 8,
              2, 37, 48),
    DOCUMENTS("documents_of_one", CLT_F32, "{\"heads\":1,\"documents\":true}", false, INDEX, 100000, 2, 21,
              24),
    DOCUMENTS("documents_all_one", CLT_F32, "{\"heads\":1,\"documents\":true}", false, INDEX, 1, 2, 67, 24),
    DOCUMENTS("documents_stray", CLT_F32, "{\"heads\":1,\"documents\":true,\"causal\":false}", false, STRAY,
              2, 3, 70, 24),
    DOCUMENTS("documents_tiles", CLT_F32, "{\"heads\":4,\"kv_heads\":2,\"documents\":true}", false, RUNS, 60,
              2, 299, 160),
    DOCUMENTS("documents_open_tiles", CLT_F32,
              "{\"heads\":4,\"kv_heads\":2,\"documents\":true,\"causal\":false}", false, RUNS, 60, 2, 199,
              288),
    DOCUMENTS("documents_window", CLT_F32, "{\"heads\":2,\"documents\":true,\"window\":30}", false, RUNS, 70,
              2, 199, 96),
    DOCUMENTS("documents_dropout", CLT_F32, "{\"heads\":2,\"documents\":true,\"dropout\":0.3}", false, RUNS,
              40, 2, 133, 48),
    CLT_CASE("documents_separate", "{\"heads\":4,\"kv_heads\":1,\"documents\":true}", 0,
             QKV(CLT_F32, 2, 131, 131, 48, 12), CLT_CASE_RUNS(CLT_I32, 50, 2, 131)),
    /* small, since matrix units may be emulated */
    CLT_CASE("f16_window", "{\"heads\":1,\"window\":9}", CLT_SMALL,
             QKV(CLT_F16, 1, 45, 70, 8, 8)), /* no query attends to the first 17 keys */
    PACKED_16("f16_window_tiles", CLT_F16, "{\"heads\":2,\"window\":65}", false, 1, 259, 384),
    PACKED_16("bf16_window_shared", CLT_BF16, "{\"heads\":4,\"kv_heads\":2,\"window\":70}", false, 1, 199,
              160),
    PACKED_16("bf16_window_dropout", CLT_BF16, "{\"heads\":1,\"dropout\":0.2,\"window\":30}", false, 1, 136,
              72),
    SEPARATE_16("f16_window_longer_keys", CLT_F16, "{\"heads\":2,\"window\":33}", 1, 70, 200, 80, 80),
    LENGTHS_16("f16_window_lengths", CLT_F16, "{\"heads\":1,\"window\":21}", 150, 3, 110, 149, 40, 40),
    /* a last block of one key, with another sample's documents after it */
    DOCUMENTS("f16_documents", CLT_F16, "{\"heads\":1,\"documents\":true}", true, RUNS, 20, 2, 65, 24),
    DOCUMENTS("bf16_documents_open", CLT_BF16, "{\"heads\":1,\"documents\":true,\"causal\":false}", true,
              RUNS, 20, 1, 70, 24),
    DOCUMENTS("f16_documents_tiles", CLT_F16, "{\"heads\":2,\"kv_heads\":1,\"documents\":true}", false, RUNS,
              60, 2, 259, 256),
    DOCUMENTS("f16_documents_open_tiles", CLT_F16, "{\"heads\":2,\"documents\":true,\"causal\":false}", false,
              RUNS, 60, 1, 259, 384),
    DOCUMENTS("bf16_documents_window", CLT_BF16, "{\"heads\":1,\"documents\":true,\"window\":40}", false,
              RUNS, 90, 1, 199, 120),
    DOCUMENTS("bf16_documents_dropout", CLT_BF16, "{\"heads\":1,\"documents\":true,\"dropout\":0.2}", false,
              RUNS, 40, 1, 136, 72),
    DOCUMENTS("f16_documents_stray", CLT_F16, "{\"heads\":1,\"documents\":true}", false, STRAY, 2, 2, 70, 72),
    PACKED_16("f16", CLT_F16, "{\"heads\":1}", true, 1, 7, 51), /* two steps of a head for matrix units */
    PACKED_16("f16_second_tile", CLT_F16, "{\"heads\":1}", true, 1, 70, 24),
    PACKED_16("f16_odd", CLT_F16, "{\"heads\":3}", false, 2, 7, 45),
    PACKED_16("f16_tiles", CLT_F16, "{\"heads\":2}", false, 1, 133, 96),
    PACKED_16("f16_dropout", CLT_F16, "{\"heads\":2,\"kv_heads\":1,\"dropout\":0.3}", false, 2, 37, 68),
    SEPARATE_16("f16_cross", CLT_F16, "{\"heads\":2,\"causal\":false}", 2, 19, 71, 34, 34),
    PACKED_16("bf16", CLT_BF16, "{\"heads\":2,\"kv_heads\":1}", true, 1, 5, 20),
    PACKED_16("bf16_shared", CLT_BF16, "{\"heads\":6,\"kv_heads\":2}", false, 2, 11, 50),
    PACKED_16("bf16_tiles", CLT_BF16, "{\"heads\":1}", false, 2, 131, 192),
    PACKED_16("bf16_open", CLT_BF16, "{\"heads\":2,\"causal\":false}", false, 2, 19, 48),
    SEPARATE_16("bf16_longer_keys", CLT_BF16, "{\"heads\":4,\"kv_heads\":2}", 1, 35, 99, 68, 34),
    PACKED_16("f16_head_128", CLT_F16, "{\"heads\":1}", false, 1, 70, 384),
    PACKED_16("bf16_head_128", CLT_BF16, "{\"heads\":1,\"causal\":false}", false, 1, 67, 384),
    PACKED_16("f16_head_64", CLT_F16, "{\"heads\":2,\"scale\":0.25}", false, 1, 259, 384),
    PACKED_16("f16_head_72", CLT_F16, "{\"heads\":2,\"kv_heads\":1}", false, 1, 65, 288),
    PACKED_16("bf16_wide_head", CLT_BF16, "{\"heads\":1}", false, 1, 19, 411),
    PACKED_16("bf16_dropout", CLT_BF16, "{\"heads\":1,\"dropout\":0.2}", false, 1, 136, 72),
    LENGTHS_16("f16_blind_queries", CLT_F16, "{\"heads\":1}", 68, 3, 110, 67, 40, 40),
    LENGTHS_16("bf16_lengths", CLT_BF16, "{\"heads\":2,\"kv_heads\":1}", 150, 3, 70, 149, 48, 24),
    LENGTHS_16("f16_open_lengths", CLT_F16, "{\"heads\":1,\"causal\":false}", 151, 3, 37, 150, 24, 24),
    TUNED_16("f16_tuned", "{\"heads\":2}", QKV(CLT_F16, 1, 390, 390, 128, 128)),
    TUNED_16("bf16_tuned_open", "{\"heads\":4,\"kv_heads\":2,\"causal\":false}",
             QKV(CLT_BF16, 1, 150, 400, 132, 66)),
    TUNED_16("bf16_tuned_longer", "{\"heads\":2,\"kv_heads\":1}", QKV(CLT_BF16, 2, 70, 290, 80, 40)),
    TUNED_16("f16_tuned_window", "{\"heads\":2,\"window\":100}", QKV(CLT_F16, 1, 390, 390, 128, 128)),
    {.name = "bf16_tuned_documents",
     .attrs = "{\"heads\":2,\"documents\":true}",
     .n_inputs = 4,
     .inputs = {QKV(CLT_BF16, 1, 390, 390, 128, 128), CLT_CASE_RUNS(CLT_I32, 90, 1, 390)},
     .tuned = 1},
    {.name = "f16_tuned_lengths",
     .attrs = "{\"heads\":2}",
     .n_inputs = 4,
     .inputs = {QKV(CLT_F16, 3, 300, 280, 96, 96), CLT_CASE_INDEX(CLT_I32, 281, 3)},
     .tuned = 1},
};

static const clt_op_case attention_timed[] = {
    CLT_CASE("gpt2", "{\"heads\":12}", 0, CLT_CASE_F32(4, 64, 2304)),
    CLT_CASE("long", "{\"heads\":12}", 0, CLT_CASE_F32(1, 1024, 2304)),
    CLT_CASE("f16_long", "{\"heads\":12}", 0, CLT_CASE_FLOAT(CLT_F16, 1, 1024, 2304)),
    CLT_CASE("longer", "{\"heads\":12}", 0, CLT_CASE_F32(1, 2048, 2304)),
    CLT_CASE("longer_window", "{\"heads\":12,\"window\":256}", 0, CLT_CASE_F32(1, 2048, 2304)),
    CLT_CASE("longer_documents", "{\"heads\":12,\"documents\":true}", 0, CLT_CASE_F32(1, 2048, 2304),
             CLT_CASE_RUNS(CLT_I32, 256, 1, 2048)),
};

/* A score, up to 6 here, has an error of a few eps (it is a sum of D products of mixed sign, D <= 301). The
 * relative error of its exponential is as large, plus 3 units in the last place. A result is a mean of
 * values, or a sum of such terms of mixed sign, and its error stays near that. 16 is three times the largest
 * error seen in any case. */
CLT_OP_REF(attention, attention_forward, attention_backward, attention_cases, .tolerance = 16,
           CLT_TIMED(attention_timed));
