/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the config of a resumed run with config.resolved.json, and updates the file. */
#include "engine/report/write/rundir_config.h"

#include <stdio.h>
#include <string.h>

#include "engine/files/fileio.h"

/* Sets *path and *text, which the caller frees, after an error, too. */
static clt_status read_resolved(const char *folder, char **path, char **text, size_t *size)
{
    CLT_TRY(clt_path_join(folder, CLT_RESOLVED_CONFIG_FILE, path));
    return clt_file_read(*path, false, 0, CLT_ECONFIG, text, size);
}

clt_status clt_resolved_config_check(const char *folder, const clt_config *config)
{
    CLT_FREED char *path = NULL, *text = NULL;
    size_t size;
    CLT_TRY(read_resolved(folder, &path, &text, &size));
    return clt_config_check_fixed(text, config, folder);
}

/* Writes `text` to a new config.resolved.N.json. Does nothing if the newest of these files is equal: a crash
 * may have come after this write and before the new config was written. */
static clt_status keep_earlier(const char *folder, const char *text, size_t size)
{
    CLT_FREED char *kept = NULL;
    size_t kept_size = 0;
    for (int i = 1;; i++) {
        CLT_FREED char *path = NULL;
        char name[48];
        (void)snprintf(name, sizeof name, "config.resolved.%d.json", i);
        CLT_TRY(clt_path_join(folder, name, &path));
        if (!clt_file_exists(path)) {
            bool same = kept && kept_size == size && memcmp(kept, text, size) == 0;
            return same ? CLT_OK : clt_own_file_write(path, text, size);
        }
        free(CLT_TAKE(kept));
        CLT_TRY(clt_file_read(path, false, 0, CLT_ESTORAGE, &kept, &kept_size));
    }
}

clt_status clt_resolved_config_update(const char *folder, const clt_config *config)
{
    CLT_FREED char *path = NULL, *text = NULL;
    size_t size;
    const unsigned kept = CLT_KEYS_LENGTH | CLT_KEYS_DATA | CLT_KEYS_RATE; /* the earlier values stay */
    CLT_SCOPED(clt_str) diff = {0}, kept_diff = {0}, now = {0};
    CLT_TRY(read_resolved(folder, &path, &text, &size));
    CLT_TRY(clt_config_diff(text, config, kept | CLT_KEYS_FREE, &diff));
    if (!diff.length)
        return CLT_OK;
    CLT_TRY(clt_config_diff(text, config, kept, &kept_diff));
    CLT_TRY(clt_config_print(config, true, &now));
    if (kept_diff.length)
        CLT_TRY(keep_earlier(folder, text, size));
    return clt_own_file_write(path, now.text, now.length);
}
