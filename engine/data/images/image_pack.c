/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes and reads packs of images. Opening checks the header and the index, so that no record points outside
 * the file. */
#include "engine/data/images/image_pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/hash.h"
#include "engine/base/thread.h"
#include "engine/data/pixels/image_folder.h"
#include "engine/files/fileio_error.h"

#define AT_ONCE 256 /* images that threads prepare before they are written */

typedef struct pack_header {
    char magic[8];
    uint64_t bytes; /* of the file */
    uint64_t images, classes;
    uint64_t index_at, names_at, names_bytes;
    uint64_t index_hash;
    uint64_t zero[2];
} pack_header;

_Static_assert(sizeof(pack_header) == 80 && sizeof(clt_pack_record) == 40, "sizes in files");

/* --- reading --- */

bool clt_is_image_pack(const char *path)
{
    char magic[8];
    return clt_file_first(path, magic, sizeof magic) == sizeof magic &&
           memcmp(magic, CLT_PACK_MAGIC, sizeof magic) == 0;
}

/* Checks that all parts are inside the file: the index follows the images, and the names follow the index. */
static clt_status check_header(const char *path, const pack_header *h, uint64_t size)
{
    uint64_t index_bytes = 0, end = 0;
    if (memcmp(h->magic, CLT_PACK_MAGIC, sizeof h->magic) != 0)
        CLT_FAIL(
            CLT_EDATA,
            "opening '%s': it is neither a folder of images nor a file that cltrain data prepare made of one",
            path);
    if (h->bytes != size)
        CLT_FAIL(CLT_EDATA,
                 "opening '%s': it has %llu bytes, its header says %llu; copy it again or prepare it again",
                 path, (unsigned long long)size, (unsigned long long)h->bytes);
    bool good = h->images > 0 && h->classes > 0 && h->classes <= INT32_MAX && h->index_at % 8 == 0 &&
                h->index_at >= sizeof *h && clt_mul_u64(h->images, sizeof(clt_pack_record), &index_bytes) &&
                clt_add_u64(h->index_at, index_bytes, &end) && end == h->names_at && h->names_bytes > 0 &&
                clt_add_u64(h->names_at, h->names_bytes, &end) && end == size;
    if (!good)
        CLT_FAIL(CLT_EDATA, "opening '%s': its header is damaged; copy it again or prepare it again", path);
    return CLT_OK;
}

static clt_status check_records(const char *path, const clt_image_pack *pack, const pack_header *h)
{
    for (int64_t i = 0; i < pack->count; i++) {
        const clt_pack_record *r = &pack->records[i];
        bool pixels = r->width > 0 && r->height > 0;
        bool good = r->offset >= sizeof *h && r->offset <= h->index_at &&
                    r->size <= h->index_at - r->offset && r->class_number >= 0 &&
                    (uint64_t)r->class_number < h->classes && r->name < h->names_bytes &&
                    (pixels ? (uint64_t)r->size == UINT64_C(3) * r->width * r->height
                            : r->width == 0 && r->height == 0);
        if (!good)
            CLT_FAIL(CLT_EDATA,
                     "opening '%s': record %lld of its index is damaged; copy it again or prepare it again",
                     path, (long long)i);
    }
    return CLT_OK;
}

clt_status clt_pack_open(const char *path, clt_arena *arena, clt_image_pack *pack)
{
    pack_header h;
    *pack = (clt_image_pack){0};
    CLT_TRY(clt_map_open_parts(path, CLT_EDATA, &pack->mapping));
    clt_map_need(&pack->mapping, 0, sizeof h);
    CLT_TRY(clt_map_check_one(&pack->mapping));
    const uint8_t *b = pack->mapping.data;
    size_t size = pack->mapping.size;
    memset(&h, 0, sizeof h);
    memcpy(&h, b, size < sizeof h ? size : sizeof h);
    CLT_TRY(check_header(path, &h, size));
    clt_map_keep(&pack->mapping, h.index_at, size - h.index_at);
    CLT_TRY(clt_map_check_one(&pack->mapping));
    if (clt_hash64(b + h.index_at, (size_t)(size - h.index_at)) != h.index_hash || b[size - 1] != '\0')
        CLT_FAIL(CLT_EDATA,
                 "opening '%s': its index is damaged: the checksum in the header belongs to other bytes; "
                 "copy the file again or prepare it again",
                 path);
    pack->records = (const clt_pack_record *)(const void *)(b + h.index_at);
    pack->names = (const char *)(b + h.names_at);
    pack->count = (int64_t)h.images;
    pack->n_classes = (int64_t)h.classes;
    CLT_TRY(check_records(path, pack, &h));
    if (h.classes > h.names_bytes)
        CLT_FAIL(CLT_EDATA, "opening '%s': its names are damaged; prepare it again", path);
    pack->classes = clt_arena_alloc(arena, (size_t)h.classes * sizeof *pack->classes);
    if (!pack->classes)
        return CLT_ENOMEM;
    const char *name = pack->names, *end = pack->names + h.names_bytes;
    for (uint64_t i = 0; i < h.classes; i++) {
        if (name >= end)
            CLT_FAIL(CLT_EDATA, "opening '%s': it has fewer names than classes; prepare it again", path);
        pack->classes[i] = name;
        name += strlen(name) + 1;
    }
    return CLT_OK;
}

