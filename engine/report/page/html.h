/* SPDX-License-Identifier: Apache-2.0
 *
 * Text for HTML pages. Names, samples, config values and messages come from outside. Whatever they contain,
 * it appears on the page as text and never as markup. */
#ifndef ENGINE_REPORT_PAGE_HTML_H
#define ENGINE_REPORT_PAGE_HTML_H

#include <stdint.h>

#include "engine/base/mem.h"

/* Appends text for an element or a quoted attribute: & < > " ' become references. Invalid UTF-8, control
 * characters (except tab and newline), characters that HTML forbids, and direction marks, which could make
 * text look like other text, become U+FFFD. NULL: appends nothing. */
void clt_html_text(clt_str *out, const char *text);
/* Like clt_html_text, for the first `most` characters only; a text that is longer ends with "…". */
void clt_html_text_cut(clt_str *out, const char *text, size_t most);
/* The first `most` characters of a text between two pieces of markup. */
void clt_html_in(clt_str *out, const char *before, const char *text, size_t most, const char *after);

/* --- numbers in readable form; each function appends --- */

void clt_html_number(clt_str *out, double value);     /* 4 digits: 2.302, 0.000612, 3.1e-07; - for NAN */
void clt_html_count(clt_str *out, double value);      /* 950, 49.7k, 124M */
void clt_html_bytes(clt_str *out, double bytes);      /* 1.5 GiB */
void clt_html_share(clt_str *out, double share);      /* 97.4 % for 0.974 */
void clt_html_duration(clt_str *out, double seconds); /* 42 s, 3 min 05 s, 2 h 14 min, 3 d 04 h */
void clt_html_time(clt_str *out, double seconds_since_1970); /* 2026-11-23 06:28:12 UTC, - when unknown */
/* A fraction in percent for style attributes: "12.34%". The decimal separator is a point in any locale. */
void clt_html_percent(clt_str *out, double share);

#endif
