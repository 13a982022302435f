/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON reader: runs the scanner, then cJSON, then builds its own tree in an arena, which has the
 * position of every value and the exact value of every integer. cJSON alone keeps numbers only as
 * doubles, follows the locale, limits a number to 63 characters and accepts duplicate keys. So cJSON gets
 * the text with every number replaced by 0, and gives only structure and strings. The reader must not
 * know what any document means. */
#include "engine/json/json.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/files/fileio.h"
#include "engine/json/json_scan.h"

/* Objects with at least this many members get a sorted index for look-ups. */
#define INDEX_FROM 9

struct clt_json {
    clt_json_type type;
    bool boolean, is_int;
    uint32_t key_offset;
    int line, column; /* where the value begins in the text; 0: it is not from a text */
    const char *key;
    struct clt_json *first, *next;
    size_t count;
    const clt_json **index; /* members sorted by key, or NULL */
    union {
        struct {
            double number;
            int64_t integer;
        };
        const char *string;
    };
};

struct clt_json_doc {
    clt_arena *arena;
    const char *source;
    clt_json *root;
};

/* Everything a parse needs while it runs. */
typedef struct parse {
    clt_json_scan scan;
    clt_json_doc *doc;
    cJSON *tree;
    size_t next_mark;
} parse;

static void parse_end_scope(parse *p)
{
    cJSON_Delete(p->tree);
    free(p->scan.marks);
    free(p->scan.lines);
    clt_json_destroy(p->doc);
}

static clt_status no_memory(void)
{
    /* The arena has already recorded which allocation failed. */
    return CLT_ENOMEM;
}

/* Reads the exact value of an integer's text; false if it has a '.' or an exponent or does not fit. */
static bool read_integer(const char *text, size_t length, int64_t *out)
{
    bool negative = text[0] == '-';
    int64_t value = 0;
    for (size_t i = negative ? 1 : 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        int digit = text[i] - '0';
        if (__builtin_mul_overflow(value, (int64_t)10, &value) ||
            __builtin_add_overflow(value, (int64_t)(negative ? -digit : digit), &value))
            return false;
    }
    *out = value;
    return true;
}

static clt_status read_number(parse *p, const clt_json_mark *mark, clt_json *node)
{
    const char *text = p->scan.text + mark->offset;
    char small[128];
    char *copy = small;
    /* Copies the number, since strtod needs a NUL after it, which the text may lack. */
    if (mark->length >= sizeof small)
        CLT_TRY(clt_alloc(&copy, mark->length + 1, 1, "a long number of a JSON text"));
    memcpy(copy, text, mark->length);
    copy[mark->length] = '\0';
    node->number = clt_strtod(copy, NULL);
    if (copy != small)
        free(copy);
    if (!isfinite(node->number))
        return clt_json_scan_fail(&p->scan, mark->offset, "the number is too large for a double");
    int64_t integer = 0;
    node->is_int = read_integer(text, mark->length, &integer);
    node->integer = integer;
    return CLT_OK;
}

static int by_key(const void *a, const void *b)
{
    const clt_json *x = *(const clt_json *const *)a, *y = *(const clt_json *const *)b;
    int order = strcmp(x->key, y->key);
    return order ? order : (x->key_offset > y->key_offset) - (x->key_offset < y->key_offset);
}

static clt_status duplicate(parse *p, const clt_json *first, const clt_json *second)
{
    int line, column;
    clt_json_line_column(p->scan.lines, p->scan.line_count, first->key_offset, &line, &column);
    return clt_json_scan_fail(&p->scan, second->key_offset,
                              "duplicate key \"%.200s\" (first at %d:%d); remove one of the two", second->key,
                              line, column);
}

/* Refuses duplicate keys (reporting the pair that comes first in the text) and builds the index of large
 * objects. */
