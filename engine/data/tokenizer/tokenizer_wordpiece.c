/* SPDX-License-Identifier: Apache-2.0
 *
 * WordPiece with BERT's normaliser and splitter, which work character by character like the tokenizers
 * library. It knows nothing of files. Source: Devlin et al. 2018, arXiv:1810.04805. */
#include <string.h>

#include "engine/base/text.h"
#include "engine/data/texts/characters.h"
#include "engine/data/tokenizer/tokenizer_internal.h"
#include "engine/data/tokenizer/wordpiece_tables.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
/* bits of wordpiece_runs */
#define DROPPED 1u
#define SPACE 2u
#define PUNCTUATION 4u
#define MARK 8u

/* The classes of ASCII characters, from wordpiece_runs: a fast path, since most characters are ASCII. */
static const uint8_t ascii_class[128] = {
    [0 ... 8] = DROPPED,
    [9] = SPACE,
    [10] = SPACE,
    [11] = DROPPED,
    [12] = DROPPED,
    [13] = SPACE,
    [14 ... 31] = DROPPED,
    [' '] = SPACE,
    ['!' ... '/'] = PUNCTUATION,
    [':' ... '@'] = PUNCTUATION,
    ['[' ... '`'] = PUNCTUATION,
    ['{' ... '~'] = PUNCTUATION,
    [127] = DROPPED,
};

static unsigned class_of(uint32_t code)
{
    if (code < 128)
        return ascii_class[code];
    return wordpiece_runs[CLT_LAST_AT_MOST(COUNT(wordpiece_runs), wordpiece_runs[i] >> 4, code)] & 15u;
}

/* Unified ideographs, their extensions A to E, and compatibility ideographs. */
static bool is_chinese(uint32_t code)
{
    static const uint32_t ranges[][2] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},
                                         {0x20000, 0x2a6df}, {0x2a700, 0x2b81f}, {0x2b920, 0x2ceaf},
                                         {0x2f800, 0x2fa1f}};
    for (size_t i = 0; i < COUNT(ranges); i++)
        if (code >= ranges[i][0] && code <= ranges[i][1])
            return true;
    return false;
}

void clt_append_small(uint32_t code, clt_str *out)
{
    uint64_t found = small_letters[CLT_LAST_AT_MOST(COUNT(small_letters), small_letters[i] >> 21, code)];
    if (code == 0x130) /* I with a dot becomes an i and a combining dot */
        clt_str_append(out, "i\xcc\x87");
    else
        clt_append_code(found >> 21 == code ? (uint32_t)(found & 0x1fffffu) : code, out);
}

/* Appends the text after cleaning, with spaces around Chinese characters. */
static void clean(const clt_wordpiece *how, const char *text, size_t size, clt_str *out)
{
    for (size_t at = 0, step; at < size; at += step) {
        step = clt_utf8_size(text + at, size - at);
        uint32_t code = step ? clt_utf8_code(text + at, step) : 0;
        unsigned class = step ? class_of(code) : DROPPED;
        if (step == 0) {
            step = 1;
            continue;
        }
        if (how->clean && (class & (DROPPED | SPACE))) {
            if (!(class & DROPPED))
                clt_str_append(out, " ");
            continue;
        }
        bool apart = how->chinese && is_chinese(code);
        clt_str_append(out, apart ? " " : "");
        clt_str_append_n(out, text + at, step);
        clt_str_append(out, apart ? " " : "");
    }
}

/* Appends the text without marks and in lower case. */
static void lower(const clt_wordpiece *how, const char *text, size_t size, clt_str *out)
{
    for (size_t at = 0, step; at < size; at += step) {
        step = clt_utf8_size(text + at, size - at);
        uint32_t code = clt_utf8_code(text + at, step);
        if (how->strip && (class_of(code) & MARK))
            continue;
        if (how->lower)
            clt_append_small(code, out);
        else
            clt_str_append_n(out, text + at, step);
    }
}

/* True for an ASCII character that is kept, perhaps as a space. Characters before and after it do not affect
 * each other. */
static bool is_simple(char c)
{
    return (unsigned char)c < 128 && !(ascii_class[(unsigned char)c] & DROPPED);
}

