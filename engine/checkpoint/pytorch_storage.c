/* SPDX-License-Identifier: Apache-2.0
 *
 * Storages of PyTorch's files: arrays of bytes that tensors are views of. In the zip form each is an entry
 * of the archive; in the older form they follow the pickles. Source of both forms:
 * torch/serialization.py. */
#include "engine/checkpoint/pytorch_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REFUSE(...) CLT_FAIL(CLT_ECHECKPOINT, __VA_ARGS__)
#define KEY_MAX 200

static const clt_pytorch_type types[] = {
    {"torch FloatStorage", "torch float32", "F32", 4},
    {"torch HalfStorage", "torch float16", "F16", 2},
    {"torch BFloat16Storage", "torch bfloat16", "BF16", 2},
    {"torch DoubleStorage", "torch float64", "F64", 8},
    {"torch LongStorage", "torch int64", "I64", 8},
    {"torch IntStorage", "torch int32", "I32", 4},
    {"torch ShortStorage", "torch int16", "I16", 2},
    {"torch CharStorage", "torch int8", "I8", 1},
    {"torch ByteStorage", "torch uint8", "U8", 1},
    {"torch BoolStorage", "torch bool", "BOOL", 1},
    {"torch ComplexFloatStorage", "torch complex64", "C64", 8},
    {"torch ComplexDoubleStorage", "torch complex128", "C128", 16},
    {NULL, "torch uint16", "U16", 2},
    {NULL, "torch uint32", "U32", 4},
    {NULL, "torch uint64", "U64", 8},
    {NULL, "torch float8_e4m3fn", "F8_E4M3", 1},
    {NULL, "torch float8_e5m2", "F8_E5M2", 1},
};

const clt_pytorch_type *clt_pytorch_dtype(const clt_pickle_value *global)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (clt_pickle_is_global(global, types[i].dtype))
            return &types[i];
    return NULL;
}

static bool is_untyped(const clt_pickle_value *global)
{
    return clt_pickle_is_global(global, "torch.storage UntypedStorage") ||
           clt_pickle_is_global(global, "torch UntypedStorage");
}

/* The members of the tuple that names a storage: "storage", class, key, place, number of elements, and in
 * the older form what part of a larger storage it is, or None. */
typedef struct identity {
    const clt_pytorch_type *type; /* NULL: bytes */
    const char *key;
    uint64_t bytes;
    const clt_pickle_value *part; /* NULL: the whole storage */
} identity;

static clt_status read_identity(const clt_pytorch *p, const clt_pickle_value *persistent, identity *out)
{
    *out = (identity){0};
    const clt_pickle_value *tuple = persistent->count == 1 ? persistent->items[0] : persistent;
    if (tuple->kind != CLT_PICKLE_TUPLE || tuple->count < 5 || tuple->count > 6 ||
        tuple->items[0]->kind != CLT_PICKLE_TEXT || strcmp(tuple->items[0]->text, "storage") != 0 ||
        tuple->items[2]->kind != CLT_PICKLE_TEXT || tuple->items[4]->kind != CLT_PICKLE_INT)
        REFUSE("%s: the pickle names a storage in a form that PyTorch does not write", p->path);
    const clt_pickle_value *class = tuple->items[1];
    for (size_t i = 0; i < sizeof types / sizeof types[0] && !out->type; i++)
        if (types[i].storage && clt_pickle_is_global(class, types[i].storage))
            out->type = &types[i];
    if (!out->type && !is_untyped(class))
        REFUSE("%s: storages of the class '%.100s' are not read", p->path,
               class->kind == CLT_PICKLE_GLOBAL ? class->text : "that is not a name");
    out->key = tuple->items[2]->text;
    if (tuple->items[2]->length > KEY_MAX)
        REFUSE("%s: the name of a storage has %zu characters, more than PyTorch writes", p->path,
               tuple->items[2]->length);
    if (tuple->items[4]->integer < 0 ||
        !clt_mul_u64((uint64_t)tuple->items[4]->integer, out->type ? out->type->bytes : 1, &out->bytes))
        REFUSE("%s: storage '%s' cannot have %" PRId64 " elements", p->path, out->key,
               tuple->items[4]->integer);
    if (tuple->count == 6 && tuple->items[5]->kind != CLT_PICKLE_NONE)
        out->part = tuple->items[5];
    return CLT_OK;
}

static clt_status find_entry(clt_pytorch *p, const identity *id, clt_pytorch_storage *out)
{
    CLT_SCOPED(clt_str) name = {0};
    clt_str_printf(&name, "%sdata/%s", p->stem, id->key);
    CLT_TRY(clt_str_check(&name));
    const clt_zip_entry *entry = clt_zip_find(&p->zip, name.text);
    if (!entry)
        REFUSE("%s: the archive has no entry '%s', which its pickle names", p->path, name.text);
    if (entry->size != id->bytes)
        REFUSE("%s: entry '%s' has %" PRIu64 " bytes, its pickle says %" PRIu64, p->path, name.text,
               entry->size, id->bytes);
    uint8_t *checked = &p->checked[entry - p->zip.entries];
    if (!*checked)
        CLT_TRY(clt_zip_check(entry, p->path, CLT_ECHECKPOINT));
    *checked = 1;
    *out = (clt_pytorch_storage){id->key, entry->data, entry->size};
    return CLT_OK;
}

static int compare_keys(const void *a, const void *b)
{
    const clt_pytorch_storage *x = a, *y = b;
    return strcmp(x->key, y->key);
}

