/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface of a source of notices (notice_*.c), and requests to a metadata service. */
#ifndef ENGINE_CLOUD_NOTICE_SOURCE_H
#define ENGINE_CLOUD_NOTICE_SOURCE_H

#include "engine/cloud/http.h"
#include "engine/cloud/notice.h"

#define CLT_METADATA_LIMIT 65536 /* bytes of an answer */

/* A source in use. */
typedef struct clt_notice_poller {
    const clt_notice_options *options;
    clt_http *http;     /* NULL: the source needs none */
    char base[2048];    /* address of the service without a path */
    char token[2048];   /* header with the session's token; "": there is none yet */
    bool secret;        /* the address must not appear in messages */
    bool without_token; /* the service is too old for tokens */
    double slow_at;     /* when the requests that are made rarely are due next */
    char etag[72];      /* ETag of the newest answer, if the service can wait for a change; "": no wait */
    char name[128];     /* the service's name for this machine; "": not known yet */
    long long seen;     /* number of the newest document that has been read; -1: none */
    bool calm;          /* the newest answer said that the earlier notice is over */
    char trouble[256];  /* why the newest request had no answer, or one that cannot be parsed */
    int code;           /* status code of that answer; 0: none came */
} clt_notice_poller;

typedef struct clt_notice_source {
    const char *name;
    const char *address;  /* address of the service; NULL: it has none */
    const char *variable; /* environment variable that may hold another address; NULL: none */
    double seconds;       /* between two polls */
    bool http;
    /* Polls once. out->kind stays CLT_NOTICE_NONE unless there is a notice. CLT_EDATA: there was no answer,
     * or it cannot be parsed; poller->trouble says why. */
    clt_status (*poll)(clt_notice_poller *poller, clt_notice *out);
} clt_notice_source;

extern const clt_notice_source clt_notice_aws, clt_notice_gcp, clt_notice_azure, clt_notice_alibaba,
    clt_notice_file, clt_notice_url;

/* Requests a path of the service, with one more header unless `header` is NULL. *answer holds the status
 * code. CLT_EDATA: no answer came. seconds: limit of the whole request. */
clt_status clt_metadata_request(clt_notice_poller *poller, const char *method, const char *path,
                                const char *header, double seconds, clt_http_answer *answer);
/* Requests a path with the session's token, sent as the header `name`. A token that is missing or expired is
 * first fetched from /latest/api/token with the header `ttl` ("X-aws-ec2-metadata-token-ttl-seconds:
 * 21600"). may_go_without: works without a token if the service is too old for one. */
clt_status clt_metadata_with_token(clt_notice_poller *poller, const char *path, const char *ttl,
                                   const char *name, bool may_go_without, clt_http_answer *answer);
/* clt_metadata_with_token with the headers of AWS. */
clt_status clt_metadata_aws(clt_notice_poller *poller, const char *path, clt_http_answer *answer);
/* Sets poller->base to `endpoint` if it is not empty, else to the address in the environment, else to the
 * source's own. */
void clt_metadata_address(clt_notice_poller *poller, const clt_notice_source *source, const char *endpoint);
/* Fails with CLT_EDATA and poller->trouble. */
clt_status clt_metadata_strange(clt_notice_poller *poller, const char *path, const clt_http_answer *answer);
/* Makes a notice; its text is cut to length, and characters that cannot be printed become blanks. */
void clt_notice_make(clt_notice *out, clt_notice_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
