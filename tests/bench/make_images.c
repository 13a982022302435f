/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a folder of JPEG images, a folder for each class, for tests and measurements; the same arguments give the same
 * pixels. It uses libjpeg alone.
 *
 *   make_images FOLDER [--count N] [--size HEIGHT,WIDTH] [--classes K] [--quality Q]   N of each class
 *
 * An image is made of soft gradients, a few discs with hard edges, and noise, so that it is about as large
 * as a photograph of its size and takes about as long to decode. Each class has its own colour of discs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>

#define DISCS 6

typedef struct arguments {
    const char *folder;
    int count, height, width, classes, quality;
} arguments;

/* A sequence of 32-bit numbers (Marsaglia 2003, xorshift). */
static uint32_t draw(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

static uint8_t clamped(int value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void paint(const arguments *a, int class_number, uint32_t seed, uint8_t *pixels)
{
    int at[DISCS][3]; /* row, column, radius */
    int colour[3] = {40 + 83 * class_number % 200, 40 + 149 * class_number % 200,
                     40 + 37 * class_number % 200};
    int slope[3][2], least = a->height < a->width ? a->height : a->width;
    for (int i = 0; i < DISCS; i++) {
        at[i][0] = (int)(draw(&seed) % (uint32_t)a->height);
        at[i][1] = (int)(draw(&seed) % (uint32_t)a->width);
        at[i][2] = least / 16 + (int)(draw(&seed) % (uint32_t)(least / 6 + 1));
    }
    for (int c = 0; c < 3; c++)
        for (int k = 0; k < 2; k++)
            slope[c][k] = (int)(draw(&seed) % 161) - 80;
    for (int y = 0; y < a->height; y++)
        for (int x = 0; x < a->width; x++, pixels += 3) {
            int noise = (int)(draw(&seed) % 25) - 12;
            int disc = 0;
            for (int i = 0; i < DISCS; i++) {
                int dy = y - at[i][0], dx = x - at[i][1];
                disc |= dy * dy + dx * dx < at[i][2] * at[i][2];
            }
            for (int c = 0; c < 3; c++)
                pixels[c] = clamped((disc ? colour[c] : 128) + slope[c][0] * y / a->height +
                                    slope[c][1] * x / a->width + noise);
        }
}

static int write_jpeg(const arguments *a, const char *path, uint8_t *pixels)
{
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    FILE *file = fopen(path, "wb");
    if (!file)
        return 1;
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_stdio_dest(&info, file);
    info.image_width = (JDIMENSION)a->width;
    info.image_height = (JDIMENSION)a->height;
    info.input_components = 3;
    info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, a->quality, TRUE);
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
        JSAMPROW row = pixels + (size_t)info.next_scanline * (size_t)a->width * 3;
        (void)jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    return fclose(file) != 0;
}

static int make_all(const arguments *a)
{
    char path[4096];
    uint8_t *pixels = malloc((size_t)a->height * (size_t)a->width * 3);
    int failed = !pixels || (mkdir(a->folder, 0777) != 0 && access(a->folder, F_OK) != 0);
    for (int k = 0; k < a->classes && !failed; k++) {
        (void)snprintf(path, sizeof path, "%s/class%03d", a->folder, k);
        failed = mkdir(path, 0777) != 0 && access(path, F_OK) != 0;
        for (int i = 0; i < a->count && !failed; i++) {
            (void)snprintf(path, sizeof path, "%s/class%03d/%05d.jpg", a->folder, k, i);
            paint(a, k, 1u + (uint32_t)(k * 100003 + i) * 2654435761u, pixels);
            failed = write_jpeg(a, path, pixels);
        }
    }
    free(pixels);
    if (failed)
        perror("make_images");
    return failed;
}

int main(int argc, char **argv)
{
    arguments a = {.count = 32, .height = 375, .width = 500, .classes = 4, .quality = 90};
    int good = argc > 1 && argc % 2 == 0 && argv[1][0] != '-';
    a.folder = good ? argv[1] : NULL;
    for (int i = 2; i + 1 < argc && good; i += 2) {
        if (strcmp(argv[i], "--count") == 0)
            a.count = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--classes") == 0)
            a.classes = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--quality") == 0)
            a.quality = atoi(argv[i + 1]);
        else
            good = strcmp(argv[i], "--size") == 0 && sscanf(argv[i + 1], "%d,%d", &a.height, &a.width) == 2;
    }
    if (!good || a.count < 1 || a.height < 1 || a.height > 8192 || a.width < 1 || a.width > 8192 ||
        a.classes < 1 || a.quality < 1 || a.quality > 100) {
        (void)fprintf(
            stderr,
            "usage: make_images FOLDER [--count N] [--size HEIGHT,WIDTH] [--classes K] [--quality Q]\n");
        return 2;
    }
    return make_all(&a);
}
