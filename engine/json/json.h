/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON: a strict reader on top of cJSON (positions of all values, no duplicate keys, exact integers, limits
 * of depth and size, valid UTF-8), and a streaming writer. No other room uses cJSON directly. */
#ifndef ENGINE_JSON_JSON_H
#define ENGINE_JSON_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/mem.h"
#include "engine/base/scope.h"
#include "engine/base/status.h"

typedef enum clt_json_type {
    CLT_JSON_NULL,
    CLT_JSON_BOOL,
    CLT_JSON_NUMBER,
    CLT_JSON_STRING,
    CLT_JSON_ARRAY,
    CLT_JSON_OBJECT,
    CLT_JSON_MISSING /* NULL, which clt_json_get returns for a member that is not there */
} clt_json_type;

typedef struct clt_json_doc clt_json_doc;
typedef struct clt_json clt_json; /* a value inside a document, borrowed from it */

/* clt_json_parse: `source` is the name used in messages ("configs/mlp.json"). Fails with `code`
 * (CLT_ECONFIG, CLT_EDATA or CLT_ECHECKPOINT, as fits the caller) and "source:line:column: why" for:
 * syntax, trailing text, comments, duplicate keys (both positions named), NUL or invalid UTF-8, numbers
 * beyond a double, depth > 64, length > 100,000,000 bytes, more than 4,000,000 values. */
clt_status clt_json_parse(const char *text, size_t length, const char *source, clt_status code,
                          clt_json_doc **out);
clt_status clt_json_parse_file(const char *path, clt_status code, clt_json_doc **out);
void clt_json_destroy(clt_json_doc *doc);
CLT_SCOPED_POINTER(clt_json_doc, clt_json_destroy)
const clt_json *clt_json_root(const clt_json_doc *doc); /* `doc` NULL: returns NULL */
const char *clt_json_source(const clt_json_doc *doc);

clt_json_type clt_json_typeof(const clt_json *value);
const char *clt_json_type_name(clt_json_type type); /* "an object", "null", "missing", ... */
const char *clt_json_key(const clt_json *value);    /* key inside the parent object, or NULL */
/* The member with this key, case-sensitive; NULL if there is none or `value` is no object. */
const clt_json *clt_json_get(const clt_json *object, const char *key);
/* Like clt_json_get, but NULL also for a member that is null. */
const clt_json *clt_json_given(const clt_json *object, const char *key);
const clt_json *clt_json_first(const clt_json *container); /* first child of array/object or NULL */
const clt_json *clt_json_next(const clt_json *value);      /* next sibling or NULL */
size_t clt_json_count(const clt_json *container);
/* For a value that is either one entry or a list of entries: returns the entry after `before` (NULL: the
 * first entry); NULL: there are no more. */
const clt_json *clt_json_entry(const clt_json *value, const clt_json *before);
/* For NULL and for a value of another type clt_json_get, _given and _first return NULL, _count returns 0,
 * and the functions below return false, 0 or "" and leave *out as it is. */
bool clt_json_bool(const clt_json *value);
double clt_json_number(const clt_json *value);
/* True when the number was written as an integer (no '.', no exponent) and fits int64 exactly. */
bool clt_json_int(const clt_json *value, int64_t *out);
/* The same, and also within `low` to `high`. */
bool clt_json_int_within(const clt_json *value, int64_t low, int64_t high, int64_t *out);
const char *clt_json_string(const clt_json *value);        /* valid UTF-8 without NUL inside */
bool clt_json_is(const clt_json *value, const char *text); /* true for a string equal to `text` */
/* Copies a string of fewer than `size` bytes; false for a longer one. */
bool clt_json_copy_string(const clt_json *value, char *out, size_t size);
/* The number or string; `other` for a value of another type and for NULL. */
double clt_json_number_or(const clt_json *value, double other);
const char *clt_json_string_or(const clt_json *value, const char *other);
/* For records of JSON Lines; the caller adds the record's place to the message. clt_json_record: reads a
 * line into *doc; CLT_EDATA if it is no object. clt_json_text: gives the string that is member `name` of
 * `record`; CLT_EDATA if there is none. clt_json_wrong_type: fails with CLT_EDATA, for a member that must be
 * `wanted`, such as "a list". */
clt_status clt_json_record(const char *line, size_t size, clt_json_doc **doc, const clt_json **record);
clt_status clt_json_text(const clt_json *record, const char *name, const char **out);
clt_status clt_json_wrong_type(const clt_json *value, const char *name, const char *wanted);
/* Line and column (from 1; columns count bytes) where the value starts; 0 for a value that is not in a
 * text. */
void clt_json_position(const clt_json *value, int *line, int *column);

/* A document whose root is an object without members, to be filled with values of other documents. */
clt_status clt_json_create(const char *source, clt_json_doc **out);
/* Copies a value with its position into the document's memory, without putting it into a container. */
clt_status clt_json_copy(clt_json_doc *doc, const clt_json *value, const clt_json **out);
/* Copies a value as member `key` of the root; it replaces a member with this key. `placed`: the value keeps
 * its position, since it comes from the text that `source` names. */
clt_status clt_json_put(clt_json_doc *doc, const char *key, const clt_json *value, bool placed);

/* Writer: appends to a clt_str. Commas and indentation are handled; doubles are written with the fewest
 * digits that read back as the same number; non-finite numbers are written as null. `indent` 0: one line. */
typedef struct clt_json_writer {
    clt_str *out;
    int indent, depth;
    bool needs_comma, after_key;
} clt_json_writer;
clt_json_writer clt_json_writer_make(clt_str *out, int indent);
void clt_jw_object(clt_json_writer *w);
void clt_jw_end_object(clt_json_writer *w);
void clt_jw_array(clt_json_writer *w);
void clt_jw_end_array(clt_json_writer *w);
void clt_jw_key(clt_json_writer *w, const char *key);
void clt_jw_string(clt_json_writer *w, const char *value); /* NULL is written as null */
void clt_jw_int(clt_json_writer *w, int64_t value);
void clt_jw_double(clt_json_writer *w, double value);
void clt_jw_float(clt_json_writer *w, float value); /* fewest digits that read back as the same float */
void clt_jw_bool(clt_json_writer *w, bool value);
void clt_jw_null(clt_json_writer *w);
void clt_jw_value(clt_json_writer *w, const clt_json *value); /* copies a parsed value; NULL: as null */
/* key and value in one call; for an object or array, key and opening bracket */
void clt_jw_kobject(clt_json_writer *w, const char *key);
void clt_jw_karray(clt_json_writer *w, const char *key);
void clt_jw_knull(clt_json_writer *w, const char *key);
void clt_jw_kstring(clt_json_writer *w, const char *key, const char *value);
void clt_jw_kint(clt_json_writer *w, const char *key, int64_t value);
void clt_jw_kdouble(clt_json_writer *w, const char *key, double value);
void clt_jw_kbool(clt_json_writer *w, const char *key, bool value);

#endif
