/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a folder that PEFT wrote. The settings of adapter_config.json come from a stranger: each must be one
 * that is read, changes nothing or is switched off; otherwise the folder is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/files/fileio.h"
#include "engine/models/models.h"
#include "engine/pretrained/peft.h"
#include "engine/pretrained/pretrained_internal.h"

#define CONFIG_MAX_BYTES 16000000u
#define WRAPPER "base_model.model."   /* PEFT's prefix before the names of the model */
#define END_BASE ".base_layer.weight" /* a copy of a weight, which PEFT saves where embeddings are adapted */
#define MAX_RANK 65536

struct clt_peft {
    clt_pretrained p; /* used for arena, document, keys, problems */
    clt_safetensors *file;
    int64_t rank;
    double alpha, scale;
    clt_json_doc *section; /* the keys model.lora_rank and its like, as a model section */
    bool root, by_tensors; /* by_tensors: the list of layers follows from the names of tensors */
    const char *words;
};

/* --- adapter_config.json --- */

/* Settings that do not change the computation, or that are read here. */
static const char *const harmless[] = {"peft_type",
                                       "r",
                                       "lora_alpha",
                                       "lora_dropout",
                                       "use_rslora",
                                       "target_modules",
                                       "exclude_modules",
                                       "modules_to_save",
                                       "rank_pattern",
                                       "alpha_pattern",
                                       "layers_to_transform",
                                       "layers_pattern",
                                       "fan_in_fan_out",
                                       "init_lora_weights",
                                       "bias",
                                       "task_type",
                                       "inference_mode",
                                       "base_model_name_or_path",
                                       "revision",
                                       "peft_version",
                                       "auto_mapping",
                                       "megatron_core",
                                       "qalora_group_size",
                                       "runtime_config",
                                       NULL};

/* True for a value that switches a setting off: null, false, 0, "", [] and {}. */
static bool is_off(const clt_json *value)
{
    switch (clt_json_typeof(value)) {
    case CLT_JSON_NULL:
        return true;
    case CLT_JSON_BOOL:
        return !clt_json_bool(value);
    case CLT_JSON_NUMBER:
        return clt_pretrained_equal(clt_json_number(value), 0);
    case CLT_JSON_STRING:
        return !*clt_json_string(value);
    default:
        return clt_json_count(value) == 0;
    }
}

