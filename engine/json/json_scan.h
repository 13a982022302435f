/* SPDX-License-Identifier: Apache-2.0
 *
 * The strict scanner that runs before cJSON: refuses everything that is not JSON by RFC 8259, and notes where
 * each value begins. Only json.c uses it; it must not know cJSON or the tree. */
#ifndef ENGINE_JSON_JSON_SCAN_H
#define ENGINE_JSON_JSON_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

#define CLT_JSON_MAX_BYTES 100000000u
#define CLT_JSON_MAX_DEPTH 64
#define CLT_JSON_MAX_VALUES 4000000u
#define CLT_JSON_NO_KEY UINT32_MAX

/* One value, in document order (a container before its members). */
typedef struct clt_json_mark {
    uint32_t offset;     /* offset of the value, in bytes */
    uint32_t key_offset; /* offset of its key, in bytes; CLT_JSON_NO_KEY outside an object */
    uint32_t length;     /* length of a number's text in bytes, 0 for other values */
} clt_json_mark;

typedef struct clt_json_scan {
    const char *text, *source;
    size_t length;
    clt_status code;
    clt_json_mark *marks;
    size_t mark_count, mark_capacity;
    uint32_t *lines; /* offset of each line's first byte, in bytes */
    size_t line_count, line_capacity;
    size_t at;
    int depth;
} clt_json_scan;

/* Set `text`, `length`, `source` and `code`, and zero the rest. Free `marks` and `lines` afterwards, also on
 * failure. */
clt_status clt_json_scan_run(clt_json_scan *scan);
/* Fails with the scan's code and "source:line:column: message". */
clt_status clt_json_scan_fail(const clt_json_scan *scan, size_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void clt_json_line_column(const uint32_t *lines, size_t line_count, size_t offset, int *line, int *column);

#endif
