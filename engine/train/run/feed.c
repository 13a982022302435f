/* SPDX-License-Identifier: Apache-2.0
 *
 * The feed. A loader slot is returned to the loader when the event of its upload fires; a slot of the
 * device's staging ring is reused when the copy out of it has ended. */
#include "engine/train/run/feed.h"

#include <stdlib.h>
#include <string.h>

#include "cl/command/faults.h"
#include "engine/base/span.h"
#include "engine/base/thread.h"
#include "engine/graph/step_block.h"

#define RING CLT_STAGING_SLOTS

typedef struct upload {
    clt_feed *feed;
    clt_slot *slot;
} upload;

struct clt_feed {
    clt_realized *realized;
    clt_loader *loader;
    uint64_t seed, bytes, step_offset;
    const clt_graph *graph;
    int n_slots;
    ocl_pinned **pinned;
    void **slots;
    upload *uploads;  /* uploads by slot index */
    ocl_buffer *ring; /* RING slots of ring_stride bytes */
    uint64_t ring_stride;
    ocl_event *copied[RING]; /* the device copy that last read each slot of the ring */
    int next;
    ocl_buffer *input;
    uint64_t input_offset;
    int workers;
    double loaded; /* seconds that the loader's threads spent on the batches fed so far */
    int64_t fed;
};

clt_status clt_feed_fields(const clt_graph *graph, const clt_source *source, clt_loader_options *o)
{
    if (graph->n_fields > CLT_MAX_FIELDS)
        CLT_FAIL(CLT_ECONFIG, "feeding: the model wants %zu batch fields; at most %d fit", graph->n_fields,
                 CLT_MAX_FIELDS);
    o->n_fields = (int)graph->n_fields;
    for (int f = 0; f < o->n_fields; f++) {
        const clt_field *field = &graph->fields[f];
        int found = -1;
        for (int s = 0; s < source->n_fields; s++)
            if (strcmp(source->fields[s].name, field->name) == 0)
                found = s;
        if (found < 0 || source->fields[found].dtype != field->dtype ||
            !clt_shape_equal(&source->fields[found].shape, &field->shape))
            CLT_FAIL(CLT_EDATA, "feeding: the model's batch field '%s' does not fit the data (%s)",
                     field->name, source->description ? source->description : source->type->format->name);
        o->source_field[f] = found;
    }
    return CLT_OK;
}

/* Constants stay in a slot: the loader writes only the fields. */
static void fill_constants(const clt_feed *feed, void *slot)
{
    const clt_plan *plan = feed->realized->plan;
    for (size_t i = 0; i < feed->graph->n_tensors; i++) {
        const clt_tensor *t = clt_graph_tensor(feed->graph, (int32_t)i);
        if (t->cls == CLT_TC_CONSTANT)
            memcpy((char *)slot + plan->place[i].offset, t->values,
                   (size_t)clt_shape_elements(&t->shape) * sizeof *t->values);
    }
}

static clt_status make_slots(clt_feed *feed, int prefetch)
{
    ocl_device *device = feed->realized->device;
    feed->n_slots = prefetch < 2 ? 2 : prefetch;
    CLT_TRY(clt_alloc(&feed->pinned, (size_t)feed->n_slots, sizeof *feed->pinned, "loader slots"));
    CLT_TRY(clt_alloc(&feed->slots, (size_t)feed->n_slots, sizeof *feed->slots, "loader slots"));
    CLT_TRY(clt_alloc(&feed->uploads, (size_t)feed->n_slots, sizeof *feed->uploads, "loader slots"));
    for (int i = 0; i < feed->n_slots; i++) {
        CLT_TRY(ocl_pinned_create(device, feed->bytes, "loader slot", &feed->pinned[i]));
        feed->slots[i] = ocl_pinned_data(feed->pinned[i]);
        memset(feed->slots[i], 0, feed->bytes);
        fill_constants(feed, feed->slots[i]);
    }
    feed->ring_stride = clt_align_up(feed->bytes, feed->realized->plan->device.align_bytes);
    return ocl_buffer_create(device, feed->ring_stride * RING, "staging ring", &feed->ring);
}

/* Returns the error of a failed command: after a failed upload there may be no callback, so that its slot
 * would never be released. */
static clt_status check_commands(void *context)
{
    ocl_device *device = context;
    return ocl_commands_check(device, ocl_commands_enqueued(device));
}

clt_status clt_feed_create(const clt_feed_options *options, clt_feed **out)
{
    const clt_plan *plan = options->realized->plan;
    CLT_SCOPED(clt_feed) *feed = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&feed, 1, sizeof *feed, "feed"));
    feed->realized = options->realized;
    feed->graph = plan->graph;
    feed->seed = options->seed;
    feed->bytes = plan->input_bytes;
    feed->step_offset = plan->step_offset;
    feed->workers = options->workers;
    clt_loader_options o = {.source = options->source,
                            .micro_batch = plan->graph->micro_batch,
                            .global_batch = options->global_batch,
                            .accumulation = options->accumulation,
                            .first_micro = options->first_micro,
                            .rank = options->rank,
                            .ranks = options->ranks,
                            .seed = options->seed,
                            .shuffle = options->shuffle,
                            .evaluation = options->evaluation,
                            .first_step = options->first_step,
                            .last_step = options->last_step,
                            .graph = plan->graph,
                            .workers = options->workers,
                            .slot_bytes = plan->input_bytes,
                            .spans = options->realized->spans,
                            .check = check_commands,
                            .check_context = options->realized->device};
    CLT_TRY(clt_feed_fields(plan->graph, options->source, &o));
    for (int f = 0; f < o.n_fields; f++)
        o.offset[f] = plan->place[plan->graph->fields[f].tensor].offset;
    CLT_TRY(clt_realized_resolve(options->realized, plan->graph->step, &feed->input, &feed->input_offset));
    feed->input_offset = 0; /* the input region is at the start of slab 0 */
    CLT_TRY(make_slots(feed, options->prefetch));
    o.n_slots = feed->n_slots;
    o.slots = feed->slots;
    CLT_TRY(clt_loader_create(&o, &feed->loader));
    *out = CLT_TAKE(feed);
    return CLT_OK;
}

