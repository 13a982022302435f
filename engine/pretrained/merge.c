/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds low-rank adapters to their weights. Knows names of tensors and the layouts of weights in each family's
 * files. */
#include "engine/pretrained/merge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/models/models.h"

/* With fewer rows than this, starting a thread costs more than it saves. */
#define ROWS_PER_THREAD 16

typedef struct merged {
    clt_named_tensor tensor;
    float *values; /* values of the tensor */
} merged;

struct clt_merge {
    const clt_saved_run *saved;
    clt_values values;
    bool add;
    clt_arena *arena; /* owns names */
    merged *done;
    size_t n_done, room;
    double square; /* squared norm of what was added to the weights */
};

static bool has_adapters(const clt_saved_run *saved)
{
    return clt_config_int(saved->config, "model.lora_rank") > 0;
}

clt_status clt_merge_open(const clt_saved_run *saved, clt_values values, bool add, bool whole,
                          clt_merge **out)
{
    CLT_SCOPED(clt_merge) *m = NULL;
    *out = NULL;
    if (add && !has_adapters(saved))
        CLT_FAIL(CLT_EUSAGE, "exporting '%s': --merge adds adapters to the weights, and the run has none",
                 saved->path);
    if (!add && whole && has_adapters(saved))
        CLT_FAIL(CLT_EUSAGE,
                 "exporting '%s': the run has adapters: --merge adds them to the weights, --format peft "
                 "writes only the adapters",
                 saved->path);
    CLT_TRY(clt_alloc(&m, 1, sizeof *m, "merging"));
    CLT_TRY(clt_arena_create(&m->arena));
    m->saved = saved;
    m->values = values;
    m->add = add;
    *out = CLT_TAKE(m);
    return CLT_OK;
}

void clt_merge_close(clt_merge *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->n_done; i++)
        free(m->done[i].values);
    free(m->done);
    clt_arena_destroy(m->arena);
    free(m);
}

/* --- one weight --- */

/* W (rows, columns) in the file's layout; A (rank, in), B (out, rank). */
typedef struct product {
    float *w;
    const float *a, *b;
    int64_t rows, columns, rank, in;
    double scale;
    bool transposed; /* rows of W are inputs */
    double *square;  /* squared norm of what was added, by row */
} product;

static void add_rows(void *context, uint64_t first, uint64_t last)
{
    const product *p = context;
    for (int64_t i = (int64_t)first; i < (int64_t)last; i++)
        for (int64_t j = 0; j < p->columns; j++) {
            int64_t out = p->transposed ? j : i, in = p->transposed ? i : j;
            double sum = 0;
            for (int64_t r = 0; r < p->rank; r++)
                sum += (double)p->b[out * p->rank + r] * (double)p->a[r * p->in + in];
            float *w = &p->w[i * p->columns + j];
            p->square[i] += p->scale * sum * p->scale * sum;
            *w = (float)((double)*w + p->scale * sum);
        }
}

static clt_status load(const clt_named_tensor *tensor, float **out)
{
    CLT_TRY(clt_alloc(out, (size_t)clt_shape_elements(&tensor->shape) + 1, sizeof **out, "merging"));
    return clt_named_tensor_to_f32(tensor, *out);
}

/* How an adapter is applied to its weight. */
typedef struct relation {
    double scale;
    bool transposed; /* rows of the weight are inputs */
} relation;

static bool fits(bool transposed, const clt_named_tensor *w, const clt_named_tensor *a,
                 const clt_named_tensor *b)
{
    if (w->shape.ndim != 2 || a->shape.ndim != 2 || b->shape.ndim != 2)
        return false;
    int64_t out = w->shape.dim[transposed ? 1 : 0], in = w->shape.dim[transposed ? 0 : 1];
    return a->shape.dim[1] == in && b->shape.dim[0] == out && a->shape.dim[0] == b->shape.dim[1];
}

/* Replaces *w by the merged weight. */
static clt_status merge(clt_merge *m, relation how, clt_named_tensor *w, const clt_named_tensor *a,
                        const clt_named_tensor *b)
{
    CLT_FREED float *values = NULL, *down = NULL, *up = NULL;
    CLT_FREED double *square = NULL;
    if (!fits(how.transposed, w, a, b))
        CLT_FAIL(CLT_ECHECKPOINT, "exporting '%s': the adapter of %s does not have its shape", m->saved->path,
                 w->name);
    CLT_TRY(load(w, &values));
    CLT_TRY(load(a, &down));
    CLT_TRY(load(b, &up));
    CLT_TRY(clt_alloc(&square, (size_t)w->shape.dim[0] + 1, sizeof *square, "merging"));
    product p = {.w = values,
                 .a = down,
                 .b = up,
                 .rows = w->shape.dim[0],
                 .columns = w->shape.dim[1],
                 .rank = a->shape.dim[0],
                 .in = a->shape.dim[1],
                 .scale = how.scale,
                 .transposed = how.transposed,
                 .square = square};
    clt_for_ranges((uint64_t)p.rows, ROWS_PER_THREAD, "merge", add_rows, &p);
    for (int64_t i = 0; i < p.rows; i++)
        m->square += square[i];
    CLT_TRY(clt_grow(&m->done, &m->room, m->n_done + 1, sizeof *m->done, "merged weights"));
    w->dtype = CLT_F32;
    w->data = values;
    m->done[m->n_done++] = (merged){*w, CLT_TAKE(values)};
    return CLT_OK;
}

