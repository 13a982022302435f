/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes data.json from an open source, and reads it from a checkpoint. A checkpoint may come from
 * anywhere, so every member is checked. It knows nothing else of checkpoints. */
#include "engine/data/facts/data_facts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/data/tokenizer/tokenizer.h"

#define FORMAT_NAME "cltrain-data"
#define FORMAT_VERSION 1
#define MAX_TOKEN_BYTES 65535.0

/* --- from a source --- */

static bool is_class_target(const clt_data_facts_field *field)
{
    return strcmp(field->name, "y") == 0 && field->is_index && field->max_value >= 0 &&
           field->shape.ndim == 0;
}

/* Copies a text so that it is valid in JSON and harmless on a terminal: control characters and invalid UTF-8
 * become '?'. */
static void take_text(const char *from, char *out, size_t size)
{
    size_t n = 0, left = strlen(from);
    while (left > 0 && n + 4 < size) {
        size_t step = clt_utf8_size(from, left);
        if (step == 0 || (unsigned char)*from < 0x20 || *from == 0x7f)
            out[n++] = '?';
        else
            for (size_t i = 0; i < step; i++)
                out[n++] = from[i];
        from += step ? step : 1;
        left -= step ? step : 1;
    }
    out[n] = '\0';
}

static void take_tokens(const clt_source *source, clt_data_facts *facts)
{
    facts->tokens = source->tokens;
    facts->bytes_per_token = source->bytes_per_token;
    snprintf(facts->chat, sizeof facts->chat, "%s", source->chat ? source->chat : "");
    if (!source->tokenizer)
        return;
    facts->vocabulary = clt_tokenizer_vocab(source->tokenizer);
    facts->tokenizer_hash = clt_tokenizer_hash(source->tokenizer);
    snprintf(facts->tokenizer, sizeof facts->tokenizer, "%s",
             clt_tokenizer_is_bytes(source->tokenizer) ? "bytes" : "bpe");
}

/* Copies the class names unchanged: clt_source_open has refused names that JSON cannot hold. */
static clt_status take_class_names(const clt_source *source, clt_data_facts *facts)
{
    for (int64_t i = 0; i < source->n_class_names; i++)
        clt_str_append_n(&facts->class_names, source->class_names[i], strlen(source->class_names[i]) + 1);
    CLT_TRY(clt_str_check(&facts->class_names));
    facts->n_class_names = source->n_class_names;
    return CLT_OK;
}

static clt_status take_table(const clt_source *source, clt_data_facts *facts)
{
    if (!source->table)
        return CLT_OK;
    CLT_TRY(clt_arena_create(&facts->arena));
    return clt_table_copy(source->table, facts->arena, &facts->table);
}

void clt_data_facts_free(clt_data_facts *facts)
{
    clt_arena_destroy(facts->arena);
    facts->arena = NULL;
    facts->table = NULL;
    clt_str_free(&facts->class_names);
    facts->n_class_names = 0;
}

const char *clt_data_facts_class(const clt_data_facts *facts, int64_t index)
{
    const char *name = facts->class_names.text;
    if (index < 0 || index >= facts->n_class_names)
        return NULL;
    for (int64_t i = 0; i < index; i++)
        name += strlen(name) + 1;
    return name;
}

clt_status clt_data_facts_take(const clt_source *train, const clt_source *eval, clt_data_facts *facts)
{
    memset(facts, 0, sizeof *facts);
    snprintf(facts->type, sizeof facts->type, "%s", train->type->format->name);
    take_text(train->description ? train->description : "", facts->description, sizeof facts->description);
    facts->samples = train->samples;
    facts->bytes = train->bytes;
    facts->scale = train->scale;
    facts->mean = train->mean;
    facts->std = train->std;
    facts->channels = train->channels;
    memcpy(facts->channel_mean, train->channel_mean, sizeof facts->channel_mean);
    memcpy(facts->channel_std, train->channel_std, sizeof facts->channel_std);
    facts->n_fields = train->n_fields;
    for (int i = 0; i < train->n_fields; i++) {
        const clt_source_field *from = &train->fields[i];
        clt_data_facts_field *field = &facts->fields[i];
        snprintf(field->name, sizeof field->name, "%s", from->name);
        field->dtype = from->dtype;
        field->shape = from->shape;
        field->is_index = from->is_index;
        field->max_value = from->is_index ? from->max_value : -1;
        if (is_class_target(field) && !train->tokenizer && train->tokens == 0)
            facts->classes = field->max_value + 1;
    }
    take_tokens(train, facts);
    if (!train->remote)
        clt_source_fingerprint(train, facts->fingerprint);
    if (eval && !eval->remote)
        clt_source_fingerprint(eval, facts->eval_fingerprint);
    CLT_TRY(take_table(train, facts));
    return take_class_names(train, facts);
}

