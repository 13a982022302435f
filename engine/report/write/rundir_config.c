/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the config of a resumed run with config.resolved.json, and updates the file. */
#include "engine/report/write/rundir_config.h"

#include <stdlib.h>
#include <string.h>

#include "engine/files/fileio.h"

static clt_status read_resolved(const char *folder, char **path, char **text, size_t *size)
{
    *text = NULL;
    CLT_TRY(clt_path_join(folder, CLT_RESOLVED_CONFIG_FILE, path));
    clt_status status = clt_file_read(*path, false, 0, CLT_ECONFIG, text, size);
    if (status != CLT_OK) {
        free(*path);
        *path = NULL;
    }
    return status;
}

clt_status clt_resolved_config_check(const char *folder, const clt_config *config)
{
    char *path, *text;
    size_t size;
    CLT_TRY(read_resolved(folder, &path, &text, &size));
    clt_status status = clt_config_check_fixed(text, config, folder);
    free(path);
    free(text);
    return status;
}

/* Writes `text` to a new config.resolved.N.json. Not if the newest of these files is equal: a crash may have
 * come between this write and the new config's. */
static clt_status keep_earlier(const char *folder, const char *text, size_t size)
{
    char *path = NULL, *kept = NULL;
    size_t kept_size = 0;
    clt_status status = CLT_OK;
    for (int i = 1; status == CLT_OK; i++) {
        clt_str name = {0};
        free(path);
        path = NULL;
        clt_str_printf(&name, "config.resolved.%d.json", i);
        status = clt_str_check(&name);
        if (status == CLT_OK)
            status = clt_path_join(folder, name.text, &path);
        clt_str_free(&name);
        if (status != CLT_OK || !clt_file_exists(path))
            break;
        free(kept);
        kept = NULL;
        status = clt_file_read(path, false, 0, CLT_ESTORAGE, &kept, &kept_size);
    }
    bool same = kept && kept_size == size && memcmp(kept, text, size) == 0;
    if (status == CLT_OK && !same)
        status = clt_own_file_write(path, text, size);
    free(path);
    free(kept);
    return status;
}

clt_status clt_resolved_config_update(const char *folder, const clt_config *config)
{
    char *path, *text;
    size_t size;
    clt_str diff = {0}, now = {0};
    CLT_TRY(read_resolved(folder, &path, &text, &size));
    clt_status status = clt_config_diff(text, config, CLT_KEYS_LENGTH | CLT_KEYS_DATA, &diff);
    if (status == CLT_OK && diff.length) {
        status = clt_config_print(config, true, &now);
        if (status == CLT_OK)
            status = keep_earlier(folder, text, size);
        if (status == CLT_OK)
            status = clt_own_file_write(path, now.text, now.length);
    }
    clt_str_free(&diff);
    clt_str_free(&now);
    free(path);
    free(text);
    return status;
}
