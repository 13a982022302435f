/* SPDX-License-Identifier: Apache-2.0
 *
 * See answers.h. */
#include "engine/train/eval/answers.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* Appends the words of a text in small letters of ASCII, without punctuation and articles, each with its
 * final NUL. */
static clt_status words_of(const char *text, size_t size, clt_str *out, size_t *count)
{
    size_t begin = 0;
    *count = 0;
    for (size_t i = 0; i <= size; i++) {
        bool end = i == size || (unsigned char)text[i] <= ' ';
        if (!end && !ispunct((unsigned char)text[i])) {
            char small = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] + 'a' - 'A') : text[i];
            clt_str_append_n(out, &small, 1);
        }
        if (!end)
            continue;
        if (out->length > begin && !is_article(out->text + begin, out->length - begin)) {
            clt_str_append_n(out, "", 1);
            ++*count;
            begin = out->length;
        }
        out->length = begin;
    }
    return clt_str_check(out);
}

/* The number of words that both lists have, each as often as the list has it that has it less often. */
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

static clt_status compare_one(const clt_str *mine, size_t n_mine, const char *answer, double *exact,
                              double *f1)
{
    CLT_SCOPED(clt_str) theirs = {0};
    CLT_FREED bool *taken = NULL;
    size_t n;
    CLT_TRY(words_of(answer, strlen(answer), &theirs, &n));
    bool equal = theirs.length == mine->length &&
                 (mine->length == 0 || memcmp(theirs.text, mine->text, mine->length) == 0);
    *exact = fmax(*exact, equal);
    if (n == 0 || n_mine == 0) {
        *f1 = fmax(*f1, n == n_mine);
        return CLT_OK;
    }
    CLT_TRY(clt_alloc(&taken, theirs.length, sizeof *taken, "words of an answer"));
    double both = (double)common(mine, &theirs, taken);
    *f1 = fmax(*f1, 2 * both / (double)(n + n_mine));
    return CLT_OK;
}

clt_status clt_answer_compare(const char *text, size_t size, const clt_annotated *record, double *exact,
                              double *f1)
{
    CLT_SCOPED(clt_str) mine = {0};
    size_t count;
    *exact = *f1 = 0;
    CLT_TRY(words_of(text, size, &mine, &count));
    if (record->answers.length == 0)
        return compare_one(&mine, count, "", exact, f1);
    for (size_t at = 0; at < record->answers.length; at += strlen(record->answers.text + at) + 1)
        CLT_TRY(compare_one(&mine, count, record->answers.text + at, exact, f1));
    return CLT_OK;
}
