/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds low-rank adapters to linear layers, and decides which layers get one and which parts are trained
 * whole. The rules for names are PEFT's: an entry names a layer if it equals the layer's name, or its last
 * parts. Knows linear layers and names, but no family. */
#include "engine/models/lora.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"

#define ALL_LINEAR "all-linear"
#define RANKS "lora_rank_pattern" /* keys of the model section */
#define ALPHAS "lora_alpha_pattern"
#define TRAINED "lora_modules_to_save"
#define NAME 160 /* size of a layer's name, in bytes */

/* --- names --- */

/* True if an entry of the config, `entry`, names the layer. */
static bool names_layer(const clt_json *model, const char *entry, const char *name)
{
    const clt_model_published *p = clt_model_published_of(model);
    const char *prefix = p ? p->prefix : "";
    size_t whole = strlen(name), length = strlen(entry);
    if (strcmp(entry, ALL_LINEAR) == 0 || fnmatch(entry, name, 0) == 0)
        return true;
    if (strncmp(entry, prefix, strlen(prefix)) == 0 && fnmatch(entry + strlen(prefix), name, 0) == 0)
        return true;
    return length < whole && name[whole - length - 1] == '.' && strcmp(name + whole - length, entry) == 0;
}

size_t clt_adapter_layer(const char *tensor, bool *of_a)
{
    size_t a = clt_stem(tensor, CLT_ADAPTER_A), table_a = clt_stem(tensor, CLT_ADAPTER_TABLE_A);
    size_t b = clt_stem(tensor, CLT_ADAPTER_B), table_b = clt_stem(tensor, CLT_ADAPTER_TABLE_B);
    *of_a = a + table_a > 0;
    return a + table_a + b + table_b;
}

bool clt_adapter_starts_zero(const char *tensor)
{
    return clt_stem(tensor, CLT_ADAPTER_B) + clt_stem(tensor, CLT_ADAPTER_TABLE_A) > 0;
}

/* An entry NAME=NUMBER of model.lora_rank_pattern or model.lora_alpha_pattern. */
typedef struct sized {
    char name[NAME];
    double number;
} sized;

/* The next entry after `before` of a key that holds one entry or a list; see clt_json_entry. */
static const clt_json *next_entry(const clt_json *model, const char *key, const clt_json *before)
{
    return clt_json_entry(clt_json_get(model, key), before);
}

/* Reads an entry NAME=NUMBER; false: the value is not such an entry. */
static bool read_entry(const clt_json *value, sized *out)
{
    const char *text = clt_json_string(value);
    const char *sign = strrchr(text, '=');
    char *end;
    if (!sign || sign == text || sign - text >= NAME || !sign[1])
        return false;
    snprintf(out->name, NAME, "%.*s", (int)(sign - text), text);
    out->number = strtod(sign + 1, &end);
    return *end == '\0';
}

/* Finds the first entry of a key that names the layer; false: no entry does. *index: its place in the
 * list. */
static bool find_entry(const clt_json *model, const char *key, const char *name, sized *out, int *index)
{
    *index = 0;
    for (const clt_json *v = NULL; (v = next_entry(model, key, v)); ++*index)
        if (read_entry(v, out) && names_layer(model, out->name, name))
            return true;
    return false;
}

clt_lora_size clt_lora_size_of(const clt_json *model, const char *name)
{
    clt_lora_size size = {(int64_t)clt_json_number(clt_json_get(model, "lora_rank")),
                          clt_json_number_or(clt_json_get(model, "lora_alpha"), 16), 0};
    sized e;
    int index;
    if (find_entry(model, RANKS, name, &e, &index))
        size.rank = (int64_t)e.number;
    if (find_entry(model, ALPHAS, name, &e, &index))
        size.alpha = e.number;
    bool root = clt_json_bool(clt_json_get(model, "lora_rs"));
    double by = root ? sqrt((double)size.rank) : (double)size.rank;
    size.scale = size.rank > 0 ? size.alpha / by : 0;
    return size;
}

/* --- parts that are trained whole --- */

/* True if the entry names a part of the model that contains the tensor: a beginning of the tensor's name that
 * ends before a dot. */
