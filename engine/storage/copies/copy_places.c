/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses that were listed, and lookups in their lists: files, folders, patterns. Fetches no content. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/thread.h"
#include "engine/storage/copies/copies_internal.h"

static pthread_mutex_t places_lock = PTHREAD_MUTEX_INITIALIZER; /* held while an address is listed */
static clt_place *_Atomic places;                               /* places live as long as the process */

/* Length of an address without '/' at its end. */
static size_t trimmed(const char *path)
{
    size_t n = strlen(path);
    while (n > 5 && path[n - 1] == '/')
        n--;
    return n;
}

/* The part of an address that is a key: "s3://bucket/KEY"; "" for a bucket. */
static const char *key_of(const char *path)
{
    const char *slash = strchr(path + 5, '/');
    return slash ? slash + 1 : path + strlen(path);
}

/* --- listing --- */

static clt_status open_bucket(clt_place *p)
{
    for (clt_place *other = p->next; other; other = other->next)
        if (other->s3 && strcmp(other->at.bucket, p->at.bucket) == 0 && other->where == p->where) {
            p->s3 = other->s3;
            return CLT_OK;
        }
    clt_s3 *s3 = NULL;
    CLT_TRY(clt_s3_open(p->at.bucket, &p->options, &s3));
    atomic_store(&p->s3, s3);
    return CLT_OK;
}

static clt_status list_place(clt_place *p)
{
    clt_s3_object object;
    CLT_SCOPED(clt_str) prefix = {0};
    CLT_TRY(clt_s3_address_parse(p->address, &p->at));
    CLT_TRY(open_bucket(p));
    if (p->at.prefix[0])
        CLT_TRY(clt_s3_head(p->s3, p->at.prefix, &object, &p->is_file));
    if (p->is_file) {
        CLT_TRY(clt_arena_create(&p->objects.keys));
        CLT_TRY(clt_grow(&p->objects.object, &p->objects.capacity, 1, sizeof object, "an object"));
        object.key = p->at.prefix;
        p->objects.object[p->objects.count++] = object;
    } else {
        clt_str_printf(&prefix, "%s%s", p->at.prefix, p->at.prefix[0] ? "/" : "");
        CLT_TRY(clt_str_check(&prefix));
        CLT_TRY(clt_s3_list_all(p->s3, prefix.text, &p->objects));
    }
    return clt_alloc(&p->copies, p->objects.count + 1, sizeof *p->copies, "the copies of objects");
}

static uint64_t hash_of_server(const clt_s3_options *o)
{
    const char *texts[] = {o->endpoint, getenv("AWS_ENDPOINT_URL_S3"), getenv("AWS_ENDPOINT_URL"), o->region,
                           o->allow_http};
    clt_hash64_state state;
    clt_hash64_begin(&state);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        clt_hash64_add(&state, texts[i] ? texts[i] : "", texts[i] ? strlen(texts[i]) + 1 : 1);
    return clt_hash64_end(&state);
}

static clt_place *add_place(const char *path)
{
    clt_place *p = calloc(1, sizeof *p);
    CLT_KEEP_ERROR();
    if (!p)
        return NULL;
    p->address = strndup(path, trimmed(path));
    if (!p->address) {
        free(p);
        return NULL;
    }
    p->options = clt_copies_now().s3;
    p->where = hash_of_server(&p->options);
    p->next = atomic_load(&places);
    atomic_store(&places, p); /* set before listing begins, so that its requests can be cancelled */
    clt_error_take(list_place(p), &p->failure);
    return p;
}

/* True if the path is the place's address or, unless the place is a file, is below it. */
static bool covers(const clt_place *p, const char *path, size_t length)
{
    size_t n = strlen(p->address);
    return length >= n && strncmp(p->address, path, n) == 0 &&
           (length == n || (!p->is_file && path[n] == '/'));
}

clt_place *clt_place_of(const char *path)
{
    size_t length = trimmed(path);
    CLT_LOCKED(&places_lock);
    for (clt_place *p = places; p; p = p->next)
        if (p->failure.status == CLT_OK
                ? covers(p, path, length)
                : strlen(p->address) == length && strncmp(p->address, path, length) == 0)
            return p;
    return add_place(path);
}

void clt_places_cancel(void)
{
    /* without the lock, which is held while a server is being listed */
    for (clt_place *p = atomic_load(&places); p; p = p->next)
        if (atomic_load(&p->s3))
            clt_s3_cancel(atomic_load(&p->s3));
}

/* --- lookups --- */

