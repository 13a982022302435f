/* SPDX-License-Identifier: Apache-2.0
 *
 * What the sources of notices (notice_*.c) share: one record for each, and requests to a metadata service. */
#ifndef ENGINE_CLOUD_NOTICE_SOURCE_H
#define ENGINE_CLOUD_NOTICE_SOURCE_H

#include "engine/cloud/http.h"
#include "engine/cloud/notice.h"

#define CLT_METADATA_LIMIT 65536 /* bytes of an answer */

/* A source in use. */
typedef struct clt_notice_asker {
    const clt_notice_options *options;
    clt_http *http;     /* NULL: the source needs none */
    char base[2048];    /* address of the service without a path */
    char token[2048];   /* header with the session's token; "": there is none yet */
    bool secret;        /* the address is not to be shown */
    bool without_token; /* the service is old and gives none */
    double slow_at;     /* when questions that need not be asked often are due */
    char etag[72];      /* of the newest answer of a service that can wait for a change; "": ask at once */
    char name[128];     /* of this machine, as the service calls it; "": not known yet */
    long long seen;     /* number of the newest document that has been read; -1: none */
    bool calm;          /* the newest answer said that the earlier notice is over */
    char trouble[256];  /* why the newest question had no answer, or none that can be understood */
    int code;           /* of that answer; 0: none came */
} clt_notice_asker;

typedef struct clt_notice_source {
    const char *name;
    const char *address;  /* of the service; NULL: it has none */
    const char *variable; /* environment variable with another address; NULL: none */
    double seconds;       /* between two questions */
    bool http;
    /* Asks once. *out is CLT_NOTICE_NONE unless there is a notice. CLT_EDATA: there was no answer, or none
     * that can be understood; asker->trouble says why. */
    clt_status (*ask)(clt_notice_asker *asker, clt_notice *out);
} clt_notice_source;

extern const clt_notice_source clt_notice_aws, clt_notice_gcp, clt_notice_azure, clt_notice_alibaba,
    clt_notice_file, clt_notice_url;

/* Asks for a path of the service, with one more header unless it is NULL. *answer has the code; an answer
 * that did not come is CLT_EDATA. seconds: limit of the whole request. */
clt_status clt_metadata_ask(clt_notice_asker *asker, const char *method, const char *path, const char *header,
                            double seconds, clt_http_answer *answer);
/* Asks for a path with the session's token, which is fetched when it is missing or expired: from
 * /latest/api/token with the header `ttl` ("X-aws-ec2-metadata-token-ttl-seconds: 21600"), and sent as the
 * header `name`. */
clt_status clt_metadata_with_token(clt_notice_asker *asker, const char *path, const char *ttl,
                                   const char *name, bool may_go_without, clt_http_answer *answer);
/* The same for the metadata service of AWS, with its own headers. */
clt_status clt_metadata_aws(clt_notice_asker *asker, const char *path, clt_http_answer *answer);
/* Sets asker->base: `endpoint`, unless it is empty, else the address in the environment, else the source's
 * own. */
void clt_metadata_address(clt_notice_asker *asker, const clt_notice_source *source, const char *endpoint);
/* Fails with CLT_EDATA and asker->trouble. */
clt_status clt_metadata_strange(clt_notice_asker *asker, const char *path, const clt_http_answer *answer);
/* Makes a notice; the text is cut and cleaned of what is not printable. */
void clt_notice_make(clt_notice *out, clt_notice_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
