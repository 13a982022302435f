/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes folders of volumes that look a little like CT, for tests and measurements; the same arguments give the same
 * bytes of voxels.
 *
 *   make_volumes masks   FOLDER [--count N] [--size D,H,W] [--seed S] [--gz]   images/ and masks/: spheres in noise
 *   make_volumes classes FOLDER [--count N] [--size D,H,W] [--seed S] [--gz]   sphere/ and shell/: N of each
 *
 * Intensities are those of CT in Hounsfield units (i16): soft tissue around 40 with noise of 30, lesions around 140.
 * Class 1 of a mask is a lesion. Every second volume of `masks` has other sizes than the others (three quarters of
 * the height), so that nothing may rely on one size. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/data/nifti.h"

#define TISSUE 40.0
#define LESION 140.0
#define NOISE 30.0
#define LESIONS 3 /* of a volume with a mask */

typedef struct arguments {
    const char *folder;
    bool masks, gz;
    long count, seed;
    int64_t size[3]; /* depth, height, width */
} arguments;

typedef struct lesion {
    double at[3], radius;
    bool hollow;
} lesion;

static double draw(long seed, uint32_t volume, uint64_t place)
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

/* A lesion that lies in the volume as a whole. */
static lesion draw_lesion(const arguments *a, const int64_t size[3], uint32_t volume, uint64_t number)
{
    lesion l = {0};
    int64_t least = size[0] < size[1] ? size[0] : size[1];
    least = size[2] < least ? size[2] : least;
    l.radius = (double)least * (0.12 + 0.12 * draw(a->seed, volume, 8 * number));
    for (int i = 0; i < 3; i++)
        l.at[i] = l.radius + ((double)(size[i] - 1) - 2 * l.radius) *
                                 draw(a->seed, volume, 8 * number + 1 + (uint64_t)i);
    return l;
}

static void paint(const arguments *a, const int64_t size[3], uint32_t volume, const lesion *lesions,
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
                double noise = clt_rng_normal((uint64_t)a->seed, CLT_RNG_DATA, 2, volume, voxel) * NOISE;
                image[voxel] = (int16_t)lrint((hit ? LESION : TISSUE) + noise);
                if (mask)
                    mask[voxel] = hit;
            }
}

static int fail(void)
{
    fprintf(stderr, "make_volumes: %s\n", clt_error_text());
    return 1;
}

static clt_status write_volume(const arguments *a, const char *folder, const char *name, uint32_t number,
                               const int64_t size[3], clt_element element, const void *data)
{
    char path[4096];
    const clt_nifti_image image = {.element = element,
                                   .ndim = 3,
                                   .dim = {size[2], size[1], size[0]},
                                   .data = data,
                                   .spacing = {0.8f, 0.8f, 2.5f}};
    (void)snprintf(path, sizeof path, "%s/%s", a->folder, folder);
    CLT_TRY(clt_mkdir_p(path));
    (void)snprintf(path, sizeof path, "%s/%s/%s%03u.nii%s", a->folder, folder, name, (unsigned)number,
                   a->gz ? ".gz" : "");
    return clt_nifti_write(path, &image);
}

/* One volume: with a mask, or of a class. */
static clt_status make_volume(const arguments *a, uint32_t number, bool hollow, int16_t *image, uint8_t *mask)
{
    lesion lesions[LESIONS];
    int64_t size[3] = {a->size[0], a->size[1], a->size[2]};
    int count = a->masks ? LESIONS : 1;
    uint32_t stream = 2 * number + (hollow ? 1 : 0);
    if (a->masks && number % 2 == 1)
        size[1] = (3 * size[1] + 3) / 4;
    for (int i = 0; i < count; i++) {
        lesions[i] = draw_lesion(a, size, stream, (uint64_t)i);
        lesions[i].hollow = hollow;
    }
    paint(a, size, stream, lesions, count, image, a->masks ? mask : NULL);
    const char *folder = a->masks ? "images" : hollow ? "shell" : "sphere";
    CLT_TRY(write_volume(a, folder, "ct", number, size, CLT_EL_I16, image));
    return a->masks ? write_volume(a, "masks", "ct", number, size, CLT_EL_U8, mask) : CLT_OK;
}

static bool read_arguments(int argc, char **argv, arguments *a)
{
    *a = (arguments){.count = 8, .seed = 1, .size = {32, 40, 48}};
    if (argc < 3 || (strcmp(argv[1], "masks") != 0 && strcmp(argv[1], "classes") != 0))
        return false;
    a->masks = argv[1][0] == 'm';
    a->folder = argv[2];
    for (int i = 3; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        long long d, h, w;
        if (strcmp(argv[i], "--gz") == 0) {
            a->gz = true;
            continue;
        }
        if (strcmp(argv[i], "--count") == 0)
            a->count = strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0)
            a->seed = strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--size") == 0 && sscanf(value, "%lld,%lld,%lld", &d, &h, &w) == 3) {
            a->size[0] = d;
            a->size[1] = h;
            a->size[2] = w;
        } else
            return false;
        i++;
    }
    for (int i = 0; i < 3; i++)
        if (a->size[i] < 8 || a->size[i] > 2048)
            return false;
    return a->count > 0 && a->count < 100000;
}

int main(int argc, char **argv)
{
    arguments a;
    int16_t *image = NULL;
    uint8_t *mask = NULL;
    if (!read_arguments(argc, argv, &a)) {
        fprintf(stderr, "usage: make_volumes masks|classes FOLDER [--count N] [--size D,H,W, each from 8] "
                        "[--seed S] [--gz]\n");
        return 2;
    }
    size_t voxels = (size_t)(a.size[0] * a.size[1] * a.size[2]);
    clt_status status = clt_alloc(&image, voxels, sizeof *image, "a volume");
    if (status == CLT_OK)
        status = clt_alloc(&mask, voxels, 1, "a mask");
    for (long i = 0; i < a.count && status == CLT_OK; i++) {
        status = make_volume(&a, (uint32_t)i, false, image, mask);
        if (status == CLT_OK && !a.masks)
            status = make_volume(&a, (uint32_t)i, true, image, mask);
    }
    free(image);
    free(mask);
    return status == CLT_OK ? 0 : fail();
}
