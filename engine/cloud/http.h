/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests by HTTP, carried by libcurl, which is loaded when the first one is made: a program that makes none
 * runs where libcurl is not installed. Requests follow no redirection, and go past every proxy unless one
 * says otherwise. Addresses are sent as they are written. Knows no service. */
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
    const char *const *headers;      /* lines "Name: value", after the last one NULL; NULL: none */
    double connect_seconds, seconds; /* limits of the connection and of the whole request; 0: none of those */
    double stall_seconds;            /* ends a request that moves less than 1 KiB/s for this long; 0: never */
    size_t limit;                    /* largest body that is accepted in memory, in bytes */
    const void *body;                /* what is sent; NULL: the request has no body */
    size_t body_size;
    clt_http_sink sink; /* gets the body of an answer 200 or 206 instead of memory; NULL: memory */
    void *sink_context;
    bool proxies;        /* goes through the proxy that the environment names */
    const char *ca_file; /* certificates that are trusted instead of the system's; NULL or "": the system's */
} clt_http_request;

/* Memory of the texts belongs to the clt_http and holds until its next request. */
typedef struct clt_http_answer {
    int code;         /* the status code; 0: no whole answer came */
    const char *body; /* ends with a NUL */
    size_t size;
    const char *reason; /* code 0: why, such as "Connection refused" */
    bool too_large;     /* code 0, because the body is larger than the request's limit */
} clt_http_answer;

/* CLT_EUNSUPPORTED: libcurl is not installed, or the program was built without it. */
clt_status clt_http_open(clt_http **out);
void clt_http_close(clt_http *http); /* NULL is fine */
CLT_SCOPED_POINTER(clt_http, clt_http_close)
/* Makes a request and waits for its answer. A request that is not answered is no error: its code is 0. */
clt_status clt_http_ask(clt_http *http, const clt_http_request *request, clt_http_answer *answer);
/* The value of a header of the newest answer, without blanks around it; "" if it has none. */
const char *clt_http_header(clt_http *http, const char *name);
/* Overwrites the body of the newest answer, which may hold a secret. Its texts are invalid afterwards. */
void clt_http_forget(clt_http *http);
/* From any thread: ends the request in progress, and each later one immediately. */
void clt_http_cancel(clt_http *http);

#endif