static bool names_part(const clt_json *model, const char *entry, const char *tensor)
{
    char part[NAME];
    for (const char *dot = strchr(tensor, '.'); dot && dot - tensor < NAME; dot = strchr(dot + 1, '.')) {
        snprintf(part, sizeof part, "%.*s", (int)(dot - tensor), tensor);
        if (names_layer(model, entry, part))
            return true;
    }
    return false;
}

/* True if any entry of model.lora_modules_to_save names a part that contains the tensor. For each such entry
 * sets its flag in `used`, if that is not NULL. */
static bool entry_names_part(const clt_json *model, const char *tensor, bool *used)
{
    bool found = false;
    int i = 0;
    for (const clt_json *v = NULL; (v = next_entry(model, TRAINED, v)); i++)
        if (clt_json_typeof(v) == CLT_JSON_STRING && names_part(model, clt_json_string(v), tensor)) {
            found = true;
            if (used)
                used[i] = true;
        }
    return found;
}

/* True for a tensor of a new head, which adapters cannot train and which is therefore trained whole. */
static bool in_new_head(const clt_json *model, const char *tensor)
{
    const clt_model_published *p = clt_model_published_of(model);
    for (const char *const *part = p ? p->trained : NULL; part && *part; part++)
        if (names_part(model, *part, tensor))
            return true;
    return false;
}

bool clt_lora_trains_whole(const clt_json *model, const char *tensor)
{
    bool of_a;
    return clt_adapter_layer(tensor, &of_a) == 0 &&
           (in_new_head(model, tensor) || entry_names_part(model, tensor, NULL));
}

/* --- keys --- */

static clt_status targets_fail(const clt_model_builder *b, const char *why)
{
    return clt_model_key_fail(b, "lora_targets", why);
}

/* Reads model.lora_targets, a list of entries or a single entry. Without entries, PEFT's default layers are
 * the targets. */
