/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the format of a file of samples to predict from its name and its first bytes. */
#include <stdio.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/data/data.h"
#include "engine/data/images/image_source.h"
#include "engine/data/open/rows.h"
#include "engine/data/pixels/image_folder.h"
#include "engine/files/fileio.h"

const clt_source_type *clt_rows_type(const char *name)
{
    int n;
    const clt_source_type *const *types = clt_source_types(&n);
    for (int i = 0; i < n; i++)
        if (types[i]->input_ends && strcmp(types[i]->format->name, name) == 0)
            return types[i];
    return NULL;
}

const char *clt_rows_types(const char *between, const char *last, char *buffer, size_t size)
{
    int n, left = 0;
    size_t at = 0;
    const clt_source_type *const *types = clt_source_types(&n);
    for (int i = 0; i < n; i++)
        left += types[i]->input_ends != NULL;
    buffer[0] = '\0';
    for (int i = 0; i < n && at < size; i++)
        if (types[i]->input_ends && left-- > 0)
            at += (size_t)snprintf(buffer + at, size - at, "%s%s", types[i]->format->name,
                                   left > 1    ? between
                                   : left == 1 ? last
                                               : "");
    return buffer;
}

static bool has_name_of(const char *path, const clt_source_type *type)
{
    for (const char *const *end = type->input_ends; end && *end; end++)
        if (clt_ends_with(path, *end))
            return true;
    return false;
}

/* The format to which the file's name belongs; if several have such names, `own` has precedence. NULL:
 * none. */
static const clt_source_type *named_type(const char *path, const clt_source_type *own)
{
    int n;
    const clt_source_type *const *types = clt_source_types(&n);
    if (own && has_name_of(path, own))
        return own;
    for (int i = 0; i < n; i++)
        if (has_name_of(path, types[i]))
            return types[i];
    return NULL;
}

bool clt_rows_is_packed_table(const char *path, const clt_source_type *own)
{
    char plain[1024];
    size_t length = strlen(path);
    if (!clt_ends_with(path, ".gz") || length >= sizeof plain)
        return false;
    snprintf(plain, sizeof plain, "%.*s", (int)(length - 3), path);
    return has_name_of(plain, own);
}

/* The format of a folder: the run's own, unless the folder holds images and the run was trained on something
 * else. */
static const clt_source_type *folder_type(const char *path, const clt_source_type *own)
{
    const clt_source_type *images = clt_rows_type("images");
    bool photos = own != images && !clt_is_cifar_folder(path) && clt_folder_has_images(path);
    return photos ? images : own->input_like_run ? own : NULL;
}

static clt_status read_beginning(const char *path, unsigned char first[CLT_INPUT_BYTES], size_t *n)
{
    FILE *file = clt_is_directory(path) ? NULL : clt_file_open(path, CLT_EDATA);
    *n = file ? fread(first, 1, CLT_INPUT_BYTES, file) : 0;
    if (file)
        (void)fclose(file);
    return file || clt_is_directory(path) ? CLT_OK : CLT_EDATA;
}

clt_status clt_rows_guess_type(const char *path, const clt_source_type *own, const char *option,
                               const clt_source_type **type)
{
    unsigned char first[CLT_INPUT_BYTES];
    char names[128];
    int count;
    const clt_source_type *const *types = clt_source_types(&count);
    size_t n = 0;
    CLT_TRY(read_beginning(path, first, &n));
    *type = named_type(path, own);
    if (own && own->input_lines && clt_rows_is_packed_table(path, own)) {
        *type = own;
        return CLT_OK;
    }
    if (!*type && own && clt_is_directory(path))
        *type = folder_type(path, own);
    /* a format whose names end in .gz, such as .nii.gz, unpacks the file itself */
    if (*type && clt_ends_with(path, ".gz") && clt_is_gzip(first, n))
        return CLT_OK;
    clt_likeness least = *type && (*type)->input_shapeless ? CLT_SURE : CLT_LIKE;
    for (int i = 0; i < count; i++)
        if (types[i]->input_likeness && types[i]->input_likeness(first, n) >= least) {
            *type = types[i];
            break;
        }
    if (!*type)
        CLT_TRY(clt_image_refuse_other_file(path));
    if (!*type)
        CLT_FAIL(CLT_EUSAGE, "opening '%s': neither its name nor its content says what it is; give %s%s",
                 path, option, clt_rows_types(", ", " or ", names, sizeof names));
    return CLT_OK;
}
