/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads a config: reads the file, compares its sections with the schema, applies overrides and collects every
 * problem. Does not know what the values mean. */
#include "engine/config/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/config/choices.h"
#include "engine/config/config_foreign.h"
#include "engine/config/config_internal.h"
#include "engine/config/part.h"
#include "engine/files/fileio.h"

#define CONFIG_MAX_BYTES 16000000u

static clt_status config_new(const char *source, clt_config **out)
{
    clt_status status = CLT_OK;
    clt_config *config = NULL;
    CLT_TRY(clt_alloc(&config, 1, sizeof *config, "a config"));
    CLT_TRY_GOTO(clt_arena_create(&config->arena), failed);
    CLT_TRY_GOTO(clt_json_create(source, &config->given), failed);
    config->source = clt_arena_strdup(config->arena, source);
    config->values = clt_arena_alloc(config->arena, (size_t)clt_config_key_count() * sizeof *config->values);
    if (!config->source || !config->values)
        CLT_FAIL_GOTO(CLT_ENOMEM, failed, "reading config %s: out of host memory", source);
    CLT_TRY_GOTO(clt_config_read_defaults(config), failed);
    *out = config;
    return CLT_OK;
failed:
    clt_config_destroy(config);
    return status;
}

void clt_config_destroy(clt_config *config)
{
    if (!config)
        return;
    clt_json_destroy(config->model);
    clt_json_destroy(config->given);
    clt_arena_destroy(config->arena);
    free(config);
}

/* True if "_origin" of a printed config says that this value was only a default. */
static bool says_default(const clt_json_doc *doc, const char *path)
{
    const clt_json *origin = clt_json_get(clt_json_root(doc), "_origin");
    const clt_json *word = clt_json_get(origin, path);
    return clt_json_is(word, "default");
}

/* A value of the file as one line of JSON; without text if it is long. */
static clt_given_value given_in_file(clt_config *config, const clt_json *json)
{
    clt_str text = {0};
    clt_given_value value = {NULL, true};
    clt_json_writer w = clt_json_writer_make(&text, 0);
    if (clt_json_typeof(json) == CLT_JSON_OBJECT || clt_json_count(json) > 16)
        return value;
    clt_jw_value(&w, json);
    if (!text.failed && text.length < 100)
        value.text = clt_arena_strdup(config->arena, text.text);
    clt_str_free(&text);
    return value;
}

/* True for a key of earlier versions with the only value that it could have. It is ignored, since the config
 * still means the same. */
static bool is_retired(const char *path, const clt_json *json)
{
    return strcmp(path, "parallel.tensor") == 0 && clt_json_typeof(json) == CLT_JSON_NUMBER &&
           clt_json_number(json) == 1;
}

/* Reads one key of one section of the file. */
static clt_status read_key(clt_config *config, const char *section, const clt_json *json,
                           const clt_json_doc *doc, clt_config_problems *list)
{
    int line, column;
    clt_json_position(json, &line, &column);
    char *path = clt_arena_printf(config->arena, "%s.%s", section, clt_json_key(json));
    if (!path)
        CLT_FAIL(CLT_ENOMEM, "reading config %s: out of host memory", config->source);
    int index = clt_config_key_index(path);
    if (index < 0 && is_retired(path, json))
        return CLT_OK;
    if (index < 0 || strchr(clt_json_key(json), '.')) {
        clt_config_report_unknown(list, (clt_place){config->source, line, column}, section,
                                  clt_json_key(json), given_in_file(config, json));
        return CLT_OK;
    }
    clt_config_value value = {.from = says_default(doc, path) ? CLT_FROM_DEFAULT : CLT_FROM_FILE,
                              .source = config->source,
                              .line = line,
                              .column = column};
    CLT_TRY(clt_config_read_value(config, &clt_config_schema()[index], json, &value, list));
    config->values[index] = value;
    return CLT_OK;
}

static bool is_section(const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; clt_config_schema()[i].path; i++)
        if (strncmp(clt_config_schema()[i].path, name, n) == 0 && clt_config_schema()[i].path[n] == '.')
            return true;
    return false;
}

/* Reports a member of the file that is not one of our sections. It may be a key outside its section, or a
 * section of another tool, whose keys may be known. */
