/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding weights from the path that a user gives: one safetensors file, several of them with an index, or
 * the folder that contains either. Everything else is refused, and the message says what to do. Knows
 * nothing of models. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint_internal.h"
#include "engine/files/file_kind.h"
#include "engine/files/fileio_error.h"

#define MAX_PARTS 10000
#define INDEX_MAX_BYTES 100000000u

static bool has_file(const char *folder, const char *name)
{
    CLT_FREED char *path = NULL;
    return clt_path_join(folder, name, &path) == CLT_OK && clt_is_regular(path);
}

#define SAVE_AS_SAFETENSORS                                                                                  \
    "save it as safetensors: python -c \"from transformers import AutoModelForCausalLM as M; "               \
    "M.from_pretrained('%s').save_pretrained('%s-safetensors')\""

/* Refuses a folder that has no readable weights, with a message for what it has instead. */
static clt_status refuse_folder(const char *path)
{
    static const char *const other[] = {"pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5",
                                        "flax_model.msgpack"};
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        if (has_file(path, other[i]))
            CLT_FAIL(CLT_ECHECKPOINT,
                     "weights: '%.400s' holds %s, which is not read, and no "
                     "model.safetensors; " SAVE_AS_SAFETENSORS,
                     path, other[i], path, path);
    CLT_FAIL(CLT_ECHECKPOINT,
             "weights: the folder '%.400s' holds neither model.safetensors nor model.safetensors.index.json; "
             "give a folder that save_pretrained wrote, or a safetensors file",
             path);
}

#define HEAD_BYTES 9 /* what a safetensors file begins with: length of the header, and its first character */

static bool read_head(const char *path, unsigned char head[HEAD_BYTES])
{
    FILE *file = fopen(path, "rb");
    memset(head, 0, HEAD_BYTES);
    size_t got = file ? fread(head, 1, HEAD_BYTES, file) : 0;
    if (file)
        fclose(file);
    return got == HEAD_BYTES;
}

bool clt_safetensors_looks(const char *path)
{
    unsigned char head[HEAD_BYTES];
    return read_head(path, head) && head[8] == '{';
}

/* Refuses other formats, the common ones by name; they are recognised by their first bytes. */
static clt_status refuse_format(const char *path)
{
    unsigned char head[HEAD_BYTES];
    if (read_head(path, head) && head[8] == '{')
        return CLT_OK;
    bool pickle = memcmp(head, "PK\3\4", 4) == 0 || (head[0] == 0x80 && head[1] >= 2 && head[1] <= 5);
    if (pickle || clt_ends_with(path, ".bin") || clt_ends_with(path, ".pt") || clt_ends_with(path, ".pth"))
        CLT_FAIL(CLT_ECHECKPOINT,
                 "weights: '%.400s' is in PyTorch's own format, which contains Python code and is not read; "
                 "in Python, write the state dict with safetensors.torch.save_file, or the model with "
                 "save_pretrained",
                 path);
    if (head[0] == '{')
        CLT_FAIL(CLT_ECHECKPOINT,
                 "weights: '%.400s' is a JSON file without weights; name its folder, if save_pretrained "
                 "wrote it, or a safetensors file",
                 path);
    if (memcmp(head, "GGUF", 4) == 0)
        CLT_FAIL(CLT_ECHECKPOINT, "weights: '%.400s' is a GGUF file, which is not read; give safetensors",
                 path);
    return CLT_OK;
}

/* Adds a file that the index names. The name must not contain a path, so that nothing outside the folder is
 * read. */
static clt_status add_part(clt_file_list *parts, const char *index_path, const char *name)
{
    const char *slash = strrchr(index_path, '/');
    CLT_SCOPED(clt_str) path = {0};
    if (!*name || strchr(name, '/') || strcmp(name, "..") == 0)
        CLT_FAIL(CLT_ECHECKPOINT, "reading '%s': \"%.200s\" is not the name of a file beside it", index_path,
                 name);
    clt_str_printf(&path, "%.*s%s", slash ? (int)(slash - index_path) + 1 : 0, index_path, name);
    CLT_TRY(clt_str_check(&path));
    for (size_t i = 0; i < parts->count; i++)
        if (strcmp(parts->name[i], path.text) == 0)
            return CLT_OK;
    if (parts->count == MAX_PARTS)
        CLT_FAIL(CLT_ECHECKPOINT, "reading '%s': more than %d files", index_path, MAX_PARTS);
    return clt_file_list_add(parts, CLT_TAKE(path.text));
}

