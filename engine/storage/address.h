/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses of object storage: s3://bucket/prefix, and the server that holds the bucket. */
#ifndef ENGINE_STORAGE_ADDRESS_H
#define ENGINE_STORAGE_ADDRESS_H

#include "engine/base/mem.h"

#define CLT_S3_KEY 1025 /* bytes of a key with its NUL */

typedef struct clt_s3_address {
    char bucket[64];
    char prefix[CLT_S3_KEY]; /* without '/' at its end; "": the whole bucket */
} clt_s3_address;

/* True if the text begins with "s3://". */
bool clt_s3_is_address(const char *text);
/* Splits an address into bucket and prefix. CLT_EUSAGE: the text is not such an address; the message says
 * what is wrong. */
clt_status clt_s3_address_parse(const char *text, clt_s3_address *out);

typedef struct clt_endpoint {
    bool tls;
    char host[256]; /* with its port, unless it is the default port of http or https */
} clt_endpoint;

/* Parses "https://host", "http://host:port" and the like; `what`: the setting's name, for messages. Without
 * TLS only a loopback address, or the host `plain_host` ("": none), is accepted. CLT_EUSAGE. */
clt_status clt_endpoint_parse(const char *text, const char *what, const char *plain_host, clt_endpoint *out);
/* The server of AWS for a region. */
clt_status clt_endpoint_of_region(const char *region, clt_endpoint *out);
/* True if requests name the bucket in the path: the server has a port or is a number, or the bucket's name
 * has a dot, so that no certificate would match. Otherwise the bucket is a part of the host's name. */
bool clt_endpoint_by_path(const clt_endpoint *endpoint, const char *bucket);

/* Tests of an address http://... or https://...: its host is `host`; its host is loopback; its host is
 * loopback or link-local, so that requests must not go through a proxy. */
bool clt_host_is(const char *url, const char *host);
bool clt_host_is_loopback(const char *url);
bool clt_host_is_local(const char *url);

#endif