void clt_pack_close(clt_image_pack *pack)
{
    if (pack->mapping.data)
        clt_map_close(&pack->mapping);
}

void clt_pack_image(const clt_image_pack *pack, int64_t index, clt_stored_image *out)
{
    const clt_pack_record *r = &pack->records[index];
    clt_map_need(&pack->mapping, r->offset, r->size);
    *out = (clt_stored_image){.kind = r->width ? CLT_STORED_RGB : CLT_STORED_ENCODED,
                              .bytes = pack->mapping.data + r->offset,
                              .size = r->size,
                              .width = r->width,
                              .height = r->height,
                              .mapping = &pack->mapping};
}

void clt_pack_want(const clt_image_pack *pack, int64_t index)
{
    const clt_pack_record *r = &pack->records[index];
    clt_map_want(&pack->mapping, r->offset, r->size);
}

const char *clt_pack_name(const clt_image_pack *pack, int64_t index)
{
    return pack->names + pack->records[index].name;
}

clt_status clt_pack_check(const clt_image_pack *pack, int64_t index)
{
    const clt_pack_record *r = &pack->records[index];
    clt_map_need(&pack->mapping, r->offset, r->size);
    uint64_t hash = clt_hash64(pack->mapping.data + r->offset, r->size);
    CLT_TRY(clt_map_check_one(&pack->mapping));
    if (hash != r->hash)
        CLT_FAIL(CLT_EDATA,
                 "its bytes are damaged: the checksum in the index belongs to other bytes; copy the file "
                 "again or prepare it again");
    return CLT_OK;
}

/* --- writing --- */

typedef struct packed_image {
    char *bytes; /* freed with free() */
    size_t size;
    int width, height;
    clt_error error;
} packed_image;

typedef struct packing {
    const clt_pack_options *o;
    clt_image_list list;
    int64_t first; /* number of the image that is first in `images` */
    packed_image *images;
    clt_pack_record *records;
    clt_str names; /* names of classes, then of images */
    uint64_t at;
    int fd;
    char *temporary;
} packing;

/* Copies the pixels of a decoded image, reduced if its shorter side is longer than `shorter`. */
static clt_status to_pixels(const clt_encoded *encoded, const clt_view *view, int shorter, packed_image *out)
{
    int w = encoded->width, h = encoded->height, least = w < h ? w : h;
    if (least > shorter) {
        w = encoded->width <= encoded->height ? shorter
                                              : (int)((int64_t)shorter * encoded->width / encoded->height);
        h = encoded->height <= encoded->width ? shorter
                                              : (int)((int64_t)shorter * encoded->height / encoded->width);
    }
    if (w > UINT16_MAX || h > UINT16_MAX)
        CLT_FAIL(CLT_EDATA, "%d x %d pixels are more than a pack can hold", w, h);
    size_t n = (size_t)w * (size_t)h;
    uint8_t *planes = clt_image_scratch(CLT_SCRATCH_PLANES, 3 * n);
    if (!planes)
        return CLT_ENOMEM;
    CLT_TRY(clt_image_resize(view, w, h, (clt_box){0, 0, w, h}, false, planes));
    char *rgb;
    CLT_TRY(clt_alloc(&rgb, 3 * n, 1, "pixels"));
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < 3; c++)
            rgb[3 * i + c] = (char)planes[c * n + i];
    free(out->bytes);
    *out = (packed_image){.bytes = rgb, .size = 3 * n, .width = w, .height = h};
    return CLT_OK;
}

static clt_status pack_image(const packing *p, const char *name, packed_image *out)
{
    clt_encoded encoded;
    clt_view view;
    CLT_FREED char *path = NULL;
    CLT_TRY(clt_path_join(p->o->folder, name, &path));
    CLT_TRY(clt_file_read(path, false, UINT32_MAX, CLT_EDATA, &out->bytes, &out->size));
    CLT_TRY(clt_image_header(out->bytes, out->size, &encoded));
    CLT_TRY(clt_image_decode(&encoded, (clt_box){0, 0, encoded.width, encoded.height}, 1, &view));
    return p->o->resize > 0 ? to_pixels(&encoded, &view, p->o->resize, out) : CLT_OK;
}

static void pack_range(void *context, uint64_t first, uint64_t last)
{
    packing *p = context;
    for (uint64_t i = first; i < last; i++) {
        const char *name = p->list.names.text + p->list.files[(uint64_t)p->first + i].name;
        clt_status status = pack_image(p, name, &p->images[i]);
        if (status != CLT_OK)
            status = clt_fail_prefix(status, "packing '%s/%s'", p->o->folder, name);
        clt_error_take(status, &p->images[i].error);
    }
}

static clt_status put(packing *p, const void *data, size_t size)
{
    CLT_TRY(clt_fd_write(p->fd, data, size, p->temporary));
    p->at += size;
    return CLT_OK;
}

