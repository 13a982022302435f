/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads sweep.json and the config that it names, and checks the config of every trial. Messages name the file
 * and the place in it. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/data/data.h"
#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"
#include "engine/files/remote_files.h"
#include "engine/pretrained/pretrained.h"
#include "engine/pretrained/start.h"
#include "engine/sweep/sweep_internal.h"

#define MAX_BYTES 1000000
#define COUNT(list) (sizeof(list) / sizeof(list)[0])

void clt_sweep_free(clt_sweep *sweep)
{
    if (!sweep)
        return;
    clt_config_destroy(sweep->config);
    clt_arena_destroy(sweep->arena); /* the arena holds the sweep itself */
}

/* State of the reader of one sweep. */
typedef struct reader {
    const clt_json_doc *doc;
    clt_sweep *sweep;
    int64_t trials;  /* 0: not given */
    clt_start start; /* says which weights the trials start from */
    bool trains;     /* the sweep will train; false: it is only shown */
} reader;

/* CLT_ECONFIG with the place of a value. */
__attribute__((format(printf, 3, 4))) static clt_status refuse(const reader *r, const clt_json *value,
                                                               const char *format, ...)
{
    char text[1024];
    int line = 1, column = 1;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    clt_json_position(value, &line, &column);
    CLT_FAIL(CLT_ECONFIG, "%s:%d:%d: %s", clt_json_source(r->doc), line, column, text);
}

static clt_status no_memory(void)
{
    CLT_FAIL(CLT_ENOMEM, "reading a sweep: out of host memory");
}

static clt_status keep_text(const reader *r, const char *text, const char **out)
{
    *out = clt_arena_strdup(r->sweep->arena, text);
    return *out ? CLT_OK : no_memory();
}

/* --- values of the members --- */

static clt_status check_type(const reader *r, const clt_json *value, clt_json_type type)
{
    if (clt_json_typeof(value) == type)
        return CLT_OK;
    return refuse(r, value, "%s: %s is expected, not %s", clt_json_key(value), clt_json_type_name(type),
                  clt_json_type_name(clt_json_typeof(value)));
}

/* Refuses members of an object that have none of these names. */
static clt_status check_members(const reader *r, const clt_json *object, const char *const *names,
                                size_t count)
{
    CLT_TRY(check_type(r, object, CLT_JSON_OBJECT));
    for (const clt_json *member = clt_json_first(object); member; member = clt_json_next(member)) {
        const char *name = clt_json_key(member);
        bool known = false;
        for (size_t i = 0; i < count; i++)
            known = known || strcmp(names[i], name) == 0;
        const char *near = known ? NULL : clt_nearest_name(name, names, count);
        if (near)
            return refuse(r, member, "%s: unknown member; did you mean '%s'?", name, near);
        CLT_SCOPED(clt_str) all = {0};
        for (size_t i = 0; !known && i < count; i++)
            clt_str_printf(&all, "%s%s", i ? ", " : "", names[i]);
        if (!known)
            return refuse(r, member, "%s: unknown member; there are %s", name, all.text ? all.text : "");
    }
    return CLT_OK;
}

/* An integer of at least `least`; *out stays as it is if the object does not have the member. */
static clt_status read_whole(const reader *r, const clt_json *object, const char *name, int64_t least,
                             int64_t most, int64_t *out)
{
    const clt_json *value = clt_json_get(object, name);
    if (!value)
        return CLT_OK;
    if (!clt_json_int_within(value, least, most, out))
        return refuse(r, value, "%s: an integer from %lld to %lld is expected", name, (long long)least,
                      (long long)most);
    return CLT_OK;
}

