/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens files of records and encodes them, a block of records at a time on each core. */
#include "engine/data/chat/chat_samples.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/data/records/record_forms.h"

#define BLOCK 64 /* records that a core encodes at a time */

/* --- encoding --- */

typedef struct block {
    clt_chat_tokens tokens;
    clt_error error; /* a failure whose cause is not a record */
} block;

typedef struct encoding {
    clt_chat_samples *samples;
    block *blocks;
} encoding;

/* True if text that the template did not write contains the name of a special token. */
static bool names_special(const clt_chat_samples *s, const clt_chat_text *text)
{
    size_t begin = 0;
    for (size_t i = 0; i < text->count; begin = text->part[i++].end)
        if (!text->part[i].marker && text->part[i].id < 0 &&
            clt_tokenizer_special_in(s->tokenizer, text->text.text + begin, text->part[i].end - begin))
            return true;
    return false;
}

/* Counts the targets of a sample. If the sample is too long, cuts or refuses it. */
static clt_status measure(const clt_chat_samples *s, const clt_chat_tokens *tokens, clt_chat_sample *sample)
{
    int64_t most = s->context + 1, all = 0;
    const uint8_t *trained = tokens->trained + sample->begin;
    for (int64_t i = 1; i < sample->count; i++)
        all += trained[i];
    if (sample->count < 2 || all == 0)
        CLT_FAIL(CLT_EDATA, "it has no token to train on after its first one");
    if (sample->count > most && !s->truncate)
        CLT_FAIL(CLT_EDATA,
                 "it has %lld tokens, and a sample of %lld at most fits into model.context %lld; take a "
                 "longer context, or cut such samples with data.truncate=true",
                 (long long)sample->count, (long long)most, (long long)s->context);
    if (sample->count > most) {
        sample->cut = sample->count - most;
        sample->count = most;
    }
    for (int64_t i = 1; i < sample->count; i++)
        sample->targets += trained[i];
    if (sample->targets == 0)
        CLT_FAIL(
            CLT_EDATA,
            "no token to train on is left after cutting it from %lld to %lld tokens (model.context %lld)",
            (long long)(sample->count + sample->cut), (long long)sample->count, (long long)s->context);
    return CLT_OK;
}

/* Encodes a record. `made`: memory for the JSON text of a record that is a row of a table. */
static clt_status encode_record(clt_chat_samples *s, clt_encoder *encoder, clt_str *made, clt_chat_text *text,
                                clt_chat_tokens *out, clt_chat_sample *sample)
{
    const char *line;
    size_t size;
    CLT_TRY(clt_record_json(&s->texts, &s->texts.documents[sample->document], made, &line, &size));
    CLT_TRY(clt_chat_read(&s->rules, line, size, text));
    if (names_special(s, text))
        __atomic_add_fetch(&s->special, 1, __ATOMIC_RELAXED);
    sample->begin = (int64_t)out->ids.count;
    CLT_TRY(clt_chat_encode(encoder, &s->rules, text, out));
    sample->count = (int64_t)out->ids.count - sample->begin;
    return measure(s, out, sample);
}

/* Encodes a record. If it cannot be used, keeps only the reason and none of its tokens. */
static clt_status encode_or_keep(clt_chat_samples *s, clt_encoder *encoder, clt_str *made,
                                 clt_chat_text *text, clt_chat_tokens *out, clt_chat_sample *sample)
{
    size_t before = out->ids.count;
    clt_status status = encode_record(s, encoder, made, text, out, sample);
    if (status == CLT_OK) {
        out->ids.count = before + (size_t)sample->count;
        return CLT_OK;
    }
    if (status != CLT_EDATA)
        return status;
    out->ids.count = before;
    *sample = (clt_chat_sample){.document = sample->document, .why = strdup(clt_error_text())};
    clt_error_clear();
    if (!sample->why)
        CLT_FAIL(CLT_ENOMEM, "reading samples: out of host memory");
    return CLT_OK;
}

static clt_status encode_block(clt_chat_samples *s, clt_encoder *encoder, int64_t first, block *b)
{
    CLT_SCOPED(clt_chat_text) text = {0};
    CLT_SCOPED(clt_str) made = {0};
    int64_t last = first + BLOCK < s->part.count ? first + BLOCK : s->part.count;
    for (int64_t i = first; i < last; i++)
        CLT_TRY(encode_or_keep(s, encoder, &made, &text, &b->tokens, &s->sample[i]));
    return CLT_OK;
}

