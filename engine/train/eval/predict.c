/* SPDX-License-Identifier: Apache-2.0
 *
 * Predicts samples in the host's memory: converts and scales them to the model's input, runs micro-batches,
 * and turns logits into probabilities or values. */
#include "engine/train/eval/predict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/data/annotated/source_annotated.h"
#include "engine/models/models.h"
#include "engine/ops/op.h"

clt_status clt_run_predict(clt_run *run, const void *x, float *out)
{
    const clt_graph *graph = run->eval->plan->graph;
    int32_t field = clt_graph_find_field(graph, "x");
    CLT_TRY(clt_realized_write(run->eval, graph->fields[field].tensor, x));
    CLT_TRY(clt_realized_run(run->eval, CLT_PHASE_FORWARD));
    return clt_realized_read_f32(run->eval, run->job->prediction, out);
}

/* --- what is predicted --- */

static clt_status refuse_language_model(const clt_saved_run *saved)
{
    bool language = clt_model_family_of(saved->config)->part->language ||
                    clt_config_chosen(saved->config, "data.type")->language;
    CLT_SCOPED(clt_str) words = {0};
    if (!language)
        return CLT_OK;
    clt_saved_run_words(saved, &words);
    CLT_FAIL(CLT_EUSAGE,
             "predicting: '%s' holds %s, which predicts the next token: continue a text with 'cltrain "
             "generate %s', or measure it with 'cltrain eval %s'; predict is for classifiers and regressions",
             saved->path, words.text ? words.text : "a language model", saved->path, saved->path);
}

/* True if only `flatten` ops read the tensor, directly or after a cast. */
static bool only_flattened(const clt_graph *graph, int32_t tensor)
{
    bool any = false;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const clt_node *node = graph->nodes[i];
        for (int k = 0; k < node->n_in; k++) {
            if (node->in[k] != tensor)
                continue;
            bool cast = strcmp(node->op->name, "cast") == 0;
            if (strcmp(node->op->name, "flatten") != 0 && !(cast && only_flattened(graph, node->out[0])))
                return false;
            any = true;
        }
    }
    return any;
}

static clt_status describe_model(clt_predictor *p, const clt_graph *graph)
{
    clt_model_info info;
    int32_t field = clt_graph_find_field(graph, "x");
    CLT_TRY(clt_model_describe(graph, &info));
    if (field < 0)
        CLT_FAIL(CLT_EUSAGE, "predicting: the model of '%s' has no input x", p->saved->path);
    const clt_field *x = &graph->fields[field];
    const char *loss = info.loss->op->name;
    p->kind = strcmp(loss, "cross_entropy") == 0     ? CLT_PREDICT_CLASSES
              : strcmp(loss, "bce_with_logits") == 0 ? CLT_PREDICT_YES_NO
                                                     : CLT_PREDICT_VALUES;
    p->input = x->shape;
    p->dtype = x->dtype;
    p->bound = x->bound;
    p->elements = clt_shape_elements(&x->shape);
    p->padded = info.outputs;
    p->outputs = info.classes;
    p->rows = info.rows_per_sample;
    p->classes_first = info.classes_first;
    p->micro_batch = graph->micro_batch;
    p->flattens = clt_model_family_of(p->saved->config)->flattens || only_flattened(graph, x->tensor);
    p->texts = clt_source_type_of(p->saved->config) == &clt_source_annotated;
    for (size_t i = 0; i < graph->n_fields && !p->texts; i++)
        if (strcmp(graph->fields[i].name, "x") != 0 && strcmp(graph->fields[i].name, "y") != 0)
            CLT_FAIL(CLT_EUSAGE,
                     "predicting: the model of '%s' has another input, '%s', besides x; predict can give it "
                     "only x",
                     p->saved->path, graph->fields[i].name);
    return CLT_OK;
}

static clt_status describe(clt_predictor *p)
{
    CLT_SCOPED(clt_job) *job = NULL;
    CLT_TRY(refuse_language_model(p->saved));
    CLT_TRY(clt_saved_run_shapes(p->saved, &p->shapes));
    const clt_job_data data = {
        .source = p->shapes, .facts = p->saved->has_facts ? &p->saved->facts : NULL, .predicts = true};
    CLT_TRY(clt_job_open(p->saved->config, &data, 1, CLT_JOB_EVAL, &job));
    return describe_model(p, job->model);
}