/* --- as text --- */

static void write_field(clt_json_writer *w, const clt_data_facts_field *field)
{
    clt_jw_object(w);
    clt_jw_kstring(w, "name", field->name);
    clt_jw_kstring(w, "dtype", clt_dtype_name(field->dtype));
    clt_jw_karray(w, "shape");
    for (int i = 0; i < field->shape.ndim; i++)
        clt_jw_int(w, field->shape.dim[i]);
    clt_jw_end_array(w);
    clt_jw_kbool(w, "index", field->is_index);
    if (field->is_index)
        clt_jw_kint(w, "largest", field->max_value);
    clt_jw_end_object(w);
}

static void write_class_names(clt_json_writer *w, const clt_data_facts *facts)
{
    if (facts->n_class_names == 0)
        return;
    clt_jw_karray(w, "class_names");
    const char *name = facts->class_names.text;
    for (int64_t i = 0; i < facts->n_class_names; i++, name += strlen(name) + 1)
        clt_jw_string(w, name);
    clt_jw_end_array(w);
}

static void write_tokens(clt_json_writer *w, const clt_data_facts *facts)
{
    char hash[CLT_HASH64_TEXT];
    if (facts->tokens)
        clt_jw_kint(w, "tokens", facts->tokens);
    if (facts->bytes_per_token > 0)
        clt_jw_kdouble(w, "bytes_per_token", facts->bytes_per_token);
    if (facts->chat[0])
        clt_jw_kstring(w, "chat", facts->chat);
    if (!facts->tokenizer[0])
        return;
    clt_jw_kint(w, "vocabulary", facts->vocabulary);
    clt_jw_kstring(w, "tokenizer", facts->tokenizer);
    clt_jw_kstring(w, "tokenizer_xxh64", clt_hash64_text(facts->tokenizer_hash, hash));
}

/* Writes one number or, if count > 0, a list with one number for each channel. */
static void write_numbers(clt_json_writer *w, const char *key, double one, const double *each, int count)
{
    if (count == 0) {
        clt_jw_kdouble(w, key, one);
        return;
    }
    clt_jw_karray(w, key);
    for (int i = 0; i < count; i++)
        clt_jw_double(w, each[i]);
    clt_jw_end_array(w);
}

clt_status clt_data_facts_print(const clt_data_facts *facts, clt_str *out)
{
    clt_json_writer w = clt_json_writer_make(out, 2);
    clt_jw_object(&w);
    clt_jw_kstring(&w, "format", FORMAT_NAME);
    clt_jw_kint(&w, "format_version", FORMAT_VERSION);
    clt_jw_kstring(&w, "type", facts->type);
    clt_jw_kstring(&w, "description", facts->description);
    clt_jw_kint(&w, "samples", facts->samples);
    clt_jw_kint(&w, "bytes", facts->bytes);
    clt_jw_karray(&w, "fields");
    for (int i = 0; i < facts->n_fields; i++)
        write_field(&w, &facts->fields[i]);
    clt_jw_end_array(&w);
    clt_jw_kdouble(&w, "scale", facts->scale);
    write_numbers(&w, "mean", facts->mean, facts->channel_mean, facts->channels);
    write_numbers(&w, "std", facts->std, facts->channel_std, facts->channels);
    if (facts->classes)
        clt_jw_kint(&w, "classes", facts->classes);
    write_class_names(&w, facts);
    write_tokens(&w, facts);
    if (facts->table) {
        clt_jw_key(&w, "table");
        clt_table_write(facts->table, &w);
    }
    if (facts->fingerprint[0])
        clt_jw_kstring(&w, "fingerprint", facts->fingerprint);
    if (facts->eval_fingerprint[0])
        clt_jw_kstring(&w, "eval_fingerprint", facts->eval_fingerprint);
    if (facts->listed[0])
        clt_jw_kstring(&w, "listed", facts->listed);
    if (facts->folder[0])
        clt_jw_kstring(&w, "folder", facts->folder);
    if (facts->folder_from_run[0])
        clt_jw_kstring(&w, "folder_from_run", facts->folder_from_run);
    clt_jw_end_object(&w);
    clt_str_append(out, "\n");
    return clt_str_check(out);
}

