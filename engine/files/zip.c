/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads zip archives. Every size and offset is compared with the archive's size before its use. Does not know
 * the content of entries. */
#include "engine/files/zip.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "engine/base/text.h"

#define LOCAL_BYTES 30u   /* size of a local header without name and extra fields */
#define CENTRAL_BYTES 46u /* size of an entry of the directory without name, extra fields and comment */
#define END_BYTES 22u     /* size of the record at the archive's end without its comment */
#define COMMENT_MAX 65535u
#define LOCATOR_BYTES 20u /* size of the record that says where the 64-bit end record is */
#define END64_BYTES 56u

typedef struct archive {
    const uint8_t *bytes;
    size_t size;
    const char *path;
    clt_status code;
    uint64_t directory, directory_bytes, count; /* from the end record */
} archive;

#define REFUSE(a, ...) CLT_FAIL((a)->code, __VA_ARGS__)

static uint64_t little(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | at[i];
    return value;
}

static bool is_signed(const uint8_t *at, const char *signature)
{
    return memcmp(at, signature, 4) == 0;
}

/* Finds the end record. Its comment must end where the archive ends. */
static const uint8_t *find_end(const archive *a)
{
    size_t least = a->size > END_BYTES + COMMENT_MAX ? a->size - END_BYTES - COMMENT_MAX : 0;
    for (size_t at = a->size < END_BYTES ? 0 : a->size - END_BYTES + 1; at > least; at--) {
        const uint8_t *end = a->bytes + at - 1;
        if (is_signed(end, "PK\5\6") && at - 1 + END_BYTES + little(end + 20, 2) == a->size)
            return end;
    }
    return NULL;
}

static clt_status read_end(archive *a)
{
    const uint8_t *end = find_end(a);
    if (!end)
        REFUSE(a, "%s: the archive has no directory at its end; the file may be truncated", a->path);
    uint64_t disk = little(end + 4, 2), limit = (uint64_t)(end - a->bytes);
    a->count = little(end + 10, 2);
    a->directory_bytes = little(end + 12, 4);
    a->directory = little(end + 16, 4);
    if (limit >= LOCATOR_BYTES && is_signed(end - LOCATOR_BYTES, "PK\6\7")) {
        uint64_t at = little(end - LOCATOR_BYTES + 8, 8);
        limit -= LOCATOR_BYTES;
        if (limit < END64_BYTES || at > limit - END64_BYTES || !is_signed(a->bytes + at, "PK\6\6"))
            REFUSE(a, "%s: the archive's 64-bit end record is not where its locator says", a->path);
        end = a->bytes + at;
        limit = at;
        disk = little(end + 16, 4);
        a->count = little(end + 32, 8);
        a->directory_bytes = little(end + 40, 8);
        a->directory = little(end + 48, 8);
    }
    if (disk != 0)
        REFUSE(a, "%s: the archive is one of several parts, which is not supported", a->path);
    if (a->directory > limit || a->directory_bytes > limit - a->directory)
        REFUSE(a,
               "%s: the archive's directory of %" PRIu64 " bytes at byte %" PRIu64
               " reaches beyond the end of the file; it may be truncated",
               a->path, a->directory_bytes, a->directory);
    if (a->count > a->directory_bytes / CENTRAL_BYTES)
        REFUSE(a, "%s: %" PRIu64 " entries do not fit in the archive's directory of %" PRIu64 " bytes",
               a->path, a->count, a->directory_bytes);
    return CLT_OK;
}

/* One entry, as the archive's directory describes it. */
typedef struct record {
    uint64_t packed, size, begin;
    uint32_t flags, method, crc;
    size_t name, extra, comment; /* lengths in bytes */
} record;

/* Replaces the numbers of `r` that do not fit 32 bits; extra field 1 has them. */
static clt_status read_wide(const archive *a, const char *name, const uint8_t *extra, record *r)
{
    uint64_t *const wide[] = {&r->size, &r->packed, &r->begin};
    const uint8_t *end = extra + r->extra;
    while (end - extra >= 4) {
        uint64_t id = little(extra, 2), length = little(extra + 2, 2);
        extra += 4;
        if (length > (uint64_t)(end - extra))
            break;
        for (size_t i = 0; id == 1 && i < 3; i++)
            if (*wide[i] == UINT32_MAX && length >= 8) {
                *wide[i] = little(extra, 8);
                extra += 8;
                length -= 8;
            }
        extra += length;
    }
    for (size_t i = 0; i < 3; i++)
        if (*wide[i] == UINT32_MAX)
            REFUSE(a, "%s: entry '%.200s' lacks the 64-bit number that its size or place needs", a->path,
                   name);
    return CLT_OK;
}

