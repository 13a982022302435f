/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP requests through libcurl, which is loaded at the first request: a program that makes none runs where
 * libcurl is not installed. Requests follow no redirection, and use no proxy unless `proxies` is set.
 * Addresses are sent as they are written. Knows no particular service. */
#ifndef ENGINE_CLOUD_HTTP_H
#define ENGINE_CLOUD_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/scope.h"
#include "engine/base/status.h"

typedef struct clt_http clt_http;

/* Takes a piece of an answer's body as it arrives; false ends the request. */
typedef bool (*clt_http_sink)(void *context, const void *bytes, size_t size);

typedef struct clt_http_request {
    const char *method;              /* "GET", "PUT", "POST", "DELETE" or "HEAD" */
    const char *url;                 /* http:// or https:// */
    const char *const *headers;      /* lines "Name: value", NULL after the last one; NULL: none */
    double connect_seconds, seconds; /* time limits for connecting and for the whole request; 0: no limit */
    double stall_seconds;            /* ends a request that moves less than 1 KiB/s for this long; 0: never */
    size_t limit;                    /* largest body that is accepted in memory, in bytes */
    const void *body;                /* the body that is sent; NULL: none */
    size_t body_size;
    clt_http_sink sink; /* receives the body of an answer 200 or 206; NULL: the body goes to memory */
    void *sink_context;
    bool proxies;        /* uses the proxy that the environment names */
    const char *ca_file; /* certificates that are trusted instead of the system's; NULL or "": the system's */
} clt_http_request;

/* The texts belong to the clt_http and are valid until its next request. */
typedef struct clt_http_answer {
    int code;         /* the status code; 0: no whole answer came */
    const char *body; /* ends with a NUL */
    size_t size;
    const char *reason; /* the reason for code 0, such as "Connection refused" */
    bool too_large;     /* the code is 0 because the body is larger than the request's limit */
} clt_http_answer;

/* CLT_EUNSUPPORTED: libcurl is not installed, or the program was built without it. */
clt_status clt_http_open(clt_http **out);
void clt_http_close(clt_http *http); /* NULL is fine */
CLT_SCOPED_POINTER(clt_http, clt_http_close)
/* Makes a request and waits for its answer. A request without an answer is not an error: its code is 0. */
clt_status clt_http_ask(clt_http *http, const clt_http_request *request, clt_http_answer *answer);
/* The value of a header of the newest answer, without blanks around it; "" if the answer lacks that
 * header. */
const char *clt_http_header(clt_http *http, const char *name);
/* Overwrites the body of the newest answer, which may hold a secret. The answer's texts are invalid
 * afterwards. */
void clt_http_forget(clt_http *http);
/* Cancels the request in progress and makes every later one end immediately. May be called from any
 * thread. */
void clt_http_cancel(clt_http *http);

#endif
