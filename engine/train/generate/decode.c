/* SPDX-License-Identifier: Apache-2.0
 *
 * Generation token by token: runs the decode plan with a checkpoint's parameters; the tokenizer encodes the
 * prompt and decodes the result. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/thread.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/saved_run.h"
#include "engine/data/chat/chat_template.h"
#include "engine/data/chat/chat_text.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "engine/models/models.h"
#include "engine/pretrained/peft.h"
#include "engine/pretrained/pretrained.h"
#include "engine/pretrained/start.h"
#include "engine/train/generate/generate.h"
#include "engine/train/run/run.h"

struct clt_decoder {
    clt_tokenizer *tokenizer;
    clt_run_options run_options;
    clt_run *run;
    int32_t context, used; /* positions in the key-value cache, and how many of them are filled */
    float *logits, *scratch;
    float *after_prompt;                /* the logits after the prompt, if several texts continue it */
    size_t outputs;                     /* number of logits of the model */
    int64_t answer_end;                 /* the token that ends an answer in a chat; -1: this is not a chat */
    clt_ids ids;                        /* the prompt, then generated tokens */
    bool any_text;                      /* `ids` holds a token of text; in a chat, a token of the answer */
    const clt_generate_options *wanted; /* options of the text that is being generated */
};

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

static clt_status find_tokenizer(clt_decoder *d, const clt_config *config, const char *name)
{
    int64_t vocab = clt_config_int(config, "model.vocab");
    CLT_TRY(clt_tokenizer_open_config(config, &d->tokenizer));
    if (!d->tokenizer)
        CLT_FAIL(
            CLT_EDATA,
            "generating from '%s': the run's data is tokens without a tokenizer; name one with --tokenizer "
            "(a folder or file of its vocabulary)",
            name);
    CLT_SCOPED(clt_str) surplus = {0};
    if (!clt_tokenizer_surplus(d->tokenizer, vocab, &surplus))
        CLT_FAIL(CLT_EDATA,
                 "generating from '%s': the tokenizer (%s) has tokens that the model (%lld) lacks: %s", name,
                 clt_tokenizer_description(d->tokenizer), (long long)vocab, surplus.text ? surplus.text : "");
    return CLT_OK;
}

static clt_status open_model(clt_decoder *d)
{
    CLT_TRY(clt_run_create(&d->run_options, CLT_JOB_DECODE, &d->run));
    d->context = (int32_t)d->run->job->context;
    d->outputs =
        (size_t)clt_shape_last(&clt_graph_tensor(d->run->job->eval->graph, d->run->job->prediction)->shape);
    CLT_TRY(clt_alloc(&d->logits, d->outputs, sizeof *d->logits, "generation"));
    CLT_TRY(clt_alloc(&d->after_prompt, d->outputs, sizeof *d->after_prompt, "generation"));
    return clt_alloc(&d->scratch, d->outputs, sizeof *d->scratch, "generation");
}

clt_status clt_decoder_create(const clt_run_options *options, const char *name, clt_decoder **out)
{
    CLT_SCOPED(clt_decoder) *d = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&d, 1, sizeof *d, "generation"));
    d->run_options = *options;
    CLT_TRY(find_tokenizer(d, options->config, name));
    CLT_TRY(open_model(d));
    *out = CLT_TAKE(d);
    return CLT_OK;
}

void clt_decoder_destroy(clt_decoder *d)
{
    if (!d)
        return;
    clt_run_destroy(d->run);
    clt_tokenizer_close(d->tokenizer);
    free(d->logits);
    free(d->scratch);
    free(d->after_prompt);
    free(d->ids.id);
    free(d);
}

struct clt_run *clt_decoder_run(clt_decoder *d)
{
    return d->run;
}

/* The number of tokens that both model and tokenizer know; later logits are padding. */
static int known_tokens(const clt_decoder *d)
{
    int64_t rows = clt_config_int(d->run_options.config, "model.vocab");
    int known = (int)clt_tokenizer_vocab(d->tokenizer);
    return rows < known ? (int)rows : known;
}

