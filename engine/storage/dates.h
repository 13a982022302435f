/* SPDX-License-Identifier: Apache-2.0
 *
 * Dates in the two forms that answers have, as seconds since 1970. */
#ifndef ENGINE_STORAGE_DATES_H
#define ENGINE_STORAGE_DATES_H

#include <stdbool.h>
#include <stdint.h>

/* "2026-11-22T11:01:10Z", with or without a fraction of the second; "+01:00" or "-0530" for "Z". False: the
 * text has another form. */
bool clt_date_iso(const char *text, int64_t *out);
/* "Sun, 22 Nov 2026 11:01:10 GMT", as in the header Date. */
bool clt_date_http(const char *text, int64_t *out);

#endif
