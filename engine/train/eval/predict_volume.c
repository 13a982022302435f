/* SPDX-License-Identifier: Apache-2.0
 *
 * Predicts a whole volume: cuts windows out of it, adds their predictions to a class map (sliding.h), and
 * writes the map as a mask. */
#include "engine/train/eval/predict_volume.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/data/volumes/volume_file.h"
#include "engine/models/models.h"
#include "engine/train/eval/sliding.h"

typedef struct volume_run {
    clt_predictor *p;
    clt_volume image;
    clt_volumes_cover cover;
    clt_volume_pose pose; /* transform from the file's voxels to the orientation and spacing of training */
    float *values;        /* the volume in that pose; NULL: the file needs no transform */
    clt_windows grid;
    clt_slide_view view;
    clt_slide *slide;
    uint8_t *mask;
    clt_volume_prediction *result;
} volume_run;

clt_status clt_predictor_check_volumes(const clt_predictor *p)
{
    clt_volumes_cover cover;
    CLT_TRY(clt_volumes_cover_read(p->saved->config, &cover));
    bool segments = p->kind == CLT_PREDICT_CLASSES || p->kind == CLT_PREDICT_YES_NO;
    if (!cover.known || p->input.ndim != 4 || p->dtype != CLT_F32 || !segments ||
        p->rows * p->padded < p->input.dim[1] * p->input.dim[2] * p->input.dim[3])
        CLT_FAIL(
            CLT_EUSAGE,
            "predicting: masks are predicted by models that were trained on volumes with masks (data.type "
            "nifti); the run '%s' was not",
            p->saved->path);
    if (cover.resized)
        CLT_FAIL(CLT_EUSAGE,
                 "predicting: the run '%s' was trained on volumes that were resampled to one size "
                 "(data.volume_fit resize), so its masks do not fit a volume; train with data.patch instead",
                 p->saved->path);
    return CLT_OK;
}

static clt_status keep_plane(void *context, int64_t plane, const uint8_t *classes)
{
    volume_run *r = context;
    int64_t area = r->grid.size[1] * r->grid.size[2];
    memcpy(r->mask + plane * area, classes, (size_t)area);
    return CLT_OK;
}

/* Transforms the mask back to the voxels of the file. */
static clt_status turn_back(volume_run *r)
{
    uint8_t *back;
    if (!r->values)
        return CLT_OK;
    CLT_TRY(clt_alloc(&back, (size_t)clt_voxels(r->image.size), 1, "the predicted mask"));
    clt_volume_pose_back(&r->pose, r->mask, back);
    free(r->mask);
    r->mask = back;
    return CLT_OK;
}

/* The number of files of a volume: one for each channel if the name ends in _0000 (nnU-Net's naming) and a
 * file _0001 exists; otherwise 1. */
static int files_of(const char *path, int64_t channels)
{
    int channel;
    size_t stem = clt_volume_stem(path);
    bool first = clt_volume_channel(path, stem, &channel) && channel == 0;
    CLT_FREED char *second = NULL;
    bool several = first && channels > 1 && clt_volume_channel_path(path, 1, &second) == CLT_OK &&
                   clt_file_exists(second);
    return several ? (int)channels : 1;
}

static clt_status open_volume(volume_run *r, const char *path)
{
    clt_predictor *p = r->p;
    const clt_run *run = p->run;
    clt_model_info info;
    CLT_TRY(clt_model_describe(run->job->model, &info));
    CLT_TRY(clt_volumes_cover_read(p->saved->config, &r->cover));
    CLT_TRY(clt_volume_open(&r->image, path, files_of(path, p->input.dim[0]), "predict"));
    if (r->image.channels != p->input.dim[0])
        CLT_FAIL(CLT_EDATA,
                 "predicting '%s': it has %lld channels, the run was trained on volumes with %lld; channels "
                 "in files of their own are called NAME_0000, NAME_0001 ... (name the first one)",
                 path, (long long)r->image.channels, (long long)p->input.dim[0]);
    if (r->image.space.conflict[0])
        CLT_WARN("predicting '%s': %s", path, r->image.space.conflict);
    if (!clt_slide_view_of(run->eval->plan->graph, run->job->prediction, &info, &p->input, &r->view))
        CLT_FAIL(CLT_EUSAGE, "predicting '%s': the model of '%s' does not predict a class for each voxel",
                 path, p->saved->path);
    CLT_TRY(clt_volume_pose_find(&r->cover.want, r->image.is_nifti ? &r->image.space : NULL, r->image.size,
                                 path, &r->pose));
    if (clt_volume_posed(&r->pose))
        CLT_TRY(clt_volume_posed_values(&r->image, &r->pose, &r->values));
    CLT_TRY(clt_windows_make(r->pose.size, r->view.window, r->cover.overlap, &r->grid));
    CLT_TRY(clt_alloc(&r->mask, (size_t)clt_voxels(r->pose.size), 1, "the predicted mask"));
    return clt_slide_create(&r->grid, &r->view, r->cover.weights, keep_plane, r, &r->slide);
}

