/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders that save_pretrained of Hugging Face's transformers wrote (make_golden_hf.py; data/hf_*): the
 * model section follows from config.json, the logits equal transformers' within 1e-4, and the tokenizer
 * gives the same ids. Needs a device, but no Python.
 * ctest-labels: quick */
#include "tests/unit/test.h"

#include <math.h>

#include "engine/data/tokenizer/tokenizer.h"
#include "engine/files/fileio.h"
#include "engine/pretrained/pretrained.h"
#include "tests/golden/first_logits.h"

#define DATA CLT_TEST_SOURCE_DIR "/tests/golden/data/"

static const char *const folders[] = {"hf_tied", "hf_shards"};

static clt_config *config_of(const char *name)
{
    char text[1024], path[512];
    clt_pretrained *pretrained;
    clt_config *config;
    snprintf(text, sizeof text,
             "{\"data\": {\"type\": \"npy\", \"path\": \"" DATA "%s_x.npy\", \"targets\": \"" DATA
             "%s_y.npy\", \"micro_batch\": 2, \"shuffle\": false}}",
             name, name);
    snprintf(path, sizeof path, DATA "%s", name);
    must(clt_pretrained_open(path, &pretrained), name);
    must(clt_config_parse_over(text, name, NULL, 0, clt_pretrained_presets(pretrained, true), &config), name);
    clt_pretrained_close(pretrained);
    return config;
}

TEST(test_config)
{
    clt_config *tied = config_of("hf_tied"), *shards = config_of("hf_shards");
    assert_string_equal(clt_config_string(tied, "model.type"), "gpt");
    assert_string_equal(clt_config_origin(tied, "model.type"), "init");
    assert_int_equal(clt_config_int(tied, "model.layers"), 2);
    assert_int_equal(clt_config_int(tied, "model.heads"), 3);
    assert_int_equal(clt_config_int(tied, "model.channels"), 12);
    assert_int_equal(clt_config_int(tied, "model.context"), 9);
    assert_int_equal(clt_config_int(tied, "model.vocab"), 267);
    assert_string_equal(clt_config_string(tied, "model.activation"), "gelu_tanh");
    assert_true(clt_config_bool(tied, "model.tied"));
    assert_true(clt_config_float(tied, "model.dropout") == 0.1);
    assert_string_equal(clt_config_origin(tied, "model.vocab_pad"), "default");
    assert_string_equal(clt_config_string(shards, "model.activation"), "gelu");
    assert_false(clt_config_bool(shards, "model.tied"));
    assert_true(clt_config_float(shards, "model.dropout") == 0);
    clt_config_destroy(tied);
    clt_config_destroy(shards);
}

/* The f32 values of an npy file. */
static float *npy_values(const char *name, int64_t count)
{
    char path[512], *text;
    size_t size;
    uint16_t header;
    snprintf(path, sizeof path, DATA "%s_logits.npy", name);
    must(clt_file_read(path, false, 0, CLT_EDATA, &text, &size), path);
    memcpy(&header, text + 8, sizeof header);
    assert_int_equal(size, 10 + header + (size_t)count * sizeof(float));
    float *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    memcpy(values, text + 10 + header, (size_t)count * sizeof *values);
    free(text);
    return values;
}

TEST(test_logits)
{
    for (size_t n = 0; n < sizeof folders / sizeof folders[0]; n++) {
        char path[512];
        float *got;
        int64_t rows = 0, vocab = 0;
        CLT_SCOPED(clt_config) *config = config_of(folders[n]);
        snprintf(path, sizeof path, DATA "%s", folders[n]);
        must(first_logits(config, path, &got, &rows, &vocab), folders[n]);
        CLT_FREED float *want = npy_values(folders[n], rows * vocab);
        for (int64_t i = 0; i < rows * vocab; i++)
            if (!(fabsf(got[i] - want[i]) <= 1e-4f))
                fail_msg("%s: logit %lld is %g, not %g", folders[n], (long long)i, (double)got[i],
                         (double)want[i]);
        free(got);
    }
}

TEST(test_ids)
{
    for (size_t n = 0; n < sizeof folders / sizeof folders[0]; n++) {
        char path[512];
        clt_tokenizer *t;
        CLT_SCOPED(clt_json_doc) *doc = NULL;
        snprintf(path, sizeof path, DATA "%s_strings.json", folders[n]);
        must(clt_json_parse_file(path, CLT_EDATA, &doc), path);
        snprintf(path, sizeof path, DATA "%s", folders[n]);
        must(clt_tokenizer_open(path, &t), path);
        for (const clt_json *s = clt_json_first(clt_json_root(doc)); s; s = clt_json_next(s)) {
            const char *text = clt_json_string(clt_json_get(s, "text"));
            const clt_json *id = clt_json_first(clt_json_get(s, "ids"));
            clt_ids got = {0};
            must(clt_tokenizer_encode(t, text, strlen(text), &got), text);
            for (size_t i = 0; i < got.count; i++, id = clt_json_next(id)) {
                int64_t want = -1;
                if (!id || !clt_json_int(id, &want) || want != got.id[i])
                    fail_msg("%s: '%s': id %zu is %u, not %lld", folders[n], text, i, got.id[i],
                             (long long)want);
            }
            assert_null(id);
            free(got.id);
        }
        clt_tokenizer_close(t);
    }
}

TEST_PROGRAM(.device = true);
