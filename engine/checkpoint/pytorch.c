/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens files that torch.save wrote, and finds the state dict in them. Their pickle is read as data:
 * functions that Python would call are named and never run. Knows nothing of models. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/checkpoint/pytorch_internal.h"
#include "engine/files/file_kind.h"

#define REFUSE(...) CLT_FAIL(CLT_ECHECKPOINT, __VA_ARGS__)
#define PICKLE_MAX ((uint64_t)256 << 20)
#define TAR_MAGIC_AT 257u
/* The first pickle of the older form: the number 0x1950a86a20f9469cfc6c. */
static const uint8_t old_magic[] = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c,
                                    0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};

static bool begins_with(const clt_mapping *map, size_t at, const void *bytes, size_t count)
{
    return map->size >= at + count && memcmp(map->data + at, bytes, count) == 0;
}

static bool is_zip(const clt_mapping *map)
{
    return begins_with(map, 0, "PK\3\4", 4);
}

static bool is_tar(const clt_mapping *map)
{
    return begins_with(map, TAR_MAGIC_AT, "ustar", 5);
}

bool clt_pytorch_looks(const char *path)
{
    uint8_t head[TAR_MAGIC_AT + 5];
    size_t got = 0;
    CLT_KEEP_ERROR();
    if (!clt_is_regular(path)) /* opening a pipe would block */
        return false;
    if (clt_file_read_start(path, head, sizeof head, CLT_ECHECKPOINT, &got) != CLT_OK)
        return false;
    const clt_mapping map = {.data = head, .size = got};
    /* a header of 640 bytes makes a safetensors file begin like a pickle */
    bool pickle = got >= 9 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5 && head[8] != '{';
    return pickle || is_zip(&map) || is_tar(&map);
}

/* --- the two forms --- */

static clt_status read_pickle(clt_pytorch *p, const uint8_t *bytes, uint64_t size, clt_pickle *out)
{
    if (size > PICKLE_MAX)
        size = PICKLE_MAX;
    return clt_pickle_read(bytes, (size_t)size, p->path, CLT_ECHECKPOINT, p->file->arena, out);
}

/* Finds the folder in the archive that holds data.pkl. */
static clt_status find_stem(clt_pytorch *p)
{
    for (size_t i = 0; i < p->zip.count; i++) {
        const char *name = p->zip.entries[i].name;
        if (clt_ends_with(name, "/constants.pkl") || strstr(name, "/code/"))
            REFUSE("%s: is a TorchScript archive, a program with its weights, which is not read; in Python, "
                   "save the state dict: torch.save(torch.jit.load(FILE).state_dict(), 'weights.pth')",
                   p->path);
        size_t length = clt_stem(name, "data.pkl");
        if (length == 0 || name[length - 1] != '/')
            continue;
        if (p->stem)
            REFUSE("%s: the archive has two pickles, '%.100s' and '%.100sdata.pkl'", p->path, name, p->stem);
        p->stem = clt_arena_printf(p->file->arena, "%.*s", (int)length, name);
        if (!p->stem)
            return CLT_ENOMEM;
    }
    if (!p->stem)
        REFUSE("%s: is a zip archive without data.pkl, so torch.save did not write it", p->path);
    return CLT_OK;
}

static const clt_zip_entry *find_beside(const clt_pytorch *p, const char *name)
{
    CLT_SCOPED(clt_str) path = {0};
    clt_str_printf(&path, "%s%s", p->stem, name);
    return path.failed ? NULL : clt_zip_find(&p->zip, path.text);
}

