/* SPDX-License-Identifier: Apache-2.0
 *
 * Lets a language model generate texts while it is trained. The decode plan runs on its own device objects
 * with a copy of the parameters, so the training computes the same bits as without it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/span.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/models/models.h"
#include "engine/train/generate/generate.h"
#include "engine/train/loop/trainer_loop.h"

#define TEMPERATURE 0.8 /* gives some variety and few mistakes */

typedef struct clt_sampler {
    clt_config *config; /* copy of the run's config, with model.vocab set */
    clt_run_options options;
    clt_decoder *decoder;
    float *values; /* room for the largest parameter */
    char *spec;    /* device of the training */
} clt_sampler;

/* Copies the config of the training and sets model.vocab to the number of rows of the token embedding. */
static clt_status copy_config(const clt_loop *l, clt_config **out)
{
    const clt_graph *graph = l->run->job->train->graph;
    char vocab[32] = "";
    const char *table = clt_model_family_of(l->options->config)->published->table;
    *out = NULL;
    for (size_t i = 0; i < graph->n_params; i++)
        if (strcmp(graph->params[i].file_name, table) == 0)
            snprintf(vocab, sizeof vocab, "%lld", (long long)clt_param_file_shape(&graph->params[i]).dim[0]);
    CLT_TRY(clt_config_with(l->options->config, "the run's config", NULL, 0, out));
    return clt_config_set(*out, "model.vocab", vocab);
}

static uint64_t largest(const clt_store_layout *layout)
{
    uint64_t most = 0;
    for (int32_t i = 0; i < layout->n_slots; i++)
        most = layout->slots[i].elements > most ? layout->slots[i].elements : most;
    return most;
}

static void sampler_destroy(clt_sampler *s)
{
    if (!s)
        return;
    clt_decoder_destroy(s->decoder);
    clt_config_destroy(s->config);
    free(s->values);
    free(s->spec);
    free(s);
}
CLT_SCOPED_POINTER(clt_sampler, sampler_destroy)

static clt_status create(const clt_loop *l, clt_sampler **out)
{
    const clt_run *run = l->run;
    CLT_SCOPED(clt_sampler) *s = NULL;
    CLT_TRY(clt_alloc(&s, 1, sizeof *s, "samples"));
    CLT_TRY(copy_config(l, &s->config));
    CLT_TRY(clt_alloc(&s->values, (size_t)largest(run->store->layout), sizeof *s->values, "samples"));
    s->spec = strdup(ocl_device_describe(run->device)->spec);
    if (!s->spec)
        return clt_fail(CLT_ENOMEM, __FILE__, __LINE__, "no memory");
    s->options = (clt_run_options){
        .config = s->config,
        .device_spec = s->spec,
        .caps_mask = l->options->caps_mask,
        .observer = {.context = l->options->observer.context, .progress = l->options->observer.progress}};
    CLT_TRY(clt_decoder_create(&s->options, "this training", &s->decoder));
    *out = CLT_TAKE(s);
    return CLT_OK;
}

static void give_up(clt_loop *l, const char *why)
{
    char text[CLT_ERROR_TEXT_SIZE + 64];
    snprintf(text, sizeof text, "no samples are generated during training: %s", why);
    clt_error_clear();
    clt_tell_warning(l, text);
}

void clt_sampler_open(clt_loop *l)
{
    const clt_config *c = l->options->config;
    if (!l->reports ||
        (clt_config_int(c, "log.sample_every") == 0 && !clt_config_string(c, "log.sample_prompt")[0]))
        return;
    if (!clt_model_family_of(c)->build_decode)
        give_up(l, "only a language model generates text (model.type)");
    else if (create(l, &l->sampler) != CLT_OK)
        give_up(l, clt_error_text());
}

void clt_sampler_close(clt_loop *l)
{
    sampler_destroy(l->sampler);
    l->sampler = NULL;
}

bool clt_sample_due(const clt_loop *l, int64_t step)
{
    const clt_config *c = l->options->config;
    int64_t every = clt_config_int(c, "log.sample_every"), eval = clt_config_int(c, "train.eval_every");
    if (every > 0)
        return step % every == 0;
    return clt_config_string(c, "log.sample_prompt")[0] &&
           ((eval > 0 && step % eval == 0) || step == l->last_step);
}

