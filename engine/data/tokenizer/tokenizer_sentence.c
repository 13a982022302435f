/* SPDX-License-Identifier: Apache-2.0
 *
 * BPE over characters as in SentencePiece: "▁" represents a space, and a character without a token
 * becomes the tokens of its bytes, or the unknown token. This file prepares texts, cuts them at places
 * that no merge crosses, finds the initial tokens, and turns tokens into text, as the tokenizers library
 * does. It knows neither files nor merging. */
#include <stdio.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/data/texts/characters.h"
#include "engine/data/tokenizer/tokenizer_internal.h"

#define SPACE CLT_SPACE_LETTER
#define SPACE_BYTES 3u

static bool begins_with_space(const char *text, size_t size)
{
    return size >= SPACE_BYTES && memcmp(text, SPACE, SPACE_BYTES) == 0;
}

bool clt_sentence_ends_with_space(const char *text, size_t size)
{
    return size >= SPACE_BYTES && begins_with_space(text + size - SPACE_BYTES, SPACE_BYTES);
}

/* True if "▁" is inserted before a text at this place. */
static bool takes_prefix(const clt_sentence *how, clt_text_start start)
{
    return (how->prepend == CLT_PREPEND_ALWAYS && start != CLT_TEXT_CONTINUES) ||
           (how->prepend == CLT_PREPEND_FIRST && start == CLT_TEXT_BEGINS);
}

void clt_sentence_prepare(const clt_sentence *how, const char *text, size_t size, clt_text_start start,
                          clt_str *out)
{
    /* A normalizer inserts "▁" before every text, a Metaspace only before a text that does not begin with
     * "▁". */
    bool has_one = !how->normal && (begins_with_space(text, size) || (size > 0 && text[0] == ' '));
    if (size > 0 && !has_one && takes_prefix(how, start))
        clt_str_append_n(out, SPACE, SPACE_BYTES);
    for (size_t at = 0, end; at < size; at = end) {
        if (text[at] == ' ') {
            clt_str_append_n(out, SPACE, SPACE_BYTES);
            end = at + 1;
            continue;
        }
        for (end = at + 1; end < size && text[end] != ' ';)
            end++;
        clt_str_append_n(out, text + at, end - at);
    }
}

clt_status clt_sentence_split(const clt_sentence *how, const char *text, size_t size, clt_word_visitor word,
                              void *context)
{
    size_t begin = 0;
    if (!how->split && !how->apart)
        return size > 0 ? word(context, text, size) : CLT_OK;
    for (size_t at = 1; at < size; at++) {
        if (text[at] != SPACE[0] || !begins_with_space(text + at, size - at))
            continue;
        if (!how->split && clt_sentence_ends_with_space(text, at))
            continue;
        CLT_TRY(word(context, text + begin, at - begin));
        begin = at;
    }
    return size > begin ? word(context, text + begin, size - begin) : CLT_OK;
}

/* Writes the tokens of the bytes of a character; false if one of them is missing. */
static bool byte_tokens(const clt_tokenizer *t, const char *bytes, size_t size, uint32_t *id)
{
    for (size_t i = 0; i < size; i++)
        if ((id[i] = t->byte_token[(uint8_t)bytes[i]]) == CLT_NO_TOKEN)
            return false;
    return true;
}

size_t clt_sentence_symbols(const clt_tokenizer *t, const char *word, size_t size, uint32_t *id)
{
    const clt_sentence *how = &t->rules.sentence;
    bool unknown = false; /* an unknown token is still to be written */
    size_t n = 0;
    for (size_t at = 0, step; at < size; at += step) {
        step = clt_utf8_size(word + at, size - at);
        step = step ? step : 1;
        uint32_t found = clt_tokenizer_find(t, word + at, step);
        if (found == CLT_NO_TOKEN && how->fallback && byte_tokens(t, word + at, step, id + n)) {
            n += step;
            continue;
        }
        if (unknown && (found != CLT_NO_TOKEN || !how->fuse))
            id[n++] = how->unknown_id;
        unknown = found == CLT_NO_TOKEN && how->unknown_id != CLT_NO_TOKEN;
        if (found != CLT_NO_TOKEN)
            id[n++] = found;
    }
    if (unknown)
        id[n++] = how->unknown_id;
    return n;
}

