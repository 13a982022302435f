/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of metrics in Prometheus's text form 0.0.4, which the collector `textfile` of node_exporter reads:
 * HELP and TYPE for each metric, no timestamps, a line feed at the end. */
#ifndef ENGINE_MONITOR_PROMETHEUS_H
#define ENGINE_MONITOR_PROMETHEUS_H

#include "engine/base/mem.h"

/* Appends `key="value"` to a list of labels; characters that the format does not allow in a value are
 * escaped. */
void clt_prometheus_label(clt_str *labels, const char *key, const char *value);
/* Appends the metric cltrain_NAME with one value, which may be NAN or infinite. A name that ends with _total
 * is a counter, any other a gauge. */
void clt_prometheus_add(clt_str *page, const char *labels, const char *name, const char *help, double value);
/* The file for a run's rank: `where` itself if it ends with .prom, else a file of the run's name in that
 * folder. With several ranks, the file of every rank except the first has the rank's number in its name.
 * Free with free(). */
clt_status clt_prometheus_path(const char *where, const char *run, int rank, char **out);
/* Writes the page under another name in the same folder and renames it, so that a reader never sees a part
 * of a page. The page is not synced: after a crash of the machine nobody needs it. CLT_ESTORAGE: it cannot
 * be written. */
clt_status clt_prometheus_write(const char *path, const clt_str *page);

#endif