static clt_status read_zip(clt_pytorch *p)
{
    const clt_mapping *map = &p->file->mapping;
    CLT_TRY(clt_zip_open(map->data, map->size, p->path, CLT_ECHECKPOINT, &p->zip));
    CLT_TRY(find_stem(p));
    CLT_TRY(clt_alloc(&p->checked, p->zip.count, 1, "the entries of an archive"));
    const clt_zip_entry *order = find_beside(p, "byteorder"), *pickle = find_beside(p, "data.pkl");
    if (order)
        CLT_TRY(clt_zip_check(order, p->path, CLT_ECHECKPOINT));
    if (order && (order->size != 6 || memcmp(order->data, "little", 6) != 0))
        REFUSE("%s: its numbers are not little-endian; save it again on a little-endian machine", p->path);
    if (!pickle)
        return CLT_ENOMEM;
    CLT_TRY(clt_zip_check(pickle, p->path, CLT_ECHECKPOINT));
    return read_pickle(p, pickle->data, pickle->size, &p->pickle);
}

/* Four pickles in a row (magic number, version, facts of the machine, the object), the list of storages, and
 * the storages. */
static clt_status read_old(clt_pytorch *p)
{
    const clt_mapping *map = &p->file->mapping;
    const uint8_t *at = map->data, *end = at + map->size;
    clt_pickle part = {0};
    for (int i = 0; i < 5; i++) {
        CLT_TRY(read_pickle(p, at, (uint64_t)(end - at), &part));
        at += part.bytes;
        if (i == 2) {
            const clt_pickle_value *little = clt_pickle_get(part.root, "little_endian");
            if (little && little->kind == CLT_PICKLE_BOOL && !little->integer)
                REFUSE("%s: its numbers are not little-endian; save it again on a little-endian machine",
                       p->path);
        }
        if (i == 3)
            p->pickle = part;
    }
    return clt_pytorch_read_storages(p, part.root, at);
}

static clt_status read_any(clt_pytorch *p)
{
    const clt_mapping *map = &p->file->mapping;
    if (is_zip(map))
        return read_zip(p);
    if (is_tar(map))
        REFUSE(
            "%s: is a tar archive of PyTorch before 0.1.10, which is not read; load it with a PyTorch that "
            "does and save it again",
            p->path);
    if (!begins_with(map, 0, old_magic, sizeof old_magic))
        REFUSE("%s: is a pickle, but not one that torch.save wrote", p->path);
    return read_old(p);
}

/* --- what the pickle would call --- */

bool clt_pytorch_is_set(const clt_pickle_value *value)
{
    const char *function = value->kind == CLT_PICKLE_CALL ? clt_pickle_called(value) : NULL;
    return function && value->items[1]->kind == CLT_PICKLE_TUPLE &&
           (strcmp(function, "__builtin__ set") == 0 || strcmp(function, "builtins set") == 0);
}

/* True for calls of functions and classes that the reader understands, or that only hold a value. */
static bool is_known_call(const clt_pickle_value *call)
{
    static const char *const known[] = {"torch Size", "torch device", "torch._tensor _rebuild_from_type_v2",
                                        "torch._utils _rebuild_parameter",
                                        "torch._utils _rebuild_parameter_with_state"};
    const char *function = clt_pickle_called(call);
    size_t dims;
    for (size_t i = 0; function && i < sizeof known / sizeof known[0]; i++)
        if (strcmp(function, known[i]) == 0)
            return true;
    return clt_pytorch_is_tensor(call, &dims) || clt_pytorch_is_module(call) || clt_pytorch_is_set(call);
}

/* Writes "posix.system" for the global "posix system", safe for a terminal. */
static void add_symbol(clt_str *names, const char *function)
{
    char name[100];
    snprintf(name, sizeof name, "%s", function ? function : "the result of another call");
    char *blank = strchr(name, ' ');
    if (function && blank)
        *blank = '.';
    clt_text_sanitise(name);
    if (!names->text || !strstr(names->text, name))
        clt_str_printf(names, "%s%s", names->length ? ", " : "", name);
}

/* Warns of the functions that Python would have called. */
static void tell_calls(const clt_pytorch *p)
{
    CLT_SCOPED(clt_str) names = {0};
    for (const clt_pickle_value *call = p->pickle.calls; call && names.length < 300; call = call->next)
        if (!is_known_call(call))
            add_symbol(&names, clt_pickle_called(call));
    if (names.length > 0 && !names.failed)
        CLT_WARN("'%.300s' holds values of %s: nothing of that is run, and these values are not read",
                 p->path, names.text);
}

