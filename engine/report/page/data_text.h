/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of tokens as text on the page of samples. */
#ifndef ENGINE_REPORT_PAGE_DATA_TEXT_H
#define ENGINE_REPORT_PAGE_DATA_TEXT_H

#include "engine/data/data.h"

/* Appends the text of a sample, whose fields x and y are rows of the tokens of source->tokenizer: targets of
 * the training marked, a line between texts that share a row, and the number of tokens that pad it. */
clt_status clt_data_text_put(const clt_source *source, void *const *data, clt_str *out);

#endif
