/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a GGUF file: header, settings, a table of tensors, and their values, each at a multiple of 32 bytes.
 * Tensors get the names, the layouts and the order of rows that llama.cpp expects. */
#include "engine/pretrained/gguf/gguf.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/pretrained/gguf/gguf_internal.h"

#define VERSION 3
#define BLOCK 32        /* values in a block of q8_0 */
#define BLOCK_BYTES 34u /* bytes of a block: its factor and its values */

bool clt_gguf_type_from_name(const char *name, clt_gguf_type *type)
{
    static const struct {
        const char *name;
        clt_gguf_type type;
    } types[] = {
        {"f32", CLT_GGUF_F32}, {"f16", CLT_GGUF_F16}, {"bf16", CLT_GGUF_BF16}, {"q8_0", CLT_GGUF_Q8_0}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].name, name) == 0) {
            *type = types[i].type;
            return true;
        }
    return false;
}

bool clt_gguf_stays_f32(const clt_model_published *names, const clt_named_tensor *tensor)
{
    return tensor->shape.ndim != 2 || (names->places && clt_ends_with(tensor->name, names->places));
}

/* --- names --- */

/* Names in transformers, without the prefix and the number of the block, and names in llama.cpp. */
static const char *const names[][2] = {{"wte", "token_embd"},
                                       {"wpe", "position_embd"},
                                       {"ln_f", "output_norm"},
                                       {"embed_tokens", "token_embd"},
                                       {"norm", "output_norm"},
                                       {"lm_head", "output"},
                                       {"ln_1", "attn_norm"},
                                       {"ln_2", "ffn_norm"},
                                       {"attn.c_attn", "attn_qkv"},
                                       {"attn.c_proj", "attn_output"},
                                       {"mlp.c_fc", "ffn_up"},
                                       {"mlp.c_proj", "ffn_down"},
                                       {"self_attn.q_proj", "attn_q"},
                                       {"self_attn.k_proj", "attn_k"},
                                       {"self_attn.v_proj", "attn_v"},
                                       {"self_attn.o_proj", "attn_output"},
                                       {"self_attn.q_norm", "attn_q_norm"},
                                       {"self_attn.k_norm", "attn_k_norm"},
                                       {"input_layernorm", "attn_norm"},
                                       {"post_attention_layernorm", "ffn_norm"},
                                       {"mlp.gate_proj", "ffn_gate"},
                                       {"mlp.up_proj", "ffn_up"},
                                       {"mlp.down_proj", "ffn_down"}};

/* A tensor of the file. */
typedef struct item {
    const clt_named_tensor *from;
    const char *name;
    int64_t rows, columns; /* shape in the file; `rows` 0: a vector of `columns` values */
    bool transposed;       /* the checkpoint's shape is (columns, rows) */
    /* number of heads whose rows change to llama.cpp's layout of rotary pairs; 0: none */
    int64_t heads;
    clt_gguf_type type;
    uint64_t offset, bytes;
} item;

typedef struct writer {
    hf_export x;
    const char *architecture;
    clt_gguf_type type;
    item *items;
    int count;
    float *factors; /* divisors of rotary frequencies; NULL: none */
    clt_named_tensor factor_tensor;
    clt_str head;
} writer;

static void writer_free(writer *w)
{
    free(w->items);
    free(w->factors);
    clt_str_free(&w->head);
    hf_export_free(&w->x);
}
CLT_SCOPED_VALUE(writer, writer_free)

/* Splits a name: "model.layers.3.mlp.up_proj.weight" is block 3, "mlp.up_proj", ".weight". *block -1:
 * none. */
static const char *part_of(const writer *w, const char *name, int64_t *block, size_t *length)
{
    static const char *const stems[] = {"h.", "layers."};
    const size_t prefix = strlen(w->x.names->prefix);
    if (strncmp(name, w->x.names->prefix, prefix) == 0)
        name += prefix;
    *block = -1;
    for (int i = 0; i < 2; i++)
        if (strncmp(name, stems[i], strlen(stems[i])) == 0) {
            char *end;
            *block = strtol(name + strlen(stems[i]), &end, 10);
            name = end + 1;
        }
    const char *dot = strrchr(name, '.');
    *length = dot ? (size_t)(dot - name) : strlen(name);
    return name;
}

static bool is_part(const char *part, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(part, name, length) == 0;
}

/* In queries and keys of llama, llama.cpp has rotary pairs side by side, (2j, 2j+1); the checkpoint has
 * (j, j + head_dim / 2). */
static int64_t heads_of(const writer *w, const char *part, size_t length)
{
    if (strcmp(w->architecture, "llama") != 0)
        return 0;
    return is_part(part, length, "self_attn.q_proj")   ? w->x.heads
           : is_part(part, length, "self_attn.k_proj") ? w->x.kv_heads
                                                       : 0;
}

static bool is_transposed(const char *part, size_t length)
{
    return is_part(part, length, "attn.c_attn") || is_part(part, length, "attn.c_proj") ||
           is_part(part, length, "mlp.c_fc") || is_part(part, length, "mlp.c_proj");
}

