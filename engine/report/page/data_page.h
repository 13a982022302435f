/* SPDX-License-Identifier: Apache-2.0
 *
 * A page that shows samples of images and volumes as training sees them, with their classes or masks: what `cltrain
 * data show` writes. One file without references to others. */
#ifndef ENGINE_REPORT_PAGE_DATA_PAGE_H
#define ENGINE_REPORT_PAGE_DATA_PAGE_H

#include "engine/report/page/data_picture.h"

typedef struct clt_data_page {
    const char *title;
    const clt_source *train, *eval; /* eval may be NULL */
    uint64_t seed;
    bool shuffle;
    int samples; /* of the training data; of the evaluation data a third of it */
    double now;  /* seconds since 1970, 0: no date on the page */
    /* Which values of x are black and white, and the words that say why. Not known: bytes as they are, and of other
     * numbers the window of those of a few samples. */
    clt_picture_window window;
    const char *window_from;
} clt_data_page;

/* CLT_EUNSUPPORTED: there is no picture of x, see clt_picture_form_of. CLT_EDATA: a sample cannot be read. */
clt_status clt_data_page_write(const clt_data_page *page, clt_str *out);

#endif