int clt_sentence_byte(const char *name, size_t size)
{
    unsigned byte;
    char text[CLT_BYTE_NAME];
    if (size != CLT_BYTE_NAME - 1 || name[0] != '<' || name[1] != '0' || name[2] != 'x' || name[5] != '>')
        return -1;
    byte = 0;
    for (int i = 3; i < 5; i++) {
        unsigned c = (unsigned char)name[i];
        byte = 16 * byte + (c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 256);
    }
    if (byte > 255)
        return -1;
    clt_sentence_byte_name((uint8_t)byte, text);
    return memcmp(text, name, size) == 0 ? (int)byte : -1;
}

void clt_sentence_byte_name(uint8_t byte, char *name)
{
    (void)snprintf(name, CLT_BYTE_NAME, "<0x%02X>", byte);
}

/* True if a merge joins a token that does not end with a space and one that begins with a space. */
static bool crosses(const clt_tokenizer *t, const clt_merge *merge)
{
    const clt_token *left = &t->tokens[merge->left], *right = &t->tokens[merge->right];
    return begins_with_space(right->bytes, right->size) &&
           !clt_sentence_ends_with_space(left->bytes, left->size);
}

void clt_sentence_ready(clt_tokenizer *t)
{
    clt_sentence *how = &t->rules.sentence;
    how->apart =
        how->on && !t->rules.ignore_merges && clt_tokenizer_find(t, SPACE, SPACE_BYTES) != CLT_NO_TOKEN;
    for (uint32_t i = 0; i < t->n_merges && how->apart; i++)
        how->apart = !crosses(t, &t->merges[i]);
}

bool clt_sentence_all_bytes(const clt_tokenizer *t)
{
    bool bytes = t->rules.sentence.fallback;
    for (int i = 0; i < 256 && bytes; i++)
        bytes = t->byte_token[i] != CLT_NO_TOKEN;
    return bytes;
}

/* The text of a token as it is in a prepared text, in which an added token has its normal form. */
static clt_token prepared(const clt_tokenizer *t, uint32_t id)
{
    clt_token token = t->tokens[id];
    for (uint32_t i = 0; i < t->n_added && token.literal; i++)
        if (t->added[i].id == id) {
            token.bytes = t->added[i].content;
            token.size = (uint32_t)t->added[i].size;
        }
    return token;
}

void clt_sentence_append(const clt_tokenizer *t, uint32_t id, bool first, clt_str *out)
{
    const clt_sentence *how = &t->rules.sentence;
    const clt_token whole = prepared(t, id), *token = &whole;
    int byte = clt_sentence_byte(token->bytes, token->size);
    int drop = !first || how->drop == CLT_DROP_NOTHING ? 0 : how->drop == CLT_DROP_SPACE ? 1 : INT32_MAX;
    if (byte >= 0) {
        char text = (char)byte;
        if (!(drop == 1 && text == ' '))
            clt_str_append_n(out, &text, 1);
        return;
    }
    for (size_t at = 0; at < token->size;) {
        bool space = begins_with_space(token->bytes + at, token->size - at);
        size_t step = space ? SPACE_BYTES : 1;
        if (space && drop > 0 && (at == 0 || drop > 1))
            drop--;
        else
            clt_str_append_n(out, space ? " " : token->bytes + at, 1);
        at += step;
    }
}

uint32_t clt_sentence_bytes(const clt_token *token)
{
    uint32_t size = token->size;
    if (clt_sentence_byte(token->bytes, token->size) >= 0)
        return 1;
    for (size_t at = 0; at < token->size; at++)
        if (begins_with_space(token->bytes + at, token->size - at))
            size -= SPACE_BYTES - 1;
    return size;
}
