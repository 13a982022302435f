/* SPDX-License-Identifier: Apache-2.0
 *
 * A page that shows samples of images as training sees them, with their classes: what `cltrain data show`
 * writes. One file without references to others. */
#ifndef ENGINE_REPORT_DATA_PAGE_H
#define ENGINE_REPORT_DATA_PAGE_H

#include "engine/data/data.h"

typedef struct clt_data_page {
    const char *title;
    const clt_source *train, *eval; /* eval may be NULL */
    uint64_t seed;
    bool shuffle;
    int samples; /* of the training data; of the evaluation data a third of it */
    double now;  /* seconds since 1970, 0: no date on the page */
} clt_data_page;

/* CLT_EUNSUPPORTED: x is no image of bytes, (3,H,W), (1,H,W) or (H,W). CLT_EDATA: a sample cannot be read. */
clt_status clt_data_page_write(const clt_data_page *page, clt_str *out);

#endif
