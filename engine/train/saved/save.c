/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing a run's parameters to files and reading them (checkpoints are written by the saver). Tensors are
 * f32, without padding, and have the names of the parameters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/models/models.h"
#include "engine/train/run/run.h"

typedef struct snapshot {
    clt_named_tensor *tensors;
    float **data;
    int count;
} snapshot;

static void snapshot_free(snapshot *s)
{
    for (int i = 0; i < s->count; i++)
        free(s->data[i]);
    free(s->tensors);
    free(s->data);
}
CLT_SCOPED_VALUE(snapshot, snapshot_free)

void clt_transpose_last(const clt_shape *shape, const float *in, float *out)
{
    int64_t c = clt_shape_last(shape), r = shape->dim[shape->ndim - 2],
            n = clt_shape_elements(shape) / (r * c);
    for (int64_t b = 0; b < n; b++)
        for (int64_t i = 0; i < r; i++)
            for (int64_t j = 0; j < c; j++)
                out[b * r * c + j * r + i] = in[b * r * c + i * c + j];
}

clt_shape clt_param_file_shape(const clt_param *param)
{
    clt_shape shape = param->shape;
    if (param->file_rows)
        shape.dim[0] = param->file_rows;
    int last = shape.ndim - 1, moved = param->file_transposed;
    if (moved && shape.ndim > moved) {
        for (int i = 0; i < moved; i++)
            shape.dim[last - i] = param->shape.dim[last - 1 - i];
        shape.dim[last - moved] = param->shape.dim[last];
    }
    return shape;
}

clt_shape clt_param_matrices(const clt_param *param, bool in_file)
{
    int64_t columns = clt_shape_last(&param->shape), rows = 1;
    for (int i = 0; i < param->file_transposed; i++)
        rows *= param->shape.dim[param->shape.ndim - 2 - i];
    int64_t n = clt_shape_elements(&param->shape) / (rows * columns);
    return in_file ? clt_shape3(n, columns, rows) : clt_shape3(n, rows, columns);
}

static clt_status snapshot_add(clt_run *run, snapshot *s, const clt_param *param)
{
    const clt_store_slot *slot = clt_store_layout_find(run->store->layout, param->name);
    int i = s->count++;
    CLT_TRY(clt_alloc(&s->data[i], slot->elements, sizeof(float), "parameters"));
    CLT_TRY(clt_store_read(run->store, CLT_ARENA_PARAM, slot, s->data[i]));
    if (param->file_transposed && param->shape.ndim >= 2) {
        float *swapped;
        CLT_TRY(clt_alloc(&swapped, slot->elements, sizeof(float), "parameters"));
        clt_shape matrices = clt_param_matrices(param, false);
        clt_transpose_last(&matrices, s->data[i], swapped);
        free(s->data[i]);
        s->data[i] = swapped;
    }
    s->tensors[i] = (clt_named_tensor){param->file_name, CLT_F32, clt_param_file_shape(param), s->data[i]};
    return CLT_OK;
}

static clt_status snapshot_take(clt_run *run, snapshot *s)
{
    const clt_graph *graph = run->job->train->graph;
    CLT_TRY(clt_alloc(&s->tensors, graph->n_params, sizeof *s->tensors, "parameters"));
    CLT_TRY(clt_alloc(&s->data, graph->n_params, sizeof *s->data, "parameters"));
    for (size_t i = 0; i < graph->n_params; i++)
        CLT_TRY(snapshot_add(run, s, &graph->params[i]));
    return CLT_OK;
}

clt_status clt_run_save_parameters(clt_run *run, const char *path)
{
    CLT_SCOPED(snapshot) model = {0};
    CLT_TRY(snapshot_take(run, &model));
    CLT_TRY(clt_named_tensors_check_finite(model.tensors, model.count));
    return clt_safetensors_write(path, model.tensors, model.count, NULL, 0, NULL);
}

