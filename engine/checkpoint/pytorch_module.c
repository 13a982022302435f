/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole modules of PyTorch (torch.save(model)): objects whose attributes hold parameters, buffers and
 * further modules. The state dict is made of these attributes, as torch.nn.Module.state_dict makes it; the
 * class does not matter. Source of the attributes: torch/nn/modules/module.py. */
#include "engine/checkpoint/pytorch_internal.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"

#define REFUSE(...) CLT_FAIL(CLT_ECHECKPOINT, __VA_ARGS__)
#define DEPTH_MAX 100
#define NAME_MAX_BYTES 500u
#define ATTRIBUTES_MAX 1000u /* an object with more of them is not taken for a module */
/* The limit on the work for all modules of a file. It is needed because a shared module has its tensors
 * under each of its names. */
#define MEMBER_COST 64u
#define COST_MAX ((uint64_t)1 << 26)

/* A module, with the modules that contain it. */
typedef struct place {
    const struct place *above; /* NULL: this is the outermost one */
    const clt_pickle_value *module;
    const char *prefix; /* prefix for names of its members: "" or its own name with a '.' */
    int depth;
} place;

/* The state dict that is being made. */
typedef struct gathering {
    clt_pytorch *p;
    clt_pickle_value **items; /* key, value, key, value, ... */
    size_t count, capacity;
} gathering;

bool clt_pytorch_is_module(const clt_pickle_value *value)
{
    const clt_pickle_value *state = value->kind == CLT_PICKLE_CALL ? value->state : NULL;
    return state && state->count <= 2 * (size_t)ATTRIBUTES_MAX && clt_pickle_get(state, "_parameters") &&
           clt_pickle_get(state, "_buffers") && clt_pickle_get(state, "_modules");
}

/* Names a module for a message. */
static const char *shown(const clt_pytorch *p, const place *at)
{
    const char *text = at->above ? clt_arena_printf(p->file->arena, "module \"%.*s\"",
                                                    (int)strlen(at->prefix) - 1, at->prefix)
                                 : "the outermost module";
    return text ? text : "a module";
}

static clt_status spend(clt_pytorch *p, uint64_t cost)
{
    p->spent += cost;
    if (p->spent > COST_MAX)
        REFUSE("%s: its modules hold each other so often that their state dict would have more than %llu "
               "tensors, which is not a model",
               p->path, (unsigned long long)(COST_MAX / MEMBER_COST));
    return CLT_OK;
}

/* Gets an attribute of a module, which must be a dict. */
static clt_status get_members(const clt_pytorch *p, const place *at, const char *attribute,
                              const clt_pickle_value **out)
{
    *out = clt_pickle_get(at->module->state, attribute);
    if ((*out)->kind != CLT_PICKLE_DICT)
        REFUSE("%s: %s of %s is not a dict", p->path, attribute, shown(p, at));
    return CLT_OK;
}

/* Makes the name of a member of `at`, with `end` after it. */
static clt_status make_name(clt_pytorch *p, const place *at, const clt_pickle_value *key, const char *end,
                            const char **out)
{
    if (key->kind != CLT_PICKLE_TEXT || clt_text_plain(key->text) != key->length)
        REFUSE("%s: %s has a member whose name is not plain text in UTF-8", p->path, shown(p, at));
    size_t length = strlen(at->prefix) + key->length;
    if (length > NAME_MAX_BYTES)
        REFUSE("%s: %s has a member whose name has %zu bytes with all dots; %u are read", p->path,
               shown(p, at), length, NAME_MAX_BYTES);
    CLT_TRY(spend(p, MEMBER_COST + length));
    *out = clt_arena_printf(p->file->arena, "%s%s%s", at->prefix, key->text, end);
    return *out ? CLT_OK : CLT_ENOMEM;
}

static clt_status add_tensor(gathering *g, const place *at, const char *attribute,
                             const clt_pickle_value *key, clt_pickle_value *tensor)
{
    const char *text;
    size_t dims;
    CLT_TRY(make_name(g->p, at, key, "", &text));
    if (!clt_pytorch_is_tensor(tensor, &dims))
        REFUSE("%s: \"%s\" in %s of a module is not a dense tensor", g->p->path, text, attribute);
    CLT_TRY(clt_grow(&g->items, &g->capacity, g->count + 2, sizeof *g->items, "the tensors of a module"));
    clt_pickle_value *name = clt_arena_alloc(g->p->file->arena, sizeof *name);
    if (!name)
        return CLT_ENOMEM;
    *name = (clt_pickle_value){.kind = CLT_PICKLE_TEXT, .text = text, .length = strlen(text)};
    g->items[g->count++] = name;
    g->items[g->count++] = tensor;
    return CLT_OK;
}

