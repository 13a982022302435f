/* SPDX-License-Identifier: Apache-2.0
 *
 * Low-rank adapters beside linear layers, and which layers get one. The rules for names are PEFT's: an entry
 * names a layer if it equals the layer's name, or the name's last parts. Knows linear layers and names, no
 * family. */
#include "engine/models/lora.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"

#define ALL_LINEAR "all-linear"
#define NAME 160 /* bytes of a layer's name */

/* --- keys --- */

static clt_status targets_fail(const clt_model_builder *b, const char *why)
{
    return clt_model_key_fail(b, "lora_targets", why);
}

/* Takes the entries of a list, or the one entry that is no list. */
static clt_status read_targets(clt_model_builder *b)
{
    clt_lora *l = &b->lora;
    const clt_json *value = clt_json_get(b->model, "lora_targets");
    bool list = value && clt_json_typeof(value) == CLT_JSON_ARRAY;
    size_t n = !value ? 0 : list ? clt_json_count(value) : 1;
    if (n > CLT_LORA_MAX_TARGETS)
        return targets_fail(b, "has more than 4096 entries");
    l->targets = clt_arena_alloc(b->graph->arena, (n + 3) * sizeof *l->targets);
    if (!l->targets)
        return CLT_ENOMEM;
    for (const clt_json *e = list ? clt_json_first(value) : value; e; e = list ? clt_json_next(e) : NULL) {
        if (clt_json_typeof(e) != CLT_JSON_STRING || !*clt_json_string(e))
            return targets_fail(b, "must be names of linear layers, as strings");
        l->targets[l->n_targets].used = false;
        l->targets[l->n_targets++].name = clt_json_string(e);
    }
    const clt_model_published *p = clt_model_published_of(b->model);
    for (const char *const *usual = p ? p->adapted : NULL; usual && *usual && n == 0; usual++) {
        l->targets[l->n_targets].used = false;
        l->targets[l->n_targets++].name = *usual;
    }
    return l->n_targets > 0 ? CLT_OK : targets_fail(b, "required: name the linear layers to adapt");
}

clt_status clt_lora_read(clt_model_builder *b, bool decode)
{
    clt_lora *l = &b->lora;
    double alpha = 16;
    bool root = false;
    const char *base = "f32";
    CLT_TRY(clt_model_read_int(b, "lora_rank", 0, &l->rank));
    if (l->rank == 0)
        return CLT_OK;
    CLT_TRY(clt_model_read_number(b, "lora_alpha", 0, 1e6, &alpha));
    if (!(alpha > 0))
        return clt_model_key_fail(b, "lora_alpha", "must be above 0, else adapters change nothing");
    CLT_TRY(clt_model_read_bool(b, "lora_rs", &root));
    CLT_TRY(clt_model_read_share(b, "lora_dropout", &l->dropout));
    CLT_TRY(clt_model_read_word(b, "lora_base", CLT_LORA_BASES, &base));
    (void)clt_dtype_from_name(base, &l->base); /* one of the words */
    l->dropout = decode ? 0 : l->dropout;
    l->scale = alpha / (root ? sqrt((double)l->rank) : (double)l->rank);
    return read_targets(b);
}

void clt_lora_check(clt_config_rules *rules)
{
    bool off = clt_rules_empty(rules, "model.lora_rank");
    if (off && clt_rules_usable(rules, "model.lora_targets") && !clt_rules_empty(rules, "model.lora_targets"))
        clt_rules_broken(rules, "model.lora_rank",
                         "must be at least 1 where model.lora_targets names layers to adapt");
}

/* --- names --- */

/* True if the entry names the layer. */
static bool names_layer(const clt_model_builder *b, const char *entry, const char *name)
{
    const clt_model_published *p = clt_model_published_of(b->model);
    const char *prefix = p ? p->prefix : "";
    size_t whole = strlen(name), length = strlen(entry);
    if (strcmp(entry, ALL_LINEAR) == 0 || fnmatch(entry, name, 0) == 0)
        return true;
    if (strncmp(entry, prefix, strlen(prefix)) == 0 && fnmatch(entry + strlen(prefix), name, 0) == 0)
        return true;
    return length < whole && name[whole - length - 1] == '.' && strcmp(name + whole - length, entry) == 0;
}

/* Remembers the last part of a layer's name, for messages. */
static void note_layer(clt_lora *l, const char *name)
{
    const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
    for (int i = 0; i < l->n_seen; i++)
        if (strcmp(l->seen[i], last) == 0)
            return;
    if (l->n_seen < CLT_LORA_SEEN)
        l->seen[l->n_seen++] = last;
}

