/* SPDX-License-Identifier: Apache-2.0
 *
 * Host memory with checked sizes: plain blocks, growing arrays, arenas, growing strings, and the edit
 * distance that error messages use for suggestions. Knows nothing of device memory. */
#include "engine/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool clt_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t result;
    if (__builtin_mul_overflow(a, b, &result))
        return false;
    *out = result;
    return true;
}

bool clt_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t result;
    if (__builtin_add_overflow(a, b, &result))
        return false;
    *out = result;
    return true;
}

/* Callers pass the address of a pointer of any type; memcpy keeps that within the aliasing rules. */
static void store_pointer(void *out, void *pointer)
{
    memcpy(out, &pointer, sizeof pointer);
}

static void *load_pointer(const void *in)
{
    void *pointer;
    memcpy(&pointer, in, sizeof pointer);
    return pointer;
}

static clt_status too_large(size_t count, size_t size, const char *what)
{
    CLT_FAIL(CLT_ENOMEM,
             "allocating %s: %zu elements of %zu bytes do not fit in host memory; use smaller sizes or a "
             "machine with more memory",
             what, count, size);
}

clt_status clt_alloc(void *out, size_t count, size_t size, const char *what)
{
    store_pointer(out, NULL);
    uint64_t bytes;
    if (!clt_mul_u64(count, size, &bytes) || bytes > (uint64_t)PTRDIFF_MAX)
        return too_large(count, size, what);
    void *block = calloc(1, bytes ? (size_t)bytes : 1);
    if (!block)
        return too_large(count, size, what);
    store_pointer(out, block);
    return CLT_OK;
}

clt_status clt_grow(void *array, size_t *capacity, size_t need, size_t size, const char *what)
{
    void *old = load_pointer(array);
    if (old && need <= *capacity)
        return CLT_OK;
    size_t limit = (size_t)PTRDIFF_MAX / (size ? size : 1);
    if (need > limit)
        return too_large(need, size, what);
    size_t wanted = *capacity > limit / 2 ? limit : *capacity * 2;
    if (wanted < need)
        wanted = need;
    if (wanted < 8 && limit >= 8)
        wanted = 8;
    char *block = realloc(old, wanted * size > 0 ? wanted * size : 1);
    if (!block && wanted > need) {
        wanted = need;
        block = realloc(old, wanted * size > 0 ? wanted * size : 1);
    }
    if (!block)
        return too_large(need, size, what);
    size_t kept = old ? *capacity : 0;
    memset(block + kept * size, 0, (wanted - kept) * size);
    store_pointer(array, block);
    *capacity = wanted;
    return CLT_OK;
}

clt_status clt_scratch_alloc(clt_scratch *scratch, void *out, size_t count, size_t size, const char *what)
{
    size_t at = scratch->count;
    CLT_TRY(clt_grow(&scratch->array, &scratch->capacity, at + 1, sizeof *scratch->array, what));
    CLT_TRY(clt_alloc(&scratch->array[at], count, size, what));
    store_pointer(out, scratch->array[scratch->count++]);
    return CLT_OK;
}

void clt_scratch_free(clt_scratch *scratch)
{
    for (size_t i = 0; i < scratch->count; i++)
        free(scratch->array[i]);
    free(scratch->array);
    *scratch = (clt_scratch){0};
}

/* Arena: a list of chunks, the current one first. An object larger than a quarter of a chunk gets its own
 * chunk, which becomes the second of the list. */
#define ARENA_CHUNK ((size_t)64 * 1024)
#define ARENA_ALIGN ((size_t)16)

typedef struct arena_chunk {
    struct arena_chunk *next;
    size_t used, size;
    _Alignas(16) char data[];
} arena_chunk;

struct clt_arena {
    arena_chunk *first;
};

clt_status clt_arena_create(clt_arena **out)
{
    return clt_alloc(out, 1, sizeof **out, "an arena");
}

