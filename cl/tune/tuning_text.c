/* SPDX-License-Identifier: Apache-2.0
 *
 * Tuning records as JSON, read strictly; in a file the last member is a hash of the text before it. A record
 * is accepted only if everything in it is valid, because a file may be truncated, edited, copied from
 * another machine or older than the kernels. This file must not know where files are. */
#include "cl/tune/tuning.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/device/internal.h"
#include "cl/kernels/kernel_source.h"
#include "cl/kernels/program_source.h"
#include "cl/tune/family.h"
#include "engine/base/hash.h"
#include "engine/base/text.h"
#include "engine/json/json_seal.h"

#define FORMAT_NAME "cltrain-tuning"
#define FORMAT_VERSION 1

/* Families */

static void hash_text(clt_hash64_state *state, const char *text)
{
    clt_hash64_add(state, text, strlen(text) + 1);
}

static void hash_variants(clt_hash64_state *state, const ocl_variant *const *list)
{
    char text[32];
    for (size_t i = 0; list[i] != NULL; i++) {
        hash_text(state, list[i]->name);
        for (const ocl_tunable *t = list[i]->tunables; t != NULL && t->name != NULL; t++) {
            hash_text(state, t->name);
            for (int v = 0; v < t->count; v++) {
                snprintf(text, sizeof text, "%d", t->values[v]);
                hash_text(state, text);
            }
        }
    }
}

clt_status ocl_family_hash(const char *family, uint64_t *hash)
{
    const ocl_family *known = ocl_family_find(family);
    char begins[64]; /* the line that begins a file's text in a source with includes */
    clt_hash64_state state;
    snprintf(begins, sizeof begins, "#line 1 \"%s", known != NULL ? known->sources : family);
    clt_hash64_begin(&state);
    hash_text(&state, CLT_VERSION);
    hash_text(&state, family);
    for (const ocl_embedded_source *s = ocl_embedded_sources; s->name != NULL; s++) {
        CLT_FREED char *text = NULL;
        if (!clt_ends_with(s->name, ".cl"))
            continue;
        CLT_TRY(ocl_source_text(s->name, &text));
        if (strstr(text, begins) != NULL)
            hash_text(&state, text);
    }
    if (known != NULL)
        hash_variants(&state, known->variants);
    *hash = clt_hash64_end(&state);
    return CLT_OK;
}

/* Writing */

static void write_families(const ocl_tuning *tuning, clt_json_writer *w)
{
    const char *last = "";
    clt_jw_kobject(w, "families");
    for (size_t i = 0; i < tuning->count; i++) {
        char text[CLT_HASH64_TEXT];
        uint64_t hash = 0;
        if (strcmp(tuning->records[i].family, last) == 0)
            continue;
        last = tuning->records[i].family;
        /* without a source there is no hash: readers will ignore the records */
        if (ocl_family_hash(last, &hash) != CLT_OK) {
            clt_error_clear();
            hash = 0;
        }
        clt_jw_kstring(w, last, clt_hash64_text(hash, text));
    }
    clt_jw_end_object(w);
}

static void write_record(const ocl_choice *r, bool measured, clt_json_writer *w)
{
    clt_jw_object(w);
    clt_jw_kstring(w, "family", r->family);
    clt_jw_kstring(w, "problem", r->problem);
    clt_jw_kstring(w, "variant", r->variant);
    clt_jw_kobject(w, "values");
    for (int i = 0; i < r->n_values; i++)
        clt_jw_kint(w, r->values[i].name, r->values[i].value);
    clt_jw_end_object(w);
    if (measured) {
        clt_jw_kdouble(w, "ns", r->ns);
        clt_jw_kdouble(w, "default_ns", r->default_ns);
        clt_jw_kint(w, "tried", r->tried);
        clt_jw_kbool(w, "complete", r->complete);
    }
    clt_jw_end_object(w);
}

static void write_members(const ocl_tuning *tuning, bool measured, clt_json_writer *w)
{
    clt_jw_kstring(w, "format", FORMAT_NAME);
    clt_jw_kint(w, "format_version", FORMAT_VERSION);
    clt_jw_kstring(w, "platform", tuning->key.platform);
    clt_jw_kstring(w, "device", tuning->key.device);
    clt_jw_kstring(w, "driver", tuning->key.driver);
    clt_jw_kint(w, "compute_units", tuning->key.compute_units);
    clt_jw_kbool(w, "exact", tuning->exact);
    if (tuning->style != OCL_STYLE_ASKED)
        clt_jw_kstring(w, "style", ocl_style_name(tuning->style));
    if (tuning->has_unsupported) {
        clt_jw_key(w, "denials");
        ocl_unsupported_write(&tuning->unsupported, w);
    }
    write_families(tuning, w);
    clt_jw_karray(w, "records");
    for (size_t i = 0; i < tuning->count; i++)
        write_record(&tuning->records[i], measured, w);
    clt_jw_end_array(w);
}