/* The index of a word in a list; -1: the member is absent. */
static clt_status read_word(const reader *r, const clt_json *object, const char *name,
                            const char *const *words, size_t count, int *out)
{
    const clt_json *value = clt_json_get(object, name);
    CLT_SCOPED(clt_str) all = {0};
    *out = -1;
    if (!value)
        return CLT_OK;
    CLT_TRY(check_type(r, value, CLT_JSON_STRING));
    for (size_t i = 0; i < count; i++) {
        if (clt_json_is(value, words[i])) {
            *out = (int)i;
            return CLT_OK;
        }
        clt_str_printf(&all, "%s%s", i ? ", " : "", words[i]);
    }
    const char *near = clt_nearest_name(clt_json_string(value), words, count);
    if (near)
        return refuse(r, value, "%s: there is no '%s'; did you mean '%s'?", name, clt_json_string(value),
                      near);
    return refuse(r, value, "%s: there is no '%s'; there are %s", name, clt_json_string(value),
                  all.text ? all.text : "");
}

static clt_status value_text(const reader *r, const clt_json *value, const char **out)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 0);
    clt_jw_value(&w, value);
    CLT_TRY(clt_str_check(&text));
    return keep_text(r, text.text, out);
}

/* --- keys --- */

/* True if values of the key are integers. An unknown key is reported when the trials' configs are read. */
static bool is_whole(const char *path)
{
    for (const clt_config_key *key = clt_config_schema(); key->path; key++)
        if (strcmp(key->path, path) == 0)
            return key->type == CLT_CFG_INT || key->type == CLT_CFG_AUTO_INT || key->type == CLT_CFG_INTS ||
                   key->type == CLT_CFG_LAYERS;
    return false;
}

static clt_status read_end(const reader *r, const clt_json *object, const char *name, double *out)
{
    const clt_json *value = clt_json_get(object, name);
    if (!value)
        return refuse(r, object, "%s: it needs \"values\", or \"from\" and \"to\"", clt_json_key(object));
    if (clt_json_typeof(value) != CLT_JSON_NUMBER)
        return refuse(r, value, "%s: a number is expected", name);
    *out = clt_json_number(value);
    return CLT_OK;
}

static clt_status check_range(const reader *r, const clt_json *object, const clt_sweep_range *range)
{
    const char *path = clt_json_key(object);
    if (!(range->from < range->to))
        return refuse(r, object, "%s: \"from\" must be less than \"to\"", path);
    if (range->log && !(range->from > 0))
        return refuse(r, object, "%s: \"scale\": \"log\" needs a \"from\" above 0", path);
    if (range->whole && (floor(range->from) != range->from || floor(range->to) != range->to ||
                         fabs(range->from) > 1e15 || fabs(range->to) > 1e15))
        return refuse(r, object, "%s: the key takes integers, so \"from\" and \"to\" must be integers", path);
    if (range->step > 0 && (range->count > 0 || range->log))
        return refuse(r, object, "%s: \"step\" goes neither with \"count\" nor with \"scale\": \"log\"",
                      path);
    if (r->sweep->method == CLT_SWEEP_GRID && !(range->step > 0) && range->count == 0)
        return refuse(r, object, "%s: a grid needs the values: give \"values\", or \"step\" or \"count\"",
                      path);
    return CLT_OK;
}

static clt_status read_range(const reader *r, const clt_json *object, clt_sweep_key *key)
{
    static const char *const scales[] = {"linear", "log"};
    clt_sweep_range range = {.whole = is_whole(key->path)};
    const clt_json *step = clt_json_get(object, "step");
    int scale;
    CLT_TRY(read_end(r, object, "from", &range.from));
    CLT_TRY(read_end(r, object, "to", &range.to));
    CLT_TRY(read_word(r, object, "scale", scales, COUNT(scales), &scale));
    CLT_TRY(read_whole(r, object, "count", 2, CLT_SWEEP_TRIALS, &range.count));
    range.log = scale == 1;
    if (step)
        range.step = clt_json_number(step);
    if (step && (!(range.step > 0) || (range.whole && floor(range.step) != range.step)))
        return refuse(r, step, "step: %s above 0 is expected", range.whole ? "an integer" : "a number");
    CLT_TRY(check_range(r, object, &range));
    key->from = range.from;
    key->to = range.to;
    key->log = range.log;
    key->whole = range.whole;
    if (!(range.step > 0) && range.count == 0)
        return CLT_OK;
    if (range.step > 0 && (range.to - range.from) / range.step >= CLT_SWEEP_TRIALS)
        return refuse(r, object, "%s: there are more than %d values", key->path, CLT_SWEEP_TRIALS);
    return clt_sweep_points(r->sweep->arena, &range, &key->values, &key->count);
}

