/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes folders of volumes that look a little like CT (engine/data/open/sample_volumes.h), for tests and
 * measurements; the same arguments give the same bytes of voxels.
 *
 *   make_volumes masks   FOLDER [--count N] [--size D,H,W] [--seed S] [--gz]   images/ and masks/: spheres in noise
 *   make_volumes classes FOLDER [--count N] [--size D,H,W] [--seed S] [--gz]   sphere/ and shell/: N of each
 *
 * The noise is 30 Hounsfield units. Every second volume of `masks` has three quarters of the height, so
 * that no reader may rely on a single size. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/data/open/sample_volumes.h"

static bool read_arguments(int argc, char **argv, clt_sample_options *a)
{
    *a = (clt_sample_options){.count = 8, .seed = 1, .size = {32, 40, 48}, .other_sizes = true, .noise = 30};
    if (argc < 3 || (strcmp(argv[1], "masks") != 0 && strcmp(argv[1], "classes") != 0))
        return false;
    a->masks = argv[1][0] == 'm';
    a->folder = argv[2];
    for (int i = 3; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        long long d, h, w;
        if (strcmp(argv[i], "--gz") == 0) {
            a->packed = true;
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
    clt_sample_options options;
    if (!read_arguments(argc, argv, &options)) {
        fprintf(stderr, "usage: make_volumes masks|classes FOLDER [--count N] [--size D,H,W, each from 8] "
                        "[--seed S] [--gz]\n");
        return 2;
    }
    if (clt_sample_volumes(&options) != CLT_OK) {
        fprintf(stderr, "make_volumes: %s\n", clt_error_text());
        return 1;
    }
    return 0;
}
