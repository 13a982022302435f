/* SPDX-License-Identifier: Apache-2.0
 *
 * Generation token by token: the decode plan over a checkpoint's parameters, the tokenizer at both ends. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/thread.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/data/tokenizer.h"
#include "engine/train/generate.h"
#include "engine/train/run.h"
#include "engine/train/saved_run.h"

typedef struct decoder {
    const clt_generate_options *options;
    clt_saved_run *saved;
    clt_tokenizer *tokenizer;
    clt_run_options run_options;
    clt_run *run;
    int vocab, outputs;
    int32_t context, used; /* places; of which filled */
    float *logits, *scratch;
    clt_ids ids; /* prompt, then what was generated */
} decoder;

clt_status clt_decode_token(clt_run *run, int32_t token, int32_t position, float *logits)
{
    const clt_graph *graph = run->job->eval->graph;
    const struct {
        const char *name;
        int32_t value;
    } fields[] = {{"x", token}, {"position", position}, {"length", position + 1}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        int32_t field = clt_graph_find_field(graph, fields[i].name);
        CLT_TRY(clt_realized_write(run->eval, graph->fields[field].tensor, &fields[i].value));
    }
    CLT_TRY(clt_realized_run(run->eval, CLT_PHASE_FORWARD));
    return clt_realized_read_f32(run->eval, run->job->prediction, logits);
}

/* The number of tokens comes from the saved table: the data it was counted on may be gone. */
static clt_status find_vocab(decoder *d)
{
    char text[32];
    const clt_named_tensor *table = clt_safetensors_find(d->saved->checkpoint->model, "wte.weight");
    if (!table || table->shape.ndim != 2 || table->shape.dim[0] > INT32_MAX / 2)
        CLT_FAIL(CLT_ECHECKPOINT, "generating from '%s': it holds no token table wte.weight, so it is no gpt",
                 d->saved->path);
    d->vocab = (int)table->shape.dim[0];
    snprintf(text, sizeof text, "%d", d->vocab);
    CLT_TRY(clt_config_set(d->saved->config, "model.vocab", text));
    CLT_TRY(clt_tokenizer_open_config(d->saved->config, &d->tokenizer));
    if (!d->tokenizer)
        CLT_FAIL(
            CLT_EDATA,
            "generating from '%s': the run's data is tokens without a tokenizer; name one with --tokenizer "
            "(a folder or file of its vocabulary)",
            d->saved->path);
    if (clt_tokenizer_vocab(d->tokenizer) > (uint32_t)d->vocab)
        CLT_FAIL(CLT_EDATA, "generating from '%s': the tokenizer (%s) has more tokens than the model (%d)",
                 d->saved->path, clt_tokenizer_description(d->tokenizer), d->vocab);
    return CLT_OK;
}

static clt_status open_model(decoder *d)
{
    const clt_generate_options *o = d->options;
    d->run_options = (clt_run_options){.config = d->saved->config,
                                       .device_spec = o->device_spec,
                                       .caps_mask = o->caps_mask,
                                       .observer = o->observer};
    CLT_TRY(clt_run_create(&d->run_options, CLT_JOB_DECODE, &d->run));
    CLT_TRY(clt_run_load_file(d->run, d->saved->checkpoint->model, d->saved->path));
    d->context = (int32_t)d->run->job->context;
    d->outputs =
        (int)clt_shape_last(&clt_graph_tensor(d->run->job->eval->graph, d->run->job->prediction)->shape);
    CLT_TRY(clt_alloc(&d->logits, (size_t)d->outputs, sizeof *d->logits, "generation"));
    return clt_alloc(&d->scratch, (size_t)d->outputs, sizeof *d->scratch, "generation");
}

/* Reads the ids from `first` on into an empty cache. */
static clt_status prefill(decoder *d, size_t first)
{
    d->used = 0;
    for (size_t i = first; i < d->ids.count; i++, d->used++)
        CLT_TRY(clt_decode_token(d->run, (int32_t)d->ids.id[i], d->used, d->logits));
    return CLT_OK;
}

static clt_status push_id(clt_ids *ids, uint32_t id)
{
    CLT_TRY(clt_grow(&ids->id, &ids->capacity, ids->count + 1, sizeof *ids->id, "tokens"));
    ids->id[ids->count++] = id;
    return CLT_OK;
}

static clt_status give_text(decoder *d, uint32_t id)
{
    clt_str text = {0};
    clt_status status = clt_tokenizer_decode(d->tokenizer, &id, 1, &text);
    if (status == CLT_OK && d->options->text && text.length)
        d->options->text(d->options->context, text.text, text.length);
    clt_str_free(&text);
    return status;
}

