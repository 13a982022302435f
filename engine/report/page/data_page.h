/* SPDX-License-Identifier: Apache-2.0
 *
 * The page that `cltrain data show` writes: samples as training sees them, images and volumes with their
 * classes or masks, text with its trained part marked. It is one file that refers to no other. */
#ifndef ENGINE_REPORT_PAGE_DATA_PAGE_H
#define ENGINE_REPORT_PAGE_DATA_PAGE_H

#include "engine/report/page/data_picture.h"

typedef struct clt_data_page {
    const char *title;
    const clt_source *train, *eval; /* eval may be NULL */
    uint64_t seed;
    bool shuffle;
    int samples; /* number of training samples; evaluation samples are a third as many */
    double now;  /* seconds since 1970, 0: no date on the page */
    /* window: the values of x that become black and white; window_from: words that say where they come from.
     * If the window is not known, bytes are shown as they are, and other numbers with a window that is
     * computed from a few samples. */
    clt_picture_window window;
    const char *window_from;
} clt_data_page;

/* CLT_EUNSUPPORTED: x cannot be shown as a picture (clt_picture_form_of). CLT_EDATA: a sample cannot
 * be read. */
clt_status clt_data_page_write(const clt_data_page *page, clt_str *out);

#endif
