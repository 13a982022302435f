/* SPDX-License-Identifier: Apache-2.0
 *
 * Host memory: overflow-checked allocation, bump arenas for objects that die together, growing arrays and
 * strings. */
#ifndef ENGINE_BASE_MEM_H
#define ENGINE_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/scope.h"
#include "engine/base/status.h"

static inline uint64_t clt_align_up(uint64_t value, uint64_t alignment)
{
    return (value + alignment - 1) / alignment * alignment;
}
static inline uint64_t clt_div_up(uint64_t value, uint64_t divisor)
{
    return (value + divisor - 1) / divisor;
}
/* Checked arithmetic: false on overflow, *out untouched. */
bool clt_mul_u64(uint64_t a, uint64_t b, uint64_t *out);
bool clt_add_u64(uint64_t a, uint64_t b, uint64_t *out);

/* clt_alloc: zeroed memory for count*size bytes in *out (void **); CLT_ENOMEM with the size and `what` in
 * the text. A count of 0 gives a valid pointer. Free with free(). */
clt_status clt_alloc(void *out, size_t count, size_t size, const char *what);
/* clt_grow: makes sure *array (element size `size`) holds at least `need` elements; doubles *capacity. New
 * memory is zeroed. */
clt_status clt_grow(void *array, size_t *capacity, size_t need, size_t size, const char *what);

/* A list of arrays that are freed together. Zero-initialise it; clt_scratch_alloc is like clt_alloc. */
typedef struct clt_scratch {
    void **array;
    size_t count, capacity;
} clt_scratch;
clt_status clt_scratch_alloc(clt_scratch *scratch, void *out, size_t count, size_t size, const char *what);
void clt_scratch_free(clt_scratch *scratch);
CLT_SCOPED_VALUE(clt_scratch, clt_scratch_free)

/* Arena: everything allocated from it is freed by destroy. Memory is zeroed and 16-byte aligned. Only one
 * thread may use it at a time. */
typedef struct clt_arena clt_arena;
clt_status clt_arena_create(clt_arena **out);
void clt_arena_destroy(clt_arena *arena); /* NULL is fine */
CLT_SCOPED_POINTER(clt_arena, clt_arena_destroy)
/* Returns NULL only if the host is out of memory; then it sets the thread's error to CLT_ENOMEM. */
void *clt_arena_alloc(clt_arena *arena, size_t size);
char *clt_arena_strdup(clt_arena *arena, const char *text);
char *clt_arena_printf(clt_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Growing string. Zero-initialise it; `text` is NUL-terminated once anything was appended. Appending returns
 * no status: running out of memory sets `failed`, which clt_str_check reports. */
typedef struct clt_str {
    char *text;
    size_t length, capacity;
    bool failed;
} clt_str;
void clt_str_append(clt_str *s, const char *text);
void clt_str_append_n(clt_str *s, const char *bytes, size_t count);
void clt_str_printf(clt_str *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
clt_status clt_str_check(const clt_str *s);
/* Moves the text to *out, to be freed with free(), and leaves the string empty. On failure *out is
 * untouched. */
clt_status clt_str_take(clt_str *s, char **out);
void clt_str_free(clt_str *s);
CLT_SCOPED_VALUE(clt_str, clt_str_free)

/* Edit distance with adjacent transpositions, capped at `limit`+1. Texts of more than 255 bytes have
 * distance 0 or limit+1. */
int clt_edit_distance(const char *a, const char *b, int limit);
/* The nearest of `count` names (the first one if several are equally near) within max(2, strlen/3) edits;
 * case is ignored, and '_', '-' and blanks are equal. If none is near, the shortest name that contains
 * `name`, if `name` has at least five characters; else NULL. */
const char *clt_nearest_name(const char *name, const char *const *names, size_t count);

/* Zeroed memory from the system in whole pages, aligned to 2 MiB, for blocks of many megabytes. Transparent
 * huge pages are used where the system has them, so that there are fewer TLB misses. */
clt_status clt_pages_create(uint64_t bytes, const char *what, void **out);
/* `bytes` as for clt_pages_create; `pages` may be NULL */
void clt_pages_destroy(void *pages, uint64_t bytes);
/* Starts to fault in all pages of the memory in the background, since the page faults of first writes are
 * slow: one core clears a few gigabytes per second, and in a virtual machine several times less. Meanwhile
 * the memory may be used or destroyed. */
void clt_pages_prefault(void *pages, uint64_t bytes);
/* Waits until all pages of clt_pages_prefault exist; threads on all cores help to fault them in. */
void clt_pages_prefault_finish(void);

#endif
