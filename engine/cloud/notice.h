/* SPDX-License-Identifier: Apache-2.0
 *
 * Notices of a cloud that this machine is about to be taken away, or that it is in danger. A thread asks the
 * metadata service of the cloud that the machine belongs to, a file, or an address. On a machine that
 * belongs to no cloud the thread asks no service and sends no packet. Knows nothing of training. */
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
    char text[200];    /* "terminate at 2017-09-18T08:22:00Z"; printable, of the cloud */
    char provider[16]; /* who told it: "aws" */
} clt_notice;

typedef struct clt_notice_options {
    const char *provider; /* auto, aws, gcp, azure, alibaba, file, url or off */
    const char *file;     /* a file whose existence is a notice, in addition to the provider; "": none */
    const char *url;      /* an address whose answer 200 is a notice; "": none */
    const char
        *endpoint;  /* "http://127.0.0.1:8080" instead of the metadata service's own address; "": that */
    double seconds; /* between two questions; 0: as the cloud advises */
} clt_notice_options;

typedef struct clt_notices clt_notices;

/* Begins to watch the cloud, the file and the address, as far as each is set. *out becomes NULL if none is
 * set: with the provider `off`, or with `auto` on a machine that belongs to no cloud. CLT_EUNSUPPORTED: the
 * provider is named, and libcurl is missing; with `auto` clt_notices_take_trouble tells of it. CLT_ECONFIG:
 * CLTRAIN_CLOUD_PROVIDER names no provider. */
clt_status clt_notices_open(const clt_notice_options *options, clt_notices **out);
/* CLT_ECONFIG: clt_notices_open would fail with it. Asks nobody. */
clt_status clt_notices_check(const clt_notice_options *options);
/* Asks the service once and waits for its answer; the content of the answer does not matter. CLT_EDATA: no
 * answer came, or it cannot be understood. CLT_EUSAGE: the provider's name is unknown, or its file or
 * address is missing. CLT_EUNSUPPORTED: libcurl is missing. */
clt_status clt_notices_try(const clt_notice_options *options);
/* Ends the thread, and a request that is in progress with it. NULL is fine. */
void clt_notices_close(clt_notices *notices);
const char *clt_notices_providers(const clt_notices *notices); /* "file, aws" */
/* Of `notices`, which may be NULL: whether the machine will be taken away; the newest notice. */
bool clt_notices_stop(const clt_notices *notices);
void clt_notices_newest(clt_notices *notices, clt_notice *out);
/* True once for each notice of the kind SAVE. */
bool clt_notices_take_save(clt_notices *notices);
/* True once, with a line for the user, when the service cannot be asked; when nothing is asked any more the
 * line says so. */
bool clt_notices_take_trouble(clt_notices *notices, char *line, size_t size);

/* The cloud that CLTRAIN_CLOUD_PROVIDER, which may also be "off", the clouds' own variables or the firmware
 * name: "aws", "gcp", "azure", "alibaba", or NULL. Reads files below clt_sysfs() and sends nothing. */
const char *clt_cloud_of_machine(void);
/* The same whatever CLTRAIN_CLOUD_PROVIDER says. */
const char *clt_cloud_found(void);

#endif