static void report_no_section(clt_config *config, const clt_json *member, clt_config_problems *list)
{
    const char *name = clt_json_key(member);
    size_t before = list->count;
    clt_place at = {.source = config->source};
    if (clt_json_typeof(member) == CLT_JSON_OBJECT && !clt_foreign_find(name))
        for (const clt_json *key = clt_json_first(member); key; key = clt_json_next(key)) {
            clt_json_position(key, &at.line, &at.column);
            if (clt_foreign_find(clt_json_key(key)))
                clt_config_report_unknown(list, at, name, clt_json_key(key), given_in_file(config, key));
        }
    clt_json_position(member, &at.line, &at.column);
    if (list->count == before)
        clt_config_report_unknown(list, at, NULL, name, given_in_file(config, member));
}

static clt_status read_file(clt_config *config, const clt_json_doc *doc, clt_config_problems *list)
{
    const clt_json *root = clt_json_root(doc);
    int line, column;
    if (clt_json_typeof(root) != CLT_JSON_OBJECT) {
        clt_config_report(list, config->source, 1, 1, "a config is an object with sections, this is: %s",
                          clt_json_type_name(clt_json_typeof(root)));
        return CLT_OK;
    }
    for (const clt_json *section = clt_json_first(root); section; section = clt_json_next(section)) {
        const char *name = clt_json_key(section);
        clt_json_position(section, &line, &column);
        if (strcmp(name, "_origin") == 0 && clt_json_typeof(section) == CLT_JSON_OBJECT)
            continue; /* written by clt_config_print for people; read by says_default */
        if (!is_section(name)) {
            report_no_section(config, section, list);
            continue;
        }
        if (clt_json_typeof(section) != CLT_JSON_OBJECT) {
            clt_given_value value = given_in_file(config, section);
            const clt_foreign_key *foreign = clt_foreign_find(name);
            char hint[320] = "";
            if (foreign && foreign->path)
                clt_foreign_line(foreign->path, foreign, value, hint, sizeof hint);
            clt_config_report(list, config->source, line, column,
                              "%s: expected an object with keys, got: %s%s%s", name,
                              clt_json_type_name(clt_json_typeof(section)), *hint ? "; write: " : "", hint);
            continue;
        }
        for (const clt_json *json = clt_json_first(section); json; json = clt_json_next(json))
            CLT_TRY(read_key(config, name, json, doc, list));
    }
    return CLT_OK;
}

static bool is_word(const clt_config_key *key)
{
    return key->type == CLT_CFG_STRING || key->type == CLT_CFG_CHOICE || key->type == CLT_CFG_STRINGS;
}

/* A value on the command line is read as JSON. Where the key wants a string, text that is not JSON, or is a
 * number such as 0, is taken as the string itself. */
static bool wants_text(const clt_config_key *key, const clt_json_doc *doc)
{
    clt_json_type type = doc ? clt_json_typeof(clt_json_root(doc)) : CLT_JSON_NULL;
    if (!doc)
        return true;
    if (!is_word(key) || type == CLT_JSON_STRING || (type == CLT_JSON_BOOL && key->for_bool[0]))
        return false;
    return type != CLT_JSON_OBJECT && !(type == CLT_JSON_ARRAY && key->type == CLT_CFG_STRINGS);
}

/* Accepts numbers that people and other programs write and JSON lacks: ".001", "1.", "+5", "007". */
static bool plain_number(const char *given, char text[CLT_NUMBER_TEXT])
{
    char *end = NULL;
    size_t length = strlen(given);
    if (length > 15 || !strpbrk(given, "0123456789") || strspn(given, "0123456789.+-eE") != length)
        return false;
    double value = clt_strtod(given, &end);
    if (*end || !isfinite(value))
        return false;
    clt_double_text(value, text);
    return true;
}

/* The value of an override as a JSON document. */
static clt_status override_doc(const clt_config_key *key, const char *given, const char *source,
                               clt_json_doc **doc)
{
    *doc = NULL;
    clt_status status = clt_json_parse(given, strlen(given), source, CLT_ECONFIG, doc);
    if (status == CLT_ENOMEM)
        return status;
    if (!wants_text(key, *doc))
        return CLT_OK;
    bool looks_like_json = !*doc && (*given == '[' || *given == '{' || *given == '"');
    if (looks_like_json)
        return status; /* the parser's message says where the JSON is wrong */
    char number[CLT_NUMBER_TEXT];
    CLT_SCOPED(clt_str) quoted = {0};
    clt_json_writer w = clt_json_writer_make(&quoted, 0);
    clt_json_destroy(*doc);
    *doc = NULL;
    if (!is_word(key) && plain_number(given, number))
        clt_str_append(&quoted, number);
    else
        clt_jw_string(&w, given);
    CLT_TRY(clt_str_check(&quoted));
    return clt_json_parse(quoted.text, quoted.length, source, CLT_ECONFIG, doc);
}

