/* SPDX-License-Identifier: Apache-2.0
 *
 * The manifest of a checkpoint (names, sizes and hashes of its files) and the names of step folders. A
 * manifest is accepted only if it is, byte for byte, what this file would write for the same content. */
#include "engine/checkpoint/checkpoint_internal.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/files/crc64.h"
#include "engine/files/fileio_error.h"
#include "engine/files/remote_files.h"
#include "engine/json/json_seal.h"

#define FORMAT_NAME "cltrain-checkpoint"
#define SEAL "manifest_xxh64"

/* --- manifest --- */

/* Version 1, which is only read, has another hash. */
static const char *sum_key(int version)
{
    return version == 1 ? "xxh64" : "crc64_xz";
}

uint64_t clt_manifest_sum(int version, const void *data, size_t size)
{
    return version == 1 ? clt_hash64(data, size) : clt_crc64(data, size);
}

clt_status clt_manifest_print(const clt_manifest *manifest, clt_str *out)
{
    char hash[CLT_HASH64_TEXT];
    size_t from = out->length;
    clt_json_writer w = clt_json_writer_make(out, 2);
    clt_jw_object(&w);
    clt_jw_kstring(&w, "format", FORMAT_NAME);
    clt_jw_kint(&w, "format_version", manifest->version);
    clt_jw_kint(&w, "step", manifest->step);
    clt_jw_kstring(&w, "cltrain_version", CLT_VERSION);
    clt_jw_kstring(&w, "config_xxh64", clt_hash64_text(manifest->config_digest, hash));
    clt_jw_karray(&w, "files");
    for (int i = 0; i < manifest->n_files; i++) {
        clt_jw_object(&w);
        clt_jw_kstring(&w, "name", manifest->files[i].name);
        clt_jw_kint(&w, "bytes", (int64_t)manifest->files[i].bytes);
        clt_jw_kstring(&w, sum_key(manifest->version), clt_hash64_text(manifest->files[i].sum, hash));
        clt_jw_end_object(&w);
    }
    clt_jw_end_array(&w);
    return clt_json_seal(out, from, SEAL);
}

static bool read_hash(const clt_json *object, const char *key, uint64_t *out)
{
    const char *text = clt_json_string(clt_json_get(object, key));
    if (strlen(text) != CLT_HASH64_TEXT - 1 || strspn(text, "0123456789abcdef") != CLT_HASH64_TEXT - 1)
        return false;
    *out = strtoull(text, NULL, 16);
    return true;
}

static clt_status read_file_entry(const char *path, int version, const clt_json *value,
                                  clt_manifest_file *file)
{
    int64_t bytes = -1;
    /* a name must not contain a path: nothing outside the checkpoint's own folder is ever read */
    if (!clt_json_copy_string(clt_json_get(value, "name"), file->name, sizeof file->name) ||
        strchr(file->name, '/') || !clt_json_int_within(clt_json_get(value, "bytes"), 0, INT64_MAX, &bytes) ||
        !read_hash(value, sum_key(version), &file->sum))
        CLT_FAIL(CLT_ECHECKPOINT, "%s: an entry of \"files\" needs a plain \"name\", \"bytes\" and \"%s\"",
                 path, sum_key(version));
    file->bytes = (uint64_t)bytes;
    return CLT_OK;
}

static clt_status read_members(const char *path, const clt_json *root, clt_manifest *manifest)
{
    if (!clt_json_is(clt_json_get(root, "format"), FORMAT_NAME))
        CLT_FAIL(CLT_ECHECKPOINT, "%s: is not a cltrain manifest", path);
    int64_t version = 0;
    if (!clt_json_int_within(clt_json_get(root, "format_version"), 1, INT64_MAX, &version))
        CLT_FAIL(CLT_ECHECKPOINT, "%s: has no format version", path);
    if (version > CLT_MANIFEST_VERSION)
        CLT_FAIL(CLT_ECHECKPOINT,
                 "%s: was written in format %" PRId64 ", this cltrain (" CLT_VERSION ") reads up to %d; "
                 "use a newer cltrain",
                 path, version, CLT_MANIFEST_VERSION);
    manifest->version = (int)version;
    const clt_json *files = clt_json_get(root, "files");
    if (!clt_json_int_within(clt_json_get(root, "step"), 0, INT64_MAX, &manifest->step) ||
        !read_hash(root, "config_xxh64", &manifest->config_digest) ||
        clt_json_typeof(files) != CLT_JSON_ARRAY || clt_json_count(files) > CLT_MANIFEST_MAX_FILES)
        CLT_FAIL(CLT_ECHECKPOINT, "%s: \"step\", \"config_xxh64\" or \"files\" is missing or wrong", path);
    for (const clt_json *value = clt_json_first(files); value; value = clt_json_next(value))
        CLT_TRY(read_file_entry(path, manifest->version, value, &manifest->files[manifest->n_files++]));
    if (!clt_manifest_find(manifest, CLT_MODEL_FILE) || !clt_manifest_find(manifest, CLT_STATE_FILE))
        CLT_FAIL(CLT_ECHECKPOINT, "%s: does not list " CLT_MODEL_FILE " and " CLT_STATE_FILE, path);
    return CLT_OK;
}

