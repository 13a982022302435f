/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a loader's options, and finds its fields, losses and number of micro-batches. */
#include "engine/data/loader_internal.h"

#include <string.h>

clt_status clt_loader_check(const clt_loader_options *o)
{
    if (!o->source || o->source->samples < 1 || o->n_fields < 1 || o->n_fields > CLT_MAX_FIELDS ||
        o->workers < 1 || o->n_slots < 2 || !o->slots || o->micro_batch < 1 || o->ranks < 1 || o->rank < 0 ||
        o->rank >= o->ranks)
        CLT_FAIL(CLT_EINTERNAL,
                 "creating a loader: the options are not complete (%d fields, %d workers, %d slots, "
                 "micro-batch %lld, rank %d of %d)",
                 o->n_fields, o->workers, o->n_slots, (long long)o->micro_batch, o->rank, o->ranks);
    if (o->evaluation)
        return CLT_OK;
    if (o->accumulation < 1 || o->first_step < 0 || o->last_step < o->first_step)
        CLT_FAIL(CLT_EINTERNAL, "creating a loader: accumulation %d, batches %lld to %lld", o->accumulation,
                 (long long)o->first_step, (long long)o->last_step);
    uint64_t end = 0;
    if (o->first_micro < 0 ||
        !clt_mul_u64((uint64_t)o->first_micro + (uint64_t)o->accumulation, (uint64_t)o->micro_batch, &end) ||
        end > (uint64_t)o->global_batch)
        CLT_FAIL(
            CLT_EINTERNAL,
            "creating a loader: a global batch of %lld has no %d micro-batches of %lld from number %lld on",
            (long long)o->global_batch, o->accumulation, (long long)o->micro_batch,
            (long long)o->first_micro);
    return CLT_OK;
}

/* Checks that the source's field has the type and shape that the graph was built for, since evaluation data
 * may come from other files. */
static clt_status check_graph_field(const clt_loader_options *o, int f)
{
    const clt_source_field *field = &o->source->fields[o->source_field[f]];
    if (!o->graph || (size_t)f >= o->graph->n_fields)
        return CLT_OK;
    const clt_field *wanted = &o->graph->fields[f];
    if (wanted->dtype == field->dtype && clt_shape_equal(&wanted->shape, &field->shape))
        return CLT_OK;
    char have[CLT_SHAPE_TEXT], want[CLT_SHAPE_TEXT];
    CLT_FAIL(CLT_ESHAPE,
             "loading the %s data: field \"%s\" of the model takes samples of %s %s, but the data has %s %s "
             "(%s); give data of the same kind as the training data",
             o->evaluation ? "evaluation" : "training", wanted->name,
             clt_shape_text(&wanted->shape, want, sizeof want), clt_dtype_name(wanted->dtype),
             clt_shape_text(&field->shape, have, sizeof have), clt_dtype_name(field->dtype),
             o->source->description ? o->source->description : "no description");
}

static clt_status check_fields(clt_loader *loader)
{
    const clt_loader_options *o = &loader->options;
    for (int f = 0; f < o->n_fields; f++) {
        if (o->source_field[f] < 0 || o->source_field[f] >= o->source->n_fields)
            CLT_FAIL(CLT_EINTERNAL, "creating a loader: the source has no field %d", o->source_field[f]);
        CLT_TRY(check_graph_field(o, f));
        const clt_source_field *field = &o->source->fields[o->source_field[f]];
        uint64_t bytes = 0, end = 0;
        loader->field_bytes[f] = clt_source_field_bytes(field);
        if (!clt_mul_u64(loader->field_bytes[f], (uint64_t)o->micro_batch, &bytes) ||
            !clt_add_u64(bytes, o->offset[f], &end) || end > o->slot_bytes ||
            o->offset[f] % clt_dtype_bytes(field->dtype) != 0)
            CLT_FAIL(CLT_EINTERNAL,
                     "creating a loader: field \"%s\" at offset %llu with %llu bytes does not fit a slot of "
                     "%llu bytes",
                     field->name, (unsigned long long)o->offset[f], (unsigned long long)bytes,
                     (unsigned long long)o->slot_bytes);
    }
    return CLT_OK;
}

/* Finds the batch's field with the targets of a loss. */
static clt_status find_targets(const clt_loader *loader, const clt_loss *loss, counted_loss *counted)
{
    const clt_loader_options *o = &loader->options;
    const clt_graph *graph = o->graph;
    counted->source_field = -1;
    for (size_t f = 0; f < graph->n_fields && f < (size_t)o->n_fields; f++)
        if (loss->target_field && strcmp(graph->fields[f].name, loss->target_field) == 0) {
            counted->source_field = o->source_field[f];
            counted->offset = o->offset[f];
        }
    if (counted->source_field < 0)
        CLT_FAIL(CLT_ECONFIG,
                 "creating a loader: loss \"%s\" counts field \"%s\", which is not among the batch fields",
                 loss->name ? loss->name : "", loss->target_field ? loss->target_field : "");
    return CLT_OK;
}

static clt_status resolve_losses(clt_loader *loader, size_t *scratch_bytes)
{
    const clt_loader_options *o = &loader->options;
    const clt_graph *graph = o->graph;
    *scratch_bytes = 0;
    for (int k = 0; graph && k < graph->n_losses; k++) {
        const clt_loss *loss = &graph->losses[k];
        counted_loss *counted = &loader->losses[loader->n_losses++];
        counted->has_ignore = loss->has_ignore;
        counted->ignore = loss->ignore_index;
        counted->per_sample = loss->targets_per_sample;
        if (loss->class_weights) {
            counted->n_weights = loss->n_classes;
            CLT_TRY(clt_alloc(&counted->weights, (size_t)loss->n_classes, sizeof *counted->weights,
                              "class weights"));
            memcpy(counted->weights, loss->class_weights, (size_t)loss->n_classes * sizeof *counted->weights);
        }
        if (!clt_loader_reads_targets(counted))
            continue;
        CLT_TRY(find_targets(loader, loss, counted));
        loader->counts_values = true;
        size_t bytes = clt_source_field_bytes(&o->source->fields[counted->source_field]);
        if (bytes > *scratch_bytes)
            *scratch_bytes = bytes;
    }
    return CLT_OK;
}

static clt_status count_tickets(clt_loader *loader)
{
    const clt_loader_options *o = &loader->options;
    if (o->evaluation) {
        int64_t total = (o->source->samples - 1) / o->micro_batch + 1;
        loader->tickets = total > o->rank ? (total - 1 - o->rank) / o->ranks + 1 : 0;
        return CLT_OK;
    }
    if (__builtin_mul_overflow(o->last_step - o->first_step, (int64_t)o->accumulation, &loader->tickets))
        CLT_FAIL(CLT_ECONFIG,
                 "creating a loader: %lld batches are more than can be counted; give fewer train.steps",
                 (long long)(o->last_step - o->first_step));
    return CLT_OK;
}

clt_status clt_loader_resolve(clt_loader *loader, size_t *scratch_bytes)
{
    CLT_TRY(check_fields(loader));
    CLT_TRY(resolve_losses(loader, scratch_bytes));
    return count_tickets(loader);
}
