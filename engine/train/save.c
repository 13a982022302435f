/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of a run and initial parameters from files. Tensors are written as f32, unpadded, by the names
 * of the parameters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/train/run.h"

typedef struct snapshot {
    clt_named_tensor *tensors;
    float **data;
    char **names;
    int count;
} snapshot;

static void snapshot_free(snapshot *s)
{
    for (int i = 0; i < s->count; i++) {
        free(s->data[i]);
        free(s->names[i]);
    }
    free(s->tensors);
    free(s->data);
    free(s->names);
}

/* Swaps the last two dimensions, for files that keep a matrix transposed. */
static void transpose_last(const clt_shape *shape, const float *in, float *out)
{
    int64_t c = clt_shape_last(shape), r = shape->dim[shape->ndim - 2],
            n = clt_shape_elements(shape) / (r * c);
    for (int64_t b = 0; b < n; b++)
        for (int64_t i = 0; i < r; i++)
            for (int64_t j = 0; j < c; j++)
                out[b * r * c + j * r + i] = in[b * r * c + i * c + j];
}

static clt_status snapshot_add(clt_run *run, snapshot *s, const clt_param *param, clt_arena_kind arena,
                               const char *suffix)
{
    const clt_store_slot *slot = clt_store_layout_find(run->store->layout, param->name);
    size_t size = strlen(param->file_name) + strlen(suffix) + 1;
    int i = s->count;
    CLT_TRY(clt_alloc(&s->names[i], size, 1, "checkpoint"));
    s->count++;
    snprintf(s->names[i], size, "%s%s", param->file_name, suffix);
    CLT_TRY(clt_alloc(&s->data[i], slot->elements, sizeof(float), "checkpoint"));
    CLT_TRY(clt_store_read(run->store, arena, slot, s->data[i]));
    clt_shape shape = param->shape;
    if (param->file_transposed && shape.ndim >= 2) {
        float *swapped;
        CLT_TRY(clt_alloc(&swapped, slot->elements, sizeof(float), "checkpoint"));
        transpose_last(&param->shape, s->data[i], swapped);
        free(s->data[i]);
        s->data[i] = swapped;
        shape.dim[shape.ndim - 1] = param->shape.dim[shape.ndim - 2];
        shape.dim[shape.ndim - 2] = param->shape.dim[shape.ndim - 1];
    }
    s->tensors[i] = (clt_named_tensor){s->names[i], CLT_F32, shape, s->data[i]};
    return CLT_OK;
}

static clt_status snapshot_take(clt_run *run, bool optimizer, snapshot *s)
{
    static const char *const suffixes[] = {".moment1", ".moment2"};
    const clt_graph *graph = run->job->train->graph;
    size_t most = graph->n_params * 2 + 1;
    CLT_TRY(clt_alloc(&s->tensors, most, sizeof *s->tensors, "checkpoint"));
    CLT_TRY(clt_alloc(&s->data, most, sizeof *s->data, "checkpoint"));
    CLT_TRY(clt_alloc(&s->names, most, sizeof *s->names, "checkpoint"));
    for (size_t i = 0; i < graph->n_params; i++) {
        const clt_param *param = &graph->params[i];
        if (!optimizer)
            CLT_TRY(snapshot_add(run, s, param, CLT_ARENA_PARAM, ""));
        for (int k = 0; optimizer && param->trainable && k < run->store->layout->opt_states; k++)
            CLT_TRY(snapshot_add(run, s, param, k ? CLT_ARENA_OPT2 : CLT_ARENA_OPT1, suffixes[k]));
    }
    return CLT_OK;
}

static clt_status state_text(clt_run *run, int64_t step, clt_str *out)
{
    clt_state_block state;
    CLT_TRY(clt_store_get_state(run->store, &state));
    clt_json_writer w = clt_json_writer_make(out, 2);
    clt_jw_object(&w);
    clt_jw_kint(&w, "step", step);
    clt_jw_kint(&w, "update", state.update);
    clt_jw_kint(&w, "skipped", state.skipped);
    clt_jw_kint(&w, "skipped_in_a_row", state.skipped_row);
    clt_jw_kdouble(&w, "loss_scale", (double)state.loss_scale);
    clt_jw_kint(&w, "samples", step * run->job->global_batch);
    clt_jw_kint(&w, "seed", (int64_t)run->job->seed);
    clt_jw_kint(&w, "ranks", run->ranks.ranks);
    clt_jw_end_object(&w);
    return clt_str_check(out);
}