static clt_status describe(writer *w, const clt_named_tensor *t)
{
    item *i = &w->items[w->count++];
    int64_t block;
    size_t length;
    const char *part = part_of(w, t->name, &block, &length), *ours = NULL;
    for (size_t k = 0; k < sizeof names / sizeof names[0] && !ours; k++)
        if (is_part(part, length, names[k][0]))
            ours = names[k][1];
    if (!ours)
        CLT_FAIL(CLT_EUNSUPPORTED, "exporting '%s' as GGUF: llama.cpp has no tensor for %s", w->x.saved->path,
                 t->name);
    bool matrix = t->shape.ndim == 2;
    *i = (item){.from = t, .heads = heads_of(w, part, length)};
    i->transposed = matrix && is_transposed(part, length);
    i->rows = matrix ? t->shape.dim[i->transposed] : 0;
    i->columns = matrix ? t->shape.dim[!i->transposed] : t->shape.dim[0];
    i->type = clt_gguf_stays_f32(w->x.names, t) ? CLT_GGUF_F32 : w->type;
    if (i->type == CLT_GGUF_Q8_0 && i->columns % BLOCK != 0)
        i->type = CLT_GGUF_F16; /* llama.cpp's own converter does the same */
    i->name = block < 0 ? clt_arena_printf(w->x.arena, "%s%s", ours, part + length)
                        : clt_arena_printf(w->x.arena, "blk.%" PRId64 ".%s%s", block, ours, part + length);
    return i->name ? CLT_OK : CLT_ENOMEM;
}

static void describe_factors(writer *w)
{
    w->factor_tensor =
        (clt_named_tensor){"rope_freqs.weight", CLT_F32, clt_shape1(w->x.head_dim / 2), w->factors};
    w->items[w->count++] = (item){.from = &w->factor_tensor,
                                  .name = "rope_freqs.weight",
                                  .columns = w->x.head_dim / 2,
                                  .type = CLT_GGUF_F32};
}

/* --- values --- */

static uint64_t bytes_of(const item *i)
{
    uint64_t n = (uint64_t)(i->rows ? i->rows : 1) * (uint64_t)i->columns;
    return i->type == CLT_GGUF_F32 ? 4 * n : i->type == CLT_GGUF_Q8_0 ? n / BLOCK * BLOCK_BYTES : 2 * n;
}

/* The row of the checkpoint that becomes row `row` of the file. */
static int64_t source_row(const item *i, int64_t row)
{
    const int64_t all = i->rows ? i->rows : i->columns;
    if (!i->heads)
        return row;
    const int64_t size = all / i->heads, head = row / size, place = row % size;
    return head * size + place % 2 * (size / 2) + place / 2;
}

/* Puts the values into the file's order. */
static void arrange(const item *i, const float *from, float *to)
{
    if (!i->rows) {
        for (int64_t c = 0; c < i->columns; c++)
            to[c] = from[source_row(i, c)];
        return;
    }
    for (int64_t r = 0; r < i->rows; r++)
        for (int64_t c = 0; c < i->columns; c++)
            to[r * i->columns + c] =
                i->transposed ? from[c * i->rows + r] : from[source_row(i, r) * i->columns + c];
}

/* Quantises a block: the factor is the largest magnitude / 127, rounded to f16. The values are divided by the
 * unrounded factor and rounded to nearest, as in ggml. */
static void quantise(const float *values, uint8_t out[BLOCK_BYTES])
{
    float largest = 0;
    for (int k = 0; k < BLOCK; k++)
        largest = fmaxf(largest, fabsf(values[k]));
    const float factor = largest / 127, inverse = factor > 0 ? 1 / factor : 0;
    const uint16_t half = clt_f32_to_f16(factor);
    memcpy(out, &half, sizeof half);
    for (int k = 0; k < BLOCK; k++) {
        int8_t whole = (int8_t)roundf(values[k] * inverse);
        memcpy(out + 2 + k, &whole, 1);
    }
}

static clt_status convert(const item *i, const float *values, uint8_t *out)
{
    const uint64_t n = (uint64_t)(i->rows ? i->rows : 1) * (uint64_t)i->columns;
    if (i->type == CLT_GGUF_F32) {
        memcpy(out, values, n * sizeof *values);
        return CLT_OK;
    }
    /* The first value that the type, or the factor of a block, rounds to infinity. */
    const float limit = i->type == CLT_GGUF_Q8_0  ? 65520.0F * 127
                        : i->type == CLT_GGUF_F16 ? 65520.0F
                                                  : 0x1.FFp127F;
    for (uint64_t k = 0; k < n; k++)
        if (!(fabsf(values[k]) < limit))
            CLT_FAIL(CLT_ENUMERIC, "tensor '%s' holds %g, which the type cannot hold; export as %s",
                     i->from->name, (double)values[k], i->type == CLT_GGUF_BF16 ? "f32" : "f32 or bf16");
    for (uint64_t k = 0; i->type == CLT_GGUF_Q8_0 && k < n / BLOCK; k++)
        quantise(values + k * BLOCK, out + k * BLOCK_BYTES);
    for (uint64_t k = 0; i->type != CLT_GGUF_Q8_0 && k < n; k++) {
        uint16_t half = i->type == CLT_GGUF_F16 ? clt_f32_to_f16(values[k]) : clt_f32_to_bf16(values[k]);
        memcpy(out + 2 * k, &half, sizeof half);
    }
    return CLT_OK;
}

