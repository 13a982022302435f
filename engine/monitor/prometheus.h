/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of metrics in Prometheus's text form 0.0.4, which the collector `textfile` of node_exporter reads:
 * HELP and TYPE for each metric, no times, a line feed at the end. */
#ifndef ENGINE_MONITOR_PROMETHEUS_H
#define ENGINE_MONITOR_PROMETHEUS_H

#include "engine/base/mem.h"

/* Appends `key="value"` to a list of labels; what the form does not allow in a value is escaped. */
void clt_prometheus_label(clt_str *labels, const char *key, const char *value);
/* Appends the metric cltrain_NAME with one value, which may be NAN or infinite. A name that ends with _total
 * is a counter, any other a gauge. */
void clt_prometheus_add(clt_str *page, const char *labels, const char *name, const char *help, double value);
/* The file for a run's rank: `where` itself if it ends with .prom, else a file of the run's name in that
 * folder. With several ranks each one but the first has its number in the name. Free with free(). */
clt_status clt_prometheus_path(const char *where, const char *run, int rank, char **out);
/* Writes the page beside the file and renames it, so that a reader never sees a part of it. It is not synced:
 * after a crash of the machine nobody needs it. CLT_ESTORAGE. */
clt_status clt_prometheus_write(const char *path, const clt_str *page);

#endif