clt_status clt_predictor_open(const clt_saved_run *saved, clt_predictor **out)
{
    CLT_SCOPED(clt_predictor) *p = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&p, 1, sizeof *p, "a predictor"));
    p->saved = saved;
    CLT_TRY(describe(p));
    *out = CLT_TAKE(p);
    return CLT_OK;
}

void clt_predictor_close(clt_predictor *p)
{
    if (!p)
        return;
    clt_run_destroy(p->run);
    clt_source_close(p->shapes);
    free(p->x);
    free(p->y);
    free(p->row);
    free(p->mean);
    free(p->std);
    free(p);
}

/* Inputs of type f32 are scaled here, in double, as when training data is read; integers by the device. */
static clt_status read_scaling(clt_predictor *p)
{
    const clt_config *c = p->saved->config;
    double given = clt_config_float(c, "data.scale"), scale = given != 0 ? given : 1;
    CLT_TRY(clt_alloc(&p->mean, (size_t)p->elements, sizeof *p->mean, "prediction"));
    CLT_TRY(clt_alloc(&p->std, (size_t)p->elements, sizeof *p->std, "prediction"));
    if (p->saved->facts.table && p->dtype == CLT_F32) {
        clt_table_norm(p->saved->facts.table, p->mean, p->std);
        return CLT_OK;
    }
    for (int64_t i = 0; i < p->elements; i++) {
        p->mean[i] = p->dtype == CLT_F32 ? clt_config_float(c, "data.mean") / scale : 0;
        p->std[i] = p->dtype == CLT_F32 ? clt_config_float(c, "data.std") / scale : 1;
    }
    return CLT_OK;
}

clt_status clt_predictor_start(clt_predictor *p, const char *device_spec, uint32_t caps,
                               const clt_observer *observer)
{
    p->options = (clt_run_options){.config = p->saved->config,
                                   .saved = p->saved,
                                   .source = p->shapes,
                                   .device_spec = device_spec,
                                   .caps_mask = caps,
                                   .predicts = true};
    if (observer)
        p->options.observer = *observer;
    CLT_TRY(clt_run_create(&p->options, CLT_JOB_EVAL, &p->run));
    CLT_TRY(clt_run_load_saved(p->run, p->saved->checkpoint, p->saved->path));
    CLT_TRY(
        clt_alloc(&p->x, (size_t)(p->micro_batch * p->elements), clt_dtype_bytes(p->dtype), "prediction"));
    CLT_TRY(read_scaling(p));
    CLT_TRY(clt_alloc(&p->row, (size_t)p->padded, sizeof *p->row, "prediction"));
    return clt_alloc(&p->y, (size_t)(p->micro_batch * p->rows * p->padded), sizeof *p->y, "prediction");
}

const char *clt_predictor_class(const clt_predictor *p, int64_t index)
{
    bool yes_no = p->kind == CLT_PREDICT_YES_NO && p->outputs == 1; /* the classes are "no" and "yes" */
    return p->kind == CLT_PREDICT_CLASSES || yes_no ? clt_data_facts_class(&p->saved->facts, index) : NULL;
}

/* --- input and output --- */

clt_status clt_predictor_check_bytes(const clt_predictor *p, const char *path)
{
    const clt_config *c = p->saved->config;
    char what[1100];
    if (p->dtype != CLT_F32 || p->saved->facts.table || clt_config_float(c, "data.scale") != 0 ||
        fmax(fabs(clt_config_float(c, "data.mean")), fabs(clt_config_float(c, "data.std"))) > 1)
        return CLT_OK;
    snprintf(what, sizeof what, "predicting '%.1000s'", path);
    return clt_refuse_scale(what, CLT_U8, CLT_F32, 1.0 / 255);
}

double clt_predictor_scale(const clt_predictor *p)
{
    double given = clt_config_float(p->saved->config, "data.scale");
    if (p->dtype == CLT_F32 || p->bound > 0)
        return 1;
    return given != 0 ? given : p->saved->has_facts ? p->saved->facts.scale : 1;
}