/* Finds the data of an entry from its local header; that header is used only for the lengths of name and
 * extra field. */
static clt_status find_data(const archive *a, const record *r, clt_zip_entry *entry)
{
    uint64_t limit = a->directory;
    if (r->begin > limit || limit - r->begin < LOCAL_BYTES || !is_signed(a->bytes + r->begin, "PK\3\4"))
        REFUSE(a, "%s: entry '%.200s' does not begin at byte %" PRIu64 ", where the directory has it",
               a->path, entry->name, r->begin);
    const uint8_t *local = a->bytes + r->begin;
    uint64_t name = little(local + 26, 2), before = LOCAL_BYTES + name + little(local + 28, 2);
    uint64_t left = limit - r->begin;
    if (before > left || r->packed > left - before)
        REFUSE(a,
               "%s: entry '%.200s' of %" PRIu64
               " bytes reaches beyond the end of the file; it may be truncated",
               a->path, entry->name, r->packed);
    if (name != r->name || memcmp(local + LOCAL_BYTES, entry->name, name) != 0)
        REFUSE(a, "%s: entry '%.200s' has another name in its own header than in the directory", a->path,
               entry->name);
    entry->data = local + before;
    entry->size = r->packed;
    entry->length = r->size;
    entry->method = r->method;
    entry->begin = r->begin;
    entry->crc = r->crc;
    return CLT_OK;
}

static clt_status copy_name(const archive *a, const clt_zip *zip, const uint8_t *at, const record *r,
                            clt_zip_entry *entry)
{
    char *name = clt_arena_alloc(zip->arena, r->name + 1);
    if (!name)
        return CLT_ENOMEM;
    memcpy(name, at + CENTRAL_BYTES, r->name);
    if (clt_text_plain(name) != r->name)
        REFUSE(a, "%s: the name of entry %zu of the archive is not plain text in UTF-8", a->path, zip->count);
    entry->name = name;
    return CLT_OK;
}

/* Reads the entry of the directory at *at and moves *at past it. */
static clt_status read_entry(const archive *a, clt_zip *zip, const uint8_t **at)
{
    const uint8_t *end = a->bytes + a->directory + a->directory_bytes, *p = *at;
    if ((size_t)(end - p) < CENTRAL_BYTES || !is_signed(p, "PK\1\2"))
        REFUSE(a, "%s: entry %zu of the archive's directory is damaged", a->path, zip->count);
    record r = {.flags = (uint32_t)little(p + 8, 2),
                .method = (uint32_t)little(p + 10, 2),
                .crc = (uint32_t)little(p + 16, 4),
                .packed = little(p + 20, 4),
                .size = little(p + 24, 4),
                .name = (size_t)little(p + 28, 2),
                .extra = (size_t)little(p + 30, 2),
                .comment = (size_t)little(p + 32, 2),
                .begin = little(p + 42, 4)};
    clt_zip_entry *entry = &zip->entries[zip->count];
    if (r.name + r.extra + r.comment > (size_t)(end - p) - CENTRAL_BYTES)
        REFUSE(a, "%s: entry %zu of the archive's directory reaches beyond the directory's end", a->path,
               zip->count);
    CLT_TRY(copy_name(a, zip, p, &r, entry));
    CLT_TRY(read_wide(a, entry->name, p + CENTRAL_BYTES + r.name, &r));
    if (r.flags & (1u | 1u << 6 | 1u << 13))
        REFUSE(a, "%s: entry '%.200s' is encrypted; save the file again without encryption", a->path,
               entry->name);
    if (r.method == 0 && r.packed != r.size)
        REFUSE(a, "%s: entry '%.200s' is not compressed, but has two sizes", a->path, entry->name);
    CLT_TRY(find_data(a, &r, entry));
    *at = p + CENTRAL_BYTES + r.name + r.extra + r.comment;
    zip->count++;
    return CLT_OK;
}