static bool in_list(const char *const *list, const char *name)
{
    for (; *list; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

/* Notes all other settings as problems unless they are off, in whatever release of PEFT they were added. */
static void refuse_others(clt_pretrained *p)
{
    for (const clt_json *v = clt_json_first(p->root); v; v = clt_json_next(v))
        if (!in_list(harmless, clt_json_key(v)) && !is_off(v))
            clt_pretrained_problem(p, clt_json_key(v), "is set, and cltrain does not support it");
    const clt_json *init = clt_json_given(p->root, "init_lora_weights"),
                   *bias = clt_json_given(p->root, "bias");
    if (clt_json_typeof(init) == CLT_JSON_STRING && strcmp(clt_json_string(init), "gaussian") != 0)
        clt_pretrained_problem(p, "init_lora_weights",
                               "such adapters change the weights of the base model when they begin; save the "
                               "adapter converted to an ordinary one");
    if (bias && strcmp(clt_json_string(bias), "none") != 0)
        clt_pretrained_problem(p, "bias",
                               "is not none: cltrain does not train biases together with adapters");
}

static void read_numbers(clt_peft *a)
{
    clt_pretrained *p = &a->p;
    double dropout = clt_pretrained_number(p, p->root, "lora_dropout", 0);
    a->root = clt_pretrained_bool(p, "use_rslora", false);
    if (!clt_json_int_within(clt_json_get(p->root, "r"), 1, MAX_RANK, &a->rank))
        clt_pretrained_problem(p, "r", "is not a whole number from 1 to 65536");
    a->alpha = clt_json_number(clt_json_get(p->root, "lora_alpha"));
    if (!(a->alpha > 0 && a->alpha <= 1e6))
        clt_pretrained_problem(p, "lora_alpha",
                               "is not a number above 0, so the adapter would change nothing");
    if (!(dropout >= 0 && dropout < 1))
        clt_pretrained_problem(p, "lora_dropout", "must be at least 0 and below 1");
    a->scale = a->rank > 0 ? a->alpha / (a->root ? sqrt((double)a->rank) : (double)a->rank) : 0;
    clt_pretrained_add(p, "model.lora_rank", clt_arena_printf(p->arena, "%lld", (long long)a->rank),
                       clt_arena_printf(p->arena, "the adapter's r is %lld", (long long)a->rank),
                       CLT_PRESET_EQUAL, NULL);
    clt_pretrained_add_number(p, "model.lora_alpha", a->alpha, "the adapter's lora_alpha", CLT_PRESET_EQUAL);
    clt_pretrained_add(p, "model.lora_rs", a->root ? "true" : "false",
                       a->root ? "the adapter's use_rslora is true" : "the adapter's use_rslora is false",
                       CLT_PRESET_EQUAL, NULL);
    clt_pretrained_add_number(p, "model.lora_dropout", dropout, "the adapter's lora_dropout",
                              CLT_PRESET_DEFAULT);
}

/* A path of a layer without the prefix that published weights of any family have. */
static const char *bare(const char *name)
{
    int count;
    const clt_model_family *const *families = clt_model_families(&count);
    for (int i = 0; i < count; i++) {
        const char *prefix = families[i]->published ? families[i]->published->prefix : "";
        if (*prefix && strncmp(name, prefix, strlen(prefix)) == 0)
            return name + strlen(prefix);
    }
    return name;
}

/* Reads rank_pattern or alpha_pattern into our key of the same name. In PEFT its names are regular
 * expressions; a name that is more than the plain name of a layer is refused. */
static clt_status read_pattern(clt_peft *a, const char *name, const char *key, bool whole, double most)
{
    clt_pretrained *p = &a->p;
    const clt_json *map = clt_json_given(p->root, name);
    CLT_SCOPED(clt_str) text = {0}, entry = {0};
    clt_json_writer w = clt_json_writer_make(&text, 0);
    int64_t rank;
    if (map && clt_json_typeof(map) != CLT_JSON_OBJECT)
        clt_pretrained_problem(p, name, "is not an object of names with numbers");
    clt_jw_array(&w);
    for (const clt_json *v = clt_json_first(map); v; v = clt_json_next(v)) {
        const char *layer = clt_json_key(v) ? clt_json_key(v) : "";
        double number = clt_json_number(v);
        if (!*layer || strpbrk(layer, "*?[]()|^$+\\{}="))
            clt_pretrained_problem(p, name, "holds a regular expression; cltrain takes names of layers");
        if (strcmp(layer, "all-linear") == 0) /* PEFT takes it for a layer's name here; no layer has it */
            clt_pretrained_problem(p, name, "holds all-linear, which PEFT takes for the name of a layer");
        if (!(number > 0 && number <= most) || (whole && !clt_json_int(v, &rank)))
            clt_pretrained_problem(p, name, "holds something else than a number in range");
        entry.length = 0;
        clt_str_printf(&entry, "%s=%.17g", bare(layer), number);
        CLT_TRY(clt_str_check(&entry));
        clt_jw_string(&w, entry.text);
    }
    clt_jw_end_array(&w);
    CLT_TRY(clt_str_check(&text));
    if (clt_json_count(map) > 0)
        clt_pretrained_add(p, key, clt_arena_strdup(p->arena, text.text),
                           clt_arena_printf(p->arena, "the adapter's %s says so", name), CLT_PRESET_EQUAL,
                           NULL);
    return CLT_OK;
}

/* A list of layers is used directly. If the setting is a pattern, or other settings restrict it, the names of
 * the tensors show which layers have adapters. */
static void read_targets(clt_peft *a)
{
    clt_pretrained *p = &a->p;
    const clt_json *targets = clt_json_given(p->root, "target_modules");
    bool list = clt_json_typeof(targets) == CLT_JSON_ARRAY && clt_json_count(targets) > 0;
    if (!list && !(clt_json_typeof(targets) == CLT_JSON_STRING && *clt_json_string(targets)))
        clt_pretrained_problem(p, "target_modules", "is neither a list of layers nor a pattern");
    for (const clt_json *e = list ? clt_json_first(targets) : NULL; e; e = clt_json_next(e))
        if (clt_json_typeof(e) != CLT_JSON_STRING || strpbrk(clt_json_string(e), "*?[\\"))
            clt_pretrained_problem(p, "target_modules", "holds something that is not the name of a layer");
    a->by_tensors =
        !list || clt_json_given(p->root, "exclude_modules") || clt_json_given(p->root, "layers_to_transform");
}

static clt_status read_config(clt_peft *a)
{
    clt_pretrained *p = &a->p;
    CLT_FREED char *text = NULL;
    size_t size;
    if (!clt_is_regular(p->config_path))
        CLT_FAIL(CLT_ECHECKPOINT,
                 "'%.600s' holds no adapter_config.json, so it is not an adapter that PEFT saved", p->folder);
    CLT_TRY(clt_file_read(p->config_path, false, CONFIG_MAX_BYTES, CLT_ECHECKPOINT, &text, &size));
    CLT_TRY(clt_json_parse(text, size, p->config_path, CLT_ECHECKPOINT, &p->doc));
    p->root = clt_json_root(p->doc);
    if (clt_json_typeof(p->root) != CLT_JSON_OBJECT)
        CLT_FAIL(CLT_ECHECKPOINT, "reading '%s': it is not a JSON object, so not the config of an adapter",
                 p->config_path);
    const char *kind = clt_json_string(clt_json_get(p->root, "peft_type"));
    if (strcmp(kind, "LORA") != 0)
        CLT_FAIL(CLT_EUNSUPPORTED, "reading '%s': peft_type is '%.60s'; cltrain takes LORA", p->config_path,
                 kind);
    read_numbers(a);
    CLT_TRY(read_pattern(a, "rank_pattern", "model.lora_rank_pattern", true, MAX_RANK));
    CLT_TRY(read_pattern(a, "alpha_pattern", "model.lora_alpha_pattern", false, 1e6));
    read_targets(a);
    const clt_json *parts = clt_json_given(p->root, "modules_to_save");
    if (parts && clt_json_typeof(parts) != CLT_JSON_ARRAY)
        clt_pretrained_problem(p, "modules_to_save", "is not a list of names");
    refuse_others(p);
    CLT_TRY(clt_str_check(&p->problems));
    if (p->problems.length)
        CLT_FAIL(CLT_EUNSUPPORTED, "'%.600s' describes an adapter that cltrain cannot use:%.3000s",
                 p->config_path, p->problems.text);
    return CLT_OK;
}

/* --- adapter_model.safetensors --- */

/* The length of the layer's name, including WRAPPER, in a tensor's name; 0: not a tensor of an adapter. */
static size_t layer_length(const char *name, bool *of_a)
{
    size_t length = clt_adapter_layer(name, of_a);
    return strncmp(name, WRAPPER, strlen(WRAPPER)) != 0 ? 0 : length;
}

/* For a tensor of a part that was trained whole (named in modules_to_save): the length of the part's path,
 * including WRAPPER. 0: the tensor is of another kind. */
static size_t part_length(const clt_peft *a, const char *name)
{
    const clt_json *list = clt_json_given(a->p.root, "modules_to_save");
    bool of_a;
    if (clt_adapter_layer(name, &of_a) > 0 || clt_ends_with(name, END_BASE))
        return 0;
    for (const char *dot = strchr(name + strlen(WRAPPER), '.'); dot; dot = strchr(dot + 1, '.'))
        for (const clt_json *v = clt_json_first(list); v; v = clt_json_next(v)) {
            size_t part = strlen(clt_json_string(v)), length = (size_t)(dot - name);
            if (part > 0 && part < length && strncmp(dot - part, clt_json_string(v), part) == 0 &&
                dot[-(ptrdiff_t)part - 1] == '.')
                return (size_t)(strrchr(name, '.') - name);
        }
    return 0;
}

/* The rank of the layer whose path is the first `length` bytes of `path`, without WRAPPER. */
static int64_t rank_of(const clt_peft *a, const char *path, size_t length)
{
    const char *layer = clt_arena_printf(a->p.arena, "%.*s", (int)length, path);
    return layer ? clt_lora_size_of(clt_json_root(a->section), bare(layer)).rank : 0;
}

static clt_status check_tensor(const clt_peft *a, const clt_named_tensor *t)
{
    bool of_a;
    size_t length = layer_length(t->name, &of_a);
    char shape[CLT_SHAPE_TEXT];
    if (strncmp(t->name, WRAPPER, strlen(WRAPPER)) != 0)
        CLT_FAIL(CLT_ECHECKPOINT,
                 "reading the adapter '%.600s': the name of tensor '%.200s' does not begin with " WRAPPER
                 ", as PEFT writes it, so PEFT itself would ignore it",
                 a->p.folder, t->name);
    if (clt_ends_with(t->name, END_BASE) || part_length(a, t->name) > 0)
        return CLT_OK;
    if (length <= strlen(WRAPPER))
        CLT_FAIL(CLT_EUNSUPPORTED,
                 "reading the adapter '%.600s': tensor '%.200s' is neither " CLT_ADAPTER_A
                 " nor " CLT_ADAPTER_B " of a linear layer, neither " CLT_ADAPTER_TABLE_A
                 " nor " CLT_ADAPTER_TABLE_B
                 " of an embedding, nor a part that adapter_config.json names as modules_to_save; cltrain "
                 "reads only these",
                 a->p.folder, t->name);
    int64_t rank = rank_of(a, t->name + strlen(WRAPPER), length - strlen(WRAPPER));
    if (t->shape.ndim != 2 || t->shape.dim[of_a ? 0 : 1] != rank)
        CLT_FAIL(CLT_ECHECKPOINT,
                 "reading the adapter '%.600s': tensor '%.200s' has shape %s, and adapter_config.json says "
                 "rank %lld, which must be its %s dimension",
                 a->p.folder, t->name, clt_shape_text(&t->shape, shape, sizeof shape), (long long)rank,
                 of_a ? "first" : "second");
    return CLT_OK;
}

static clt_status add_square(const clt_named_tensor *t, double *sum)
{
    CLT_FREED float *values = NULL;
    int64_t n = clt_shape_elements(&t->shape);
    CLT_TRY(clt_alloc(&values, (size_t)n + 1, sizeof *values, "an adapter"));
    CLT_TRY(clt_named_tensor_to_f32(t, values));
    for (int64_t i = 0; i < n; i++)
        *sum += (double)values[i] * (double)values[i];
    return CLT_OK;
}

static clt_status check_tensors(clt_peft *a)
{
    bool of_a;
    double square = 0;
    int count = 0, whole = 0;
    for (int i = 0; i < clt_safetensors_count(a->file); i++) {
        const clt_named_tensor *t = clt_safetensors_at(a->file, i);
        CLT_TRY(check_tensor(a, t));
        count += layer_length(t->name, &of_a) > 0;
        whole += part_length(a, t->name) > 0;
        if (clt_ends_with(t->name, CLT_ADAPTER_B) || clt_ends_with(t->name, CLT_ADAPTER_TABLE_A))
            CLT_TRY(clt_fail_prefix(add_square(t, &square), "reading the adapter '%.600s'",
                                    a->p.folder)); /* adds the factor that starts at zero */
    }
    if (count == 0)
        CLT_FAIL(CLT_ECHECKPOINT, "reading the adapter '%.600s': its file holds no tensors", a->p.folder);
    const clt_json *parts = clt_json_given(a->p.root, "modules_to_save");
    /* PEFT lists parts by default that a model may lack */
    if (clt_json_count(parts) > 0 && whole == 0)
        CLT_FAIL(
            CLT_ECHECKPOINT,
            "reading the adapter '%.600s': adapter_config.json names modules_to_save, and the file holds "
            "none of them",
            a->p.folder);
    const char *trained = whole > 0 ? clt_arena_printf(a->p.arena, ", %d tensor%s of parts trained whole",
                                                       whole, CLT_PLURAL(whole))
                                    : "";
    a->words =
        clt_arena_printf(a->p.arena, "%d tensor%s of %d layer%s, rank %lld, scale %.6g, norm of B %.4g%s%s",
                         count, CLT_PLURAL(count), count / 2, CLT_PLURAL(count / 2), (long long)a->rank,
                         a->scale, sqrt(square), trained ? trained : "",
                         !isfinite(square)         ? ": not all of its values are finite"
                         : square > 0 || whole > 0 ? ""
                                                   : ": it changes nothing yet");
    return a->words ? CLT_OK : CLT_ENOMEM;
}

static clt_status open_file(clt_peft *a)
{
    CLT_FREED char *path = NULL;
    CLT_TRY(clt_path_join(a->p.folder, "adapter_model.safetensors", &path));
    if (!clt_is_regular(path))
        CLT_FAIL(CLT_ECHECKPOINT,
                 "'%.600s' holds no adapter_model.safetensors; save the adapter with "
                 "model.save_pretrained(folder, safe_serialization=True)",
                 a->p.folder);
    CLT_TRY(clt_safetensors_open(path, &a->file));
    return check_tensors(a);
}

/* --- the layers --- */

/* Adds the key model.lora_targets. */
static clt_status add_targets(clt_peft *a)
{
    clt_pretrained *p = &a->p;
    CLT_SCOPED(clt_str) text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 0);
    bool of_a;
    clt_jw_array(&w);
    for (int i = 0; i < clt_safetensors_count(a->file) && a->by_tensors; i++) {
        const char *name = clt_safetensors_at(a->file, i)->name;
        size_t length = layer_length(name, &of_a);
        const char *layer = clt_arena_printf(p->arena, "%.*s", (int)length, name);
        if (layer && length > 0 && of_a)
            clt_jw_string(&w, bare(layer + strlen(WRAPPER)));
    }
    const clt_json *list = a->by_tensors ? NULL : clt_json_get(p->root, "target_modules");
    for (const clt_json *e = clt_json_first(list); e; e = clt_json_next(e))
        clt_jw_string(&w, bare(clt_json_string(e)));
    clt_jw_end_array(&w);
    CLT_TRY(clt_str_check(&text));
    clt_pretrained_add(p, "model.lora_targets", clt_arena_strdup(p->arena, text.text),
                       a->by_tensors ? "the adapter's tensors name these layers"
                                     : "the adapter's target_modules are these",
                       CLT_PRESET_EQUAL, NULL);
    return CLT_OK;
}

/* Adds the key model.lora_modules_to_save, if the file holds parts that were trained whole. */
static clt_status add_parts(clt_peft *a)
{
    clt_pretrained *p = &a->p;
    CLT_SCOPED(clt_str) text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 0);
    const char *before = NULL;
    clt_jw_array(&w);
    for (int i = 0; i < clt_safetensors_count(a->file); i++) {
        const char *name = clt_safetensors_at(a->file, i)->name;
        size_t length = part_length(a, name);
        const char *part = clt_arena_printf(p->arena, "%.*s", (int)length, name);
        if (!part)
            return CLT_ENOMEM;
        if (length > 0 && !(before && strcmp(before, part) == 0)) /* repeated names do no harm */
            clt_jw_string(&w, bare(part + strlen(WRAPPER)));
        before = length > 0 ? part : before;
    }
    clt_jw_end_array(&w);
    CLT_TRY(clt_str_check(&text));
    if (before)
        clt_pretrained_add(p, "model.lora_modules_to_save", clt_arena_strdup(p->arena, text.text),
                           "the adapter's file holds these parts whole", CLT_PRESET_EQUAL, NULL);
    return CLT_OK;
}

