/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target for texts: plain, packed, or records of JSON Lines, as the first byte chooses. Every
 * document must be inside the joined text, and a cut at any position must keep both parts intact. Not built
 * by default; build as fuzz_idx.c says. */
#include "tests/fuzz/fuzz_data.h"

#include "engine/data/texts/texts.h"

static void read_all(const clt_texts *texts)
{
    uint64_t at = 0;
    for (size_t i = 0; i < texts->n_documents; i++) {
        const clt_document *d = &texts->documents[i];
        volatile char sum = 0;
        if (d->begin != at || d->size == 0 || d->size > texts->total - at || d->file >= texts->n_files)
            abort();
        for (uint64_t k = 0; k < d->size; k++)
            sum = (char)(sum + d->bytes[k]);
        at += d->size;
        size_t part;
        (void)clt_document_part(d, texts->total / 3, texts->total / 2, &part);
        if (part > d->size)
            abort();
    }
    if (at != texts->total)
        abort();
    for (uint64_t k = 0; k <= 4; k++)
        if (clt_texts_cut(texts, texts->total * k / 4) > texts->total * k / 4)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[64];
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0 ||
        clt_fd_write(fd, data + (size > 0), size - (size > 0), "fuzz") != CLT_OK)
        abort();
    clt_texts texts = {
        .key = "data.path", .json_option = "data.json_key", .json_key = size && data[0] % 2 ? "" : "text"};
    clt_status status = clt_texts_add(&texts, path);
    if (status == CLT_OK)
        read_all(&texts);
    else if (status != CLT_EDATA && status != CLT_ENOMEM)
        abort();
    clt_texts_free(&texts);
    return 0;
}
