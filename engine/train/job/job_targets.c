/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks that the targets of a source suit the losses of a model: numbers for a regression, classes within
 * the model's outputs for a classifier. */
#include <string.h>

#include "engine/base/log.h"
#include "engine/data/data.h"
#include "engine/ops/op.h"
#include "engine/train/job/job.h"

static bool is_regression_loss(const clt_graph *graph, int loss)
{
    return graph->nodes[graph->losses[loss].node]->op->flags & CLT_OP_REGRESSION;
}

bool clt_job_is_regression(const clt_graph *graph)
{
    bool any = false;
    for (int i = 0; i < graph->n_losses; i++) {
        if (strcmp(graph->losses[i].target_field, "y") != 0)
            continue;
        if (!is_regression_loss(graph, i))
            return false;
        any = true;
    }
    return any;
}

/* Refuses a regression loss on a column in which some cell is not a number: such a column is read as
 * classes, and the loss would get their numbers. */
static clt_status check_words(const clt_graph *graph, const clt_source *source)
{
    for (int i = 0; i < graph->n_losses && source->words; i++)
        if (is_regression_loss(graph, i))
            CLT_FAIL(CLT_EDATA,
                     "reading %s is not a number, and the loss %s needs numbers; repair the cell, or train a "
                     "classifier (the loss cross_entropy)",
                     source->words, graph->nodes[graph->losses[i].node]->op->name);
    return CLT_OK;
}

/* Warns of a classifier whose classes hardly occur twice: its targets may be values. */
static void warn_of_values(const clt_graph *graph, const clt_source *source)
{
    for (int i = 0; i < graph->n_losses; i++)
        if (strcmp(graph->losses[i].target_field, "y") == 0 && !is_regression_loss(graph, i) &&
            clt_source_hardly_repeats(source->distinct, source->samples)) {
            CLT_WARN_ONCE(
                "%lld samples have %lld different targets, and the loss %s takes each of them for a "
                "class%s",
                (long long)source->samples, (long long)source->distinct,
                graph->nodes[graph->losses[i].node]->op->name,
                source->words ? "; is data.target the right column?"
                              : "; to learn them as values: model.loss=mse (docs/data.md, "
                                "\"Tables\")");
            return;
        }
}

clt_status clt_job_check_indices(const clt_graph *graph, const clt_source *source)
{
    for (size_t i = 0; i < graph->n_fields; i++) {
        const clt_field *field = &graph->fields[i];
        for (int s = 0; s < source->n_fields && field->bound; s++)
            if (strcmp(source->fields[s].name, field->name) == 0)
                CLT_TRY(clt_source_check_bound(source, s, field->bound, field->bound_ignores,
                                               field->bound_ignore));
    }
    return CLT_OK;
}

clt_status clt_job_check_targets(const clt_graph *graph, const clt_source *source)
{
    if (!source)
        return CLT_OK;
    CLT_TRY(check_words(graph, source));
    warn_of_values(graph, source);
    return clt_job_check_indices(graph, source);
}
