/* SPDX-License-Identifier: Apache-2.0
 *
 * Notices by which a cloud announces that it will, or may soon, take this machine away. A thread polls the
 * metadata service of the machine's cloud, a file, or an address. On a machine that belongs to no cloud no
 * service is polled and no packet is sent. Knows nothing of training. */
#ifndef ENGINE_CLOUD_NOTICE_H
#define ENGINE_CLOUD_NOTICE_H

#include <stdbool.h>

#include "engine/base/scope.h"
#include "engine/base/status.h"

typedef enum clt_notice_kind {
    CLT_NOTICE_NONE,
    CLT_NOTICE_SAVE, /* the machine may be taken away or paused soon; the run should save a checkpoint */
    CLT_NOTICE_STOP  /* the machine will be taken away */
} clt_notice_kind;

const char *clt_notice_kind_name(clt_notice_kind kind); /* "none", "save", "stop" */

typedef struct clt_notice {
    clt_notice_kind kind;
    char text[200];    /* the cloud's words, printable: "terminate at 2017-09-18T08:22:00Z" */
    char provider[16]; /* the source of the notice: "aws" */
} clt_notice;

typedef struct clt_notice_options {
    const char *provider; /* auto, aws, gcp, azure, alibaba, file, url or off */
    const char *file;     /* a file whose existence is a notice, in addition to the provider; "": none */
    const char *url;      /* an address whose answer 200 is a notice; "": none */
    const char
        *endpoint;  /* "http://127.0.0.1:8080" instead of the metadata service's own address; "": its own */
    double seconds; /* between two polls; 0: as the cloud advises */
} clt_notice_options;

typedef struct clt_notices clt_notices;

/* Starts to poll each source that is set: cloud, file, address. *out becomes NULL if none is
 * set; the cloud counts as not set with the provider `off`, or with `auto` on a machine that belongs to no
 * cloud. CLT_EUNSUPPORTED: libcurl is missing and a provider is named; with `auto` clt_notices_take_trouble
 * reports this instead. CLT_ECONFIG: CLTRAIN_CLOUD_PROVIDER names no provider. */
clt_status clt_notices_open(const clt_notice_options *options, clt_notices **out);
/* CLT_ECONFIG if clt_notices_open would return it. Sends nothing. */
clt_status clt_notices_check(const clt_notice_options *options);
/* Polls the service once and waits for its answer; an answer that can be parsed is enough, whatever it says.
 * CLT_EDATA: no answer came, or it cannot be parsed. CLT_EUSAGE: the provider's name is unknown, or its file
 * or address is missing. CLT_EUNSUPPORTED: libcurl is missing. */
clt_status clt_notices_try(const clt_notice_options *options);
/* Ends the threads, and cancels their requests in progress. NULL is fine. */
void clt_notices_close(clt_notices *notices);
const char *clt_notices_providers(const clt_notices *notices); /* "file, aws" */
/* True if the machine will be taken away. clt_notices_newest gives the newest notice. `notices` may be
 * NULL. */
bool clt_notices_stop(const clt_notices *notices);
void clt_notices_newest(clt_notices *notices, clt_notice *out);
/* True once for each notice of the kind SAVE. */
bool clt_notices_take_save(clt_notices *notices);
/* True once for each problem with a source, with a line for the user; if the source is no longer polled, the
 * line says so. */
bool clt_notices_take_trouble(clt_notices *notices, char *line, size_t size);

/* The cloud of this machine: "aws", "gcp", "azure", "alibaba", or NULL. CLTRAIN_CLOUD_PROVIDER, which may
 * also be "off", comes first, then the clouds' own variables, then the firmware's name (files below
 * clt_sysfs()). Sends nothing. */
const char *clt_cloud_of_machine(void);
/* clt_cloud_of_machine, but ignores CLTRAIN_CLOUD_PROVIDER. */
const char *clt_cloud_found(void);

#endif