static clt_status check_keys(parse *p, clt_json *object)
{
    const clt_json *first = NULL, *second = NULL;
    if (object->count < INDEX_FROM) {
        for (const clt_json *b = object->first; b && !second; b = b->next)
            for (const clt_json *a = object->first; a != b && !second; a = a->next)
                if (strcmp(a->key, b->key) == 0) {
                    first = a;
                    second = b;
                }
        return second ? duplicate(p, first, second) : CLT_OK;
    }
    object->index = clt_arena_alloc(p->doc->arena, object->count * sizeof *object->index);
    if (!object->index)
        return no_memory();
    size_t n = 0;
    for (const clt_json *member = object->first; member; member = member->next)
        object->index[n++] = member;
    qsort(object->index, n, sizeof *object->index, by_key);
    for (size_t i = 1; i < n; i++) {
        const clt_json *a = object->index[i - 1], *b = object->index[i];
        if (strcmp(a->key, b->key) == 0 && (!second || b->key_offset < second->key_offset)) {
            first = a;
            second = b;
        }
    }
    return second ? duplicate(p, first, second) : CLT_OK;
}

static clt_json_type type_of_item(const cJSON *item)
{
    if (cJSON_IsObject(item))
        return CLT_JSON_OBJECT;
    if (cJSON_IsArray(item))
        return CLT_JSON_ARRAY;
    if (cJSON_IsString(item))
        return CLT_JSON_STRING;
    if (cJSON_IsNumber(item))
        return CLT_JSON_NUMBER;
    return cJSON_IsBool(item) ? CLT_JSON_BOOL : CLT_JSON_NULL;
}

static clt_json_type type_of_text(char c)
{
    switch (c) {
    case '{':
        return CLT_JSON_OBJECT;
    case '[':
        return CLT_JSON_ARRAY;
    case '"':
        return CLT_JSON_STRING;
    case 't':
    case 'f':
        return CLT_JSON_BOOL;
    case 'n':
        return CLT_JSON_NULL;
    default:
        return CLT_JSON_NUMBER;
    }
}

/* cJSON's items and the scanner's marks come in the same order. If the orders ever differed, positions would
 * be wrong, so a difference is an internal error. */
static clt_status out_of_step(const parse *p)
{
    CLT_FAIL(CLT_EINTERNAL,
             "reading %s: the scanner and cJSON disagree about value %zu; please report this text",
             p->scan.source, p->next_mark);
}

static clt_status build(parse *p, const cJSON *item, clt_json **out)
{
    if (p->next_mark >= p->scan.mark_count)
        return out_of_step(p);
    const clt_json_mark *mark = &p->scan.marks[p->next_mark];
    clt_json *node = clt_arena_alloc(p->doc->arena, sizeof *node);
    if (!node)
        return no_memory();
    node->type = type_of_item(item);
    clt_json_line_column(p->scan.lines, p->scan.line_count, mark->offset, &node->line, &node->column);
    node->key_offset = mark->key_offset;
    bool keyed = mark->key_offset != CLT_JSON_NO_KEY;
    if (node->type != type_of_text(p->scan.text[mark->offset]) || keyed != (item->string != NULL))
        return out_of_step(p);
    p->next_mark++;
    if (keyed && !(node->key = clt_arena_strdup(p->doc->arena, item->string)))
        return no_memory();
    if (node->type == CLT_JSON_BOOL)
        node->boolean = cJSON_IsTrue(item);
    if (node->type == CLT_JSON_STRING && !(node->string = clt_arena_strdup(p->doc->arena, item->valuestring)))
        return no_memory();
    if (node->type == CLT_JSON_NUMBER)
        CLT_TRY(read_number(p, mark, node));
    clt_json **link = &node->first;
    for (const cJSON *child = item->child; child; child = child->next) {
        CLT_TRY(build(p, child, link));
        link = &(*link)->next;
        node->count++;
    }
    if (node->type == CLT_JSON_OBJECT)
        CLT_TRY(check_keys(p, node));
    *out = node;
    return CLT_OK;
}

static clt_status run_cjson(parse *p)
{
    CLT_FREED char *copy = NULL;
    CLT_TRY(clt_alloc(&copy, p->scan.length + 1, 1, "a copy of a JSON text"));
    memcpy(copy, p->scan.text, p->scan.length);
    for (size_t i = 0; i < p->scan.mark_count; i++) {
        const clt_json_mark *mark = &p->scan.marks[i];
        if (mark->length) {
            memset(copy + mark->offset, ' ', mark->length);
            copy[mark->offset] = '0';
        }
    }
    errno = 0;
    p->tree = cJSON_ParseWithLengthOpts(copy, p->scan.length + 1, NULL, true);
    if (!p->tree && errno == ENOMEM)
        CLT_FAIL(CLT_ENOMEM, "reading %s: out of host memory for %zu values", p->scan.source,
                 p->scan.mark_count);
    return p->tree ? CLT_OK : out_of_step(p);
}

