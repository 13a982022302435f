/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds parameters by patterns of names, and marks the ones that model.freeze names, which training does not
 * change. Knows only names of parameters and patterns. */
#include <fnmatch.h>
#include <stdlib.h>

#include "engine/base/text.h"
#include "engine/models/models_internal.h"

clt_status clt_model_no_parameter(const clt_graph *graph, const char *key, const char *pattern)
{
    const char **names;
    CLT_TRY(clt_alloc(&names, graph->n_params, sizeof *names, "names of parameters"));
    for (size_t i = 0; i < graph->n_params; i++)
        names[i] = graph->params[i].name;
    const char *near = clt_nearest_name(pattern, names, graph->n_params);
    clt_status status = clt_fail(CLT_ECONFIG, __FILE__, __LINE__,
                                 "%s: no parameter is called '%.200s'%s%.200s%s; there are '%.200s' and %zu "
                                 "others, which 'cltrain plan CONFIG --full' lists; * matches any characters",
                                 key, pattern, near ? "; did you mean '" : "", near ? near : "",
                                 near ? "'" : "", names[0], graph->n_params - 1);
    free(names);
    return status;
}

clt_status clt_model_mark(clt_graph *graph, const char *key, const char *pattern,
                          void (*mark)(clt_param *param))
{
    bool found = false;
    for (size_t i = 0; i < graph->n_params; i++)
        if (fnmatch(pattern, graph->params[i].name, 0) == 0) {
            mark(&graph->params[i]);
            found = true;
        }
    return found ? CLT_OK : clt_model_no_parameter(graph, key, pattern);
}

static void freeze(clt_param *param)
{
    param->frozen = true;
}

static clt_status take(clt_graph *graph, const clt_json *pattern)
{
    if (clt_json_typeof(pattern) != CLT_JSON_STRING)
        CLT_FAIL(CLT_ECONFIG, "model.freeze: names of parameters are strings");
    return clt_model_mark(graph, "model.freeze", clt_json_string(pattern), freeze);
}

clt_status clt_model_freeze(const clt_json *model, const clt_json_doc *doc, clt_graph *graph)
{
    const clt_json *patterns = clt_json_get(model, "freeze");
    if (!patterns)
        return CLT_OK;
    for (const clt_json *p = NULL; (p = clt_json_entry(patterns, p));)
        CLT_TRY(clt_model_at(doc, p, take(graph, p)));
    if (clt_graph_frozen_elements(graph) < clt_graph_param_elements(graph))
        return CLT_OK;
    return clt_model_at(doc, patterns,
                        clt_fail(CLT_ECONFIG, __FILE__, __LINE__,
                                 "model.freeze: all parameters are frozen, so there is nothing to train"));
}
