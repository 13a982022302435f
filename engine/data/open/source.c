/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of data formats, opening and closing sources, and work that all formats share: checking index
 * values, counting targets. It must not know any format. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/data/data.h"
#include "engine/data/open/fetch.h"
#include "engine/data/pixels/image_folder.h"
#include "engine/data/storage_config.h"
#include "engine/files/fileio.h"
#include "engine/files/remote_files.h"

#define CLT_FORMAT(name) extern const clt_source_type clt_source_##name;
#include "engine/config/formats.def"
#undef CLT_FORMAT

#define CLT_FORMAT(name) &clt_source_##name,
static const clt_source_type *const types[] = {
#include "engine/config/formats.def"
};
#undef CLT_FORMAT

#define N_TYPES (sizeof types / sizeof types[0])

const clt_source_type *const *clt_source_types(int *count)
{
    *count = (int)N_TYPES;
    return types;
}

const clt_source_type *clt_source_type_of(const clt_config *config)
{
    const clt_config_part *chosen = clt_config_chosen(config, "data.type");
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i]->format == chosen)
            return types[i];
    return NULL;
}

static void write_file(const clt_data_file *file, clt_json_writer *w)
{
    clt_jw_object(w);
    clt_jw_kstring(w, "type", file->type->format->name);
    clt_jw_kstring(w, "path", file->path);
    if (file->tokenizer)
        clt_jw_kstring(w, "tokenizer", file->tokenizer);
    if (file->shape) {
        clt_jw_karray(w, "shape");
        for (int i = 0; i < file->shape->ndim; i++)
            clt_jw_int(w, file->shape->dim[i]);
        if (file->shape->ndim == 0)
            clt_jw_int(w, 1);
        clt_jw_end_array(w);
    }
    clt_jw_end_object(w);
}

clt_status clt_data_file_config(const clt_data_file *file, clt_config **out)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 0);
    clt_str_printf(&text,
                   "{\"model\":{\"type\":\"graph\",\"context\":%lld,\"layers\":[{\"op\":\"mse\"}]},\"data\":",
                   (long long)file->context);
    write_file(file, &w);
    clt_str_append(&text, "}");
    CLT_TRY(clt_str_check(&text));
    return clt_config_parse(text.text, file->path, NULL, 0, out);
}

bool clt_source_has_eval(const clt_config *config)
{
    const clt_source_type *type = clt_source_type_of(config);
    return clt_config_list_count(config, "data.eval_path") > 0 || (type->has_eval && type->has_eval(config));
}

/* Refuses a file whose ending belongs to no format, unless it is empty or begins like an idx file (00 00) or
 * a gzip file. */
static clt_status refuse_unclaimed(const char *path)
{
    unsigned char start[2];
    size_t got = clt_file_first(path, start, sizeof start);
    CLT_TRY(clt_image_refuse_other_file(path));
    if (got < 2 || memcmp(start, "\0\0", 2) == 0 || memcmp(start, "\x1f\x8b", 2) == 0)
        return CLT_OK;
    CLT_FAIL(
        CLT_EDATA,
        "reading '%s': a file with this ending cannot be checked without a config, and it is not an idx "
        "file, which begins with the bytes 00 00; if it holds texts or records, give the config that names "
        "it ('cltrain new FILE' writes one); if it holds weights, train with '--dry-run --init FILE'",
        path);
}

clt_status clt_source_check_file(const char *path, const char *tokenizer, clt_str *out)
{
    const clt_source_type *type = NULL;
    bool named = false; /* the ending belongs to a format */
    for (size_t i = 0; i < N_TYPES; i++) {
        const char *suffix = types[i]->suffix;
        bool claimed = suffix && clt_ends_with(path, suffix);
        for (const char *const *end = types[i]->input_ends; end && *end && suffix && types[i]->check_file;
             end++)
            claimed = claimed || clt_ends_with(path, *end);
        named = named || claimed;
        if (claimed || (!type && !suffix && types[i]->check_file))
            type = types[i];
    }
    if (!named)
        CLT_TRY(refuse_unclaimed(path));
    return type->check_file(path, tokenizer, out);
}

