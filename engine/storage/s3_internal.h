/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of the client (s3*.c): the client's state, a call with its retries, and the meaning of
 * an answer. */
#ifndef ENGINE_STORAGE_S3_INTERNAL_H
#define ENGINE_STORAGE_S3_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/cloud/http.h"
#include "engine/storage/credentials.h"
#include "engine/storage/retry.h"
#include "engine/storage/s3.h"
#include "engine/storage/sigv4.h"

#define CLT_S3_LANES 16 /* most calls at a time */
#define CLT_S3_PAIRS 6  /* most parameters, and most headers, that a call adds */

struct clt_s3 {
    char bucket[64];
    char sse[32], kms_key[512], ca_file[1024];
    int attempts;
    bool own_endpoint; /* the settings name a server, so it does not follow from the region */
    clt_profile *profile;
    clt_credentials *credentials;
    atomic_bool cancelled;
    pthread_mutex_t lock; /* guards the members that follow */
    clt_endpoint endpoint;
    char region[64], named_region[64]; /* the bucket's, as far as known; that of the settings */
    double clock_offset;               /* seconds by which the server's clock is ahead */
    clt_http *http[CLT_S3_LANES];
    bool busy[CLT_S3_LANES];
};

/* A request. Entries of `query` and `headers` with a NULL name are ignored. */
typedef struct clt_s3_call {
    const char *method, *key; /* key "": the bucket itself */
    clt_pair query[CLT_S3_PAIRS], headers[CLT_S3_PAIRS];
    int n_query, n_headers;
    const void *body; /* NULL: none */
    size_t body_size;
    size_t limit;                        /* most bytes of an answer in memory */
    clt_http_sink sink;                  /* NULL: memory */
    void (*restart)(void *sink_context); /* called before each attempt; may be NULL */
    void *sink_context;
    const bool *no_retry;   /* when it becomes true, the call is not tried again; may be NULL */
    const char *result;     /* XML element that an answer 200 must contain; NULL: any body */
    double silence_seconds; /* how long the server may send nothing; 0: 30 */
    bool may_lack;          /* an answer 404 is not a failure */
} clt_s3_call;

typedef struct clt_s3_reply {
    int code;
    char *body; /* NUL-terminated */
    size_t size;
    bool has_length; /* the header Content-Length is a number: `length` */
    uint64_t length;
    int64_t date; /* the server's time, in seconds since 1970; 0: the answer lacks it */
    char etag[CLT_S3_ETAG], sse[32];
    char error[64]; /* the server's error code if the answer reports a failure */
    int attempts;
} clt_s3_reply;
void clt_s3_reply_free(clt_s3_reply *reply);
CLT_SCOPED_VALUE(clt_s3_reply, clt_s3_reply_free)

/* Makes a call, and retries it while the failure may be temporary. *reply is also filled in if the server's
 * answer is a failure. */
clt_status clt_s3_perform(clt_s3 *s3, const clt_s3_call *call, clt_s3_reply *reply);
/* Adds the headers that request encryption to a call that creates an object, if the options ask for
 * encryption. */
void clt_s3_encrypt(const clt_s3 *s3, clt_s3_call *call);
/* Fails with CLT_ESTORAGE: a server has sent more than the requested range of `size` bytes. */
clt_status clt_s3_no_ranges(const clt_s3 *s3, const char *key, uint64_t size);
/* CLT_ESTORAGE: encryption was requested, and the answer does not say that it was applied. */
clt_status clt_s3_check_encrypted(const clt_s3 *s3, const char *key, const clt_s3_reply *reply);
void clt_s3_add_query(clt_s3_call *call, const char *name, const char *value);
void clt_s3_add_header(clt_s3_call *call, const char *name, const char *value);

/* --- what an answer means (s3_error.c) --- */
/* Reads a size in bytes, of digits only. False: the text is not such a number, or it is larger than
 * INT64_MAX. */
bool clt_s3_parse_size(const char *text, uint64_t *out);
/* The right that the call needs: "s3:PutObject". */
const char *clt_s3_right(const clt_s3_call *call);
#define CLT_S3_NO_RIGHT "the keys do not allow this, which needs the right " /* clt_s3_right follows */
/* A sentence for the user about the probable meaning of the server's error code, or of the HTTP status
 * `code`; "" if there is nothing to add. */
const char *clt_s3_hint(int code, const char *error);

#endif
