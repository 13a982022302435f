/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources made of two array files, inputs (field x) and targets (field y): the code that idx, npy and raw
 * share, which is all except the reading of headers. It must not know any header. */
#ifndef ENGINE_DATA_ARRAYS_SOURCE_PAIR_H
#define ENGINE_DATA_ARRAYS_SOURCE_PAIR_H

#include "engine/data/array_file.h"
#include "engine/data/data.h"

/* Reads the header of an opened file: sets header, element, big_endian and dtype, then calls
 * clt_array_file_fit. */
typedef clt_status (*clt_header_reader)(clt_array_file *file, const clt_config *config, bool is_target);

clt_status clt_pair_open(clt_source *source, const clt_config *config, clt_split split,
                         clt_header_reader reader);
/* Reads the keys for crops and flips (augment.h), for inputs that are images of bytes: (H,W), (1,H,W) or
 * (3,H,W). CLT_ECONFIG if the config sets them and the inputs are something else. */
clt_status clt_pair_augment(clt_source *source, const clt_config *config, clt_split split);
void clt_pair_close(clt_source *source);
clt_status clt_pair_read(const clt_source *source, int64_t index, clt_draw draw, void *const *to);
clt_status clt_pair_numbers(const clt_source *source, int64_t index, double *out);
int64_t clt_pair_count_valid(const clt_source *source, int64_t index, int field, int64_t ignore);
void clt_pair_locate(const clt_source *source, int64_t index, int field, clt_str *out);
void clt_pair_want(const clt_source *source, int64_t index);
clt_status clt_pair_fingerprint(const clt_source *source, clt_hash64_state *state);

/* An implementation of check_file for these formats. */
clt_status clt_pair_check_file(const char *path, clt_header_reader reader, clt_str *out);

/* Reads a shape from the config key `key`, a list (empty: a scalar). CLT_ECONFIG: a dimension is below 1,
 * there are too many dimensions, or the sample is too large. */
clt_status clt_source_config_shape(const clt_config *config, const char *key, clt_shape *shape);
/* The normalisation of the config, checked: finite, std not 0. */
clt_status clt_source_config_scale(clt_source *source, const clt_config *config);

/* --- config keys of these formats --- */

#define CLT_PAIR_KEYS                                                                                        \
    CLT_KEY_STRINGS("data.path", "[]", "file of the training inputs"),                                       \
        CLT_KEY_STRING("data.targets", "\"\"", "file of the training targets or labels"),                    \
        CLT_KEY_STRINGS("data.eval_path", "[]", "file of the evaluation inputs"),                            \
        CLT_KEY_STRING("data.eval_targets", "\"\"", "file of the evaluation targets or labels")
#define CLT_PAIR_EVAL_HINT "data.eval_path and data.eval_targets"
/* Checks that data.eval_path and data.eval_targets are set together. */
void clt_pair_check_rules(clt_config_rules *rules);
/* Checks that data.shape and data.target_shape leave room for the batch dimension. */
void clt_source_check_shape_rules(clt_config_rules *rules);

#endif