static clt_status new_document(const char *source, clt_json_doc **out)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&doc, 1, sizeof *doc, "a JSON document"));
    CLT_TRY(clt_arena_create(&doc->arena));
    if (!(doc->source = clt_arena_strdup(doc->arena, source)))
        return no_memory();
    *out = CLT_TAKE(doc);
    return CLT_OK;
}

clt_status clt_json_parse(const char *text, size_t length, const char *source, clt_status code,
                          clt_json_doc **out)
{
    CLT_SCOPED(parse) p = {.scan = {.text = text, .source = source, .length = length, .code = code}};
    *out = NULL;
    CLT_TRY(new_document(source, &p.doc));
    CLT_TRY(clt_json_scan_run(&p.scan));
    CLT_TRY(run_cjson(&p));
    CLT_TRY(build(&p, p.tree, &p.doc->root));
    if (p.next_mark != p.scan.mark_count)
        return out_of_step(&p);
    *out = CLT_TAKE(p.doc);
    return CLT_OK;
}

clt_status clt_json_parse_file(const char *path, clt_status code, clt_json_doc **out)
{
    CLT_FREED char *text = NULL;
    size_t size = 0;
    *out = NULL;
    CLT_TRY(clt_file_read(path, false, CLT_JSON_MAX_BYTES, code, &text, &size));
    return clt_json_parse(text, size, path, code, out);
}

void clt_json_destroy(clt_json_doc *doc)
{
    if (!doc)
        return;
    clt_arena_destroy(doc->arena);
    free(doc);
}

const clt_json *clt_json_root(const clt_json_doc *doc)
{
    return doc ? doc->root : NULL;
}

const char *clt_json_source(const clt_json_doc *doc)
{
    return doc->source;
}

clt_json_type clt_json_typeof(const clt_json *value)
{
    return value ? value->type : CLT_JSON_MISSING;
}

const char *clt_json_type_name(clt_json_type type)
{
    static const char *const names[] = {"null",     "a boolean", "a number", "a string",
                                        "an array", "an object", "missing"};
    return (unsigned)type < sizeof names / sizeof names[0] ? names[type] : "unknown";
}

const char *clt_json_key(const clt_json *value)
{
    return value->key;
}

