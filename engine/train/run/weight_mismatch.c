/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of differences between a file of weights and a model, as text. Names come from a file that
 * anybody may have written, so characters that cannot be printed are replaced. From the published names of
 * the model's family it also finds the keys of the config that would fit the file. */
#include "engine/train/run/weight_mismatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/files/fileio.h"
#include "engine/models/models.h"
#include "engine/train/run/run.h"

#define MISFIT_TEXT 3300 /* longest text; differences beyond it are only counted */

/* Digits between two dots are the number of a layer: for "h.11.ln_1.bias" the name is "h.%.ln_1.bias", the
 * result 11. */
static int64_t layer_of(const char *name, char out[CLT_MISMATCH_NAME])
{
    const char *digits = NULL;
    size_t n_digits = 0, length = 0;
    int64_t layer = -1;
    for (const char *dot = strchr(name, '.'); dot && !digits; dot = strchr(dot + 1, '.')) {
        size_t n = strspn(dot + 1, "0123456789");
        if (n > 0 && n < 10 && dot[n + 1] == '.') {
            digits = dot + 1;
            n_digits = n;
            layer = strtoll(digits, NULL, 10);
        }
    }
    for (const char *at = name; *at && length + 1 < CLT_MISMATCH_NAME;) {
        if (at == digits) {
            out[length++] = '%';
            at += n_digits;
            continue;
        }
        bool shows = (unsigned char)*at >= 32 && *at != 127 && *at != '%';
        out[length++] = (char)(shows ? *at : '?');
        at++;
    }
    out[length] = '\0';
    return layer;
}

static bool same_line(const clt_mismatch *a, const clt_mismatch *b)
{
    return a->kind == b->kind && strcmp(a->name, b->name) == 0 && clt_shape_equal(&a->need, &b->need) &&
           clt_shape_equal(&a->have, &b->have) && strcmp(a->type, b->type) == 0 &&
           (a->first < 0) == (b->first < 0);
}

void clt_mismatches_add(clt_mismatches *list, clt_mismatch_kind kind, const char *name, const clt_shape *need,
                        const clt_named_tensor *have)
{
    clt_mismatch one = {.kind = kind, .count = 1};
    one.first = one.last = layer_of(name, one.name);
    if (need)
        one.need = *need;
    if (have) {
        one.have = have->shape;
        snprintf(one.type, sizeof one.type, "%.23s", clt_safetensors_type(list->file, have));
        for (char *c = one.type; *c; c++)
            *c = (char)((unsigned char)*c < 32 || *c == 127 ? '?' : *c);
    }
    list->count++;
    for (int i = 0; i < list->n_lines; i++) {
        clt_mismatch *line = &list->lines[i];
        if (!same_line(line, &one))
            continue;
        line->count++;
        line->first = one.first < line->first ? one.first : line->first;
        line->last = one.last > line->last ? one.last : line->last;
        return;
    }
    if (list->n_lines < CLT_MISMATCH_LINES)
        list->lines[list->n_lines++] = one;
    else
        list->untold++;
}

static void add_name(const clt_mismatch *m, clt_str *out)
{
    const char *layer = m->first < 0 ? NULL : strchr(m->name, '%');
    if (!layer) {
        clt_str_append(out, m->name);
        return;
    }
    clt_str_append_n(out, m->name, (size_t)(layer - m->name));
    if (m->count == 1)
        clt_str_printf(out, "%lld", (long long)m->first);
    else
        clt_str_printf(out, "{%lld..%lld}", (long long)m->first, (long long)m->last);
    clt_str_append(out, layer + 1);
}

static const char *dims(const clt_shape *shape, char *text, size_t size)
{
    clt_shape_text(shape, text, size);
    for (char *c = text; *c; c++)
        *c = (char)(*c == '(' ? '[' : *c == ')' ? ']' : *c);
    return text;
}

static bool is_transposed(const clt_mismatch *m)
{
    return m->have.ndim == 2 && m->need.ndim == 2 && m->have.dim[0] == m->need.dim[1] &&
           m->have.dim[1] == m->need.dim[0];
}

static void add_line(const clt_mismatch *m, clt_str *out)
{
    char need[CLT_SHAPE_TEXT], have[CLT_SHAPE_TEXT];
    dims(&m->need, need, sizeof need);
    dims(&m->have, have, sizeof have);
    clt_str_append(out, "\n  ");
    add_name(m, out);
    switch (m->kind) {
    case CLT_MISMATCH_SHAPE:
        clt_str_printf(out, " is %s, the model needs %s%s", have, need,
                       is_transposed(m) ? " (transposed; GPT-2's files hold it as inputs x outputs)" : "");
        break;
    case CLT_MISMATCH_TYPE:
        clt_str_printf(out, " holds %s numbers, and weights are F32, F16, BF16 or F64", m->type);
        break;
    case CLT_MISMATCH_MISSING:
        clt_str_printf(out, " is missing; the model needs it as %s", need);
        break;
    case CLT_MISMATCH_UNUSED:
        clt_str_printf(out, " %s: the model has no such parameter", have);
        break;
    }
}

