/* SPDX-License-Identifier: Apache-2.0
 *
 * A tool for the test scripts that reads GGUF files without the code that writes them. gguf_compare FILE
 * prints the header, the settings and the tensors; gguf_compare FILE WEIGHTS HEADS KV_HEADS compares every
 * value with the weights of a folder of transformers: f32 exactly, 16 bits by rounding, q8_0 within half a
 * step of its block. HEADS 0: the rows of queries and keys are as in the folder. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "engine/checkpoint/checkpoint.h"

typedef struct reader {
    const uint8_t *at, *end;
} reader;

static uint64_t number(reader *r, int bytes)
{
    uint64_t value = 0;
    if (r->end - r->at < bytes) {
        fprintf(stderr, "the file ends early\n");
        exit(1);
    }
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | r->at[i];
    r->at += bytes;
    return value;
}

static char *text(reader *r)
{
    uint64_t length = number(r, 8);
    char *copy = length <= (uint64_t)(r->end - r->at) ? calloc(1, (size_t)length + 1) : NULL;
    if (!copy) {
        fprintf(stderr, "a text leaves the file\n");
        exit(1);
    }
    memcpy(copy, r->at, (size_t)length);
    r->at += length;
    return copy;
}

static void print_value(reader *r, uint64_t type, FILE *to)
{
    static const int sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type == 8) {
        CLT_FREED char *value = text(r);
        fprintf(to, " %s", value);
    } else if (type == 9) {
        uint64_t of = number(r, 4), count = number(r, 8);
        fprintf(to, " [%" PRIu64 "]", count);
        for (uint64_t i = 0; i < count; i++)
            print_value(r, of, to);
    } else if (type == 6) {
        uint32_t bits = (uint32_t)number(r, 4);
        float value;
        memcpy(&value, &bits, sizeof value);
        fprintf(to, " %g", (double)value);
    } else {
        fprintf(to, " %" PRIu64, number(r, type < 13 ? sizes[type] : 0));
    }
}

typedef struct tensor {
    char *name;
    uint64_t columns, rows, type, offset; /* rows 0: a vector */
} tensor;

/* Names of the parts of a block and of the other tensors, in GGUF and in transformers. */
static const char *const words[][2] = {{"token_embd.", "embed_tokens."},
                                       {"token_embd.", "wte."},
                                       {"position_embd.", "wpe."},
                                       {"output_norm.", "norm."},
                                       {"output_norm.", "ln_f."},
                                       {"output.", "lm_head."},
                                       {"attn_norm.", "input_layernorm."},
                                       {"attn_norm.", "ln_1."},
                                       {"ffn_norm.", "ln_2."},
                                       {"ffn_norm.", "post_attention_layernorm."},
                                       {"attn_q.", "self_attn.q_proj."},
                                       {"attn_k.", "self_attn.k_proj."},
                                       {"attn_v.", "self_attn.v_proj."},
                                       {"attn_qkv.", "attn.c_attn."},
                                       {"attn_output.", "self_attn.o_proj."},
                                       {"attn_output.", "attn.c_proj."},
                                       {"attn_q_norm.", "self_attn.q_norm."},
                                       {"attn_k_norm.", "self_attn.k_norm."},
                                       {"ffn_gate.", "mlp.gate_proj."},
                                       {"ffn_up.", "mlp.up_proj."},
                                       {"ffn_up.", "mlp.c_fc."},
                                       {"ffn_down.", "mlp.down_proj."},
                                       {"ffn_down.", "mlp.c_proj."}};

/* The folder's tensor that corresponds to a tensor of the file. */
static const clt_named_tensor *counterpart(const clt_safetensors *file, const tensor *t, bool *transposed)
{
    static const char *const stems[] = {"model.layers.", "transformer.h.", "model.", "transformer.", ""};
    char *rest = t->name, name[256];
    long block = strncmp(rest, "blk.", 4) == 0 ? strtol(rest + 4, &rest, 10) : -1;
    rest += block >= 0;
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++)
        for (int s = 0; s < 5 && strncmp(rest, words[w][0], strlen(words[w][0])) == 0; s++) {
            const char *end = rest + strlen(words[w][0]);
            int length = block >= 0
                             ? snprintf(name, sizeof name, "%s%ld.%s%s", stems[s], block, words[w][1], end)
                             : snprintf(name, sizeof name, "%s%s%s", stems[s], words[w][1], end);
            *transposed = strstr(words[w][1], ".c_") != NULL && t->rows;
            const clt_named_tensor *found = length > 0 ? clt_safetensors_find(file, name) : NULL;
            if (found)
                return found;
        }
    return NULL;
}

