/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of problems: collects problems, sorts them by their position in the file and joins them into one
 * message. Knows nothing of keys. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/config/config_internal.h"
#include "engine/base/text.h"

/* Leaves room for a last line with the number of problems that did not fit. */
#define TEXT_LIMIT (CLT_ERROR_TEXT_SIZE - 128)

void clt_config_report(clt_config_problems *list, const char *source, int line, int column,
                       const char *format, ...)
{
    clt_str text = {0};
    char message[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (line > 0)
        clt_str_printf(&text, "%s:%d:%d: %s", source, line, column, message);
    else
        clt_str_printf(&text, "%s: %s", source, message);
    if (text.failed || clt_grow(&list->items, &list->capacity, list->count + 1, sizeof *list->items,
                                "the list of problems in a config") != CLT_OK) {
        list->failed = true;
        clt_str_free(&text);
        return;
    }
    clt_config_problem problem = {text.text, line > 0 ? line : 1 << 30, column, (int)list->count};
    list->items[list->count++] = problem;
}

static int by_place(const void *left, const void *right)
{
    const clt_config_problem *a = left, *b = right;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    if (a->line != 1 << 30 && a->column != b->column)
        return a->column < b->column ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

/* Makes one message of all problems, in the order of their positions. */
static clt_status tell_problems(clt_config_problems *list)
{
    CLT_SCOPED(clt_str) text = {0};
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
        CLT_FAIL(CLT_ENOMEM, "checking a config: out of host memory");
    if (list->count > 0)
        CLT_FAIL(CLT_ECONFIG, "%s", text.text);
    return CLT_OK;
}

clt_status clt_config_problems_finish(clt_status status, clt_config_problems *list)
{
    if (status == CLT_OK)
        status = tell_problems(list);
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].text);
    free(list->items);
    memset(list, 0, sizeof *list);
    return status;
}