void ocl_tuning_write(const ocl_tuning *tuning, bool measured, clt_json_writer *w)
{
    clt_jw_object(w);
    write_members(tuning, measured, w);
    clt_jw_end_object(w);
}

/* Reading */

#define MAX_FAMILIES 32

typedef struct reader {
    const char *source;
    ocl_tuning *tuning;
    int n_families;
    struct {
        const char *name;
        bool current; /* its kernels have not changed since */
    } family[MAX_FAMILIES];
    int outdated;
} reader;

#define BAD(r, ...) CLT_FAIL(CLT_EDATA, "%s: %s", (r)->source, __VA_ARGS__)

/* Copies a text of 1 to size-1 printable characters. */
static bool take_text(const clt_json *value, char *out, size_t size)
{
    return clt_json_copy_string(value, out, size) && out[0] != '\0' && clt_text_plain(out) == strlen(out);
}

static bool take_ns(const clt_json *value, double *out)
{
    *out = clt_json_number_or(value, NAN);
    return *out >= 0.0;
}

static clt_status read_values(const reader *r, const clt_json *values, ocl_choice *record)
{
    if (clt_json_typeof(values) != CLT_JSON_OBJECT || clt_json_count(values) > OCL_TUNE_MAX)
        BAD(r, "a record's \"values\" is not an object of tunables");
    for (const clt_json *v = clt_json_first(values); v != NULL; v = clt_json_next(v)) {
        int64_t value;
        if (!clt_json_int_within(v, INT32_MIN, INT32_MAX, &value) || strlen(clt_json_key(v)) >= OCL_TUNE_NAME)
            BAD(r, "a tunable's value is not an integer, or its name is too long");
        CLT_TRY(ocl_choice_set(record, clt_json_key(v), (int)value));
    }
    return CLT_OK;
}

/* A record has either all members of a measurement or none. */
static clt_status read_measured(const reader *r, const clt_json *object, ocl_choice *record)
{
    const clt_json *ns = clt_json_get(object, "ns"), *was = clt_json_get(object, "default_ns"),
                   *tried = clt_json_get(object, "tried"), *complete = clt_json_get(object, "complete");
    int64_t count = 0;
    record->complete = true;
    if (ns == NULL && was == NULL && tried == NULL && complete == NULL)
        return CLT_OK;
    if (!take_ns(ns, &record->ns) || !take_ns(was, &record->default_ns) ||
        !clt_json_int_within(tried, 0, INT32_MAX, &count) || clt_json_typeof(complete) != CLT_JSON_BOOL)
        BAD(r, "a record's times are incomplete or impossible");
    record->tried = (int)count;
    record->complete = clt_json_bool(complete);
    return CLT_OK;
}

static clt_status read_record(reader *r, const clt_json *object)
{
    ocl_choice record = {0};
    if (clt_json_typeof(object) != CLT_JSON_OBJECT ||
        !take_text(clt_json_get(object, "family"), record.family, sizeof record.family) ||
        !take_text(clt_json_get(object, "problem"), record.problem, sizeof record.problem) ||
        !take_text(clt_json_get(object, "variant"), record.variant, sizeof record.variant))
        BAD(r, "a record lacks its family, problem or variant");
    CLT_TRY(read_values(r, clt_json_get(object, "values"), &record));
    CLT_TRY(read_measured(r, object, &record));
    int family = 0;
    while (family < r->n_families && strcmp(r->family[family].name, record.family) != 0)
        family++;
    if (family == r->n_families)
        BAD(r, "a record's family is not among \"families\"");
    if (ocl_tuning_exact(r->tuning, record.family, record.problem) != NULL)
        BAD(r, "a problem has two records");
    if (!r->family[family].current) {
        r->outdated++;
        return CLT_OK;
    }
    return ocl_tuning_set(r->tuning, &record);
}

/* A shipped set has "*" instead of a hash, because it is a first guess, valid for any version of the
 * kernels. */
