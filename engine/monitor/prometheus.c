/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes pages of metrics in Prometheus's text form. Knows nothing of what the metrics mean. */
#include "engine/monitor/prometheus.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"

void clt_prometheus_label(clt_str *labels, const char *key, const char *value)
{
    clt_str_printf(labels, "%s%s=\"", labels->length ? "," : "", key);
    for (const char *c = value; *c; c++) {
        size_t length = clt_utf8_size(c, strlen(c));
        if (length == 0)
            clt_str_append(labels, "?"); /* the name is not valid UTF-8 */
        else if (length > 1)
            clt_str_append_n(labels, c, length), c += length - 1;
        else if (*c == '\n')
            clt_str_append(labels, "\\n");
        else if (*c == '\\' || *c == '"')
            clt_str_printf(labels, "\\%c", *c);
        else
            clt_str_append_n(labels, c, 1);
    }
    clt_str_append(labels, "\"");
}

void clt_prometheus_add(clt_str *page, const char *labels, const char *name, const char *help, double value)
{
    char number[CLT_NUMBER_TEXT];
    const char *text = isnan(value)   ? "NaN"
                       : isinf(value) ? (value > 0 ? "+Inf" : "-Inf")
                                      : clt_double_text(value, number);
    clt_str_printf(page, "# HELP cltrain_%s %s\n# TYPE cltrain_%s %s\ncltrain_%s{%s} %s\n", name, help, name,
                   clt_ends_with(name, "_total") ? "counter" : "gauge", name, labels, text);
}

#define ENDING ".prom"

clt_status clt_prometheus_path(const char *where, const char *run, int rank, char **out)
{
    CLT_SCOPED(clt_str) path = {0};
    char number[32] = "";
    if (rank > 0)
        (void)snprintf(number, sizeof number, "-rank%d", rank);
    size_t stem = clt_stem(where, ENDING);
    if (stem > 0) {
        clt_str_append_n(&path, where, stem);
    } else {
        clt_str_printf(&path, "%s/cltrain-", where);
        for (const char *c = run; *c; c++) /* a run may have any name, a file may not */
            clt_str_append_n(&path, strchr("/ \t\n", *c) ? "_" : c, 1);
    }
    clt_str_printf(&path, "%s" ENDING, number);
    return clt_str_take(&path, out);
}

static clt_status fill(const char *path, const clt_str *page)
{
    CLT_CLOSED int fd = -1;
    CLT_TRY(clt_own_file_create(path, &fd));
    return clt_fd_write(fd, page->text, page->length, path);
}

clt_status clt_prometheus_write(const char *path, const clt_str *page)
{
    CLT_SCOPED(clt_str) beside = {0};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    clt_str_append_n(&beside, path, (size_t)(name - path));
    clt_str_printf(&beside, ".%s.tmp", name); /* the collector reads only names that end with .prom */
    CLT_TRY(clt_str_check(page));
    CLT_TRY(clt_str_check(&beside));
    clt_status status = fill(beside.text, page);
    if (status == CLT_OK && rename(beside.text, path) != 0)
        status = clt_fail_errno(CLT_ESTORAGE, errno, "renaming '%s' to '%s'", beside.text, path);
    if (status != CLT_OK)
        (void)remove(beside.text);
    return status;
}