clt_status clt_config_read_given(clt_config *config, int index, const char *given, const char *source,
                                 clt_config_value *value, clt_config_problems *list)
{
    const clt_config_key *key = &clt_config_schema()[index];
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    *value = (clt_config_value){.from = CLT_FROM_OVERRIDE, .source = source, .s = ""};
    clt_status status = override_doc(key, given, source, &doc);
    if (status == CLT_ECONFIG) {
        value->present = value->bad = true;
        clt_config_report(list, source, 0, 0, "%s: not a JSON value (%s)", key->path, clt_error_text());
        return CLT_OK;
    }
    CLT_TRY(status);
    return clt_config_read_value(config, key, clt_json_root(doc), value, list);
}

static clt_status apply_override(clt_config *config, const char *override, clt_config_problems *list)
{
    const char *equals = strchr(override, '=');
    const char *source = clt_arena_printf(config->arena, "override '%s'", override);
    char *path = clt_arena_printf(config->arena, "%.*s", equals ? (int)(equals - override) : 0, override);
    if (!source || !path)
        CLT_FAIL(CLT_ENOMEM, "reading overrides: out of host memory");
    char *dot = strchr(path, '.');
    if (!equals || equals == override || dot == path) {
        clt_config_report(list, source, 0, 0, "expected section.key=value");
        return CLT_OK;
    }
    if (!dot) {
        clt_config_report_unknown(list, (clt_place){source, 0, 0}, NULL, path,
                                  (clt_given_value){equals + 1, false});
        return CLT_OK;
    }
    int index = clt_config_key_index(path);
    if (index < 0) {
        *dot = '\0';
        clt_config_report_unknown(list, (clt_place){source, 0, 0}, path, dot + 1,
                                  (clt_given_value){equals + 1, false});
        return CLT_OK;
    }
    clt_config_value value;
    if (config->values[index].from == CLT_FROM_OVERRIDE) {
        clt_config_report(list, source, 0, 0, "%s: given twice on the command line, also by %s", path,
                          config->values[index].source);
        return CLT_OK;
    }
    CLT_TRY(clt_config_read_given(config, index, equals + 1, source, &value, list));
    config->values[index] = value;
    return CLT_OK;
}

/* train.epochs on the command line replaces the file's train.steps as the length of the training. */
static void let_epochs_decide(clt_config *config, clt_config_problems *list)
{
    clt_config_value *steps = &config->values[clt_config_key_index("train.steps")];
    const clt_config_value *epochs = clt_config_at(config, "train.epochs");
    if (epochs->from != CLT_FROM_OVERRIDE || epochs->bad || steps->bad || steps->i < 1)
        return;
    if (steps->from == CLT_FROM_OVERRIDE) {
        clt_config_report(list, epochs->source, 0, 0,
                          "train.epochs has no effect beside train.steps, which is %lld: give only one of "
                          "them to say how long the training is",
                          (long long)steps->i);
        return;
    }
    CLT_WARN_ONCE("train.epochs=%g is given on the command line, so train.steps %lld of %s does not count",
                  epochs->f, (long long)steps->i, config->source);
    *steps = (clt_config_value){
        .present = true, .from = CLT_FROM_OVERRIDE, .source = epochs->source, .s = steps->s};
}

/* Warns of a file with both train.steps and train.epochs, unless it is a printed config, which names every
 * key. */
static void warn_of_two_lengths(const clt_config *config, const clt_json_doc *doc)
{
    const clt_config_value *steps = clt_config_at(config, "train.steps"),
                           *epochs = clt_config_at(config, "train.epochs");
    if (steps->from == CLT_FROM_FILE && steps->i > 0 && epochs->from == CLT_FROM_FILE &&
        !clt_json_get(clt_json_root(doc), "_origin"))
        CLT_WARN_ONCE(
            "%s:%d: train.epochs has no effect beside train.steps, which is %lld; remove one of them",
            config->source, epochs->line, (long long)steps->i);
}

/* Shortens a key of the schedule in the file if it is too long for the training length on the command line.
 * It becomes the same fraction of the training as in the file, or a tenth if the file gives no length; a
 * result of 0 becomes `least` steps. */