/* Narrows a storage to the part (key, offset, number) that is a view of it. */
static clt_status take_part(const clt_pytorch *p, const identity *id, clt_pytorch_storage *out)
{
    const clt_pickle_value *part = id->part;
    uint64_t offset, bytes, size = id->type ? id->type->bytes : 1;
    if (part->kind != CLT_PICKLE_TUPLE || part->count != 3 || part->items[1]->kind != CLT_PICKLE_INT ||
        part->items[2]->kind != CLT_PICKLE_INT || part->items[1]->integer < 0 || part->items[2]->integer < 0)
        REFUSE("%s: storage '%s' is a part of another one in a form that PyTorch does not write", p->path,
               id->key);
    if (!clt_mul_u64((uint64_t)part->items[1]->integer, size, &offset) ||
        !clt_mul_u64((uint64_t)part->items[2]->integer, size, &bytes) || offset > out->bytes ||
        bytes > out->bytes - offset)
        REFUSE("%s: a part of storage '%s' goes past its end", p->path, id->key);
    out->data += offset;
    out->bytes = bytes;
    return CLT_OK;
}

clt_status clt_pytorch_find_storage(clt_pytorch *p, const clt_pickle_value *persistent,
                                    clt_pytorch_storage *out, const clt_pytorch_type **type)
{
    identity id;
    CLT_TRY(read_identity(p, persistent, &id));
    *type = id.type;
    if (p->zip.count > 0)
        return find_entry(p, &id, out);
    const clt_pytorch_storage key = {.key = id.key};
    const clt_pytorch_storage *found =
        p->n_storages ? bsearch(&key, p->storages, p->n_storages, sizeof key, compare_keys) : NULL;
    if (!found)
        REFUSE("%s: the file has no storage '%s', which its pickle names", p->path, id.key);
    *out = *found;
    if (out->bytes < id.bytes)
        REFUSE("%s: storage '%s' has %" PRIu64 " bytes, its pickle says %" PRIu64, p->path, id.key,
               out->bytes, id.bytes);
    return id.part ? take_part(p, &id, out) : CLT_OK;
}

/* --- the older form --- */

/* The storages that the pickle names, each with the size of one element in `bytes`, sorted by key. */
static clt_status list_named(clt_pytorch *p, clt_pytorch_storage **out, size_t *count)
{
    size_t all = 0;
    for (const clt_pickle_value *v = p->pickle.persistent; v; v = v->next)
        all++;
    CLT_TRY(clt_alloc(out, all, sizeof **out, "the storages of a file of PyTorch"));
    *count = 0;
    for (const clt_pickle_value *v = p->pickle.persistent; v; v = v->next) {
        const clt_pickle_value *tuple = v->items[0];
        identity id;
        if (tuple->kind == CLT_PICKLE_TUPLE && tuple->count > 0 && tuple->items[0]->kind == CLT_PICKLE_TEXT &&
            strcmp(tuple->items[0]->text, "module") == 0)
            continue; /* the source text of a class */
        CLT_TRY(read_identity(p, v, &id));
        (*out)[(*count)++] = (clt_pytorch_storage){id.key, NULL, id.type ? id.type->bytes : 1};
    }
    qsort(*out, *count, sizeof **out, compare_keys);
    return CLT_OK;
}

/* Reads one storage: its number of elements and their bytes. */
static clt_status read_storage(const clt_pytorch *p, uint64_t element, const uint8_t **at,
                               clt_pytorch_storage *out)
{
    const uint8_t *end = p->file->mapping.data + p->file->mapping.size;
    uint64_t elements = 0;
    if (end - *at < 8)
        REFUSE("%s: the file ends before storage '%s'; it may be truncated", p->path, out->key);
    for (int i = 7; i >= 0; i--)
        elements = elements << 8 | (*at)[i];
    *at += 8;
    if (!clt_mul_u64(elements, element, &out->bytes) || out->bytes > (uint64_t)(end - *at))
        REFUSE("%s: storage '%s' of %" PRIu64
               " elements reaches beyond the end of the file; it may be truncated",
               p->path, out->key, elements);
    out->data = *at;
    *at += out->bytes;
    return CLT_OK;
}

clt_status clt_pytorch_read_storages(clt_pytorch *p, const clt_pickle_value *keys, const uint8_t *at)
{
    CLT_FREED clt_pytorch_storage *named = NULL;
    size_t n_named;
    if (keys->kind != CLT_PICKLE_LIST)
        REFUSE("%s: the list of storages is missing", p->path);
    CLT_TRY(list_named(p, &named, &n_named));
    CLT_TRY(clt_alloc(&p->storages, keys->count, sizeof *p->storages, "the storages of a file of PyTorch"));
    for (size_t i = 0; i < keys->count; i++) {
        clt_pytorch_storage *one = &p->storages[i];
        if (keys->items[i]->kind != CLT_PICKLE_TEXT || keys->items[i]->length > KEY_MAX)
            REFUSE("%s: number %zu of the list of storages is not a name", p->path, i);
        one->key = keys->items[i]->text;
        const clt_pytorch_storage *same =
            n_named ? bsearch(one, named, n_named, sizeof *named, compare_keys) : NULL;
        if (!same)
            REFUSE("%s: storage '%s' belongs to no tensor", p->path, one->key);
        CLT_TRY(read_storage(p, same->bytes, &at, one));
    }
    p->n_storages = keys->count;
    qsort(p->storages, p->n_storages, sizeof *p->storages, compare_keys);
    for (size_t i = 1; i < p->n_storages; i++)
        if (strcmp(p->storages[i - 1].key, p->storages[i].key) == 0)
            REFUSE("%s: storage '%s' appears twice", p->path, p->storages[i].key);
    return CLT_OK;
}