static clt_status write_item(const item *i, int fd, const char *path)
{
    const size_t n = (size_t)clt_shape_elements(&i->from->shape);
    const size_t padded = (size_t)clt_align_up(i->bytes, CLT_GGUF_ALIGNMENT);
    CLT_FREED float *values = NULL;
    CLT_FREED float *ordered = NULL;
    CLT_FREED uint8_t *bytes = NULL;
    CLT_TRY(clt_alloc(&values, n, sizeof *values, "the values of a tensor"));
    CLT_TRY(clt_alloc(&ordered, n, sizeof *ordered, "the values of a tensor"));
    CLT_TRY(clt_alloc(&bytes, padded, 1, "the bytes of a tensor"));
    CLT_TRY(clt_named_tensor_to_f32(i->from, values));
    arrange(i, values, ordered);
    CLT_TRY(convert(i, ordered, bytes));
    return clt_fd_write(fd, bytes, padded, path);
}

static clt_status fill(void *context, int fd, const char *path)
{
    const writer *w = context;
    CLT_TRY(clt_fd_write(fd, w->head.text, w->head.length, path));
    for (int i = 0; i < w->count; i++)
        CLT_TRY(write_item(&w->items[i], fd, path));
    /* fails, too, if a mapping was truncated while it was read */
    return clt_checkpoint_whole(w->x.saved->checkpoint);
}

/* --- the file --- */

static clt_status make_items(writer *w)
{
    CLT_TRY(clt_gguf_rope_factors(&w->x, &w->factors));
    CLT_TRY(clt_alloc(&w->items, (size_t)w->x.count + 1, sizeof *w->items, "tensors of a GGUF file"));
    for (int i = 0; i < w->x.count; i++)
        CLT_TRY(describe(w, &w->x.tensors[i]));
    if (w->factors)
        describe_factors(w);
    uint64_t offset = 0;
    for (int i = 0; i < w->count; i++) {
        w->items[i].offset = offset;
        w->items[i].bytes = bytes_of(&w->items[i]);
        offset += clt_align_up(w->items[i].bytes, CLT_GGUF_ALIGNMENT);
        w->x.result->weights.values += clt_shape_elements(&w->items[i].from->shape);
        w->x.result->weights.bytes += w->items[i].bytes;
    }
    w->x.result->weights.tensors = w->count;
    return CLT_OK;
}

static clt_status make_head(writer *w)
{
    CLT_SCOPED(clt_str) pairs = {0};
    uint64_t count;
    CLT_TRY(clt_gguf_metadata(&w->x, w->architecture, w->type, &pairs, &count));
    clt_str_append(&w->head, "GGUF");
    clt_gguf_number(&w->head, VERSION, 4);
    clt_gguf_number(&w->head, (uint64_t)w->count, 8);
    clt_gguf_number(&w->head, count, 8);
    clt_str_append_n(&w->head, pairs.text, pairs.length);
    for (int k = 0; k < w->count; k++) {
        const item *i = &w->items[k];
        clt_gguf_text(&w->head, i->name, strlen(i->name));
        clt_gguf_number(&w->head, i->rows ? 2 : 1, 4);
        clt_gguf_number(&w->head, (uint64_t)i->columns, 8);
        if (i->rows)
            clt_gguf_number(&w->head, (uint64_t)i->rows, 8);
        clt_gguf_number(&w->head, (uint64_t)i->type, 4);
        clt_gguf_number(&w->head, i->offset, 8);
    }
    while (w->head.length % CLT_GGUF_ALIGNMENT != 0 && !w->head.failed)
        clt_gguf_number(&w->head, 0, 1);
    return clt_str_check(&w->head);
}

clt_status clt_gguf_export(const clt_saved_run *saved, clt_merge *merge, clt_values values,
                           clt_gguf_type type, const char *path, clt_hf_exported *result)
{
    CLT_SCOPED(writer) w = {.x = {.saved = saved, .merge = merge, .result = result}, .type = type};
    CLT_TRY(clt_export_check_outside(path));
    CLT_TRY(hf_export_gather(&w.x));
    CLT_TRY(clt_gguf_architecture(&w.x, &w.architecture));
    CLT_TRY(make_items(&w));
    CLT_TRY(make_head(&w));
    CLT_TRY(clt_file_write_by(path, fill, &w));
    snprintf(result->weights.from, sizeof result->weights.from, "%s", saved->path);
    result->weights.averaged = values == CLT_VALUES_AVERAGED && clt_checkpoint_averages(saved->checkpoint);
    return CLT_OK;
}