/* --- the state dict --- */

#define CHOICES_MAX 20

/* A dict with tensors, and the keys that lead to it, joined by ':'; "." is the outermost one. */
typedef struct choice {
    const clt_pickle_value *dict;
    const char *entry;
} choice;

/* Counts the tensors that are members of a dict itself. *vectors: how many are not single numbers. */
static size_t count_tensors(const clt_pickle_value *dict, size_t *vectors)
{
    size_t count = 0, dims;
    *vectors = 0;
    for (size_t i = 0; dict->kind == CLT_PICKLE_DICT && i < dict->count; i += 2)
        if (dict->items[i]->kind == CLT_PICKLE_TEXT && clt_pytorch_is_tensor(dict->items[i + 1], &dims)) {
            count++;
            *vectors += dims > 0;
        }
    return count;
}

static bool is_plain(const clt_pickle_value *text)
{
    return text->kind == CLT_PICKLE_TEXT && clt_text_plain(text->text) == text->length;
}

/* Replaces the members of `dict` that are modules by their state dicts. */
static clt_status open_members(clt_pytorch *p, const clt_pickle_value *dict)
{
    for (size_t i = 1; dict->kind == CLT_PICKLE_DICT && i < dict->count; i += 2)
        CLT_TRY(clt_pytorch_open_module(p, &dict->items[i]));
    return CLT_OK;
}

/* Adds the members of `dict` that are dicts with tensors. */
static clt_status add_members(clt_pytorch *p, const clt_pickle_value *dict, const char *entry,
                              choice choices[CHOICES_MAX], int *count)
{
    size_t vectors;
    CLT_TRY(open_members(p, dict));
    for (size_t i = 0; dict->kind == CLT_PICKLE_DICT && i < dict->count && *count < CHOICES_MAX; i += 2) {
        const clt_pickle_value *key = dict->items[i];
        if (!is_plain(key) || count_tensors(dict->items[i + 1], &vectors) == 0)
            continue;
        const char *name =
            clt_arena_printf(p->file->arena, "%s%s%.200s", entry, *entry ? ":" : "", key->text);
        if (!name)
            return CLT_ENOMEM;
        choices[(*count)++] = (choice){dict->items[i + 1], name};
    }
    return CLT_OK;
}

/* Lists the state dicts: the root, its members, and, if none of them is one, their members. */
static clt_status list_choices(clt_pytorch *p, choice choices[CHOICES_MAX], int *count)
{
    const clt_pickle_value *root = p->pickle.root;
    size_t vectors, own = count_tensors(root, &vectors);
    *count = 0;
    CLT_TRY(add_members(p, root, "", choices, count));
    /* beside a state dict there may be single numbers, such as a step */
    if (*count < CHOICES_MAX && (vectors > 0 || (own > 0 && *count == 0)))
        choices[(*count)++] = (choice){root, "."};
    for (size_t i = 0; *count == 0 && root->kind == CLT_PICKLE_DICT && i < root->count; i += 2)
        if (is_plain(root->items[i]))
            CLT_TRY(add_members(p, root->items[i + 1], root->items[i]->text, choices, count));
    return CLT_OK;
}

static clt_status refuse_root(const clt_pytorch *p)
{
    const clt_pickle_value *root = p->pickle.root;
    CLT_SCOPED(clt_str) name = {0};
    if (root->kind != CLT_PICKLE_CALL)
        REFUSE("%s: holds no dict with tensors, so no state dict", p->path);
    const char *function = clt_pickle_called(root);
    add_symbol(&name, function);
    REFUSE("%s: holds an object of %s, which is not run, and neither a state dict nor a module; in Python, "
           "save model.state_dict()",
           p->path, name.text ? name.text : "a class");
}