static void shorten(clt_config *config, const char *path, int64_t file_steps, int64_t least,
                    const clt_config_value *steps)
{
    clt_config_value *value = &config->values[clt_config_key_index(path)];
    if (value->from == CLT_FROM_OVERRIDE || value->bad || value->i <= 0)
        return;
    int64_t before = value->i;
    double part = file_steps > 0 ? (double)before / (double)file_steps : 0.1;
    value->i = (int64_t)((double)steps->i * (part < 1 ? part : 0.1));
    value->i = value->i > 0 ? value->i : least;
    value->f = (double)value->i;
    value->from = CLT_FROM_OVERRIDE;
    value->source = steps->source;
    value->line = value->column = 0;
    CLT_WARN_ONCE("%s is %lld instead of %lld, since the training is shorter: %s", path, (long long)value->i,
                  (long long)before, steps->source);
}

/* If train.steps on the command line is not above the file's warm-up and final decay together, shortens
 * both. A printed config, such as a run keeps, is not changed, because its schedule has begun. */
static void fit_schedule(clt_config *config, const clt_json_doc *doc, int64_t file_steps)
{
    const clt_config_value *steps = clt_config_at(config, "train.steps"),
                           *warmup = clt_config_at(config, "schedule.warmup"),
                           *decay = clt_config_at(config, "schedule.decay_steps");
    bool decays = !clt_config_at(config, "schedule.type")->bad &&
                  clt_config_choice(config, "schedule.type") == CLT_SCHEDULE_WSD;
    if (steps->from != CLT_FROM_OVERRIDE || steps->bad || steps->i < 1 ||
        clt_config_at(config, "schedule.horizon")->i > 0 || warmup->i + (decays ? decay->i : 0) < steps->i ||
        clt_json_get(clt_json_root(doc), "_origin"))
        return;
    shorten(config, "schedule.warmup", file_steps, 1, steps);
    if (decays)
        shorten(config, "schedule.decay_steps", file_steps, steps->i > 1, steps);
}

/* A config that an older version printed lacks later keys: gives them the values that repeat that version's
 * behaviour. */
static clt_status keep_older(clt_config *config, const clt_json_doc *doc, clt_config_problems *list)
{
    const clt_json *root = clt_json_root(doc);
    const clt_json *origin = clt_json_get(root, "_origin");
    if (origin && clt_json_typeof(origin) != CLT_JSON_OBJECT)
        return CLT_OK;
    for (int i = 0; clt_config_schema()[i].path && origin; i++) {
        const clt_config_key *key = &clt_config_schema()[i];
        if (!key->older_text || clt_config_is_set(config, key->path) || clt_json_get(origin, key->path) ||
            !clt_config_part_has(clt_config_chosen(config, "data.type"), key->path))
            continue;
        CLT_TRY(clt_config_read_given(config, i, key->older_text, config->source, &config->values[i], list));
        config->values[i].from = CLT_FROM_FILE;
    }
    return CLT_OK;
}

/* --init of the command line is model.init. */
static clt_status apply_init(clt_config *config, const char *init, clt_config_problems *list)
{
    int index = clt_config_key_index("model.init");
    CLT_SCOPED(clt_str) quoted = {0};
    clt_json_writer w = clt_json_writer_make(&quoted, 0);
    clt_jw_string(&w, init);
    CLT_TRY(clt_str_check(&quoted));
    return clt_config_read_given(config, index, quoted.text, "--init", &config->values[index], list);
}

/* The sources that a config is read from, besides its text. */
typedef struct reading {
    const char *const *overrides;
    int n_overrides;
    const clt_config_presets *presets; /* NULL: none */
    const clt_config_start *start;     /* NULL: model.init is only kept */
} reading;

/* Reads all values, from the file, the command line and the presets, and collects all problems in one
 * list. */
static clt_status collect(clt_config *config, const clt_json_doc *doc, const reading *r,
                          clt_config_problems *list)
{
    const clt_config_presets *presets = r->presets;
    CLT_TRY(read_file(config, doc, list));
    int64_t file_steps = clt_config_at(config, "train.steps")->i;
    if (r->start && r->start->init)
        CLT_TRY(apply_init(config, r->start->init, list));
    for (int i = 0; i < r->n_overrides; i++)
        CLT_TRY(apply_override(config, r->overrides[i], list));
    if (r->start && !clt_config_at(config, "model.init")->bad)
        CLT_TRY(r->start->open(r->start->context, clt_config_at(config, "model.init")->s, &presets));
    let_epochs_decide(config, list);
    if (!clt_config_at(config, "data.type")->bad)
        CLT_TRY(keep_older(config, doc, list));
    if (presets)
        CLT_TRY(clt_config_apply_presets(config, presets, list));
    fit_schedule(config, doc, file_steps);
    clt_config_check_rules(config, list);
    return CLT_OK;
}

