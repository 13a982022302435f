/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the Dice of whole volumes in an evaluation: adds the predictions of windows to class maps and
 * compares each finished plane with the volume's mask. */
#include "engine/train/eval/eval_volumes.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/log.h"
#include "engine/models/models.h"
#include "engine/train/eval/sliding.h"

struct clt_eval_volumes {
    clt_run *run;
    clt_source *part;
    clt_slide_view view;
    clt_window_weights weights;
    bool has_ignore;
    int64_t ignore;
    float *logits;          /* prediction of a micro-batch */
    int64_t waiting;        /* windows in `logits` that are still to be added */
    int64_t volume, window; /* the next window, and its volume */
    clt_slide *slide;       /* class map of that volume; NULL: no window of it was added yet */
    uint8_t *mask;          /* mask of one plane */
    clt_dice dice;
    int64_t volumes;
};

static clt_status prepare(clt_eval_volumes *e, int64_t batches)
{
    clt_run *run = e->run;
    const clt_source *source = run->job->eval_source;
    int64_t micro = run->job->micro_batch, volumes = clt_volumes_count(source), area = 1;
    clt_volumes_cover cover;
    CLT_TRY(clt_volumes_cover_read(run->options->config, &cover));
    e->weights = cover.weights;
    if (batches > 0 && batches <= source->samples / micro)
        volumes = clt_volumes_within(source, batches * micro);
    for (int64_t v = 0; v < volumes; v++) {
        clt_windows grid;
        clt_volumes_grid(source, v, &grid);
        area = grid.size[1] * grid.size[2] > area ? grid.size[1] * grid.size[2] : area;
    }
    CLT_TRY(clt_volumes_part(source, volumes, run->ranks.rank, run->ranks.ranks, &e->part));
    CLT_TRY(clt_alloc(&e->mask, (size_t)area, 1, "a plane of a mask"));
    return clt_alloc(&e->logits, (size_t)(micro * e->view.elements), sizeof *e->logits, "predictions");
}

clt_status clt_eval_volumes_begin(clt_run *run, int64_t batches, clt_eval_volumes **out)
{
    const clt_graph *graph = run->eval->plan->graph;
    CLT_SCOPED(clt_eval_volumes) *e = NULL;
    clt_slide_view view;
    clt_model_info info;
    *out = NULL;
    if (!clt_volumes_windowed(run->job->eval_source))
        return CLT_OK;
    CLT_TRY(clt_model_describe(run->job->model, &info));
    if (!clt_slide_view_of(graph, run->job->prediction, &info,
                           &graph->fields[clt_graph_find_field(graph, "x")].shape, &view))
        return CLT_OK;
    CLT_TRY(clt_alloc(&e, 1, sizeof *e, "an evaluation of volumes"));
    e->run = run;
    e->view = view;
    e->has_ignore = graph->losses[0].has_ignore;
    e->ignore = graph->losses[0].ignore_index;
    CLT_TRY(prepare(e, batches));
    *out = CLT_TAKE(e);
    return CLT_OK;
}

void clt_eval_volumes_free(clt_eval_volumes *e)
{
    if (!e)
        return;
    clt_slide_destroy(e->slide);
    clt_source_close(e->part);
    free(e->mask);
    free(e->logits);
    free(e);
}

clt_source *clt_eval_volumes_source(const clt_eval_volumes *e)
{
    return e->part;
}

clt_status clt_eval_volumes_read(clt_eval_volumes *e, int64_t valid)
{
    if (valid > 0)
        CLT_TRY(clt_realized_read_f32(e->run->eval, e->run->job->prediction, e->logits));
    e->waiting = valid;
    return CLT_OK;
}

static clt_status take_plane(void *context, int64_t plane, const uint8_t *classes)
{
    clt_eval_volumes *e = context;
    clt_windows grid;
    clt_volumes_grid(e->part, e->volume, &grid);
    CLT_TRY(clt_volumes_mask(e->part, e->volume, plane, 1, e->mask));
    clt_dice_add(&e->dice, classes, e->mask, grid.size[1] * grid.size[2], e->has_ignore, e->ignore);
    return CLT_OK;
}

static clt_status add_window(clt_eval_volumes *e, const float *logits)
{
    clt_windows grid;
    clt_volumes_grid(e->part, e->volume, &grid);
    if (!e->slide)
        CLT_TRY(clt_slide_create(&grid, &e->view, e->weights, take_plane, e, &e->slide));
    CLT_TRY(clt_slide_add(e->slide, logits));
    if (++e->window < clt_windows_count(&grid))
        return CLT_OK;
    CLT_TRY(clt_slide_finish(e->slide));
    clt_slide_destroy(e->slide);
    e->slide = NULL;
    e->window = 0;
    e->volume++;
    e->volumes++;
    clt_dice_end_volume(&e->dice);
    return CLT_OK;
}

clt_status clt_eval_volumes_add(clt_eval_volumes *e)
{
    int64_t n = e->waiting;
    e->waiting = 0;
    for (int64_t i = 0; i < n; i++)
        CLT_TRY(add_window(e, e->logits + i * e->view.elements));
    return CLT_OK;
}

clt_status clt_eval_volumes_end(clt_eval_volumes *e, clt_eval_metrics *m)
{
    clt_run *run = e->run;
    double all[2 * CLT_SLIDE_CLASSES + 1];
    for (int c = 0; c < CLT_SLIDE_CLASSES; c++) {
        all[c] = e->dice.sum[c];
        all[CLT_SLIDE_CLASSES + c] = e->dice.volumes[c];
    }
    all[2 * CLT_SLIDE_CLASSES] = (double)e->volumes;
    if (run->ranks.ranks > 1)
        CLT_TRY(comm_all_reduce(run->options->comm, all, 2 * CLT_SLIDE_CLASSES + 1, COMM_F64, COMM_SUM));
    for (int c = 0; c < CLT_SLIDE_CLASSES; c++) {
        e->dice.sum[c] = all[c];
        e->dice.volumes[c] = all[CLT_SLIDE_CLASSES + c];
    }
    int64_t classes = e->view.classes > 1 ? e->view.classes : 2;
    m->volumes = (int64_t)all[2 * CLT_SLIDE_CLASSES];
    m->volume_dice = clt_dice_mean(&e->dice, classes);
    m->volume_classes = (int32_t)classes;
    for (int64_t c = 0; c < classes; c++)
        m->volume_dice_of[c] = clt_dice_of(&e->dice, c);
    return CLT_OK;
}
