/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks over SQuAD's JSON without a tree of the whole file; the strict JSON reader reads one paragraph at a
 * time. */
#include "engine/data/records/squad_file.h"

#include <string.h>

#include "engine/json/json.h"
#include "engine/json/json_walk.h"

/* --- walking --- */

typedef struct cursor {
    clt_json_walk walk;
    clt_squad_visitor visit;
    void *context;
} cursor;

typedef clt_status (*entry_reader)(cursor *c);

static clt_status read_list(cursor *c, entry_reader read)
{
    bool more = true;
    CLT_TRY(clt_json_walk_expect(&c->walk, '[', "a list"));
    for (bool first = true; more; first = false) {
        CLT_TRY(clt_json_walk_entry(&c->walk, ']', first, &more));
        if (more)
            CLT_TRY(read(c));
    }
    return CLT_OK;
}

/* Reads the list `name` of an object and skips its other members. *found: whether the object has the
 * list. */
static clt_status read_member(cursor *c, const char *name, entry_reader read, bool *found)
{
    bool more = true;
    *found = false;
    CLT_TRY(clt_json_walk_expect(&c->walk, '{', "an object"));
    for (bool first = true; more; first = false) {
        CLT_TRY(clt_json_walk_entry(&c->walk, '}', first, &more));
        if (!more)
            break;
        (void)clt_json_walk_peek(&c->walk);
        const char *key = c->walk.at + 1;
        CLT_TRY(clt_json_walk_string(&c->walk));
        size_t length = (size_t)(c->walk.at - 1 - key);
        bool wanted = length == strlen(name) && memcmp(key, name, length) == 0;
        CLT_TRY(clt_json_walk_expect(&c->walk, ':', "a colon"));
        if (wanted && *found)
            return clt_json_walk_fault(&c->walk, "the end of the object, since this member appears twice,");
        CLT_TRY(wanted ? read_list(c, read) : clt_json_walk_value(&c->walk));
        *found = *found || wanted;
    }
    return CLT_OK;
}

static clt_status read_paragraph(cursor *c)
{
    (void)clt_json_walk_peek(&c->walk);
    const char *first = c->walk.at;
    CLT_TRY(clt_json_walk_value(&c->walk));
    return c->visit(c->context, first, (size_t)(c->walk.at - first), (size_t)(first - c->walk.begin));
}

static clt_status read_article(cursor *c)
{
    bool found;
    (void)clt_json_walk_peek(&c->walk);
    CLT_TRY(read_member(c, "paragraphs", read_paragraph, &found));
    return found ? CLT_OK
                 : clt_json_walk_fault(&c->walk, "an article with a list \"paragraphs\" before this place");
}

/* True if the text is an object that has a member "data" whose value is a list. */
static bool is_squad(const char *text, size_t size)
{
    cursor c = {.walk = {text, text, text + size, ""}};
    bool found = false, more = true;
    clt_status status = clt_json_walk_peek(&c.walk) == '{' ? CLT_OK : CLT_EDATA;
    c.walk.at++;
    for (bool first = true; status == CLT_OK && more && !found; first = false) {
        status = clt_json_walk_entry(&c.walk, '}', first, &more);
        if (status != CLT_OK || !more)
            break;
        (void)clt_json_walk_peek(&c.walk);
        const char *key = c.walk.at;
        status = clt_json_walk_string(&c.walk);
        status = status == CLT_OK ? clt_json_walk_expect(&c.walk, ':', "") : status;
        found = status == CLT_OK && strncmp(key, "\"data\"", 6) == 0 && clt_json_walk_peek(&c.walk) == '[';
        status = status == CLT_OK && !found ? clt_json_walk_value(&c.walk) : status;
    }
    clt_error_clear();
    return found;
}

clt_status clt_squad_walk(const char *text, size_t size, clt_squad_visitor visit, void *context, bool *found)
{
    cursor c = {{text, text, text + size, ", as SQuAD's files have it"}, visit, context};
    *found = is_squad(text, size);
    if (!*found)
        return CLT_OK;
    CLT_TRY(read_member(&c, "data", read_article, found));
    (void)clt_json_walk_peek(&c.walk);
    return c.walk.at == c.walk.end ? CLT_OK : clt_json_walk_fault(&c.walk, "the end of the file");
}

/* --- questions --- */

static clt_status parse_paragraph(const char *paragraph, size_t size, clt_json_doc **doc,
                                  const clt_json **questions)
{
    const char *context;
    CLT_TRY(clt_json_parse(paragraph, size, "paragraph", CLT_EDATA, doc));
    const clt_json *root = clt_json_root(*doc);
    if (clt_json_typeof(root) != CLT_JSON_OBJECT)
        CLT_FAIL(CLT_EDATA, "a paragraph is %s, and must be an object",
                 clt_json_type_name(clt_json_typeof(root)));
    CLT_TRY(clt_json_text(root, "context", &context));
    *questions = clt_json_get(root, "qas");
    if (clt_json_typeof(*questions) != CLT_JSON_ARRAY)
        CLT_FAIL(CLT_EDATA, "a paragraph has no list of questions, \"qas\"");
    return CLT_OK;
}

clt_status clt_squad_questions(const char *paragraph, size_t size, int64_t *count)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    const clt_json *questions;
    CLT_TRY(parse_paragraph(paragraph, size, &doc, &questions));
    *count = (int64_t)clt_json_count(questions);
    return CLT_OK;
}

clt_status clt_squad_record(const char *paragraph, size_t size, int64_t part, clt_str *out)
{
    static const char *const members[] = {"id", "question", "answers"};
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    const clt_json *one;
    CLT_TRY(parse_paragraph(paragraph, size, &doc, &one));
    for (one = clt_json_first(one); part > 0; part--)
        one = clt_json_next(one);
    if (clt_json_typeof(one) != CLT_JSON_OBJECT)
        CLT_FAIL(CLT_EDATA, "it is %s, and a question is an object",
                 clt_json_type_name(clt_json_typeof(one)));
    const clt_json *impossible = clt_json_get(one, "is_impossible");
    if (impossible && clt_json_typeof(impossible) != CLT_JSON_BOOL)
        return clt_json_wrong_type(impossible, "is_impossible", "true or false");
    bool none = clt_json_bool(impossible);
    clt_json_writer w = clt_json_writer_make(out, 0);
    clt_jw_object(&w);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        const clt_json *value = clt_json_get(one, members[i]);
        if (!value || (none && i == 2))
            continue;
        clt_jw_key(&w, members[i]);
        clt_jw_value(&w, value);
    }
    if (none) {
        clt_jw_karray(&w, "answers");
        clt_jw_end_array(&w);
    }
    clt_jw_key(&w, "context");
    clt_jw_value(&w, clt_json_get(clt_json_root(doc), "context"));
    clt_jw_end_object(&w);
    return clt_str_check(out);
}