/* --- from text --- */

typedef struct reading {
    const char *source;
    const clt_json *object;
} reading;

static clt_status bad(const reading *r, const char *key, const char *wanted)
{
    CLT_FAIL(CLT_ECHECKPOINT,
             "reading '%s': \"%s\" is missing or is not %s; the file is damaged or was edited", r->source,
             key, wanted);
}

static clt_status get_int(const reading *r, const char *key, int64_t low, int64_t high, int64_t *out)
{
    return clt_json_int_within(clt_json_get(r->object, key), low, high, out)
               ? CLT_OK
               : bad(r, key, "an integer in range");
}

static clt_status get_number(const reading *r, const char *key, double low, double high, double *out)
{
    *out = clt_json_number_or(clt_json_get(r->object, key), NAN);
    return *out >= low && *out <= high ? CLT_OK : bad(r, key, "a number in range");
}

/* Reads one number, or a list of 2 to CLT_MAX_NUMBERS. *count: the length of the list; 0 for one number. */
static clt_status get_numbers(const reading *r, const char *key, double *one, double *each, int *count)
{
    const clt_json *value = clt_json_get(r->object, key);
    *count = 0;
    if (clt_json_typeof(value) != CLT_JSON_ARRAY)
        return get_number(r, key, -1e30, 1e30, one);
    if (clt_json_count(value) < 2 || clt_json_count(value) > CLT_MAX_NUMBERS)
        return bad(r, key, "a list of numbers of the right length");
    for (const clt_json *e = clt_json_first(value); e; e = clt_json_next(e)) {
        each[*count] = clt_json_number_or(e, NAN);
        if (!(fabs(each[*count]) <= 1e30))
            return bad(r, key, "a list of numbers in range");
        (*count)++;
    }
    *one = each[0];
    return CLT_OK;
}

/* Reads a text; refuses control characters, which could steer a terminal. */
static clt_status get_text(const reading *r, const char *key, char *out, size_t size)
{
    if (!clt_json_copy_string(clt_json_get(r->object, key), out, size))
        return bad(r, key, "a text of the right length");
    return clt_text_plain(out) == strlen(out) ? CLT_OK : bad(r, key, "a text without control characters");
}

/* Reads a member that may be absent. */
#define IF_THERE(r, key, call)                                                                               \
    do {                                                                                                     \
        if (clt_json_get((r)->object, key))                                                                  \
            CLT_TRY(call);                                                                                   \
    } while (0)

static clt_status get_hash(const reading *r, const char *key, char out[CLT_HASH64_TEXT])
{
    CLT_TRY(get_text(r, key, out, CLT_HASH64_TEXT));
    if (strspn(out, "0123456789abcdef") != CLT_HASH64_TEXT - 1)
        return bad(r, key, "a hash of 16 hexadecimal digits");
    return CLT_OK;
}