static clt_status refuse_choice(const clt_pytorch *p, const choice *choices, int count, const char *entry)
{
    CLT_SCOPED(clt_str) names = {0};
    for (int i = 0; i < count; i++)
        clt_str_printf(&names, "%s'%s'", i ? ", " : "", choices[i].entry);
    if (*entry)
        REFUSE("%s: has no entry '%.200s' with tensors; it has %.1000s", p->path, entry,
               count ? names.text : "no state dict");
    REFUSE("%s: has %d entries with tensors, %.1000s; name the one that is meant, as in FILE:%.200s", p->path,
           count, names.text ? names.text : "", choices[0].entry);
}

/* Follows the keys of an entry from the root. *out: NULL where there is no such member. */
static clt_status follow(clt_pytorch *p, const char *entry, const clt_pickle_value **out)
{
    char key[256];
    const clt_pickle_value *dict = p->pickle.root;
    if (strcmp(entry, ".") == 0)
        entry = "";
    while (dict && *entry) {
        CLT_TRY(open_members(p, dict));
        size_t length = strcspn(entry, ":");
        snprintf(key, sizeof key, "%.*s", (int)(length < sizeof key ? length : sizeof key - 1), entry);
        dict = clt_pickle_get(dict, key);
        entry += length + (entry[length] == ':');
    }
    *out = dict;
    return CLT_OK;
}

static clt_status find_dict(clt_pytorch *p, const char *entry, const clt_pickle_value **dict)
{
    choice choices[CHOICES_MAX];
    int count;
    size_t vectors;
    CLT_TRY(clt_pytorch_open_module(p, &p->pickle.root));
    CLT_TRY(list_choices(p, choices, &count));
    if (*entry) {
        CLT_TRY(follow(p, entry, dict));
        return *dict && count_tensors(*dict, &vectors) > 0 ? CLT_OK : refuse_choice(p, choices, count, entry);
    }
    if (count == 0)
        return refuse_root(p);
    if (count > 1)
        return refuse_choice(p, choices, count, entry);
    *dict = choices[0].dict;
    if (choices[0].dict != p->pickle.root)
        CLT_INFO("'%.300s': the state dict is its entry '%.200s'", p->path, choices[0].entry);
    return CLT_OK;
}

static clt_status add_tensors(clt_pytorch *p, const clt_pickle_value *dict)
{
    size_t vectors, dims;
    const char *twice;
    CLT_TRY(clt_weight_file_tables(p->file, (int64_t)count_tensors(dict, &vectors)));
    for (size_t i = 0; i < dict->count; i += 2) {
        const clt_pickle_value *name = dict->items[i], *value = dict->items[i + 1];
        if (name->kind != CLT_PICKLE_TEXT || !clt_pytorch_is_tensor(value, &dims))
            continue;
        if (!is_plain(name))
            REFUSE("%s: the name of tensor %zu is not plain text in UTF-8", p->path, i / 2);
        CLT_TRY(clt_pytorch_add_tensor(p, name->text, value));
    }
    clt_weight_file_sort(p->file, &twice);
    if (twice)
        REFUSE("%s: tensor \"%s\" appears twice", p->path, twice);
    return CLT_OK;
}

static clt_status read_file(clt_pytorch *p, const char *entry)
{
    const clt_pickle_value *dict = NULL;
    CLT_TRY(clt_map_open(p->path, CLT_ECHECKPOINT, &p->file->mapping));
    CLT_TRY(read_any(p));
    tell_calls(p);
    CLT_TRY(find_dict(p, entry, &dict));
    CLT_TRY(add_tensors(p, dict));
    return clt_map_check_one(&p->file->mapping);
}

clt_status clt_pytorch_open(const char *path, const char *entry, clt_safetensors **out)
{
    CLT_SCOPED(clt_safetensors) *file = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&file, 1, sizeof *file, "a file of PyTorch"));
    CLT_TRY(clt_arena_create(&file->arena));
    clt_pytorch p = {.path = path, .file = file};
    clt_status status = read_file(&p, entry ? entry : "");
    clt_zip_close(&p.zip);
    free(p.checked);
    free(p.storages);
    CLT_TRY(status);
    *out = CLT_TAKE(file);
    return CLT_OK;
}