/* The published data set to which a missing path belongs: it is in the folder into which `cltrain data
 * fetch` would put that set. NULL: none. */
static const clt_fetch_set *missing_set(const char *path)
{
    return *path && !clt_file_exists(path) ? clt_fetch_of_path(path) : NULL;
}

/* True if one of a key's paths is missing; patterns and "@LIST" never count as missing. */
static bool any_missing(const clt_config *config, const char *key)
{
    bool missing = false;
    for (int i = 0; i < clt_config_list_count(config, key); i++) {
        const char *path = clt_config_list_string(config, key, i);
        missing = missing || (*path && !strpbrk(path, "*?[@") && !clt_file_exists(path));
    }
    return missing;
}

/* Adds advice to a failure: the command that makes the missing data (`cltrain data fetch` of a published
 * set, or the format's own command), and where files must be. */
static clt_status add_command(clt_status status, const clt_config *config)
{
    static const char *const lists[] = {"data.path", "data.eval_path"};
    static const char *const single[] = {"data.targets", "data.eval_targets", "data.tokenizer"};
    const clt_source_type *type = clt_source_type_of(config);
    const clt_fetch_set *set = NULL;
    if (status == CLT_ESTORAGE)
        return status;
    for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++)
        for (int i = 0; i < clt_config_list_count(config, lists[k]) && !set; i++)
            set = missing_set(clt_config_list_string(config, lists[k], i));
    for (size_t k = 0; k < sizeof single / sizeof single[0] && !set; k++)
        set = missing_set(clt_config_string(config, single[k]));
    const char *path = clt_config_list_count(config, "data.path") == 1
                           ? clt_config_list_string(config, "data.path", 0)
                           : "*";
    if (!set && type->made_by && !strpbrk(path, "*?[") && !clt_file_exists(path))
        CLT_FAIL(status, "%s; text becomes such data by: %s", clt_error_text(), type->made_by);
    bool tells_layout =
        type->layout && (any_missing(config, "data.path") || any_missing(config, "data.eval_path"));
    if (tells_layout)
        status = clt_fail(status, __FILE__, __LINE__, "%s; %s", clt_error_text(), type->layout);
    if (!set && tells_layout && type->sample)
        CLT_FAIL(status, "%s; a small set to try this with is made by: cltrain data fetch %s",
                 clt_error_text(), type->sample);
    if (!set)
        return status;
    CLT_FAIL(status, "%s; this data set is %s by: cltrain data fetch %s", clt_error_text(),
             set->kind == CLT_FETCH_VOLUMES ? "made" : "loaded", set->name);
}

/* Lists of means and deviations are only for samples of integers whose first dimension is the channel. */
static clt_status check_channels(const clt_source *source)
{
    char shape[CLT_SHAPE_TEXT];
    const clt_source_field *x = &source->fields[0];
    if (source->channels == 0)
        return CLT_OK;
    if (clt_dtype_is_float(x->dtype) || x->shape.ndim < 2 || x->shape.dim[0] != source->channels)
        CLT_FAIL(
            CLT_ECONFIG,
            "data.mean and data.std: lists of %d numbers are for samples of integers with %d channels as "
            "their first dimension; these samples are %s %s: give one number for all",
            source->channels, source->channels, clt_shape_text(&x->shape, shape, sizeof shape),
            clt_dtype_name(x->dtype));
    return CLT_OK;
}

/* Class names are kept with the weights and compared later, so they must be texts that JSON can hold. */
static clt_status check_class_names(const clt_source *source)
{
    for (int64_t i = 0; i < source->n_class_names; i++) {
        const char *name = source->class_names[i];
        size_t plain = clt_text_plain(name);
        if (name[plain])
            CLT_FAIL(CLT_EDATA,
                     "opening the data: the name of class %lld, '%.60s', has the byte 0x%02x at place %zu, "
                     "which is a control character or not UTF-8; rename the class",
                     (long long)i, name, (unsigned char)name[plain], plain + 1);
    }
    return CLT_OK;
}