static clt_status read_shape(const reading *r, clt_shape *shape)
{
    const clt_json *list = clt_json_get(r->object, "shape");
    if (clt_json_typeof(list) != CLT_JSON_ARRAY || clt_json_count(list) > CLT_MAX_DIMS - 1)
        return bad(r, "shape", "a list of at most five sizes");
    for (const clt_json *v = clt_json_first(list); v; v = clt_json_next(v)) {
        if (!clt_json_int_within(v, 1, INT32_MAX, &shape->dim[shape->ndim++]))
            return bad(r, "shape", "a list of sizes from 1 to 2147483647");
    }
    if (clt_shape_elements(shape) > INT32_MAX)
        return bad(r, "shape", "the shape of a sample of at most 2147483647 numbers");
    return CLT_OK;
}

static clt_status read_field(const char *source, const clt_json *value, clt_data_facts_field *field)
{
    reading r = {source, value};
    char dtype[16];
    const clt_json *index = NULL;
    if (clt_json_typeof(value) != CLT_JSON_OBJECT)
        return bad(&r, "fields", "a list of objects");
    CLT_TRY(get_text(&r, "name", field->name, sizeof field->name));
    CLT_TRY(get_text(&r, "dtype", dtype, sizeof dtype));
    if (!clt_dtype_from_name(dtype, &field->dtype))
        return bad(&r, "dtype", "a known number type");
    CLT_TRY(read_shape(&r, &field->shape));
    index = clt_json_get(value, "index");
    if (clt_json_typeof(index) != CLT_JSON_BOOL)
        return bad(&r, "index", "true or false");
    field->is_index = clt_json_bool(index);
    field->max_value = -1;
    return field->is_index ? get_int(&r, "largest", INT64_MIN, INT32_MAX, &field->max_value) : CLT_OK;
}

static clt_status read_fields(const reading *r, clt_data_facts *facts)
{
    const clt_json *list = clt_json_get(r->object, "fields");
    if (clt_json_typeof(list) != CLT_JSON_ARRAY || clt_json_count(list) < 1 ||
        clt_json_count(list) > CLT_MAX_FIELDS)
        return bad(r, "fields", "a list of 1 to 8 fields");
    for (const clt_json *v = clt_json_first(list); v; v = clt_json_next(v)) {
        clt_data_facts_field *field = &facts->fields[facts->n_fields];
        CLT_TRY(read_field(r->source, v, field));
        for (int i = 0; i < facts->n_fields; i++)
            if (strcmp(facts->fields[i].name, field->name) == 0)
                return bad(r, "fields", "a list of fields with different names");
        facts->n_fields++;
    }
    return CLT_OK;
}

/* Control characters are refused in class names, too. */
static clt_status read_class_names(const reading *r, clt_data_facts *facts)
{
    const clt_json *list = clt_json_get(r->object, "class_names");
    if (clt_json_typeof(list) != CLT_JSON_ARRAY)
        return bad(r, "class_names", "a list of names");
    for (const clt_json *v = clt_json_first(list); v; v = clt_json_next(v)) {
        const char *name = clt_json_string_or(v, "\n");
        if (clt_text_plain(name) != strlen(name))
            return bad(r, "class_names", "a list of names without control characters");
        clt_str_append_n(&facts->class_names, name, strlen(name) + 1);
        facts->n_class_names++;
    }
    return clt_str_check(&facts->class_names);
}

/* Reads the facts of a table; its columns must give as many numbers as the field x has. */
static clt_status read_table(const reading *r, clt_data_facts *facts)
{
    CLT_TRY(clt_arena_create(&facts->arena));
    CLT_TRY(clt_table_read(clt_json_get(r->object, "table"), r->source, facts->arena, &facts->table));
    if (facts->table->elements != clt_shape_elements(&facts->fields[0].shape))
        return bad(r, "table", "as wide as the field x");
    return CLT_OK;
}

static clt_status read_tokenizer(const reading *r, clt_data_facts *facts)
{
    char hash[CLT_HASH64_TEXT];
    CLT_TRY(get_text(r, "tokenizer", facts->tokenizer, sizeof facts->tokenizer));
    if (strcmp(facts->tokenizer, "bytes") != 0 && strcmp(facts->tokenizer, "bpe") != 0)
        return bad(r, "tokenizer", "\"bytes\" or \"bpe\"");
    CLT_TRY(get_int(r, "vocabulary", 1, CLT_TOKENIZER_MAX_VOCAB, &facts->vocabulary));
    CLT_TRY(get_hash(r, "tokenizer_xxh64", hash));
    facts->tokenizer_hash = strtoull(hash, NULL, 16);
    return CLT_OK;
}