/* --- opening --- */

/* Makes a model section of the keys, for clt_lora_size_of. */
static clt_status make_section(clt_peft *a)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_str_append(&text, "{");
    for (int i = 0; i < a->p.count; i++)
        clt_str_printf(&text, "%s\"%s\":%s", i ? "," : "", a->p.items[i].key + strlen("model."),
                       a->p.items[i].value ? a->p.items[i].value : "null");
    clt_str_append(&text, "}");
    CLT_TRY(clt_str_check(&text));
    return clt_json_parse(text.text, text.length, a->p.config_path, CLT_ECHECKPOINT, &a->section);
}

static clt_status open_all(clt_peft *a, const char *folder)
{
    clt_pretrained *p = &a->p;
    CLT_TRY(clt_arena_create(&p->arena));
    p->folder = clt_arena_strdup(p->arena, folder);
    p->config_path = clt_arena_printf(p->arena, "%s/adapter_config.json", folder);
    if (!p->folder || !p->config_path)
        return CLT_ENOMEM;
    if (!clt_is_directory(folder))
        CLT_FAIL(CLT_ECHECKPOINT, "adapter: '%.800s' is not a folder; name one that PEFT saved", folder);
    CLT_TRY(read_config(a));
    CLT_TRY(make_section(a));
    CLT_TRY(open_file(a));
    CLT_TRY(add_targets(a));
    CLT_TRY(add_parts(a));
    CLT_TRY(clt_safetensors_strip_prefix(a->file, WRAPPER));
    for (int i = 0; i < p->count; i++)
        if (!p->items[i].value || !p->items[i].reason)
            return CLT_ENOMEM;
    return CLT_OK;
}