/* With data.scale 0, bytes are scaled to [0, 1], unless mean and std are in the unit of bytes. */
static void scale_bytes(clt_source *source, const clt_config *config)
{
    double most = fmax(fabs(source->mean), fabs(source->std));
    for (int c = 0; c < source->channels; c++)
        most = fmax(most, fmax(fabs(source->channel_mean[c]), fabs(source->channel_std[c])));
    source->byte_scale = clt_config_float(config, "data.scale") == 0 && source->n_fields > 0 &&
                         source->fields[0].dtype == CLT_U8 && !source->flags && most <= 1;
    if (source->byte_scale)
        source->scale = 1.0 / 255;
}

clt_status clt_source_open(const clt_config *config, clt_split split, clt_source **out)
{
    const clt_source_with with = {0};
    return clt_source_open_with(config, split, &with, out);
}

clt_status clt_source_create(const clt_source_type *type, clt_source **out)
{
    CLT_SCOPED(clt_arena) *arena = NULL;
    CLT_TRY(clt_arena_create(&arena));
    *out = clt_arena_alloc(arena, sizeof **out); /* the source is allocated in its own arena */
    if (!*out)
        return CLT_ENOMEM;
    (*out)->type = type;
    (*out)->scale = (*out)->std = 1.0;
    (*out)->arena = CLT_TAKE(arena);
    return CLT_OK;
}

static bool has_remote(const clt_config *config)
{
    static const char *const lists[] = {"data.path", "data.eval_path"};
    bool found = clt_is_remote(clt_config_string(config, "data.targets")) ||
                 clt_is_remote(clt_config_string(config, "data.eval_targets"));
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < clt_config_list_count(config, lists[k]) && !found; i++)
            found = clt_is_remote(clt_config_list_string(config, lists[k], i));
    return found;
}

static clt_status open_checked(clt_source *source, const clt_config *config, clt_split split)
{
    CLT_TRY(source->type->open(source, config, split));
    CLT_TRY(check_channels(source));
    scale_bytes(source, config);
    CLT_TRY(check_class_names(source));
    return clt_map_check();
}

clt_status clt_source_open_with(const clt_config *config, clt_split split, const clt_source_with *with,
                                clt_source **out)
{
    *out = NULL;
    const clt_source_type *type = clt_source_type_of(config);
    if (!type)
        CLT_FAIL(CLT_ECONFIG, "opening the data: data.type is not set");
    CLT_SCOPED(clt_source) *source = NULL;
    CLT_TRY(clt_source_create(type, &source));
    source->with = *with;
    source->remote = has_remote(config);
    CLT_TRY(clt_storage_use(config));
    clt_status status = open_checked(source, config, split);
    if (status != CLT_OK)
        return add_command(status, config);
    *out = CLT_TAKE(source);
    return CLT_OK;
}

void clt_source_close(clt_source *source)
{
    if (!source)
        return;
    if (source->type->close)
        source->type->close(source);
    clt_arena_destroy(source->arena);
}

size_t clt_source_field_bytes(const clt_source_field *field)
{
    return (size_t)clt_shape_elements(&field->shape) * clt_dtype_bytes(field->dtype);
}

/* Element `i` of a sample as an integer; floats that are not integers give INT64_MIN, which is never a
 * label. */
static int64_t element_value(const void *data, clt_dtype dtype, int64_t i)
{
    switch (dtype) {
    case CLT_U8:
        return ((const uint8_t *)data)[i];
    case CLT_U16:
        return ((const uint16_t *)data)[i];
    case CLT_I32:
        return ((const int32_t *)data)[i];
    case CLT_U32:
        return ((const uint32_t *)data)[i];
    case CLT_I64:
        return ((const int64_t *)data)[i];
    case CLT_F32: {
        float value = ((const float *)data)[i];
        return value > -0x1p31f && value < 0x1p31f && (float)(int64_t)value == value ? (int64_t)value
                                                                                     : INT64_MIN;
    }
    default:
        return INT64_MIN;
    }
}

static clt_status read_one(const clt_source *source, int64_t index, clt_draw draw, int field, void *dst)
{
    void *to[CLT_MAX_FIELDS] = {NULL};
    to[field] = dst;
    return source->type->read(source, index, draw, to);
}

clt_status clt_source_read_field(const clt_source *source, int64_t index, int field, void *dst)
{
    CLT_TRY(read_one(source, index, (clt_draw){0}, field, dst));
    return clt_map_check();
}

