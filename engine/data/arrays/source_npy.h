/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of .npy files, for other formats whose folders may hold such files. */
#ifndef ENGINE_DATA_ARRAYS_SOURCE_NPY_H
#define ENGINE_DATA_ARRAYS_SOURCE_NPY_H

#include "engine/config/config.h"
#include "engine/data/array_file.h"

/* A clt_header_reader (source_pair.h): the first dimension of the array counts samples. `config` is not
 * used. */
clt_status clt_npy_read_header(clt_array_file *file, const clt_config *config, bool is_target);

#endif
