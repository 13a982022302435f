/* SPDX-License-Identifier: Apache-2.0
 *
 * Files to and from object storage: parts and ranges, several at a time. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"
#include "engine/storage/dates.h"
#include "engine/storage/s3_internal.h"
#include "engine/storage/xml.h"

#define MIB ((uint64_t)1 << 20)
#define PART_SIZE (8 * MIB)
#define MOST_PARTS 10000
#define ANSWER_LIMIT (4 << 20)
#define COMPLETE_SECONDS                                                                                     \
    600.0 /* a server may take minutes to assemble the parts, without sending anything meanwhile */

uint64_t clt_s3_part_size(uint64_t size)
{
    uint64_t least = clt_align_up(clt_div_up(size, MOST_PARTS), MIB);
    return least > PART_SIZE ? least : PART_SIZE;
}

/* --- several pieces at a time --- */

/* The pieces of a file; each thread takes the next one, moves it and takes another. */
typedef struct pieces {
    clt_s3 *s3;
    const char *key, *etag, *upload;
    uint64_t size, piece;
    const uint8_t *data;        /* the data to upload */
    int fd;                     /* the file to download to */
    const char *path;           /* its name */
    char (*etags)[CLT_S3_ETAG]; /* ETags of the uploaded parts */
    bool before_known;          /* `before` is known: the ETag of the object that the upload replaces */
    char before[CLT_S3_ETAG];   /* "": nothing */
    clt_status (*move)(struct pieces *p, uint64_t index);
    pthread_mutex_t lock; /* guards the members that follow */
    uint64_t next, count;
    clt_error error;
} pieces;

static bool take_piece(pieces *p, uint64_t *index)
{
    CLT_LOCKED(&p->lock);
    *index = p->next;
    return p->error.status == CLT_OK && p->next++ < p->count;
}

static void *work(void *context)
{
    pieces *p = context;
    uint64_t index;
    while (take_piece(p, &index)) {
        clt_error error;
        clt_error_take(p->move(p, index), &error);
        CLT_LOCKED(&p->lock);
        if (error.status != CLT_OK && p->error.status == CLT_OK)
            p->error = error;
    }
    return NULL;
}

/* Moves all pieces. If a thread cannot be started, the other threads move its pieces. */
static clt_status move_all(pieces *p, int lanes)
{
    clt_thread *threads[CLT_S3_LANES] = {NULL};
    int most = lanes < CLT_S3_LANES ? lanes : CLT_S3_LANES;
    p->count = clt_div_up(p->size, p->piece);
    if ((uint64_t)most > p->count)
        most = (int)p->count;
    pthread_mutex_init(&p->lock, NULL);
    for (int i = 1; i < most; i++)
        if (clt_thread_start(&threads[i], "object storage", work, p) != CLT_OK)
            clt_error_clear();
    work(p);
    for (int i = 1; i < most; i++)
        clt_thread_join(threads[i]);
    pthread_mutex_destroy(&p->lock);
    return clt_error_put(&p->error);
}

static uint64_t size_of(const pieces *p, uint64_t index)
{
    uint64_t left = p->size - index * p->piece;
    return left < p->piece ? left : p->piece;
}

/* --- uploads --- */

static clt_status upload_part(pieces *p, uint64_t index)
{
    CLT_SCOPED(clt_s3_reply) reply = {.code = 0};
    char number[16];
    clt_s3_call call = {.method = "PUT",
                        .key = p->key,
                        .body = p->data + index * p->piece,
                        .body_size = size_of(p, index),
                        .limit = ANSWER_LIMIT};
    snprintf(number, sizeof number, "%" PRIu64, index + 1);
    clt_s3_add_query(&call, "partNumber", number);
    clt_s3_add_query(&call, "uploadId", p->upload);
    CLT_TRY(clt_s3_perform(p->s3, &call, &reply));
    if (!reply.etag[0])
        CLT_FAIL(CLT_ESTORAGE, "s3://%s/%s: part %s was accepted without an ETag", p->s3->bucket, p->key,
                 number);
    memcpy(p->etags[index], reply.etag, sizeof reply.etag);
    return CLT_OK;
}

