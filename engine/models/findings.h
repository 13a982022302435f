/* SPDX-License-Identifier: Apache-2.0
 *
 * What is wrong with a list of layers: collected with its place in the file, told all at once in the order of
 * the places. Knows text and places only. */
#ifndef ENGINE_MODELS_FINDINGS_H
#define ENGINE_MODELS_FINDINGS_H

#include <stdarg.h>

#include "engine/base/json.h"
#include "engine/base/status.h"

typedef struct clt_finding {
    char *text;
    int line, column, order;
} clt_finding;

typedef struct clt_findings {
    const clt_json_doc *doc; /* may be NULL: there are no places */
    clt_finding *items;
    size_t count, capacity;
    clt_status code; /* of the first one */
    bool failed;     /* out of memory */
} clt_findings;

/* `text` without a place, about `value`; code: CLT_ECONFIG or CLT_ESHAPE. */
void clt_findings_add(clt_findings *list, const clt_json *value, clt_status code, const char *text);
/* The thread's message, which may have a place already. */
void clt_findings_add_error(clt_findings *list, const clt_json *value, clt_status status);
/* One message of one line each, sorted by place, with the first one's code; CLT_OK when there is none. Frees
 * the list. */
clt_status clt_findings_finish(clt_findings *list);

#endif
