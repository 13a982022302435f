/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of volumes for `data verify`: every file is read to the end, and every bad one is reported with its
 * reason: a damaged header, a truncated file, voxels that are not finite, or a mask that is missing, differs
 * in size from its image, or has values beyond the classes. clt_source_type declares the functions. */
#ifndef ENGINE_DATA_VOLUMES_VOLUME_CHECK_H
#define ENGINE_DATA_VOLUMES_VOLUME_CHECK_H

#include "engine/data/data.h"

clt_status clt_volumes_check_file(const char *path, const char *tokenizer, clt_str *out);
clt_status clt_volumes_check_config(const clt_config *config, clt_file_tell tell, void *context);
clt_status clt_volumes_check_folder(const char *folder, clt_file_tell tell, void *context, bool *mine);

#endif
