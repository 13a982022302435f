/* SPDX-License-Identifier: Apache-2.0
 *
 * `plan` and `estimate`: plans the config for a device and describes commands, layers and memory. */
#include "engine/train/inspect/describe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/train/eval/eval_metrics.h"
#include "engine/train/job/tuned.h"

static clt_status open_device(const char *spec, uint32_t caps, ocl_device_desc *desc)
{
    ocl_open_options open = {.spec = spec && *spec ? spec : NULL, .caps_mask = caps};
    CLT_SCOPED(ocl_device) *device = NULL;
    CLT_TRY(ocl_device_open(&open, &device));
    *desc = *ocl_device_describe(device);
    return CLT_OK;
}

/* Applies the limits that the caller set. A generic device gets as much memory as the memory limit says,
 * even if that is more than a typical device has. */
static clt_status limit(ocl_device_desc *desc, bool generic)
{
    CLT_TRY(ocl_size_limits_in_use(&desc->limits));
    if (generic && desc->limits.memory > 0) {
        desc->max_alloc_bytes = desc->limits.memory / (desc->global_bytes / desc->max_alloc_bytes);
        desc->global_bytes = desc->usable_bytes = desc->limits.memory;
    }
    ocl_size_limits_apply(desc);
    return CLT_OK;
}

/* Finds the device to plan for. planned: that device, if the caller has chosen it; otherwise NULL. */
static clt_status find_device(const clt_config *config, const char *spec, const ocl_device_desc *planned,
                              uint32_t caps, clt_described_device *out)
{
    if (planned) {
        *out = (clt_described_device){.desc = *planned, .generic = true};
        out->desc.caps &= caps;
        return limit(&out->desc, false);
    }
    bool generic = spec && strcmp(spec, "generic") == 0;
    *out = (clt_described_device){.generic = generic};
    clt_status status =
        generic ? CLT_OK
                : open_device(spec ? spec : clt_config_string(config, "device.spec"), caps, &out->desc);
    if (status == CLT_EDEVICE && !spec) {
        snprintf(out->why, sizeof out->why, "%.*s", (int)strcspn(clt_error_text(), "\n"), clt_error_text());
        clt_error_clear();
        out->generic = true;
        status = CLT_OK;
    }
    if (out->generic) {
        ocl_desc_generic(&out->desc);
        out->desc.caps &= caps;
        CLT_TRY(limit(&out->desc, true));
    }
    return status;
}

static clt_status measure(clt_description *d)
{
    d->memory = clt_plan_memory(d->job->train, d->job->eval);
    for (int t = CLT_RECOMPUTE_NONE; t <= CLT_RECOMPUTE_BLOCK; t++)
        CLT_TRY(clt_job_activations(d->job, (clt_recompute)t, &d->activations[t]));
    return clt_job_largest_micro_batch(d->job, &d->largest);
}

static clt_status describe(clt_description *d, const clt_config *config, const char *spec,
                           const ocl_device_desc *planned, uint32_t caps, int ranks)
{
    const clt_job_data data = {0};
    const clt_update_order order = {0};
    CLT_TRY(clt_job_open(config, &data, ranks, CLT_JOB_DESCRIBE, &d->job));
    CLT_TRY(clt_eval_classes_check(d->job));
    CLT_TRY(find_device(config, spec, planned, caps, &d->device));
    CLT_TRY(clt_tuned_describe(config, &d->device.desc, &d->tuning));
    CLT_TRY(clt_job_choose_micro_batch(d->job, &d->device.desc, &order));
    CLT_TRY(clt_job_plan(d->job, &d->device.desc, &order));
    return measure(d);
}

static clt_status describe_new(const clt_config *config, const char *spec, const ocl_device_desc *planned,
                               uint32_t caps, int ranks, clt_description **out)
{
    CLT_SCOPED(clt_description) *d = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&d, 1, sizeof *d, "the description of a training"));
    CLT_TRY(describe(d, config, spec, planned, caps, ranks));
    *out = CLT_TAKE(d);
    return CLT_OK;
}

clt_status clt_describe(const clt_config *config, const char *spec, uint32_t caps, int ranks,
                        clt_description **out)
{
    return describe_new(config, spec, NULL, caps, ranks, out);
}

clt_status clt_describe_planned(const clt_config *config, const ocl_device_desc *device, uint32_t caps,
                                int ranks, clt_description **out)
{
    return describe_new(config, NULL, device, caps, ranks, out);
}

void clt_description_close(clt_description *d)
{
    if (!d)
        return;
    clt_job_destroy(d->job);
    ocl_tuning_destroy(d->tuning);
    free(d);
}

