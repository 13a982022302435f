/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the best answer to a question over all windows of its record, and computes exact matches and F1. */
#include "engine/train/eval/answers.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/data/texts/characters.h"

#define CAPITAL_SIGMA 0x3a3u
#define FINAL_SIGMA 0x3c2u

void clt_answer_begin(clt_answer *answer)
{
    *answer = (clt_answer){-INFINITY, INFINITY, -1, -1};
}

void clt_answer_take(clt_answer *answer, const clt_annotated_place *p, const float *logits, int64_t context,
                     int64_t most)
{
    const float *first = logits + p->context, *last = first + context;
    answer->none = fmin(answer->none, (double)logits[0] + (double)logits[context]);
    for (int64_t i = 0; i < p->tokens; i++)
        for (int64_t k = i; k < p->tokens && k < i + most; k++) {
            double score = (double)first[i] + (double)last[k];
            if (score > answer->score)
                *answer = (clt_answer){score, answer->none, p->begin + i, p->begin + k};
        }
}

void clt_answer_text(const clt_answer *answer, const clt_annotated *record, bool unanswerable,
                     const char **text, size_t *size)
{
    const clt_text_range *range = record->ranges.range + record->first;
    bool none = answer->first < 0 || (unanswerable && answer->none > answer->score);
    *text = none ? "" : record->text.text + range[answer->first].begin;
    *size = none ? 0 : range[answer->last].end - range[answer->first].begin;
}

/* --- comparing --- */

static bool is_article(const char *word, size_t size)
{
    return (size == 1 && word[0] == 'a') || (size == 2 && memcmp(word, "an", 2) == 0) ||
           (size == 3 && memcmp(word, "the", 3) == 0);
}

/* Returns the code point at text[*at] and moves *at to the next one; a byte that is not UTF-8 counts as
 * itself. */
static uint32_t take_code(const char *text, size_t size, size_t *at)
{
    size_t step = clt_utf8_size(text + *at, size - *at);
    uint32_t code = step ? clt_utf8_code(text + *at, step) : (unsigned char)text[*at];
    *at += step ? step : 1;
    return code;
}

/* Appends the text in lower case without ASCII punctuation. A sigma at the end of a word becomes a final
 * sigma. */
static void append_plain(const char *text, size_t size, clt_str *out)
{
    clt_char_memo memo = {0};
    bool letter = false;
    for (size_t at = 0; at < size;) {
        uint32_t code = take_code(text, size, &at);
        size_t ahead = at;
        bool next = at < size && (clt_char_classes(&memo, take_code(text, size, &ahead)) & CLT_CHAR_LETTER);
        if (code == CAPITAL_SIGMA && letter && !next)
            clt_append_code(FINAL_SIGMA, out);
        else if (code >= 128 || !ispunct((int)code))
            clt_append_small(code, out);
        letter = clt_char_classes(&memo, code) & CLT_CHAR_LETTER;
    }
    clt_str_append(out, "");
}

/* White space as Python's str.split defines it. */
static bool is_space(uint32_t code, unsigned classes)
{
    return (classes & CLT_CHAR_SPACE) || (code >= 0x1c && code <= 0x1f);
}

/* Ends the word that began at `begin` with a NUL, unless it is empty. */
static void end_word(clt_str *out, size_t *begin, size_t *count)
{
    if (out->length == *begin)
        return;
    clt_str_append_n(out, "", 1);
    *begin = out->length;
    ++*count;
}

/* Appends the words of a text in lower case, without punctuation and articles, each followed by a NUL. Only
 * a whole run of letters and digits can be an article; the text before it and the text after it become
 * separate words. */
static clt_status words_of(const char *text, size_t size, clt_str *out, size_t *count)
{
    CLT_SCOPED(clt_str) plain = {0};
    clt_char_memo memo = {0};
    size_t begin = out->length, run = begin; /* run: where the letters and digits that end `out` begin */
    *count = 0;
    append_plain(text, size, &plain);
    CLT_TRY(clt_str_check(&plain));
    for (size_t at = 0; at <= plain.length;) {
        size_t first = at;
        uint32_t code = at < plain.length ? take_code(plain.text, plain.length, &at) : (at++, ' ');
        unsigned classes = clt_char_classes(&memo, code);
        bool inside = classes & (CLT_CHAR_LETTER | CLT_CHAR_NUMBER), space = is_space(code, classes);
        if (!inside && out->length > run && is_article(out->text + run, out->length - run)) {
            out->length = run;
            end_word(out, &begin, count);
        }
        if (space)
            end_word(out, &begin, count);
        else
            clt_str_append_n(out, plain.text + first, at - first);
        run = inside ? run : out->length;
    }
    return clt_str_check(out);
}

/* The number of words that both lists have; a repeated word counts as often as in the list that has it less
 * often. */
static size_t common(const clt_str *a, const clt_str *b, bool *taken)
{
    size_t found = 0;
    for (size_t i = 0; i < a->length; i += strlen(a->text + i) + 1)
        for (size_t k = 0; k < b->length; k += strlen(b->text + k) + 1)
            if (!taken[k] && strcmp(a->text + i, b->text + k) == 0) {
                taken[k] = true;
                found++;
                break;
            }
    return found;
}

static clt_status compare_one(const clt_str *mine, size_t n_mine, const clt_str *theirs, size_t n,
                              double *exact, double *f1)
{
    CLT_FREED bool *taken = NULL;
    bool equal = theirs->length == mine->length &&
                 (mine->length == 0 || memcmp(theirs->text, mine->text, mine->length) == 0);
    *exact = fmax(*exact, equal);
    if (n == 0 || n_mine == 0) {
        *f1 = fmax(*f1, n == n_mine);
        return CLT_OK;
    }
    CLT_TRY(clt_alloc(&taken, theirs->length, sizeof *taken, "words of an answer"));
    double both = (double)common(mine, theirs, taken);
    *f1 = fmax(*f1, 2 * both / (double)(n + n_mine));
    return CLT_OK;
}

clt_status clt_answer_compare(const char *text, size_t size, const clt_annotated *record, double *exact,
                              double *f1)
{
    CLT_SCOPED(clt_str) mine = {0};
    size_t count, with_words = 0;
    *exact = *f1 = 0;
    CLT_TRY(words_of(text, size, &mine, &count));
    for (size_t at = 0; at < record->answers.length; at += strlen(record->answers.text + at) + 1) {
        const char *answer = record->answers.text + at;
        CLT_SCOPED(clt_str) theirs = {0};
        size_t n;
        CLT_TRY(words_of(answer, strlen(answer), &theirs, &n));
        if (n == 0)
            continue;
        with_words++;
        CLT_TRY(compare_one(&mine, count, &theirs, n, exact, f1));
    }
    if (with_words == 0)
        *exact = *f1 = count == 0;
    return CLT_OK;
}