static int by_place(const void *x, const void *y)
{
    const clt_zip_entry *a = x, *b = y;
    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

static int by_name(const void *x, const void *y)
{
    const clt_zip_entry *a = x, *b = y;
    return strcmp(a->name, b->name);
}

static clt_status check_entries(const archive *a, clt_zip *zip)
{
    qsort(zip->entries, zip->count, sizeof *zip->entries, by_place);
    for (size_t i = 1; i < zip->count; i++) {
        const clt_zip_entry *last = &zip->entries[i - 1], *next = &zip->entries[i];
        if (last->data + last->size > a->bytes + next->begin)
            REFUSE(a, "%s: entries '%.200s' and '%.200s' overlap", a->path, last->name, next->name);
    }
    qsort(zip->entries, zip->count, sizeof *zip->entries, by_name);
    for (size_t i = 1; i < zip->count; i++)
        if (strcmp(zip->entries[i - 1].name, zip->entries[i].name) == 0)
            REFUSE(a, "%s: the archive has two entries with the name '%.200s'", a->path,
                   zip->entries[i].name);
    return CLT_OK;
}

clt_status clt_zip_open(const uint8_t *bytes, size_t size, const char *path, clt_status code, clt_zip *out)
{
    CLT_SCOPED(clt_zip) zip = {0};
    archive a = {.bytes = bytes, .size = size, .path = path, .code = code};
    *out = (clt_zip){0};
    CLT_TRY(read_end(&a));
    CLT_TRY(clt_arena_create(&zip.arena));
    zip.entries = clt_arena_alloc(zip.arena, ((size_t)a.count + 1) * sizeof *zip.entries);
    if (!zip.entries)
        return CLT_ENOMEM;
    const uint8_t *at = bytes + a.directory;
    for (uint64_t i = 0; i < a.count; i++)
        CLT_TRY(read_entry(&a, &zip, &at));
    CLT_TRY(check_entries(&a, &zip));
    *out = zip;
    zip = (clt_zip){0};
    return CLT_OK;
}

void clt_zip_close(clt_zip *zip)
{
    clt_arena_destroy(zip->arena);
    *zip = (clt_zip){0};
}

const clt_zip_entry *clt_zip_find(const clt_zip *zip, const char *name)
{
    const clt_zip_entry key = {.name = name};
    if (zip->count == 0)
        return NULL;
    return bsearch(&key, zip->entries, zip->count, sizeof *zip->entries, by_name);
}

static clt_status check_crc(const clt_zip_entry *entry, const void *data, const char *path, clt_status code)
{
    uint32_t crc = (uint32_t)crc32_z(0, data, (size_t)entry->length);
    if (crc != entry->crc)
        CLT_FAIL(code, "%s: entry '%.200s' has the CRC-32 %08x, not %08x; the file is damaged", path,
                 entry->name, crc, entry->crc);
    return CLT_OK;
}

clt_status clt_zip_check(const clt_zip_entry *entry, const char *path, clt_status code)
{
    if (entry->method != 0)
        CLT_FAIL(code, "%s: entry '%.200s' is compressed (method %u), which is not read", path, entry->name,
                 entry->method);
    return check_crc(entry, entry->data, path, code);
}

/* Unpacks a raw deflate stream, which must give exactly entry->length bytes. */
static clt_status inflate_entry(const clt_zip_entry *entry, const char *path, clt_status code, char *out)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)entry->data,
                  .avail_in = (uInt)entry->size,
                  .next_out = (Bytef *)out,
                  .avail_out = (uInt)entry->length};
    int end = inflateInit2(&z, -MAX_WBITS);
    if (end == Z_OK) {
        end = inflate(&z, Z_FINISH);
        (void)inflateEnd(&z);
    }
    if (end == Z_MEM_ERROR)
        CLT_FAIL(CLT_ENOMEM, "%s: unpacking '%.200s': out of host memory", path, entry->name);
    if (end != Z_STREAM_END || z.avail_out != 0)
        CLT_FAIL(code,
                 "%s: entry '%.200s' does not unpack to the %" PRIu64
                 " bytes that the directory says; the file is damaged",
                 path, entry->name, entry->length);
    return CLT_OK;
}

clt_status clt_zip_unpack(const clt_zip_entry *entry, const char *path, uint64_t limit, clt_status code,
                          char **out)
{
    CLT_FREED char *data = NULL;
    *out = NULL;
    if (entry->method != 0 && entry->method != 8)
        CLT_FAIL(code, "%s: entry '%.200s' is compressed by method %u; deflate (8) is read", path,
                 entry->name, entry->method);
    if (entry->length > limit || entry->length > UINT_MAX || entry->size > UINT_MAX)
        CLT_FAIL(code, "%s: entry '%.200s' has %" PRIu64 " bytes, more than the limit of %" PRIu64, path,
                 entry->name, entry->length, limit < UINT_MAX ? limit : UINT_MAX);
    CLT_TRY(clt_alloc(&data, (size_t)entry->length + 1, 1, "an unpacked file"));
    if (entry->method == 8)
        CLT_TRY(inflate_entry(entry, path, code, data));
    else
        memcpy(data, entry->data, (size_t)entry->length);
    CLT_TRY(check_crc(entry, data, path, code));
    *out = CLT_TAKE(data);
    return CLT_OK;
}