/* Writes one prepared image, or skips it if it is bad. */
static clt_status put_image(packing *p, const clt_image_file *file, packed_image *image,
                            clt_pack_result *result)
{
    const char *name = p->list.names.text + file->name;
    if (image->error.status != CLT_OK) {
        clt_status status = clt_error_put(&image->error);
        if (status != CLT_EDATA || !p->o->skips_bad)
            return clt_fail(status, __FILE__, __LINE__, "%s%s", image->error.text,
                            status == CLT_EDATA ? "; remove the file, or skip such files with --skip-bad"
                                                : "");
        result->left_out++;
        if (p->o->message)
            p->o->message(p->o->context, image->error.text);
        return CLT_OK;
    }
    p->records[result->images++] = (clt_pack_record){p->at,
                                                     p->names.length,
                                                     clt_hash64(image->bytes, image->size),
                                                     (uint32_t)image->size,
                                                     file->class_number,
                                                     (uint16_t)image->width,
                                                     (uint16_t)image->height,
                                                     0};
    clt_str_append_n(&p->names, name, strlen(name) + 1);
    return put(p, image->bytes, image->size);
}

static clt_status put_images(packing *p, clt_pack_result *result)
{
    for (p->first = 0; p->first < (int64_t)p->list.count; p->first += AT_ONCE) {
        int64_t left = (int64_t)p->list.count - p->first, n = left < AT_ONCE ? left : AT_ONCE;
        if (p->o->progress)
            CLT_TRY(p->o->progress(p->o->context, p->first, (int64_t)p->list.count));
        clt_for_ranges((uint64_t)n, 8, "clt-pack", pack_range, p);
        for (int64_t i = 0; i < n; i++) {
            CLT_TRY(put_image(p, &p->list.files[p->first + i], &p->images[i], result));
            free(p->images[i].bytes);
            p->images[i].bytes = NULL;
        }
    }
    return CLT_OK;
}

static clt_status put_index(packing *p, clt_pack_result *result)
{
    static const char zero[8];
    size_t index_bytes = (size_t)result->images * sizeof(clt_pack_record);
    clt_hash64_state hash;
    CLT_TRY(put(p, zero, (size_t)(-p->at & 7)));
    pack_header h = {.images = (uint64_t)result->images,
                     .classes = p->list.n_classes,
                     .index_at = p->at,
                     .names_at = p->at + index_bytes,
                     .names_bytes = p->names.length};
    memcpy(h.magic, CLT_PACK_MAGIC, sizeof h.magic);
    h.bytes = h.names_at + h.names_bytes;
    clt_hash64_begin(&hash);
    clt_hash64_add(&hash, p->records, index_bytes);
    clt_hash64_add(&hash, p->names.text, p->names.length);
    h.index_hash = clt_hash64_end(&hash);
    CLT_TRY(put(p, p->records, index_bytes));
    CLT_TRY(put(p, p->names.text, p->names.length));
    result->bytes = h.bytes;
    return clt_fd_write_at(p->fd, &h, sizeof h, 0, p->temporary);
}

static clt_status write_pack(packing *p, clt_pack_result *result)
{
    clt_str path = {0};
    CLT_TRY(clt_temporary_name(p->o->out, "tmp", &path));
    p->temporary = path.text;
    CLT_TRY(clt_own_file_create(path.text, &p->fd));
    const pack_header empty = {{0}, 0, 0, 0, 0, 0, 0, 0, {0}};
    CLT_TRY(put(p, &empty, sizeof empty));
    CLT_TRY(put_images(p, result));
    if (result->images == 0)
        CLT_FAIL(CLT_EDATA, "packing '%s': none of its %zu images can be decoded", p->o->folder,
                 p->list.count);
    CLT_TRY(clt_str_check(&p->names));
    CLT_TRY(put_index(p, result));
    if (fsync(p->fd) != 0 || rename(p->temporary, p->o->out) != 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "writing '%s'", p->o->out);
    return clt_fsync_parent(p->o->out);
}

static void release(packing *p)
{
    if (p->fd >= 0)
        (void)close(p->fd);
    free(p->temporary);
    for (int i = 0; p->images && i < AT_ONCE; i++)
        free(p->images[i].bytes);
    free(p->images);
    free(p->records);
    clt_str_free(&p->names);
    clt_image_list_free(&p->list);
}

CLT_SCOPED_VALUE(packing, release)

clt_status clt_pack_write(const clt_pack_options *options, clt_pack_result *result)
{
    CLT_SCOPED(packing) p = {.o = options, .fd = -1};
    *result = (clt_pack_result){0};
    CLT_TRY(clt_image_list_folder(options->folder, &p.list));
    CLT_TRY(clt_alloc(&p.images, AT_ONCE, sizeof *p.images, "images"));
    CLT_TRY(clt_alloc(&p.records, p.list.count, sizeof *p.records, "an index of images"));
    for (size_t i = 0; i < p.list.n_classes; i++)
        clt_str_append_n(&p.names, p.list.classes[i], strlen(p.list.classes[i]) + 1);
    result->classes = (int64_t)p.list.n_classes;
    clt_status status = write_pack(&p, result);
    if (status != CLT_OK && p.temporary)
        (void)unlink(p.temporary);
    return status;
}
