/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the ranges of a WordPiece's tokens in the text. The normaliser works character by character, so each
 * byte of the normal form comes from one character of the text. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/data/tokenizer/tokenizer_internal.h"

typedef struct ranging {
    const clt_tokenizer *tokenizer;
    const char *text;
    size_t size;
    clt_str normal; /* the normal form of a part of the text */
    size_t *from;   /* for each byte of the normal form: the offset of its character in the text */
    size_t capacity;
    clt_ids *ids;
    clt_token_ranges *out;
} ranging;

/* The end of the character that begins at byte `at` of the text. */
static size_t character_end(const ranging *r, size_t at)
{
    size_t step = clt_utf8_size(r->text + at, r->size - at);
    return at + (step ? step : 1);
}

static clt_status add_token(ranging *r, uint32_t id, clt_text_range range)
{
    size_t n = r->ids->count;
    CLT_TRY(clt_grow(&r->ids->id, &r->ids->capacity, n + 1, sizeof *r->ids->id, "ids"));
    CLT_TRY(clt_grow(&r->out->range, &r->out->capacity, n + 1, sizeof *r->out->range, "ranges"));
    r->ids->id[r->ids->count++] = id;
    r->out->range[n] = range;
    return CLT_OK;
}

/* Appends the pieces of a word with their ranges. */
static clt_status add_word(void *context, const char *word, size_t size)
{
    ranging *r = context;
    size_t before = r->ids->count, at = (size_t)(word - r->normal.text), end = at + size;
    CLT_TRY(clt_wordpiece_encode(r->tokenizer, word, size, r->ids));
    CLT_TRY(clt_grow(&r->out->range, &r->out->capacity, r->ids->count, sizeof *r->out->range, "ranges"));
    for (size_t i = before; i < r->ids->count; i++) {
        uint32_t bytes = clt_tokenizer_text_bytes(r->tokenizer, r->ids->id[i]);
        bool whole = r->ids->id[i] == r->tokenizer->rules.wordpiece.unknown_id || bytes == 0;
        size_t next = whole || at + bytes > end ? end : at + bytes;
        r->out->range[i] = (clt_text_range){r->from[at], character_end(r, r->from[next - 1])};
        at = next < end ? next : end - 1;
    }
    return CLT_OK;
}

/* Number of bytes at the beginning of a text that are printable ASCII, and thus one byte each in the normal
 * form, too. */
static size_t plain_run(const char *text, size_t size)
{
    size_t run = 0;
    while (run < size && text[run] >= ' ' && text[run] <= '~')
        run++;
    return run;
}

/* Sets r->normal to the normal form of [begin, end), and r->from to the offset of each byte's character in
 * the text. */
static clt_status normalise(ranging *r, size_t begin, size_t end)
{
    r->normal.length = 0;
    clt_str_append(&r->normal, "");
    for (size_t at = begin, step; at < end; at += step) {
        size_t before = r->normal.length, run = plain_run(r->text + at, end - at);
        step = run ? run : clt_utf8_size(r->text + at, end - at);
        step = step ? step : 1;
        CLT_TRY(clt_wordpiece_normal(&r->tokenizer->rules.wordpiece, r->text + at, step, &r->normal));
        CLT_TRY(
            clt_grow(&r->from, &r->capacity, r->normal.length + 1, sizeof *r->from, "places of characters"));
        for (size_t i = before; i < r->normal.length; i++)
            r->from[i] = at + (run ? i - before : 0);
    }
    return clt_str_check(&r->normal);
}

/* Appends the ids and ranges of the text [begin, end), which contains no added token that is found before
 * normalising. */
static clt_status add_normal(ranging *r, size_t begin, size_t end)
{
    clt_added_match match;
    size_t done = 0;
    if (begin == end)
        return CLT_OK;
    CLT_TRY(normalise(r, begin, end));
    clt_added_search search = {
        .tokenizer = r->tokenizer, .text = r->normal.text, .size = r->normal.length, .normalized = true};
    while (clt_added_next(&search, &match)) {
        CLT_TRY(clt_wordpiece_split(r->normal.text + done, match.begin - done, add_word, r));
        CLT_TRY(add_token(r, match.id,
                          (clt_text_range){r->from[match.begin], character_end(r, r->from[match.end - 1])}));
        done = match.end;
    }
    return clt_wordpiece_split(r->normal.text + done, r->normal.length - done, add_word, r);
}

static clt_status add_text(ranging *r)
{
    clt_added_search search = {.tokenizer = r->tokenizer, .text = r->text, .size = r->size};
    clt_added_match match;
    size_t done = 0;
    while (clt_added_next(&search, &match)) {
        CLT_TRY(add_normal(r, done, match.begin));
        CLT_TRY(add_token(r, match.id, (clt_text_range){match.begin, match.end}));
        done = match.end;
    }
    return add_normal(r, done, r->size);
}

clt_status clt_encode_ranges(const clt_tokenizer *t, const char *text, size_t size, clt_ids *ids,
                             clt_token_ranges *out)
{
    ranging r = {.tokenizer = t, .text = text, .size = size, .ids = ids, .out = out};
    if (!t->rules.wordpiece.on)
        CLT_FAIL(CLT_EDATA, "%s does not record where in a text its tokens are; use a WordPiece tokenizer",
                 t->description);
    clt_status status = add_text(&r);
    clt_str_free(&r.normal);
    free(r.from);
    return status;
}

void clt_token_ranges_free(clt_token_ranges *r)
{
    free(r->range);
    *r = (clt_token_ranges){0};
}
