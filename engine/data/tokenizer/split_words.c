/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits text into words as the regular expressions of published tokenizers do. An expression is
 * recognised by its text, and a function here splits in the same way. The functions get only valid UTF-8:
 * each run of other bytes becomes a separate word before they are called. */
#include <string.h>

#include "engine/base/text.h"
#include "engine/data/texts/characters.h"
#include "engine/data/tokenizer/tokenizer_internal.h"

#define KIND (CLT_CHAR_LETTER | CLT_CHAR_NUMBER | CLT_CHAR_SPACE)
#define OTHER 0u /* neither letter, number nor white space */

/* The spellings of each expression in files; a saved tokenizer gets the first one. */
static const char *const expressions[][3] = {
    [CLT_WORDS_GPT2] = {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
                        "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
                        NULL},
    [CLT_WORDS_LLAMA3] = {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?"
                          "[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
                          "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| ?"
                          "[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
                          NULL},
    [CLT_WORDS_QWEN2] = {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?"
                         "[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
                         NULL, NULL},
};

const char *clt_words_expression(clt_words words)
{
    return expressions[words][0];
}

bool clt_words_find(const char *expression, clt_words *out)
{
    for (size_t i = 0; i < sizeof expressions / sizeof expressions[0]; i++)
        for (int way = 0; way < 3; way++)
            if (expressions[i][way] && strcmp(expressions[i][way], expression) == 0) {
                *out = (clt_words)i;
                return true;
            }
    return false;
}

typedef struct scanner {
    const char *text;
    size_t size;
    clt_char_memo memo;
} scanner;

/* The kind of the character at `at`; *step: its size in bytes. At the end of the text: white space of 0
 * bytes. */
static inline unsigned peek(scanner *s, size_t at, size_t *step)
{
    *step = at < s->size;
    if (at >= s->size)
        return CLT_CHAR_SPACE;
    uint32_t code = (unsigned char)s->text[at];
    if (code >= 0x80) {
        *step = code < 0xe0 ? 2 : code < 0xf0 ? 3 : 4;
        code = clt_utf8_code(s->text + at, *step);
    }
    return clt_char_classes(&s->memo, code) & KIND;
}

/* The end of a run of at most `most` characters of one kind. */
static size_t run_end(scanner *s, size_t at, unsigned kind, size_t most)
{
    size_t step;
    for (; most > 0 && at < s->size && peek(s, at, &step) == kind; most--)
        at += step;
    return at;
}

/* If 's, 't, 're, 've, 'm, 'll or 'd begins at the apostrophe `at`: its end; else `at`. `fold`: ignores
 * case, and treats the long s (U+017F) as an s, as other libraries do for the same expression. */
static size_t contraction(const scanner *s, size_t at, bool fold)
{
    static const char *const ends[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (fold && s->size - at >= 3 && memcmp(s->text + at + 1, "\xc5\xbf", 2) == 0)
        return at + 3;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t size = strlen(ends[i]), same = 0;
        while (same < size && at + 1 + same < s->size &&
               (s->text[at + 1 + same] == ends[i][same] ||
                (fold && s->text[at + 1 + same] == ends[i][same] - 'a' + 'A')))
            same++;
        if (same == size)
            return at + 1 + size;
    }
    return at;
}

/* The end of a word of white space. At the end of the text the word is the whole run; elsewhere, if the run
 * is longer than one character, it lacks the last one, with which the next word may begin. `lines`: if the
 * run has line breaks, the word ends after the last one. */
static size_t space_end(scanner *s, size_t at, bool lines)
{
    size_t end = at, last = at, line = at, step;
    for (; end < s->size && peek(s, end, &step) == CLT_CHAR_SPACE; end += step) {
        last = end;
        if (s->text[end] == '\n' || s->text[end] == '\r')
            line = end + 1;
    }
    if (lines && line > at)
        return line;
    return end == s->size || last == at ? end : last;
}