static clt_status copy_parameters(const clt_loop *l, clt_sampler *s)
{
    clt_store *to = clt_decoder_run(s->decoder)->store;
    for (int32_t i = 0; i < to->layout->n_slots; i++) {
        const clt_store_slot *slot = &to->layout->slots[i],
                             *from = clt_store_layout_find(l->run->store->layout, slot->name);
        if (!from || from->elements != slot->elements)
            CLT_FAIL(CLT_EINTERNAL, "the model that writes texts has another parameter '%s'", slot->name);
        CLT_TRY(
            clt_store_read(l->run->store, clt_store_evaluated(l->run->store->layout, from), from, s->values));
        CLT_TRY(clt_store_write(to, CLT_ARENA_PARAM, slot, s->values));
    }
    return CLT_OK;
}

/* Collects the generated text. A NUL, which a model can generate, would end the text: it becomes a space. */
static void on_text(void *context, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        clt_str_append_n(context, bytes[i] ? &bytes[i] : " ", 1);
}

/* The beginning of the text as one line, without control characters. */
static void one_line(const char *text, char *line, size_t size)
{
    size_t left = strlen(text), n = 0;
    while (left > 0 && n + 5 < size) {
        size_t length = clt_utf8_size(text, left);
        unsigned char first = (unsigned char)text[0], second = length > 1 ? (unsigned char)text[1] : 0;
        bool control = first < ' ' || first == 0x7f || (first == 0xc2 && second < 0xa0);
        if (length == 0 || control)
            line[n++] = length ? ' ' : '?';
        else
            n += (size_t)snprintf(line + n, size - n, "%.*s", (int)length, text);
        text += length ? length : 1;
        left -= length ? length : 1;
    }
    line[n] = '\0';
}

static void tell(const clt_loop *l, int64_t step, const char *prompt, const char *text)
{
    char line[240];
    const clt_event_field fields[] = {CLT_FIELD_TEXT("prompt", prompt), CLT_FIELD_TEXT("text", text)};
    CLT_SCOPED(clt_str) whole = {0};
    clt_str_printf(&whole, "sample of step %lld: %s%s%s", (long long)step, prompt,
                   l->run->job->train_source->chat ? " -> " : "", text);
    one_line(whole.text ? whole.text : "", line, sizeof line);
    clt_tell(l, line);
    if (clt_rundir_event(l->dir, "sample", step, fields, sizeof fields / sizeof fields[0]) != CLT_OK)
        clt_error_clear(); /* ignored as for every event: the next step reports the same error */
}

static clt_status generate(const clt_loop *l, clt_str *text)
{
    const clt_config *c = l->options->config;
    const char *chat = l->run->job->train_source->chat;
    const clt_generate_options wanted = {
        .prompt = clt_config_string(c, "log.sample_prompt"),
        .chat = chat != NULL,
        .chat_template = chat,
        .max_new = (int)clt_config_int(c, "log.sample_tokens"),
        .sampling = {.temperature = TEMPERATURE, .top_p = 1, .seed = l->run->job->seed},
        .text = on_text,
        .context = text};
    clt_generate_result result;
    clt_str_append(text, "");
    CLT_TRY(copy_parameters(l, l->sampler));
    CLT_TRY(clt_decoder_generate(l->sampler->decoder, &wanted, &result));
    return clt_str_check(text);
}

void clt_tell_sample(clt_loop *l, int64_t step)
{
    CLT_SCOPED(clt_str) text = {0};
    double begin = clt_now();
    if (!l->sampler)
        return;
    clt_watch_break(l->watch, true);
    if (generate(l, &text) == CLT_OK) {
        tell(l, step, clt_config_string(l->options->config, "log.sample_prompt"), text.text);
    } else {
        give_up(l, clt_error_text());
        clt_sampler_close(l);
    }
    l->last_done = clt_now(); /* the time spent here does not belong to the next step */
    clt_spans_add(l->run->train->spans, CLT_TRACK_HOST, "sample", step, begin, l->last_done);
}