/* Lists the files in the order in which the index first names them. */
static clt_status list_parts(const char *path, const clt_json *map, clt_file_list *parts)
{
    if (!map || clt_json_typeof(map) != CLT_JSON_OBJECT || !clt_json_first(map))
        CLT_FAIL(CLT_ECHECKPOINT, "reading '%s': it has no \"weight_map\" with tensors", path);
    for (const clt_json *entry = clt_json_first(map); entry; entry = clt_json_next(entry)) {
        if (clt_json_typeof(entry) != CLT_JSON_STRING)
            CLT_FAIL(CLT_ECHECKPOINT, "reading '%s': tensor \"%.200s\" has no file name", path,
                     clt_json_key(entry));
        CLT_TRY(add_part(parts, path, clt_json_string(entry)));
    }
    return CLT_OK;
}

/* Checks that the files hold exactly the tensors of the index; a file of another model may have got there by
 * mistake. */
static clt_status check_parts(const char *path, const clt_json *map, const clt_safetensors *file)
{
    for (const clt_json *entry = clt_json_first(map); entry; entry = clt_json_next(entry))
        if (!clt_safetensors_find(file, clt_json_key(entry)))
            CLT_FAIL(CLT_ECHECKPOINT, "reading '%s': none of its files holds tensor \"%.200s\"", path,
                     clt_json_key(entry));
    for (int i = 0; i < clt_safetensors_count(file); i++)
        if (!clt_json_get(map, clt_safetensors_at(file, i)->name))
            CLT_FAIL(CLT_ECHECKPOINT,
                     "reading '%s': its files hold tensor \"%.200s\", which it does not list; do they belong "
                     "together?",
                     path, clt_safetensors_at(file, i)->name);
    return CLT_OK;
}

static clt_status open_index(const char *path, clt_safetensors **out)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    CLT_SCOPED(clt_file_list) parts = {0};
    CLT_SCOPED(clt_safetensors) *file = NULL;
    CLT_FREED char *text = NULL;
    size_t size;
    CLT_TRY(clt_file_read(path, false, INDEX_MAX_BYTES, CLT_ECHECKPOINT, &text, &size));
    CLT_TRY(clt_json_parse(text, size, path, CLT_ECHECKPOINT, &doc));
    const clt_json *map = clt_json_get(clt_json_root(doc), "weight_map");
    CLT_TRY(list_parts(path, map, &parts));
    CLT_TRY(clt_safetensors_open_parts((const char *const *)parts.name, (int)parts.count, &file));
    CLT_TRY(check_parts(path, map, file));
    *out = CLT_TAKE(file);
    return CLT_OK;
}

/* Opens the model of the newest checkpoint of a run that verifies. */
static clt_status open_checkpoint(const char *path, clt_safetensors **out)
{
    CLT_SCOPED(clt_checkpoint) *saved = NULL;
    CLT_TRY(clt_checkpoint_open(path, &saved));
    *out = CLT_TAKE(saved->model);
    return CLT_OK;
}

static clt_status open_in_folder(const char *path, clt_safetensors **out)
{
    CLT_FREED char *inside = NULL;
    if (has_file(path, CLT_MANIFEST_FILE) || clt_checkpoint_exists(path))
        return open_checkpoint(path, out);
    bool one = has_file(path, "model.safetensors");
    if (!one && !has_file(path, "model.safetensors.index.json"))
        return refuse_folder(path);
    CLT_TRY(clt_path_join(path, one ? "model.safetensors" : "model.safetensors.index.json", &inside));
    return one ? clt_safetensors_open(inside, out) : open_index(inside, out);
}

clt_status clt_weights_open(const char *path, clt_safetensors **out)
{
    struct stat info;
    *out = NULL;
    if (stat(path, &info) != 0)
        return clt_fail_errno(CLT_ECHECKPOINT, errno, "weights: opening '%.800s'", path);
    if (S_ISDIR(info.st_mode))
        return open_in_folder(path, out);
    if (!S_ISREG(info.st_mode)) /* opening a pipe would block until somebody writes */
        CLT_FAIL(CLT_ECHECKPOINT,
                 "weights: '%.800s' is not a regular file; give a safetensors file or a folder", path);
    CLT_TRY(clt_refuse_pointer_file(path, "the weights themselves", CLT_ECHECKPOINT));
    if (clt_ends_with(path, ".index.json"))
        return open_index(path, out);
    CLT_TRY(refuse_format(path));
    return clt_safetensors_open(path, out);
}