static size_t end_gpt2(scanner *s, size_t at)
{
    size_t step, from = at, end = s->text[at] == '\'' ? contraction(s, at, false) : at;
    if (end > at)
        return end;
    unsigned kind = peek(s, at, &step);
    if (s->text[at] == ' ' && (kind = peek(s, at + 1, &step)) != CLT_CHAR_SPACE)
        from = at + 1;
    return kind == CLT_CHAR_SPACE ? space_end(s, at, false) : run_end(s, from, kind, SIZE_MAX);
}

/* The end of a word of Llama 3 or Qwen 2, whose expressions differ only in the largest number of digits in a
 * word. */
static size_t end_llama3(scanner *s, size_t at, size_t digits)
{
    size_t step, next, from = at, end = s->text[at] == '\'' ? contraction(s, at, true) : at;
    char c = s->text[at];
    if (end > at)
        return end;
    unsigned kind = peek(s, at, &step);
    if (kind == CLT_CHAR_LETTER)
        return run_end(s, at, CLT_CHAR_LETTER, SIZE_MAX);
    if (kind == CLT_CHAR_NUMBER)
        return run_end(s, at, CLT_CHAR_NUMBER, digits);
    if (c != '\r' && c != '\n' && peek(s, at + step, &next) == CLT_CHAR_LETTER)
        return run_end(s, at + step, CLT_CHAR_LETTER, SIZE_MAX);
    if (c == ' ' && peek(s, at + 1, &next) == OTHER)
        from = at + 1;
    else if (kind == CLT_CHAR_SPACE)
        return space_end(s, at, true);
    end = run_end(s, from, OTHER, SIZE_MAX);
    while (end < s->size && (s->text[end] == '\r' || s->text[end] == '\n'))
        end++;
    return end;
}

static clt_status split_span(scanner *s, clt_words words, clt_word_visitor word, void *context)
{
    for (size_t at = 0, end = 0; at < s->size; at = end) {
        end = words == CLT_WORDS_GPT2 ? end_gpt2(s, at) : end_llama3(s, at, words == CLT_WORDS_QWEN2 ? 1 : 3);
        if (end <= at || end > s->size)
            CLT_FAIL(CLT_EINTERNAL,
                     "splitting a text into words: the range of bytes from %zu to %zu is not a word", at,
                     end);
        CLT_TRY(word(context, s->text + at, end - at));
    }
    return CLT_OK;
}

/* Makes numbers separate words, and splits each text between two numbers as if it were alone. */
static clt_status split_digits(scanner *s, const clt_splitting *how, clt_word_visitor word, void *context)
{
    const scanner whole = *s;
    for (size_t at = 0, step; at < whole.size;) {
        size_t begin = at;
        *s = whole;
        while (at < whole.size && peek(s, at, &step) != CLT_CHAR_NUMBER)
            at += step;
        size_t digits = run_end(s, at, CLT_CHAR_NUMBER, how->digits == CLT_DIGITS_SINGLE ? 1 : SIZE_MAX);
        scanner parts[] = {{whole.text + begin, at - begin, {0}}, {whole.text + at, digits - at, {0}}};
        for (int i = 0; i < 2; i++)
            CLT_TRY(split_span(&parts[i], how->words, word, context));
        at = digits;
    }
    return CLT_OK;
}

clt_status clt_split_words(const clt_splitting *how, const char *text, size_t size, clt_word_visitor word,
                           void *context)
{
    while (size > 0) {
        scanner s = {text, clt_utf8_valid(text, size), {0}};
        size_t valid = s.size;
        CLT_TRY(how->digits == CLT_DIGITS_NO_RULE ? split_span(&s, how->words, word, context)
                                                  : split_digits(&s, how, word, context));
        text += valid;
        size -= valid;
        size_t invalid = clt_utf8_invalid(text, size);
        if (invalid > 0)
            CLT_TRY(word(context, text, invalid));
        text += invalid;
        size -= invalid;
    }
    return CLT_OK;
}