/* The first object whose key is not before `key`. */
static size_t first_from(const clt_place *p, const char *key, size_t length)
{
    size_t low = 0, high = p->objects.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const char *other = p->objects.object[middle].key;
        int order = strncmp(other, key, length);
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int64_t clt_place_find(const clt_place *p, const char *path)
{
    const char *key = key_of(path);
    size_t at = first_from(p, key, strlen(key)); /* a key sorts before all longer keys that begin with it */
    return at < p->objects.count && strcmp(p->objects.object[at].key, key) == 0 ? (int64_t)at : -1;
}

/* The first object below a folder; -1: there is none. *length: bytes of the folder's key with '/' at its
 * end. */
static int64_t first_below(const clt_place *p, const char *folder, size_t *length)
{
    char key[CLT_S3_KEY + 1];
    size_t n = trimmed(folder);
    const char *begin = key_of(folder);
    n = begin > folder + n ? 0 : n - (size_t)(begin - folder);
    if (*begin == '\0' || n == 0) {
        *length = 0;
        return p->objects.count > 0 && !p->is_file ? 0 : -1;
    }
    if (n >= CLT_S3_KEY)
        return -1;
    memcpy(key, begin, n);
    key[n] = '/';
    key[n + 1] = '\0';
    *length = n + 1;
    size_t at = first_from(p, key, n + 1);
    return at < p->objects.count && strncmp(p->objects.object[at].key, key, n + 1) == 0 ? (int64_t)at : -1;
}

bool clt_place_stat(const char *path, struct stat *out)
{
    size_t length;
    clt_place *p = clt_place_of(path);
    *out = (struct stat){.st_nlink = 1};
    if (!p || p->failure.status != CLT_OK)
        return false;
    int64_t object = path[strlen(path) - 1] == '/' ? -1 : clt_place_find(p, path);
    if (object >= 0) {
        out->st_mode = S_IFREG | 0444;
        out->st_size = (off_t)p->objects.object[object].size;
        return true;
    }
    out->st_mode = S_IFDIR | 0555;
    return first_below(p, path, &length) >= 0;
}

static clt_status usable(const clt_place *p)
{
    return p ? clt_error_put(&p->failure) : CLT_ENOMEM;
}

clt_status clt_place_names(const char *folder, clt_file_list *out)
{
    size_t length;
    clt_place *p = clt_place_of(folder);
    CLT_TRY(usable(p));
    int64_t at = first_below(p, folder, &length);
    if (at < 0)
        CLT_FAIL(CLT_EDATA, "opening the folder '%s': there is no object below it; check the address",
                 folder);
    const char *first = p->objects.object[at].key;
    for (size_t i = (size_t)at; i < p->objects.count; i++) {
        const char *name = p->objects.object[i].key + length;
        size_t n = strcspn(name, "/");
        if (strncmp(p->objects.object[i].key, first, length) != 0)
            break;
        const char *last = out->count > 0 ? out->name[out->count - 1] : "";
        bool again = strlen(last) == n && strncmp(last, name, n) == 0;
        if (n > 0 && name[0] != '.' && !again)
            CLT_TRY(clt_file_list_add(out, strndup(name, n)));
    }
    clt_file_list_sort(out, 0);
    size_t kept = 0; /* "a" and "a/b" give the same name "a", and "a-b" may come between them */
    for (size_t i = 0; i < out->count; i++)
        if (kept > 0 && strcmp(out->name[kept - 1], out->name[i]) == 0)
            free(out->name[i]);
        else
            out->name[kept++] = out->name[i];
    out->count = kept;
    return CLT_OK;
}

/* --- patterns --- */

/* Bytes of `path` up to the end of its component `count`; 0: it has fewer. */
static size_t components(const char *path, int count)
{
    const char *at = path;
    for (int i = 1; i < count; i++) {
        at = strchr(at, '/');
        if (!at)
            return 0;
        at++;
    }
    return (size_t)(at - path) + strcspn(at, "/");
}

/* For a pattern: the place of the folder whose entries the first special character matches. For any other
 * path: its own place. */
static clt_status place_of_pattern(const char *pattern, clt_place **out)
{
    CLT_SCOPED(clt_str) base = {0};
    size_t fixed = strcspn(pattern, "*?[");
    while (pattern[fixed] && fixed > 5 && pattern[fixed - 1] != '/')
        fixed--;
    clt_str_append_n(&base, pattern, fixed);
    CLT_TRY(clt_str_check(&base));
    *out = clt_place_of(base.text);
    return usable(*out);
}

clt_status clt_place_sum(const char *path, clt_hash64_state *state)
{
    clt_place *p = NULL;
    CLT_TRY(place_of_pattern(path, &p));
    for (size_t i = 0; i < p->objects.count; i++) {
        const clt_s3_object *o = &p->objects.object[i];
        clt_hash64_add(state, o->key, strlen(o->key) + 1);
        clt_hash64_add(state, o->etag, strlen(o->etag) + 1);
        clt_hash64_add(state, &o->size, sizeof o->size);
    }
    return CLT_OK;
}

clt_status clt_place_match(const char *pattern, clt_file_list *out)
{
    CLT_SCOPED(clt_str) path = {0};
    int count = 1;
    size_t before = out->count;
    clt_place *p = NULL;
    CLT_TRY(place_of_pattern(pattern, &p));
    for (const char *c = key_of(pattern); *c; c++)
        count += *c == '/';
    size_t skipped = (size_t)(key_of(pattern) - pattern);
    for (size_t i = 0; i < p->objects.count; i++) {
        const char *key = p->objects.object[i].key;
        size_t n = components(key, count);
        path.length = 0;
        clt_str_append_n(&path, pattern, skipped);
        clt_str_append_n(&path, key, n);
        CLT_TRY(clt_str_check(&path));
        bool again = out->count > before && strcmp(out->name[out->count - 1], path.text) == 0;
        if (n > 0 && !again && fnmatch(pattern, path.text, FNM_PATHNAME | FNM_PERIOD) == 0)
            CLT_TRY(clt_file_list_add(out, strdup(path.text)));
    }
    return CLT_OK;
}
