/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects and reports the mistakes in a list of layers. */
#include "engine/models/findings.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/models/models_internal.h"

/* Leaves room for the last line, which counts the findings that did not fit. */
#define TEXT_LIMIT (CLT_ERROR_TEXT_SIZE - 128)

void clt_findings_add(clt_findings *list, const clt_json *value, clt_status code, const char *text)
{
    clt_str full = {0};
    clt_finding finding = {.order = (int)list->count};
    const char *source = list->doc ? clt_json_source(list->doc) : "";
    size_t length = strlen(source);
    bool placed = length && strncmp(text, source, length) == 0 && text[length] == ':';
    if (list->doc && value)
        clt_json_position(value, &finding.line, &finding.column);
    if (!placed)
        clt_model_position(list->doc, value, &full);
    clt_str_append(&full, text);
    if (full.failed || clt_grow(&list->items, &list->capacity, list->count + 1, sizeof *list->items,
                                "the list of problems in a model") != CLT_OK) {
        list->failed = true;
        clt_str_free(&full);
        return;
    }
    finding.text = full.text;
    if (list->count == 0)
        list->code = code;
    list->items[list->count++] = finding;
}

void clt_findings_add_error(clt_findings *list, const clt_json *value, clt_status status)
{
    clt_error error;
    clt_error_take(status, &error);
    clt_findings_add(list, value, status, error.text);
}

static int by_place(const void *left, const void *right)
{
    const clt_finding *a = left, *b = right;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    if (a->column != b->column)
        return a->column < b->column ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

clt_status clt_findings_finish(clt_findings *list)
{
    clt_status status = CLT_OK;
    clt_str text = {0};
    size_t told = 0;
    if (list->count > 1)
        qsort(list->items, list->count, sizeof *list->items, by_place);
    for (; told < list->count; told++) {
        if (told > 0 && text.length + strlen(list->items[told].text) > TEXT_LIMIT)
            break;
        clt_str_printf(&text, "%s%s", told ? "\n" : "", list->items[told].text);
    }
    if (told < list->count)
        clt_str_printf(&text, "\nand %zu more problem%s", list->count - told, CLT_PLURAL(list->count - told));
    if (list->failed || text.failed)
        status = clt_fail(CLT_ENOMEM, __FILE__, __LINE__, "checking a model: out of host memory");
    else if (list->count > 0)
        status = clt_fail(list->code, __FILE__, __LINE__, "%s", text.text);
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].text);
    free(list->items);
    *list = (clt_findings){.doc = list->doc};
    clt_str_free(&text);
    return status;
}