static clt_status read_values(const reader *r, const clt_json *list, clt_sweep_key *key)
{
    CLT_TRY(check_type(r, list, CLT_JSON_ARRAY));
    size_t count = clt_json_count(list);
    if (count == 0 || count > CLT_SWEEP_TRIALS)
        return refuse(r, list, "%s: 1 to %d values are expected", key->path, CLT_SWEEP_TRIALS);
    key->values = clt_arena_alloc(r->sweep->arena, count * sizeof *key->values);
    if (!key->values)
        return no_memory();
    for (const clt_json *value = clt_json_first(list); value; value = clt_json_next(value)) {
        CLT_TRY(value_text(r, value, &key->values[key->count]));
        for (int i = 0; i < key->count && r->trains; i++)
            if (strcmp(key->values[i], key->values[key->count]) == 0)
                return refuse(r, value, "%s: %s is listed twice, which would train the same trial twice",
                              key->path, key->values[i]);
        key->count++;
    }
    return CLT_OK;
}

static clt_status read_keys(const reader *r, const clt_json *keys)
{
    static const char *const names[] = {"values", "from", "to", "scale", "step", "count"};
    clt_sweep *s = r->sweep;
    if (clt_json_typeof(keys) != CLT_JSON_OBJECT || clt_json_count(keys) == 0)
        return refuse(
            r, keys ? keys : clt_json_root(r->doc),
            "keys: an object is expected with the keys of the config that take several values, such "
            "as {\"optimizer.learning_rate\": {\"values\": [0.001, 0.003]}}");
    for (const clt_json *object = clt_json_first(keys); object; object = clt_json_next(object)) {
        if (s->key_count == CLT_SWEEP_KEYS)
            return refuse(r, object, "keys: at most %d keys may vary", CLT_SWEEP_KEYS);
        clt_sweep_key *key = &s->keys[s->key_count++];
        CLT_TRY(keep_text(r, clt_json_key(object), &key->path));
        CLT_TRY(check_members(r, object, names, COUNT(names)));
        const clt_json *list = clt_json_get(object, "values");
        if (list && clt_json_count(object) > 1)
            return refuse(r, object, "%s: \"values\" cannot be combined with other members", key->path);
        CLT_TRY(list ? read_values(r, list, key) : read_range(r, object, key));
        if (s->method == CLT_SWEEP_HALVING &&
            (strcmp(key->path, "train.steps") == 0 || strcmp(key->path, "train.epochs") == 0))
            return refuse(r, object, "%s: halving decides how long a trial is trained", key->path);
    }
    return CLT_OK;
}

static clt_status read_fixed(const reader *r, const clt_json *set)
{
    clt_sweep *s = r->sweep;
    if (!set)
        return CLT_OK;
    CLT_TRY(check_type(r, set, CLT_JSON_OBJECT));
    s->fixed = clt_arena_alloc(s->arena, (clt_json_count(set) + 1) * sizeof *s->fixed);
    if (!s->fixed)
        return no_memory();
    for (const clt_json *value = clt_json_first(set); value; value = clt_json_next(value)) {
        const char *text;
        CLT_TRY(value_text(r, value, &text));
        for (int k = 0; k < s->key_count; k++)
            if (strcmp(s->keys[k].path, clt_json_key(value)) == 0)
                return refuse(r, value, "%s: this key is also in \"keys\"; remove one of them",
                              s->keys[k].path);
        s->fixed[s->fixed_count] = clt_arena_printf(s->arena, "%s=%s", clt_json_key(value), text);
        if (!s->fixed[s->fixed_count++])
            return no_memory();
    }
    return CLT_OK;
}