static clt_status next_token(decoder *d, int index)
{
    int known = (int)clt_tokenizer_vocab(d->tokenizer); /* padding and unused rows are no text */
    uint32_t id = (uint32_t)clt_sample(d->logits, known, &d->options->sampling, (uint64_t)index, d->scratch);
    CLT_TRY(push_id(&d->ids, id));
    CLT_TRY(give_text(d, id));
    if (d->used == d->context) /* full: go on with the newest half */
        return prefill(d, d->ids.count - (size_t)(d->context / 2 > 0 ? d->context / 2 : 1));
    CLT_TRY(clt_decode_token(d->run, (int32_t)id, d->used, d->logits));
    d->used++;
    return CLT_OK;
}

static clt_status generate(decoder *d, clt_generate_result *result)
{
    const clt_generate_options *o = d->options;
    CLT_TRY(clt_tokenizer_encode(d->tokenizer, o->prompt, strlen(o->prompt), &d->ids));
    if (d->ids.count == 0) { /* nothing to start from: the end of a text, or a line break */
        int64_t end = clt_tokenizer_end_of_text(d->tokenizer);
        CLT_TRY(end >= 0 ? push_id(&d->ids, (uint32_t)end)
                         : clt_tokenizer_encode(d->tokenizer, "\n", 1, &d->ids));
    }
    double start = clt_now();
    size_t keep = (size_t)d->context;
    CLT_TRY(prefill(d, d->ids.count > keep ? d->ids.count - keep : 0));
    result->prompt_tokens = (int)d->ids.count;
    result->prompt_seconds = clt_now() - start;
    start = clt_now();
    for (; result->new_tokens < o->max_new; result->new_tokens++)
        CLT_TRY(next_token(d, result->new_tokens));
    result->new_seconds = clt_now() - start;
    return CLT_OK;
}

/* Window models: the whole text at once. */
static clt_status generate_window(decoder *d, clt_generate_result *result)
{
    const clt_generate_options *o = d->options;
    clt_source *shapes = NULL;
    clt_str text = {0};
    if (d->saved->has_facts)
        CLT_TRY(clt_saved_run_shapes(d->saved, &shapes));
    clt_run_options run = {.config = d->saved->config,
                           .saved = d->saved,
                           .source = shapes,
                           .device_spec = o->device_spec,
                           .caps_mask = o->caps_mask,
                           .predicts = true,
                           .observer = o->observer};
    double start = clt_now();
    clt_status status = clt_sample_window(&run, o->prompt, o->max_new, &o->sampling, &text);
    if (status == CLT_OK && o->text)
        o->text(o->context, text.text, text.length);
    result->new_tokens = (int)text.length;
    result->new_seconds = clt_now() - start;
    clt_str_free(&text);
    clt_source_close(shapes);
    return status;
}

/* Says what the run did train, and which commands are made for that. */
static clt_status no_language_model(const decoder *d)
{
    clt_str words = {0};
    clt_saved_run_words(d->saved, &words);
    clt_status status = clt_str_check(&words);
    if (status == CLT_OK)
        status = clt_fail(
            CLT_EUNSUPPORTED, __FILE__, __LINE__,
            "generating from '%s': this run trained %s; generate continues texts with a gpt, or with "
            "a model of data.window bytes. Use 'cltrain predict' for what the model makes of new "
            "samples, 'cltrain eval' for its loss on the evaluation data",
            d->saved->path, words.text);
    clt_str_free(&words);
    return status;
}

/* A window of bytes that the next byte follows from. */
static bool is_window_model(const clt_saved_run *saved)
{
    const clt_config *c = saved->config;
    const char *tokenizer = clt_config_string(c, "data.tokenizer");
    return strcmp(clt_config_string(c, "data.type"), "text") == 0 &&
           clt_config_int(c, "model.context") == 0 && (!*tokenizer || strcmp(tokenizer, "bytes") == 0);
}

clt_status clt_generate(const clt_generate_options *options, clt_generate_result *result)
{
    decoder d = {.options = options};
    clt_saved_run_options open = {.tensors = true, .tokenizer = options->tokenizer};
    memset(result, 0, sizeof *result);
    clt_status status = clt_saved_run_open(options->checkpoint, &open, &d.saved);
    CLT_TRY_GOTO(status, done);
    if (strcmp(clt_config_string(d.saved->config, "model.type"), "gpt") != 0) {
        status = is_window_model(d.saved) ? generate_window(&d, result) : no_language_model(&d);
        goto done;
    }
    CLT_TRY_GOTO(find_vocab(&d), done);
    CLT_TRY_GOTO(open_model(&d), done);
    status = generate(&d, result);
done:
    clt_run_destroy(d.run);
    clt_tokenizer_close(d.tokenizer);
    clt_saved_run_close(d.saved);
    free(d.logits);
    free(d.scratch);
    free(d.ids.id);
    return status;
}