/* The name of the format of a text that does not begin like JSON, judged by its first meaningful line. NULL:
 * JSON, or an unknown format. */
static const char *other_format(const char *text)
{
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        line += strspn(line, " \t\r\n");
        size_t name = strspn(line, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");
        const char *after = line + name + strspn(line + name, " \t");
        if (*line == '#' || *line == ';' || strncmp(line, "---", 3) == 0)
            continue;
        if (name > 0 && *after == ':')
            return "YAML";
        if (name > 0 && *after == '=')
            return "TOML, INI or Python";
        return *line == '[' && strspn(line + 1, "abcdefghijklmnopqrstuvwxyz") > 0 ? "TOML or INI" : NULL;
    }
    return NULL;
}

/* Parses the JSON of a config; the error says so if the text has another format. */
static clt_status parse_document(const char *text, size_t length, const char *source, clt_json_doc **doc)
{
    clt_status status = clt_json_parse(text, length, source, CLT_ECONFIG, doc);
    const char *other = status == CLT_ECONFIG ? other_format(text) : NULL;
    if (!other)
        return status;
    CLT_FAIL(
        CLT_ECONFIG,
        "reading config %s: it is not JSON; it looks like %s, which is not read. A config is JSON: "
        "{\"model\": {\"type\": \"mlp\"}, \"data\": {...}}; docs/configs.md has examples, and 'cltrain new' "
        "writes one for your data",
        source, other);
}

/* from_file: `source` is a file that a person may have written. */
static clt_status config_parse(const char *text, size_t length, const char *source, bool from_file,
                               const reading *r, clt_config **out)
{
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    clt_config_problems list = {0};
    *out = NULL;
    CLT_TRY(parse_document(text, length, source, &doc));
    CLT_TRY(config_new(source, &config));
    clt_status status = collect(config, doc, r, &list);
    CLT_TRY(clt_config_problems_finish(status, &list));
    CLT_TRY(clt_config_build_model(config));
    if (from_file)
        warn_of_two_lengths(config, doc);
    *out = CLT_TAKE(config);
    return CLT_OK;
}

clt_status clt_config_parse_over(const char *text, const char *source, const char *const *overrides,
                                 int n_overrides, const clt_config_presets *presets, clt_config **out)
{
    const reading r = {.overrides = overrides, .n_overrides = n_overrides, .presets = presets};
    return config_parse(text, strlen(text), source, false, &r, out);
}

clt_status clt_config_parse_from(const char *text, const char *source, const char *const *overrides,
                                 int n_overrides, const clt_config_start *start, clt_config **out)
{
    const reading r = {.overrides = overrides, .n_overrides = n_overrides, .start = start};
    return config_parse(text, strlen(text), source, false, &r, out);
}

clt_status clt_config_parse(const char *text, const char *source, const char *const *overrides,
                            int n_overrides, clt_config **out)
{
    return clt_config_parse_over(text, source, overrides, n_overrides, NULL, out);
}

static clt_status config_load(const char *path, const reading *r, clt_config **out)
{
    CLT_FREED char *text = NULL;
    size_t size = 0;
    *out = NULL;
    if (clt_is_directory(path))
        CLT_FAIL(CLT_ECONFIG, "reading config %s: it is a folder; name a JSON file", path);
    CLT_TRY(clt_file_read(path, false, CONFIG_MAX_BYTES, CLT_ECONFIG, &text, &size));
    return config_parse(text, size, path, true, r, out);
}

clt_status clt_config_load_over(const char *path, const char *const *overrides, int n_overrides,
                                const clt_config_presets *presets, clt_config **out)
{
    const reading r = {.overrides = overrides, .n_overrides = n_overrides, .presets = presets};
    return config_load(path, &r, out);
}

clt_status clt_config_load_from(const char *path, const char *const *overrides, int n_overrides,
                                const clt_config_start *start, clt_config **out)
{
    const reading r = {.overrides = overrides, .n_overrides = n_overrides, .start = start};
    return config_load(path, &r, out);
}

clt_status clt_config_load(const char *path, const char *const *overrides, int n_overrides, clt_config **out)
{
    return clt_config_load_over(path, overrides, n_overrides, NULL, out);
}