/* Passes the logits of the token that follows the newest one to the caller. */
static clt_status give_logits(const clt_decoder *d)
{
    const clt_generate_options *o = d->wanted;
    return o->logits ? o->logits(o->context, d->logits, known_tokens(d)) : CLT_OK;
}

/* Feeds the tokens from number `first` on into an empty key-value cache. told: passes their logits to the
 * caller. */
static clt_status prefill(clt_decoder *d, size_t first, bool told)
{
    d->used = 0;
    for (size_t i = first; i < d->ids.count; i++, d->used++) {
        CLT_TRY(clt_decode_token(d->run, (int32_t)d->ids.id[i], d->used, d->logits));
        if (told)
            CLT_TRY(give_logits(d));
    }
    return CLT_OK;
}

/* The prompt may contain special tokens for which the model has no row. */
static clt_status check_prompt(const clt_decoder *d, int64_t rows)
{
    for (size_t i = 0; i < d->ids.count; i++) {
        uint32_t id = d->ids.id[i];
        if (id < rows)
            continue;
        CLT_SCOPED(clt_str) name = {0};
        CLT_TRY(clt_tokenizer_decode(d->tokenizer, &id, 1, &name));
        CLT_FAIL(CLT_EDATA,
                 "generating: the prompt holds the token \"%s\" (%u), which the model lacks; it has the "
                 "tokens 0 to %lld; remove that token from the prompt",
                 name.text ? name.text : "", id, (long long)rows - 1);
    }
    return CLT_OK;
}

static clt_status push_id(clt_ids *ids, uint32_t id)
{
    CLT_TRY(clt_grow(&ids->id, &ids->capacity, ids->count + 1, sizeof *ids->id, "tokens"));
    ids->id[ids->count++] = id;
    return CLT_OK;
}

static clt_status give_text(clt_decoder *d, uint32_t id)
{
    CLT_SCOPED(clt_str) text = {0};
    CLT_TRY(clt_tokenizer_decode_next(d->tokenizer, id, !d->any_text, &text));
    d->any_text = d->any_text || clt_tokenizer_text_bytes(d->tokenizer, id) > 0;
    if (d->wanted->text && text.length)
        d->wanted->text(d->wanted->context, text.text, text.length);
    return CLT_OK;
}

/* True for a token that ends the text: the tokenizer's end-of-text token, the end marker of an answer, or a
 * stop token of the config. */
static bool ends_text(const clt_decoder *d, int64_t id)
{
    const clt_config *c = d->run_options.config;
    bool ends = id == clt_tokenizer_end_of_text(d->tokenizer) || id == d->answer_end;
    for (int i = clt_config_list_count(c, "model.stop_tokens"); i-- > 0 && !ends;)
        ends = clt_config_list_int(c, "model.stop_tokens", i) == id;
    return ends;
}

/* Draws the next token and computes the logits after it. *ended: the token was the end of the text. */
static clt_status next_token(clt_decoder *d, const clt_sampling *sampling, int index, bool *ended)
{
    uint32_t id = (uint32_t)clt_sample(d->logits, known_tokens(d), sampling, (uint64_t)index, d->scratch);
    *ended = !d->wanted->ignore_end && ends_text(d, (int64_t)id);
    CLT_TRY(push_id(&d->ids, id));
    if (*ended)
        return CLT_OK;
    CLT_TRY(give_text(d, id));
    if (d->used == d->context) { /* the cache is full: continue with the newer half of the tokens */
        CLT_TRY(prefill(d, d->ids.count - (size_t)(d->context / 2 > 0 ? d->context / 2 : 1), false));
    } else {
        CLT_TRY(clt_decode_token(d->run, (int32_t)id, d->used, d->logits));
        d->used++;
    }
    return index + 1 < d->wanted->max_new ? give_logits(d) : CLT_OK;
}

