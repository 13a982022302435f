/* SPDX-License-Identifier: Apache-2.0
 *
 * A client for object storage that speaks S3: AWS, R2, Google, MinIO, SeaweedFS and others. libcurl carries
 * the requests (http.h); they are signed here. A request that fails for a temporary reason is repeated.
 * Functions may be called from any thread, several at a time.
 *
 * Failures are CLT_ESTORAGE unless a declaration says otherwise; their messages name bucket, key and the
 * server's code, and never hold a key, a token or a signature. */
#ifndef ENGINE_STORAGE_S3_H
#define ENGINE_STORAGE_S3_H

#include "engine/base/mem.h"
#include "engine/storage/address.h"

/* A text may be NULL or "": then the environment and the files of AWS's tools decide, in the order given
 * here, and after them the default that follows "else". */
typedef struct clt_s3_options {
    const char *endpoint; /* address of the server; AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, endpoint_url of the
                             * profile; else the server of AWS for the region */
    const char *region;   /* AWS_REGION, AWS_DEFAULT_REGION, region of the profile; else us-east-1, whose
                           * servers name the bucket's own region */
    const char *sse;      /* "AES256" or "aws:kms": the encryption to request; else the server's own rule */
    const char *kms_key;  /* with aws:kms: the key's name; else the account's own */
    const char *allow_http; /* a host that may be used without TLS; else only loopback */
    int attempts;           /* most attempts of a request; 0: 8 */
} clt_s3_options;

typedef struct clt_s3 clt_s3;

/* Reads the environment and sends nothing. CLT_EUNSUPPORTED: libcurl is not installed. CLT_EUSAGE: a setting
 * cannot be used. */
clt_status clt_s3_open(const char *bucket, const clt_s3_options *options, clt_s3 **out);
void clt_s3_close(clt_s3 *s3); /* no call may be in progress; NULL is fine */
CLT_SCOPED_POINTER(clt_s3, clt_s3_close)
/* Cancels all calls in progress, and makes later ones fail immediately, with CLT_EINTERRUPTED. */
void clt_s3_cancel(clt_s3 *s3);

/* A description, for people, of what a client with these options would use. */
typedef struct clt_s3_setup {
    char keys[400];   /* the source of keys; "": there is none */
    char server[300]; /* "https://s3.eu-central-1.amazonaws.com" */
    char region[64];
    char profile[128]; /* the profile that is used; "": there is none */
} clt_s3_setup;
/* Fills in *out. Sends nothing, except that clt_credentials_describe may send a request to AWS's metadata
 * service. */
clt_status clt_s3_describe(const clt_s3_options *options, clt_s3_setup *out);
/* The source of the keys ("env"); "": no request has been signed yet. */
const char *clt_s3_key_source(clt_s3 *s3);

#define CLT_S3_ETAG 128

typedef struct clt_s3_object {
    const char *key;        /* borrowed */
    char etag[CLT_S3_ETAG]; /* with its quotes; "": the server gives none, or it is too long */
    uint64_t size;
} clt_s3_object;

/* Uploads an object from memory; an existing object with that key is replaced. */
clt_status clt_s3_put(clt_s3 *s3, const char *key, const void *data, size_t size);
/* Size and ETag of an object. *there: whether the object exists; with `there` NULL, an object that does not
 * exist is an error. An answer 403 is always an error, because it does not tell whether the object
 * exists. */
clt_status clt_s3_head(clt_s3 *s3, const char *key, clt_s3_object *out, bool *there);
/* Reads bytes [from, from + size) of an object, all of which must exist. Fails if the object's ETag is no
 * longer `etag`; NULL or "": any ETag. */
clt_status clt_s3_get(clt_s3 *s3, const char *key, const char *etag, uint64_t from, void *data, size_t size);
/* Reads a whole object of at most `limit` bytes, with a NUL after it; the caller frees *data. *there as in
 * clt_s3_head. */
clt_status clt_s3_read(clt_s3 *s3, const char *key, size_t limit, char **data, size_t *size, bool *there);
/* Deletes an object; succeeds if the object does not exist. If the call fails because the keys do not allow
 * deletion, *refused becomes true; `refused` may be NULL. */
clt_status clt_s3_delete(clt_s3 *s3, const char *key, bool *refused);

typedef struct clt_s3_list {
    clt_s3_object *object; /* sorted by the bytes of their keys */
    size_t count, capacity;
    clt_arena *keys;
} clt_s3_list;
/* All objects whose keys begin with `prefix`; the caller frees *list, also after a failure. */
clt_status clt_s3_list_all(clt_s3 *s3, const char *prefix, clt_s3_list *list);
void clt_s3_list_free(clt_s3_list *list);
CLT_SCOPED_VALUE(clt_s3_list, clt_s3_list_free)

/* --- files (s3_files.c) --- */

/* Uploads a file, in parts if it is large, `lanes` parts at a time. A failed upload has its parts removed if
 * the server can be reached; a cancelled one leaves its parts, which clt_s3_abort_old removes. The file must
 * not change meanwhile. *size (may be NULL): bytes of the file. */
clt_status clt_s3_upload(clt_s3 *s3, const char *path, const char *key, int lanes, uint64_t *size);
/* Downloads an object to a new file, in ranges, `lanes` at a time. The object must not change meanwhile. A
 * failed download leaves no file. */
clt_status clt_s3_download(clt_s3 *s3, const clt_s3_object *object, const char *path, int lanes);
/* Bytes of each part of an upload of `size` bytes: 8 MiB, or more whole MiB if there would be more than
 * 10,000 parts. */
uint64_t clt_s3_part_size(uint64_t size);
/* Aborts unfinished uploads that were begun at least `age` seconds ago by the server's clock, if their keys
 * begin with `prefix` and `counts` returns true for them (NULL: all keys). *count: the number of aborted
 * uploads. */
clt_status clt_s3_abort_old(clt_s3 *s3, const char *prefix, int64_t age,
                            bool (*counts)(const char *key, void *context), void *context, int *count);

#endif
