/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes scores of tokens for programs that run SentencePiece's BPE by scores instead of by merges. They
 * join the two neighbours whose joined text is the token of the highest score; among equals, the leftmost.
 *
 * Both ways give the same ids if merging each token's text alone ends with that token, or with three or more
 * symbols. The reason: in a window whose edges no merge has crossed, the same merges happen as in the
 * window's text alone. So two neighbours whose joined text is a token are always the last two symbols of that
 * text alone. If a merge joins these two, the token's score is the negative rank of that merge. If no merge
 * does, only the other programs join them. */
#include <stdio.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/data/tokenizer/tokenizer_internal.h"

#define UNKNOWN (CLT_NO_TOKEN - 1) /* a character without a token, which no merge joins */
#define MOST_MERGES (1u << 24)     /* whole numbers up to this one are exact in f32 */

bool clt_tokenizer_is_sentence(const clt_tokenizer *t)
{
    return t->rules.sentence.on;
}

clt_space_rule clt_tokenizer_space(const clt_tokenizer *t)
{
    const clt_sentence *how = &t->rules.sentence;
    return (clt_space_rule){how->on && how->prepend != CLT_PREPEND_NEVER,
                            how->on && how->prepend == CLT_PREPEND_ALWAYS, how->on && how->normal};
}

int clt_tokenizer_byte_of(const clt_tokenizer *t, uint32_t id)
{
    return t->rules.sentence.on ? clt_sentence_byte(t->tokens[id].bytes, t->tokens[id].size) : -1;
}

/* The rule of this tokenizer, besides merges, that files for other programs cannot express; NULL: they can
 * express all rules. */
static const char *strange_rule(const clt_tokenizer *t)
{
    const clt_sentence *how = &t->rules.sentence;
    if (!clt_sentence_all_bytes(t))
        return "lacks tokens for single bytes";
    if (t->rules.ignore_merges)
        return "takes a text that is a token without its merges";
    if (t->rules.nfc)
        return "applies normal form C";
    if (t->n_merges > MOST_MERGES)
        return "has too many merges";
    for (uint32_t i = 0; i < t->n_merges; i++) {
        const clt_token *right = &t->tokens[t->merges[i].right];
        if (clt_tokenizer_byte_of(t, t->merges[i].left) >= 0 ||
            clt_tokenizer_byte_of(t, t->merges[i].right) >= 0)
            return "joins tokens of single bytes";
        if (how->split && right->size >= strlen(CLT_SPACE_LETTER) &&
            memcmp(right->bytes, CLT_SPACE_LETTER, strlen(CLT_SPACE_LETTER)) == 0)
            return "begins a word at each space, though merges join spaces";
    }
    return NULL;
}

/* The first added token that other programs would find in different places; NULL: none. Special tokens are
 * found only in marked text. */
static const clt_added_token *strange_added(const clt_tokenizer *t)
{
    for (uint32_t i = 0; i < t->n_added; i++) {
        const clt_added_token *a = &t->added[i];
        if (!a->special &&
            (a->lstrip || a->rstrip || a->single_word || (a->normalized && t->rules.sentence.normal)))
            return a;
    }
    return NULL;
}

/* Merges the characters of a token until two symbols are left or no merge applies. Returns the number of
 * symbols; 0: the token has too many characters. */
static size_t last_symbols(const clt_tokenizer *t, const clt_token *token, uint32_t *id)
{
    size_t n = 0;
    for (size_t at = 0, step; at < token->size; at += step) {
        step = clt_utf8_size(token->bytes + at, token->size - at);
        step = step ? step : 1;
        if (n == CLT_SHORT_WORD)
            return 0;
        id[n] = clt_tokenizer_find(t, token->bytes + at, step);
        if (id[n] == CLT_NO_TOKEN)
            id[n] = UNKNOWN;
        n++;
    }
    return clt_merge_symbols(t, id, n, 2);
}

clt_status clt_tokenizer_scores(const clt_tokenizer *t, float *scores, clt_str *why)
{
    const char *rule = strange_rule(t);
    const clt_added_token *added = rule ? NULL : strange_added(t);
    if (rule)
        clt_str_printf(why, "it %s", rule);
    else if (added)
        clt_str_printf(why, "it finds the added token \"%.60s\" by other rules than plain text", added->name);
    for (uint32_t i = 0; i < t->vocab && why->length == 0; i++) {
        const clt_token *token = &t->tokens[i];
        uint32_t id[CLT_SHORT_WORD];
        size_t n = last_symbols(t, token, id);
        const clt_pair_slot *merge = n == 2 ? clt_tokenizer_pair(t, id[0], id[1]) : NULL;
        scores[i] = merge ? -(float)merge->rank : n == 1 ? 0 : CLT_SCORE_UNUSED;
        if (token->literal || token->special || merge || n == 1 || n > 2)
            /* names of literal and special tokens are found before any joining, or are marked */
            continue;
        const int shown = (int)(token->size < 60 ? token->size : 60);
        if (n == 0)
            clt_str_printf(why, "a token has more than %d characters: \"%.*s\"", CLT_SHORT_WORD, shown,
                           token->bytes);
        else
            clt_str_printf(why,
                           "its merges leave \"%.*s\" as two tokens, though it is a token, so that another "
                           "program would join them",
                           shown, token->bytes);
    }
    return clt_str_check(why);
}
