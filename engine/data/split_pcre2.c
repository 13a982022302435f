/* SPDX-License-Identifier: Apache-2.0
 *
 * Text into words, with PCRE2 and the pattern that GPT-2 was trained with. The only file that knows PCRE2.
 * The pattern sees valid UTF-8 alone: runs of other bytes are taken out first, each one a word of its own. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/data/tokenizer_internal.h"

/* The published pattern of GPT-2. It must not be changed in any way, since other words give other ids. */
static const char pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

struct clt_splitter {
    pcre2_code *code;
    bool jit; /* PCRE2's just-in-time compiler; a hardened system may forbid it */
};

struct clt_split_state {
    const clt_splitter *splitter;
    pcre2_match_data *match;
};

static clt_status pcre2_failed(const char *doing, int code)
{
    char text[128] = "unknown error";
    (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
    CLT_FAIL(code == PCRE2_ERROR_NOMEMORY ? CLT_ENOMEM : CLT_EINTERNAL, "%s: PCRE2 says: %s", doing, text);
}

clt_status clt_splitter_create(clt_splitter **out)
{
    clt_splitter *splitter;
    int code = 0;
    PCRE2_SIZE place = 0;
    CLT_TRY(clt_alloc(&splitter, 1, sizeof *splitter, "the splitter of a tokenizer"));
    splitter->code = pcre2_compile((PCRE2_SPTR)pattern, sizeof pattern - 1,
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &code, &place, NULL);
    if (!splitter->code) {
        free(splitter);
        return pcre2_failed("building the splitter of a tokenizer", code);
    }
    splitter->jit = pcre2_jit_compile(splitter->code, PCRE2_JIT_COMPLETE) == 0;
    *out = splitter;
    return CLT_OK;
}

void clt_splitter_destroy(clt_splitter *splitter)
{
    if (!splitter)
        return;
    pcre2_code_free(splitter->code);
    free(splitter);
}

clt_status clt_split_state_create(const clt_splitter *splitter, clt_split_state **out)
{
    clt_split_state *state;
    CLT_TRY(clt_alloc(&state, 1, sizeof *state, "the scratch of a splitter"));
    state->splitter = splitter;
    state->match = pcre2_match_data_create(1, NULL);
    if (!state->match) {
        free(state);
        return pcre2_failed("making the scratch of a splitter", PCRE2_ERROR_NOMEMORY);
    }
    *out = state;
    return CLT_OK;
}

void clt_split_state_destroy(clt_split_state *state)
{
    if (!state)
        return;
    pcre2_match_data_free(state->match);
    free(state);
}

/* End of the word that begins at `at`. Every character is a letter, a number, a space or something else, so
 * the pattern always matches. If it ever did not, one character would be the word. */
static clt_status word_end(clt_split_state *state, const char *text, size_t size, size_t at, size_t *end)
{
    const clt_splitter *s = state->splitter;
    int found = PCRE2_ERROR_JIT_STACKLIMIT;
    if (s->jit)
        found = pcre2_jit_match(s->code, (PCRE2_SPTR)text, size, at, PCRE2_NO_UTF_CHECK, state->match, NULL);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found = pcre2_match(s->code, (PCRE2_SPTR)text, size, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                            state->match, NULL);
    if (found == PCRE2_ERROR_NOMATCH) {
        *end = at + clt_utf8_size(text + at, size - at);
        return CLT_OK;
    }
    if (found < 0)
        return pcre2_failed("splitting a text into words", found);
    *end = pcre2_get_ovector_pointer(state->match)[1];
    return CLT_OK;
}

/* Length of the longest prefix that is valid UTF-8. */
static size_t valid_prefix(const char *text, size_t size)
{
    size_t at = 0;
    while (at < size) {
        uint64_t eight;
        if (size - at >= 8) {
            memcpy(&eight, text + at, 8);
            if (!(eight & UINT64_C(0x8080808080808080))) {
                at += 8;
                continue;
            }
        }
        size_t step = clt_utf8_size(text + at, size - at);
        if (step == 0)
            break;
        at += step;
    }
    return at;
}

static size_t invalid_prefix(const char *text, size_t size)
{
    size_t at = 0;
    while (at < size && clt_utf8_size(text + at, size - at) == 0)
        at++;
    return at;
}

clt_status clt_split_words(clt_split_state *state, const char *text, size_t size, clt_word_visitor word,
                           void *context)
{
    while (size > 0) {
        size_t valid = valid_prefix(text, size), end = 0;
        for (size_t at = 0; at < valid; at = end) {
            CLT_TRY(word_end(state, text, valid, at, &end));
            if (end <= at || end > valid)
                CLT_FAIL(CLT_EINTERNAL, "splitting a text into words: a word from byte %zu to %zu", at, end);
            CLT_TRY(word(context, text + at, end - at));
        }
        text += valid;
        size -= valid;
        size_t invalid = invalid_prefix(text, size);
        if (invalid > 0)
            CLT_TRY(word(context, text, invalid));
        text += invalid;
        size -= invalid;
    }
    return CLT_OK;
}
