/* SPDX-License-Identifier: Apache-2.0
 *
 * Signs requests to S3, to compatible servers and to STS: AWS Signature Version 4. Reads no clock: the
 * caller gives the time. libcurl can sign as well, but its versions differ, and older ones sign wrongly. */
#ifndef ENGINE_STORAGE_SIGV4_H
#define ENGINE_STORAGE_SIGV4_H

#include <stdint.h>

#include "engine/base/mem.h"

typedef struct clt_pair {
    const char *name, *value;
} clt_pair;

#define CLT_SIGV4_TIME 17  /* bytes of "20261122T110110Z" */
#define CLT_SIGV4_PAIRS 32 /* most parameters, and most headers, of a request */
#define CLT_UNSIGNED_PAYLOAD "UNSIGNED-PAYLOAD"

typedef struct clt_sigv4 {
    const char *method;
    const char *path;      /* begins with '/'; bytes beyond A-Z a-z 0-9 - . _ ~ / are written as %XX */
    const clt_pair *query; /* names and values, not encoded, in any order; a value NULL counts as "" */
    int n_query;
    const clt_pair *headers; /* the headers that are signed: host, and all whose names begin with x-amz- */
    int n_headers;
    const char *payload; /* SHA-256 of the body in hexadecimal digits, or CLT_UNSIGNED_PAYLOAD */
    const char *service; /* "s3" */
    const char *region, *access_key, *secret_key;
    int64_t time; /* seconds since 1970 */
} clt_sigv4;

/* Appends the text with each byte beyond A-Z a-z 0-9 - . _ ~ written as %XX; '/' stays if `slashes`. */
void clt_uri_encode(clt_str *out, const char *text, bool slashes);
/* Appends the query as it is signed and sent: encoded, sorted, with '=' after each name; nothing if there is
 * none. CLT_EUSAGE: there are more than CLT_SIGV4_PAIRS parameters. */
clt_status clt_sigv4_query(const clt_pair *query, int n, clt_str *out);
/* "20261122T110110Z": the value that the header x-amz-date must have. */
const char *clt_sigv4_time(int64_t time, char text[CLT_SIGV4_TIME]);
/* Appends the value of the header Authorization. */
clt_status clt_sigv4_sign(const clt_sigv4 *request, clt_str *out);

#endif