/* --- the rest of the file --- */

/* Reads which metric is compared. Without "metric" it is the loss of the last evaluation, or without
 * evaluations the mean loss at the end of the training. */
static clt_status read_metric(const reader *r, const clt_json *root)
{
    static const clt_fact evaluated[] = {CLT_FACT_EVAL_LOSS, CLT_FACT_BEST_EVAL_LOSS, CLT_FACT_PERPLEXITY,
                                         CLT_FACT_MAE,       CLT_FACT_RMSE,           CLT_FACT_R2};
    static const char *const goals[] = {"min", "max"};
    const char *names[CLT_FACT_COUNT];
    clt_fact facts[CLT_FACT_COUNT];
    clt_sweep *s = r->sweep;
    size_t count = 0;
    int metric, goal;
    for (clt_fact f = 0; f < CLT_FACT_COUNT; f++)
        if (clt_fact_columns[f].better != CLT_BETTER_NEITHER) {
            names[count] = clt_fact_columns[f].key;
            facts[count++] = f;
        }
    CLT_TRY(read_word(r, root, "metric", names, count, &metric));
    CLT_TRY(read_word(r, root, "goal", goals, COUNT(goals), &goal));
    const bool evaluates = clt_source_has_eval(s->config);
    s->metric = metric >= 0 ? facts[metric] : evaluates ? CLT_FACT_EVAL_LOSS : CLT_FACT_MEAN_LOSS;
    s->more = goal >= 0 ? goal == 1 : clt_fact_columns[s->metric].better == CLT_BETTER_MORE;
    for (size_t i = 0; i < COUNT(evaluated); i++)
        if (s->metric == evaluated[i] && !evaluates && r->trains)
            return refuse(r, clt_json_get(root, "metric"),
                          "metric: %s comes from evaluations, and the config has no evaluation data",
                          clt_fact_columns[s->metric].key);
    return CLT_OK;
}

static clt_status read_halving(const reader *r, const clt_json *root)
{
    static const char *const names[] = {"first_steps", "keep"};
    const clt_json *halving = clt_json_get(root, "halving");
    clt_sweep *s = r->sweep;
    int64_t keep = 3;
    if (s->method != CLT_SWEEP_HALVING)
        return halving
                   ? refuse(r, halving,
                            "halving: only \"method\": \"halving\" uses it; remove it or change the method")
                   : CLT_OK;
    if (!halving)
        return refuse(r, root, "\"method\": \"halving\" needs \"halving\": {\"first_steps\": N}");
    CLT_TRY(check_members(r, halving, names, COUNT(names)));
    CLT_TRY(read_whole(r, halving, "first_steps", 1, INT64_C(1000000000000), &s->first_steps));
    CLT_TRY(read_whole(r, halving, "keep", 2, 100, &keep));
    if (s->first_steps == 0)
        return refuse(r, halving, "halving: \"first_steps\" is missing");
    s->keep = (int)keep;
    return CLT_OK;
}

static clt_status read_numbers(reader *r, const clt_json *root)
{
    clt_sweep *s = r->sweep;
    int64_t seed = 1;
    CLT_TRY(read_whole(r, root, "trials", 1, CLT_SWEEP_TRIALS, &r->trials));
    CLT_TRY(read_whole(r, root, "seed", 0, INT64_MAX, &seed));
    s->seed = (uint64_t)seed;
    if (s->method == CLT_SWEEP_GRID && r->trials > 0)
        return refuse(r, clt_json_get(root, "trials"),
                      "trials: a grid has one trial for each combination of its keys; remove it");
    if (s->method != CLT_SWEEP_GRID && r->trials == 0)
        return refuse(r, root, "\"trials\" is missing: the number of combinations to draw");
    return CLT_OK;
}