static clt_status read_targets(clt_model_builder *b)
{
    clt_lora *l = &b->lora;
    const clt_json *value = clt_json_get(b->model, "lora_targets");
    bool list = clt_json_typeof(value) == CLT_JSON_ARRAY;
    size_t n = !value ? 0 : list ? clt_json_count(value) : 1;
    if (n > CLT_LORA_MAX_TARGETS)
        return targets_fail(b, "has more than 4096 entries");
    l->targets = clt_arena_alloc(b->graph->arena, (n + 3) * sizeof *l->targets);
    if (!l->targets)
        return CLT_ENOMEM;
    for (const clt_json *e = NULL; (e = next_entry(b->model, "lora_targets", e));) {
        if (clt_json_typeof(e) != CLT_JSON_STRING || !*clt_json_string(e))
            return targets_fail(b, "must be names of layers, as strings");
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

/* Checks the entries NAME=NUMBER of a key. *used: room for a flag for each. */
static clt_status read_pattern(const clt_model_builder *b, const char *key, bool whole, double most,
                               bool **used)
{
    sized e;
    size_t n = clt_json_count(clt_json_get(b->model, key));
    if (n > CLT_LORA_MAX_TARGETS)
        return clt_model_key_fail(b, key, "has more than 4096 entries");
    *used = clt_arena_alloc(b->graph->arena, (n + 1) * sizeof **used);
    if (!*used)
        return CLT_ENOMEM;
    memset(*used, 0, (n + 1) * sizeof **used);
    for (const clt_json *v = NULL; (v = next_entry(b->model, key, v));)
        if (!read_entry(v, &e) || !(e.number > 0 && e.number <= most) ||
            (whole && floor(e.number) < e.number))
            return clt_model_key_fail(b, key,
                                      whole ? "must be entries such as \"q_proj=8\": a layer's name and a "
                                              "rank, a whole number from 1 to 65536"
                                            : "must be entries such as \"q_proj=16\": a layer's name and a "
                                              "number above 0");
    return CLT_OK;
}

/* Checks the entries of model.lora_modules_to_save. */
static clt_status read_trained(clt_model_builder *b)
{
    size_t n = clt_json_count(clt_json_get(b->model, TRAINED));
    if (n > CLT_LORA_MAX_TARGETS)
        return clt_model_key_fail(b, TRAINED, "has more than 4096 entries");
    for (const clt_json *v = NULL; (v = next_entry(b->model, TRAINED, v));)
        if (clt_json_typeof(v) != CLT_JSON_STRING || !*clt_json_string(v) ||
            strcmp(clt_json_string(v), ALL_LINEAR) == 0)
            return clt_model_key_fail(b, TRAINED, "must be names of parts of the model, as strings");
    b->lora.trained_used = clt_arena_alloc(b->graph->arena, (n + 1) * sizeof(bool));
    if (!b->lora.trained_used)
        return CLT_ENOMEM;
    memset(b->lora.trained_used, 0, (n + 1) * sizeof(bool));
    return CLT_OK;
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
    (void)clt_dtype_from_name(base, &l->base); /* cannot fail: `base` is one of the known words */
    l->dropout = decode ? 0 : l->dropout;
    CLT_TRY(read_pattern(b, RANKS, true, 65536, &l->ranks_used));
    CLT_TRY(read_pattern(b, ALPHAS, false, 1e6, &l->alphas_used));
    CLT_TRY(read_trained(b));
    return read_targets(b);
}

void clt_lora_check(clt_config_rules *rules)
{
    static const char *const lists[] = {"model.lora_rank_pattern", "model.lora_alpha_pattern",
                                        "model.lora_modules_to_save"};
    bool off = clt_rules_empty(rules, "model.lora_rank");
    for (int i = 0; i < 3 && off; i++)
        if (clt_rules_usable(rules, lists[i]) && !clt_rules_empty(rules, lists[i]))
            clt_rules_broken(rules, lists[i], "is for adapters, and model.lora_rank is 0");
    if (off && clt_rules_usable(rules, "model.lora_targets") && !clt_rules_empty(rules, "model.lora_targets"))
        clt_rules_broken(rules, "model.lora_rank",
                         "must be at least 1 where model.lora_targets names layers to adapt");
}

/* --- layers that entries name --- */

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

/* True if the layer gets an adapter; a layer that is trained whole gets none. by_name: only its name can
 * make it a target, "all-linear" does not. */
static bool is_target(clt_model_builder *b, const char *name, bool by_name)
{
    char weight[NAME];
    bool found = false;
    snprintf(weight, sizeof weight, "%s.weight", name);
    if (clt_lora_trains_whole(b->model, weight))
        return false;
    for (int i = 0; i < b->lora.n_targets; i++)
        if (!(by_name && strcmp(b->lora.targets[i].name, ALL_LINEAR) == 0) &&
            names_layer(b->model, b->lora.targets[i].name, name)) {
            b->lora.targets[i].used = true;
            found = true;
        }
    return found;
}

/* Returns the adapter's size, and records which entries of the patterns name the layer. */
static clt_lora_size size_of(clt_model_builder *b, const char *name)
{
    sized e;
    int index;
    if (find_entry(b->model, RANKS, name, &e, &index))
        b->lora.ranks_used[index] = true;
    if (find_entry(b->model, ALPHAS, name, &e, &index))
        b->lora.alphas_used[index] = true;
    return clt_lora_size_of(b->model, name);
}

/* --- layers --- */

static clt_status add(clt_model_builder *b, const char *op, const char *layer, const char *part,
                      const int32_t *inputs, int n, const clt_attr_given *attrs, clt_node **node)
{
    char name[NAME];
    snprintf(name, sizeof name, "%s.%s", layer, part);
    return clt_model_at(b->doc, b->model, clt_graph_add_op(b->graph, op, name, NULL, inputs, n, attrs, node));
}

/* Adds one of the two products of an adapter. *weight: its parameter. */
static clt_status add_product(clt_model_builder *b, const char *layer, const char *part, int64_t out,
                              const char *init, int32_t *at, clt_param **weight)
{
    clt_node *node;
    CLT_TRY(add(b, "linear", layer, part, at, 1,
                CLT_ATTRS(CLT_A_INT("out", out), CLT_A_BOOL("bias", false), CLT_A_WORD("init", init),
                          CLT_A_FLOAT("init_std", 1)),
                &node));
    *weight = &b->graph->params[node->param[0]];
    (*weight)->adapter = true;
    *at = node->out[0];
    return CLT_OK;
}

static clt_status add_scaled(clt_model_builder *b, const char *name, double scale, int32_t *at)
{
    clt_node *node;
    CLT_TRY(add(b, "scale", name, "lora_scale", at, 1, CLT_ATTRS(CLT_A_FLOAT("value", scale)), &node));
    *at = node->out[0];
    return CLT_OK;
}

/* Adds tensor `more` to *out. */
static clt_status add_sum(clt_model_builder *b, const char *name, int32_t more, int32_t *out)
{
    clt_node *node;
    const int32_t both[2] = {*out, more};
    CLT_TRY(add(b, "add", name, "lora", both, 2, NULL, &node));
    *out = node->out[0];
    return CLT_OK;
}

/* Adds s * B A dropout(from) to *out. The factor s multiplies A's result, because that is the smallest
 * tensor. *up: B. */
static clt_status add_adapter(clt_model_builder *b, const char *name, int32_t from, int32_t *out,
                              clt_param **up)
{
    const clt_lora_size size = size_of(b, name);
    clt_param *down;
    clt_node *node;
    int32_t at = from;
    int64_t width = clt_shape_last(&clt_graph_tensor(b->graph, *out)->shape);
    if (b->lora.dropout > 0) {
        CLT_TRY(add(b, "dropout", name, "lora_drop", &at, 1, CLT_ATTRS(CLT_A_FLOAT("p", b->lora.dropout)),
                    &node));
        at = node->out[0];
    }
    CLT_TRY(add_product(b, name, "lora_A", size.rank, "kaiming_uniform", &at, &down));
    CLT_TRY(add_scaled(b, name, size.scale, &at));
    CLT_TRY(add_product(b, name, "lora_B", width, "zeros", &at, up));
    return add_sum(b, name, at, out);
}

clt_status clt_lora_linear(clt_model_builder *b, const char *name, int32_t from, const clt_attr_given *attrs,
                           clt_node **node, int32_t *out)
{
    CLT_TRY(clt_model_at(b->doc, b->model,
                         clt_graph_add_op(b->graph, "linear", name, NULL, &from, 1, attrs, node)));
    *out = (*node)->out[0];
    if (b->lora.rank == 0)
        return CLT_OK;
    clt_param *up;
    note_layer(&b->lora, (*node)->name);
    return is_target(b, name, false) ? add_adapter(b, name, from, out, &up) : CLT_OK;
}

/* Fails because an entry of `key` names one of two layers that share a weight. */
static clt_status tied_fail(const clt_model_builder *b, const char *key, const char *entry)
{
    CLT_SCOPED(clt_str) why = {0};
    clt_str_printf(
        &why,
        "'%.100s': token embedding and output layer share one weight, and an adapter would make them "
        "different; remove the name, or set model.tied=false, which gives each its own weight",
        entry);
    CLT_TRY(clt_str_check(&why));
    return clt_model_key_fail(b, key, why.text);
}

/* Sets *is if the config names the layer `name`, which is the token embedding or the output layer. */
static clt_status is_named(clt_model_builder *b, const char *name, bool *is)
{
    const clt_json *value = clt_json_get(b->model, "tied");
    bool tied = !value || clt_json_bool(value);
    *is = false;
    if (b->lora.rank == 0)
        return CLT_OK;
    if (!tied)
        note_layer(&b->lora, name);
    *is = is_target(b, name, true);
    return *is && tied ? tied_fail(b, "lora_targets", name) : CLT_OK;
}

clt_status clt_lora_head(clt_model_builder *b, const clt_node *head, int32_t from, int64_t vocab,
                         int32_t *out)
{
    clt_param *up;
    bool wanted;
    const char *name = head->name;
    CLT_TRY(is_named(b, name, &wanted));
    if (!wanted)
        return CLT_OK;
    CLT_TRY(add_adapter(b, name, from, out, &up));
    up->file_rows = up->shape.dim[0] > vocab ? vocab : 0;
    up->file_longer = CLT_LONGER_PADDED;
    return CLT_OK;
}

/* Gives the parameter the name that PEFT uses. */
static clt_status rename_param(clt_model_builder *b, clt_param *param, const char *layer, const char *end)
{
    param->adapter = true;
    param->file_name = clt_arena_printf(b->graph->arena, "%s%s", layer, end);
    return param->file_name ? CLT_OK : CLT_ENOMEM;
}

clt_status clt_lora_table(clt_model_builder *b, const clt_node *table, int32_t index, int64_t vocab,
                          int32_t *out)
{
    clt_node *rows;
    clt_param *up;
    bool wanted;
    const char *name = table->name;
    CLT_TRY(is_named(b, name, &wanted));
    if (!wanted)
        return CLT_OK;
    const clt_lora_size size = size_of(b, name);
    int64_t width = clt_shape_last(&clt_graph_tensor(b->graph, *out)->shape);
    CLT_TRY(add(b, "embedding", name, "lora_embedding_A", &index, 1,
                CLT_ATTRS(CLT_A_INT("vocab", vocab), CLT_A_INT("dim", size.rank), CLT_A_FLOAT("init_std", 0)),
                &rows));
    clt_param *down = &b->graph->params[rows->param[0]];
    down->file_transposed = 1;
    CLT_TRY(rename_param(b, down, name, CLT_ADAPTER_TABLE_A));
    int32_t at = rows->out[0];
    CLT_TRY(add_scaled(b, name, size.scale, &at));
    CLT_TRY(add_product(b, name, "lora_embedding_B", width, "normal", &at, &up));
    CLT_TRY(rename_param(b, up, name, CLT_ADAPTER_TABLE_B));
    return add_sum(b, name, at, out);
}

/* --- the whole model --- */

static clt_status unknown_target(const clt_model_builder *b, const char *entry)
{
    const clt_lora *l = &b->lora;
    const char *near = clt_nearest_name(entry, l->seen, (size_t)l->n_seen);
    CLT_SCOPED(clt_str) why = {0};
    clt_str_printf(&why, "no layer that could have an adapter is called '%.100s'%s%s%s; there are ", entry,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'" : "");
    for (int i = 0; i < l->n_seen; i++)
        clt_str_printf(&why, "%s%s", i == 0 ? "" : i + 1 < l->n_seen ? ", " : " and ", l->seen[i]);
    CLT_TRY(clt_str_check(&why));
    return targets_fail(b, why.text);
}

/* Fails if an entry of a pattern names no layer that has an adapter. */
static clt_status check_used(const clt_model_builder *b, const char *key, const bool *used)
{
    int i = 0;
    for (const clt_json *v = NULL; (v = next_entry(b->model, key, v)); i++) {
        CLT_SCOPED(clt_str) why = {0};
        if (used[i])
            continue;
        clt_str_printf(&why,
                       "'%.100s' has no effect: it names no layer with an adapter, or only layers that an "
                       "earlier entry names",
                       clt_json_string(v));
        CLT_TRY(clt_str_check(&why));
        return clt_model_key_fail(b, key, why.text);
    }
    return CLT_OK;
}

/* Fails if an entry of model.lora_modules_to_save names no part, or one of two layers that share a weight. */
static clt_status check_trained(const clt_model_builder *b)
{
    const clt_model_published *p = clt_model_published_of(b->model);
    const clt_json *tied = clt_json_get(b->model, "tied");
    bool one_weight = p && (!tied || clt_json_bool(tied));
    int i = 0;
    for (const clt_json *v = NULL; (v = next_entry(b->model, TRAINED, v)); i++) {
        const char *entry = clt_json_string(v);
        if (one_weight && (names_part(b->model, entry, p->table) || names_part(b->model, entry, p->head)))
            return tied_fail(b, TRAINED, entry);
        if (b->lora.trained_used[i])
            continue;
        CLT_SCOPED(clt_str) text = {0};
        clt_str_printf(&text, "'%.100s' is not part of the model", entry);
        CLT_TRY(clt_str_check(&text));
        return clt_model_key_fail(b, TRAINED, text.text);
    }
    return CLT_OK;
}

clt_status clt_lora_finish(clt_model_builder *b)
{
    const clt_lora *l = &b->lora;
    if (l->rank == 0)
        return CLT_OK;
    for (int i = 0; i < l->n_targets; i++)
        if (!l->targets[i].used)
            return unknown_target(b, l->targets[i].name);
    CLT_TRY(check_used(b, RANKS, l->ranks_used));
    CLT_TRY(check_used(b, ALPHAS, l->alphas_used));
    for (size_t i = 0; i < b->graph->n_params; i++) {
        clt_param *param = &b->graph->params[i];
        bool named = !param->adapter && entry_names_part(b->model, param->file_name, l->trained_used);
        param->frozen = !param->adapter && !named && !in_new_head(b->model, param->file_name);
        if (param->frozen)
            param->kept = l->base;
    }
    return check_trained(b);
}