clt_status clt_run_save(clt_run *run, const char *folder, int64_t step, char *path, size_t path_size)
{
    snapshot model = {0}, optimizer = {0};
    clt_str state = {0}, config = {0};
    clt_status status = snapshot_take(run, false, &model);
    CLT_TRY_GOTO(status, done);
    CLT_TRY_GOTO(snapshot_take(run, true, &optimizer), done);
    CLT_TRY_GOTO(state_text(run, step, &state), done);
    CLT_TRY_GOTO(clt_config_print(run->options->config, false, &config), done);
    clt_checkpoint_content content = {.step = step,
                                      .model = model.tensors,
                                      .n_model = model.count,
                                      .optimizer = optimizer.tensors,
                                      .n_optimizer = optimizer.count,
                                      .state_json = state.text,
                                      .config_json = config.text};
    CLT_TRY_GOTO(
        clt_checkpoint_save(folder, &content, (int)clt_config_int(run->options->config, "checkpoint.keep")),
        done);
    snprintf(path, path_size, "%s/step_%lld", folder, (long long)step);
done:
    snapshot_free(&model);
    snapshot_free(&optimizer);
    clt_str_free(&state);
    clt_str_free(&config);
    return status;
}

clt_status clt_run_save_parameters(clt_run *run, const char *path)
{
    snapshot model = {0};
    clt_status status = snapshot_take(run, false, &model);
    if (status == CLT_OK)
        status = clt_named_tensors_check_finite(model.tensors, model.count);
    if (status == CLT_OK)
        status = clt_safetensors_write(path, model.tensors, model.count, NULL, 0, NULL);
    snapshot_free(&model);
    return status;
}

static clt_status load_one(clt_run *run, const clt_param *param, const clt_named_tensor *tensor,
                           const char *path)
{
    const clt_store_slot *slot = clt_store_layout_find(run->store->layout, param->name);
    char a[CLT_SHAPE_TEXT], b[CLT_SHAPE_TEXT];
    clt_shape want = param->shape;
    if (param->file_transposed && want.ndim >= 2) {
        want.dim[want.ndim - 1] = param->shape.dim[want.ndim - 2];
        want.dim[want.ndim - 2] = param->shape.dim[want.ndim - 1];
    }
    if (!clt_shape_equal(&tensor->shape, &want))
        CLT_FAIL(CLT_ECHECKPOINT, "loading '%s': tensor '%s' has shape %s; the model needs %s", path,
                 tensor->name, clt_shape_text(&tensor->shape, a, sizeof a),
                 clt_shape_text(&want, b, sizeof b));
    float *values, *swapped = NULL;
    CLT_TRY(clt_alloc(&values, slot->elements, sizeof *values, "parameters"));
    clt_status status = clt_named_tensor_to_f32(tensor, values);
    if (status == CLT_OK && param->file_transposed && want.ndim >= 2)
        status = clt_alloc(&swapped, slot->elements, sizeof *swapped, "parameters");
    if (swapped)
        transpose_last(&want, values, swapped);
    if (status == CLT_OK)
        status = clt_store_write(run->store, CLT_ARENA_PARAM, slot, swapped ? swapped : values);
    free(values);
    free(swapped);
    return status;
}

static clt_status load_file(clt_run *run, const clt_safetensors *file, const char *path)
{
    const clt_plan *plan = run->job->train ? run->job->train : run->job->eval;
    for (size_t i = 0; i < plan->graph->n_params; i++) {
        const clt_param *param = &plan->graph->params[i];
        const clt_named_tensor *tensor = clt_safetensors_find(file, param->file_name);
        if (!tensor)
            CLT_FAIL(
                CLT_ECHECKPOINT,
                "loading '%s': it has no tensor '%s', which the model needs; was it saved from this model?",
                path, param->file_name);
        CLT_TRY(load_one(run, param, tensor, path));
    }
    return CLT_OK;
}

clt_status clt_run_load_parameters(clt_run *run, const char *path, bool checkpoint)
{
    clt_safetensors *file = NULL;
    clt_checkpoint *saved = NULL;
    clt_status status;
    if (checkpoint) {
        CLT_TRY(clt_checkpoint_open(path, &saved));
        status = load_file(run, saved->model, saved->path);
    } else {
        CLT_TRY(clt_safetensors_open(path, &file));
        status = load_file(run, file, path);
    }
    clt_checkpoint_close(saved);
    clt_safetensors_close(file);
    return status;
}