/* --- which keys would fit --- */

static int64_t row_count(const clt_named_tensor *t)
{
    return t && t->shape.ndim == 2 ? t->shape.dim[0] : 0;
}

static int64_t param_rows(const clt_graph *graph, const char *name)
{
    const clt_param *param = clt_graph_find_param(graph, name);
    return param ? clt_param_file_shape(param).dim[0] : 0;
}

/* The name of a tensor of block `block`. The number comes from a file and can be anything. */
static const char *block_name(const clt_model_published *p, int64_t block, char name[64])
{
    snprintf(name, 64, "%s%lld%s", p->block, (long long)block, p->in_block);
    return name;
}

static int64_t file_blocks(const clt_model_published *p, const clt_graph *graph, const clt_safetensors *file)
{
    char name[64];
    int64_t n = 0;
    while (n < clt_safetensors_count(file) && clt_weights_find(graph, file, block_name(p, n, name)))
        n++;
    return n;
}

static int64_t graph_blocks(const clt_model_published *p, const clt_graph *graph)
{
    char name[64];
    int64_t n = 0;
    while (n < (int64_t)graph->n_params && clt_graph_find_param(graph, block_name(p, n, name)))
        n++;
    return n;
}

static void hint(clt_str *out, const char *key, int64_t file, int64_t model)
{
    if (file > 0 && file != model)
        clt_str_printf(out, " model.%s=%lld", key, (long long)file);
}

/* Whether a path is a folder of transformers, whose config.json sets the keys of the model. */
static bool has_config_of_its_own(const char *path)
{
    char config[4200];
    int n = snprintf(config, sizeof config, "%s/config.json", path);
    return n > 0 && n < (int)sizeof config && clt_is_directory(path) && clt_is_regular(config) &&
           !clt_checkpoint_named(path);
}

/* Appends " model.layers=2 model.tied=true" as " layers 2, tied true". */
static void in_words(const char *keys, clt_str *out)
{
    for (const char *at = keys; *at; at++) {
        if (strncmp(at, " model.", 7) == 0) {
            clt_str_append(out, at == keys ? " " : ", ");
            at += 6;
        } else {
            clt_str_append_n(out, *at == '=' ? " " : at, 1);
        }
    }
}

static void add_hints(const clt_mismatches *list, const char *path, clt_str *out)
{
    const clt_safetensors *file = list->file;
    const clt_graph *graph = list->graph;
    const clt_model_published *p = clt_weights_published(graph);
    const clt_named_tensor *table = p ? clt_weights_find(graph, file, p->table) : NULL;
    const clt_param *own = p ? clt_graph_find_param(graph, p->table) : NULL;
    CLT_SCOPED(clt_str) keys = {0}, tied = {0}; /* a folder's config.json does not fix model.tied */
    if (!own || !table || table->shape.ndim != 2) {
        clt_str_append(out, "\ncheck the model section of the config against the file");
        return;
    }
    const clt_named_tensor *places = p->places ? clt_weights_find(graph, file, p->places) : NULL,
                           *head = clt_weights_find(graph, file, p->head);
    hint(&keys, "layers", file_blocks(p, graph, file), graph_blocks(p, graph));
    bool channels = table->shape.dim[1] != own->shape.dim[1];
    hint(&keys, "channels", table->shape.dim[1], own->shape.dim[1]);
    if (!clt_weights_fit_shape(own, table))
        hint(&keys, "vocab", row_count(table), param_rows(graph, p->table));
    bool fewer = row_count(table) < param_rows(graph, p->table);
    const clt_param *own_places = places ? clt_graph_find_param(graph, p->places) : NULL;
    if (own_places && !clt_weights_fit_shape(own_places, places))
        hint(&keys, "context", row_count(places), param_rows(graph, p->places));
    bool file_bias = p->bias && clt_weights_find(graph, file, p->bias),
         own_bias = p->bias && clt_graph_find_param(graph, p->bias);
    if (file_bias != own_bias)
        clt_str_printf(&keys, " %s", p->bias_keys[file_bias]);
    bool own_head = clt_graph_find_param(graph, p->head) != NULL;
    for (int i = 0; i < list->n_lines; i++)
        if (strcmp(clt_weights_short_name(graph, list->lines[i].name), p->head) == 0 &&
            own_head != (head != NULL))
            clt_str_printf(&tied, " model.tied=%s", own_head ? "true" : "false");
    if (keys.length && has_config_of_its_own(path)) {
        clt_str_append(out, "\nthe config.json of the folder does not describe its weights, which have");
        clt_str_append(&keys, tied.length ? tied.text : "");
        in_words(keys.text, out);
        clt_str_printf(out,
                       "; change the model to that in a config that 'cltrain import %.300s --out CONFIG' "
                       "writes, and give "
                       "the file of weights in the folder to --init",
                       path);
    } else if (keys.length || tied.length) {
        clt_str_printf(out, "\nthese keys would fit the file:%s%s", keys.length ? keys.text : "",
                       tied.length ? tied.text : "");
    }
    if (keys.length && channels)
        clt_str_append(out, " (model.heads must divide the channels)");
    if (keys.length && fewer)
        clt_str_append(out, " (the data's tokenizer may have no more tokens: set data.tokenizer to the "
                            "tokenizer of the weights)");
}

