/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes sample volumes: noise around the intensity of soft tissue, with brighter round lesions. */
#include "engine/data/open/sample_volumes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/data/volumes/nifti.h"
#include "engine/files/fileio.h"

#define TISSUE 40.0
#define LESION 140.0
#define LESIONS 3 /* number of lesions in a volume with a mask */

typedef struct lesion {
    double at[3], radius;
    bool hollow;
} lesion;

static double draw(int64_t seed, uint32_t volume, uint64_t place)
{
    return (double)clt_rng_uniform(clt_rng_u32((uint64_t)seed, CLT_RNG_DATA, 1, volume, place));
}

static bool inside(const lesion *l, const double at[3])
{
    double square = 0;
    for (int i = 0; i < 3; i++)
        square += (at[i] - l->at[i]) * (at[i] - l->at[i]);
    double distance = sqrt(square);
    return distance <= l->radius && !(l->hollow && distance < 0.6 * l->radius);
}

/* Draws a lesion that is completely inside the volume. */
static lesion draw_lesion(const clt_sample_options *o, const int64_t size[3], uint32_t volume,
                          uint64_t number)
{
    lesion l = {0};
    int64_t least = size[0] < size[1] ? size[0] : size[1];
    least = size[2] < least ? size[2] : least;
    l.radius = (double)least * (0.12 + 0.12 * draw(o->seed, volume, 8 * number));
    for (int i = 0; i < 3; i++)
        l.at[i] = l.radius + ((double)(size[i] - 1) - 2 * l.radius) *
                                 draw(o->seed, volume, 8 * number + 1 + (uint64_t)i);
    return l;
}

static void paint(const clt_sample_options *o, const int64_t size[3], uint32_t volume, const lesion *lesions,
                  int count, int16_t *image, uint8_t *mask)
{
    uint64_t voxel = 0;
    for (int64_t z = 0; z < size[0]; z++)
        for (int64_t y = 0; y < size[1]; y++)
            for (int64_t x = 0; x < size[2]; x++, voxel++) {
                const double at[3] = {(double)z, (double)y, (double)x};
                bool hit = false;
                for (int i = 0; i < count; i++)
                    hit = hit || inside(&lesions[i], at);
                double noise = clt_rng_normal((uint64_t)o->seed, CLT_RNG_DATA, 2, volume, voxel) * o->noise;
                image[voxel] = (int16_t)lrint((hit ? LESION : TISSUE) + noise);
                if (mask)
                    mask[voxel] = hit;
            }
}

/* Writes the file name of volume `number`. With masks: of its image or, if `second`, its mask. Without
 * masks: of the volume with a full lesion or, if `second`, with a hollow one. */
static void name_of(const clt_sample_options *o, int64_t number, bool second, char *name, size_t room)
{
    static const char *const folders[2][2] = {{"sphere", "shell"}, {"images", "masks"}};
    (void)snprintf(name, room, "%s/ct%03lld.nii%s", folders[o->masks][second], (long long)number,
                   o->packed ? ".gz" : "");
}

bool clt_sample_name(const clt_sample_options *o, int64_t number, char *name, size_t room)
{
    name_of(o, number / 2, number % 2, name, room);
    return number >= 0 && number < 2 * o->count;
}

static clt_status write_volume(const clt_sample_options *o, int64_t number, bool second,
                               const int64_t size[3], clt_element element, const void *data)
{
    char name[64];
    CLT_FREED char *path = NULL;
    const clt_nifti_image image = {.element = element,
                                   .ndim = 3,
                                   .dim = {size[2], size[1], size[0]},
                                   .data = data,
                                   .spacing = {0.8f, 0.8f, 2.5f}};
    name_of(o, number, second, name, sizeof name);
    CLT_TRY(clt_path_join(o->folder, name, &path));
    char *slash = strrchr(path, '/');
    *slash = '\0';
    CLT_TRY(clt_mkdir_p(path));
    *slash = '/';
    return clt_nifti_write(path, &image);
}

/* Makes one volume, with its mask or of one of the classes. */
static clt_status make_volume(const clt_sample_options *o, int64_t number, bool hollow, int16_t *image,
                              uint8_t *mask)
{
    lesion lesions[LESIONS];
    int64_t size[3] = {o->size[0], o->size[1], o->size[2]};
    int count = o->masks ? LESIONS : 1;
    uint32_t stream = (uint32_t)(2 * number + (hollow ? 1 : 0));
    if (o->masks && o->other_sizes && number % 2 == 1)
        size[1] = (3 * size[1] + 3) / 4;
    for (int i = 0; i < count; i++) {
        lesions[i] = draw_lesion(o, size, stream, (uint64_t)i);
        lesions[i].hollow = hollow;
    }
    paint(o, size, stream, lesions, count, image, o->masks ? mask : NULL);
    CLT_TRY(write_volume(o, number, hollow, size, CLT_EL_I16, image));
    return o->masks ? write_volume(o, number, true, size, CLT_EL_U8, mask) : CLT_OK;
}

clt_status clt_sample_volumes(const clt_sample_options *o)
{
    CLT_FREED int16_t *image = NULL;
    CLT_FREED uint8_t *mask = NULL;
    size_t voxels = (size_t)(o->size[0] * o->size[1] * o->size[2]);
    CLT_TRY(clt_alloc(&image, voxels, sizeof *image, "a volume"));
    CLT_TRY(clt_alloc(&mask, voxels, 1, "a mask"));
    for (int64_t i = 0; i < o->count; i++) {
        CLT_TRY(make_volume(o, i, false, image, mask));
        if (!o->masks)
            CLT_TRY(make_volume(o, i, true, image, mask));
    }
    return CLT_OK;
}