static void encode_blocks(void *context, uint64_t first, uint64_t last)
{
    const encoding *e = context;
    CLT_SCOPED(clt_encoder) *encoder = NULL;
    clt_status status = clt_encoder_create(e->samples->tokenizer, &encoder);
    for (uint64_t i = first; i < last; i++) {
        if (status == CLT_OK)
            status = encode_block(e->samples, encoder, (int64_t)i * BLOCK, &e->blocks[i]);
        clt_error_take(status, &e->blocks[i].error);
    }
}

/* Joins the tokens of all blocks. */
static clt_status join_blocks(clt_chat_samples *s, const block *blocks, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        CLT_TRY(clt_error_put(&blocks[i].error));
        s->n_tokens += (int64_t)blocks[i].tokens.ids.count;
    }
    CLT_TRY(clt_alloc(&s->tokens, (size_t)s->n_tokens, sizeof *s->tokens, "the tokens of the samples"));
    int64_t base = 0;
    for (int64_t i = 0; i < n; base += (int64_t)blocks[i++].tokens.ids.count)
        for (int64_t k = i * BLOCK; k < (i + 1) * BLOCK && k < s->part.count; k++) {
            clt_chat_sample *sample = &s->sample[k];
            const clt_chat_tokens *from = &blocks[i].tokens;
            for (int64_t t = sample->begin; t < sample->begin + sample->count; t++)
                s->tokens[base + t] = from->ids.id[t] | (from->trained[t] ? CLT_CHAT_TRAINED : 0);
            sample->begin += base;
            s->bad += sample->why != NULL;
            s->cut += sample->cut > 0;
        }
    return CLT_OK;
}

static clt_status encode_all(clt_chat_samples *s)
{
    encoding e = {s, NULL};
    int64_t n = (s->part.count + BLOCK - 1) / BLOCK;
    CLT_TRY(clt_alloc(&s->sample, (size_t)s->part.count, sizeof *s->sample, "the samples"));
    CLT_TRY(clt_alloc(&e.blocks, (size_t)n, sizeof *e.blocks, "the samples"));
    for (int64_t i = 0; i < s->part.count; i++)
        s->sample[i].document = s->part.first + i;
    clt_for_ranges((uint64_t)n, 1, "chat", encode_blocks, &e);
    clt_status status = join_blocks(s, e.blocks, n);
    for (int64_t i = 0; i < n; i++)
        clt_chat_tokens_free(&e.blocks[i].tokens);
    free(e.blocks);
    return status;
}

/* --- opening --- */

static clt_status choose_template(const clt_config *config, clt_chat_samples *s)
{
    const char *name = clt_config_string(config, "data.template");
    s->rules = (clt_chat_rules){.tokenizer = s->tokenizer,
                                .chat = clt_chat_template_find(name),
                                .system = clt_config_string(config, "data.system"),
                                .date = clt_config_string(config, "data.date"),
                                .trained = (clt_chat_trained)clt_config_choice(config, "data.train_on")};
    CLT_TRY(clt_arena_create(&s->arena));
    if (strcmp(name, "auto") == 0)
        CLT_TRY(clt_chat_template_recognise(clt_config_string(config, "data.tokenizer"), s->arena,
                                            &s->rules.chat, &s->rules.why_none));
    return clt_fail_prefix(clt_chat_rules_check(&s->rules), "opening the samples");
}

clt_status clt_chat_samples_open(const clt_config *config, clt_split split, clt_chat_samples *s)
{
    s->context = clt_config_int(config, "model.context");
    s->truncate = clt_config_bool(config, "data.truncate");
    CLT_TRY(clt_tokenizer_open_config(config, &s->tokenizer));
    clt_tokenizer_read_special(s->tokenizer, clt_config_bool(config, "data.special_tokens"));
    CLT_TRY(choose_template(config, s));
    s->texts.cut = clt_table_cut;
    CLT_TRY(clt_records_open(config, split, &s->texts, &s->part));
    CLT_TRY(encode_all(s));
    return clt_texts_check(&s->texts);
}

void clt_chat_samples_free(clt_chat_samples *s)
{
    for (int64_t i = 0; s->sample && i < s->part.count; i++)
        free(s->sample[i].why);
    free(s->sample);
    free(s->tokens);
    clt_tokenizer_close(s->tokenizer);
    clt_texts_free(&s->texts);
    clt_arena_destroy(s->arena);
    *s = (clt_chat_samples){0};
}