/* Checks once, after all samples, whether a file became shorter meanwhile. If so, that is the error, because
 * it explains any other. */
static clt_status after_scan(clt_status found)
{
    clt_status lost = clt_map_check();
    return lost != CLT_OK ? lost : found;
}

clt_status clt_source_read_fields(const clt_source *source, int64_t index, void *const *to,
                                  clt_field_reader reader)
{
    for (int f = 0; f < source->n_fields; f++)
        if (to[f])
            CLT_TRY(clt_fail_prefix(reader(source, index, f, to[f]), "field \"%s\"", source->fields[f].name));
    return CLT_OK;
}

/* Fills `scratch` with a sample's targets, without reading it if the format knows its class. */
static clt_status read_targets(const clt_source *source, int64_t index, clt_draw draw, int field,
                               void *scratch)
{
    int32_t value;
    if (!source->type->class_of || !source->type->class_of(source, index, draw, field, &value))
        return read_one(source, index, draw, field, scratch);
    memcpy(scratch, &value, sizeof value);
    return CLT_OK;
}

double clt_number_at(const void *data, clt_dtype dtype, int64_t i)
{
    switch (dtype) {
    case CLT_U8:
        return ((const uint8_t *)data)[i];
    case CLT_U16:
        return ((const uint16_t *)data)[i];
    case CLT_I32:
        return ((const int32_t *)data)[i];
    default:
        return (double)((const float *)data)[i];
    }
}

int64_t clt_count_valid(const void *values, clt_dtype dtype, int64_t elements, int64_t ignore)
{
    int64_t valid = 0;
    for (int64_t i = 0; i < elements; i++)
        valid += element_value(values, dtype, i) != ignore;
    return valid;
}

clt_status clt_source_count_valid(const clt_source *source, int64_t index, clt_draw draw, int field,
                                  int64_t ignore, void *scratch, int64_t *count)
{
    if (source->type->count_valid) {
        *count = source->type->count_valid(source, index, field, ignore);
        return CLT_OK;
    }
    const clt_source_field *f = &source->fields[field];
    CLT_TRY(read_targets(source, index, draw, field, scratch));
    *count = clt_count_valid(scratch, f->dtype, clt_shape_elements(&f->shape), ignore);
    return CLT_OK;
}

double clt_sum_classes(const clt_class_sum *classes, const void *values, clt_dtype dtype, int64_t elements)
{
    double sum = 0;
    for (int64_t i = 0; i < elements; i++) {
        int64_t value = element_value(values, dtype, i);
        if (value >= 0 && value < classes->n && !(classes->has_ignore && value == classes->ignore))
            sum += (double)classes->weights[value];
    }
    return sum;
}

clt_status clt_source_sum_classes(const clt_source *source, int64_t index, clt_draw draw, int field,
                                  const clt_class_sum *classes, void *scratch, double *sum)
{
    const clt_source_field *f = &source->fields[field];
    CLT_TRY(read_targets(source, index, draw, field, scratch));
    *sum = clt_sum_classes(classes, scratch, f->dtype, clt_shape_elements(&f->shape));
    return CLT_OK;
}

static clt_status out_of_bound(const clt_source *source, int64_t index, int field, int64_t element,
                               int64_t value, int64_t bound, bool has_ignore, int64_t ignore)
{
    CLT_SCOPED(clt_str) where = {0};
    char excuse[48] = "";
    if (source->type->locate)
        source->type->locate(source, index, field, &where);
    else
        clt_str_printf(&where, "sample %lld", (long long)index);
    if (has_ignore)
        snprintf(excuse, sizeof excuse, " (or %lld to be ignored)", (long long)ignore);
    CLT_TRY(clt_str_check(&where));
    CLT_FAIL(CLT_EDATA,
             "checking field \"%s\" of the data: element %lld of %s is %lld, out of range: the model takes 0 "
             "to %lld%s; repair the data or give the model more classes",
             source->fields[field].name, (long long)element, where.text, (long long)value,
             (long long)bound - 1, excuse);
}

