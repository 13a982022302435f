/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast one thread makes samples of images: bench_images FOLDER [SECONDS]; of a pack, samples alone. Prints images per second of
 * libjpeg alone, of this program's decoder, and of whole training samples (a random part resized to 224, half
 * of them mirrored) from the folder's files; the model's input conversion subtracts the mean on the device.
 * bench_images.sh makes a folder and runs this beside torchvision. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "engine/base/thread.h"
#include "engine/data/data.h"
#include "engine/data/images/image_pack.h"
#include "engine/data/pixels/image.h"
#include "engine/data/pixels/image_folder.h"
#include "engine/files/fileio.h"

typedef struct files {
    char **bytes;
    size_t *size;
    size_t count;
} files;

static void die(const char *what)
{
    (void)fprintf(stderr, "bench_images: %s: %s\n", what, clt_error_text());
    exit(1);
}

static files read_files(const char *folder)
{
    clt_image_list list;
    if (clt_image_list_folder(folder, &list) != CLT_OK)
        die("listing");
    files f = {calloc(list.count, sizeof(char *)), calloc(list.count, sizeof(size_t)), list.count};
    for (size_t i = 0; i < list.count; i++) {
        char path[4096];
        (void)snprintf(path, sizeof path, "%s/%s", folder, list.names.text + list.files[i].name);
        if (clt_file_read(path, false, 0, CLT_EDATA, &f.bytes[i], &f.size[i]) != CLT_OK)
            die("reading");
    }
    clt_image_list_free(&list);
    return f;
}

/* Whole images to RGB, as Pillow's decoder does it. */
static void decode_by_libjpeg(const char *bytes, size_t size)
{
    static struct jpeg_decompress_struct info;
    static struct jpeg_error_mgr errors;
    static uint8_t *pixels;
    static size_t room;
    if (!pixels) {
        info.err = jpeg_std_error(&errors);
        jpeg_create_decompress(&info);
    }
    jpeg_mem_src(&info, (const unsigned char *)bytes, size);
    (void)jpeg_read_header(&info, TRUE);
    info.out_color_space = JCS_RGB;
    (void)jpeg_start_decompress(&info);
    size_t stride = (size_t)info.output_width * 3, need = stride * info.output_height;
    if (need > room)
        pixels = realloc(pixels, room = need);
    while (info.output_scanline < info.output_height) {
        JSAMPROW rows[8];
        for (unsigned i = 0; i < 8; i++)
            rows[i] = pixels +
                      stride * (info.output_scanline + i < info.output_height ? info.output_scanline + i : 0);
        (void)jpeg_read_scanlines(&info, rows, 8);
    }
    (void)jpeg_finish_decompress(&info);
}

static void decode_by_us(const char *bytes, size_t size)
{
    clt_encoded image;
    clt_view view;
    if (clt_image_header(bytes, size, &image) != CLT_OK ||
        clt_image_decode(&image, (clt_box){0, 0, image.width, image.height}, 1, &view) != CLT_OK)
        die("decoding");
}

/* Images per second of thread time. */
static double rate(const files *f, double seconds, void (*decode)(const char *bytes, size_t size))
{
    double begin = clt_thread_cpu(), now = begin;
    int64_t done = 0;
    for (size_t i = 0; now - begin < seconds; i = (i + 1) % f->count, done++) {
        decode(f->bytes[i], f->size[i]);
        now = clt_thread_cpu();
    }
    return (double)done / (now - begin);
}

static double sample_rate(const char *folder, double seconds)
{
    char text[4096];
    clt_config *config = NULL;
    clt_source *source = NULL;
    (void)snprintf(
        text, sizeof text,
        "{\"model\":{\"type\":\"graph\",\"layers\":[{\"op\":\"mse\"}]},\"data\":{\"type\":\"images\","
        "\"path\":\"%s\",\"size\":224,\"flip\":0.5}}",
        folder);
    if (clt_config_parse(text, "bench", NULL, 0, &config) != CLT_OK ||
        clt_source_open(config, CLT_SPLIT_TRAIN, &source) != CLT_OK)
        die("opening");
    uint8_t *x = malloc(3 * 224 * 224);
    int32_t y;
    void *to[CLT_MAX_FIELDS] = {x, &y};
    double begin = clt_thread_cpu(), now = begin;
    int64_t done = 0;
    for (; now - begin < seconds; done++) {
        clt_draw draw = clt_sample_draw((uint64_t)done, source->samples, 1);
        if (source->type->read(source, done % source->samples, draw, to) != CLT_OK)
            die("a sample");
        now = clt_thread_cpu();
    }
    clt_source_close(source);
    clt_config_destroy(config);
    free(x);
    return (double)done / (now - begin);
}

int main(int argc, char **argv)
{
    double seconds = argc > 2 ? atof(argv[2]) : 3, best[3] = {0};
    if (argc < 2) {
        (void)fprintf(stderr, "usage: bench_images FOLDER [SECONDS]\n");
        return 2;
    }
    if (clt_is_image_pack(argv[1])) {
        printf("samples of 224 from the pack: %.0f images/s\n", sample_rate(argv[1], seconds));
        return 0;
    }
    files f = read_files(argv[1]);
    for (int round = 0; round < 3; round++) { /* in turn, so that a busy machine disturbs all of them */
        double got[3] = {rate(&f, seconds / 3, decode_by_libjpeg), rate(&f, seconds / 3, decode_by_us),
                         sample_rate(argv[1], seconds / 3)};
        for (int i = 0; i < 3; i++)
            best[i] = got[i] > best[i] ? got[i] : best[i];
    }
    printf("libjpeg alone: %.0f images/s\nthis decoder: %.0f images/s (%.0f %% of it)\nsamples of 224: %.0f "
           "images/s\n",
           best[0], best[1], 100 * best[1] / best[0], best[2]);
    return 0;
}