static clt_status begin_upload(clt_s3 *s3, const char *key, char *upload, size_t size)
{
    CLT_SCOPED(clt_s3_reply) reply = {.code = 0};
    clt_s3_call call = {.method = "POST",
                        .key = key,
                        .body = "",
                        .limit = ANSWER_LIMIT,
                        .result = "InitiateMultipartUploadResult"};
    clt_s3_add_query(&call, "uploads", "");
    clt_s3_encrypt(s3, &call);
    CLT_TRY(clt_s3_perform(s3, &call, &reply));
    if (!clt_xml_copy((clt_xml){.text = reply.body, .size = reply.size}, "UploadId", upload, size))
        CLT_FAIL(CLT_ESTORAGE, "s3://%s/%s: the answer has no UploadId that can be used", s3->bucket, key);
    return CLT_OK;
}

static clt_status list_parts(const pieces *p, clt_str *out)
{
    clt_str_append(out, "<CompleteMultipartUpload>");
    for (uint64_t i = 0; i < p->count; i++) {
        clt_str_printf(out, "<Part><PartNumber>%" PRIu64 "</PartNumber><ETag>", i + 1);
        for (const char *c = p->etags[i]; *c; c++)
            if (*c == '"')
                clt_str_append(out, "&quot;");
            else if (!strchr("<>&", *c))
                clt_str_append_n(out, c, 1);
        clt_str_append(out, "</ETag></Part>");
    }
    clt_str_append(out, "</CompleteMultipartUpload>");
    return clt_str_check(out);
}

/* Stores the ETag of the object that an upload replaces. If it cannot be found out, the upload continues
 * without it. */
static void look_before(pieces *p)
{
    clt_s3_object object;
    bool there = false;
    CLT_KEEP_ERROR();
    p->before_known = clt_s3_head(p->s3, p->key, &object, &there) == CLT_OK;
    if (p->before_known && there)
        memcpy(p->before, object.etag, sizeof object.etag);
}

/* True if the object consists of the uploaded parts, and is not the object that was there before. The check
 * is needed because the server may complete an upload while its answer gets lost. A second request then
 * finds no such upload; libcurl sends one by itself if a connection is closed before the answer. */
static bool is_complete(const pieces *p)
{
    clt_s3_object object;
    char end[32];
    bool there = false;
    if (!p->before_known || clt_s3_head(p->s3, p->key, &object, &there) != CLT_OK || !there ||
        object.size != p->size || strcmp(object.etag, p->before) == 0)
        return false;
    snprintf(end, sizeof end, "-%" PRIu64 "\"", p->count);
    size_t length = strlen(object.etag), tail = strlen(end);
    return length > tail && strcmp(object.etag + length - tail, end) == 0;
}

static clt_status end_upload(const pieces *p)
{
    CLT_SCOPED(clt_s3_reply) reply = {.code = 0};
    CLT_SCOPED(clt_str) body = {0};
    CLT_TRY(list_parts(p, &body));
    clt_s3_call call = {.method = "POST",
                        .key = p->key,
                        .body = body.text,
                        .body_size = body.length,
                        .limit = ANSWER_LIMIT,
                        .result = "CompleteMultipartUploadResult",
                        .silence_seconds = COMPLETE_SECONDS};
    clt_s3_add_query(&call, "uploadId", p->upload);
    clt_status status = clt_s3_perform(p->s3, &call, &reply);
    if (status != CLT_OK && strcmp(reply.error, "NoSuchUpload") == 0) {
        CLT_KEEP_ERROR();
        if (is_complete(p))
            status = CLT_OK;
    }
    return status;
}

/* Checks that an object made of parts is encrypted as the options demand, because not every server says so
 * while the parts are sent. */
static clt_status check_object(const pieces *p)
{
    CLT_SCOPED(clt_s3_reply) reply = {.code = 0};
    const clt_s3_call call = {.method = "HEAD", .key = p->key, .limit = ANSWER_LIMIT};
    if (!p->s3->sse[0])
        return CLT_OK;
    CLT_TRY(clt_s3_perform(p->s3, &call, &reply));
    return clt_s3_check_encrypted(p->s3, p->key, &reply);
}

static clt_status abort_upload(clt_s3 *s3, const char *key, const char *upload)
{
    CLT_SCOPED(clt_s3_reply) reply = {.code = 0};
    clt_s3_call call = {.method = "DELETE", .key = key, .limit = ANSWER_LIMIT, .may_lack = true};
    clt_s3_add_query(&call, "uploadId", upload);
    return clt_s3_perform(s3, &call, &reply);
}

