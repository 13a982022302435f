/* SPDX-License-Identifier: Apache-2.0
 *
 * Text for HTML pages. Names, samples, config values and messages come from outside: whatever they hold, they
 * end up as text on the page and never as markup. */
#ifndef ENGINE_REPORT_HTML_H
#define ENGINE_REPORT_HTML_H

#include <stdint.h>

#include "engine/base/mem.h"

/* Appends text for an element or a quoted attribute: & < > " ' as references; bytes that are no UTF-8,
 * control characters (but tab and end of line) and what HTML forbids as U+FFFD; marks that turn the direction
 * of writing, which could make text look like other text, as U+FFFD too. NULL: nothing. */
void clt_html_text(clt_str *out, const char *text);
/* The same for at most `most` characters, with … where something was cut. */
void clt_html_text_cut(clt_str *out, const char *text, size_t most);

/* --- numbers for people; each appends --- */

void clt_html_number(clt_str *out, double value);     /* 4 digits: 2.302, 0.000612, 3.1e-07; - for NAN */
void clt_html_count(clt_str *out, double value);      /* 950, 49.7k, 124M */
void clt_html_bytes(clt_str *out, double bytes);      /* 1.5 GiB */
void clt_html_share(clt_str *out, double share);      /* 0.974: 97.4 % */
void clt_html_duration(clt_str *out, double seconds); /* 42 s, 3 min 05 s, 2 h 14 min, 3 d 04 h */
void clt_html_time(clt_str *out, double seconds_since_1970); /* 2026-11-23 06:28:12 UTC, - when unknown */
/* A place along an axis in percent, for style attributes: "12.34%". Not with a host program's decimal comma.
 */
void clt_html_percent(clt_str *out, double share);

#endif
