/* SPDX-License-Identifier: Apache-2.0
 *
 * Probes merged weights. One decoder serves both models: for the merged weights its adapters are set to
 * zero. */
#include "engine/train/generate/probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/models/models.h"
#include "engine/pretrained/gguf/gguf.h"
#include "engine/train/generate/generate.h"
#include "engine/train/run/run.h"

/* docs/pretrained.md shows this text: words, numbers, a formula and a line break. */
static const char probe_text[] = "The tall ship left the harbour on 14 March 1897.\n"
                                 "Question: what is 3 * (4 + 5)? Answer:";

/* The logits of one pass, either kept, or compared with those that the first pass kept. */
typedef struct logits {
    float *values;
    size_t count, capacity, at;
    bool compare;
    clt_probe_result *result;
} logits;

static void logits_free(logits *l)
{
    free(l->values);
}
CLT_SCOPED_VALUE(logits, logits_free)

static int likeliest(const float *values, int count)
{
    int best = 0;
    for (int i = 1; i < count; i++)
        if (values[i] > values[best])
            best = i;
    return best;
}

static clt_status take_logits(void *context, const float *values, int count)
{
    logits *l = context;
    clt_probe_result *r = l->result;
    if (!l->compare) {
        CLT_TRY(clt_grow(&l->values, &l->capacity, l->count + (size_t)count, sizeof *values, "logits"));
        memcpy(l->values + l->count, values, (size_t)count * sizeof *values);
        l->count += (size_t)count;
        return CLT_OK;
    }
    const float *before = l->values + l->at;
    l->at += (size_t)count;
    for (int i = 0; i < count; i++) {
        r->largest = fmax(r->largest, fabs((double)before[i]));
        r->change = fmax(r->change, fabs((double)values[i] - (double)before[i]));
    }
    r->same += likeliest(before, count) == likeliest(values, count);
    r->tokens++;
    return CLT_OK;
}

/* Reads a tensor's values, rounded as the exported file holds them. */
static clt_status round_values(const clt_probe_options *o, const clt_named_tensor *tensor, float *values)
{
    const clt_model_published *names = clt_model_family_of(o->saved->config)->published;
    const size_t count = (size_t)clt_shape_elements(&tensor->shape);
    CLT_TRY(clt_named_tensor_to_f32(tensor, values));
    for (size_t i = 0; i < count && !(o->gguf && clt_gguf_stays_f32(names, tensor)); i++)
        values[i] = clt_dtype_rounded(o->dtype, values[i]);
    return CLT_OK;
}

/* Loads one parameter: the run's own value, or with `merged` the merged one, where adapters are zero. */
static clt_status load_one(const clt_probe_options *o, clt_run *run, const clt_param *param, bool merged)
{
    const clt_checkpoint *checkpoint = o->saved->checkpoint;
    clt_named_tensor tensor;
    CLT_FREED float *values = NULL;
    if (!(merged && clt_merge_find(o->merge, param->file_name, &tensor)) &&
        !clt_checkpoint_values(checkpoint, param->file_name, o->values, &tensor))
        CLT_FAIL(CLT_ECHECKPOINT, "comparing '%s': it has no tensor %s", o->saved->path, param->file_name);
    if (merged) {
        CLT_TRY(
            clt_alloc(&values, (size_t)clt_shape_elements(&tensor.shape) + 1, sizeof *values, "a tensor"));
        if (!param->adapter)
            CLT_TRY(round_values(o, &tensor, values));
        tensor.dtype = CLT_F32;
        tensor.data = values;
    }
    return clt_run_load_tensor(run, param, CLT_ARENA_PARAM, &tensor, o->saved->path);
}

static clt_status compute(const clt_probe_options *o, clt_decoder *decoder, bool merged, logits *l)
{
    clt_run *run = clt_decoder_run(decoder);
    const clt_graph *graph = run->job->model;
    clt_generate_result result;
    const clt_generate_options wanted = {.prompt = probe_text, .logits = take_logits, .context = l};
    for (size_t i = 0; i < graph->n_params; i++)
        CLT_TRY(load_one(o, run, &graph->params[i], merged));
    l->compare = merged;
    return clt_decoder_generate(decoder, &wanted, &result);
}

/* Makes the probe compute in f32: frozen weights in 16 bits would be rounded once more, and products in 16
 * bits would hide the change. */
static clt_status prepare(const clt_probe_options *o)
{
    clt_config *config = o->saved->config;
    CLT_TRY(clt_decoder_find_vocab(o->saved));
    CLT_TRY(clt_config_set(config, "model.lora_base", "f32"));
    return clt_config_set(config, "precision.mode", "f32");
}

/* The largest change that rounding explains: a share of the largest logit, at least four times the change
 * measured with small models (docs/pretrained.md). In f32 only the order of sums differs. */
static double explained(clt_dtype dtype, double largest)
{
    return largest * (dtype == CLT_F16 ? 0.01 : dtype == CLT_BF16 ? 0.06 : 1e-4);
}

clt_status clt_probe_merge(const clt_probe_options *o, clt_probe_result *r)
{
    CLT_SCOPED(clt_decoder) *decoder = NULL;
    CLT_SCOPED(logits) l = {.result = r};
    *r = (clt_probe_result){0};
    if (!clt_model_family_of(o->saved->config)->build_decode) {
        snprintf(r->why_not, sizeof r->why_not, "only models that generate texts are compared");
        return CLT_OK;
    }
    CLT_TRY(prepare(o));
    const clt_run_options run = {.config = o->saved->config,
                                 .device_spec = o->device_spec,
                                 .caps_mask = o->caps_mask,
                                 .observer = o->observer};
    clt_status status = clt_decoder_create(&run, o->saved->path, &decoder);
    if (status != CLT_OK && status != CLT_ENOMEM) {
        snprintf(r->why_not, sizeof r->why_not, "%.590s", clt_error_text());
        clt_error_clear();
        return CLT_OK;
    }
    CLT_TRY(status);
    CLT_TRY(compute(o, decoder, false, &l));
    CLT_TRY(compute(o, decoder, true, &l));
    r->expected = explained(o->dtype, r->largest);
    return CLT_OK;
}
