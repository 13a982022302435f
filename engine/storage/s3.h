/* SPDX-License-Identifier: Apache-2.0
 *
 * A client for object storage that speaks S3: AWS, R2, Google, MinIO, SeaweedFS and others. libcurl carries
 * the requests (http.h); they are signed here. A request that fails for a reason that may pass is repeated.
 * Every call may come from any thread, several at a time.
 *
 * Failures are CLT_ESTORAGE unless something else is said; their messages name bucket, key and the server's
 * code, and never hold a key, a token or a signature. */
#ifndef ENGINE_STORAGE_S3_H
#define ENGINE_STORAGE_S3_H

#include "engine/base/mem.h"
#include "engine/storage/address.h"

/* Texts may be NULL or "": then the environment and the files of AWS's tools decide, else the default that
 * is named here. */
typedef struct clt_s3_options {
    const char *endpoint; /* address of the server; AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, endpoint_url of the
                             * profile; else the server of AWS for the region */
    const char *region;   /* AWS_REGION, AWS_DEFAULT_REGION, region of the profile; else us-east-1, where
                           * AWS's servers name the bucket's own region */
    const char *sse; /* "AES256" or "aws:kms": encryption that the server is asked for; else its own rule */
    const char *kms_key;    /* with aws:kms: the key's name; else the account's own */
    const char *allow_http; /* a host that may be asked without TLS; else none but loopback */
    int attempts;           /* for one request; 0: 8 */
} clt_s3_options;

typedef struct clt_s3 clt_s3;

/* Reads the environment and sends nothing. CLT_EUNSUPPORTED: libcurl is not installed. CLT_EUSAGE: a setting
 * cannot be used. */
clt_status clt_s3_open(const char *bucket, const clt_s3_options *options, clt_s3 **out);
void clt_s3_close(clt_s3 *s3); /* no call may be in progress; NULL is fine */
CLT_SCOPED_POINTER(clt_s3, clt_s3_close)
/* Ends all calls in progress, and each later one immediately, with CLT_EINTERRUPTED. */
void clt_s3_cancel(clt_s3 *s3);

/* What a client with these options would use, for people. */
typedef struct clt_s3_setup {
    char keys[400];   /* the source of keys; "": there is none */
    char server[300]; /* "https://s3.eu-central-1.amazonaws.com" */
    char region[64];
    char profile[128]; /* the profile that is used; "": there is none */
} clt_s3_setup;
/* Finds that out; sends nothing but, as clt_credentials_describe, a question to the metadata service of
 * AWS. */
clt_status clt_s3_describe(const clt_s3_options *options, clt_s3_setup *out);
/* Where the keys came from ("env"); "": no request has been signed yet. */
const char *clt_s3_key_source(clt_s3 *s3);

#define CLT_S3_ETAG 128

typedef struct clt_s3_object {
    const char *key;        /* borrowed */
    char etag[CLT_S3_ETAG]; /* with its quotes; "": the server gives none, or one that does not fit */
    uint64_t size;
} clt_s3_object;

/* Writes an object from memory; an object of that key is replaced. */
clt_status clt_s3_put(clt_s3 *s3, const char *key, const void *data, size_t size);
/* Size and ETag of an object. *there: whether the object exists; with `there` NULL, an object that does not
 * exist is an error. An answer of 403 is always an error, because it tells nothing. */
clt_status clt_s3_head(clt_s3 *s3, const char *key, clt_s3_object *out, bool *there);
/* Reads bytes [from, from + size) of an object, all of which must exist. etag: the object must still have it;
 * NULL or "": any. */
clt_status clt_s3_get(clt_s3 *s3, const char *key, const char *etag, uint64_t from, void *data, size_t size);
/* Reads a whole object of at most `limit` bytes, with a NUL after it; *data is to be freed. *there as in
 * clt_s3_head. */
clt_status clt_s3_read(clt_s3 *s3, const char *key, size_t limit, char **data, size_t *size, bool *there);
/* Deletes an object; it is no failure if the object does not exist. If the call fails because the keys do
 * not allow deletion, *refused becomes true; `refused` may be NULL. */
clt_status clt_s3_delete(clt_s3 *s3, const char *key, bool *refused);

typedef struct clt_s3_list {
    clt_s3_object *object; /* in the order of the bytes of their keys */
    size_t count, capacity;
    clt_arena *keys;
} clt_s3_list;
/* All objects whose keys begin with `prefix`; *list is to be freed in any case. */
clt_status clt_s3_list_all(clt_s3 *s3, const char *prefix, clt_s3_list *list);
void clt_s3_list_free(clt_s3_list *list);
CLT_SCOPED_VALUE(clt_s3_list, clt_s3_list_free)

/* --- files (s3_files.c) --- */

/* Uploads a file, in parts if it is large, `lanes` parts at a time. A failed upload leaves no parts if the
 * server can still be asked to remove them; a cancelled one leaves its parts, which clt_s3_abort_old
 * removes. The file must not change meanwhile. *size (may be NULL): its bytes. */
clt_status clt_s3_upload(clt_s3 *s3, const char *path, const char *key, int lanes, uint64_t *size);
/* Downloads an object to a new file, in ranges, `lanes` at a time; it must not change meanwhile. A failed
 * download leaves no file. */
clt_status clt_s3_download(clt_s3 *s3, const clt_s3_object *object, const char *path, int lanes);
/* Bytes of a part of an upload of `size` bytes: 8 MiB, or more whole MiB if there would be more than
 * 10,000. */
uint64_t clt_s3_part_size(uint64_t size);
/* Aborts uploads of keys that begin with the prefix and for which `counts` is true (NULL: all), that were
 * begun `age` seconds ago or earlier by the server's clock, and never finished. *count: how many were
 * aborted. */
clt_status clt_s3_abort_old(clt_s3 *s3, const char *prefix, int64_t age,
                            bool (*counts)(const char *key, void *context), void *context, int *count);

#endif
