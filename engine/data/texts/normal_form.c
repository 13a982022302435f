/* SPDX-License-Identifier: Apache-2.0
 *
 * Unicode normal forms D and C: characters are decomposed, combining marks are sorted by their class, and
 * for form C a sequence is composed again if a single character exists for it. */
#include <stdlib.h>

#include "engine/base/text.h"
#include "engine/data/texts/characters.h"
#include "engine/data/texts/unicode_compose.h"
#include "engine/data/texts/unicode_uncertain.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
/* Code points of Hangul syllables, whose decompositions are computed instead of looked up. */
#define SYLLABLE 0xac00u
#define LEAD 0x1100u
#define VOWEL 0x1161u
#define TAIL 0x11a7u
#define LEADS 19u
#define VOWELS 21u
#define TAILS 28u

typedef struct composing {
    uint32_t *code;   /* characters of the text with which later ones may still combine */
    uint8_t *order;   /* combining class of each; 0: a starter */
    uint32_t *sorted; /* memory for sorting a run of marks */
    size_t count, code_capacity, order_capacity, sorted_capacity;
    bool apart; /* form D: characters stay decomposed */
} composing;

static unsigned order_of(uint32_t code)
{
    return combining_runs[CLT_LAST_AT_MOST(COUNT(combining_runs), combining_runs[i] >> 8, code)] & 0xffu;
}

static clt_status put(composing *c, uint32_t code)
{
    CLT_TRY(clt_grow(&c->code, &c->code_capacity, c->count + 1, sizeof *c->code, "a text in normal form"));
    CLT_TRY(clt_grow(&c->order, &c->order_capacity, c->count + 1, 1, "a text in normal form"));
    c->code[c->count] = code;
    c->order[c->count++] = (uint8_t)order_of(code);
    return CLT_OK;
}

/* Sorts the marks [begin, end) by class; marks of one class keep their order (a counting sort). */
static clt_status sort_run(composing *c, size_t begin, size_t end)
{
    size_t place[256] = {0}, next = 0;
    CLT_TRY(
        clt_grow(&c->sorted, &c->sorted_capacity, end - begin, sizeof *c->sorted, "a text in normal form"));
    for (size_t i = begin; i < end; i++)
        place[c->order[i]]++;
    for (size_t k = 0; k < COUNT(place); k++) {
        size_t count = place[k];
        place[k] = next;
        next += count;
    }
    for (size_t i = begin; i < end; i++)
        c->sorted[place[c->order[i]]++] = c->code[i];
    for (size_t k = 0, i = begin; k < COUNT(place); k++) /* place[k] is now the end of class k */
        for (; i < begin + place[k]; i++)
            c->order[i] = (uint8_t)k;
    for (size_t i = begin; i < end; i++)
        c->code[i] = c->sorted[i - begin];
    return CLT_OK;
}

/* Sorts each run of marks between two starters that is out of order. */
static clt_status sort_marks(composing *c)
{
    for (size_t i = 0, end; i < c->count; i = end + 1) {
        bool ordered = true;
        for (end = i; end < c->count && c->order[end] > 0; end++)
            ordered = ordered && (end == i || c->order[end - 1] <= c->order[end]);
        if (!ordered)
            CLT_TRY(sort_run(c, i, end));
    }
    return CLT_OK;
}

static clt_status take_apart(composing *c, uint32_t code)
{
    if (code >= SYLLABLE && code < SYLLABLE + LEADS * VOWELS * TAILS) {
        uint32_t index = code - SYLLABLE;
        CLT_TRY(put(c, LEAD + index / (VOWELS * TAILS)));
        CLT_TRY(put(c, VOWEL + index / TAILS % VOWELS));
        return index % TAILS ? put(c, TAIL + index % TAILS) : CLT_OK;
    }
    uint64_t found = decompositions[CLT_LAST_AT_MOST(COUNT(decompositions), decompositions[i] >> 43, code)];
    if (found >> 43 != code)
        return put(c, code);
    uint32_t second = found >> 1 & 0x1fffffu;
    CLT_TRY(take_apart(c, found >> 22 & 0x1fffffu));
    return second ? put(c, second) : CLT_OK;
}

/* The character that `first` and `second` compose to; 0: there is none. */
static uint32_t joined(uint32_t first, uint32_t second)
{
    uint64_t want = (uint64_t)first << 21 | second;
    if (first >= LEAD && first < LEAD + LEADS && second >= VOWEL && second < VOWEL + VOWELS)
        return SYLLABLE + ((first - LEAD) * VOWELS + second - VOWEL) * TAILS;
    if (first >= SYLLABLE && first < SYLLABLE + LEADS * VOWELS * TAILS && (first - SYLLABLE) % TAILS == 0 &&
        second > TAIL && second < TAIL + TAILS)
        return first + second - TAIL;
    uint64_t pair = decompositions[compositions[CLT_LAST_AT_MOST(
        COUNT(compositions), decompositions[compositions[i]] >> 1 & 0x3ffffffffffu, want)]];
    return (pair >> 1 & 0x3ffffffffffu) == want ? (uint32_t)(pair >> 43) : 0;
}