clt_status clt_peft_open(const char *folder, clt_peft **out)
{
    CLT_SCOPED(clt_peft) *a = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&a, 1, sizeof *a, "an adapter"));
    CLT_TRY(open_all(a, folder));
    *out = CLT_TAKE(a);
    return CLT_OK;
}

void clt_peft_close(clt_peft *a)
{
    if (!a)
        return;
    clt_safetensors_close(a->file);
    clt_str_free(&a->p.problems);
    clt_json_destroy(a->section);
    clt_json_destroy(a->p.doc);
    clt_arena_destroy(a->p.arena);
    free(a);
}

const clt_config_presets *clt_peft_presets(clt_peft *a)
{
    a->p.presets = (clt_config_presets){a->p.config_path, a->p.items, a->p.count};
    return &a->p.presets;
}

const char *clt_peft_words(const clt_peft *a)
{
    return a->words;
}

/* Checks that a copy of a weight in the adapter's file equals the weight of the base: an adapter of a model
 * with other rows would compute something else. */
static clt_status check_base(const clt_peft *a, const clt_safetensors *base, const clt_named_tensor *copy)
{
    CLT_FREED float *theirs = NULL, *ours = NULL;
    const char *name =
        clt_arena_printf(a->p.arena, "%.*s.weight", (int)clt_stem(copy->name, END_BASE), copy->name);
    if (!name)
        return CLT_ENOMEM;
    const clt_named_tensor *weight = clt_safetensors_find(base, name);
    weight = weight ? weight : clt_safetensors_find(base, bare(name));
    bool same = weight && clt_shape_equal(&weight->shape, &copy->shape);
    size_t n = same ? (size_t)clt_shape_elements(&copy->shape) : 0;
    CLT_TRY(clt_alloc(&theirs, n + 1, sizeof *theirs, "an adapter"));
    CLT_TRY(clt_alloc(&ours, n + 1, sizeof *ours, "an adapter"));
    if (same) {
        CLT_TRY(clt_named_tensor_to_f32(copy, theirs));
        CLT_TRY(clt_named_tensor_to_f32(weight, ours));
        same = memcmp(ours, theirs, n * sizeof *ours) == 0;
    }
    if (!same)
        CLT_FAIL(CLT_ECHECKPOINT,
                 "reading the adapter '%.600s': it brings a copy of %.200s that is not the model's; merge it "
                 "into its own base with PEFT (merge_and_unload), and take the result as --init",
                 a->p.folder, name);
    return CLT_OK;
}

