/* SPDX-License-Identifier: Apache-2.0
 *
 * A source of random samples with the fields, shapes and value ranges of a config's data, for benchmarks. The
 * data files are read only for their shapes; text needs no file. */
#ifndef ENGINE_DATA_OPEN_SYNTHETIC_LIKE_H
#define ENGINE_DATA_OPEN_SYNTHETIC_LIKE_H

#include "engine/data/data.h"

/* True if the config alone defines the fields, as for text with a known vocabulary, or if model.classes is
 * set. */
bool clt_source_like_needs_no_files(const clt_config *config);
clt_status clt_source_open_like(const clt_config *config, clt_source **out);

#endif
