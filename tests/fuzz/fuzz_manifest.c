/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target for a checkpoint's manifest.json and state.json. The first byte chooses: a whole
 * manifest.json; one without its last member, its own hash, which this target adds so that later parts of
 * the reader are reached; or a state.json with a manifest that fits it. Any bytes must give a checkpoint or
 * a message; an accepted file must be usable, and readable after it was written again. Not built by
 * default: tests/fuzz/test_fuzz.sh builds and runs it. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/checkpoint/checkpoint_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];

static const char *path_of(const char *name)
{
    static char path[160];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Avoids the library's synced writes, which would take most of the time. */
static void put(const char *name, const void *data, size_t size)
{
    FILE *file = fopen(path_of(name), "wb");
    if (!file || (size && fwrite(data, 1, size, file) != size) || fclose(file) != 0)
        abort();
}

static void clean_up(void)
{
    static const char *const names[] = {CLT_MANIFEST_FILE, CLT_STATE_FILE, CLT_MODEL_FILE};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        (void)unlink(path_of(names[i]));
    (void)rmdir(folder);
}

static void set_up(void)
{
    static const float values[3] = {1, 2, 3};
    const clt_named_tensor tensor = {"w", CLT_F32, clt_shape1(3), values};
    (void)snprintf(folder, sizeof folder, "/tmp/fuzz_manifest_XXXXXX");
    if (!mkdtemp(folder) ||
        clt_safetensors_write(path_of(CLT_MODEL_FILE), &tensor, 1, NULL, 0, NULL) != CLT_OK)
        abort();
    (void)atexit(clean_up);
}

/* An accepted manifest, printed and read again, is the same one. */
static void write_again(const clt_manifest *manifest)
{
    clt_manifest back;
    clt_str text = {0};
    if (clt_manifest_print(manifest, &text) != CLT_OK)
        abort();
    put(CLT_MANIFEST_FILE, text.text, text.length);
    if (clt_manifest_read(folder, &back, NULL) != CLT_OK || back.version != manifest->version ||
        back.step != manifest->step || back.config_digest != manifest->config_digest ||
        back.n_files != manifest->n_files)
        abort();
    for (int i = 0; i < back.n_files; i++)
        if (strcmp(back.files[i].name, manifest->files[i].name) != 0 || strchr(back.files[i].name, '/') ||
            back.files[i].bytes != manifest->files[i].bytes || back.files[i].sum != manifest->files[i].sum)
            abort();
    clt_str_free(&text);
}

static void try_manifest(void)
{
    clt_manifest manifest;
    clt_error_clear();
    clt_status status = clt_manifest_read(folder, &manifest, NULL);
    if (status == CLT_OK) {
        (void)clt_checkpoint_verify(folder);
        write_again(&manifest);
    } else if (clt_error_text()[0] == '\0' || (status != CLT_ECHECKPOINT && status != CLT_ENOMEM)) {
        abort(); /* a refusal without a reason, or of the wrong kind */
    }
}

static void add_hash(const uint8_t *data, size_t size)
{
    char hash[CLT_HASH64_TEXT];
    clt_str text = {0};
    clt_str_append_n(&text, (const char *)data, size);
    clt_str_printf(&text, ",\n  \"manifest_xxh64\": \"%s\"\n}\n",
                   clt_hash64_text(clt_hash64(data, size), hash));
    if (clt_str_check(&text) != CLT_OK)
        abort();
    put(CLT_MANIFEST_FILE, text.text, text.length);
    clt_str_free(&text);
}

static void describe_file(clt_manifest_file *file, const char *name)
{
    clt_mapping mapping = {0};
    if (clt_map_open(path_of(name), CLT_ECHECKPOINT, &mapping) != CLT_OK)
        abort();
    (void)snprintf(file->name, sizeof file->name, "%s", name);
    file->bytes = mapping.size;
    file->sum = clt_manifest_sum(CLT_MANIFEST_VERSION, mapping.data, mapping.size);
    clt_map_close(&mapping);
}

static void try_state(const uint8_t *data, size_t size)
{
    clt_manifest manifest = {.version = CLT_MANIFEST_VERSION, .step = 7, .n_files = 2};
    clt_checkpoint *checkpoint = NULL;
    clt_str text = {0};
    put(CLT_STATE_FILE, data, size);
    describe_file(&manifest.files[0], CLT_MODEL_FILE);
    describe_file(&manifest.files[1], CLT_STATE_FILE);
    if (clt_manifest_print(&manifest, &text) != CLT_OK)
        abort();
    put(CLT_MANIFEST_FILE, text.text, text.length);
    clt_str_free(&text);
    clt_error_clear();
    clt_status status = clt_checkpoint_open(folder, &checkpoint);
    if (status == CLT_OK) {
        if (!checkpoint->state || !checkpoint->model || checkpoint->step != 7)
            abort();
        (void)clt_json_count(clt_json_root(checkpoint->state));
    } else if (checkpoint || clt_error_text()[0] == '\0' ||
               (status != CLT_ECHECKPOINT && status != CLT_ENOMEM)) {
        abort();
    }
    clt_checkpoint_close(checkpoint);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!folder[0])
        set_up();
    if (size < 1)
        return 0;
    if (data[0] % 3 == 0) {
        put(CLT_MANIFEST_FILE, data + 1, size - 1);
        try_manifest();
    } else if (data[0] % 3 == 1) {
        add_hash(data + 1, size - 1);
        try_manifest();
    } else if (size > 1) {
        try_state(data + 1, size - 1);
    }
    return 0;
}