static clt_status read_format(const reading *r)
{
    char format[32];
    int64_t version = 0;
    if (clt_json_typeof(r->object) != CLT_JSON_OBJECT)
        CLT_FAIL(CLT_ECHECKPOINT, "reading '%s': it is not a JSON object", r->source);
    CLT_TRY(get_text(r, "format", format, sizeof format));
    if (strcmp(format, FORMAT_NAME) != 0)
        return bad(r, "format", "\"" FORMAT_NAME "\"");
    CLT_TRY(get_int(r, "format_version", 1, INT32_MAX, &version));
    if (version > FORMAT_VERSION)
        CLT_FAIL(CLT_ECHECKPOINT,
                 "reading '%s': it was written in format %" PRId64 ", this cltrain (" CLT_VERSION
                 ") reads up to %d; use a newer cltrain",
                 r->source, version, FORMAT_VERSION);
    return CLT_OK;
}

static clt_status read_members(const reading *r, clt_data_facts *facts)
{
    CLT_TRY(read_format(r));
    CLT_TRY(get_text(r, "type", facts->type, sizeof facts->type));
    CLT_TRY(get_text(r, "description", facts->description, sizeof facts->description));
    CLT_TRY(get_int(r, "samples", 0, INT64_MAX, &facts->samples));
    CLT_TRY(get_int(r, "bytes", 0, INT64_MAX, &facts->bytes));
    CLT_TRY(read_fields(r, facts));
    CLT_TRY(get_number(r, "scale", -1e30, 1e30, &facts->scale));
    int means = 0;
    CLT_TRY(get_numbers(r, "mean", &facts->mean, facts->channel_mean, &means));
    CLT_TRY(get_numbers(r, "std", &facts->std, facts->channel_std, &facts->channels));
    if (means != facts->channels)
        return bad(r, "mean", "as long as \"std\"");
    IF_THERE(r, "classes", get_int(r, "classes", 1, (int64_t)INT32_MAX + 1, &facts->classes));
    IF_THERE(r, "class_names", read_class_names(r, facts));
    IF_THERE(r, "table", read_table(r, facts));
    IF_THERE(r, "tokens", get_int(r, "tokens", 0, INT64_MAX, &facts->tokens));
    IF_THERE(r, "bytes_per_token",
             get_number(r, "bytes_per_token", 0, MAX_TOKEN_BYTES, &facts->bytes_per_token));
    IF_THERE(r, "chat", get_text(r, "chat", facts->chat, sizeof facts->chat));
    IF_THERE(r, "tokenizer", read_tokenizer(r, facts));
    IF_THERE(r, "fingerprint", get_hash(r, "fingerprint", facts->fingerprint));
    IF_THERE(r, "eval_fingerprint", get_hash(r, "eval_fingerprint", facts->eval_fingerprint));
    IF_THERE(r, "listed", get_hash(r, "listed", facts->listed));
    IF_THERE(r, "folder", get_text(r, "folder", facts->folder, sizeof facts->folder));
    IF_THERE(r, "folder_from_run",
             get_text(r, "folder_from_run", facts->folder_from_run, sizeof facts->folder_from_run));
    return CLT_OK;
}

clt_status clt_data_facts_parse(const char *text, size_t length, const char *source, clt_data_facts *facts)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    memset(facts, 0, sizeof *facts);
    CLT_TRY(clt_json_parse(text, length, source, CLT_ECHECKPOINT, &doc));
    reading r = {source, clt_json_root(doc)};
    clt_status status = read_members(&r, facts);
    if (status != CLT_OK) {
        clt_data_facts_free(facts);
        memset(facts, 0, sizeof *facts);
    }
    return status;
}