void clt_arena_destroy(clt_arena *arena)
{
    if (!arena)
        return;
    arena_chunk *chunk = arena->first;
    while (chunk) {
        arena_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    free(arena);
}

static arena_chunk *arena_chunk_new(size_t size)
{
    arena_chunk *chunk = NULL;
    if (clt_alloc(&chunk, 1, sizeof *chunk + size, "an arena chunk") != CLT_OK)
        return NULL;
    chunk->size = size;
    return chunk;
}

void *clt_arena_alloc(clt_arena *arena, size_t size)
{
    if (size > (size_t)PTRDIFF_MAX - sizeof(arena_chunk) - ARENA_ALIGN) {
        (void)too_large(1, size, "an object in an arena");
        return NULL;
    }
    size_t rounded = size ? (size_t)clt_align_up(size, ARENA_ALIGN) : ARENA_ALIGN;
    arena_chunk *chunk = arena->first;
    if (!chunk || chunk->size - chunk->used < rounded) {
        bool own = rounded > ARENA_CHUNK / 4;
        arena_chunk *fresh = arena_chunk_new(own ? rounded : ARENA_CHUNK);
        if (!fresh)
            return NULL;
        if (own && chunk) {
            fresh->next = chunk->next;
            chunk->next = fresh;
        } else {
            fresh->next = chunk;
            arena->first = fresh;
        }
        chunk = fresh;
    }
    void *block = chunk->data + chunk->used;
    chunk->used += rounded;
    return block;
}

char *clt_arena_strdup(clt_arena *arena, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = clt_arena_alloc(arena, size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

char *clt_arena_printf(clt_arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0) {
        (void)clt_fail(CLT_EINTERNAL, __FILE__, __LINE__, "formatting \"%s\" failed", format);
        return NULL;
    }
    char *text = clt_arena_alloc(arena, (size_t)length + 1);
    if (!text)
        return NULL;
    va_start(args, format);
    (void)vsnprintf(text, (size_t)length + 1, format, args);
    va_end(args);
    return text;
}

/* Makes room for `count` more bytes and the final NUL. */
static bool str_reserve(clt_str *s, size_t count)
{
    if (s->failed)
        return false;
    if (count >= (size_t)PTRDIFF_MAX - s->length) {
        s->failed = true;
        return false;
    }
    size_t need = s->length + count + 1;
    if (s->text && need <= s->capacity)
        return true;
    size_t wanted = s->capacity * 2 < 64 ? 64 : s->capacity * 2;
    if (wanted < need)
        wanted = need;
    char *text = realloc(s->text, wanted);
    if (!text) {
        s->failed = true;
        return false;
    }
    s->text = text;
    s->capacity = wanted;
    s->text[s->length] = '\0';
    return true;
}

void clt_str_append(clt_str *s, const char *text)
{
    clt_str_append_n(s, text, strlen(text));
}

void clt_str_append_n(clt_str *s, const char *bytes, size_t count)
{
    if (!str_reserve(s, count))
        return;
    if (count)
        memcpy(s->text + s->length, bytes, count);
    s->length += count;
    s->text[s->length] = '\0';
}

void clt_str_printf(clt_str *s, const char *format, ...)
{
    if (!str_reserve(s, 64))
        return;
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    size_t room = s->capacity - s->length;
    int length = vsnprintf(s->text + s->length, room, format, args);
    if (length < 0) {
        s->text[s->length] = '\0';
        s->failed = true;
    } else if ((size_t)length < room) {
        s->length += (size_t)length;
    } else if (str_reserve(s, (size_t)length)) {
        (void)vsnprintf(s->text + s->length, (size_t)length + 1, format, again);
        s->length += (size_t)length;
    } else {
        s->text[s->length] = '\0';
    }
    va_end(again);
    va_end(args);
}

clt_status clt_str_check(const clt_str *s)
{
    if (s->failed)
        CLT_FAIL(CLT_ENOMEM, "building a text of more than %zu bytes: out of host memory", s->length);
    return CLT_OK;
}

clt_status clt_str_take(clt_str *s, char **out)
{
    clt_status status = clt_str_check(s);
    if (status == CLT_OK)
        *out = CLT_TAKE(s->text);
    clt_str_free(s);
    return status;
}

void clt_str_free(clt_str *s)
{
    free(s->text);
    *s = (clt_str){0};
}

#define EDIT_MAX 255

static int min3(int a, int b, int c)
{
    int least = a < b ? a : b;
    return least < c ? least : c;
}

/* Optimal string alignment. Only rows i-2, i-1 and i of the table are kept. */
int clt_edit_distance(const char *a, const char *b, int limit)
{
    if (strcmp(a, b) == 0)
        return 0;
    size_t a_size = strnlen(a, EDIT_MAX + 1), b_size = strnlen(b, EDIT_MAX + 1);
    if (limit < 0)
        limit = 0;
    if (a_size > EDIT_MAX || b_size > EDIT_MAX)
        return limit + 1;
    int a_length = (int)a_size, b_length = (int)b_size;
    int rows[3][EDIT_MAX + 1];
    for (int j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (int i = 1; i <= a_length; i++) {
        int *now = rows[i % 3], *before = rows[(i + 2) % 3], *before2 = rows[(i + 1) % 3];
        int least = now[0] = i;
        for (int j = 1; j <= b_length; j++) {
            int change = before[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = min3(before[j] + 1, now[j - 1] + 1, change);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before2[j - 2] + 1 < now[j])
                now[j] = before2[j - 2] + 1;
            if (now[j] < least)
                least = now[j];
        }
        /* If this row's minimum is above the limit, no later row gets below it, so the distance is above the
         * limit, too. Transpositions do not change that: they skip a row but cost one, and minima of
         * neighbouring rows differ by at most one. */
        if (least > limit)
            return limit + 1;
    }
    int distance = rows[a_length % 3][b_length];
    return distance > limit ? limit + 1 : distance;
}

/* Converts a name to the form in which names are compared: lower case, with '-' for '_' and blanks. False:
 * the name is too long. */
static bool plain_name(const char *name, char plain[EDIT_MAX + 1])
{
    size_t n = strnlen(name, EDIT_MAX + 1);
    if (n > EDIT_MAX)
        return false;
    for (size_t i = 0; i < n; i++)
        plain[i] = name[i] == '_' || name[i] == ' '   ? '-'
                   : name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] - 'A' + 'a')
                                                      : name[i];
    plain[n] = '\0';
    return true;
}

/* The shortest name that contains the word; NULL if the word has fewer than five characters, since it would
 * match by chance. */
static const char *containing(const char *word, const char *const *names, size_t count)
{
    char plain[EDIT_MAX + 1];
    const char *best = NULL;
    for (size_t i = 0; i < count && strlen(word) >= 5; i++)
        if (plain_name(names[i], plain) && strstr(plain, word) && (!best || strlen(names[i]) < strlen(best)))
            best = names[i];
    return best;
}

const char *clt_nearest_name(const char *name, const char *const *names, size_t count)
{
    char word[EDIT_MAX + 1], plain[EDIT_MAX + 1];
    if (!plain_name(name, word))
        return NULL;
    int limit = (int)(strlen(word) / 3);
    if (limit < 2)
        limit = 2;
    const char *best = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!plain_name(names[i], plain))
            continue;
        int distance = clt_edit_distance(word, plain, limit);
        if (distance <= limit) {
            best = names[i];
            if (distance == 0)
                break;
            limit = distance - 1;
        }
    }
    return best ? best : containing(word, names, count);
}