/* Reads one field of all samples and checks its values. */
static clt_status check_values(const clt_source *source, int field, int64_t bound, bool has_ignore,
                               int64_t ignore)
{
    const clt_source_field *f = &source->fields[field];
    int64_t elements = clt_shape_elements(&f->shape);
    CLT_FREED void *sample = NULL;
    CLT_TRY(clt_alloc(&sample, (size_t)elements, clt_dtype_bytes(f->dtype), "a sample of the data"));
    for (int64_t index = 0; index < source->samples; index++) {
        CLT_TRY(read_one(source, index, (clt_draw){0}, field, sample));
        for (int64_t i = 0; i < elements; i++) {
            int64_t value = element_value(sample, f->dtype, i);
            if ((value < 0 || value >= bound) && !(has_ignore && value == ignore))
                return out_of_bound(source, index, field, i, value, bound, has_ignore, ignore);
        }
    }
    return CLT_OK;
}

clt_status clt_source_check_bound(const clt_source *source, int field, int64_t bound, bool has_ignore,
                                  int64_t ignore)
{
    if (field < 0 || field >= source->n_fields)
        CLT_FAIL(CLT_EINTERNAL, "checking field %d of a source with %d fields", field, source->n_fields);
    const clt_source_field *f = &source->fields[field];
    if (clt_dtype_is_float(f->dtype))
        CLT_FAIL(CLT_ECONFIG,
                 "checking field \"%s\" of the data: it holds %s numbers, but the model uses it as class or "
                 "embedding indices; store it as integers",
                 f->name, clt_dtype_name(f->dtype));
    bool done = false;
    if (source->type->check_bound) {
        CLT_TRY(source->type->check_bound(source, field, bound, has_ignore, ignore, &done));
        if (done)
            return CLT_OK;
    }
    /* Unsigned values are at least 0, so if the largest value is known, no pass over the data is needed. */
    if (f->is_index && f->max_value < bound && (f->dtype == CLT_U8 || f->dtype == CLT_U16))
        return CLT_OK;
    return after_scan(check_values(source, field, bound, has_ignore, ignore));
}

#define SCANNED 1024 /* number of samples between two checks of the files in a scan */

/* To be called after each sample of a scan: releases its bytes, and checks after every SCANNED samples that
 * all bytes have arrived. */
static clt_status scanned(clt_status status, int64_t index)
{
    clt_map_unpin();
    return status == CLT_OK && index % SCANNED != 0 ? CLT_OK : after_scan(status);
}

/* Reads one field of all samples. */
static clt_status scan_field(const clt_source *source, int field)
{
    CLT_FREED void *sample = NULL;
    CLT_TRY(clt_alloc(&sample, 1, clt_source_field_bytes(&source->fields[field]), "a sample of the data"));
    for (int64_t index = 0; index < source->samples; index++)
        CLT_TRY(scanned(read_one(source, index, (clt_draw){0}, field, sample), index));
    return CLT_OK;
}

clt_status clt_source_scan(const clt_source *source)
{
    clt_status status = CLT_OK;
    if (source->type->scan)
        return source->type->scan(source);
    for (int64_t index = 0; source->type->check_sample && index < source->samples; index++)
        CLT_TRY(scanned(source->type->check_sample(source, index), index));
    if (source->type->check_sample)
        return CLT_OK;
    for (int f = 0; f < source->n_fields && status == CLT_OK; f++)
        status = scan_field(source, f);
    return after_scan(status);
}

clt_status clt_source_read_fingerprint(const clt_source *source, char text[CLT_HASH64_TEXT])
{
    clt_hash64_state state;
    text[0] = '\0';
    if (!source->type->fingerprint)
        return CLT_OK;
    clt_hash64_begin(&state);
    CLT_TRY(source->type->fingerprint(source, &state));
    CLT_TRY(clt_map_check());
    if (source->remote && clt_remote_wait_is_over())
        CLT_FAIL(CLT_EINTERRUPTED, "computing the fingerprint of data: it is not needed any more");
    clt_hash64_text(clt_hash64_end(&state), text);
    return CLT_OK;
}

const char *clt_source_fingerprint(const clt_source *source, char text[CLT_HASH64_TEXT])
{
    CLT_KEEP_ERROR();
    (void)clt_source_read_fingerprint(source, text);
    return text;
}