/* The two tensors of a layer's adapter; *found: it has one. */
static clt_status find_adapter(const clt_merge *m, const char *layer, bool table, clt_named_tensor *a,
                               clt_named_tensor *b, bool *found)
{
    const clt_checkpoint *saved = m->saved->checkpoint;
    const char *down = clt_arena_printf(m->arena, "%s%s", layer, table ? CLT_ADAPTER_TABLE_A : CLT_ADAPTER_A);
    const char *up = clt_arena_printf(m->arena, "%s%s", layer, table ? CLT_ADAPTER_TABLE_B : CLT_ADAPTER_B);
    if (!down || !up)
        return CLT_ENOMEM;
    bool has_a = clt_checkpoint_values(saved, down, m->values, a);
    bool has_b = clt_checkpoint_values(saved, up, m->values, b);
    if (has_a != has_b)
        CLT_FAIL(CLT_ECHECKPOINT,
                 "exporting '%s': the adapter is incomplete: only one of the tensors %s and %s is there",
                 m->saved->path, down, up);
    *found = has_a;
    return CLT_OK;
}

clt_status clt_merge_values(clt_merge *m, const char *name, clt_named_tensor *out, bool *found)
{
    const clt_config *c = m->saved->config;
    const clt_model_published *p = clt_model_family_of(c)->published;
    clt_named_tensor a, b;
    size_t stem = clt_stem(name, ".weight");
    bool adapted = false;
    *found = clt_checkpoint_values(m->saved->checkpoint, name, m->values, out);
    if (!*found || !m->add || stem == 0)
        return CLT_OK;
    const char *layer = clt_arena_printf(m->arena, "%.*s", (int)stem, name);
    if (!layer)
        return CLT_ENOMEM;
    relation how = {.scale = clt_lora_size_of(clt_config_model(c, NULL), layer).scale};
    for (int table = 0; table < 2 && !adapted; table++) {
        CLT_TRY(find_adapter(m, layer, table, &a, &b, &adapted));
        how.transposed = table || (p && p->transposed && strcmp(name, p->head) != 0);
    }
    return adapted ? merge(m, how, out, &a, &b) : CLT_OK;
}

bool clt_merge_find(const clt_merge *m, const char *name, clt_named_tensor *out)
{
    for (size_t i = 0; i < m->n_done; i++)
        if (strcmp(m->done[i].tensor.name, name) == 0) {
            *out = m->done[i].tensor;
            return true;
        }
    return false;
}

int64_t clt_merge_count(const clt_merge *m)
{
    return (int64_t)m->n_done;
}

bool clt_merge_idle(const clt_merge *m)
{
    return m->n_done > 0 && fpclassify(m->square) == FP_ZERO;
}

double clt_merge_lost(const clt_merge *m, clt_dtype dtype)
{
    double square = 0;
    for (size_t i = 0; i < m->n_done && dtype != CLT_F32; i++)
        for (int64_t k = 0; k < clt_shape_elements(&m->done[i].tensor.shape); k++) {
            float value = m->done[i].values[k];
            double error = (double)clt_dtype_rounded(dtype, value) - (double)value;
            square += error * error;
        }
    return m->square > 0 ? sqrt(square / m->square) : 0;
}

/* --- one file of all weights --- */

clt_status clt_merge_export(clt_merge *m, clt_dtype dtype, const char *out, clt_export_result *result)
{
    const clt_safetensors *model = m->saved->checkpoint->model;
    CLT_FREED clt_named_tensor *tensors = NULL;
    int n = clt_safetensors_count(model), kept = 0;
    bool found, of_a;
    CLT_TRY(clt_export_check_file(out));
    CLT_TRY(clt_alloc(&tensors, (size_t)n + 1, sizeof *tensors, "exported weights"));
    for (int i = 0; i < n; i++) {
        const char *name = clt_safetensors_at(model, i)->name;
        if (clt_adapter_layer(name, &of_a) == 0)
            CLT_TRY(clt_merge_values(m, name, &tensors[kept++], &found));
    }
    CLT_TRY(clt_checkpoint_whole(m->saved->checkpoint));
    CLT_TRY(clt_export_tensors(tensors, kept, dtype, out, result));
    snprintf(result->from, sizeof result->from, "%s", m->saved->path);
    result->averaged = m->values == CLT_VALUES_AVERAGED && clt_checkpoint_averages(m->saved->checkpoint);
    return CLT_OK;
}