bool clt_data_facts_ours(const char *text, size_t length)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    if (clt_json_parse(text, length, CLT_DATA_FACTS_FILE, CLT_ECHECKPOINT, &doc) != CLT_OK)
        clt_error_clear();
    return clt_json_is(clt_json_get(clt_json_root(doc), "format"), FORMAT_NAME);
}

/* --- as a short text for people --- */

void clt_data_facts_words(const clt_data_facts *facts, clt_str *out)
{
    char shape[CLT_SHAPE_TEXT];
    clt_str_printf(out, "%s data", facts->type);
    if (facts->tokens || facts->tokenizer[0]) {
        if (facts->vocabulary)
            clt_str_printf(out, " of %" PRId64 " different tokens", facts->vocabulary);
        return;
    }
    for (int i = 0; i < facts->n_fields; i++)
        if (strcmp(facts->fields[i].name, "x") == 0)
            clt_str_printf(out, ", samples %s %s",
                           clt_shape_text(&facts->fields[i].shape, shape, sizeof shape),
                           clt_dtype_name(facts->fields[i].dtype));
    if (facts->classes)
        clt_str_printf(out, ", %" PRId64 " class%s", facts->classes, CLT_PLURAL_ES(facts->classes));
}

/* --- as a source --- */

static clt_status facts_read(const clt_source *source, int64_t index, clt_draw draw, void *const *to)
{
    (void)draw;
    (void)to;
    CLT_FAIL(CLT_EINTERNAL, "reading sample %lld of %s: only the shapes of this data are known",
             (long long)index, source->description);
}

static void facts_close(clt_source *source)
{
    (void)source;
}

/* The training run has checked its data against the model, so this fails only for the config of another
 * run. */
static clt_status facts_check_bound(const clt_source *source, int field, int64_t bound, bool has_ignore,
                                    int64_t ignore, bool *done)
{
    int64_t largest = source->fields[field].max_value;
    *done = true;
    if (largest >= bound && !(has_ignore && largest == ignore))
        CLT_FAIL(CLT_ECHECKPOINT,
                 "field \"%s\" of the training data held values up to %lld, and the model takes 0 to %lld: "
                 "checkpoint and config do not belong together",
                 source->fields[field].name, (long long)largest, (long long)bound - 1);
    return CLT_OK;
}

static const clt_config_part facts_format = {.name = "facts",
                                             .help = "shapes of the data that a run was trained on"};
static const clt_source_type facts_type = {
    .format = &facts_format, .close = facts_close, .read = facts_read, .check_bound = facts_check_bound};

clt_status clt_source_open_facts(const clt_data_facts *facts, clt_source **out)
{
    clt_arena *arena;
    *out = NULL;
    CLT_TRY(clt_arena_create(&arena));
    clt_source *source = clt_arena_alloc(arena, sizeof *source);
    clt_status status = source ? CLT_OK : CLT_ENOMEM;
    if (source) {
        source->type = &facts_type;
        source->arena = arena;
        source->samples = facts->samples;
        source->scale = facts->scale;
        source->mean = facts->mean;
        source->std = facts->std;
        source->channels = facts->channels;
        if (facts->table)
            status = clt_table_copy(facts->table, arena, &source->table);
        memcpy(source->channel_mean, facts->channel_mean, sizeof source->channel_mean);
        memcpy(source->channel_std, facts->channel_std, sizeof source->channel_std);
        source->n_fields = facts->n_fields;
        source->description = clt_arena_printf(arena, "data that is not there: %s", facts->description);
        if (!source->description)
            status = CLT_ENOMEM;
    }
    for (int i = 0; status == CLT_OK && i < facts->n_fields; i++) {
        const clt_data_facts_field *field = &facts->fields[i];
        source->fields[i] = (clt_source_field){clt_arena_strdup(arena, field->name), field->dtype,
                                               field->shape, field->is_index, field->max_value};
        if (!source->fields[i].name)
            status = CLT_ENOMEM;
    }
    if (status != CLT_OK) {
        clt_arena_destroy(arena);
        return status;
    }
    *out = source;
    return CLT_OK;
}