static clt_status wrong_number(const clt_predictor *p, double value, int64_t sample, int64_t element)
{
    if (p->bound > 0 && value >= (double)p->bound && value <= 2147483647.0)
        CLT_FAIL(CLT_EDATA, "predicting sample %lld: number %lld is %g, an index that must be below %lld",
                 (long long)sample, (long long)element + 1, value, (long long)p->bound);
    CLT_FAIL(CLT_EDATA,
             "predicting sample %lld: number %lld is %g, and the run was trained on inputs of type %s: %s",
             (long long)sample, (long long)element + 1, value, clt_dtype_name(p->dtype),
             p->dtype == CLT_F32   ? "it is not finite after the run's data.scale, mean and std"
             : p->dtype == CLT_U8  ? "whole numbers from 0 to 255, before the run's data.scale"
             : p->dtype == CLT_U16 ? "whole numbers from 0 to 65535, before the run's data.scale"
                                   : "whole numbers of 32 bits, before the run's data.scale");
}

static clt_status put_number(clt_predictor *p, int64_t at, double value, bool *good)
{
    bool whole = value >= -2147483648.0 && value <= 4294967295.0 && !(fabs(value - floor(value)) > 0);
    switch (p->dtype) {
    case CLT_U8:
        *good = whole && value >= 0 && value <= 255;
        if (*good)
            ((uint8_t *)p->x)[at] = (uint8_t)value;
        return CLT_OK;
    case CLT_U16:
        *good = whole && value >= 0 && value <= 65535;
        if (*good)
            ((uint16_t *)p->x)[at] = (uint16_t)value;
        return CLT_OK;
    case CLT_I32:
        *good = whole && value <= 2147483647.0;
        if (*good)
            ((int32_t *)p->x)[at] = (int32_t)value;
        return CLT_OK;
    case CLT_F32:
        ((float *)p->x)[at] = (float)value;
        *good = isfinite(((float *)p->x)[at]);
        return CLT_OK;
    default:
        CLT_FAIL(CLT_EUNSUPPORTED, "predicting: inputs of type %s", clt_dtype_name(p->dtype));
    }
}

static clt_status put_samples(clt_predictor *p, const double *x, int64_t samples, int64_t first)
{
    bool good = true;
    memset(p->x, 0, (size_t)(p->micro_batch * p->elements) * clt_dtype_bytes(p->dtype));
    for (int64_t i = 0; i < samples * p->elements; i++) {
        int64_t e = i % p->elements;
        double value = (x[i] - p->mean[e]) / p->std[e];
        CLT_TRY(put_number(p, i, value, &good));
        good = good && !(p->bound > 0 && (value < 0 || value >= (double)p->bound));
        if (!good)
            return wrong_number(p, x[i], first + i / p->elements, i % p->elements);
    }
    return CLT_OK;
}

void clt_softmax(const float *logits, int64_t n, float *out)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        most = (double)logits[i] > most ? (double)logits[i] : most;
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - most);
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)(exp((double)logits[i] - most) / sum);
}

static void take_row(const clt_predictor *p, const float *y, float *out)
{
    if (p->kind == CLT_PREDICT_CLASSES) {
        clt_softmax(y, p->outputs, out);
        return;
    }
    for (int64_t i = 0; i < p->outputs; i++)
        out[i] = p->kind == CLT_PREDICT_YES_NO ? (float)(1.0 / (1.0 + exp(-(double)y[i])))
                                               : (float)clt_table_number(p->saved->facts.table, (double)y[i]);
}

/* The outputs of row r of the micro-batch as contiguous numbers. */
static const float *row_of(clt_predictor *p, int64_t r)
{
    if (!p->classes_first)
        return p->y + r * p->padded;
    for (int64_t c = 0; c < p->padded; c++)
        p->row[c] = p->y[(r / p->rows * p->padded + c) * p->rows + r % p->rows];
    return p->row;
}

clt_status clt_predictor_run(clt_predictor *p, const double *x, int64_t samples, int64_t first, float *out)
{
    for (int64_t done = 0; done < samples; done += p->micro_batch) {
        int64_t n = samples - done < p->micro_batch ? samples - done : p->micro_batch;
        CLT_TRY(put_samples(p, x + done * p->elements, n, first + done));
        CLT_TRY(clt_run_predict(p->run, p->x, p->y));
        for (int64_t r = 0; r < n * p->rows; r++)
            take_row(p, row_of(p, r), out + (done * p->rows + r) * p->outputs);
    }
    return CLT_OK;
}