/* Appends the simple characters at the beginning in their normal form; returns their number of bytes. */
static size_t append_simple(const clt_wordpiece *how, const char *text, size_t size, clt_str *out)
{
    char made[256];
    size_t at = 0;
    while (at < size && is_simple(text[at])) {
        size_t n = 0;
        for (; n < sizeof made && at < size && is_simple(text[at]); at++) {
            char c = text[at];
            c = how->clean && (ascii_class[(unsigned char)c] & SPACE) ? ' ' : c;
            made[n++] = how->lower && c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
        }
        clt_str_append_n(out, made, n);
    }
    return at;
}

clt_status clt_wordpiece_normal(const clt_wordpiece *how, const char *text, size_t size, clt_str *out)
{
    CLT_SCOPED(clt_str) cleaned = {0};
    CLT_SCOPED(clt_str) apart = {0};
    for (size_t at = 0, end; at < size; at = end) {
        at += append_simple(how, text + at, size - at, out);
        for (end = at; end < size && !is_simple(text[end]);)
            end++;
        if (end == at)
            break;
        cleaned.length = apart.length = 0;
        clt_str_append(&cleaned, "");
        clean(how, text + at, end - at, &cleaned);
        CLT_TRY(clt_str_check(&cleaned));
        const clt_str *from = &cleaned;
        if (how->strip) {
            clt_str_append(&apart, "");
            CLT_TRY(clt_nfd(cleaned.text, cleaned.length, &apart));
            from = &apart;
        }
        lower(how, from->text, from->length, out);
    }
    clt_str_append(out, "");
    return clt_str_check(out);
}

clt_status clt_wordpiece_split(const char *text, size_t size, clt_word_visitor word, void *context)
{
    size_t begin = 0;
    for (size_t at = 0, step; at < size; at += step) {
        step = clt_utf8_size(text + at, size - at);
        unsigned class = step ? class_of(clt_utf8_code(text + at, step)) : SPACE;
        step = step ? step : 1;
        if (!(class & (SPACE | PUNCTUATION)))
            continue;
        if (at > begin)
            CLT_TRY(word(context, text + begin, at - begin));
        if (class & PUNCTUATION)
            CLT_TRY(word(context, text + at, step));
        begin = at + step;
    }
    return size > begin ? word(context, text + begin, size - begin) : CLT_OK;
}

/* Finds the longest token with which the rest of a word begins: its id, and how many bytes of the word it
 * covers. `more`: the rest is not the beginning of the word. */
static uint32_t longest(const clt_tokenizer *t, const char *rest, size_t size, bool more, size_t *taken)
{
    char piece[CLT_TOKEN_MAX_BYTES];
    const size_t before = more ? strlen(CLT_PIECE_PREFIX) : 0;
    size_t room = t->rules.wordpiece.longest > before ? t->rules.wordpiece.longest - before : 0;
    size_t most = size < room ? size : room;
    memcpy(piece, CLT_PIECE_PREFIX, before);
    memcpy(piece + before, rest, most);
    for (*taken = most; *taken > 0; --*taken) {
        bool boundary = *taken == size || ((unsigned char)rest[*taken] & 0xc0u) != 0x80u;
        uint32_t id = boundary ? clt_tokenizer_find(t, piece, before + *taken) : CLT_NO_TOKEN;
        if (id != CLT_NO_TOKEN)
            return id;
    }
    return CLT_NO_TOKEN;
}

clt_status clt_wordpiece_encode(const clt_tokenizer *t, const char *word, size_t size, clt_ids *out)
{
    const clt_wordpiece *how = &t->rules.wordpiece;
    size_t first = out->count, characters = 0;
    for (size_t i = 0; i < size; i++)
        characters += ((unsigned char)word[i] & 0xc0u) != 0x80u;
    CLT_TRY(clt_grow(&out->id, &out->capacity, first + characters + 1, sizeof *out->id, "ids"));
    for (size_t at = 0, taken; at < size && characters <= how->most; at += taken) {
        uint32_t id = longest(t, word + at, size - at, at > 0, &taken);
        if (id == CLT_NO_TOKEN) {
            out->count = first;
            break;
        }
        out->id[out->count++] = id;
    }
    if (out->count == first)
        out->id[out->count++] = how->unknown_id;
    return CLT_OK;
}
