/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts the files of a run folder into object storage: the texts, and checkpoints, whose manifest is written
 * last and deleted first. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/checkpoint/checkpoint_internal.h"
#include "engine/checkpoint/remote.h"
#include "engine/files/fileio.h"

#define LANES 4

/* The key of a file below the address. inner: "" or ends with '/'. */
static clt_status key_of(const clt_remote *r, const char *inner, const char *name, clt_str *out)
{
    clt_str_printf(out, "%s%s%s%s", r->address.prefix, r->address.prefix[0] ? "/" : "", inner, name);
    return clt_str_check(out);
}

static void inner_of(int64_t step, char *inner, size_t size)
{
    snprintf(inner, size, "checkpoints/step_%" PRId64 "/", step);
}

/* Uploads a file and adds its size to *bytes. */
static clt_status put_file(clt_remote *r, const char *folder, const char *inner, const char *name,
                           uint64_t *bytes)
{
    uint64_t size;
    CLT_SCOPED(clt_str) path = {0}, key = {0};
    clt_str_printf(&path, "%s/%s", folder, name);
    CLT_TRY(clt_str_check(&path));
    CLT_TRY(key_of(r, inner, name, &key));
    CLT_TRY(clt_s3_upload(r->s3, path.text, key.text, LANES, &size));
    *bytes += size;
    return CLT_OK;
}

clt_status clt_remote_put_texts(clt_remote *r, const char *folder, bool *wrote_metrics)
{
    for (int i = 0; i < CLT_REMOTE_TEXTS; i++) {
        CLT_SCOPED(clt_str) path = {0};
        uint64_t bytes = 0;
        clt_str_printf(&path, "%s/%s", folder, clt_remote_texts[i]);
        CLT_TRY(clt_str_check(&path));
        if (clt_file_exists(path.text))
            CLT_TRY(put_file(r, folder, "", clt_remote_texts[i], &bytes));
        *wrote_metrics = *wrote_metrics || bytes > 0; /* the first text is metrics.jsonl */
    }
    return CLT_OK;
}

clt_status clt_remote_withdraw(clt_remote *r, int64_t step, bool *refused)
{
    CLT_SCOPED(clt_str) key = {0};
    CLT_SCOPED(clt_s3_list) found = {.count = 0};
    char inner[64];
    *refused = false;
    inner_of(step, inner, sizeof inner);
    CLT_TRY(key_of(r, inner, CLT_MANIFEST_FILE, &key));
    CLT_TRY(clt_s3_list_all(r->s3, key.text, &found));
    return found.count ? clt_s3_delete(r->s3, key.text, refused) : CLT_OK;
}

clt_status clt_remote_put_step(clt_remote *r, int64_t step, const char *folder, const clt_file_list *names,
                               uint64_t *bytes)
{
    char inner[64];
    inner_of(step, inner, sizeof inner);
    *bytes = 0;
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->name[i], CLT_MANIFEST_FILE) != 0)
            CLT_TRY(put_file(r, folder, inner, names->name[i], bytes));
    return CLT_OK;
}

clt_status clt_remote_put_manifest(clt_remote *r, int64_t step, const char *folder, uint64_t *bytes)
{
    char inner[64];
    inner_of(step, inner, sizeof inner);
    return put_file(r, folder, inner, CLT_MANIFEST_FILE, bytes);
}