static bool is_target(clt_model_builder *b, const char *name)
{
    bool found = false;
    for (int i = 0; i < b->lora.n_targets; i++)
        if (names_layer(b, b->lora.targets[i].name, name)) {
            b->lora.targets[i].used = true;
            found = true;
        }
    return found;
}

/* --- layers --- */

static clt_status add(clt_model_builder *b, const char *op, const char *layer, const char *part,
                      const int32_t *inputs, int n, const clt_attr_given *attrs, clt_node **node)
{
    char name[NAME];
    snprintf(name, sizeof name, "%s.%s", layer, part);
    return clt_model_at(b->doc, b->model, clt_graph_add_op(b->graph, op, name, NULL, inputs, n, attrs, node));
}

/* One of the two products of an adapter. */
static clt_status add_product(clt_model_builder *b, const char *layer, const char *part, int64_t out,
                              const char *init, int32_t *at)
{
    clt_node *node;
    CLT_TRY(add(b, "linear", layer, part, at, 1,
                CLT_ATTRS(CLT_A_INT("out", out), CLT_A_BOOL("bias", false), CLT_A_WORD("init", init)),
                &node));
    b->graph->params[node->param[0]].adapter = true;
    *at = node->out[0];
    return CLT_OK;
}

/* Adds s * B A dropout(from) to *out. The factor multiplies A's result, the smallest tensor. */
static clt_status add_adapter(clt_model_builder *b, const char *name, int32_t from, int32_t *out)
{
    const clt_lora *l = &b->lora;
    clt_node *node;
    int32_t at = from, sum[2] = {*out, -1};
    int64_t width = clt_shape_last(&clt_graph_tensor(b->graph, *out)->shape);
    if (l->dropout > 0) {
        CLT_TRY(add(b, "dropout", name, "lora_drop", &at, 1, CLT_ATTRS(CLT_A_FLOAT("p", l->dropout)), &node));
        at = node->out[0];
    }
    CLT_TRY(add_product(b, name, "lora_A", l->rank, "kaiming_uniform", &at));
    CLT_TRY(add(b, "scale", name, "lora_scale", &at, 1, CLT_ATTRS(CLT_A_FLOAT("value", l->scale)), &node));
    at = node->out[0];
    CLT_TRY(add_product(b, name, "lora_B", width, "zeros", &at));
    sum[1] = at;
    CLT_TRY(add(b, "add", name, "lora", sum, 2, NULL, &node));
    *out = node->out[0];
    return CLT_OK;
}

clt_status clt_lora_linear(clt_model_builder *b, const char *name, int32_t from, const clt_attr_given *attrs,
                           clt_node **node, int32_t *out)
{
    CLT_TRY(clt_model_at(b->doc, b->model,
                         clt_graph_add_op(b->graph, "linear", name, NULL, &from, 1, attrs, node)));
    *out = (*node)->out[0];
    if (b->lora.rank == 0)
        return CLT_OK;
    note_layer(&b->lora, (*node)->name);
    return is_target(b, name) ? add_adapter(b, name, from, out) : CLT_OK;
}

/* --- the whole model --- */

static clt_status unknown_target(const clt_model_builder *b, const char *entry)
{
    const clt_lora *l = &b->lora;
    const char *near = clt_nearest_name(entry, l->seen, (size_t)l->n_seen);
    CLT_SCOPED(clt_str) why = {0};
    clt_str_printf(&why, "no linear layer is called '%.100s'%s%s%s; there are ", entry,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'" : "");
    for (int i = 0; i < l->n_seen; i++)
        clt_str_printf(&why, "%s%s", i == 0 ? "" : i + 1 < l->n_seen ? ", " : " and ", l->seen[i]);
    CLT_TRY(clt_str_check(&why));
    return targets_fail(b, why.text);
}

clt_status clt_lora_finish(clt_model_builder *b)
{
    const clt_lora *l = &b->lora;
    if (l->rank == 0)
        return CLT_OK;
    for (int i = 0; i < l->n_targets; i++)
        if (!l->targets[i].used)
            return unknown_target(b, l->targets[i].name);
    for (size_t i = 0; i < b->graph->n_params; i++) {
        b->graph->params[i].frozen = !b->graph->params[i].adapter;
        if (b->graph->params[i].frozen)
            b->graph->params[i].kept = l->base;
    }
    return CLT_OK;
}
