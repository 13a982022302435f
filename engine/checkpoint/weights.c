/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding weights from the path that a user gives: one file of safetensors or of PyTorch, several of them
 * with an index, or the folder that contains either. Everything else is refused, and the message says what
 * to do. Knows nothing of models. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint_internal.h"
#include "engine/checkpoint/weight_file.h"
#include "engine/files/file_kind.h"
#include "engine/files/fileio_error.h"
#include "engine/files/remote_files.h"

#define MAX_PARTS 10000
#define INDEX_MAX_BYTES 100000000u

static bool has_file(const char *folder, const char *name)
{
    CLT_FREED char *path = NULL;
    return clt_path_join(folder, name, &path) == CLT_OK && clt_is_regular(path);
}

/* Refuses a folder that has no readable weights, with a message for what it has instead. */
static clt_status refuse_folder(const char *path)
{
    static const char *const other[] = {"tf_model.h5", "flax_model.msgpack"};
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        if (has_file(path, other[i]))
            CLT_FAIL(CLT_ECHECKPOINT,
                     "weights: '%.400s' holds %s, which is not read, and no model.safetensors; save it as "
                     "safetensors: python -c \"from transformers import AutoModelForCausalLM as M; "
                     "M.from_pretrained('%s').save_pretrained('%s-safetensors')\"",
                     path, other[i], path, path);
    CLT_FAIL(CLT_ECHECKPOINT,
             "weights: the folder '%.400s' holds none of model.safetensors, pytorch_model.bin and their "
             ".index.json; give a folder that save_pretrained wrote, or a file of weights",
             path);
}

#define HEAD_BYTES 9 /* bytes that identify a safetensors file: the header's length, its first character */

static bool read_head(const char *path, unsigned char head[HEAD_BYTES])
{
    memset(head, 0, HEAD_BYTES);
    return clt_file_first(path, head, HEAD_BYTES) == HEAD_BYTES;
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
    if (clt_ends_with(path, ".bin") || clt_ends_with(path, ".pt") || clt_ends_with(path, ".pth"))
        CLT_FAIL(CLT_ECHECKPOINT, "weights: '%.400s' does not begin like a file that torch.save wrote", path);
    if (head[0] == '{')
        CLT_FAIL(CLT_ECHECKPOINT,
                 "weights: '%.400s' is a JSON file without weights; name its folder, if save_pretrained "
                 "wrote it, or a file of weights",
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
    if (clt_json_typeof(map) != CLT_JSON_OBJECT || !clt_json_first(map))
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

/* Says which of two forms is read, as a folder may hold the same weights as safetensors and pickled. */
static void say_choice(const char *path, const char *chosen, const char *other)
{
    if (has_file(path, other))
        CLT_INFO_ONCE("weights: '%.400s' holds %s and %s; %s is read", path, chosen, other, chosen);
}

static clt_status open_in_folder(const char *path, clt_safetensors **out)
{
    /* in order of preference: a safetensors file needs no pickle to be understood */
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json",
                                        "pytorch_model.bin", "pytorch_model.bin.index.json"};
    CLT_FREED char *inside = NULL;
    if (clt_checkpoint_named(path))
        return open_checkpoint(path, out);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (has_file(path, names[i])) {
            for (size_t j = i + 1; j < sizeof names / sizeof names[0]; j++)
                say_choice(path, names[i], names[j]);
            CLT_TRY(clt_path_join(path, names[i], &inside));
            return clt_weights_open(inside, out);
        }
    return refuse_folder(path);
}

clt_status clt_weights_open_file(const char *path, clt_safetensors **out)
{
    return clt_pytorch_looks(path) ? clt_pytorch_open(path, NULL, out) : clt_safetensors_open(path, out);
}

/* Opens FILE:ENTRY, an entry of a file of PyTorch. *found: the part before some colon is a file. */
static clt_status open_entry(const char *path, bool *found, clt_safetensors **out)
{
    *found = false;
    for (const char *colon = strchr(path, ':'); colon; colon = strchr(colon + 1, ':')) {
        CLT_SCOPED(clt_str) file = {0};
        clt_str_printf(&file, "%.*s", (int)(colon - path), path);
        CLT_TRY(clt_str_check(&file));
        if (!clt_is_regular(file.text))
            continue;
        *found = true;
        if (!clt_pytorch_looks(file.text))
            CLT_FAIL(CLT_ECHECKPOINT,
                     "weights: '%.400s' is not a file of PyTorch, so it has no entries to choose from; leave "
                     "'%.200s' out",
                     file.text, colon);
        return clt_pytorch_open(file.text, colon + 1, out);
    }
    return CLT_OK;
}

clt_status clt_weights_open(const char *path, clt_safetensors **out)
{
    struct stat info;
    bool found;
    int fd;
    *out = NULL;
    errno = ENOENT;
    if (!clt_file_stat(path, &info)) {
        int code = errno;
        CLT_TRY(open_entry(path, &found, out));
        if (found)
            return CLT_OK;
        if (clt_is_remote(path)) /* the message says what is missing, or which server does not answer */
            return clt_fail_prefix(clt_open_read(path, CLT_ECHECKPOINT, &fd, &info), "weights");
        return clt_fail_errno(CLT_ECHECKPOINT, code, "weights: opening '%.800s'", path);
    }
    if (S_ISDIR(info.st_mode))
        return open_in_folder(path, out);
    if (!S_ISREG(info.st_mode)) /* opening a pipe would block until somebody writes */
        CLT_FAIL(CLT_ECHECKPOINT,
                 "weights: '%.800s' is not a regular file; give a file of weights or a folder", path);
    CLT_TRY(clt_refuse_pointer_file(path, "the weights themselves", CLT_ECHECKPOINT));
    if (clt_ends_with(path, ".index.json"))
        return open_index(path, out);
    if (!clt_pytorch_looks(path))
        CLT_TRY(refuse_format(path));
    return clt_weights_open_file(path, out);
}
