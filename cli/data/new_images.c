/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain new for images and volumes: reads their sizes and intensities, and drafts networks that fit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/data/new_config.h"
#include "engine/base/text.h"
#include "engine/data/images/image_source.h"
#include "engine/data/pixels/image.h"
#include "engine/data/pixels/image_folder.h"
#include "engine/data/volumes/volume_list.h"
#include "engine/files/fileio.h"

#define FEW_VOLUMES 4 /* with fewer volumes than this, all are used for training */
#define LOOKED_AT 64  /* most images whose size is read, and most volumes whose intensities are read */

static int by_size(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* *side: the median of the shorter sides of some images of a folder; 0: no image could be read. */
static clt_status usual_side(const char *folder, int64_t *side)
{
    CLT_SCOPED(clt_image_list) list = {0};
    int64_t sides[LOOKED_AT];
    int n = 0;
    *side = 0;
    CLT_TRY(clt_image_list_folder(folder, &list));
    size_t step = list.count / LOOKED_AT + 1;
    for (size_t i = 0; i < list.count && n < LOOKED_AT; i += step) {
        CLT_FREED char *path = NULL;
        CLT_FREED char *bytes = NULL;
        size_t size = 0;
        clt_encoded image;
        CLT_TRY(clt_path_join(folder, list.names.text + list.files[i].name, &path));
        if (clt_file_read(path, false, 1u << 30, CLT_EDATA, &bytes, &size) == CLT_OK &&
            clt_image_header(bytes, size, &image) == CLT_OK)
            sides[n++] = image.width < image.height ? image.width : image.height;
    }
    clt_error_clear(); /* bad images are skipped here; training reports them */
    if (n > 0)
        qsort(sides, (size_t)n, sizeof *sides, by_size);
    *side = n > 0 ? sides[n / 2] : 0;
    return CLT_OK;
}

/* Sets the folders of training and evaluation images, if the given folder contains both. */
static void divide(new_config *n)
{
    static const char *const evals[] = {"val", "valid", "validation", "test"};
    const char *train = clt_arena_printf(n->draft.arena, "%s/train", n->path);
    if (!train || !clt_is_image_folder(train))
        return;
    const char *whole = n->path;
    n->path = train;
    draft_text(&n->draft, "data.path", train);
    for (size_t i = 0; i < sizeof evals / sizeof evals[0]; i++) {
        const char *eval = clt_arena_printf(n->draft.arena, "%s/%s", whole, evals[i]);
        if (eval && clt_is_image_folder(eval)) {
            draft_text(&n->draft, "data.eval_path", eval);
            return;
        }
    }
}

/* Drafts a ResNet-18 whose width and input size suit the number and size of the images. */
static void set_resnet(new_config *n, int64_t samples, int64_t side, bool photos, bool has_eval)
{
    static const double mean[] = {0.485, 0.456, 0.406}, std[] = {0.229, 0.224, 0.225};
    draft *d = &n->draft;
    int64_t size = side <= 40 ? (side + 3) / 4 * 4 : side <= 96 ? 64 : samples < 5000 ? 128 : 224;
    int64_t width = samples < 5000 ? 16 : samples < 50000 ? 32 : 64, batch = size <= 64 ? 64 : 32;
    while (batch > 2 && batch * 4 > samples)
        batch /= 2;
    draft_text(d, "model.type", "resnet");
    draft_int(d, "model.depth", 18);
    draft_text(d, "model.stem", size < 64 ? "cifar" : "imagenet");
    draft_int(d, "model.width", width);
    if (photos)
        draft_ints(d, "data.size", (int64_t[]){size < 8 ? 8 : size}, 1);
    draft_text(d, "data.crop", size < 64 ? "pad" : "resized");
    if (size >= 64)
        draft_numbers(d, "data.crop_scale", (double[]){0.3, 1}, 2);
    draft_number(d, "data.flip", 0.5);
    draft_number(d, "data.scale", 1.0 / 255);
    draft_numbers(d, "data.mean", mean, 3);
    draft_numbers(d, "data.std", std, 3);
    draft_text(d, "optimizer.type", "adamw");
    draft_number(d, "optimizer.learning_rate", 0.001);
    draft_number(d, "optimizer.weight_decay", 0.05);
    new_config_length(n, &(new_length){samples, batch, 2000, 5, 60, has_eval});
}

clt_status new_config_images(new_config *n)
{
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_SCOPED(clt_source) *source = NULL;
    int64_t side = 256;
    bool cifar = clt_is_cifar_folder(n->path);
    draft_text(&n->draft, "data.type", cifar ? "cifar" : "images");
    draft_text(&n->draft, "data.path", n->path);
    divide(n);
    if (!cifar && clt_is_directory(n->path))
        CLT_TRY(usual_side(n->path, &side));
    if (side == 0)
        CLT_FAIL(CLT_EDATA, "cltrain new: no image in '%s' can be read; cltrain data verify %s says why",
                 n->path, n->path);
    CLT_TRY(new_config_probe(n, &config, &source));
    int64_t samples = source->samples;
    bool has_eval = clt_source_has_eval(config);
    set_resnet(n, samples, cifar ? 32 : side, !cifar, has_eval);
    CLT_TRY(new_config_describe(n));
    clt_str_printf(&n->found, "the config: a ResNet-18 of width %s, batches of %s, crops and flips",
                   draft_value(&n->draft, "model.width"), draft_value(&n->draft, "data.micro_batch"));
    if (!cifar)
        clt_str_printf(&n->found, "; the shorter side of the images is about %lld pixels", (long long)side);
    clt_str_append(&n->found, "\n");
    if (has_eval)
        draft_text(&n->draft, "checkpoint.best", "accuracy");
    else
        clt_str_append(&n->found,
                       "no images for evaluation: put some of each class into another folder, and name it "
                       "in data.eval_path\n");
    return CLT_OK;
}

/* --- volumes --- */

static int by_value(const void *a, const void *b)
{
    float left = *(const float *)a, right = *(const float *)b;
    return (left > right) - (left < right);
}

/* Sets data.window_low and data.window_high to intensities between which nearly all voxels of some samples
 * lie. */
static clt_status set_window(new_config *n)
{
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_SCOPED(clt_source) *source = NULL;
    CLT_FREED float *x = NULL;
    CLT_FREED float *some = NULL;
    int64_t kept = 0;
    CLT_TRY(new_config_probe(n, &config, &source));
    int64_t voxels = clt_shape_elements(&source->fields[0].shape),
            samples = source->samples < 8 ? source->samples : 8;
    int64_t step = voxels / 65536 + 1;
    CLT_TRY(clt_alloc(&x, (size_t)voxels, sizeof *x, "a volume"));
    CLT_TRY(clt_alloc(&some, (size_t)(samples * (voxels / step + 1)), sizeof *some, "voxels"));
    for (int64_t i = 0; i < samples; i++) {
        CLT_TRY(clt_source_read_field(source, i * source->samples / samples, 0, x));
        for (int64_t v = 0; v < voxels; v += step)
            some[kept++] = x[v];
    }
    if (kept > 0) {
        qsort(some, (size_t)kept, sizeof *some, by_value);
        double low = (double)some[kept / 200], high = (double)some[kept - 1 - kept / 200];
        double grain = pow(10, floor(log10(high > low ? high - low : 1)) - 1); /* two digits are enough */
        if (high > low) {
            draft_number(&n->draft, "data.window_low", floor(low / grain) * grain);
            draft_number(&n->draft, "data.window_high", ceil(high / grain) * grain);
            clt_str_printf(&n->found, "intensities: nearly all lie from %g to %g, which become 0 to 1\n",
                           floor(low / grain) * grain, ceil(high / grain) * grain);
        }
    }
    return CLT_OK;
}

/* The smallest size of each axis. */
static void least_size(const clt_volume_list *list, int64_t least[3])
{
    for (int a = 0; a < 3; a++) {
        least[a] = list->entry[0].pose.size[a];
        for (int64_t i = 1; i < list->count; i++)
            least[a] = list->entry[i].pose.size[a] < least[a] ? list->entry[i].pose.size[a] : least[a];
    }
}

/* The size of a patch along each axis: 64 where every volume has at least 128 voxels, else the largest of
 * 32, 16 and 8 that fits into every volume. If a volume has fewer than 8, the patch has 8 and background
 * fills the rest. */
static void choose_patch(const int64_t least[3], int64_t patch[3])
{
    for (int a = 0; a < 3; a++)
        for (patch[a] = least[a] >= 128 ? 64 : 32; patch[a] > 8 && patch[a] > least[a];)
            patch[a] /= 2;
}

static clt_status set_unet(new_config *n, const clt_volume_list *list, const int64_t least[3])
{
    int64_t patch[3], smallest = INT64_MAX, per_volume = 8;
    draft *d = &n->draft;
    choose_patch(least, patch);
    for (int a = 0; a < 3; a++)
        smallest = patch[a] < smallest ? patch[a] : smallest;
    int64_t levels = smallest >= 64 ? 4 : smallest >= 16 ? 3 : 2;
    draft_text(d, "model.type", "unet3d");
    draft_int(d, "model.levels", levels);
    draft_int(d, "model.width", 16);
    draft_ints(d, "data.patch", patch, 3);
    draft_int(d, "data.patches_per_volume", per_volume);
    CLT_TRY(set_window(n));
    draft_text(d, "optimizer.type", "adamw");
    draft_number(d, "optimizer.learning_rate", 0.003);
    draft_number(d, "optimizer.weight_decay", 0.0001);
    new_config_length(n, &(new_length){list->count * per_volume, 2, 600, 5, 200, list->count >= FEW_VOLUMES});
    if (list->count >= FEW_VOLUMES)
        draft_bool(d, "train.eval_metrics", true);
    clt_str_printf(&n->found, "the config: a 3-D U-Net of %lld levels on patches of %lldx%lldx%lld voxels\n",
                   (long long)levels, (long long)patch[0], (long long)patch[1], (long long)patch[2]);
    return CLT_OK;
}

static clt_status set_cnn(new_config *n, const clt_volume_list *list, const int64_t least[3])
{
    int64_t size[3], batch = 4;
    draft *d = &n->draft;
    choose_patch(least, size);
    draft_text(d, "model.type", "cnn3d");
    draft_int(d, "model.depth", 10);
    draft_text(d, "model.stem", "small");
    draft_int(d, "model.width", 16);
    draft_ints(d, "data.volume", size, 3);
    draft_text(d, "data.volume_fit", "resize");
    CLT_TRY(set_window(n));
    while (batch > 1 && batch * 2 > list->count)
        batch /= 2;
    draft_text(d, "optimizer.type", "adamw");
    draft_number(d, "optimizer.learning_rate", 0.001);
    draft_number(d, "optimizer.weight_decay", 0.01);
    new_config_length(n, &(new_length){list->count, batch, 600, 5, 100, list->count >= FEW_VOLUMES});
    clt_str_printf(
        &n->found,
        "the config: a 3-D ResNet-10 on whole volumes, resized to %lldx%lldx%lld voxels, batches of %lld\n",
        (long long)size[0], (long long)size[1], (long long)size[2], (long long)batch);
    return CLT_OK;
}

clt_status new_config_volumes(new_config *n)
{
    clt_volume_list list;
    int64_t least[3];
    const clt_volume_list_options options = {.path = n->path, .key = "data.path"};
    draft_text(&n->draft, "data.type", "nifti");
    draft_text(&n->draft, "data.path", n->path);
    CLT_TRY(clt_volume_list_open(n->draft.arena, &options, &list));
    least_size(&list, least);
    bool masks = list.kind == CLT_VOLUMES_MASKS;
    if (list.count < 10)
        draft_number(&n->draft, "data.split", list.count < FEW_VOLUMES ? 0 : 0.25);
    clt_str_printf(&n->found, "%lld volume%s with %s, the smallest sides %lld, %lld and %lld voxels\n",
                   (long long)list.count, CLT_PLURAL(list.count), masks ? "masks" : "a folder for each class",
                   (long long)least[0], (long long)least[1], (long long)least[2]);
    if (list.count < FEW_VOLUMES)
        clt_str_append(&n->found, "too few to keep some for evaluation (data.split 0)\n");
    return masks ? set_unet(n, &list, least) : set_cnn(n, &list, least);
}
