/* SPDX-License-Identifier: Apache-2.0
 *
 * Mistakes in a list of layers: each is collected with its position in the file, and all are reported
 * together in the order of their positions. Knows only text and positions. */
#ifndef ENGINE_MODELS_FINDINGS_H
#define ENGINE_MODELS_FINDINGS_H

#include <stdarg.h>

#include "engine/base/status.h"
#include "engine/json/json.h"

typedef struct clt_finding {
    char *text;
    int line, column, order;
} clt_finding;

typedef struct clt_findings {
    const clt_json_doc *doc; /* may be NULL: findings then have no positions */
    clt_finding *items;
    size_t count, capacity;
    clt_status code; /* status code of the first finding */
    bool failed;     /* memory ran out, so findings are missing */
} clt_findings;

/* Adds a finding about `value`; `text` must not contain a position. code: CLT_ECONFIG or CLT_ESHAPE. */
void clt_findings_add(clt_findings *list, const clt_json *value, clt_status code, const char *text);
/* Adds the thread's error message as a finding. It may begin with a position already. */
void clt_findings_add_error(clt_findings *list, const clt_json *value, clt_status status);
/* Sets one error message with a line for each finding, sorted by position, and returns the code of the first
 * one; CLT_OK if there are no findings. Frees the list. */
clt_status clt_findings_finish(clt_findings *list);

#endif