clt_status clt_manifest_parse(const char *path, const char *text, size_t length, clt_manifest *manifest,
                              clt_json_doc **doc)
{
    CLT_SCOPED(clt_json_doc) *parsed = NULL;
    memset(manifest, 0, sizeof *manifest);
    if (!clt_json_sealed(text, length, SEAL))
        CLT_FAIL(CLT_ECHECKPOINT, "%s: does not match its own hash; it was damaged or edited", path);
    CLT_TRY(clt_json_parse(text, length, path, CLT_ECHECKPOINT, &parsed));
    CLT_TRY(read_members(path, clt_json_root(parsed), manifest));
    if (doc)
        *doc = CLT_TAKE(parsed);
    return CLT_OK;
}

clt_status clt_manifest_read(const char *folder, clt_manifest *manifest, clt_json_doc **doc)
{
    CLT_FREED char *path = NULL, *text = NULL;
    size_t length = 0;
    CLT_TRY(clt_path_join(folder, CLT_MANIFEST_FILE, &path));
    CLT_TRY(clt_remote_listed(path));
    if (!clt_file_exists(path))
        CLT_FAIL(CLT_ECHECKPOINT, "%s: has no " CLT_MANIFEST_FILE ", so it is not a complete checkpoint",
                 folder);
    CLT_TRY(clt_file_read(path, false, CLT_MANIFEST_MAX_BYTES, CLT_ECHECKPOINT, &text, &length));
    return clt_manifest_parse(path, text, length, manifest, doc);
}

const clt_manifest_file *clt_manifest_find(const clt_manifest *manifest, const char *name)
{
    for (int i = 0; i < manifest->n_files; i++)
        if (strcmp(manifest->files[i].name, name) == 0)
            return &manifest->files[i];
    return NULL;
}

/* --- step folders --- */

bool clt_step_parse(const char *name, clt_step_kind kind, int64_t *step)
{
    if (strncmp(name, "step_", 5) != 0 || strlen(name) >= sizeof((clt_step_entry *)0)->name)
        return false;
    const char *digits = name + 5;
    size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > 18 || (n > 1 && digits[0] == '0'))
        return false;
    *step = strtoll(digits, NULL, 10);
    const char *rest = digits + n;
    if (kind == CLT_STEP_COMPLETE)
        return rest[0] == '\0';
    return strncmp(rest, ".tmp-", 5) == 0 || strncmp(rest, ".old-", 5) == 0;
}

static int compare_steps(const void *a, const void *b)
{
    const clt_step_entry *x = a, *y = b;
    return x->step < y->step ? -1 : x->step > y->step;
}

/* Adds a folder's entry to the list, if its name is a step's. */
static clt_status add_step(const char *name, clt_step_kind kind, clt_step_list *out)
{
    int64_t step = 0;
    if (!clt_step_parse(name, kind, &step))
        return CLT_OK;
    CLT_TRY(clt_grow(&out->at, &out->capacity, out->count + 1, sizeof *out->at, "a list of checkpoints"));
    out->at[out->count].step = step;
    (void)snprintf(out->at[out->count].name, sizeof out->at[0].name, "%s", name);
    out->count++;
    return CLT_OK;
}

static clt_status list_remote(const char *folder, clt_step_kind kind, clt_step_list *out)
{
    CLT_SCOPED(clt_file_list) names = {0};
    CLT_TRY(clt_folder_names(folder, &names));
    for (size_t i = 0; i < names.count; i++)
        CLT_TRY(add_step(names.name[i], kind, out));
    return CLT_OK;
}

static clt_status list_local(const char *folder, clt_step_kind kind, clt_step_list *out)
{
    DIR *dir = opendir(folder);
    if (!dir) {
        if (errno == ENOENT)
            return CLT_OK;
        return clt_fail_errno(CLT_ESTORAGE, errno, "listing the folder '%s'", folder);
    }
    clt_status status = CLT_OK;
    while (status == CLT_OK) {
        errno = 0;
        const struct dirent *item = readdir(dir);
        if (!item) {
            if (errno != 0) /* fail, because an incomplete list could lack the newest checkpoint */
                status = clt_fail_errno(CLT_ESTORAGE, errno, "listing the folder '%s'", folder);
            break;
        }
        status = add_step(item->d_name, kind, out);
    }
    closedir(dir);
    return status;
}

clt_status clt_steps_list(const char *folder, clt_step_kind kind, clt_step_list *out)
{
    clt_status status =
        clt_is_remote(folder) ? list_remote(folder, kind, out) : list_local(folder, kind, out);
    if (out->count > 1)
        qsort(out->at, out->count, sizeof *out->at, compare_steps);
    return status;
}

void clt_steps_free(clt_step_list *list)
{
    free(list->at);
    *list = (clt_step_list){0};
}