/* --- how to leave a head out --- */

#define MAX_HEADS 3

/* "fc.*" for "fc.weight": the layer that a tensor belongs to. */
static void layer_pattern(const clt_mismatch *m, char pattern[CLT_MISMATCH_NAME + 2])
{
    const char *dot = strrchr(m->name, '.');
    snprintf(pattern, CLT_MISMATCH_NAME + 2, "%.*s.*", dot ? (int)(dot - m->name) : (int)strlen(m->name),
             m->name);
}

/* Lists the patterns of the layers that do not fit; unused: also of tensors that the model does not have.
 * Returns their number, 0 if there are more than MAX_HEADS or if numbered layers are among them. */
static int list_patterns(const clt_mismatches *list, bool unused, char patterns[][CLT_MISMATCH_NAME + 2])
{
    char one[CLT_MISMATCH_NAME + 2];
    int count = 0;
    for (int i = 0; i < list->n_lines; i++) {
        bool known = !unused && list->lines[i].kind == CLT_MISMATCH_UNUSED;
        if (known)
            continue;
        if (list->lines[i].first >= 0 || strchr(list->lines[i].name, '?'))
            return 0;
        layer_pattern(&list->lines[i], one);
        for (int k = 0; k < count; k++)
            known = known || strcmp(patterns[k], one) == 0;
        if (!known && count == MAX_HEADS)
            return 0;
        if (!known)
            memcpy(patterns[count++], one, sizeof one);
    }
    return count;
}

/* If only a few layers do not fit, as with the head of a model for other classes, says how to train these
 * from random values. With --init-skip the file may also hold tensors of other heads, so these need no
 * pattern if they are many. Numbered layers are left to add_hints. */
static void add_skip_hint(const clt_mismatches *list, clt_str *out)
{
    char patterns[MAX_HEADS][CLT_MISMATCH_NAME + 2];
    if (!list->may_skip || list->untold > 0 || (size_t)list->count * 2 > list->graph->n_params)
        return;
    int count = list_patterns(list, true, patterns);
    count = count ? count : list_patterns(list, false, patterns);
    if (count == 0)
        return;
    clt_str_append(out, "\nto keep the rest and begin with random values there: --init-skip '");
    for (int k = 0; k < count; k++)
        clt_str_printf(out, "%s%s", k ? "," : "", patterns[k]);
    clt_str_append(out, "'");
}

clt_status clt_mismatches_finish(const clt_mismatches *list, const char *path)
{
    CLT_SCOPED(clt_str) text = {0};
    int64_t untold = list->untold;
    if (list->count == 0)
        return CLT_OK;
    for (int kind = CLT_MISMATCH_SHAPE; kind <= CLT_MISMATCH_UNUSED; kind++)
        for (int i = 0; i < list->n_lines; i++) {
            const clt_mismatch *m = &list->lines[i];
            if ((int)m->kind == kind && text.length < MISFIT_TEXT - 400)
                add_line(m, &text);
            else if ((int)m->kind == kind)
                untold += m->count;
        }
    if (untold > 0)
        clt_str_printf(&text, "\n  and %lld more", (long long)untold);
    add_hints(list, path, &text);
    add_skip_hint(list, &text);
    CLT_TRY(clt_str_check(&text));
    CLT_FAIL(CLT_ECHECKPOINT, "the weights of '%.300s' and the model do not fit together (%lld tensor%s):%s",
             path, (long long)list->count, CLT_PLURAL(list->count), text.text);
}