void clt_feed_destroy(clt_feed *feed)
{
    if (!feed)
        return;
    CLT_KEEP_ERROR();
    /* callbacks refer to this object, so wait until both queues are empty */
    (void)ocl_finish(feed->realized->device, OCL_QUEUE_COPY);
    (void)ocl_finish(feed->realized->device, OCL_QUEUE_COMPUTE);
    bool ended = !ocl_commands_failed(feed->realized->device);
    clt_loader_stop(feed->loader);
    if (!ended) /* pending transfers may still use the slots and call back, so nothing is freed */
        return;
    clt_loader_destroy(feed->loader);
    for (int i = 0; i < RING; i++)
        ocl_event_release(feed->copied[i]);
    for (int i = 0; i < feed->n_slots && feed->pinned; i++)
        ocl_pinned_destroy(feed->pinned[i]);
    ocl_buffer_destroy(feed->ring);
    free(feed->pinned);
    free(feed->slots);
    free(feed->uploads);
    free(feed);
}

static void upload_done(void *context, bool ok)
{
    upload *u = context;
    (void)ok; /* if the upload failed, so does the device copy that waits for it */
    clt_loader_release(u->feed->loader, u->slot);
}

static void fill_step_block(const clt_feed *feed, const clt_slot *slot)
{
    clt_step_block *block = (clt_step_block *)(void *)((char *)slot->data + feed->step_offset);
    memset(block, 0, sizeof *block);
    block->seed_lo = (uint32_t)feed->seed;
    block->seed_hi = (uint32_t)(feed->seed >> 32);
    block->step = (uint32_t)slot->step;
    block->micro = (uint32_t)slot->micro;
    block->sample_lo = (uint32_t)slot->sample_base;
    block->sample_hi = (uint32_t)(slot->sample_base >> 32);
    block->valid = (uint32_t)slot->valid_samples;
    block->flags = feed->realized->plan->options.tree ? SB_FLAG_APART : 0;
    for (int i = 0; i < feed->graph->n_losses; i++)
        block->norm[i] = slot->normaliser[i] > 0 ? (float)(1.0 / slot->normaliser[i]) : 0.0f;
}

clt_status clt_feed_next(clt_feed *feed, clt_fed *fed)
{
    clt_slot *slot;
    CLT_SCOPED(ocl_event) *up = NULL;
    ocl_event *copied = NULL;
    int piece = feed->next;
    clt_spans *spans = feed->realized->spans;
    double begin = spans ? clt_now() : 0;
    CLT_TRY(clt_loader_next(feed->loader, &slot));
    *fed = (clt_fed){.end = slot == NULL};
    if (!slot)
        return CLT_OK;
    double got = spans ? clt_now() : 0;
    clt_spans_add(spans, CLT_TRACK_HOST, "wait for data", slot->step + 1, begin, got);
    feed->loaded += slot->load_seconds;
    feed->fed++;
    *fed = (clt_fed){.step = slot->step,
                     .valid_samples = slot->valid_samples,
                     .left_out = slot->left_out,
                     .micro = slot->micro};
    memcpy(fed->class_weights, slot->class_weights, sizeof fed->class_weights);
    fill_step_block(feed, slot);
    uint64_t offset = feed->ring_stride * (uint64_t)piece;
    CLT_TRY(ocl_write_async(OCL_QUEUE_COPY, feed->ring, offset, slot->data, feed->bytes, feed->copied[piece],
                            &up));
    feed->uploads[slot->index] = (upload){feed, slot};
    CLT_TRY(ocl_event_callback(up, upload_done, &feed->uploads[slot->index]));
    CLT_TRY(ocl_flush(feed->realized->device, OCL_QUEUE_COPY));
    CLT_TRY(ocl_copy_async(OCL_QUEUE_COMPUTE, feed->ring, offset, feed->input, feed->input_offset,
                           feed->bytes, up, &copied));
    ocl_event_release(feed->copied[piece]);
    feed->copied[piece] = copied;
    feed->next = (piece + 1) % RING;
    if (spans)
        clt_spans_add(spans, CLT_TRACK_HOST, "upload", fed->step + 1, got, clt_now());
    return CLT_OK;
}

double clt_feed_load_seconds(const clt_feed *feed)
{
    return feed->fed > 0 ? feed->loaded / (double)feed->fed : 0;
}

int clt_feed_workers(const clt_feed *feed)
{
    return feed->workers;
}

int clt_feed_slots(const clt_feed *feed)
{
    return feed->n_slots;
}

double clt_feed_wait_seconds(const clt_feed *feed)
{
    return clt_loader_wait_seconds(feed->loader);
}
