/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys storage.* of a config as options for the client of object storage. */
#ifndef ENGINE_DATA_STORAGE_CONFIG_H
#define ENGINE_DATA_STORAGE_CONFIG_H

#include "engine/config/config.h"
#include "engine/storage/s3.h"

/* The texts belong to the config. */
void clt_storage_options(const clt_config *config, clt_s3_options *out);
/* Makes paths "s3://..." readable as the config says. Call it before opening anything that the config names.
 * CLT_ENOMEM. */
clt_status clt_storage_use(const clt_config *config);

#endif