const clt_json *clt_json_get(const clt_json *object, const char *key)
{
    if (!object || object->type != CLT_JSON_OBJECT)
        return NULL;
    if (!object->index) {
        const clt_json *member = object->first;
        while (member && strcmp(member->key, key) != 0)
            member = member->next;
        return member;
    }
    size_t low = 0, high = object->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(key, object->index[middle]->key);
        if (order == 0)
            return object->index[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const clt_json *clt_json_given(const clt_json *object, const char *key)
{
    const clt_json *value = clt_json_get(object, key);
    return clt_json_typeof(value) == CLT_JSON_NULL ? NULL : value;
}

const clt_json *clt_json_first(const clt_json *container)
{
    return container ? container->first : NULL;
}

const clt_json *clt_json_next(const clt_json *value)
{
    return value->next;
}

size_t clt_json_count(const clt_json *container)
{
    return container ? container->count : 0;
}

const clt_json *clt_json_entry(const clt_json *value, const clt_json *before)
{
    bool list = clt_json_typeof(value) == CLT_JSON_ARRAY;
    if (!before)
        return list ? value->first : value;
    return list ? before->next : NULL;
}

bool clt_json_bool(const clt_json *value)
{
    return clt_json_typeof(value) == CLT_JSON_BOOL && value->boolean;
}

double clt_json_number(const clt_json *value)
{
    return clt_json_number_or(value, 0);
}

double clt_json_number_or(const clt_json *value, double other)
{
    return clt_json_typeof(value) == CLT_JSON_NUMBER ? value->number : other;
}

bool clt_json_int(const clt_json *value, int64_t *out)
{
    return clt_json_int_within(value, INT64_MIN, INT64_MAX, out);
}

bool clt_json_int_within(const clt_json *value, int64_t low, int64_t high, int64_t *out)
{
    if (clt_json_typeof(value) != CLT_JSON_NUMBER || !value->is_int || value->integer < low ||
        value->integer > high)
        return false;
    *out = value->integer;
    return true;
}

const char *clt_json_string(const clt_json *value)
{
    return clt_json_string_or(value, "");
}

const char *clt_json_string_or(const clt_json *value, const char *other)
{
    return clt_json_typeof(value) == CLT_JSON_STRING ? value->string : other;
}

bool clt_json_is(const clt_json *value, const char *text)
{
    return clt_json_typeof(value) == CLT_JSON_STRING && strcmp(value->string, text) == 0;
}

bool clt_json_copy_string(const clt_json *value, char *out, size_t size)
{
    size_t length = strlen(clt_json_string(value));
    if (clt_json_typeof(value) != CLT_JSON_STRING || length >= size)
        return false;
    memcpy(out, value->string, length + 1);
    return true;
}

void clt_json_position(const clt_json *value, int *line, int *column)
{
    *line = value->line;
    *column = value->column;
}

/* --- documents made from values of other documents --- */

clt_status clt_json_create(const char *source, clt_json_doc **out)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    *out = NULL;
    CLT_TRY(new_document(source, &doc));
    doc->root = clt_arena_alloc(doc->arena, sizeof *doc->root);
    if (!doc->root)
        return no_memory();
    doc->root->type = CLT_JSON_OBJECT;
    *out = CLT_TAKE(doc);
    return CLT_OK;
}

static clt_status copy(clt_json_doc *doc, const clt_json *from, bool placed, clt_json **out)
{
    clt_json *node = clt_arena_alloc(doc->arena, sizeof *node);
    if (!node)
        return no_memory();
    *node = *from;
    node->index = NULL;
    node->first = node->next = NULL;
    if (!placed)
        node->line = node->column = 0;
    if (from->key && !(node->key = clt_arena_strdup(doc->arena, from->key)))
        return no_memory();
    if (from->type == CLT_JSON_STRING && !(node->string = clt_arena_strdup(doc->arena, from->string)))
        return no_memory();
    clt_json **link = &node->first;
    for (const clt_json *child = from->first; child; child = child->next) {
        CLT_TRY(copy(doc, child, placed, link));
        link = &(*link)->next;
    }
    *out = node;
    return CLT_OK;
}

clt_status clt_json_copy(clt_json_doc *doc, const clt_json *value, const clt_json **out)
{
    clt_json *node = NULL;
    CLT_TRY(copy(doc, value, true, &node));
    *out = node;
    return CLT_OK;
}

clt_status clt_json_put(clt_json_doc *doc, const char *key, const clt_json *value, bool placed)
{
    clt_json *node = NULL, **link = &doc->root->first;
    CLT_TRY(copy(doc, value, placed, &node));
    if (!(node->key = clt_arena_strdup(doc->arena, key)))
        return no_memory();
    while (*link && strcmp((*link)->key, key) != 0)
        link = &(*link)->next;
    doc->root->count += *link == NULL;
    node->next = *link ? (*link)->next : NULL;
    *link = node;
    return CLT_OK;
}

clt_status clt_json_record(const char *line, size_t size, clt_json_doc **doc, const clt_json **record)
{
    CLT_TRY(clt_json_parse(line, size, "record", CLT_EDATA, doc));
    *record = (*doc)->root;
    if ((*record)->type != CLT_JSON_OBJECT)
        CLT_FAIL(CLT_EDATA, "it is %s, and a record is an object", clt_json_type_name((*record)->type));
    return CLT_OK;
}

clt_status clt_json_wrong_type(const clt_json *value, const char *name, const char *wanted)
{
    CLT_FAIL(CLT_EDATA, "its \"%s\" is %s, and must be %s", name, clt_json_type_name(clt_json_typeof(value)),
             wanted);
}

clt_status clt_json_text(const clt_json *record, const char *name, const char **out)
{
    const clt_json *value = clt_json_get(record, name);
    if (!value)
        CLT_FAIL(CLT_EDATA, "it has no \"%s\"", name);
    if (clt_json_typeof(value) != CLT_JSON_STRING)
        return clt_json_wrong_type(value, name, "a string");
    *out = clt_json_string(value);
    return CLT_OK;
}