/* Encodes a text to continue. */
static clt_status encode_prompt(clt_decoder *d, const char *prompt, int64_t rows)
{
    size_t before;
    const uint32_t *begin = clt_tokenizer_before(d->tokenizer, &before);
    for (size_t i = 0; i < before; i++)
        CLT_TRY(push_id(&d->ids, begin[i]));
    CLT_TRY(clt_tokenizer_encode(d->tokenizer, prompt, strlen(prompt), &d->ids));
    if (d->ids.count > 0)
        return CLT_OK;
    /* empty prompt: start with the end-of-text token, or else a line break */
    int64_t end = clt_tokenizer_end_of_text(d->tokenizer);
    return end >= 0 && end < rows ? push_id(&d->ids, (uint32_t)end)
                                  : clt_tokenizer_encode(d->tokenizer, "\n", 1, &d->ids);
}

/* Encodes the user's turn of a chat, up to where the answer begins. */
static clt_status encode_question(clt_decoder *d, const clt_generate_options *o)
{
    CLT_SCOPED(clt_chat_text) text = {0};
    CLT_SCOPED(clt_encoder) *encoder = NULL;
    CLT_SCOPED(clt_chat_tokens) tokens = {0};
    const clt_config *c = d->run_options.config;
    const clt_chat_rules rules = {.tokenizer = d->tokenizer,
                                  .chat = clt_chat_template_find(o->chat_template),
                                  .why_none = "this program does not know it",
                                  .system = clt_config_string(c, "data.system"),
                                  .date = clt_config_string(c, "data.date")};
    CLT_TRY(clt_chat_rules_check(&rules));
    CLT_TRY(clt_chat_question(&rules, o->prompt, &text));
    CLT_TRY(clt_encoder_create(d->tokenizer, &encoder));
    CLT_TRY(clt_chat_encode(encoder, &rules, &text, &tokens));
    for (size_t i = 0; i < tokens.ids.count; i++)
        CLT_TRY(push_id(&d->ids, tokens.ids.id[i]));
    return clt_chat_end_token(&rules, &d->answer_end);
}

/* Restores the state after the prompt: `count` tokens, the last `used` of them in the cache. */
static clt_status begin_again(clt_decoder *d, size_t count, int32_t used, bool any_text, bool cached)
{
    d->ids.count = count;
    d->any_text = any_text;
    if (!cached) /* the cache has been refilled since then */
        return prefill(d, count - (size_t)used, false);
    d->used = used;
    memcpy(d->logits, d->after_prompt, d->outputs * sizeof *d->logits);
    return CLT_OK;
}

static clt_status generate_texts(clt_decoder *d, clt_generate_result *result)
{
    const clt_generate_options *o = d->wanted;
    clt_sampling sampling = o->sampling;
    const size_t count = d->ids.count;
    const int32_t used = d->used;
    const bool any_text = d->any_text;
    bool cached = true;
    memcpy(d->after_prompt, d->logits, d->outputs * sizeof *d->logits);
    for (int sample = 0; sample == 0 || sample < o->samples; sample++, sampling.sample++) {
        double start = clt_now();
        if (sample > 0)
            CLT_TRY(begin_again(d, count, used, any_text, cached));
        result->ended = false;
        for (result->new_tokens = 0; result->new_tokens < o->max_new && !result->ended; result->new_tokens++)
            CLT_TRY(next_token(d, &sampling, result->new_tokens, &result->ended));
        cached = d->ids.count - count <= (size_t)(d->context - used);
        result->new_seconds = clt_now() - start;
        if (o->done)
            o->done(o->context, result);
    }
    return CLT_OK;
}

clt_status clt_decoder_generate(clt_decoder *d, const clt_generate_options *o, clt_generate_result *result)
{
    *result = (clt_generate_result){0};
    d->wanted = o;
    d->ids.count = 0;
    d->answer_end = -1;
    int64_t rows = clt_config_int(d->run_options.config, "model.vocab");
    clt_tokenizer_read_special(d->tokenizer, o->special_tokens);
    CLT_TRY(o->chat ? encode_question(d, o) : encode_prompt(d, o->prompt, rows));
    CLT_TRY(check_prompt(d, rows));
    d->any_text = false;
    for (size_t i = 0; i < d->ids.count && !o->chat; i++)
        d->any_text = d->any_text || clt_tokenizer_text_bytes(d->tokenizer, d->ids.id[i]) > 0;
    double start = clt_now();
    size_t keep = (size_t)d->context;
    CLT_TRY(prefill(d, d->ids.count > keep ? d->ids.count - keep : 0, true));
    result->prompt_tokens = (int)d->ids.count;
    result->prompt_seconds = clt_now() - start;
    return generate_texts(d, result);
}