static void discard_upload(const pieces *p)
{
    CLT_KEEP_ERROR();
    if (!atomic_load(&p->s3->cancelled) && abort_upload(p->s3, p->key, p->upload) != CLT_OK)
        CLT_WARN(
            "the parts of an upload stay until 'cltrain ckpt gc' or a rule of the bucket removes them: %s",
            clt_error_text());
}

static clt_status upload_in_parts(clt_s3 *s3, const clt_mapping *map, const char *key, int lanes)
{
    char upload[1024];
    CLT_FREED char(*etags)[CLT_S3_ETAG] = NULL;
    pieces p = {.s3 = s3,
                .key = key,
                .upload = upload,
                .size = map->size,
                .piece = clt_s3_part_size(map->size),
                .data = map->data,
                .move = upload_part};
    CLT_TRY(clt_alloc(&etags, clt_div_up(p.size, p.piece), sizeof *etags, "a list of parts"));
    p.etags = etags;
    look_before(&p);
    CLT_TRY(begin_upload(s3, key, upload, sizeof upload));
    clt_status status = move_all(&p, lanes);
    if (status == CLT_OK)
        status = clt_map_check_one(map);
    if (status == CLT_OK)
        status = end_upload(&p);
    if (status != CLT_OK) {
        discard_upload(&p);
        return status;
    }
    return check_object(&p);
}

clt_status clt_s3_upload(clt_s3 *s3, const char *path, const char *key, int lanes, uint64_t *size)
{
    CLT_SCOPED(clt_mapping) map = {0};
    CLT_TRY(clt_map_open(path, CLT_ESTORAGE, &map));
    if (size)
        *size = map.size;
    if (map.size > PART_SIZE)
        return upload_in_parts(s3, &map, key, lanes);
    CLT_TRY(clt_s3_put(s3, key, map.data, map.size));
    return clt_map_check_one(&map);
}

/* --- downloads --- */

/* A range of an object that is written to its place in a file as it arrives. */
typedef struct landing {
    const pieces *pieces;
    uint64_t from, size, done;
    bool over;       /* more came */
    bool failed;     /* the download ends: too much came, or the file cannot be written */
    clt_error error; /* of the file */
} landing;

static bool land(void *context, const void *bytes, size_t size)
{
    landing *l = context;
    l->over = l->failed = size > l->size - l->done;
    if (l->over)
        return false;
    clt_error_take(clt_fd_write_at(l->pieces->fd, bytes, size, l->from + l->done, l->pieces->path),
                   &l->error);
    l->failed = l->error.status != CLT_OK;
    l->done += size;
    return !l->failed;
}

static void land_again(void *context)
{
    ((landing *)context)->done = 0;
}

static clt_status download_range(pieces *p, uint64_t index)
{
    CLT_SCOPED(clt_s3_reply) reply = {.code = 0};
    landing l = {.pieces = p, .from = index * p->piece, .size = size_of(p, index)};
    char range[64];
    clt_s3_call call = {.method = "GET",
                        .key = p->key,
                        .limit = ANSWER_LIMIT,
                        .sink = land,
                        .restart = land_again,
                        .sink_context = &l,
                        .no_retry = &l.failed};
    snprintf(range, sizeof range, "bytes=%" PRIu64 "-%" PRIu64, l.from, l.from + l.size - 1);
    clt_s3_add_header(&call, "Range", range);
    if (p->etag[0])
        clt_s3_add_header(&call, "If-Match", p->etag);
    clt_status status = clt_s3_perform(p->s3, &call, &reply);
    if (l.over)
        return clt_s3_no_ranges(p->s3, p->key, l.size);
    CLT_TRY(l.failed ? clt_error_put(&l.error) : status);
    if (l.done != l.size || (reply.code != 206 && l.from != 0) ||
        (p->etag[0] && reply.etag[0] && strcmp(p->etag, reply.etag) != 0))
        CLT_FAIL(CLT_ESTORAGE,
                 "s3://%s/%s: bytes from %" PRIu64 " on: %" PRIu64 " of %" PRIu64
                 " came, with the answer %d; the object was replaced meanwhile, or the server is wrong",
                 p->s3->bucket, p->key, l.from, l.done, l.size, reply.code);
    return CLT_OK;
}