static clt_status add_parameters(gathering *g, const place *at)
{
    const clt_pickle_value *members;
    CLT_TRY(get_members(g->p, at, "_parameters", &members));
    for (size_t i = 0; i < members->count; i += 2)
        if (members->items[i + 1]->kind != CLT_PICKLE_NONE)
            CLT_TRY(add_tensor(g, at, "_parameters", members->items[i], members->items[i + 1]));
    return spend(g->p, members->count);
}

/* The names of buffers that a state dict leaves out: a set, which protocols before 4 write as a call of set
 * with a list. *out: NULL where there is none, as before PyTorch 1.4. */
static clt_status get_left_out(const clt_pytorch *p, const place *at, const clt_pickle_value **out)
{
    const clt_pickle_value *set = clt_pickle_get(at->module->state, "_non_persistent_buffers_set");
    *out = set;
    if (!set || set->kind == CLT_PICKLE_SET)
        return CLT_OK;
    if (clt_pytorch_is_set(set)) {
        const clt_pickle_value *arguments = set->items[1];
        *out = arguments->count == 1 ? arguments->items[0] : NULL;
        if (arguments->count == 0 || (arguments->count == 1 && (*out)->kind == CLT_PICKLE_LIST))
            return CLT_OK;
    }
    REFUSE("%s: _non_persistent_buffers_set of %s is not a set", p->path, shown(p, at));
}

static bool is_left_out(const clt_pickle_value *set, const clt_pickle_value *key)
{
    for (size_t i = 0; set && key->kind == CLT_PICKLE_TEXT && i < set->count; i++)
        if (set->items[i]->kind == CLT_PICKLE_TEXT && set->items[i]->length == key->length &&
            memcmp(set->items[i]->text, key->text, key->length) == 0)
            return true;
    return false;
}

static clt_status add_buffers(gathering *g, const place *at)
{
    const clt_pickle_value *members, *left_out;
    CLT_TRY(get_members(g->p, at, "_buffers", &members));
    CLT_TRY(get_left_out(g->p, at, &left_out));
    for (size_t i = 0; i < members->count; i += 2) {
        if (members->items[i + 1]->kind == CLT_PICKLE_NONE)
            continue;
        CLT_TRY(spend(g->p, 1 + (left_out ? left_out->count : 0)));
        if (!is_left_out(left_out, members->items[i]))
            CLT_TRY(add_tensor(g, at, "_buffers", members->items[i], members->items[i + 1]));
    }
    return spend(g->p, members->count);
}

static clt_status check_module(const clt_pytorch *p, const place *at)
{
    if (!clt_pytorch_is_module(at->module))
        REFUSE("%s: %s is not an object that is known as a module", p->path, shown(p, at));
    if (at->depth > DEPTH_MAX)
        REFUSE("%s: %s lies more than %d modules deep", p->path, shown(p, at), DEPTH_MAX);
    for (const place *above = at->above; above; above = above->above)
        if (above->module == at->module)
            REFUSE("%s: %s contains itself as %s", p->path, shown(p, above), shown(p, at));
    return CLT_OK;
}

/* Adds the tensors of a module and of the modules in it; check_module limits how deep this goes. */
static clt_status add_module(gathering *g, const place *at) /* NOLINT(misc-no-recursion) */
{
    const clt_pickle_value *members;
    CLT_TRY(check_module(g->p, at));
    CLT_TRY(spend(g->p, at->module->state->count));
    CLT_TRY(add_parameters(g, at));
    CLT_TRY(add_buffers(g, at));
    CLT_TRY(get_members(g->p, at, "_modules", &members));
    CLT_TRY(spend(g->p, members->count));
    for (size_t i = 0; i < members->count; i += 2) {
        place next = {.above = at, .module = members->items[i + 1], .depth = at->depth + 1};
        if (next.module->kind == CLT_PICKLE_NONE)
            continue;
        CLT_TRY(make_name(g->p, at, members->items[i], ".", &next.prefix));
        CLT_TRY(add_module(g, &next));
    }
    return CLT_OK;
}

/* Copies what was gathered into a dict of the file's arena. */
static clt_status keep(const gathering *g, clt_pickle_value **out)
{
    clt_pickle_value *dict = clt_arena_alloc(g->p->file->arena, sizeof *dict);
    clt_pickle_value **items = clt_arena_alloc(g->p->file->arena, (g->count + 1) * sizeof(*items));
    if (!dict || !items)
        return CLT_ENOMEM;
    if (g->count > 0)
        memcpy(items, g->items, g->count * sizeof(*items));
    *dict = (clt_pickle_value){.kind = CLT_PICKLE_DICT, .items = items, .count = g->count};
    dict->capacity = g->count;
    *out = dict;
    return CLT_OK;
}

clt_status clt_pytorch_open_module(clt_pytorch *p, clt_pickle_value **value)
{
    gathering g = {.p = p};
    const place outermost = {.module = *value, .prefix = ""};
    if (!clt_pytorch_is_module(*value))
        return CLT_OK;
    clt_status status = add_module(&g, &outermost);
    if (status == CLT_OK)
        status = keep(&g, value);
    free(g.items);
    return status;
}