/* --- from a checkpoint --- */

clt_status clt_decoder_find_vocab(clt_saved_run *saved)
{
    char text[32];
    const char *name = clt_model_family_of(saved->config)->published->table;
    const clt_named_tensor *table = clt_safetensors_find(saved->checkpoint->model, name);
    if (!table || table->shape.ndim != 2 || table->shape.dim[0] > INT32_MAX / 2)
        CLT_FAIL(CLT_ECHECKPOINT,
                 "generating from '%s': it holds no token table %s, so it is not a language model",
                 saved->path, name);
    snprintf(text, sizeof text, "%d", (int)table->shape.dim[0]);
    return clt_config_set(saved->config, "model.vocab", text);
}

/* Sets the chat template of the run, if the prompt is a turn of a chat. */
static clt_status find_chat(const clt_saved_run *saved, clt_generate_options *o)
{
    if (!o->chat || o->chat_template)
        return CLT_OK;
    if (!saved->facts.chat[0])
        CLT_FAIL(
            CLT_EUSAGE,
            "generating from '%s': this run was not trained on conversations (data.type chat), so it has "
            "no chat template; leave out --chat",
            saved->path);
    o->chat_template = saved->facts.chat;
    return CLT_OK;
}

/* Sets the chat template that lies in a folder of transformers, if the prompt is a turn of a chat. */
static clt_status find_published_chat(clt_generate_options *o, clt_arena *arena)
{
    const clt_chat_template *chat;
    const char *why;
    if (!o->chat)
        return CLT_OK;
    CLT_TRY(clt_chat_template_recognise(o->checkpoint, arena, &chat, &why));
    if (!chat)
        CLT_FAIL(CLT_EUSAGE, "generating from '%s': --chat needs a chat template, and %s", o->checkpoint,
                 why);
    o->chat_template = chat->name;
    return CLT_OK;
}

/* Generates with the weights in a folder that save_pretrained of transformers wrote. */
static clt_status generate_published(const clt_generate_options *o, clt_generate_result *result)
{
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_SCOPED(clt_decoder) *d = NULL;
    CLT_SCOPED(clt_arena) *arena = NULL;
    CLT_SCOPED(clt_pretrained) *pretrained = NULL;
    clt_generate_options wanted = *o;
    CLT_TRY(clt_pretrained_open(o->checkpoint, &pretrained));
    if (!clt_pretrained_generates(pretrained))
        CLT_FAIL(
            CLT_EUNSUPPORTED,
            "generating from '%s': it holds a BERT; generate continues texts with a language model (gpt, "
            "llama)",
            o->checkpoint);
    CLT_TRY(clt_start_published(pretrained, o->checkpoint, o->overrides, o->n_overrides, o->tokenizer,
                                o->adapter, &config));
    const clt_run_options run = {.config = config,
                                 .init = o->checkpoint,
                                 .adapter = o->adapter,
                                 .device_spec = o->device_spec,
                                 .caps_mask = o->caps_mask,
                                 .observer = o->observer};
    CLT_TRY(clt_arena_create(&arena));
    CLT_TRY(find_published_chat(&wanted, arena));
    CLT_TRY(clt_decoder_create(&run, o->checkpoint, &d));
    CLT_TRY(clt_run_take_init(d->run));
    return clt_decoder_generate(d, &wanted, result);
}