/* Reads the config, or the copy of it in the sweep's folder, which knows the values of "set". */
static clt_status read_config(const reader *r, const clt_json *root, const char *copy)
{
    clt_sweep *s = r->sweep;
    const clt_json *path = clt_json_get(root, "config");
    if (clt_json_typeof(path) != CLT_JSON_STRING)
        return refuse(r, path ? path : root, "config: the path of a config is expected");
    CLT_TRY(keep_text(r, copy ? copy : clt_json_string(path), &s->config_path));
    return clt_fail_prefix(
        r->trains ? clt_start_load(s->config_path, s->fixed, s->fixed_count, &r->start, &s->config)
                  : clt_config_load(s->config_path, s->fixed, s->fixed_count, &s->config),
        "%s", clt_json_source(r->doc));
}

static clt_status read_all(reader *r, const char *copy)
{
    static const char *const names[] = {"config", "method", "trials", "seed",   "metric",
                                        "goal",   "keys",   "set",    "halving"};
    static const char *const methods[] = {"grid", "random", "halving"};
    const clt_json *root = clt_json_root(r->doc);
    int method;
    if (clt_json_typeof(root) != CLT_JSON_OBJECT)
        return refuse(r, root, "a sweep is an object, this is %s", clt_json_type_name(clt_json_typeof(root)));
    CLT_TRY(check_members(r, root, names, COUNT(names)));
    CLT_TRY(read_word(r, root, "method", methods, COUNT(methods), &method));
    r->sweep->method = method < 0 ? CLT_SWEEP_GRID : (clt_sweep_method)method;
    CLT_TRY(read_numbers(r, root));
    CLT_TRY(read_halving(r, root));
    CLT_TRY(read_keys(r, clt_json_get(root, "keys")));
    CLT_TRY(read_fixed(r, clt_json_get(root, "set")));
    CLT_TRY(read_config(r, root, copy));
    CLT_TRY(read_metric(r, root));
    int64_t total = clt_config_int(r->sweep->config, "train.steps");
    if (r->sweep->method == CLT_SWEEP_HALVING && total == 0)
        return refuse(r, clt_json_get(root, "halving"),
                      "halving: it needs the length in steps: set train.steps, as in \"set\": "
                      "{\"train.steps\": 1000}");
    if (r->trains && r->sweep->method == CLT_SWEEP_HALVING && r->sweep->first_steps >= total)
        return refuse(
            r, clt_json_get(root, "halving"),
            "halving: \"first_steps\" must be less than train.steps, which is %lld: otherwise every "
            "trial is trained to its end",
            (long long)total);
    return clt_fail_prefix(clt_sweep_make_trials(r->sweep, r->trials, total), "%s", clt_json_source(r->doc));
}

/* The value of a key that only some model families have; "" if the config's family does not have the key. */
static const char *word_of(const clt_config *c, const char *key)
{
    return clt_config_part_has(clt_config_chosen(c, "model.type"), key) ? clt_config_string(c, key) : "";
}

static bool is_one_of(const char *word, const char *const *words)
{
    bool found = false;
    for (; *words; words++)
        found = found || strcmp(word, *words) == 0;
    return found;
}

/* True if runs of the config surely do not have the metric, by the model's family, its loss and its data.
 * For a list of layers this shows only after the first trial. */
