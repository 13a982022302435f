/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target for images and for packs of them. The first byte says what follows: 0 to 3 an image, of
 * which the whole, a part and a part at a smaller size are decoded; 4 a pack, whose images are all
 * decoded. */
#include "tests/fuzz/fuzz_data.h"

#include "engine/data/images/image_pack.h"

#define MOST_PIXELS (1 << 21) /* larger images only take longer */

static void decode(const uint8_t *data, size_t size, int shrink)
{
    clt_encoded image;
    clt_view view;
    if (clt_image_header(data, size, &image) != CLT_OK || (int64_t)image.width * image.height > MOST_PIXELS)
        return;
    clt_box part = {image.width / 3, image.height / 4, (image.width + 1) / 2, (image.height + 2) / 3};
    (void)clt_image_decode(&image, (clt_box){0, 0, image.width, image.height}, 1, &view);
    if (clt_image_decode(&image, part, shrink, &view) == CLT_OK) {
        static uint8_t planes[3 * 20 * 30];
        if (clt_image_resize(&view, 30, 20, (clt_box){0, 0, 30, 20}, shrink > 1, planes) != CLT_OK)
            abort();
    }
}

static void open_pack(const uint8_t *data, size_t size)
{
    static int fd = -1;
    char path[64];
    clt_arena *arena;
    clt_image_pack pack;
    if (fd < 0)
        fd = memfd_create("fuzz", MFD_CLOEXEC);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0 ||
        clt_fd_write(fd, data, size, "fuzz") != CLT_OK || clt_arena_create(&arena) != CLT_OK)
        abort();
    if (clt_pack_open(path, arena, &pack) == CLT_OK)
        for (int64_t i = 0; i < pack.count; i++) {
            clt_stored_image image;
            clt_pack_image(&pack, i, &image);
            (void)clt_pack_name(&pack, i);
            if (clt_pack_check(&pack, i) == CLT_OK && image.kind == CLT_STORED_ENCODED)
                decode(image.bytes, image.size, 1);
        }
    clt_pack_close(&pack);
    clt_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] % 5 == 4)
        open_pack(data + 1, size - 1);
    else
        decode(data + 1, size - 1, 1 << data[0] % 5);
    clt_error_clear();
    return 0;
}