clt_status clt_run_load_tensor(clt_run *run, const clt_param *param, clt_arena_kind arena,
                               const clt_named_tensor *tensor, const char *path)
{
    const clt_store_slot *slot = clt_store_layout_find(run->store->layout, param->name);
    char a[CLT_SHAPE_TEXT], b[CLT_SHAPE_TEXT];
    clt_shape want = clt_param_file_shape(param);
    if (!clt_weights_fit_shape(param, tensor))
        CLT_FAIL(CLT_ECHECKPOINT, "loading '%s': tensor '%s' has shape %s; the model needs %s", path,
                 tensor->name, clt_shape_text(&tensor->shape, a, sizeof a),
                 clt_shape_text(&want, b, sizeof b));
    CLT_FREED float *values = NULL, *swapped = NULL;
    uint64_t in_file = (uint64_t)clt_shape_elements(&tensor->shape),
             used = (uint64_t)clt_shape_elements(&want);
    CLT_TRY(clt_alloc(&values, in_file > slot->elements ? in_file : slot->elements, sizeof *values,
                      "parameters"));
    CLT_TRY(clt_named_tensor_to_f32(tensor, values));
    if (used < slot->elements) /* the file may have values in what is padding here */
        memset(values + used, 0, (slot->elements - used) * sizeof *values);
    if (param->file_transposed && want.ndim >= 2) {
        clt_shape matrices = clt_param_matrices(param, true);
        CLT_TRY(clt_alloc(&swapped, slot->elements, sizeof *swapped, "parameters"));
        clt_transpose_last(&matrices, values, swapped);
    }
    return clt_store_write(run->store, arena, slot, swapped ? swapped : values);
}

/* Loads all parameters from the file or, if `saved` is not NULL, the values that the checkpoint is evaluated
 * with. Parameters that `skip` names (NULL: none) are left as they are. */
static clt_status load_all(clt_run *run, const clt_safetensors *file, const clt_checkpoint *saved,
                           const char *path, const char *skip)
{
    const clt_graph *graph = run->job->model;
    clt_named_tensor values;
    int adapters = 0, idle = 0; /* tensors of adapters that start at zero; the ones still zero */
    for (size_t i = 0; i < graph->n_params; i++) {
        const clt_param *param = &graph->params[i];
        clt_run_progress(run, "loading the parameters", (int64_t)i, (int64_t)graph->n_params);
        if (clt_weights_keep_initial(file, skip, param))
            continue;
        bool found = saved && clt_checkpoint_values(saved, param->file_name, CLT_VALUES_AVERAGED, &values);
        const clt_named_tensor *tensor = found ? &values : clt_run_find_tensor(graph, file, param);
        CLT_TRY(clt_run_load_tensor(run, param, CLT_ARENA_PARAM, tensor, path));
        if (saved && clt_adapter_starts_zero(param->name)) {
            adapters++;
            idle += clt_named_tensor_is_zero(tensor);
        }
    }
    if (adapters > 0 && idle == adapters)
        CLT_WARN("'%.600s': every B of the adapters is zero, so they change nothing; the run trained none of "
                 "them",
                 path);
    clt_run_progress(run, "loading the parameters", 0, -1);
    return saved ? clt_checkpoint_whole(saved) : clt_safetensors_whole(file);
}

clt_status clt_run_load_file(clt_run *run, const clt_safetensors *file, const char *path)
{
    CLT_TRY(clt_weights_check(run->job->model, file, path, NULL, NULL));
    return load_all(run, file, NULL, path, NULL);
}

clt_status clt_run_load_saved(clt_run *run, const clt_checkpoint *saved, const char *path)
{
    CLT_TRY(clt_weights_check(run->job->model, saved->model, path, NULL, NULL));
    return load_all(run, saved->model, saved, path, NULL);
}

clt_status clt_run_take_init(clt_run *run)
{
    if (!run->init)
        return CLT_OK;
    run->taken.hash = clt_safetensors_hash(run->init);
    snprintf(run->taken.file, sizeof run->taken.file, "%s", run->options->init);
    clt_status status = load_all(run, run->init, NULL, run->options->init, run->options->init_skip);
    clt_safetensors_close(run->init);
    run->init = NULL;
    return status;
}

clt_status clt_run_load_parameters(clt_run *run, const char *path)
{
    CLT_SCOPED(clt_safetensors) *file = NULL;
    clt_weights_taken taken;
    clt_run_progress(run, "loading the parameters", 0, 0);
    CLT_TRY(clt_weights_open(path, &file));
    CLT_TRY(clt_fail_prefix(clt_weights_take_off_prefix(run->job->model, file, NULL, &taken), "%s", path));
    CLT_TRY(clt_weights_check(run->job->model, file, path, NULL, &taken));
    return load_all(run, file, NULL, path, NULL);
}
