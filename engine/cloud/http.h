/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests by HTTP, carried by libcurl, which is loaded when the first one is made: a program that makes none
 * runs where libcurl is not installed. Requests go past every proxy and follow no redirection. Knows no
 * service. */
#ifndef ENGINE_CLOUD_HTTP_H
#define ENGINE_CLOUD_HTTP_H

#include <stddef.h>

#include "engine/base/scope.h"
#include "engine/base/status.h"

typedef struct clt_http clt_http;

typedef struct clt_http_request {
    const char *method;              /* "GET" or "PUT"; a request has no body */
    const char *url;                 /* http:// or https:// */
    const char *const *headers;      /* lines "Name: value", after the last one NULL; NULL: none */
    double connect_seconds, seconds; /* limits of the connection and of the whole request */
    size_t limit;                    /* largest body that is accepted, in bytes */
} clt_http_request;

/* Memory of the texts belongs to the clt_http and holds until its next request. */
typedef struct clt_http_answer {
    int code;         /* the status code; 0: no whole answer came */
    const char *body; /* ends with a NUL */
    size_t size;
    const char *reason; /* code 0: why, such as "Connection refused" */
} clt_http_answer;

/* CLT_EUNSUPPORTED: libcurl is not installed, or the program was built without it. */
clt_status clt_http_open(clt_http **out);
void clt_http_close(clt_http *http); /* NULL is fine */
CLT_SCOPED_POINTER(clt_http, clt_http_close)
/* Makes a request and waits for its answer. A request that is not answered is no error: its code is 0. */
clt_status clt_http_ask(clt_http *http, const clt_http_request *request, clt_http_answer *answer);
/* The value of a header of the newest answer, without blanks around it; "" if it has none. */
const char *clt_http_header(clt_http *http, const char *name);
/* From any thread: ends the request in progress, and each later one at once. */
void clt_http_cancel(clt_http *http);

#endif