/* --- layers --- */

/* Bytes of a node's outputs and of the tensors it keeps for backward, in the training plan; views have
 * none. */
static uint64_t node_bytes(const clt_plan *plan, const clt_node *node)
{
    uint64_t bytes = 0;
    for (int i = 0; i < node->n_out + node->n_saved; i++) {
        int32_t id = i < node->n_out ? node->out[i] : node->saved[i - node->n_out];
        const clt_tensor *t = clt_graph_tensor(plan->graph, id);
        if ((size_t)id < plan->n_place && plan->place[id].kind == CLT_PLACE_PLAN && t->view_of < 0)
            bytes += plan->place[id].bytes;
    }
    return bytes;
}

static int64_t node_parameters(const clt_graph *graph, const clt_node *node)
{
    int64_t elements = 0;
    for (int i = 0; i < node->n_param && node->share < 0; i++)
        elements += clt_shape_elements(&graph->params[node->param[i]].shape);
    return elements;
}

static void layer_row(const clt_plan *plan, const clt_node *node, clt_layer_row *row)
{
    *row = (clt_layer_row){.op = node->op->name,
                           .parameters = node_parameters(plan->graph, node),
                           .activations = node_bytes(plan, node)};
    snprintf(row->name, sizeof row->name, "%.90s", node->name);
    if (node->n_out > 0)
        row->shape = clt_graph_tensor(plan->graph, node->out[0])->shape;
}

/* Number of consecutive nodes from `at` on that belong to block b. */
static size_t block_length(const clt_graph *graph, size_t at, int32_t b)
{
    size_t n = 0;
    while (at + n < graph->n_nodes && graph->nodes[at + n]->block == b)
        n++;
    return n;
}

/* True if both nodes have the same op and the same shape of the result. */
static bool same_node(const clt_graph *graph, const clt_node *a, const clt_node *b)
{
    return a->op == b->op && a->n_out == b->n_out &&
           (a->n_out == 0 || clt_shape_equal(&clt_graph_tensor(graph, a->out[0])->shape,
                                             &clt_graph_tensor(graph, b->out[0])->shape));
}

