/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds added tokens in texts, from left to right and at each place the longest first, as the tokenizers
 * library does. Some matches are not valid: a special token that is plain text, or a token of kind
 * single_word with word characters beside it. Such a match is skipped as a whole: no shorter token is
 * found inside it. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/data/texts/characters.h"
#include "engine/data/tokenizer/tokenizer_internal.h"

/* Sorts the longest tokens first, and equally long ones by id, so that the order is always the same. */
static int by_size(const void *a, const void *b)
{
    size_t x = ((const clt_added_token *)a)->size, y = ((const clt_added_token *)b)->size;
    uint32_t i = ((const clt_added_token *)a)->id, k = ((const clt_added_token *)b)->id;
    return x != y ? (x < y) - (x > y) : (i > k) - (i < k);
}

clt_status clt_added_ready(clt_tokenizer *t)
{
    for (uint32_t i = 0; i < t->n_added; i++) {
        clt_added_token *a = &t->added[i];
        CLT_SCOPED(clt_str) normal = {0};
        if (!a->normalized || clt_tokenizer_is_normal(t, a->content, a->size))
            continue;
        CLT_TRY(clt_tokenizer_normal(t, a->content, a->size, CLT_TEXT_BEGINS, &normal));
        if (normal.length == 0) /* an empty name would be found everywhere */
            CLT_FAIL(CLT_EDATA, "nothing is left of the added token \"%.60s\" when it is normalised",
                     a->name);
        a->size = normal.length;
        a->content = clt_arena_strdup(t->arena, normal.text);
        if (!a->content)
            return CLT_ENOMEM;
    }
    if (t->n_added)
        qsort(t->added, t->n_added, sizeof *t->added, by_size);
    for (uint32_t i = 0; i < t->n_added; i++)
        t->added_start[(uint8_t)t->added[i].content[0]] = 1;
    return CLT_OK;
}

/* True if bytes [begin, end) are inside a marked range. */
static bool is_marked(clt_added_search *s, size_t begin, size_t end)
{
    while (s->n_marked > 0 && s->marked->end <= begin) {
        s->marked++;
        s->n_marked--;
    }
    return s->n_marked > 0 && s->marked->begin <= begin && end <= s->marked->end;
}

/* The longest added token at `at`; NULL: none. `either`: ignores whether tokens are `normalized`. */
static const clt_added_token *added_at(const clt_added_search *s, size_t at, bool either)
{
    const clt_tokenizer *t = s->tokenizer;
    if (!t->added_start[(uint8_t)s->text[at]])
        return NULL;
    for (uint32_t i = 0; i < t->n_added; i++) {
        const clt_added_token *a = &t->added[i];
        if ((either || a->normalized == s->normalized) && a->size <= s->size - at &&
            a->content[0] == s->text[at] && memcmp(a->content, s->text + at, a->size) == 0)
            return a;
    }
    return NULL;
}

/* Size in bytes of the character that ends at `at`; 0: no character ends there. */
static size_t size_before(const char *text, size_t at)
{
    for (size_t size = 1; size <= 4 && size <= at; size++)
        if (clt_utf8_size(text + at - size, size) == size)
            return size;
    return 0;
}

static unsigned classes(const char *text, size_t size)
{
    clt_char_memo memo = {0};
    return size ? clt_char_classes(&memo, clt_utf8_code(text, size)) : 0;
}

/* True if there is a word character just before `begin` or at `end`. */
static bool touches_word(const clt_added_search *s, size_t begin, size_t end)
{
    size_t before = size_before(s->text, begin), after = clt_utf8_size(s->text + end, s->size - end);
    return ((classes(s->text + begin - before, before) | classes(s->text + end, after)) & CLT_CHAR_WORD) != 0;
}

static void strip(const clt_added_search *s, const clt_added_token *a, clt_added_match *match)
{
    size_t step;
    while (a->lstrip && match->begin > s->end && (step = size_before(s->text, match->begin)) > 0 &&
           (classes(s->text + match->begin - step, step) & CLT_CHAR_SPACE))
        match->begin -= step;
    while (a->rstrip && (step = clt_utf8_size(s->text + match->end, s->size - match->end)) > 0 &&
           (classes(s->text + match->end, step) & CLT_CHAR_SPACE))
        match->end += step;
    if (match->begin < s->end)
        match->begin = s->end;
}

bool clt_added_next(clt_added_search *s, clt_added_match *match)
{
    while (s->at < s->size) {
        const clt_added_token *a = added_at(s, s->at, is_marked(s, s->at, s->at + 1));
        size_t begin = s->at;
        bool found = a && (!a->special || s->tokenizer->reads_special);
        s->at += a ? a->size : 1;
        found = found || (a && is_marked(s, begin, s->at));
        if (!found || (a->single_word && touches_word(s, begin, begin + a->size)))
            continue;
        *match = (clt_added_match){begin, begin + a->size, a->id};
        strip(s, a, match);
        s->end = match->end;
        return true;
    }
    return false;
}

bool clt_added_may_cut(const clt_tokenizer *t, const char *text, size_t size, size_t at)
{
    for (uint32_t i = 0; i < t->n_added; i++) {
        const clt_added_token *a = &t->added[i];
        bool changes = a->normalized && !clt_tokenizer_is_normal(t, a->content, a->size);
        if (a->rstrip &&
            (changes || (at >= a->size && memcmp(text + at - a->size, a->content, a->size) == 0)))
            return false;
        for (size_t k = 0; k < a->size; k++) { /* texts are cut only before ASCII white space */
            bool letter = t->rules.sentence.normal && a->normalized && k > 0 &&
                          strncmp(a->content + k, CLT_SPACE_LETTER, strlen(CLT_SPACE_LETTER)) == 0;
            bool space = letter || a->content[k] == ' ' || (a->content[k] >= '\t' && a->content[k] <= '\r');
            if (space && (changes || (at >= k && a->size <= size - (at - k) &&
                                      memcmp(text + at - k, a->content, a->size) == 0)))
                return false;
        }
    }
    return true;
}

bool clt_tokenizer_begins_special(const clt_tokenizer *t, const char *text, size_t size)
{
    const clt_added_search s = {.tokenizer = t, .text = text, .size = size};
    const clt_added_token *a = size > 0 ? added_at(&s, 0, true) : NULL;
    return a && a->special && !a->lstrip;
}

const char *clt_tokenizer_special_in(const clt_tokenizer *t, const char *text, size_t size)
{
    const clt_added_search s = {.tokenizer = t, .text = text, .size = size};
    const clt_added_token *a;
    bool any = false;
    for (uint32_t i = 0; i < t->n_added && !t->reads_special; i++)
        any = any || t->added[i].special;
    for (size_t at = 0; any && at < size; at += a ? a->size : 1)
        if ((a = added_at(&s, at, true)) != NULL && a->special)
            return a->name;
    return NULL;
}
