/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds where the values of a JSON text end. */
#include "engine/json/json_walk.h"

#include <stdint.h>
#include <string.h>

clt_status clt_json_walk_fault(const clt_json_walk *walk, const char *wanted)
{
    CLT_FAIL(CLT_EDATA, "byte %zu: expected %s%s", (size_t)(walk->at - walk->begin) + 1, wanted, walk->as);
}

char clt_json_walk_peek(clt_json_walk *walk)
{
    while (walk->at < walk->end && *walk->at && strchr(" \t\r\n", *walk->at))
        walk->at++;
    return walk->at < walk->end ? *walk->at : '\0';
}

clt_status clt_json_walk_expect(clt_json_walk *walk, char wanted, const char *name)
{
    if (clt_json_walk_peek(walk) != wanted)
        return clt_json_walk_fault(walk, name);
    walk->at++;
    return CLT_OK;
}

clt_status clt_json_walk_string(clt_json_walk *walk)
{
    CLT_TRY(clt_json_walk_expect(walk, '"', "a string"));
    for (; walk->at < walk->end && *walk->at != '"'; walk->at++)
        walk->at += *walk->at == '\\' && walk->at + 1 < walk->end;
    return walk->at < walk->end ? (walk->at++, CLT_OK) : clt_json_walk_fault(walk, "the end of a string");
}

clt_status clt_json_walk_value(clt_json_walk *walk)
{
    int64_t depth = 0;
    do {
        char next = clt_json_walk_peek(walk);
        if (next == '"') {
            CLT_TRY(clt_json_walk_string(walk));
        } else if (next == '{' || next == '[') {
            depth++;
            walk->at++;
        } else if (next == '}' || next == ']') {
            if (depth-- == 0)
                return clt_json_walk_fault(walk, "a value");
            walk->at++;
        } else if (depth > 0 && (next == ',' || next == ':')) {
            walk->at++;
        } else {
            const char *first = walk->at;
            while (walk->at < walk->end && *walk->at && !strchr(" \t\r\n,:]}[{\"", *walk->at))
                walk->at++;
            if (walk->at == first)
                return clt_json_walk_fault(walk, "a value");
        }
    } while (depth > 0);
    return CLT_OK;
}

clt_status clt_json_walk_entry(clt_json_walk *walk, char closing, bool first, bool *more)
{
    *more = clt_json_walk_peek(walk) != closing;
    if (!*more)
        walk->at++;
    else if (!first)
        return clt_json_walk_expect(walk, ',', "a comma or the end of a list or object");
    return CLT_OK;
}

bool clt_json_starts_list(const char *text, size_t size)
{
    clt_json_walk walk = {.begin = text, .at = text, .end = text + size};
    if (clt_json_walk_peek(&walk) != '[')
        return false;
    walk.at++;
    char next = clt_json_walk_peek(&walk);
    return next == '{' || next == ']';
}

const char *clt_json_first_record(const char *text, size_t size, size_t *record_size)
{
    clt_json_walk walk = {.begin = text, .at = text, .end = text + size, .as = ""};
    if (!clt_json_starts_list(text, size)) {
        const char *newline = memchr(text, '\n', size);
        *record_size = newline ? (size_t)(newline - text) : size;
        return size > 0 && text[0] == '{' ? text : NULL;
    }
    (void)clt_json_walk_expect(&walk, '[', "a list");
    bool object = clt_json_walk_peek(&walk) == '{';
    const char *first = walk.at;
    object = object && clt_json_walk_value(&walk) == CLT_OK;
    clt_error_clear();
    *record_size = (size_t)(walk.at - first);
    return object ? first : NULL;
}