/* Predicts windows first ... first + n - 1, and adds them to the map. */
static clt_status predict_windows(volume_run *r, int64_t first, int64_t n)
{
    clt_predictor *p = r->p;
    for (int64_t i = 0; i < n; i++) {
        int64_t at[3];
        float *x = (float *)p->x + i * p->elements;
        clt_windows_at(&r->grid, first + i, at);
        float outside = clt_intensity_outside(&r->cover.intensity);
        if (r->values)
            clt_values_box(r->values, r->image.channels, r->pose.size, at, r->view.window, outside, x);
        else
            CLT_TRY(clt_volume_box(&r->image, at, r->view.window, outside, x));
        clt_intensity_apply(&r->cover.intensity, x, p->elements);
    }
    CLT_TRY(clt_run_predict(p->run, p->x, p->y));
    for (int64_t i = 0; i < n; i++)
        CLT_TRY(clt_slide_add(r->slide, p->y + i * r->view.elements));
    return CLT_OK;
}

static clt_status predict_all(volume_run *r, const clt_observer *observer)
{
    int64_t all = clt_windows_count(&r->grid), each = r->p->micro_batch;
    memset(r->p->x, 0, (size_t)(each * r->p->elements) * sizeof(float));
    for (int64_t done = 0; done < all; done += each) {
        if (observer)
            clt_progress(observer, "predicting windows", done, all);
        CLT_TRY(predict_windows(r, done, all - done < each ? all - done : each));
    }
    if (observer)
        clt_progress(observer, "predicting windows", 0, -1);
    r->result->windows = all;
    return clt_slide_finish(r->slide);
}

/* Translates classes to the values that the training masks had for them (data.mask_values). *out NULL: the
 * values are the class numbers. *wide: some value needs 16 bits. */
static clt_status stored_values(const volume_run *r, uint16_t **out, bool *wide)
{
    static const char key[] = "data.mask_values";
    const clt_config *config = r->p->saved->config;
    int n = clt_config_list_count(config, key);
    *out = NULL;
    *wide = false;
    if (n == 0)
        return CLT_OK;
    uint16_t value[CLT_MASK_CLASSES];
    for (int i = 0; i < CLT_MASK_CLASSES; i++) {
        value[i] = (uint16_t)(i < n ? clt_config_list_int(config, key, i) : i);
        *wide = *wide || value[i] > UINT8_MAX;
    }
    CLT_TRY(clt_alloc(out, (size_t)clt_voxels(r->image.size), sizeof **out, "the predicted mask"));
    for (int64_t i = 0; i < clt_voxels(r->image.size); i++)
        (*out)[i] = value[r->mask[i]];
    return CLT_OK;
}

static clt_status write_mask(const volume_run *r, const char *out)
{
    const int64_t *size = r->image.size;
    CLT_FREED uint16_t *values = NULL;
    bool wide;
    CLT_TRY(stored_values(r, &values, &wide));
    for (int64_t i = 0; values && !wide && i < clt_voxels(size); i++)
        r->mask[i] = (uint8_t)values[i];
    const clt_nifti_image image = {.element = wide ? CLT_EL_U16 : CLT_EL_U8,
                                   .ndim = 3,
                                   .dim = {size[2], size[1], size[0]},
                                   .data = wide ? (const void *)values : r->mask,
                                   .like = r->image.is_nifti ? &r->image.header : NULL};
    return clt_nifti_write(out, &image);
}

static void volume_run_free(volume_run *r)
{
    clt_slide_destroy(r->slide);
    clt_volume_close(&r->image);
    free(r->mask);
    free(r->values);
}
CLT_SCOPED_VALUE(volume_run, volume_run_free)

clt_status clt_predictor_volume(clt_predictor *p, const char *path, const char *out,
                                const clt_observer *observer, clt_volume_prediction *result)
{
    CLT_SCOPED(volume_run) r = {.p = p, .result = result};
    memset(result, 0, sizeof *result);
    CLT_TRY(open_volume(&r, path));
    memcpy(result->size, r.image.size, sizeof result->size);
    CLT_TRY(predict_all(&r, observer));
    CLT_TRY(turn_back(&r));
    for (int64_t i = 0; i < clt_voxels(r.image.size); i++)
        result->voxels[r.mask[i]]++;
    CLT_TRY(write_mask(&r, out));
    int64_t bad = clt_slide_not_finite(r.slide);
    if (bad > 0)
        CLT_FAIL(
            CLT_ENUMERIC,
            "predicting '%s': the predictions of %lld voxels hold numbers that are not finite; the weights "
            "or the volume's values are too large",
            path, (long long)bad);
    return CLT_OK;
}
