/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target for the config.json of a model of transformers: it is read or refused, and a config made
 * from it is accepted. An input of even size also serves as its generation_config.json. Not built by
 * default; build as fuzz_idx.c says. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/pretrained/pretrained.h"
#include "tests/fuzz/fuzz_data.h"

static char folder[64];

static void remove_folder(void)
{
    static const char *const names[] = {"config.json", "generation_config.json", "model.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t empty[] = "\x02\0\0\0\0\0\0\0{}"; /* weights without a tensor */
    if (!folder[0]) {
        (void)snprintf(folder, sizeof folder, "/tmp/fuzz_pretrained_XXXXXX");
        if (!mkdtemp(folder) || atexit(remove_folder) != 0)
            abort();
        fuzz_put(folder, "model.safetensors", empty, sizeof empty - 1);
    }
    fuzz_put(folder, "config.json", data, size);
    fuzz_put(folder, "generation_config.json", size % 2 ? empty + 8 : data, size % 2 ? 2 : size);
    clt_pretrained *p = NULL;
    clt_str text = {0};
    clt_config *config = NULL;
    clt_status status = clt_pretrained_open(folder, &p);
    if (status != CLT_OK && status != CLT_ECHECKPOINT && status != CLT_EUNSUPPORTED && status != CLT_ENOMEM)
        abort();
    if (status == CLT_OK && clt_pretrained_presets(p, true) && clt_pretrained_config(p, &text) == CLT_OK &&
        clt_config_parse(text.text, "made", NULL, 0, &config) != CLT_OK)
        abort();
    clt_config_destroy(config);
    clt_str_free(&text);
    clt_pretrained_close(p);
    return 0;
}