/* Element `i` of a tensor of the file; *step: the allowed distance from the exact value. */
static float element(const uint8_t *data, const tensor *t, uint64_t i, float *step)
{
    float value;
    uint16_t half;
    *step = 0;
    if (t->type == 0) {
        memcpy(&value, data + 4 * i, 4);
        return value;
    }
    if (t->type != 8) {
        memcpy(&half, data + 2 * i, 2);
        return t->type == 1 ? clt_f16_to_f32(half) : clt_bf16_to_f32(half);
    }
    memcpy(&half, data + i / 32 * 34, 2);
    *step = clt_f16_to_f32(half) * 0.57F; /* half a step, and the rounding of the factor at 127 steps */
    return clt_f16_to_f32(half) * (float)(int8_t)data[i / 32 * 34 + 2 + i % 32];
}

/* The number of values that differ. */
static uint64_t compare(const uint8_t *data, const tensor *t, const float *values, bool transposed,
                        uint64_t heads)
{
    uint64_t wrong = 0, rows = t->rows ? t->rows : t->columns, columns = t->rows ? t->columns : 1;
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < columns; c++) {
            /* row j of the folder's head becomes row 2j, row j + D/2 becomes 2j + 1 */
            uint64_t size = heads ? rows / heads : 1, in = r % size, to = r;
            if (heads)
                to = r - in + (in < size / 2 ? 2 * in : 2 * (in - size / 2) + 1);
            float step, want = values[transposed ? c * rows + r : r * columns + c];
            float got = element(data, t, to * columns + c, &step);
            if (t->type == 1)
                want = clt_f16_to_f32(clt_f32_to_f16(want));
            if (t->type == 30)
                want = clt_bf16_to_f32(clt_f32_to_bf16(want));
            wrong += !(fabsf(got - want) <= step);
        }
    return wrong;
}

static uint64_t compare_tensor(const uint8_t *data, const tensor *t, const clt_safetensors *file, char **argv)
{
    bool transposed = false;
    const clt_named_tensor *other = counterpart(file, t, &transposed);
    uint64_t n = t->columns * (t->rows ? t->rows : 1), heads = 0;
    if (strcmp(t->name, "rope_freqs.weight") == 0)
        return 0;
    if (!other || (uint64_t)clt_shape_elements(&other->shape) != n) {
        printf("%s: the folder has no such tensor\n", t->name);
        return 1;
    }
    if (strstr(t->name, "attn_q.") || strstr(t->name, "attn_k."))
        heads = strtoul(argv[strstr(t->name, "attn_k.") ? 4 : 3], NULL, 10);
    CLT_FREED float *values = calloc((size_t)n, sizeof *values);
    uint64_t wrong = clt_named_tensor_to_f32(other, values) == CLT_OK ? 0 : n;
    wrong += compare(data, t, values, transposed, heads);
    if (wrong)
        printf("%s: %" PRIu64 " of %" PRIu64 " values differ\n", t->name, wrong, n);
    return wrong;
}

int main(int argc, char **argv)
{
    CLT_FREED char *bytes = NULL;
    CLT_SCOPED(clt_safetensors) *file = NULL;
    size_t size;
    if ((argc != 2 && argc != 5) || clt_file_read(argv[1], false, 0, CLT_EDATA, &bytes, &size) != CLT_OK ||
        (argc == 5 && clt_weights_open(argv[2], &file) != CLT_OK))
        return 2;
    FILE *to = file ? fopen("/dev/null", "w") : stdout; /* a comparison prints no header */
    if (!to)
        return 2;
    reader r = {(const uint8_t *)bytes, (const uint8_t *)bytes + size};
    uint64_t magic = number(&r, 4), version = number(&r, 4), n = number(&r, 8), pairs = number(&r, 8),
             wrong = 0;
    if (!file)
        printf("magic %08" PRIx64 " version %" PRIu64 " tensors %" PRIu64 "\n", magic, version, n);
    for (uint64_t i = 0; i < pairs; i++) {
        CLT_FREED char *key = text(&r);
        fprintf(to, "%s", key);
        print_value(&r, number(&r, 4), to);
        fprintf(to, "\n");
    }
    CLT_FREED tensor *tensors = calloc((size_t)n + 1, sizeof *tensors);
    for (uint64_t i = 0; i < n; i++) {
        tensor *t = &tensors[i];
        t->name = text(&r);
        uint64_t dims = number(&r, 4);
        t->columns = number(&r, 8);
        t->rows = dims == 2 ? number(&r, 8) : 0;
        t->type = number(&r, 4);
        t->offset = number(&r, 8);
        if (!file)
            printf("%s type %" PRIu64 " columns %" PRIu64 " rows %" PRIu64 "\n", t->name, t->type, t->columns,
                   t->rows);
    }
    uint64_t data = ((uint64_t)(r.at - (const uint8_t *)bytes) + 31) / 32 * 32;
    for (uint64_t i = 0; i < n; i++) {
        if (tensors[i].offset % 32 != 0 || data + tensors[i].offset >= size)
            wrong++;
        else if (file)
            wrong +=
                compare_tensor((const uint8_t *)bytes + data + tensors[i].offset, &tensors[i], file, argv);
        free(tensors[i].name);
    }
    return wrong != 0;
}