static clt_status generate_tokens(const clt_generate_options *o, clt_saved_run *saved,
                                  clt_generate_result *result)
{
    CLT_SCOPED(clt_decoder) *d = NULL;
    const clt_run_options run = {.config = saved->config,
                                 .device_spec = o->device_spec,
                                 .caps_mask = o->caps_mask,
                                 .observer = o->observer};
    CLT_TRY(clt_decoder_create(&run, saved->path, &d));
    clt_generate_options wanted = *o;
    CLT_TRY(find_chat(saved, &wanted));
    CLT_TRY(clt_run_load_saved(d->run, saved->checkpoint, saved->path));
    return clt_decoder_generate(d, &wanted, result);
}

/* Window models generate the whole text in one call. */
static clt_status generate_window(const clt_generate_options *o, const clt_saved_run *saved,
                                  clt_generate_result *result)
{
    CLT_SCOPED(clt_source) *shapes = NULL;
    CLT_SCOPED(clt_str) text = {0};
    if (o->logits)
        CLT_FAIL(CLT_EUNSUPPORTED, "generating from '%s': only a language model has logits to write",
                 saved->path);
    if (saved->has_facts)
        CLT_TRY(clt_saved_run_shapes(saved, &shapes));
    clt_run_options run = {.config = saved->config,
                           .saved = saved,
                           .source = shapes,
                           .device_spec = o->device_spec,
                           .caps_mask = o->caps_mask,
                           .predicts = true,
                           .observer = o->observer};
    double start = clt_now();
    int samples = o->samples > 1 ? o->samples : 1;
    CLT_TRY(clt_sample_window(&run, o->prompt, samples, o->max_new, &o->sampling, &text));
    result->new_tokens = o->max_new;
    result->new_seconds = (clt_now() - start) / samples;
    for (int i = 0; i < samples; i++) {
        if (o->text && o->max_new > 0)
            o->text(o->context, text.text + (size_t)i * (size_t)o->max_new, (size_t)o->max_new);
        if (o->done)
            o->done(o->context, result);
    }
    return CLT_OK;
}

/* Fails for a model that is not a language model; the message says what the run trained, and which commands
 * use such a model. */
static clt_status no_language_model(const clt_saved_run *saved)
{
    CLT_SCOPED(clt_str) words = {0};
    clt_saved_run_words(saved, &words);
    CLT_TRY(clt_str_check(&words));
    CLT_FAIL(CLT_EUNSUPPORTED,
             "generating from '%s': this run trained %s; generate continues texts with a language model "
             "(gpt, llama), or with a model "
             "of data.window bytes. Use 'cltrain predict' for what the model makes of new samples, 'cltrain "
             "eval' for its loss on the evaluation data",
             saved->path, words.text);
}

/* True for a model that predicts the next byte from a window of bytes. */
static bool is_window_model(const clt_saved_run *saved)
{
    const clt_config *c = saved->config;
    const char *tokenizer = clt_config_string(c, "data.tokenizer");
    return clt_config_part_has(clt_config_chosen(c, "data.type"), "data.window") &&
           clt_config_int(c, "model.context") == 0 && (!*tokenizer || strcmp(tokenizer, "bytes") == 0);
}

clt_status clt_generate(const clt_generate_options *options, clt_generate_result *result)
{
    CLT_SCOPED(clt_saved_run) *saved = NULL;
    clt_saved_run_options open = {.tensors = true,
                                  .tokenizer = options->tokenizer,
                                  .overrides = options->overrides,
                                  .n_overrides = options->n_overrides};
    *result = (clt_generate_result){0};
    if (clt_pretrained_is_folder(options->checkpoint))
        return generate_published(options, result);
    CLT_TRY(clt_saved_run_open(options->checkpoint, &open, &saved));
    const bool decoder = clt_model_family_of(saved->config)->build_decode != NULL;
    if (decoder)
        CLT_TRY(clt_decoder_find_vocab(saved));
    if (options->adapter)
        CLT_TRY(clt_peft_put_on(saved, options->adapter));
    if (decoder)
        return generate_tokens(options, saved, result);
    return is_window_model(saved) ? generate_window(options, saved, result) : no_language_model(saved);
}