void clt_append_code(uint32_t code, clt_str *out)
{
    char text[4];
    size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = size; i-- > 1; code >>= 6)
        text[i] = (char)(0x80u | (code & 0x3fu));
    text[0] = (char)(size == 1 ? code : (0xf00u >> size & 0xffu) | code);
    clt_str_append_n(out, text, size);
}

/* Composes the gathered characters, appends them to `out` and empties the list. */
static clt_status flush(composing *c, clt_str *out)
{
    size_t starter = SIZE_MAX, kept = 0;
    CLT_TRY(sort_marks(c));
    for (size_t i = 0; i < c->count; i++) {
        /* a mark cannot join the starter if a mark that is kept between them has the same or a higher
         * class */
        bool adjacent = kept > 0 && starter == kept - 1;
        bool open = !c->apart && starter != SIZE_MAX && (adjacent || c->order[kept - 1] < c->order[i]);
        uint32_t made = open ? joined(c->code[starter], c->code[i]) : 0;
        if (made) {
            c->code[starter] = made;
            continue;
        }
        if (c->order[i] == 0)
            starter = kept;
        c->code[kept] = c->code[i];
        c->order[kept++] = c->order[i];
    }
    for (size_t i = 0; i < kept; i++)
        clt_append_code(c->code[i], out);
    c->count = 0;
    return CLT_OK;
}

/* True if form C may change the character or join it to an earlier one. Any other character is a starter,
 * and only characters after it can change it. */
static bool is_uncertain(uint32_t code)
{
    if (code >> 8 >= COUNT(uncertain_page))
        return false;
    return uncertain_bits[uncertain_page[code >> 8] * 8u + (code >> 5 & 7u)] >> (code & 31u) & 1u;
}

/* Number of bytes before the first uncertain character. *before: offset of the character before that one. */
static size_t find_uncertain(const char *text, size_t size, size_t *before)
{
    *before = 0;
    for (size_t at = 0, step; at < size; *before = at, at += step) {
        step = (unsigned char)text[at] < 0x80 ? 1 : clt_utf8_size(text + at, size - at);
        if (step == 0)
            step = 1;
        else if (step > 1 && is_uncertain(clt_utf8_code(text + at, step)))
            return at;
    }
    return size;
}

/* Number of bytes of uncertain characters at the beginning of the text. */
static size_t uncertain_size(const char *text, size_t size)
{
    size_t at = 0, step;
    while (at < size && (step = clt_utf8_size(text + at, size - at)) > 0 &&
           is_uncertain(clt_utf8_code(text + at, step)))
        at += step;
    return at;
}

bool clt_nfc_is_plain(const char *text, size_t size)
{
    size_t before;
    return find_uncertain(text, size, &before) == size;
}

static clt_status compose(composing *c, const char *text, size_t size, clt_str *out)
{
    for (size_t at = 0, step; at < size; at += step) {
        step = clt_utf8_size(text + at, size - at);
        uint32_t code = step ? clt_utf8_code(text + at, step) : 0;
        if (step == 0 || code < 0x300) /* such a character never combines with an earlier one */
            CLT_TRY(flush(c, out));
        if (step == 0)
            clt_str_append_n(out, text + at, step = 1);
        else
            CLT_TRY(take_apart(c, code));
    }
    CLT_TRY(flush(c, out));
    return clt_str_check(out);
}

static void release(composing *c)
{
    free(c->sorted);
    free(c->code);
    free(c->order);
}

/* Composes each run of uncertain characters with the character before it, and copies the text between. */
static clt_status compose_runs(composing *c, const char *text, size_t size, clt_str *out)
{
    while (size > 0) {
        size_t before, stop = find_uncertain(text, size, &before);
        size_t end = stop + uncertain_size(text + stop, size - stop);
        if (stop == size)
            before = size;
        clt_str_append_n(out, text, before);
        CLT_TRY(compose(c, text + before, end - before, out));
        text += end;
        size -= end;
    }
    return clt_str_check(out);
}

clt_status clt_nfc(const char *text, size_t size, clt_str *out)
{
    composing c = {.apart = false};
    clt_status status = compose_runs(&c, text, size, out);
    release(&c);
    return status;
}

clt_status clt_nfd(const char *text, size_t size, clt_str *out)
{
    composing c = {.apart = true};
    clt_status status = compose(&c, text, size, out);
    release(&c);
    return status;
}