static bool lacks_metric(const clt_config *c, clt_fact metric)
{
    static const char *const classifiers[] = {"resnet", "cnn3d", "unet3d", "gpt", "llama", NULL};
    static const char *const numbers[] = {"mse", "l1", "number", NULL};
    static const char *const classes[] = {"cross_entropy", "bce_with_logits", "pretrain", "masked",
                                          "class",         "tokens",          "span",     NULL};
    static const char *const texts[] = {"pretrain", "masked", NULL};
    const clt_config_part *family = clt_config_chosen(c, "model.type"),
                          *format = clt_config_chosen(c, "data.type");
    const char *loss = word_of(c, "model.loss"), *head = word_of(c, "model.head");
    bool of_numbers = is_one_of(loss, numbers) || is_one_of(head, numbers);
    bool of_classes =
        is_one_of(loss, classes) || is_one_of(head, classes) || is_one_of(family->name, classifiers);
    switch (metric) {
    case CLT_FACT_ACCURACY:
        return of_numbers;
    case CLT_FACT_MAE:
    case CLT_FACT_RMSE:
    case CLT_FACT_R2:
        return of_classes;
    case CLT_FACT_PERPLEXITY:
        return !family->language && !format->language && (of_numbers || of_classes) &&
               !is_one_of(head, texts);
    case CLT_FACT_ENERGY:
        return !(clt_config_float(c, "monitor.seconds") > 0);
    default:
        return false;
    }
}

/* Checks one trial: it writes to no file of other trials, and suits halving and the metric. */
static clt_status check_trial(const clt_sweep *s, const clt_config *config, int trial)
{
    if (s->method == CLT_SWEEP_HALVING && !clt_config_bool(config, "checkpoint.final"))
        CLT_FAIL(
            CLT_ECONFIG,
            "%s: trial %d: checkpoint.final=false: halving resumes from the checkpoint at the end of a rung",
            s->source, trial + 1);
    if (clt_stem(clt_config_string(config, "monitor.prometheus"), ".prom") > 0)
        CLT_FAIL(CLT_ECONFIG,
                 "%s: trial %d: monitor.prometheus names one file, which all trials would write; name a "
                 "folder, in which each trial writes a separate file",
                 s->source, trial + 1);
    if (lacks_metric(config, s->metric))
        CLT_FAIL(CLT_ECONFIG,
                 "%s: trial %d: metric: this training has no %s; name another one, such as eval_loss",
                 s->source, trial + 1, clt_fact_columns[s->metric].key);
    return CLT_OK;
}

static bool trials_start_alike(const clt_sweep *s)
{
    for (int k = 0; k < s->key_count; k++)
        if (strcmp(s->keys[k].path, "model.init") == 0)
            return false;
    return true;
}

/* Reads the config of a trial. presets: of the weights that all trials start from; NULL: none, or each trial
 * has its own. */
static clt_status read_trial(const reader *r, const char *text, const char *const *overrides, int count,
                             const clt_config_presets *presets, clt_config **out)
{
    const char *path = "the sweep's config.json";
    return presets ? clt_config_parse_over(text, path, overrides, count, presets, out)
                   : clt_start_parse(text, path, overrides, count, &r->start, out);
}

/* Checks the configs of all trials before any trial is trained: from the printed config, as the folder keeps
 * it and trials read it, in which every key has a value. The values of "set" are given again, so that a key
 * that has no effect beside them is refused. */
static clt_status check_trials(const reader *r)
{
    const clt_sweep *s = r->sweep;
    const char *weights = clt_start_weights(s->config);
    const clt_config_presets *presets = NULL;
    CLT_SCOPED(clt_pretrained) *pretrained = NULL;
    CLT_SCOPED(clt_str) text = {0};
    if (weights && trials_start_alike(s)) { /* opened once for all trials */
        CLT_TRY(clt_pretrained_open(weights, &pretrained));
        presets = clt_pretrained_presets(pretrained, true);
    }
    CLT_TRY(clt_config_print(s->config, true, &text));
    for (int t = 0; t < s->trials; t++) {
        CLT_SCOPED(clt_config) *config = NULL;
        CLT_SCOPED(clt_arena) *arena = NULL;
        CLT_FREED const char **overrides = NULL;
        int count = s->fixed_count + s->key_count;
        CLT_TRY(clt_arena_create(&arena));
        CLT_TRY(clt_alloc(&overrides, (size_t)count + 1, sizeof *overrides, "the values of a trial"));
        for (int i = 0; i < s->fixed_count; i++)
            overrides[i] = s->fixed[i];
        for (int k = 0; k < s->key_count; k++) {
            overrides[s->fixed_count + k] =
                clt_arena_printf(arena, "%s=%s", s->keys[k].path, s->values[t * s->key_count + k]);
            if (!overrides[s->fixed_count + k])
                return no_memory();
        }
        CLT_TRY(clt_fail_prefix(read_trial(r, text.text, overrides, count, presets, &config), "%s: trial %d",
                                s->source, t + 1));
        CLT_TRY(check_trial(s, config, t));
    }
    return CLT_OK;
}