clt_status clt_s3_download(clt_s3 *s3, const clt_s3_object *object, const char *path, int lanes)
{
    CLT_CLOSED int fd = -1;
    CLT_TRY(clt_own_file_create(path, &fd));
    pieces p = {.s3 = s3,
                .key = object->key,
                .etag = object->etag,
                .size = object->size,
                .piece = PART_SIZE,
                .fd = fd,
                .path = path,
                .move = download_range};
    clt_status status = object->size ? move_all(&p, lanes) : CLT_OK;
    if (status == CLT_OK)
        status = clt_fsync_path(path);
    if (status != CLT_OK)
        (void)unlink(path);
    return status;
}

/* --- uploads that were never finished --- */

/* Selects the uploads that are aborted. */
typedef struct old_uploads {
    const char *prefix;
    int64_t age; /* seconds since an upload began, by the server's clock */
    bool (*counts)(const char *key, void *context);
    void *context;
} old_uploads;

static bool is_old(const old_uploads *o, const char *key, const char *begun, int64_t now)
{
    int64_t time = 0;
    return strncmp(key, o->prefix, strlen(o->prefix)) == 0 && clt_date_iso(begun, &time) &&
           time <= now - o->age && (!o->counts || o->counts(key, o->context));
}

static clt_status abort_page(clt_s3 *s3, const clt_s3_reply *reply, const old_uploads *o, int *count)
{
    const int64_t now = reply->date ? reply->date : (int64_t)clt_wall_time();
    clt_xml page = {.text = reply->body, .size = reply->size}, upload, rest = page, element;
    while (clt_xml_find(rest, "Upload", &upload, &rest)) {
        CLT_SCOPED(clt_str) key = {0};
        char id[1024], begun[64];
        if (!clt_xml_find(upload, "Key", &element, NULL) || !clt_xml_copy(upload, "UploadId", id, sizeof id))
            CLT_FAIL(CLT_ESTORAGE, "s3://%s: a list of uploads has an entry without a key or an id",
                     s3->bucket);
        clt_xml_text(element, &key);
        CLT_TRY(clt_str_check(&key));
        clt_xml_copy(upload, "Initiated", begun, sizeof begun);
        if (!is_old(o, key.text, begun, now))
            continue;
        CLT_TRY(abort_upload(s3, key.text, id));
        ++*count;
    }
    return CLT_OK;
}

/* Where the next page of a list of uploads begins. */
typedef struct upload_marker {
    char key[CLT_S3_KEY], id[1024];
    bool more;
} upload_marker;

static clt_status read_marker(const clt_s3 *s3, const clt_s3_reply *reply, upload_marker *m)
{
    clt_xml page = {.text = reply->body, .size = reply->size};
    const upload_marker before = *m;
    char truncated[16];
    clt_xml_copy(page, "IsTruncated", truncated, sizeof truncated);
    m->more = strcmp(truncated, "true") == 0;
    if (!m->more)
        return CLT_OK;
    if (!clt_xml_copy(page, "NextKeyMarker", m->key, sizeof m->key) || !m->key[0] ||
        !clt_xml_copy(page, "NextUploadIdMarker", m->id, sizeof m->id))
        CLT_FAIL(CLT_ESTORAGE, "s3://%s: an incomplete list of uploads lacks the marker of its next part",
                 s3->bucket);
    if (strcmp(m->key, before.key) == 0 && strcmp(m->id, before.id) == 0)
        CLT_FAIL(CLT_ESTORAGE, "s3://%s: the list of uploads repeats itself", s3->bucket);
    return CLT_OK;
}

clt_status clt_s3_abort_old(clt_s3 *s3, const char *prefix, int64_t age,
                            bool (*counts)(const char *key, void *context), void *context, int *count)
{
    const old_uploads old = {prefix, age, counts, context};
    upload_marker marker = {.more = true};
    *count = 0;
    while (marker.more) {
        CLT_SCOPED(clt_s3_reply) reply = {.code = 0};
        clt_s3_call call = {
            .method = "GET", .key = "", .limit = ANSWER_LIMIT, .result = "ListMultipartUploadsResult"};
        clt_s3_add_query(&call, "uploads", "");
        clt_s3_add_query(&call, "prefix", prefix);
        if (marker.key[0]) {
            clt_s3_add_query(&call, "key-marker", marker.key);
            clt_s3_add_query(&call, "upload-id-marker", marker.id);
        }
        CLT_TRY(clt_s3_perform(s3, &call, &reply));
        CLT_TRY(abort_page(s3, &reply, &old, count));
        CLT_TRY(read_marker(s3, &reply, &marker));
    }
    return CLT_OK;
}