static clt_status read_families(reader *r, const clt_json *families)
{
    if (clt_json_typeof(families) != CLT_JSON_OBJECT || clt_json_count(families) > MAX_FAMILIES)
        BAD(r, "its list of kernel families is missing or invalid");
    for (const clt_json *v = clt_json_first(families); v != NULL; v = clt_json_next(v)) {
        char text[CLT_HASH64_TEXT], was[CLT_HASH64_TEXT];
        uint64_t hash;
        if (!take_text(v, was, sizeof was))
            BAD(r, "the hash of a family's kernels is not text");
        CLT_TRY(ocl_family_hash(clt_json_key(v), &hash));
        r->family[r->n_families].name = clt_json_key(v);
        r->family[r->n_families++].current =
            strcmp(was, "*") == 0 || strcmp(was, clt_hash64_text(hash, text)) == 0;
    }
    return CLT_OK;
}

static clt_status read_head(reader *r, const clt_json *root)
{
    int64_t version = 0, units = 0;
    ocl_tuning_key *key = &r->tuning->key;
    const clt_json *exact;
    if (!clt_json_is(clt_json_get(root, "format"), FORMAT_NAME))
        BAD(r, "it holds no tuning records");
    if (!clt_json_int_within(clt_json_get(root, "format_version"), 1, INT32_MAX, &version))
        BAD(r, "it has no format version");
    if (version != FORMAT_VERSION)
        CLT_FAIL(CLT_EDATA, "%s: it has format %" PRId64 ", this cltrain reads %d", r->source, version,
                 FORMAT_VERSION);
    exact = clt_json_get(root, "exact");
    if (!take_text(clt_json_get(root, "platform"), key->platform, sizeof key->platform) ||
        !take_text(clt_json_get(root, "device"), key->device, sizeof key->device) ||
        !take_text(clt_json_get(root, "driver"), key->driver, sizeof key->driver) ||
        !clt_json_int_within(clt_json_get(root, "compute_units"), 0, UINT32_MAX, &units) ||
        clt_json_typeof(exact) != CLT_JSON_BOOL)
        BAD(r, "its description of the device and driver is incomplete");
    key->compute_units = (uint32_t)units;
    r->tuning->exact = clt_json_bool(exact);
    const clt_json *style = clt_json_get(root, "style");
    char name[16];
    if (style != NULL &&
        (!take_text(style, name, sizeof name) || !ocl_style_from_name(name, &r->tuning->style)))
        BAD(r, "its style is not known");
    const clt_json *unsupported = clt_json_get(root, "denials");
    r->tuning->has_unsupported = unsupported != NULL;
    if (unsupported != NULL)
        CLT_TRY(ocl_unsupported_read(unsupported, r->source, &r->tuning->unsupported));
    return read_families(r, clt_json_get(root, "families"));
}

static clt_status read_all(reader *r, const clt_json *root)
{
    CLT_TRY(read_head(r, root));
    const clt_json *records = clt_json_get(root, "records");
    if (clt_json_typeof(records) != CLT_JSON_ARRAY || clt_json_count(records) > OCL_TUNING_MAX_RECORDS)
        BAD(r, "it has no list of records");
    for (const clt_json *v = clt_json_first(records); v != NULL; v = clt_json_next(v))
        CLT_TRY(read_record(r, v));
    return CLT_OK;
}

clt_status ocl_tuning_read(const clt_json *object, const char *source, ocl_tuning **out, int *outdated)
{
    CLT_SCOPED(ocl_tuning) *tuning = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&tuning, 1, sizeof *tuning, "tuning records"));
    reader r = {.source = source, .tuning = tuning};
    CLT_TRY(read_all(&r, object));
    if (outdated != NULL)
        *outdated = r.outdated;
    *out = CLT_TAKE(tuning);
    return CLT_OK;
}

/* Files */

#define SEAL "tuning_xxh64"

clt_status ocl_tuning_print(const ocl_tuning *tuning, clt_str *out)
{
    size_t from = out->length;
    clt_json_writer w = clt_json_writer_make(out, 2);
    clt_jw_object(&w);
    write_members(tuning, true, &w);
    return clt_json_seal(out, from, SEAL);
}

clt_status ocl_tuning_parse(const char *text, size_t length, const char *source, ocl_tuning **out,
                            int *outdated)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    *out = NULL;
    if (!clt_json_sealed(text, length, SEAL))
        CLT_FAIL(CLT_EDATA, "%s: does not match its own hash; it was cut off, damaged or edited", source);
    CLT_TRY(clt_json_parse(text, length, source, CLT_EDATA, &doc));
    return ocl_tuning_read(clt_json_root(doc), source, out, outdated);
}