static clt_status load(clt_sweep *s, const char *path, const char *copy, bool trains)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    CLT_FREED char *text = NULL;
    size_t length;
    reader r = {.sweep = s, .trains = trains, .start = {.init = s->init, .training = true}};
    CLT_TRY(clt_file_read(path, false, MAX_BYTES, CLT_ECONFIG, &text, &length));
    CLT_TRY(clt_json_parse(text, length, path, CLT_ECONFIG, &doc));
    r.doc = doc;
    CLT_TRY(keep_text(&r, text, &s->text));
    CLT_TRY(keep_text(&r, path, &s->source));
    CLT_TRY(read_all(&r, copy));
    return trains ? check_trials(&r) : CLT_OK;
}

bool clt_sweep_is_folder(const char *path)
{
    CLT_FREED char *file = NULL;
    bool is = clt_is_directory(path) && clt_path_join(path, "sweep.json", &file) == CLT_OK;
    return is && clt_is_regular(file);
}

/* Finds the weights that trials start from: the weights that the sweep's folder records, or the ones that
 * --init names. s->init becomes their absolute path. */
static clt_status find_init(clt_sweep *s, const char *folder, const char *init)
{
    CLT_FREED char *whole = !init ? NULL : *init ? clt_path_real(init) : strdup("");
    if (folder)
        CLT_TRY(clt_sweep_init_of(folder, s->arena, &s->init));
    if (init && !whole)
        return clt_fail_errno(CLT_EUSAGE, errno, "--init '%s'", init);
    if (folder && init && (!s->init || strcmp(s->init, whole) != 0))
        CLT_FAIL(CLT_ECONFIG, "'%s' holds a sweep whose trials start from %s%s, and not from '%s' (--init)",
                 folder, s->init && *s->init ? "the weights " : "random weights", s->init ? s->init : "",
                 init);
    if (!whole)
        return CLT_OK;
    s->init = clt_arena_strdup(s->arena, whole);
    return s->init ? CLT_OK : no_memory();
}

static clt_status read_sweep(const char *path, const char *init, bool trains, clt_sweep **out)
{
    CLT_SCOPED(clt_sweep) *sweep = NULL;
    CLT_SCOPED(clt_arena) *arena = NULL;
    CLT_FREED char *file = NULL, *copy = NULL;
    *out = NULL;
    if (clt_is_directory(path)) {
        if (!clt_sweep_is_folder(path))
            CLT_FAIL(CLT_EUSAGE, "'%s' is not the folder of a sweep: it has no sweep.json", path);
        CLT_TRY(clt_path_join(path, "sweep.json", &file));
        CLT_TRY(clt_path_join(path, "config.json", &copy));
    }
    CLT_TRY(clt_arena_create(&arena));
    sweep = clt_arena_alloc(arena, sizeof *sweep);
    if (!sweep)
        return no_memory();
    sweep->arena = CLT_TAKE(arena);
    CLT_TRY(find_init(sweep, copy ? path : NULL, init));
    CLT_TRY(load(sweep, file ? file : path, copy, trains));
    *out = CLT_TAKE(sweep);
    return CLT_OK;
}

clt_status clt_sweep_load(const char *path, const char *init, clt_sweep **out)
{
    return read_sweep(path, init, true, out);
}

clt_status clt_sweep_open(const char *folder, clt_sweep **out)
{
    return read_sweep(folder, NULL, false, out);
}
