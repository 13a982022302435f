/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target for tokenizers. The first byte chooses: a tokenizer.json; a vocabulary and merges; or a
 * text to train on, encode and decode. NUL bytes separate the files of a folder; the files that
 * save_pretrained writes beside a vocabulary follow the first ones. Mutation hardly ever finds a vocabulary
 * of 256 letters, so start from a seed corpus of small real ones. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/data/tokenizer/bpe_train.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz_data.h"

static char folder[64];

static void drop(const char *name)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)unlink(path);
}

#define FILES 5
static const char *const saved_names[FILES] = {"tokenizer.json", "tokenizer_config.json", "added_tokens.json",
                                               "special_tokens_map.json", "unknown.json"};
static const char *const merges_names[FILES] = {"vocab.json", "merges.txt", "tokenizer_config.json",
                                                "added_tokens.json", "special_tokens_map.json"};

/* The parts of the input between NUL bytes become files of these names. */
static void put_files(const char *const *names, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < FILES; i++) {
        const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
        size_t part = nul ? (size_t)(nul - data) : size;
        fuzz_put(folder, names[i], data, part);
        if (!nul)
            return;
        data += part + 1;
        size -= part + 1;
    }
}

/* With `same`, decoding must give the text back; the rules of a file may normalise it. */
static void round_trip(const clt_tokenizer *t, const char *text, size_t size, bool same)
{
    clt_ids ids = {0};
    clt_str back = {0};
    if (clt_tokenizer_encode(t, text, size, &ids) != CLT_OK ||
        clt_tokenizer_decode(t, ids.id, ids.count, &back) != CLT_OK)
        abort();
    if (same && (back.length != size || (size && memcmp(back.text, text, size) != 0)))
        abort();
    free(ids.id);
    clt_str_free(&back);
}

static void try_folder(void)
{
    clt_tokenizer *t = NULL;
    clt_status status = clt_tokenizer_open(folder, &t);
    if (status != CLT_OK && status != CLT_EDATA && status != CLT_ENOMEM)
        abort();
    if (status == CLT_OK)
        round_trip(t, "hello the \xff there\0 12's", 22, false);
    clt_tokenizer_close(t);
}

static void try_text(const char *text, size_t size)
{
    clt_bpe_trainer *trainer;
    clt_tokenizer *t = NULL;
    size_t cut = clt_tokenize_cut(NULL, text, size, size / 2);
    if (clt_bpe_trainer_create(&trainer) != CLT_OK || clt_bpe_trainer_add(trainer, text, cut) != CLT_OK ||
        clt_bpe_trainer_add(trainer, text + cut, size - cut) != CLT_OK ||
        clt_bpe_trainer_run(trainer, 300, NULL, NULL, &t) != CLT_OK)
        abort();
    clt_ids whole = {0}, parts = {0};
    if (clt_tokenizer_encode(t, text, size, &whole) != CLT_OK ||
        clt_tokenizer_encode(t, text, cut, &parts) != CLT_OK ||
        clt_tokenizer_encode(t, text + cut, size - cut, &parts) != CLT_OK)
        abort();
    if (whole.count != parts.count || memcmp(whole.id, parts.id, whole.count * sizeof *whole.id) != 0)
        abort();
    round_trip(t, text, size, true);
    free(whole.id);
    free(parts.id);
    clt_tokenizer_close(t);
    clt_bpe_trainer_destroy(trainer);
}

static void remove_folder(void)
{
    (void)rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!folder[0]) {
        (void)snprintf(folder, sizeof folder, "/tmp/fuzz_tokenizer_XXXXXX");
        if (!mkdtemp(folder) || atexit(remove_folder) != 0)
            abort();
    }
    if (size < 2)
        return 0;
    if (data[0] % 3 < 2) {
        put_files(data[0] % 3 ? merges_names : saved_names, data + 1, size - 1);
        try_folder();
        for (size_t i = 0; i < FILES; i++) {
            drop(merges_names[i]);
            drop(saved_names[i]);
        }
    } else {
        try_text((const char *)data + 1, size - 1);
    }
    return 0;
}