/* True if the block at `at` has the same layers as the `length` nodes before it. */
static bool same_block(const clt_graph *graph, size_t at, size_t length)
{
    if (length == 0 || at < length || at >= graph->n_nodes || graph->nodes[at]->block < 2 ||
        block_length(graph, at, graph->nodes[at]->block) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (!same_node(graph, graph->nodes[at + i], graph->nodes[at + i - length]))
            return false;
    return true;
}

clt_status clt_description_layers(const clt_description *d, clt_layer_row **rows, int *count)
{
    const clt_plan *plan = d->job->train;
    const clt_graph *graph = plan->graph;
    size_t length = 0;
    int last_block = 0;
    *count = 0;
    CLT_TRY(clt_alloc(rows, graph->n_nodes + 1, sizeof **rows, "rows of layers"));
    for (size_t i = 0; i < graph->n_nodes;) {
        int32_t block = graph->nodes[i]->block;
        if (block > 1 && same_block(graph, i, length)) {
            clt_layer_row *row = &(*rows)[*count - (last_block > 1)];
            if (last_block <= 1)
                *row = (clt_layer_row){.op = ""}, (*count)++;
            last_block = block;
            snprintf(row->name, sizeof row->name, block > 2 ? "blocks 2 to %d, like 1" : "block %d, like 1",
                     block);
            for (size_t k = 0; k < length; k++) {
                row->parameters += node_parameters(graph, graph->nodes[i + k]);
                row->activations += node_bytes(plan, graph->nodes[i + k]);
            }
            i += length;
            continue;
        }
        if (block > 0 && block != last_block)
            length = block_length(graph, i, block);
        last_block = block > 0 ? 1 : 0;
        if (block == 0)
            length = 0;
        layer_row(plan, graph->nodes[i++], &(*rows)[(*count)++]);
    }
    return CLT_OK;
}

/* --- records --- */

static void json_amount(const clt_job *job, clt_json_writer *w)
{
    clt_job_amount reads = clt_job_reads(job);
    clt_jw_kint(w, "steps", job->steps);
    if (reads.step_tokens > 0) {
        clt_jw_kint(w, "tokens_per_step", reads.step_tokens);
        clt_jw_kdouble(w, "tokens", reads.tokens);
    }
    if (reads.passes > 0)
        clt_jw_kdouble(w, "passes", reads.passes);
}

static void json_device(const clt_description *description, clt_json_writer *w)
{
    const clt_job *job = description->job;
    const ocl_device_desc *d = &job->desc;
    if (job->data_missing[0])
        clt_jw_kstring(w, "data_missing", job->data_missing);
    clt_jw_kobject(w, "device");
    clt_jw_kstring(w, "name", d->name);
    clt_jw_kbool(w, "generic", description->device.generic);
    clt_jw_kint(w, "usable_bytes", (int64_t)d->usable_bytes);
    clt_jw_kint(w, "max_alloc_bytes", (int64_t)d->max_alloc_bytes);
    clt_jw_end_object(w);
}

clt_status clt_description_plan_json(const clt_description *d, clt_str *out)
{
    const clt_job *job = d->job;
    clt_json_writer w = clt_json_writer_make(out, 2);
    clt_jw_object(&w);
    json_device(d, &w);
    clt_jw_kint(&w, "micro_batch", job->micro_batch);
    clt_jw_kint(&w, "global_batch", job->global_batch);
    clt_jw_kint(&w, "accumulation", job->accumulation);
    json_amount(job, &w);
    clt_jw_key(&w, "train");
    clt_status status = clt_plan_print_json(job->train, &w);
    if (status == CLT_OK && job->eval) {
        clt_jw_key(&w, "eval");
        status = clt_plan_print_json(job->eval, &w);
    }
    clt_jw_end_object(&w);
    clt_str_append(out, "\n");
    return status == CLT_OK ? clt_str_check(out) : status;
}

clt_status clt_description_full(const clt_description *d, clt_str *out)
{
    clt_str_append(out, "training plan\n");
    CLT_TRY(clt_plan_print(d->job->train, out));
    if (d->job->eval) {
        clt_str_append(out, "\nevaluation plan\n");
        CLT_TRY(clt_plan_print(d->job->eval, out));
    }
    return clt_str_check(out);
}

clt_status clt_description_estimate_json(const clt_description *d, clt_str *out)
{
    static const char *const tiers[] = {CLT_RECOMPUTES(CLT_CHOICE_WORD)};
    const clt_job *job = d->job;
    const clt_memory_report *r = &d->memory;
    clt_json_writer w = clt_json_writer_make(out, 2);
    clt_jw_object(&w);
    json_device(d, &w);
    clt_jw_kint(&w, "micro_batch", job->micro_batch);
    clt_jw_kint(&w, "global_batch", job->global_batch);
    clt_jw_kint(&w, "ranks", job->ranks);
    json_amount(job, &w);
    clt_jw_kint(&w, "parameters", clt_graph_param_elements(job->train->graph));
    clt_jw_kint(&w, "frozen_parameters", clt_graph_frozen_elements(job->train->graph));
    clt_jw_kint(&w, "buffer_values", clt_graph_buffer_elements(job->train->graph));
    clt_jw_kint(&w, "decaying_parameters", job->update.weight_decay > 0 ? clt_job_decay(job).elements : 0);
    clt_jw_kdouble(&w, "peak_learning_rate", job->schedule.peak);
    clt_jw_kobject(&w, "bytes");
    clt_jw_kint(&w, "parameters", (int64_t)r->params);
    clt_jw_kint(&w, "gradients", (int64_t)r->gradients);
    clt_jw_kint(&w, "optimizer", (int64_t)r->optimizer);
    clt_jw_kint(&w, "state", (int64_t)r->state);
    clt_jw_kint(&w, "inputs", (int64_t)r->inputs);
    clt_jw_kint(&w, "activations", (int64_t)r->activations);
    clt_jw_kint(&w, "staging", (int64_t)r->staging);
    clt_jw_kint(&w, "total", (int64_t)r->total);
    clt_jw_kint(&w, "host", (int64_t)r->host);
    clt_jw_kint(&w, "checkpoint_host", (int64_t)r->saved);
    clt_jw_kint(&w, "shared_host", (int64_t)r->shared);
    clt_jw_end_object(&w);
    clt_jw_kbool(&w, "fits", r->total <= job->desc.usable_bytes);
    clt_jw_kint(&w, "largest_micro_batch", d->largest);
    clt_jw_kobject(&w, "activations_by_recompute");
    for (int t = CLT_RECOMPUTE_NONE; t <= CLT_RECOMPUTE_BLOCK; t++)
        clt_jw_kint(&w, tiers[t], (int64_t)d->activations[t]);
    clt_jw_end_object(&w);
    clt_jw_end_object(&w);
    clt_str_append(out, "\n");
    return clt_str_check(out);
}
