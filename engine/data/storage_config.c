/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns the keys storage.* of a config into options for the client of object storage. */
#include "engine/data/storage_config.h"

#include <string.h>

#include "engine/storage/copies/copies.h"

void clt_storage_options(const clt_config *c, clt_s3_options *out)
{
    const char *sse = clt_config_string(c, "storage.sse");
    *out = (clt_s3_options){.endpoint = clt_config_string(c, "storage.endpoint"),
                            .region = clt_config_string(c, "storage.region"),
                            .sse = strcmp(sse, "none") == 0 ? "" : sse,
                            .kms_key = clt_config_string(c, "storage.kms_key"),
                            .allow_http = clt_config_string(c, "storage.allow_http")};
}

clt_status clt_storage_use(const clt_config *c)
{
    clt_copies_options options = {.folder = clt_config_string(c, "storage.cache"),
                                  .gigabytes = clt_config_float(c, "storage.cache_gb"),
                                  .fetch_all_ahead = clt_config_bool(c, "storage.ahead")};
    clt_storage_options(c, &options.s3);
    return clt_copies_use(&options);
}