static bool is_copy(const void *context, const char *name)
{
    (void)context;
    return clt_ends_with(name, END_BASE);
}

/* True for a tensor of the base that a tensor of the adapter's file (`context`) replaces. */
static bool is_replaced(const void *context, const char *name)
{
    const clt_safetensors *file = context;
    for (int i = 0; i < clt_safetensors_count(file); i++) {
        const char *own = clt_safetensors_at(file, i)->name;
        if (strcmp(own, name) == 0 || strcmp(bare(own), bare(name)) == 0)
            return true;
    }
    return false;
}

clt_status clt_peft_join(clt_peft *a, clt_safetensors **base)
{
    for (int i = 0; i < clt_safetensors_count(a->file); i++)
        if (clt_ends_with(clt_safetensors_at(a->file, i)->name, END_BASE))
            CLT_TRY(check_base(a, *base, clt_safetensors_at(a->file, i)));
    clt_safetensors_remove_if(a->file, is_copy, NULL);
    clt_safetensors_remove_if(*base, is_replaced, a->file);
    return clt_safetensors_join(base, CLT_TAKE(a->file), a->p.folder);
}

clt_status clt_peft_put_on(clt_saved_run *saved, const char *folder)
{
    CLT_SCOPED(clt_peft) *a = NULL;
    if (clt_config_part_has(clt_config_chosen(saved->config, "model.type"), "model.lora_rank") &&
        clt_config_int(saved->config, "model.lora_rank") > 0)
        CLT_FAIL(CLT_EUSAGE, "--adapter: the run '%.600s' already has adapters; remove --adapter",
                 saved->path);
    CLT_TRY(clt_peft_open(folder, &a));
    for (int i = 0; i < a->p.count; i++)
        CLT_TRY(clt_config_set(saved->config, a->p.items[i].key, a->p.items[i].value));
    return clt_peft_join(a, &saved->checkpoint->model);
}
